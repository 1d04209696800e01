//! The three critics: one prompt, three things to judge.

use graph::{Ask, Go, Replies, Request};
use serde_json::json;

use super::state::{Decision, Error, Panel, Verdict};
use super::table::{Report, Step};
use super::{APPROVE, Done, agents};
use crate::answer;
use crate::prompt::{self, Prompt};

const CRITIC: Prompt = Prompt { long: include_str!("critic.md"), short: include_str!("critic.small.md") };
const TOKENS_MAX: u32 = 300;
const SMALL_TOKENS_MAX: u32 = 80;
const NO_REASON: &str = "No reason was given; be more specific and more complete, and keep to the question.";

/// What a critic goes by, as the document says it.
struct Standard {
    what: &'static str,
    approve: &'static [&'static str],
    /// The first one is all that a small model is told.
    reject: &'static [&'static str],
}

const PLAN: Standard = Standard {
    what: "a plan of research and expert steps",
    approve: &[
        "its research and expert steps are sufficient to answer the question",
        "no research is fine if the question needs no outside information",
    ],
    reject: &["its steps do not lead to an answer of the question.", "a step is unclear, or a needed step is missing."],
};
const RESEARCH: Standard = Standard {
    what: "the result of one research step",
    approve: &["it is relevant to the step, accurate by the passages, and complete enough for it"],
    reject: &[
        "it says nothing about the step.",
        "the passages contradict it, or do not say what it says.",
        "a part of the step is not answered although it could be found.",
    ],
};
const EXPERT: Standard = Standard {
    what: "an expert's answer",
    approve: &["it addresses the question, and its reasoning supports it"],
    reject: &["it does not answer the question.", "its reasoning is missing or does not lead to it.", "a calculation or a fact in it is wrong."],
};

/// One judgement: the work goes last and alone, the passages it may rest on before it.
fn ask(s: &Panel, step: Step, standard: &Standard, work: String, spans: &[evidence::Span]) -> Request {
    let mind = &s.model;
    let question = prompt::clipped(&s.asked(), mind.question_tokens());
    let Standard { what, approve, reject } = *standard;
    let mut messages =
        vec![prompt::system(prompt::render(CRITIC.of(mind), json!({ "what": what, "question": question, "approve": approve, "reject": reject })))];
    let tokens_max = if mind.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX };
    let work = prompt::user(work);
    let used = prompt::tokens_of(&messages) + prompt::tokens_of(std::slice::from_ref(&work));
    messages.extend(answer::show(spans, &work.content, mind.evidence_tokens(used, tokens_max)).0);
    messages.push(work);
    let schema = json!({
        "type": "object",
        "required": ["decision", "feedback"],
        "additionalProperties": false,
        "properties": {
            "decision": { "enum": ["approve", "reject"] },
            "feedback": { "type": "string", "maxLength": if mind.is_small { 160 } else { 800 } },
        },
    });
    prompt::call("critic", messages, Some(schema), tokens_max).label(step.name())
}

fn read(replies: &Replies<'_>, index: usize, step: Step) -> Result<Verdict, Error> {
    let mut verdict: Verdict = prompt::read(replies, index).map_err(|failure| Error::of(step, &failure))?;
    verdict.feedback = verdict.feedback.trim().to_owned();
    if verdict.decision == Decision::Reject && verdict.feedback.is_empty() {
        verdict.feedback = NO_REASON.to_owned();
    }
    Ok(verdict)
}

fn report(verdict: &Verdict) -> Report {
    match verdict.decision {
        Decision::Approve => Report::Approved,
        Decision::Reject => Report::Rejected,
    }
}

fn answered(s: &mut Panel, step: Step, verdict: &Verdict, step_id: Option<usize>) {
    let decision = if verdict.decision == Decision::Approve { "approve" } else { "reject" };
    agents::respond(s, step, format!("{decision}: {}", verdict.feedback).trim_end_matches(": ").to_owned(), step_id);
}

pub(super) fn ask_plan(s: &Panel) -> Ask {
    let research: Vec<&str> = s.research.iter().map(|one| one.step.as_str()).collect();
    let work = json!({ "research_steps": research, "expert_steps": s.expert_steps }).to_string();
    Ask::one(ask(s, Step::CriticPlanner, &PLAN, work, &[]))
}

pub(super) fn fold_plan(s: &mut Panel, replies: &Replies<'_>) -> Done {
    let verdict = match read(replies, 0, Step::CriticPlanner) {
        Ok(verdict) => verdict,
        Err(error) => return Done::Wrong(vec![error]),
    };
    answered(s, Step::CriticPlanner, &verdict, None);
    let note = json!(verdict);
    let report = report(&verdict);
    s.plan_verdict = Some(verdict);
    if report == Report::Approved && s.asks_approval {
        return Done::Aside(Go::to(APPROVE).note(Step::CriticPlanner.name(), note));
    }
    Done::Report(report, note)
}

pub(super) fn ask_research(s: &Panel) -> Ask {
    let request = |index: usize| {
        let one = &s.research[index];
        let work = format!("Step: {}\nResult: {}", one.step, one.result.as_deref().unwrap_or_default());
        let spans = one.memory.as_ref().map_or(&[][..], |memory| &memory.spans);
        ask(s, Step::CriticResearcher, &RESEARCH, work, spans)
    };
    Ask { requests: s.to_review().into_iter().map(request).collect() }
}

/// One that could not be judged is judged again; the verdicts on the others stand.
pub(super) fn fold_research(s: &mut Panel, replies: &Replies<'_>) -> Done {
    let mut errors = Vec::new();
    let mut noted = Vec::new();
    for (at, index) in s.to_review().into_iter().enumerate() {
        match read(replies, at, Step::CriticResearcher) {
            Ok(verdict) => {
                answered(s, Step::CriticResearcher, &verdict, Some(index));
                noted.push(json!({ "step": index, "decision": verdict.decision, "feedback": verdict.feedback }));
                s.research[index].verdict = Some(verdict);
            }
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Done::Wrong(errors);
    }
    let report = if s.research.iter().any(|one| one.is_rejected()) { Report::Rejected } else { Report::Approved };
    Done::Report(report, json!(noted))
}

pub(super) fn ask_expert(s: &Panel) -> Ask {
    let (answer, reasoning) = s.expert.as_ref().map_or(("", ""), |expert| (&expert.answer, &expert.reasoning));
    let work = format!("Answer: {answer}\nReasoning: {reasoning}");
    Ask::one(ask(s, Step::CriticExpert, &EXPERT, work, &s.spans()))
}

pub(super) fn fold_expert(s: &mut Panel, replies: &Replies<'_>) -> Done {
    let verdict = match read(replies, 0, Step::CriticExpert) {
        Ok(verdict) => verdict,
        Err(error) => return Done::Wrong(vec![error]),
    };
    answered(s, Step::CriticExpert, &verdict, None);
    let (report, note) = (report(&verdict), json!(verdict));
    s.expert_verdict = Some(verdict);
    Done::Report(report, note)
}

//! The three critics: one prompt for three kinds of drafts.
//!
//! Research results and answers are first checked against their evidence ([`review`]), and the critic's prompt lists the findings. If the
//! critic is a small model and a finding is hard, the draft is rejected without a model call.

use evidence::Span;
use graph::{Ask, Go, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::review::{self, Draft, Finding, review};
use super::state::{Decision, Error, Panel, Verdict};
use super::table::{Report, Step};
use super::{APPROVE, Done, agents};
use crate::answer;
use crate::input::ModelProfile;
use crate::prompt::{self, Prompt};
use crate::verify::Check;

const CRITIC: Prompt = Prompt { long: include_str!("critic.md"), short: include_str!("critic.small.md") };
const TOKENS_MAX: u32 = 300;
const SMALL_TOKENS_MAX: u32 = 80;
const NO_REASON: &str = "No reason was given; be more specific and more complete, and keep to the question.";

/// The criteria of a critic, as in the specification.
struct Standard {
    what: &'static str,
    approve: &'static [&'static str],
    /// A small model is given only the first one.
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

/// One judgement: the draft comes last and alone, after the passages it may rely on.
fn ask(profile: &ModelProfile, question: &str, standard: &Standard, work: String, spans: &[Span], findings: &[Finding]) -> Request {
    let question = prompt::clipped(question, profile.question_tokens());
    let Standard { what, approve, reject } = *standard;
    let findings: Vec<String> = findings.iter().map(Finding::message).collect();
    let context = json!({ "what": what, "question": question, "approve": approve, "reject": reject, "findings": findings });
    let mut messages = vec![prompt::system(prompt::render(CRITIC.of(profile), context))];
    let tokens_max = if profile.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX };
    let work = prompt::user(work);
    let used = prompt::tokens_of(&messages) + prompt::tokens_of(std::slice::from_ref(&work));
    messages.extend(answer::show(spans, &work.content, profile.evidence_tokens(used, tokens_max)).0);
    messages.push(work);
    let mut properties = json!({
        "decision": { "enum": ["approve", "reject"] },
        "feedback": { "type": "string", "maxLength": if profile.is_small { 160 } else { 800 } },
    });
    if !profile.is_small {
        properties["retry_helps"] = json!({ "type": "boolean" });
    }
    let schema = json!({ "type": "object", "required": ["decision", "feedback"], "additionalProperties": false, "properties": properties });
    prompt::call("critic", messages, Some(schema), tokens_max)
}

/// Whether the findings decide without a model call.
fn is_decided(profile: &ModelProfile, findings: &[Finding]) -> bool {
    profile.is_small && review::is_rejected(findings)
}

/// The model call about a draft, if its findings do not decide; also used to measure critics outside a panel.
pub fn ask_about(profile: &ModelProfile, draft: &Draft<'_>) -> Option<Request> {
    let findings = review(draft);
    (!is_decided(profile, &findings)).then(|| critic_request(profile, draft, &findings))
}

fn critic_request(profile: &ModelProfile, draft: &Draft<'_>, findings: &[Finding]) -> Request {
    let (standard, work) = match draft.step {
        Some(step) => (&RESEARCH, format!("Step: {step}\nResult: {}", draft.text)),
        None if draft.reasoning.is_empty() => (&EXPERT, format!("Answer: {}", draft.text)),
        None => (&EXPERT, format!("Answer: {}\nReasoning: {}", draft.text, draft.reasoning)),
    };
    ask(profile, draft.question, standard, work, draft.spans, findings)
}

/// The critic's decision about a draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CriticDecision {
    /// Whether the draft was rejected.
    pub is_rejected: bool,
    /// Feedback for its author.
    pub feedback: String,
    /// Findings without a model.
    pub findings: Vec<Finding>,
    /// The model's own decision, if it was called.
    pub model_rejects: Option<bool>,
}

/// A critic's decision about a draft, given the model's reply; `None` if no model was called.
pub fn judge(profile: &ModelProfile, draft: &Draft<'_>, reply: Option<&Value>) -> Result<CriticDecision, String> {
    let findings = review(draft);
    if is_decided(profile, &findings) {
        return Ok(CriticDecision { is_rejected: true, feedback: review::feedback(&findings), findings, model_rejects: None });
    }
    let value = reply.ok_or("the critic's model was not asked")?;
    let value = prompt::json_in(value).ok_or_else(|| format!("not a verdict: {}", prompt::shown(value)))?;
    let replied: Verdict = serde_json::from_value(value).map_err(|error| format!("not a verdict: {error}"))?;
    let model_rejects = Some(replied.decision == Decision::Reject);
    let verdict = settled(profile, &findings, tidy(replied));
    Ok(CriticDecision { is_rejected: verdict.decision == Decision::Reject, feedback: verdict.feedback, findings, model_rejects })
}

fn rejected_by(findings: &[Finding]) -> Verdict {
    Verdict { decision: Decision::Reject, feedback: review::feedback(findings), retry_helps: None }
}

/// The verdict after the findings are taken into account.
fn settled(profile: &ModelProfile, findings: &[Finding], verdict: Verdict) -> Verdict {
    // A rejection without any finding costs a retry; `baton eval critics` measures how often a small model is right then.
    if profile.is_small && verdict.decision == Decision::Reject && findings.is_empty() {
        return Verdict { decision: Decision::Approve, ..verdict };
    }
    verdict
}

fn read(replies: &Replies<'_>, index: usize, step: Step) -> Result<Verdict, Error> {
    prompt::read(replies, index).map(tidy).map_err(|failure| Error::of(step, &failure))
}

fn tidy(mut verdict: Verdict) -> Verdict {
    verdict.feedback = verdict.feedback.trim().to_owned();
    if verdict.decision == Decision::Reject && verdict.feedback.is_empty() {
        verdict.feedback = NO_REASON.to_owned();
    }
    verdict
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
    Ask::one(ask(&s.model, &s.full_question(), &PLAN, work, &[], &[]).label(Step::CriticPlanner.name()))
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

/// The findings about the result of a research step.
fn research_findings(s: &Panel, index: usize) -> Vec<Finding> {
    with_research(s, index, review)
}

fn with_research<T>(s: &Panel, index: usize, then: impl FnOnce(&Draft<'_>) -> T) -> T {
    let one = &s.research[index];
    let question = s.full_question();
    let spans = one.memory.as_ref().map_or(&[][..], |memory| &memory.spans);
    let draft =
        Draft { question: &question, step: Some(&one.step), text: one.result.as_deref().unwrap_or_default(), reasoning: "", spans, judged: None };
    with_judged(s, draft, then)
}

/// Calls `then` with the draft and the verifier's results, if there are any.
fn with_judged<T>(s: &Panel, draft: Draft<'_>, then: impl FnOnce(&Draft<'_>) -> T) -> T {
    let judged = check_of(s, &draft).judged(draft.spans);
    then(&Draft { judged: judged.as_ref(), ..draft })
}

/// The check of a draft as far as it has progressed.
fn check_of(s: &Panel, draft: &Draft<'_>) -> Check {
    let known = s.checks.iter().find(|check| check.text == draft.claims());
    known.cloned().unwrap_or_else(|| Check::new(draft.claims(), draft.spans, s.means()))
}

/// The drafts of a critic that are not checked against their evidence yet, with that evidence.
fn open_checks(s: &Panel, step: Step) -> Vec<(Check, Vec<Span>)> {
    let of = |draft: &Draft<'_>| (check_of(s, draft), draft.spans.to_vec());
    let all: Vec<(Check, Vec<Span>)> = match step {
        Step::CriticResearcher => s.to_review().into_iter().map(|index| with_research(s, index, of)).collect(),
        _ => vec![with_answer(s, of)],
    };
    all.into_iter().filter(|(check, _)| !check.is_done()).collect()
}

/// The effects that the open checks of a critic need; `None` if they are done.
fn ask_checks(s: &Panel, step: Step) -> Option<Ask> {
    let open = open_checks(s, step);
    (!open.is_empty()).then(|| Ask { requests: open.iter().filter_map(|(check, spans)| check.request(spans, s.means())).collect() })
}

/// Takes the replies to [`ask_checks`] and repeats the step; `None` if they are done.
fn fold_checks(s: &mut Panel, step: Step, replies: &Replies<'_>) -> Option<Done> {
    let open = open_checks(s, step);
    if open.is_empty() {
        return None;
    }
    let mut go = Go::to(step.name());
    for (at, (mut check, spans)) in open.into_iter().enumerate() {
        check.take(&spans, s.means(), replies.value(at));
        if let Some(why) = check.failure.as_deref().filter(|_| check.is_done()) {
            go = go.note("check_failed", why);
        }
        s.checks.retain(|known| known.text != check.text);
        s.checks.push(check);
    }
    Some(Done::Aside(go))
}

pub(super) fn ask_research(s: &Panel) -> Ask {
    if let Some(ask) = ask_checks(s, Step::CriticResearcher) {
        return ask;
    }
    let request =
        |index: usize| with_research(s, index, |draft| ask_about(&s.model, draft)).map(|request| request.label(Step::CriticResearcher.name()));
    Ask { requests: s.to_review().into_iter().filter_map(request).collect() }
}

/// A result that could not be judged is judged again; the verdicts on the others are kept.
pub(super) fn fold_research(s: &mut Panel, replies: &Replies<'_>) -> Done {
    if let Some(done) = fold_checks(s, Step::CriticResearcher, replies) {
        return done;
    }
    let mut errors = Vec::new();
    let mut noted = Vec::new();
    let mut at = 0;
    for index in s.to_review() {
        let findings = research_findings(s, index);
        let verdict = if is_decided(&s.model, &findings) {
            Ok(rejected_by(&findings))
        } else {
            at += 1;
            read(replies, at - 1, Step::CriticResearcher).map(|verdict| settled(&s.model, &findings, verdict))
        };
        match verdict {
            Ok(verdict) => {
                answered(s, Step::CriticResearcher, &verdict, Some(index));
                let mut note = json!(verdict);
                note["step"] = json!(index);
                noted.push(with_findings(note, &findings));
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

fn with_findings(mut note: Value, findings: &[Finding]) -> Value {
    if !findings.is_empty() {
        note["findings"] = json!(findings);
    }
    note
}

fn with_answer<T>(s: &Panel, then: impl FnOnce(&Draft<'_>) -> T) -> T {
    let (text, reasoning) = s.expert.as_ref().map_or(("", ""), |expert| (&expert.answer, &expert.reasoning));
    let (question, spans) = (s.full_question(), s.spans());
    with_judged(s, Draft { question: &question, step: None, text, reasoning, spans: &spans, judged: None }, then)
}

pub(super) fn ask_expert(s: &Panel) -> Ask {
    if let Some(ask) = ask_checks(s, Step::CriticExpert) {
        return ask;
    }
    let request = with_answer(s, |draft| ask_about(&s.model, draft)).map(|request| request.label(Step::CriticExpert.name()));
    Ask { requests: request.into_iter().collect() }
}

pub(super) fn fold_expert(s: &mut Panel, replies: &Replies<'_>) -> Done {
    if let Some(done) = fold_checks(s, Step::CriticExpert, replies) {
        return done;
    }
    let findings = with_answer(s, review);
    let verdict = if is_decided(&s.model, &findings) {
        rejected_by(&findings)
    } else {
        match read(replies, 0, Step::CriticExpert) {
            Ok(verdict) => settled(&s.model, &findings, verdict),
            Err(error) => return Done::Wrong(vec![error]),
        }
    };
    answered(s, Step::CriticExpert, &verdict, None);
    let (report, note) = (report(&verdict), with_findings(json!(verdict), &findings));
    s.expert_verdict = Some(verdict);
    Done::Report(report, note)
}

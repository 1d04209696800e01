//! What each agent requests and how it handles the replies. The critics and the finalizer have files of their own.

use graph::{Ask, Digest, Go, Replies, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{AgentMessage, EXPERT_STEPS_MAX, Error, Expert, FinalizeReason, Kind, Panel, RESEARCH_STEPS_MAX, Research};
use super::table::{Report, Step};
use super::worker::{EXPERT, RESEARCHER, Task, WorkerResult};
use super::{Done, HISTORY_TURNS_MAX, ORCHESTRATOR, critics, finalizer, orchestrate};
use crate::approval::{self, Decision, REVISIONS_MAX};
use crate::prompt::{self, Prompt};
use crate::toolbox::{self, PlanPurpose, Toolbox};

type Parts = (fn(&Panel) -> Ask, fn(&mut Panel, &Replies<'_>) -> Done);

pub(super) fn of(step: Step) -> Parts {
    match step {
        Step::Input => (ask_tools, fold_tools),
        Step::Planner => (ask_plan, fold_plan),
        Step::CriticPlanner => (critics::ask_plan, critics::fold_plan),
        Step::Researcher => (ask_research, fold_research),
        Step::CriticResearcher => (critics::ask_research, critics::fold_research),
        Step::Expert => (ask_expert, fold_expert),
        Step::CriticExpert => (critics::ask_expert, critics::fold_expert),
        Step::Finalizer => (finalizer::ask, finalizer::fold),
    }
}

const PLANNER: Prompt = Prompt { long: include_str!("planner.md"), short: include_str!("planner.small.md") };
const PLAN_TOKENS_MAX: u32 = 700;
const SMALL_PLAN_TOKENS_MAX: u32 = 220;
const SMALL_STEPS_MAX: usize = 3;
/// Time limit for a complete loop of model and tool calls.
const WORKER_MS_MAX: u64 = 15 * 60 * 1_000;

fn ask_tools(s: &Panel) -> Ask {
    Ask::one(toolbox::ask(&s.full_question()))
}

/// Without a tool list the panel answers from the model's own knowledge, and the answer states that.
fn fold_tools(s: &mut Panel, replies: &Replies<'_>) -> Done {
    let note = match Toolbox::read(replies, 0) {
        Ok(toolbox) => {
            s.tools = toolbox.fitting(&s.model, PlanPurpose::Answers, false).tools;
            json!({ "tools": s.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>() })
        }
        Err(failure) => json!({ "tools": [], "why": failure.to_string() }),
    };
    Done::Report(Report::Done, note)
}

fn toolbox(s: &Panel) -> Toolbox {
    Toolbox { tools: s.tools.clone() }
}

/// Feedback given to an agent so far: its instructions after the first.
fn feedback(s: &Panel, to: Step) -> Vec<&str> {
    let instructions = s.messages.iter().filter(|message| message.receiver == to.name() && message.kind == Kind::Instruction);
    let mut instructions: Vec<&str> = instructions.map(|message| message.content.as_str()).skip(1).collect();
    instructions.dedup();
    // An instruction that was repeated after an error is not feedback.
    instructions.retain(|content| !content.starts_with("Develop a logical plan to answer: ") && !content.starts_with("Perform steps: "));
    instructions
}

pub(super) fn logical_plan(s: &Panel) -> String {
    let research = s.research.iter().map(|one| one.step.as_str());
    format!("{}\n{}", research.collect::<Vec<_>>().join("\n"), s.expert_steps.join("\n"))
}

fn ask_plan(s: &Panel) -> Ask {
    let profile = &s.model;
    let (research_max, expert_max) = if profile.is_small { (SMALL_STEPS_MAX, SMALL_STEPS_MAX) } else { (RESEARCH_STEPS_MAX, EXPERT_STEPS_MAX) };
    let chars_max = if profile.is_small { 120 } else { 400 };
    let text = prompt::render(
        PLANNER.of(profile),
        json!({
            "research_max": research_max,
            "expert_max": expert_max,
            "tools": toolbox(s).describe(profile),
            "feedback": feedback(s, Step::Planner),
            "plan": logical_plan(s),
        }),
    );
    let steps = |least: usize, most: usize| json!({ "type": "array", "minItems": least, "maxItems": most, "items": { "type": "string", "minLength": 1, "maxLength": chars_max } });
    let schema = json!({
        "type": "object",
        "required": ["research_steps", "expert_steps"],
        "additionalProperties": false,
        "properties": { "research_steps": steps(0, if s.tools.is_empty() { 0 } else { research_max }), "expert_steps": steps(1, expert_max) },
    });
    let mut messages = vec![prompt::system(text)];
    messages.extend(crate::input::fitted(&crate::input::recent(&s.history, HISTORY_TURNS_MAX), profile.history_tokens()));
    messages.push(prompt::user(prompt::clipped(&s.question, profile.question_tokens())));
    let tokens_max = if profile.is_small { SMALL_PLAN_TOKENS_MAX } else { PLAN_TOKENS_MAX };
    Ask::one(prompt::call("plan", messages, Some(schema), tokens_max).label("planning"))
}

#[derive(Deserialize)]
struct Plan {
    research_steps: Vec<String>,
    expert_steps: Vec<String>,
}

impl Plan {
    fn tidy(self) -> Plan {
        let tidy = |steps: Vec<String>, most: usize| {
            steps.into_iter().map(|step| step.trim().to_owned()).filter(|step| !step.is_empty()).take(most).collect::<Vec<_>>()
        };
        Plan { research_steps: tidy(self.research_steps, RESEARCH_STEPS_MAX), expert_steps: tidy(self.expert_steps, EXPERT_STEPS_MAX) }
    }

    fn put(self, s: &mut Panel) {
        s.research = self.research_steps.into_iter().map(|step| Research { step, ..Research::default() }).collect();
        s.expert_steps = self.expert_steps;
        s.current_research_index = None;
    }
}

fn fold_plan(s: &mut Panel, replies: &Replies<'_>) -> Done {
    let plan = match prompt::read::<Plan>(replies, 0) {
        Ok(plan) => plan.tidy(),
        Err(failure) => return Done::Wrong(vec![Error::of(Step::Planner, &failure)]),
    };
    if plan.expert_steps.is_empty() {
        return Done::Wrong(vec![Error::validation(Step::Planner, "the plan has no expert_steps; the answer needs at least one")]);
    }
    let note = json!({ "research_steps": plan.research_steps, "expert_steps": plan.expert_steps });
    plan.put(s);
    s.plan_verdict = None;
    respond(s, Step::Planner, "The plan is ready.".to_owned(), None);
    Done::Report(Report::Done, note)
}

pub(super) fn respond(s: &mut Panel, from: Step, content: String, step_id: Option<usize>) {
    s.add_message(AgentMessage { sender: from.name().into(), receiver: ORCHESTRATOR.into(), kind: Kind::Response, content, step_id });
}

fn ask_research(s: &Panel) -> Ask {
    let request = |index: usize| {
        let one = &s.research[index];
        let name = Step::Researcher.name();
        let own_messages = s.messages.iter().filter(|message| message.step_id == Some(index) && (message.receiver == name || message.sender == name));
        let task = Task {
            question: s.full_question(),
            steps: vec![one.step.clone()],
            messages: own_messages.cloned().collect(),
            results: Vec::new(),
            spans: Vec::new(),
            model: s.model,
            tools: s.tools.clone(),
            tool_calls_max: s.settings.tool_calls_max,
            memory: one.memory.clone().unwrap_or_default(),
        };
        Request::from(graph::agent(RESEARCHER, json!(task))).label(one.step.as_str()).deadline_ms(WORKER_MS_MAX)
    };
    Ask { requests: s.to_research().into_iter().map(request).collect() }
}

/// A step that failed stays open, with the results of its researcher; the others keep their results.
fn fold_research(s: &mut Panel, replies: &Replies<'_>) -> Done {
    let mut errors = Vec::new();
    let mut noted = Vec::new();
    for (at, index) in s.to_research().into_iter().enumerate() {
        match replies.parse::<WorkerResult>(at) {
            Ok(WorkerResult { error: Some(failure), memory, .. }) => {
                s.research[index].memory = Some(memory);
                errors.push(Error::of(Step::Researcher, &failure));
            }
            Ok(WorkerResult { result, memory, .. }) if !result.trim().is_empty() => {
                noted.push(json!({ "step": index, "passages": memory.spans.len() }));
                let one = &mut s.research[index];
                (one.result, one.verdict, one.memory) = (Some(result), None, Some(memory));
                respond(s, Step::Researcher, "The research is done.".to_owned(), Some(index));
            }
            Ok(_) => errors.push(Error::validation(Step::Researcher, format!("research step {index} came back without a result"))),
            Err(failure) => errors.push(Error::of(Step::Researcher, &failure)),
        }
    }
    if errors.is_empty() { Done::Report(Report::Done, Value::Array(noted)) } else { Done::Wrong(errors) }
}

fn ask_expert(s: &Panel) -> Ask {
    let name = Step::Expert.name();
    let task = Task {
        question: s.full_question(),
        steps: s.expert_steps.clone(),
        messages: s.messages.iter().filter(|message| message.receiver == name || message.sender == name).cloned().collect(),
        results: s.research.iter().map(|one| format!("{}: {}", one.step, one.result.as_deref().unwrap_or_default())).collect(),
        spans: s.research.iter().filter_map(|one| one.memory.as_ref()).flat_map(|memory| memory.spans.iter().cloned()).collect(),
        model: s.model,
        tools: s.tools.clone(),
        tool_calls_max: s.settings.tool_calls_max,
        memory: s.expert.as_ref().map(|expert| expert.memory.clone()).unwrap_or_default(),
    };
    Ask::one(Request::from(graph::agent(EXPERT, json!(task))).label("working out the answer").deadline_ms(WORKER_MS_MAX))
}

fn fold_expert(s: &mut Panel, replies: &Replies<'_>) -> Done {
    match replies.parse::<WorkerResult>(0) {
        Ok(WorkerResult { error: Some(failure), .. }) | Err(failure) => Done::Wrong(vec![Error::of(Step::Expert, &failure)]),
        Ok(WorkerResult { result, .. }) if result.trim().is_empty() => {
            Done::Wrong(vec![Error::validation(Step::Expert, "the expert came back without an answer")])
        }
        Ok(WorkerResult { result, reasoning, memory, .. }) => {
            let note = json!({ "answer": result });
            s.expert = Some(Expert { answer: result, reasoning, memory });
            s.expert_verdict = None;
            respond(s, Step::Expert, "The answer is ready.".to_owned(), None);
            Done::Report(Report::Done, note)
        }
    }
}

/// The hash of a plan: the plan that was approved is the plan that runs.
fn digest(s: &Panel) -> Digest {
    let steps: Vec<&String> = s.research.iter().map(|one| &one.step).collect();
    Digest::of(&graph::tool("plan", json!({ "research_steps": steps, "expert_steps": s.expert_steps })))
}

pub(super) fn ask_approval(s: &Panel) -> Ask {
    let listed = |steps: Vec<&str>| steps.iter().enumerate().map(|(at, step)| format!("{}. {step}", at + 1)).collect::<Vec<_>>().join("\n");
    let research = listed(s.research.iter().map(|one| one.step.as_str()).collect());
    let expert = listed(s.expert_steps.iter().map(String::as_str).collect());
    let prompt = format!(
        "May this plan be carried out for {:?}?\n\nResearch:\n{}\n\nReasoning:\n{expert}\n\nplan {}",
        s.question,
        if research.is_empty() { "(none)" } else { &research },
        digest(s)
    );
    let step = json!({ "type": "string" });
    Ask::one(approval::request(prompt, &[("research_steps", step.clone()), ("expert_steps", step)], None))
}

/// The sender of a person's comments on a plan.
const PERSON: &str = "user";

/// Yes, yes with other steps, no, or a change that the planner makes.
pub(super) fn fold_approval(s: &mut Panel, replies: &Replies<'_>) -> Go {
    #[derive(Default, Deserialize)]
    struct Edited {
        #[serde(default)]
        research_steps: Option<Vec<String>>,
        #[serde(default)]
        expert_steps: Option<Vec<String>>,
    }
    let edited = match approval::read::<Edited>(replies, None) {
        Decision::Approved(edited) => edited,
        Decision::Revise(reason) if s.messages.iter().filter(|message| message.sender == PERSON).count() < REVISIONS_MAX => {
            // The planner reads it as it reads the feedback of a critic.
            let (sender, receiver) = (PERSON.to_owned(), Step::Planner.name().to_owned());
            s.add_message(AgentMessage { sender, receiver, kind: Kind::Instruction, content: reason.clone(), step_id: None });
            s.current_step = Step::Planner;
            return Go::to(Step::Planner.name()).note("approval", json!({ "revise": reason }));
        }
        Decision::Revise(_) => return declined(s, format!("the plan was revised {REVISIONS_MAX} times already")),
        Decision::Declined(reason) | Decision::Wrong(reason) => return declined(s, reason),
    };
    let edited = Plan {
        research_steps: edited.research_steps.unwrap_or_else(|| s.research.iter().map(|one| one.step.clone()).collect()),
        expert_steps: edited.expert_steps.unwrap_or_else(|| s.expert_steps.clone()),
    };
    let edited = edited.tidy();
    if !edited.expert_steps.is_empty() {
        edited.put(s);
    }
    let hash = digest(s).to_string();
    orchestrate(s, Step::CriticPlanner, Report::Approved, 0).note("approval", json!({ "approved": hash }))
}

fn declined(s: &mut Panel, reason: String) -> Go {
    s.ending = Some(FinalizeReason::Declined);
    s.current_step = Step::Finalizer;
    let note = if reason.is_empty() { json!("declined") } else { json!({ "declined": reason }) };
    s.reason = reason;
    Go::to(Step::Finalizer.name()).note("approval", note)
}

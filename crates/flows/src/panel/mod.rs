//! A planner, critics, researchers, an expert and a finalizer, which answer a question by the rules of one table.
//!
//! ```text
//!   input ► planner ──► critic_planner ──► researcher ──► critic_researcher ──► expert ──► critic_expert ──► finalizer ► end
//!              ▲              │ │              ▲ ▲                │ │              ▲              │              ▲
//!              └─ rejected ───┘ │              │ └─ rejected, or ─┘ │              └── rejected ──┘              │
//!                               │              │    more steps      │                                            │
//!                               └ approve_plan ┴ (if a person is to approve)   retries spent, or an error ───────┘
//! ```
//!
//! [`table`] has all transitions. Each node carries out one step and reports; [`orchestrate`] looks the report up, counts retries, and instructs the next
//! agent in a message. The state is checked by [`Panel::check`] before and after every step, which matters when a run is forked with an edit.
//!
//! As in the specification, every rejection and every error costs a retry, and the question is given up when their number reaches `retry_limit`. A
//! critic may report that trying again cannot help; the row of the table for that is the same one, `RetriesSpent`. In both cases the answer gives the reason.
//! `approve_plan` is not in the specification's table: it is between the planner's critic and the next step, and only if the user wants it.

mod agents;
mod critics;
mod doubt;
pub mod drafts;
mod finalizer;
pub mod review;
mod state;
mod table;
mod worker;

#[cfg(test)]
mod flow_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod worker_tests;

use graph::{Ask, END, Go, Graph, GraphError, Node, Replies};
use serde_json::{Value, json};

use crate::descriptor::{Descriptor, Needs, PlanNote, Routing};
use crate::direct::ANSWER;
use crate::input::{Approve, Input};
use crate::settings::SettingsType;
use state::{AgentMessage, Error, FinalizeReason, Kind, Panel};
use table::{Report, Step, TransitionCondition};

pub use critics::{CriticDecision, ask_about, judge};
pub(crate) use state::{Settings, TOOL_CALLS_MAX};
pub(crate) use worker::uncited;
pub use worker::{EXPERT_FLOW, RESEARCHER, RESEARCHER_FLOW, expert, researcher};

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Panel",
    description: "Several roles work on the question, and critics review the result before it is answered",
    routing: Some(Routing {
        purpose: "a contested or high-stakes question whose answer critics should review",
        examples: &["Is cloning wrong? Have experts argue and check the verdict."],
        needs: Needs::Nothing,
        substitutes: &["reason", "search", "direct", "chat"],
        may_be_replaced: true,
    }),
    approvals: &[APPROVE],
    plan: Some(PlanNote { note: "planner", lists: &["research_steps", "expert_steps"] }),
    answer: Some(ANSWER),
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("panel", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    let mut builder = Graph::of::<Panel>("panel").input(begin).output(output).recall(crate::context::recall(HISTORY_TURNS_MAX));
    for step in Step::ALL {
        let (ask, fold) = agents::of(step);
        let mut edges: Vec<&str> = step.followers().into_iter().map(Step::name).collect();
        match step {
            Step::CriticPlanner => edges.push(APPROVE),
            Step::Finalizer => edges.push(END),
            _ => {}
        }
        // A critic's draft and the final answer are checked within the same step, before the judgement or the end.
        if matches!(step, Step::CriticResearcher | Step::CriticExpert | Step::Finalizer) && !edges.contains(&step.name()) {
            edges.push(step.name());
        }
        builder = builder.node(step.name(), Agent { step, ask, fold }, &edges);
    }
    let after_approval = [Step::Planner.name(), Step::Researcher.name(), Step::Expert.name(), Step::Finalizer.name()];
    builder.node(APPROVE, (agents::ask_approval, agents::fold_approval), &after_approval).build()
}

const APPROVE: &str = "approve_plan";
/// Turns of the conversation in the planner's prompt.
const HISTORY_TURNS_MAX: usize = 3;
/// The answer when no retries are left; also the trace in that case.
pub(crate) const UNANSWERED: &str = "The question could not be answered.";

fn begin(input: Input<Settings>) -> Panel {
    Panel {
        question: input.question,
        history: input.history,
        model: input.model,
        strict: input.strict,
        asks_approval: input.approve == Approve::Plan,
        settings: input.settings.unwrap_or_default(),
        current_step: Step::Input,
        retry_count: 0,
        tools: Vec::new(),
        messages: Vec::new(),
        research: Vec::new(),
        expert_steps: Vec::new(),
        plan_verdict: None,
        current_research_index: None,
        expert: None,
        expert_verdict: None,
        errors: Vec::new(),
        ending: None,
        reason: String::new(),
        is_model_down: false,
        final_answer: String::new(),
        final_reasoning_trace: String::new(),
        checks: Vec::new(),
        unchecked: None,
        answer: None,
    }
}

fn output(s: &Panel) -> Value {
    let mut output = s.answer.clone().unwrap_or_default().output("panel");
    let last = s.errors.last();
    let more = json!({
        "final_answer": s.final_answer,
        "final_reasoning_trace": s.final_reasoning_trace,
        "ending": s.ending,
        "reason": (!s.reason.is_empty()).then_some(&s.reason),
        "research_steps": s.research.iter().map(|one| &one.step).collect::<Vec<_>>(),
        "expert_steps": s.expert_steps,
        "research_results": s.research.iter().map(|one| &one.result).collect::<Vec<_>>(),
        "expert_answer": s.expert.as_ref().map(|expert| &expert.answer),
        "expert_reasoning": s.expert.as_ref().map(|expert| &expert.reasoning),
        "retry_count": s.retry_count,
        "retry_limit": s.settings.retry_limit,
        "error": last.filter(|_| s.ending == Some(FinalizeReason::Error)),
        "error_component": last.filter(|_| s.ending == Some(FinalizeReason::Error)).map(|error| &error.component),
        "errors": s.errors,
        "messages": s.messages,
    });
    if let Value::Object(more) = more {
        output.extend(more);
    }
    Value::Object(output)
}

/// Result of one step.
enum Done {
    /// A report, and a one-line note about it.
    Report(Report, Value),
    Wrong(Vec<Error>),
    End(Go),
    /// To a node outside the table, or repeats the step.
    Aside(Go),
}

/// One step of the table: the state is checked before and after, and the report decides which step is next.
struct Agent {
    step: Step,
    ask: fn(&Panel) -> Ask,
    fold: fn(&mut Panel, &Replies<'_>) -> Done,
}

impl Node<Panel> for Agent {
    fn ask(&self, s: &Panel) -> Ask {
        if s.check(self.step).is_ok() { (self.ask)(s) } else { Ask::nothing() }
    }

    fn fold(&self, s: &mut Panel, replies: &Replies<'_>) -> Go {
        // After an error ended the question, the state need not be valid any more.
        let is_over = self.step == Step::Finalizer && s.ending == Some(FinalizeReason::Error);
        if let Some(error) = s.check(self.step).err().filter(|_| !is_over) {
            // An invalid state cannot be trusted, so the run is forced to its end.
            s.errors.push(error);
            if self.step == Step::Finalizer {
                s.ending = Some(FinalizeReason::Error);
                return finalizer::end(s);
            }
            return orchestrate(s, self.step, Report::Critical, 1);
        }
        match (self.fold)(s, replies) {
            Done::Report(report, note) => {
                let count = if report == Report::Rejected { rejections(s, self.step) } else { 1 };
                orchestrate(s, self.step, report, count).note(self.step.name(), note)
            }
            Done::Wrong(errors) => {
                let is_critical = errors.iter().any(|error| !error.is_recoverable);
                let note = json!(errors);
                for error in errors {
                    let content = format!("{:?}: {}", error.kind, error.message).to_lowercase();
                    s.add_message(AgentMessage {
                        sender: error.component.clone(),
                        receiver: ORCHESTRATOR.into(),
                        kind: Kind::Error,
                        content,
                        step_id: None,
                    });
                    s.errors.push(error);
                }
                orchestrate(s, self.step, if is_critical { Report::Critical } else { Report::Failed }, 1).note("error", note)
            }
            Done::End(go) | Done::Aside(go) => go,
        }
    }
}

const ORCHESTRATOR: &str = "orchestrator";

/// Several parallel research steps may be rejected at once; each rejection counts.
fn rejections(s: &Panel, step: Step) -> u32 {
    match step {
        Step::CriticResearcher => s.research.iter().filter(|one| one.is_rejected()).count() as u32,
        _ => 1,
    }
}

/// The specification's orchestrator: finds the row, counts retries, and instructs the next agent.
fn orchestrate(s: &mut Panel, step: Step, report: Report, count: u32) -> Go {
    let mut when = table::when(s, step, report);
    let Some(mut row) = table::find(step, when) else {
        // `table_tests` covers every report of every step.
        return Go::fail(format!("{} cannot report {report:?}", step.name()));
    };
    if row.is_retry {
        s.retry_count += count;
    }
    let is_final = when == TransitionCondition::Rejected && verdict_is_final(s, step);
    if (is_final || s.retry_count >= s.settings.retry_limit)
        && let Some(spent) = table::find(step, TransitionCondition::RetriesSpent)
    {
        s.reason = given_up(s, step, when, is_final);
        (when, row) = (TransitionCondition::RetriesSpent, spent);
    }
    // A model that failed permanently ends the run as failed; a rejection, a budget or an unusable reply does not.
    s.is_model_down = matches!(report, Report::Failed | Report::Critical) && s.errors.last().is_some_and(Error::is_model_down);
    let to = row.to.unwrap_or(step);
    match when {
        TransitionCondition::RetriesSpent if is_final => s.ending = Some(FinalizeReason::RetryCannotHelp),
        TransitionCondition::RetriesSpent => s.ending = Some(FinalizeReason::RetriesSpent),
        TransitionCondition::Critical => s.ending = Some(FinalizeReason::Error),
        TransitionCondition::Approved => s.ending = Some(FinalizeReason::Approved),
        TransitionCondition::ApprovedWithResearch => {
            s.current_research_index = None;
            for one in &mut s.research {
                (one.result, one.verdict, one.memory) = (None, None, None);
            }
        }
        _ => {}
    }
    s.current_step = to;
    instruct(s, to, when);
    Go::to(to.name()).note("step", json!({ "from": step.name(), "to": to.name(), "retry_count": s.retry_count }))
}

fn verdict_is_final(s: &Panel, step: Step) -> bool {
    let is_final = |verdict: &Option<state::Verdict>| verdict.as_ref().is_some_and(state::Verdict::is_final);
    match step {
        Step::CriticPlanner => is_final(&s.plan_verdict),
        Step::CriticResearcher => s.research.iter().any(|one| is_final(&one.verdict)),
        Step::CriticExpert => is_final(&s.expert_verdict),
        Step::Input | Step::Planner | Step::Researcher | Step::Expert | Step::Finalizer => false,
    }
}

/// Why a question is given up: the last rejection with its reason, or the last error.
fn given_up(s: &Panel, step: Step, when: TransitionCondition, is_final: bool) -> String {
    let tries = match s.retry_count {
        _ if is_final => String::new(),
        1 => " after 1 retry".to_owned(),
        count => format!(" after {count} retries"),
    };
    let feedback = |verdict: &Option<state::Verdict>| verdict.as_ref().map(|verdict| verdict.feedback.clone()).unwrap_or_default();
    let (what, why) = match (when, step) {
        (TransitionCondition::Rejected, Step::CriticPlanner) => ("The plan was rejected".to_owned(), feedback(&s.plan_verdict)),
        (TransitionCondition::Rejected, Step::CriticResearcher) => {
            let is_cause = |one: &&state::Research| one.is_rejected() && (!is_final || one.verdict.as_ref().is_some_and(state::Verdict::is_final));
            let one = s.research.iter().rfind(is_cause);
            let step = one.map(|one| one.step.trim_end_matches('.')).unwrap_or_default();
            (format!("What research found for “{step}” was rejected"), one.map(|one| feedback(&one.verdict)).unwrap_or_default())
        }
        (TransitionCondition::Rejected, _) => ("The expert's answer was rejected".to_owned(), feedback(&s.expert_verdict)),
        _ => {
            let error = s.errors.last();
            let component = error.map_or_else(|| step.name().to_owned(), |error| error.component.clone());
            (format!("{component} failed"), error.map(|error| error.message.clone()).unwrap_or_default())
        }
    };
    let cannot = if is_final { ", and trying again cannot help" } else { "" };
    let why = evidence::visible(why.trim());
    if why.is_empty() { format!("{what}{tries}{cannot}.") } else { format!("{what}{tries}{cannot}: {why}") }
}

/// The first message to the next agent.
fn instruct(s: &mut Panel, to: Step, when: TransitionCondition) {
    let is_again = when == TransitionCondition::Failed;
    let rejected =
        |verdict: &Option<state::Verdict>| verdict.as_ref().filter(|_| when == TransitionCondition::Rejected).map(|verdict| verdict.feedback.clone());
    let instructions: Vec<(String, Option<usize>)> = match to {
        Step::Input => Vec::new(),
        _ if is_again => {
            let open: Vec<Option<usize>> = match to {
                Step::Researcher => s.to_research().into_iter().map(Some).collect(),
                Step::CriticResearcher => s.to_review().into_iter().map(Some).collect(),
                _ => vec![None],
            };
            open.into_iter().map(|step_id| (last_message_to(s, to, step_id), step_id)).collect()
        }
        Step::Planner => {
            let first = format!("Develop a logical plan to answer: {}", s.question);
            vec![(rejected(&s.plan_verdict).unwrap_or(first), None)]
        }
        Step::Researcher => {
            if when != TransitionCondition::Rejected {
                s.current_research_index = match s.current_research_index {
                    _ if s.settings.parallel_research => s.research.len().checked_sub(1),
                    None => Some(0),
                    Some(index) => Some((index + 1).min(s.research.len() - 1)),
                };
            }
            let instruction = |index: usize| rejected(&s.research[index].verdict).unwrap_or_else(|| format!("Research: {}", s.research[index].step));
            s.to_research().into_iter().map(|index| (instruction(index), Some(index))).collect()
        }
        Step::Expert => {
            let first = format!("Perform steps: {}", s.expert_steps.join(" "));
            vec![(rejected(&s.expert_verdict).unwrap_or(first), None)]
        }
        Step::CriticPlanner => vec![(format!("Review plan: {}", agents::logical_plan(s)), None)],
        Step::CriticResearcher => {
            let instruction = |index: usize| format!("Review research: {}", s.research[index].result.as_deref().unwrap_or_default());
            s.to_review().into_iter().map(|index| (instruction(index), Some(index))).collect()
        }
        Step::CriticExpert => {
            let answer = s.expert.as_ref().map_or("", |expert| expert.answer.as_str());
            vec![(format!("Review expert answer: {answer}"), None)]
        }
        Step::Finalizer => vec![("Generate final answer and reasoning trace".to_owned(), None)],
    };
    for (content, step_id) in instructions {
        s.add_message(AgentMessage { sender: ORCHESTRATOR.into(), receiver: to.name().into(), kind: Kind::Instruction, content, step_id });
    }
}

fn last_message_to(s: &Panel, to: Step, step_id: Option<usize>) -> String {
    let instruction =
        s.messages.iter().rev().find(|message| message.receiver == to.name() && message.step_id == step_id && message.kind == Kind::Instruction);
    instruction.map(|message| message.content.clone()).unwrap_or_default()
}

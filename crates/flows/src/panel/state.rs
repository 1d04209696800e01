//! The state of a panel and its invariants.

use evidence::Span;
use graph::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::Step;
use crate::input::ModelProfile;
use crate::verify::{Check, CheckOptions, Unchecked, Verify};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Panel {
    pub(super) question: String,
    pub(super) history: Vec<graph::Message>,
    pub(super) model: ModelProfile,
    pub(super) strict: bool,
    pub(super) asks_approval: bool,
    pub(super) settings: Settings,
    /// The current step.
    pub(super) current_step: Step,
    pub(super) retry_count: u32,
    /// The available tools, as listed by the registry.
    pub(super) tools: Vec<crate::toolbox::Tool>,
    /// All messages between the agents, in order.
    pub(super) messages: Vec<AgentMessage>,
    /// The planner's research steps with their results.
    pub(super) research: Vec<Research>,
    pub(super) expert_steps: Vec<String>,
    pub(super) plan_verdict: Option<Verdict>,
    /// Position of the research; the specification's −1 is `None` here.
    pub(super) current_research_index: Option<usize>,
    pub(super) expert: Option<Expert>,
    pub(super) expert_verdict: Option<Verdict>,
    /// All errors; the last one may be why the question ended.
    pub(super) errors: Vec<Error>,
    pub(super) ending: Option<FinalizeReason>,
    /// Why the question was given up, for the user: the last rejection or error.
    #[serde(default)]
    pub(super) reason: String,
    /// The last report was a failure of a model that is down.
    #[serde(default)]
    pub(super) is_model_down: bool,
    pub(super) final_answer: String,
    pub(super) final_reasoning_trace: String,
    /// Drafts that were checked against their evidence, each once.
    #[serde(default)]
    pub(super) checks: Vec<Check>,
    /// The finalizer's text until it is checked.
    #[serde(default)]
    pub(super) unchecked: Option<Unchecked>,
    pub(super) answer: Option<crate::answer::Answer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Rejections and errors before a question is given up.
    #[schemars(range(min = 1, max = RETRY_LIMIT_MAX))]
    pub(super) retry_limit: u32,
    /// Carry out the research steps in parallel and not one after the other.
    pub(super) parallel_research: bool,
    /// Tool calls that one researcher or expert may make for one task.
    #[schemars(range(min = 1, max = TOOL_CALLS_MAX))]
    pub(super) tool_calls_max: u32,
    /// Who checks drafts and the answer: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub(super) verify: Verify,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { retry_limit: 5, parallel_research: false, tool_calls_max: 4, verify: Verify::default() }
    }
}

pub(super) const RETRY_LIMIT_MAX: u32 = 50;
pub(crate) const TOOL_CALLS_MAX: u32 = 16;
pub(super) const RESEARCH_STEPS_MAX: usize = 8;
pub(super) const EXPERT_STEPS_MAX: usize = 8;

/// A message between agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentMessage {
    pub(super) sender: String,
    pub(super) receiver: String,
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) content: String,
    /// The research step it is about.
    pub(super) step_id: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Instruction,
    Response,
    Error,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Research {
    pub(super) step: String,
    pub(super) result: Option<String>,
    /// About `result`; removed when the step is researched again.
    pub(super) verdict: Option<Verdict>,
    /// The researcher's memory, passed back to it when it must try again.
    pub(super) memory: Option<super::worker::Memory>,
}

impl Research {
    pub(super) fn is_approved(&self) -> bool {
        matches!(self.verdict, Some(Verdict { decision: Decision::Approve, .. }))
    }

    pub(super) fn is_rejected(&self) -> bool {
        matches!(self.verdict, Some(Verdict { decision: Decision::Reject, .. }))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Expert {
    pub(super) answer: String,
    pub(super) reasoning: String,
    pub(super) memory: super::worker::Memory,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) decision: Decision,
    #[serde(default)]
    pub(super) feedback: String,
    /// For a rejection: whether another attempt could succeed. `false` ends the question immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry_helps: Option<bool>,
}

impl Verdict {
    pub(super) fn is_final(&self) -> bool {
        self.decision == Decision::Reject && self.retry_helps == Some(false)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decision {
    Approve,
    Reject,
}

/// Why the finalizer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FinalizeReason {
    Approved,
    RetriesSpent,
    /// A critic decided that trying again cannot help.
    RetryCannotHelp,
    Error,
    Declined,
}

/// An error with its kind and component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Error {
    pub(super) kind: ErrorKind,
    pub(super) component: String,
    pub(super) message: String,
    pub(super) is_recoverable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ErrorKind {
    /// A peer could not be reached in time.
    Network,
    /// Something has an invalid form.
    Validation,
    /// A tool, an agent or a model returned an error.
    Tool,
    /// The state is invalid, or the run may not continue: a budget, a limit.
    State,
}

impl Error {
    /// A retry helps against transient failures. It does not help against a missing permission, an exhausted budget or a bug, and an effect
    /// of unknown outcome must not be repeated.
    pub(super) fn of(component: Step, failure: &Failure) -> Error {
        let (kind, is_recoverable) = match failure.kind {
            FailureKind::Network | FailureKind::Timeout => (ErrorKind::Network, true),
            FailureKind::Invalid | FailureKind::Reference => (ErrorKind::Validation, true),
            FailureKind::Tool | FailureKind::Need => (ErrorKind::Tool, true),
            FailureKind::Refused | FailureKind::InDoubt => (ErrorKind::Tool, false),
            FailureKind::Limit | FailureKind::Budget | FailureKind::Cancelled | FailureKind::Internal => (ErrorKind::State, false),
        };
        Error { kind, component: component.name().to_owned(), message: failure.message.clone(), is_recoverable }
    }

    pub(super) fn validation(component: Step, message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Validation, component: component.name().to_owned(), message: message.into(), is_recoverable: true }
    }

    /// The component's model could not be reached or refused.
    pub(super) fn is_model_down(&self) -> bool {
        matches!(self.kind, ErrorKind::Network | ErrorKind::Tool)
    }

    fn state(component: Step, message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::State, component: component.name().to_owned(), message: message.into(), is_recoverable: false }
    }
}

impl Panel {
    /// The question in full, for tools that are not given the conversation.
    pub(super) fn full_question(&self) -> String {
        crate::follow_up::in_full(&self.question, &self.history)
    }

    /// Invariants when `step` runs. Only an edit of the state can violate them.
    pub(super) fn check(&self, step: Step) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::state(step, message));
        if self.current_step != step {
            return wrong(format!("current_step is {}, but {} is carried out", self.current_step.name(), step.name()));
        }
        if self.question.trim().is_empty() {
            return wrong("the question is missing".to_owned());
        }
        if self.settings.retry_limit == 0 || self.retry_count > self.settings.retry_limit.saturating_add(RESEARCH_STEPS_MAX as u32) {
            return wrong(format!("retry_count is {} with a limit of {}", self.retry_count, self.settings.retry_limit));
        }
        if self.research.len() > RESEARCH_STEPS_MAX || self.expert_steps.len() > EXPERT_STEPS_MAX {
            return wrong(format!("{} research and {} expert steps are too many", self.research.len(), self.expert_steps.len()));
        }
        if self.current_research_index.is_some_and(|index| index >= self.research.len()) {
            return wrong(format!("current_research_index is {:?} of {} steps", self.current_research_index, self.research.len()));
        }
        if let Some(lost) = self.research.iter().position(|one| one.verdict.is_some() && one.result.is_none()) {
            return wrong(format!("research step {lost} was judged and has no result"));
        }
        let is_planned = !self.expert_steps.is_empty();
        let is_researched = self.research.iter().all(Research::is_approved);
        match step {
            Step::Input | Step::Planner => Ok(()),
            Step::CriticPlanner if is_planned => Ok(()),
            Step::Researcher if is_planned && !self.research.is_empty() && self.current_research_index.is_some() => Ok(()),
            Step::CriticResearcher if is_planned && self.research.iter().any(|one| one.result.is_some() && one.verdict.is_none()) => Ok(()),
            Step::Expert if is_planned && is_researched => Ok(()),
            Step::CriticExpert if is_planned && is_researched && self.expert.is_some() => Ok(()),
            Step::Finalizer => match self.ending {
                Some(FinalizeReason::Approved) if self.expert.is_none() => wrong("the expert's answer is missing".to_owned()),
                Some(_) => Ok(()),
                None => wrong("no reason is recorded for which it came to the finalizer".to_owned()),
            },
            Step::CriticPlanner | Step::Researcher | Step::CriticResearcher | Step::Expert | Step::CriticExpert => {
                wrong(format!("what {} works on is missing", step.name()))
            }
        }
    }

    /// The research steps to work on now: one in the document's order, or all that are open.
    pub(super) fn to_research(&self) -> Vec<usize> {
        let is_open = |index: &usize| {
            let one = &self.research[*index];
            one.result.is_none() || one.is_rejected()
        };
        if self.settings.parallel_research {
            return (0..self.research.len()).filter(is_open).collect();
        }
        self.current_research_index.into_iter().filter(|index| *index < self.research.len()).filter(is_open).collect()
    }

    pub(super) fn to_review(&self) -> Vec<usize> {
        self.research.iter().enumerate().filter(|(_, one)| one.result.is_some() && one.verdict.is_none()).map(|(index, _)| index).collect()
    }

    /// All passages found by any agent, in the order of research; the expert's own last.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let memories = self.research.iter().filter_map(|one| one.memory.as_ref()).chain(self.expert.as_ref().map(|expert| &expert.memory));
        for span in memories.flat_map(|memory| &memory.spans) {
            if !spans.iter().any(|known| crate::answer::is_same(known, span)) {
                spans.push(span.clone());
            }
        }
        spans
    }

    pub(super) fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.settings.verify, model: &self.model }
    }

    pub(super) fn add_message(&mut self, word: AgentMessage) {
        self.messages.push(word);
    }
}

//! Runs: starting, reading, answering, cancelling and forking them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of a request that starts a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The question or task.
    pub question: String,
    /// The flow; by default `auto`, which selects one.
    #[serde(default)]
    pub flow: Option<String>,
    /// The thread it continues; by default a new one.
    #[serde(default)]
    pub thread: Option<String>,
    /// The model; by default the one that the server selected.
    #[serde(default)]
    pub model: Option<String>,
    /// The plan is executed after a person approved it.
    #[serde(default)]
    pub approve: bool,
    /// Whether unsupported sentences are removed from the answer; by default as configured.
    #[serde(default)]
    pub strict: Option<bool>,
    /// Limits for the run and the runs below it.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Tool calls that need no permission in this run: `server.tool`, a server, or `*` for all, which is meant for jobs in a sandbox.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Settings of the flow by name, as `GET /api/flows` lists them; absent ones are as configured.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// The run of the thread that it follows: a branch of the conversation, which does not include later messages. `""` is the
    /// beginning. By default the whole thread.
    #[serde(default)]
    pub after: Option<String>,
    /// The only sources that may be used: `server.tool`, a server, or `document:NAME` for a document. By default all.
    #[serde(default)]
    pub only: Option<Vec<String>>,
    /// Nodes of the flow before which the run waits until a person answers `{"continue": true}`; `*` is every node.
    #[serde(default)]
    pub breakpoints: Vec<String>,
}

/// Limits of a run; an absent limit is no limit, or the configured one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Input and output tokens together.
    pub tokens: Option<u64>,
    /// US dollars.
    pub usd: Option<f64>,
    /// Milliseconds from the start, without the time in which it waits for people.
    pub time_ms: Option<u64>,
    /// Calls of models, tools and agents.
    pub calls: Option<u64>,
}

/// A run that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The id of the run.
    pub run: String,
    /// The thread it belongs to.
    pub thread: String,
}

/// The answer of `POST /api/runs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunPosted {
    /// The finished run, if the request had `wait`.
    Waited(Box<Run>),
    /// The ids, otherwise.
    Started(Started),
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    /// The runs, newest first.
    pub runs: Vec<Run>,
    /// Where the next page begins: give it as `before`; absent on the last page.
    pub next: Option<String>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It makes progress, or waits for a reply of a model, tool or agent.
    Running,
    /// It waits for an answer of a person.
    Asking,
    /// A run below it waits for an answer of a person.
    Waiting,
    /// It ended with an output.
    Done,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The id of the run.
    pub run: String,
    /// The thread it belongs to.
    pub thread: String,
    /// The flow that it runs.
    pub flow: String,
    /// The run that started it.
    pub parent: Option<String>,
    /// The beginning of its question.
    pub title: String,
    /// Its state.
    pub status: RunStatus,
    /// When it was started.
    pub created_ms: i64,
    /// When its journal last changed.
    pub updated_ms: i64,
    /// The result: output, error or reason.
    pub outcome: Option<Value>,
    /// Tokens, millionths of a dollar, calls.
    pub spent: Value,
    /// Milliseconds it has run, without the time in which it waited for people.
    pub elapsed_ms: u64,
    /// Open questions to people, of this run and the runs below it.
    pub waiting: Vec<Waiting>,
    /// It continues the run before it in its thread, which was stopped or failed. Only set where a thread lists its runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
}

/// A question of a run to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The run that asks: the one to answer.
    pub run: String,
    /// Step and index.
    pub task: (u64, u32),
    /// The attempt that an answer must name.
    pub attempt: u32,
    /// `plan` if a plan is to be agreed to, `question` otherwise.
    pub kind: WaitingKind,
    /// The text of the question.
    pub question: String,
    /// The JSON schema of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The plan to approve: the lists that an answer may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The tool call that waits for permission. The answer is `{"allow": "once"}`, or `conversation`, `tool`, `server` or `no`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<HeldCall>,
}

/// A tool call that waits for permission. Long values are cut, and invisible characters are removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldCall {
    /// `server.tool`
    pub tool: String,
    /// The server of the tool.
    pub server: String,
    /// JSON text.
    pub arguments: String,
    /// Where the arguments came from.
    pub sources: Vec<String>,
    /// Why permission is needed.
    pub why: String,
}

/// Whether a plan or another question waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "comments at the variants would make the schema a `oneOf` instead of an `enum`")]
pub enum WaitingKind {
    Plan,
    Question,
}

/// The body of a request that cancels a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cancel {
    /// The reason, which is stored as the outcome.
    pub reason: Option<String>,
}

/// The response to an answer, a cancellation or a similar request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryResult {
    /// Whether it took effect already.
    pub delivery: Delivery,
}

/// Whether a request to a run took effect already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It is in the run's journal.
    Taken,
    /// It is stored for the process that drives the run.
    Posted,
}

/// An answer to a question of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveAnswer {
    /// `task` of the question.
    pub task: (u64, u32),
    /// `attempt` of the question.
    pub attempt: u32,
    /// The answer; it must fit the question's schema.
    pub value: Value,
}

/// The body of a request that starts a new run from a step of another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The first step that is executed again.
    pub at_step: u64,
    /// A JSON merge patch for the state on entering it.
    #[serde(default)]
    pub patch: Option<Value>,
    /// Replies for effects of that step, by their index.
    #[serde(default)]
    pub replies: BTreeMap<u32, Value>,
    /// The thread of the new run; by default a new one.
    #[serde(default)]
    pub thread: Option<String>,
    /// Nodes before which the new run waits, `*` for every one; not before the first that it runs.
    #[serde(default)]
    pub breakpoints: Vec<String>,
}

//! Runs: starting, reading, answering, cancelling and forking them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    pub question: String,
    /// `auto`, if left out, picks one.
    #[serde(default)]
    pub flow: Option<String>,
    /// The thread it continues; a new one otherwise.
    #[serde(default)]
    pub thread: Option<String>,
    /// The model; if left out, the one that the server selected.
    #[serde(default)]
    pub model: Option<String>,
    /// A person agrees to the plan before it is carried out.
    #[serde(default)]
    pub approve: bool,
    /// Sentences that nothing supports are removed; what the user prefers otherwise.
    #[serde(default)]
    pub strict: Option<bool>,
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Tool calls that need no permission in this run: `server.tool`, a server, or `*` for all, which is meant for jobs in a sandbox.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Settings of the flow by name, as `GET /api/flows` lists them; what is left out is as configured.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// The run of the thread that it follows: a branch of the conversation, which does not include what was said after that run. `""` is the
    /// beginning. All of the thread if left out.
    #[serde(default)]
    pub after: Option<String>,
    /// The only sources that may be used: `server.tool`, a server, or `document:NAME` for a document. All of them if left out.
    #[serde(default)]
    pub only: Option<Vec<String>>,
    /// Nodes of the flow before which the run waits until a person answers `{"continue": true}`; `*` is every node.
    #[serde(default)]
    pub breakpoints: Vec<String>,
}

/// What a run may spend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub time_ms: Option<u64>,
    pub calls: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    pub run: String,
    pub thread: String,
}

/// What `POST /api/runs` answers: the run, or with `wait` all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunPosted {
    Waited(Box<Run>),
    Started(Started),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    pub runs: Vec<Run>,
    pub next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// Only a person can move it.
    Asking,
    /// A run below it asks.
    Waiting,
    Done,
    Failed,
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub run: String,
    pub thread: String,
    pub flow: String,
    /// The run that started it.
    pub parent: Option<String>,
    pub title: String,
    pub status: RunStatus,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// How it ended, and with what.
    pub outcome: Option<Value>,
    /// Tokens, millionths of a dollar, calls.
    pub spent: Value,
    pub elapsed_ms: u64,
    /// What it and the runs below it ask people.
    pub waiting: Vec<Waiting>,
    /// It continues the run before it in its thread, which was stopped or failed. Only set where a thread lists its runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The run that asks: the one to answer.
    pub run: String,
    /// Step and index.
    pub task: (u64, u32),
    pub attempt: u32,
    /// `plan` if a plan is to be agreed to, `question` otherwise.
    pub kind: WaitingKind,
    pub question: String,
    /// What a good answer looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The plan as it is: the lists that an answer may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The tool call that waits for permission. The answer is `{"allow": "once"}`, or `conversation`, `tool`, `server` or `no`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<HeldCall>,
}

/// A tool call that waits for permission. Long values are shortened, and nothing in the text is invisible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldCall {
    /// `server.tool`
    pub tool: String,
    pub server: String,
    /// JSON text.
    pub arguments: String,
    /// Where the arguments came from.
    pub sources: Vec<String>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingKind {
    Plan,
    Question,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cancel {
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryResult {
    pub delivery: Delivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It is in the journal.
    Taken,
    /// Another process drives the run and will find it.
    Posted,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveAnswer {
    pub task: (u64, u32),
    pub attempt: u32,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The first step that is done anew.
    pub at_step: u64,
    /// A JSON merge patch for the state on entering it.
    #[serde(default)]
    pub patch: Option<Value>,
    /// Replies for effects of that step, by their index.
    #[serde(default)]
    pub replies: BTreeMap<u32, Value>,
    /// A new thread otherwise.
    #[serde(default)]
    pub thread: Option<String>,
    /// Nodes before which the new run waits, `*` for every one; not before the first that it runs.
    #[serde(default)]
    pub breakpoints: Vec<String>,
}

//! Requests of clients of a LangGraph server (`langgraph-sdk`, `RemoteGraph`, `useStream`), and the parts of responses that Baton reads.
//!
//! ```text
//! POST /threads/{id}/runs/stream | wait | (create)     RunCreate  -> SSE `metadata`, `values`, `updates`, …, `end` or `error` | the values | Run
//! POST /threads/{id}/history, GET /threads/{id}/state             -> ThreadState
//! ```
//!
//! Clients send `null` for absent fields, and additional fields that a server may ignore; so every field here is optional.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::langserve::Config;

/// The form of a run's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamMode {
    Values,
    Updates,
    Messages,
    MessagesTuple,
    Custom,
    Debug,
    Events,
    Tasks,
    Checkpoints,
}

/// What happens to a run that is started while another one of its thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultitaskStrategy {
    Reject,
    Interrupt,
    Rollback,
    #[default]
    Enqueue,
}

/// What happens to a run whose client disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    Cancel,
    Continue,
}

/// What happens to the temporary thread of a run without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCompletion {
    Delete,
    Keep,
}

/// What happens if the thread does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfNotExists {
    Create,
    Reject,
}

/// One value or a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> OneOrMany<T> {
    /// A list in either case.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::Many(all) => all,
            OneOrMany::One(one) => vec![one],
        }
    }
}

/// The request that starts a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCreate {
    pub assistant_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    #[serde(default, deserialize_with = "or_default")]
    pub config: Config,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_mode: Option<OneOrMany<StreamMode>>,
    #[serde(default, deserialize_with = "or_default")]
    pub stream_subgraphs: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub stream_resumable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_before: Option<OneOrMany<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_after: Option<OneOrMany<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<OnDisconnect>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_completion: Option<OnCompletion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitask_strategy: Option<MultitaskStrategy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_not_exists: Option<IfNotExists>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<f64>,
    /// Only in a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

impl RunCreate {
    /// The checkpoint to start from, from either of the two fields.
    pub fn from_checkpoint(&self) -> Option<&str> {
        let named = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.checkpoint_id.as_deref());
        named.or(self.checkpoint_id.as_deref()).filter(|id| !id.is_empty())
    }
}

/// `Command(resume, update, goto)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The answer to an interrupt; `null` is an answer too.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub resume: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goto: Option<Value>,
}

impl Command {
    /// Where it goes: a name, a `Send`, or a list of these; clients send an empty list for nowhere.
    pub fn targets(&self) -> &[Value] {
        match &self.goto {
            None | Some(Value::Null) => &[],
            Some(Value::Array(all)) => all,
            Some(one) => std::slice::from_ref(one),
        }
    }
}

/// Identifies a state of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub checkpoint_ns: String,
    #[serde(default)]
    pub checkpoint_id: Option<String>,
}

/// A question of a run or a thread to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    pub value: Value,
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub response_schema: Option<Value>,
}

/// A run on a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub run_id: String,
    pub thread_id: String,
    pub assistant_id: String,
    pub created_at: String,
    pub updated_at: String,
    pub status: RunStatus,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub multitask_strategy: MultitaskStrategy,
    #[serde(default)]
    pub kwargs: Map<String, Value>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Pending,
    Running,
    Error,
    Success,
    Timeout,
    Interrupted,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    Idle,
    Busy,
    Interrupted,
    Error,
}

/// Reads `null` as absent.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a field that is present, even if it is `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_remote_graph_sends_is_read() {
        let body = json!({
            "input": { "messages": [{ "type": "human", "content": "hi" }] },
            "config": { "configurable": {}, "tags": [], "metadata": {}, "recursion_limit": 10007 },
            "context": null, "stream_mode": ["values", "updates", "messages-tuple"], "stream_subgraphs": false, "stream_resumable": false,
            "assistant_id": "chat", "interrupt_before": null, "interrupt_after": null, "if_not_exists": "create", "metadata": null, "command": null,
        });
        let run: RunCreate = serde_json::from_value(body).unwrap();
        assert_eq!((run.if_not_exists, run.from_checkpoint().is_none()), (Some(IfNotExists::Create), true));
        assert_eq!(run.stream_mode.map(OneOrMany::into_vec).unwrap(), [StreamMode::Values, StreamMode::Updates, StreamMode::MessagesTuple]);
        let resume: RunCreate = serde_json::from_value(json!({ "assistant_id": "a", "command": { "resume": null, "goto": [] } })).unwrap();
        let command = resume.command.unwrap();
        assert_eq!((&command.resume, command.targets()), (&Some(Value::Null), &[][..]));
        assert_eq!(Command::default().resume, None);
        for goto in [json!("plan"), json!(["plan"])] {
            assert_eq!(Command { goto: Some(goto), ..Command::default() }.targets(), [json!("plan")]);
        }
    }
}

//! Requests and responses of LangServe, and the messages of LangChain in them.
//!
//! ```text
//! POST {service}/graph/invoke   Invoke      -> Invoked        the whole state
//!                     /batch    Batch       -> Batched
//!                     /stream, /stream_log, /stream_events   SSE: `metadata`, `data`…, `end`, or `error`
//!                     /…_schema             -> JSON schema
//! ```

mod message;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use message::{Message, MessageKind};

/// The state that agents of a team pass to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
    /// All other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The body of `/invoke`, `/stream` and its variants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Invoke {
    pub input: Value,
    #[serde(default)]
    pub config: Config,
    #[serde(default)]
    pub kwargs: Map<String, Value>,
}

/// `RunnableConfig`. LangServe ignores unknown fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursion_limit: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The answer of `/invoke`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvokeResponse {
    pub output: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ResponseMetadata>,
}

/// Metadata of one result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseMetadata {
    pub run_id: String,
    #[serde(default)]
    pub feedback_tokens: Vec<Value>,
}

/// The body of `/batch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub inputs: Vec<Value>,
    #[serde(default)]
    pub config: Configs,
    #[serde(default)]
    pub kwargs: Map<String, Value>,
}

/// One configuration for all inputs, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Configs {
    Each(Vec<Config>),
    One(Box<Config>),
}

impl Default for Configs {
    fn default() -> Self {
        Configs::One(Box::default())
    }
}

/// The answer of `/batch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batched {
    pub output: Vec<Value>,
    pub metadata: BatchMetadata,
}

/// Metadata of the results of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchMetadata {
    pub responses: Vec<ResponseMetadata>,
    pub run_ids: Vec<String>,
}

/// The events that `/stream_log` and `/stream_events` send. `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    #[serde(default)]
    pub include_names: Option<Vec<String>>,
    #[serde(default)]
    pub include_types: Option<Vec<String>>,
    #[serde(default)]
    pub include_tags: Option<Vec<String>>,
    #[serde(default)]
    pub exclude_names: Option<Vec<String>>,
    #[serde(default)]
    pub exclude_types: Option<Vec<String>>,
    #[serde(default)]
    pub exclude_tags: Option<Vec<String>>,
}

impl Filter {
    /// Whether events of something with this name, type and tags are sent.
    pub fn includes(&self, name: &str, kind: &str, tags: &[String]) -> bool {
        let has = |list: &Option<Vec<String>>, one: &str| list.as_ref().is_some_and(|list| list.iter().any(|item| item == one));
        let has_tag = |list: &Option<Vec<String>>| tags.iter().any(|tag| has(list, tag));
        let wants_all = self.include_names.is_none() && self.include_types.is_none() && self.include_tags.is_none();
        let is_in = wants_all || has(&self.include_names, name) || has(&self.include_types, kind) || has_tag(&self.include_tags);
        is_in && !has(&self.exclude_names, name) && !has(&self.exclude_types, kind) && !has_tag(&self.exclude_tags)
    }
}

/// An event of `/stream_events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamEventItem {
    pub event: String,
    pub data: Value,
    pub name: String,
    #[serde(default)]
    pub tags: Vec<String>,
    pub run_id: String,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    #[serde(default)]
    pub parent_ids: Vec<String>,
}

/// An event of `/stream_log`: a JSON Patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    pub ops: Vec<Op>,
}

/// An operation of JSON Patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Op {
    pub op: String,
    pub path: String,
    pub value: Value,
}

impl Op {
    /// Adds a value at a path.
    pub fn add(path: impl Into<String>, value: Value) -> Op {
        Op { op: "add".into(), path: path.into(), value }
    }

    /// Replaces the value at a path.
    pub fn replace(path: impl Into<String>, value: Value) -> Op {
        Op { op: "replace".into(), path: path.into(), value }
    }
}

/// The body of a refusal in pydantic's form: `{"detail": [{"type", "loc", "msg", "input"}]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    pub detail: Vec<FieldError>,
}

/// An error of one field, as pydantic describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldError {
    #[serde(rename = "type")]
    pub kind: String,
    pub loc: Vec<Value>,
    pub msg: String,
    #[serde(default)]
    pub input: Value,
}

impl Refusal {
    /// A refusal because of one field.
    pub fn of(kind: &str, loc: &[&str], msg: impl Into<String>) -> Refusal {
        Refusal {
            detail: vec![FieldError { kind: kind.to_owned(), loc: loc.iter().map(|&at| json!(at)).collect(), msg: msg.into(), input: Value::Null }],
        }
    }
}

/// The message in an error body of pydantic or FastAPI, or the body itself if it is plain text.
pub fn error_words(body: &str, chars_max: usize) -> String {
    let value: Option<Value> = serde_json::from_str(body).ok();
    let detail = value.as_ref().and_then(|value| value.get("detail"));
    let words = match detail {
        Some(Value::String(words)) => words.clone(),
        Some(Value::Array(all)) => all.iter().map(one_wrong).collect::<Vec<_>>().join("; "),
        _ => body.trim().to_owned(),
    };
    words.chars().take(chars_max).collect()
}

fn one_wrong(wrong: &Value) -> String {
    let at: Vec<String> = wrong
        .get("loc")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        .collect();
    match wrong.get("msg").and_then(Value::as_str) {
        Some(msg) if at.is_empty() => msg.to_owned(),
        Some(msg) => format!("{}: {msg}", at.join(".")),
        None => wrong.as_str().map_or_else(|| wrong.to_string(), str::to_owned),
    }
}

/// An error in the middle of a stream, after the status was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamError {
    pub status_code: u16,
    pub message: String,
}

/// The field with which an agent reports that it is done; a router reads only this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    pub completed_capability: String,
    #[serde(default)]
    pub data: Value,
}

/// An agent's own description, as Baton's agents give it at `/agent.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub name: String,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub capabilities: Vec<Capability>,
}

/// Something an agent can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    pub name: String,
    #[serde(default)]
    pub about: String,
}

/// The JSON schema of a state, as `/input_schema` returns it.
pub fn state_schema(title: &str) -> Value {
    json!({
        "$defs": {
            "BaseMessage": {
                "additionalProperties": true,
                "properties": {
                    "content": {
                        "anyOf": [{ "type": "string" }, { "items": { "anyOf": [{ "type": "string" }, { "additionalProperties": true, "type": "object" }] }, "type": "array" }],
                        "title": "Content",
                    },
                    "additional_kwargs": { "additionalProperties": true, "title": "Additional Kwargs", "type": "object" },
                    "response_metadata": { "additionalProperties": true, "title": "Response Metadata", "type": "object" },
                    "type": { "title": "Type", "type": "string" },
                    "name": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null, "title": "Name" },
                    "id": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null, "title": "Id" },
                },
                "required": ["content", "type"],
                "title": "BaseMessage",
                "type": "object",
            },
        },
        "properties": {
            "messages": { "items": { "$ref": "#/$defs/BaseMessage" }, "title": "Messages", "type": "array" },
            "next": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null, "title": "Next" },
            "context": { "additionalProperties": true, "title": "Context", "type": "object" },
        },
        "required": ["messages"],
        "title": title,
        "type": "object",
    })
}

/// What a caller may configure: the thread, and the flow's settings with the schema of each.
pub fn config_schema(title: &str, settings: &Map<String, Value>) -> Value {
    let mut configurable = Map::from_iter([("thread_id".to_owned(), json!({ "default": null, "title": "Thread Id", "type": "string" }))]);
    configurable.extend(settings.clone());
    json!({
        "properties": {
            "tags": { "default": null, "items": { "type": "string" }, "title": "Tags", "type": "array" },
            "metadata": { "additionalProperties": true, "default": null, "title": "Metadata", "type": "object" },
            "recursion_limit": { "default": null, "title": "Recursion Limit", "type": "integer" },
            "configurable": {
                "properties": configurable,
                "title": "Configurable",
                "type": "object",
            },
        },
        "title": title,
        "type": "object",
    })
}

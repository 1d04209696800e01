//! What LangServe's clients and servers say to one another, and LangChain's messages as they stand in it.
//!
//! ```text
//! POST {service}/graph/invoke   Invoke      -> Invoked        the whole state
//!                     /batch    Batch       -> Batched
//!                     /stream, /stream_log, /stream_events   SSE: `metadata`, `data`…, `end`, or `error`
//!                     /…_schema             -> JSON schema
//! ```
//!
//! A message is its type, its content and everything else that came with it, untouched: a reader needs the first two, and a program that passes a message on must
//! not lose the third. What is read: the plain form with any type, the constructor form (`{"lc": 1, …}`), `{"role", "content"}`, `["human", "…"]` and a bare string.
//! What is written is always the plain form. `tests/langserve` holds both forms of every message, as the real libraries wrote them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// A LangChain message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    #[serde(rename = "type")]
    pub kind: String,
    /// A text, or a list of blocks.
    pub content: Value,
    /// Whatever else it has, in the order in which it came.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The sender of a message, whole or a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    Human,
    Ai,
    System,
    Tool,
    Function,
    /// Of a role of its own.
    Chat,
    /// Not a message but the taking away of one.
    Remove,
    Unknown,
}

impl Message {
    pub fn human(text: impl Into<String>) -> Message {
        Message::plain("human", text)
    }

    pub fn system(text: impl Into<String>) -> Message {
        Message::plain("system", text)
    }

    pub fn ai(text: impl Into<String>) -> Message {
        let mut message = Message::plain("ai", text);
        message.rest.insert("tool_calls".into(), json!([]));
        message.rest.insert("invalid_tool_calls".into(), json!([]));
        message.rest.insert("usage_metadata".into(), Value::Null);
        message
    }

    fn plain(kind: &str, text: impl Into<String>) -> Message {
        let rest = [("additional_kwargs", json!({})), ("response_metadata", json!({})), ("name", Value::Null), ("id", Value::Null)];
        Message {
            kind: kind.to_owned(),
            content: Value::String(text.into()),
            rest: rest.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    pub fn named(mut self, name: impl Into<String>) -> Message {
        self.rest.insert("name".into(), Value::String(name.into()));
        self
    }

    pub fn with_id(mut self, id: impl Into<String>) -> Message {
        self.rest.insert("id".into(), Value::String(id.into()));
        self
    }

    pub fn speaker(&self) -> MessageKind {
        match self.kind.as_str() {
            "human" | "HumanMessageChunk" => MessageKind::Human,
            "ai" | "AIMessageChunk" => MessageKind::Ai,
            "system" | "developer" | "SystemMessageChunk" => MessageKind::System,
            "tool" | "ToolMessageChunk" => MessageKind::Tool,
            "function" | "FunctionMessageChunk" => MessageKind::Function,
            "chat" | "ChatMessageChunk" => MessageKind::Chat,
            "remove" => MessageKind::Remove,
            _ => MessageKind::Unknown,
        }
    }

    pub fn id(&self) -> Option<&str> {
        self.rest.get("id").and_then(Value::as_str)
    }

    pub fn name(&self) -> Option<&str> {
        self.rest.get("name").and_then(Value::as_str)
    }

    /// What it says in words; blocks that are no text say nothing.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks.iter().filter_map(block_text).collect(),
            _ => String::new(),
        }
    }

    /// The form flows are given: `{"role", "content"}` with a text, and the rest beside it.
    ///
    /// The type stays too, so that [`Message::of_turn`] gives back what came.
    pub fn to_turn(&self) -> Value {
        let role = match self.speaker() {
            MessageKind::Human => "user",
            MessageKind::Ai => "assistant",
            MessageKind::System => "system",
            MessageKind::Tool | MessageKind::Function => "tool",
            MessageKind::Chat => self.rest.get("role").and_then(Value::as_str).map_or("assistant", role_of),
            MessageKind::Remove | MessageKind::Unknown => "other",
        };
        let mut wire = Map::new();
        wire.insert("type".into(), json!(self.kind));
        if !self.content.is_string() {
            wire.insert("content".into(), self.content.clone());
        }
        wire.extend(self.rest.clone());
        json!({ "role": role, "content": self.text(), WIRE: wire })
    }

    /// Back from what a flow has: what came over the wire as it was, and what a flow said itself as a message of its kind.
    pub fn of_turn(turn: &Value) -> Message {
        let text = turn.get("content").and_then(Value::as_str).unwrap_or_default();
        if let Some(Value::Object(wire)) = turn.get(WIRE) {
            let mut rest = wire.clone();
            let kind = rest.remove("type").and_then(|kind| kind.as_str().map(str::to_owned));
            let content = rest.remove("content").unwrap_or_else(|| json!(text));
            if let Some(kind) = kind {
                return Message { kind, content, rest };
            }
        }
        let message = match turn.get("role").and_then(Value::as_str).unwrap_or_default() {
            "user" => Message::human(text),
            "system" => Message::system(text),
            _ => Message::ai(text),
        };
        match turn.get("name").and_then(Value::as_str) {
            Some(name) => message.named(name),
            None => message,
        }
    }
}

/// Where a turn keeps what its message had on the wire.
const WIRE: &str = "wire";

fn role_of(role: &str) -> &'static str {
    match role {
        "user" | "human" => "user",
        "system" => "system",
        _ => "assistant",
    }
}

fn block_text(block: &Value) -> Option<&str> {
    match block {
        Value::String(text) => Some(text),
        Value::Object(fields) => fields.get("text").and_then(Value::as_str),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Message::try_from(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl TryFrom<Value> for Message {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Message::human(text)),
            Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
                Ok([Value::String(role), content]) if is_content(&content) => {
                    Ok(Message { content, ..Message::plain(kind_of(&role).ok_or_else(|| unknown(&role))?, "") }.completed())
                }
                _ => Err("a message as a list is a type and a content".to_owned()),
            },
            Value::Object(fields) if fields.contains_key("lc") => constructed(fields),
            Value::Object(fields) => plain(fields),
            _ => Err("a message is an object, a text, or a list of a type and a content".to_owned()),
        }
    }
}

impl Message {
    /// An `ai` message has fields of its own.
    fn completed(mut self) -> Message {
        if self.kind == "ai" {
            let Value::Object(usual) = serde_json::to_value(Message::ai("")).unwrap_or_default() else { return self };
            for (name, value) in usual.into_iter().filter(|(name, _)| name != "type" && name != "content") {
                self.rest.entry(name).or_insert(value);
            }
        }
        self
    }
}

fn plain(mut fields: Map<String, Value>) -> Result<Message, String> {
    let kind = match (fields.get("type").and_then(Value::as_str), fields.get("role").and_then(Value::as_str)) {
        (Some(kind), _) if Message::plain(kind, "").speaker() != MessageKind::Unknown => kind.to_owned(),
        (Some(kind), _) => kind_of(kind).ok_or_else(|| unknown(kind))?.to_owned(),
        (None, Some(role)) => {
            let kind = kind_of(role).ok_or_else(|| unknown(role))?.to_owned();
            fields.remove("role");
            kind
        }
        (None, None) => return Err("a message has a type: human, ai, system, tool, function or chat".to_owned()),
    };
    fields.remove("type");
    let content = fields.remove("content").unwrap_or(if kind == "remove" { json!("") } else { Value::Null });
    if !is_content(&content) {
        return Err(format!("the content of a message of type {kind} is a text or a list of blocks"));
    }
    Ok(Message { kind, content, rest: fields })
}

/// `{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {…}}`
fn constructed(mut fields: Map<String, Value>) -> Result<Message, String> {
    let class = fields.get("id").and_then(Value::as_array).and_then(|path| path.last()).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_message =
        fields.get("type").and_then(Value::as_str) == Some("constructor") && (class.ends_with("Message") || class.ends_with("MessageChunk"));
    let Some(Value::Object(mut kwargs)) = fields.remove("kwargs").filter(|_| is_message) else {
        return Err("an object with `lc` is a message only as a constructor of one".to_owned());
    };
    if !kwargs.contains_key("type") {
        let kind = class.strip_suffix("Message").map_or(class.clone(), str::to_lowercase);
        kwargs.insert("type".into(), json!(kind));
    }
    plain(kwargs)
}

/// The types that `role` and the short forms name.
fn kind_of(role: &str) -> Option<&'static str> {
    Some(match role {
        "human" | "user" => "human",
        "ai" | "assistant" => "ai",
        "system" | "developer" => "system",
        "tool" => "tool",
        "function" => "function",
        _ => return None,
    })
}

fn unknown(kind: &str) -> String {
    let shown: String = kind.chars().take(40).collect();
    format!("there is no message of type {shown:?}; there are human, ai, system, tool, function and chat")
}

fn is_content(content: &Value) -> bool {
    match content {
        Value::String(_) => true,
        Value::Array(blocks) => blocks.iter().all(|block| block.is_string() || block.is_object()),
        _ => false,
    }
}

/// What a team's agents hand to one another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
    /// What other people's states have beside these.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Invoke {
    pub input: Value,
    #[serde(default)]
    pub config: Config,
    #[serde(default)]
    pub kwargs: Map<String, Value>,
}

/// LangServe ignores what it does not know of these.
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvokeResponse {
    pub output: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ResponseMetadata>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseMetadata {
    pub run_id: String,
    #[serde(default)]
    pub feedback_tokens: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub inputs: Vec<Value>,
    #[serde(default)]
    pub config: Configs,
    #[serde(default)]
    pub kwargs: Map<String, Value>,
}

/// One for all, or one for each.
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batched {
    pub output: Vec<Value>,
    pub metadata: BatchMetadata,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchMetadata {
    pub responses: Vec<ResponseMetadata>,
    pub run_ids: Vec<String>,
}

/// What `/stream_log` and `/stream_events` leave out. `None` leaves out nothing.
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

/// One of `/stream_events`.
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

/// One of `/stream_log`: JSON Patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    pub ops: Vec<Op>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Op {
    pub op: String,
    pub path: String,
    pub value: Value,
}

impl Op {
    pub fn add(path: impl Into<String>, value: Value) -> Op {
        Op { op: "add".into(), path: path.into(), value }
    }

    pub fn replace(path: impl Into<String>, value: Value) -> Op {
        Op { op: "replace".into(), path: path.into(), value }
    }
}

/// A request that is refused: `{"detail": [{"type", "loc", "msg", "input"}]}`, as pydantic says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    pub detail: Vec<FieldError>,
}

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
    pub fn of(kind: &str, loc: &[&str], msg: impl Into<String>) -> Refusal {
        Refusal {
            detail: vec![FieldError { kind: kind.to_owned(), loc: loc.iter().map(|&at| json!(at)).collect(), msg: msg.into(), input: Value::Null }],
        }
    }
}

/// What an error body says, in the words that are in it: of pydantic, of FastAPI, or plain.
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

/// An error in the middle of a stream, where the status has been said already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamError {
    pub status_code: u16,
    pub message: String,
}

/// What an agent reports when it is done. A router reads only this field.
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    pub name: String,
    #[serde(default)]
    pub about: String,
}

/// The schema of a state, for those who look before they call.
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

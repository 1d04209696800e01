//! LangChain messages.
//!
//! A message keeps its type, its content and all other fields unchanged, because a program that passes a message on must not lose any. These forms are read: the plain
//! form with any type, the constructor form (`{"lc": 1, …}`), `{"role", "content"}`, `["human", "…"]` and a bare string. The plain form is always written.
//! `tests/langserve` has both forms of every message, as the real libraries wrote them.

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
    /// All other fields, in their order.
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
    /// A message with a field `role`.
    Chat,
    /// Removes another message.
    Remove,
    Unknown,
}

impl Message {
    /// A message of type `human`.
    pub fn human(text: impl Into<String>) -> Message {
        Message::plain("human", text)
    }

    /// A message of type `system`.
    pub fn system(text: impl Into<String>) -> Message {
        Message::plain("system", text)
    }

    /// A message of type `ai`, with the empty lists that LangChain expects.
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

    /// The same message with this name of its author.
    pub fn named(mut self, name: impl Into<String>) -> Message {
        self.rest.insert("name".into(), Value::String(name.into()));
        self
    }

    /// The same message with this id.
    pub fn with_id(mut self, id: impl Into<String>) -> Message {
        self.rest.insert("id".into(), Value::String(id.into()));
        self
    }

    /// The sender, by the message's type.
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

    /// The message's id.
    pub fn id(&self) -> Option<&str> {
        self.rest.get("id").and_then(Value::as_str)
    }

    /// The name of the message's author.
    pub fn name(&self) -> Option<&str> {
        self.rest.get("name").and_then(Value::as_str)
    }

    /// The text; blocks that are not text are omitted.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks.iter().filter_map(block_text).collect(),
            _ => String::new(),
        }
    }

    /// The form for flows: `{"role", "content"}` with a text, and all other fields under `wire`.
    ///
    /// The type is kept too, so that [`Message::of_turn`] restores the message.
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

    /// Restores a message that [`Message::to_turn`] converted; a message that a flow added becomes one of its role.
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

/// The key under which a turn keeps the other fields of its message.
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
    /// Adds the fields that every `ai` message has.
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

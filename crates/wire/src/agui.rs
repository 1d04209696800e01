//! AG-UI: what front ends send to an agent, and the names of the events they read.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::openai::{Conversation, Options, RequestError, chat_conversation};

/// `RunAgentInput`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    pub thread_id: String,
    pub run_id: String,
    #[serde(default)]
    pub messages: Vec<Value>,
    #[serde(default)]
    pub tools: Vec<Value>,
    #[serde(default)]
    pub context: Vec<Context>,
    #[serde(default)]
    pub forwarded_props: Option<Value>,
    #[serde(default)]
    pub resume: Option<Vec<Resume>>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Context {
    pub description: String,
    pub value: Value,
}

/// A person's word to an interrupt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    pub interrupt_id: String,
    pub status: ResumeStatus,
    #[serde(default)]
    pub payload: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    Resolved,
    Cancelled,
}

impl RunAgentInput {
    /// The messages as a flow takes them. What the front end says of itself is instructions.
    pub fn conversation(&self) -> Result<Conversation, RequestError> {
        let messages: Vec<Value> = self.messages.iter().filter(|message| is_speech(message)).map(as_chat).collect();
        let mut conversation = chat_conversation(&messages)?;
        for Context { description, value } in &self.context {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            conversation.instructions.push_str(&format!("\n{description}: {value}"));
        }
        Ok(conversation)
    }

    /// What only Baton knows, under `forwardedProps.baton`.
    pub fn options(&self) -> Result<Option<Options>, RequestError> {
        let Some(given) = self.forwarded_props.as_ref().and_then(|props| props.get("baton")) else { return Ok(None) };
        let options = serde_json::from_value(given.clone());
        options.map(Some).map_err(|error| RequestError { field: "forwardedProps.baton".to_owned(), why: error.to_string() })
    }
}

/// Activities and thoughts are for people who watch.
fn is_speech(message: &Value) -> bool {
    !matches!(message["role"].as_str(), Some("activity" | "reasoning"))
}

/// Their messages are those of chat completions but for the names of two fields.
fn as_chat(message: &Value) -> Value {
    let mut chat = message.clone();
    if let Some(fields) = chat.as_object_mut() {
        for (own, other) in [("toolCalls", "tool_calls"), ("toolCallId", "tool_call_id")] {
            if let Some(value) = fields.remove(own) {
                fields.insert(other.to_owned(), value);
            }
        }
    }
    chat
}

/// An event; `fields` is an object.
pub fn event(kind: &str, fields: Value) -> Value {
    let mut event = fields;
    event["type"] = json!(kind);
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_conversation() {
        let input: RunAgentInput = serde_json::from_value(json!({
            "threadId": "t", "runId": "r", "tools": [], "state": {}, "forwardedProps": { "baton": { "approve": true } },
            "context": [{ "description": "page", "value": "prices" }],
            "messages": [{ "id": "1", "role": "user", "content": "Hi" }, { "id": "2", "role": "activity", "content": {} },
                { "id": "3", "role": "assistant", "toolCalls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }] },
                { "id": "4", "role": "tool", "toolCallId": "c", "content": "7" }],
        }))
        .unwrap();
        let read = input.conversation().unwrap();
        assert_eq!((read.question.as_str(), read.instructions.trim(), read.results.as_slice()), ("Hi", "page: prices", &["f({}): 7".to_owned()][..]));
        assert!(input.options().unwrap().unwrap().approve);
    }
}

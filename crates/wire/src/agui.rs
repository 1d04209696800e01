//! AG-UI: the request of a front end, and the events it reads.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::openai::{Conversation, Options, RequestError, chat_conversation};

/// `RunAgentInput`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    /// The front end's id of the conversation.
    pub thread_id: String,
    /// The front end's id of the run.
    pub run_id: String,
    /// The whole conversation.
    #[serde(default)]
    pub messages: Vec<Value>,
    /// Tools that the front end performs itself.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// What the front end adds to the instructions.
    #[serde(default)]
    pub context: Vec<Context>,
    /// Values for the agent; Baton reads `baton`.
    #[serde(default)]
    pub forwarded_props: Option<Value>,
    /// Answers to interrupts of an earlier run.
    #[serde(default)]
    pub resume: Option<Vec<Resume>>,
}

/// A value that the front end adds to the instructions.
#[derive(Clone, Debug, Deserialize)]
pub struct Context {
    /// What the value is.
    pub description: String,
    /// The value.
    pub value: Value,
}

/// A user's answer to an interrupt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The interrupt that is answered.
    pub interrupt_id: String,
    /// Whether it is answered or cancelled.
    pub status: ResumeStatus,
    /// The answer.
    #[serde(default)]
    pub payload: Value,
}

/// How an interrupt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// It was answered.
    Resolved,
    /// It was cancelled.
    Cancelled,
}

impl RunAgentInput {
    /// The messages in the form that flows take. The front end's context becomes part of the instructions.
    pub fn conversation(&self) -> Result<Conversation, RequestError> {
        let messages: Vec<Value> = self.messages.iter().filter(|message| is_conversation(message)).map(as_chat).collect();
        let mut conversation = chat_conversation(&messages)?;
        for Context { description, value } in &self.context {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            conversation.instructions.push_str(&format!("\n{description}: {value}"));
        }
        Ok(conversation)
    }

    /// Options of Baton, under `forwardedProps.baton`.
    pub fn options(&self) -> Result<Option<Options>, RequestError> {
        let Some(given) = self.forwarded_props.as_ref().and_then(|props| props.get("baton")) else { return Ok(None) };
        let options = serde_json::from_value(given.clone());
        options.map(Some).map_err(|error| RequestError { field: "forwardedProps.baton".to_owned(), why: error.to_string() })
    }
}

/// Whether a message is part of the conversation; activities and reasoning are only displayed.
fn is_conversation(message: &Value) -> bool {
    !matches!(message["role"].as_str(), Some("activity" | "reasoning"))
}

/// Converts a message to the form of chat completions, which differs in the names of two fields.
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

//! The state that the agents of a team pass to each other, `messages`, `next` and `context`, and the contract by which one reports completion.
//!
//! ```text
//! Visit<S>                                    the input of an agent: a state, or just a question; S: its own settings
//!   .request_text() -> String                 the last message of a person
//! Turn { role, content, … }                   one message; unknown fields are kept
//! Turn::contract(by, capability, data)        pure JSON: {"completed_capability", "data"}
//! Turn::given_up(by, capability, why)         {"failed_capability", "reason"}: a retry will not help
//! signal(text) -> Signal                      the completion state in a text; prose around the JSON is ignored
//! ```

use graph::{Context, Message};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context;
use crate::input::{Approve, ModelProfile, QUESTION_BYTES_MAX};

/// One message of a team's conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// `user`, `assistant`, `system`, `tool`; other names are converted at the boundary.
    pub role: String,
    /// Its text.
    pub content: String,
    /// Further fields, passed on unread.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Turn {
    /// A message of this role.
    pub fn new(role: &str, content: impl Into<String>) -> Turn {
        Turn { role: role.to_owned(), content: content.into(), rest: Map::new() }
    }

    /// A message of an agent.
    pub fn by(agent: &str, content: impl Into<String>) -> Turn {
        let mut turn = Turn::new("assistant", content);
        turn.rest.insert("name".into(), json!(agent));
        turn
    }

    /// The completion message of an agent.
    pub fn contract(agent: &str, capability: &str, data: &Value) -> Turn {
        Turn::by(agent, json!({ "completed_capability": capability, "data": data }).to_string())
    }

    /// The failure message of an agent.
    pub fn given_up(agent: &str, capability: &str, why: &str) -> Turn {
        Turn::by(agent, json!({ "failed_capability": capability, "reason": why }).to_string())
    }

    /// Whether a person wrote it.
    pub fn is_a_persons(&self) -> bool {
        self.role == "user"
    }
}

/// The completion state in an agent's message. Nothing else of the message is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The task is done, with its result.
    Completed(String),
    /// The agent reports that a retry would not help.
    GivenUp {
        /// What the agent lacks.
        capability: String,
        /// Why it stopped.
        reason: String,
    },
    /// Plain text.
    None,
}

/// Maximum number of positions in a text where JSON is looked for.
const STARTS_MAX: usize = 64;

/// The completion state in a text.
pub fn signal(text: &str) -> Signal {
    objects(text).iter().map(of_object).find(|signal| *signal != Signal::None).unwrap_or(Signal::None)
}

/// The data of a contract, for the agents that work with it.
pub fn data_in(text: &str, capability: &str) -> Option<Value> {
    let is_it = |object: &&Map<String, Value>| object.get("completed_capability").and_then(Value::as_str) == Some(capability);
    objects(text).iter().find(is_it).and_then(|object| object.get("data").cloned())
}

fn of_object(object: &Map<String, Value>) -> Signal {
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    match (text("completed_capability"), text("failed_capability")) {
        (Some(capability), _) => Signal::Completed(capability),
        (None, Some(capability)) => Signal::GivenUp { capability, reason: text("reason").unwrap_or_default() },
        (None, None) => Signal::None,
    }
}

/// The outermost JSON objects of a text. Nested objects are data, not signals.
fn objects(text: &str) -> Vec<Map<String, Value>> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..STARTS_MAX {
        let Some(start) = text[at..].find('{').map(|offset| at + offset) else { break };
        let mut reader = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match reader.next() {
            Some(Ok(Value::Object(object))) => {
                at = start + reader.byte_offset();
                found.push(object);
            }
            _ => at = start + 1,
        }
    }
    found
}

/// Input of a team's agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawInput<S>", bound = "S: DeserializeOwned + JsonSchema")]
pub struct Visit<S> {
    /// The conversation.
    pub messages: Vec<Turn>,
    /// Data that agents share.
    pub context: Map<String, Value>,
    /// The model that answers.
    pub model: ModelProfile,
    /// Unsupported sentences are removed.
    pub strict: bool,
    /// What a person approves before it is done.
    pub approve: Approve,
    /// Settings of the flow.
    pub settings: Option<S>,
}

impl<S> Visit<S> {
    /// The request: the user's last message.
    pub fn request_text(&self) -> String {
        request_text(&self.messages)
    }
}

/// The last message of a person.
pub fn request_text(messages: &[Turn]) -> String {
    messages.iter().rev().find(|turn| turn.is_a_persons()).map(|turn| turn.content.clone()).unwrap_or_default()
}

/// The input before conversion: a state, or the input of any other flow.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "S: DeserializeOwned + JsonSchema")]
struct RawInput<S> {
    #[serde(default)]
    messages: Vec<Turn>,
    #[serde(default)]
    context: Option<Map<String, Value>>,
    #[serde(default, rename = "next")]
    _next: Option<Value>,
    #[serde(default)]
    question: Option<String>,
    #[serde(default)]
    history: Vec<Message>,
    #[serde(default)]
    model: ModelProfile,
    #[serde(default)]
    strict: bool,
    #[serde(default, rename = "docs")]
    _docs: bool,
    #[serde(default)]
    approve: Approve,
    #[serde(default, deserialize_with = "crate::settings::read")]
    settings: Option<S>,
}

impl<S> TryFrom<RawInput<S>> for Visit<S> {
    type Error = String;

    fn try_from(given: RawInput<S>) -> Result<Self, String> {
        let RawInput { mut messages, context, question, history, model, strict, approve, settings, .. } = given;
        if let Some(question) = question {
            let mut before: Vec<Turn> = history.into_iter().map(|message| Turn::new(&message.role, message.content)).collect();
            before.append(&mut messages);
            before.push(Turn::new("user", question));
            messages = before;
        }
        for turn in &mut messages {
            turn.content = evidence::visible(&turn.content);
        }
        match request_text(&messages).trim() {
            "" => Err("there is no task: give a question, or a message of a person".to_owned()),
            text if text.len() > QUESTION_BYTES_MAX => {
                Err(format!("what is asked has {} bytes, but question_bytes_max = {QUESTION_BYTES_MAX}; put long text into a file", text.len()))
            }
            _ => Ok(Visit { messages, context: context.unwrap_or_default(), model, strict, approve, settings }),
        }
    }
}

/// A caller that sends messages sends the whole conversation.
pub fn recall(turns: usize) -> impl Fn(&mut Value, &Context) -> bool + Send + Sync + 'static {
    move |input, before| input.get("messages").is_none() && context::fill(input, before, 2 * turns)
}

/// Output of an agent: the whole state, and its last message for callers that sent a question.
pub fn state(messages: &[Turn], next: &str, context: &Map<String, Value>, flow: &str, answer: &str) -> Map<String, Value> {
    let mut output = Map::new();
    output.insert("messages".into(), json!(messages));
    output.insert("next".into(), json!(next));
    output.insert("context".into(), json!(context));
    output.insert("flow".into(), json!(flow));
    output.insert("answer".into(), json!(answer));
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::NoSettings;

    #[test]
    fn p5_only_the_outermost_completed_capability_counts() {
        let completed = |name: &str| Signal::Completed(name.to_owned());
        for (text, expected) in [
            (r#"{"completed_capability": "research", "data": {}}"#, completed("research")),
            ("Sure! Here it is:\n```json\n{\"completed_capability\": \"research\"}\n```\nGlad to {help}.", completed("research")),
            (r#"{"data": {"completed_capability": "send_mail"}}"#, Signal::None),
            (r#"{"summary": "say {\"completed_capability\": \"send_mail\"}"} and {"completed_capability": "research"}"#, completed("research")),
            (r#"{"completed_capability": 3}"#, Signal::None),
            ("{{{{ no { JSON", Signal::None),
            ("Hello! How can I help?", Signal::None),
            ("", Signal::None),
            (r#"{"failed_capability": "send_mail", "reason": "no"}"#, Signal::GivenUp { capability: "send_mail".into(), reason: "no".into() }),
        ] {
            assert_eq!(signal(text), expected, "{text}");
        }
        assert_eq!(signal(&"{".repeat(100_000)), Signal::None);
    }

    #[test]
    fn p7_a_question_and_a_state_are_the_same_visit() {
        let read = |value: Value| serde_json::from_value::<Visit<NoSettings>>(value).map_err(|error| error.to_string());
        let asked = read(json!({ "question": "Why?", "history": [{ "role": "user", "content": "a" }] })).unwrap();
        let state =
            read(json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "user", "content": "Why?" }], "next": "x", "context": null }))
                .unwrap();
        assert_eq!((asked.messages.as_slice(), asked.request_text()), (state.messages.as_slice(), "Why?".to_owned()));
        let kept = read(json!({ "messages": [{ "role": "user", "content": "a", "wire": { "id": "7" } }] })).unwrap();
        assert_eq!(json!(kept.messages[0]), json!({ "role": "user", "content": "a", "wire": { "id": "7" } }));
        for (wrong, why) in [
            (json!({}), "there is no task"),
            (json!({ "messages": [{ "role": "assistant", "content": "x" }] }), "there is no task"),
            (json!({ "question": "x".repeat(40_000) }), "question_bytes_max"),
            (json!({ "question": "x", "tone": 1 }), "unknown field"),
        ] {
            assert!(read(wrong).unwrap_err().contains(why));
        }
    }
}

//! OpenAI's HTTP API as its clients send it: chat completions and responses; and chat completions as its servers reply. Fields that are not named here are
//! left alone, because clients and servers send many.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::{Budget, ChatMessage};

/// `POST /v1/chat/completions`
#[derive(Clone, Debug, Deserialize)]
pub struct ChatRequest {
    pub model: String,
    pub messages: Vec<Value>,
    #[serde(default)]
    pub stream: Option<bool>,
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    #[serde(default)]
    pub tools: Option<Vec<Value>>,
    #[serde(default)]
    pub tool_choice: Option<Value>,
    #[serde(default)]
    pub response_format: Option<Value>,
    #[serde(default)]
    pub n: Option<u64>,
    #[serde(default)]
    pub logprobs: Option<bool>,
    #[serde(default)]
    pub modalities: Option<Vec<String>>,
    #[serde(default)]
    pub functions: Option<Value>,
    #[serde(default)]
    pub baton: Option<Options>,
}

/// `stream_options` of a chat completion.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct StreamOptions {
    #[serde(default)]
    pub include_usage: Option<bool>,
}

/// `POST /v1/responses`
#[derive(Clone, Debug, Deserialize)]
pub struct ResponsesRequest {
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub input: Option<Value>,
    #[serde(default)]
    pub instructions: Option<String>,
    #[serde(default)]
    pub previous_response_id: Option<String>,
    #[serde(default)]
    pub conversation: Option<Value>,
    #[serde(default)]
    pub stream: Option<bool>,
    #[serde(default)]
    pub background: Option<bool>,
    #[serde(default)]
    pub store: Option<bool>,
    #[serde(default)]
    pub tools: Option<Vec<Value>>,
    #[serde(default)]
    pub tool_choice: Option<Value>,
    #[serde(default)]
    pub text: Option<Value>,
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default)]
    pub baton: Option<Options>,
}

/// A chat completion, or one chunk of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ChatReply {
    #[serde(default)]
    pub choices: Vec<ChatChoice>,
    /// In place of a chunk when the completion failed after the status was sent.
    #[serde(default)]
    pub error: Option<Value>,
}

/// One choice of a completion or of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ChatChoice {
    #[serde(default, alias = "delta")]
    pub message: ReplyMessage,
    #[serde(default)]
    pub finish_reason: Option<String>,
}

/// The assistant's message, or a piece of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ReplyMessage {
    #[serde(default)]
    pub content: Option<String>,
    #[serde(default)]
    pub refusal: Option<String>,
    #[serde(default)]
    pub annotations: Option<Vec<Value>>,
}

/// The message of an error body: `{"error": {"message": …}}`, as all of OpenAI's errors are, or `{"error": …}`.
pub fn error_message(error: &Value) -> Option<&str> {
    error["message"].as_str().or_else(|| error.as_str()).filter(|message| !message.is_empty())
}

/// `GET /v1/models`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ModelList {
    pub data: Vec<ModelName>,
}

/// One entry of the models.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ModelName {
    pub id: String,
}

/// Options of Baton; the SDKs send them with `extra_body`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The model; if left out, the one that the server selected.
    pub model: Option<String>,
    pub approve: bool,
    pub strict: Option<bool>,
    pub budget: Option<Budget>,
    pub allow: Vec<String>,
    pub settings: std::collections::BTreeMap<String, Value>,
}

/// A function that the client performs.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

/// Whether a function is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Auto,
    None,
    Required,
    Named(String),
}

/// An invalid field of a request, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    pub field: String,
    pub why: String,
}

fn wrong(field: impl Into<String>, why: impl Into<String>) -> RequestError {
    RequestError { field: field.into(), why: why.into() }
}

const TOOLS_MAX: usize = 128;
/// OpenAI's limit.
const NAME_CHARS_MAX: usize = 64;

/// Tools of chat completions (`{"type": "function", "function": {…}}`) and of responses (`{"type": "function", "name": …}`).
pub fn functions(tools: &[Value]) -> Result<Vec<Function>, RequestError> {
    if tools.len() > TOOLS_MAX {
        return Err(wrong("tools", format!("there are at most {TOOLS_MAX} tools")));
    }
    tools.iter().enumerate().map(|(at, tool)| function(tool).map_err(|why| wrong(format!("tools[{at}]"), why))).collect()
}

fn function(tool: &Value) -> Result<Function, String> {
    let kind = tool["type"].as_str().unwrap_or("function");
    if kind != "function" {
        return Err(format!("tools of type {kind:?} are not performed here; the flow has tools of its own, and yours are of type \"function\""));
    }
    let body = tool.get("function").unwrap_or(tool);
    let name = body["name"].as_str().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        return Err(format!("the name of a function has 1 to {NAME_CHARS_MAX} letters, digits, dashes and underscores"));
    }
    let schema = match body.get("parameters") {
        None | Some(Value::Null) => json!({ "type": "object" }),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err("parameters is a JSON schema".to_owned()),
    };
    Ok(Function { name: name.to_owned(), description: body["description"].as_str().unwrap_or_default().to_owned(), schema })
}

/// `tool_choice` of both endpoints.
pub fn choice(given: Option<&Value>, functions: &[Function]) -> Result<Choice, RequestError> {
    let named = match given {
        None | Some(Value::Null) => return Ok(Choice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => return Ok(Choice::Auto),
            "none" => return Ok(Choice::None),
            "required" if functions.is_empty() => return Err(wrong("tool_choice", "no tools were given")),
            "required" => return Ok(Choice::Required),
            _ => return Err(wrong("tool_choice", "it is auto, none, required, or names a function")),
        },
        Some(object) => object.get("function").unwrap_or(object)["name"].as_str().unwrap_or_default(),
    };
    match functions.iter().any(|function| function.name == named) {
        true => Ok(Choice::Named(named.to_owned())),
        false => Err(wrong("tool_choice", format!("there is no function {named:?} among the tools"))),
    }
}

/// The schema of `response_format` (chat) or `text.format` (responses); `None` for plain text.
pub fn format_schema(field: &str, format: Option<&Value>) -> Result<Option<Value>, RequestError> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format["type"].as_str() {
        None | Some("text") => Ok(None),
        Some("json_object") => Ok(Some(json!({ "type": "object" }))),
        Some("json_schema") => match format.get("json_schema").unwrap_or(format).get("schema") {
            Some(schema @ Value::Object(_)) => Ok(Some(schema.clone())),
            _ => Err(wrong(field, "json_schema needs a schema, which is an object")),
        },
        Some(other) => Err(wrong(field, format!("there is no format {other:?}; there are text, json_object and json_schema"))),
    }
}

/// A conversation in the form that flows take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The texts of system and developer messages.
    pub instructions: String,
    pub history: Vec<ChatMessage>,
    pub question: String,
    /// What the client's own functions returned for the question, a line each.
    pub results: Vec<String>,
    /// It has text that may not be the user's own.
    pub is_tainted: bool,
}

/// One message, as both endpoints have them.
enum InputMessage {
    System(String),
    User(String),
    Assistant(String),
    Call { id: String, words: String },
    Result { id: String, text: String },
}

/// Messages of a chat completion.
pub fn chat_conversation(messages: &[Value]) -> Result<Conversation, RequestError> {
    let mut parsed = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let field = format!("messages[{at}]");
        let text = || content(&message["content"]).map_err(|why| wrong(format!("{field}.content"), why));
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => parsed.push(InputMessage::System(text()?)),
            "user" => parsed.push(InputMessage::User(text()?)),
            "assistant" => {
                parsed.push(InputMessage::Assistant(text()?));
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    parsed.push(called(call["id"].as_str(), &call["function"]));
                }
            }
            "tool" => parsed.push(InputMessage::Result { id: message["tool_call_id"].as_str().unwrap_or_default().to_owned(), text: text()? }),
            other => {
                return Err(wrong(
                    format!("{field}.role"),
                    format!("there is no role {other:?}; there are system, developer, user, assistant and tool"),
                ));
            }
        }
    }
    conversation("messages", parsed)
}

/// The `input` of a response: a text, or items. `known` are calls that an earlier response made, each with its id and what it called.
pub fn response_conversation(input: &Value, known: &[(String, String)]) -> Result<Conversation, RequestError> {
    let items = match input {
        Value::String(text) => return conversation("input", vec![InputMessage::User(text.clone())]),
        Value::Array(items) => items,
        _ => return Err(wrong("input", "it is a text or a list of items")),
    };
    let mut parsed: Vec<InputMessage> = known.iter().map(|(id, words)| InputMessage::Call { id: id.clone(), words: words.clone() }).collect();
    for (at, item) in items.iter().enumerate() {
        let field = format!("input[{at}]");
        let text = |value: &Value| content(value).map_err(|why| wrong(&*field, why));
        match item["type"].as_str().unwrap_or("message") {
            "message" => match item["role"].as_str().unwrap_or_default() {
                "system" | "developer" => parsed.push(InputMessage::System(text(&item["content"])?)),
                "user" => parsed.push(InputMessage::User(text(&item["content"])?)),
                "assistant" => parsed.push(InputMessage::Assistant(text(&item["content"])?)),
                other => return Err(wrong(format!("{field}.role"), format!("there is no role {other:?}"))),
            },
            "function_call" => parsed.push(called(item["call_id"].as_str(), item)),
            "function_call_output" => {
                parsed.push(InputMessage::Result { id: item["call_id"].as_str().unwrap_or_default().to_owned(), text: text(&item["output"])? });
            }
            "reasoning" => {}
            other => return Err(wrong(field, format!("items of type {other:?} are not supported; send messages and function_call_output"))),
        }
    }
    conversation("input", parsed)
}

fn called(id: Option<&str>, call: &Value) -> InputMessage {
    let words = format!("{}({})", call["name"].as_str().unwrap_or_default(), call["arguments"].as_str().unwrap_or_default());
    InputMessage::Call { id: id.unwrap_or_default().to_owned(), words }
}

/// The text of a message: a string, or its text parts.
fn content(content: &Value) -> Result<String, String> {
    let parts = match content {
        Value::Null => return Ok(String::new()),
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => return Err("it is a text or a list of parts".to_owned()),
    };
    let text = |part: &Value| match (part["type"].as_str().unwrap_or_default(), part["text"].as_str(), part["refusal"].as_str()) {
        ("text" | "input_text" | "output_text", Some(text), _) | ("refusal", _, Some(text)) => Ok(text.to_owned()),
        (kind, ..) => Err(format!("parts of type {kind:?} are not supported: flows take text; put files into the documents")),
    };
    Ok(parts.iter().map(text).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn conversation(field: &str, parsed: Vec<InputMessage>) -> Result<Conversation, RequestError> {
    let mut conversation = Conversation::default();
    let asked = parsed.iter().rposition(|one| matches!(one, InputMessage::User(_)));
    let is_answered = matches!(parsed.last(), Some(InputMessage::Assistant(_) | InputMessage::Call { .. }));
    if is_answered {
        return Err(wrong(field, "the last message is the assistant's; end with the user's message or with the results of tool calls"));
    }
    let mut calls: Vec<(String, String)> = Vec::new();
    for (at, one) in parsed.into_iter().enumerate() {
        let is_past = asked.is_none_or(|asked| at < asked);
        match one {
            InputMessage::System(text) => {
                let gap = if conversation.instructions.is_empty() { "" } else { "\n\n" };
                conversation.instructions.push_str(&format!("{gap}{text}"));
            }
            InputMessage::User(text) if Some(at) == asked => conversation.question = text,
            InputMessage::User(text) => conversation.history.push(ChatMessage { role: "user".to_owned(), content: text }),
            InputMessage::Assistant(text) => {
                conversation.is_tainted = true;
                if is_past && !text.trim().is_empty() {
                    conversation.history.push(ChatMessage { role: "assistant".to_owned(), content: text });
                }
            }
            InputMessage::Call { id, words } => calls.push((id, words)),
            InputMessage::Result { id, text } => {
                conversation.is_tainted = true;
                let call = calls.iter().find(|(known, _)| *known == id).map_or("a tool", |(_, words)| words);
                // Results for earlier questions are part of the assistant's answers to those.
                if !is_past || asked.is_none() {
                    conversation.results.push(format!("{call}: {text}"));
                }
            }
        }
    }
    if asked.is_none() && conversation.results.is_empty() {
        return Err(wrong(field, "there is no user message"));
    }
    Ok(conversation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_a_question_and_its_history() {
        let messages = [
            json!({ "role": "system", "content": "Be brief." }),
            json!({ "role": "user", "content": [{ "type": "text", "text": "Hi" }, { "type": "text", "text": "there" }] }),
            json!({ "role": "assistant", "content": "Hello" }),
            json!({ "role": "user", "content": "Weather?" }),
            json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "{}" } }] }),
            json!({ "role": "tool", "tool_call_id": "c1", "content": "22 C" }),
        ];
        let read = chat_conversation(&messages).unwrap();
        assert_eq!((read.instructions.as_str(), read.question.as_str(), read.is_tainted), ("Be brief.", "Weather?", true));
        assert_eq!(read.history.iter().map(|one| one.content.as_str()).collect::<Vec<_>>(), ["Hi\nthere", "Hello"]);
        assert_eq!(read.results, ["weather({}): 22 C"]);
        assert!(!chat_conversation(&messages[..2]).unwrap().is_tainted);
    }

    #[test]
    fn items_of_a_response_are_read_alike() {
        let items = json!([{ "role": "user", "content": [{ "type": "input_text", "text": "Weather?" }] },
            { "type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}" }, { "type": "function_call_output", "call_id": "c1", "output": "22 C" }]);
        assert_eq!(response_conversation(&items, &[]).unwrap().results, ["weather({}): 22 C"]);
        let only_results = json!([{ "type": "function_call_output", "call_id": "c1", "output": "22 C" }]);
        assert_eq!(response_conversation(&only_results, &[]).unwrap().results, ["a tool: 22 C"]);
        let known = [("c1".to_owned(), "weather({})".to_owned())];
        assert_eq!(response_conversation(&only_results, &known).unwrap().results, ["weather({}): 22 C"]);
        assert_eq!(response_conversation(&json!("Hi"), &[]).unwrap().question, "Hi");
    }

    #[test]
    fn what_is_wrong_names_its_field() {
        let image = json!({ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "x" } }] });
        for (messages, field, why) in [
            (vec![image], "messages[0].content", "image_url"),
            (vec![json!({ "role": "wizard", "content": "x" })], "messages[0].role", "wizard"),
            (vec![json!({ "role": "system", "content": "x" })], "messages", "no user message"),
            (vec![json!({ "role": "user", "content": "x" }), json!({ "role": "assistant", "content": "y" })], "messages", "assistant's"),
            (vec![json!({ "role": "user", "content": 7 })], "messages[0].content", "text"),
        ] {
            let wrong = chat_conversation(&messages).unwrap_err();
            assert!(wrong.field == field && wrong.why.contains(why), "{wrong:?}");
        }
        assert!(functions(&[json!({ "type": "web_search" })]).unwrap_err().why.contains("web_search"));
        assert!(functions(&[json!({ "type": "function", "function": { "name": "a b" } })]).is_err());
        assert_eq!(functions(&[json!({ "type": "function", "name": "f" })]).unwrap()[0].schema, json!({ "type": "object" }));
        assert!(choice(Some(&json!({ "type": "function", "function": { "name": "g" } })), &[]).is_err());
        assert!(format_schema("response_format", Some(&json!({ "type": "json_schema" }))).is_err());
    }
}

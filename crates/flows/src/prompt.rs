//! Prompts are files, in a long form and a short one for small models; this module turns them into messages, and replies into JSON.
//!
//! ```text
//! const PLAN: Prompt = Prompt { long: include_str!("plan.md"), short: include_str!("plan.small.md") };
//! render(PLAN.of(&profile), json!({ "tools": … }))         the text; a missing field is a bug and panics, so test every prompt
//! message(role, content) · system(text) · user(text)       a graph::Message
//! call(purpose, messages, schema, tokens_max) -> Request   3 attempts, DEADLINE_MS, an estimate of its cost; add .label(…).last() as needed
//! read::<T>(replies, index) -> Result<T, Failure>          the reply as a type, from JSON or from text that contains JSON, also if it failed its schema
//! json_in(&value) -> Option<Value>                         the object or list in a reply
//! text_of(&value) -> Option<String>                        the reply as non-empty text
//! prose(reply) -> Option<String>                           readable text where JSON was expected
//! text_of_person(reply, tokens_max) -> String              a person's answer as text
//! clipped(text, tokens_max) -> String                      start and end of a text that is too long
//! ```
//!
//! The question comes last and alone, as a message of role `user`, and evidence as messages of role `evidence` before it: extraction, which answers
//! without a model, reads exactly these.

use std::sync::LazyLock;

use graph::{Effect, Failure, FailureKind, Message, ModelCall, Replies, Request, Usage};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::input::ModelProfile;

/// A prompt in two sizes.
#[derive(Clone, Copy, Debug)]
pub struct Prompt {
    /// For large models.
    pub long: &'static str,
    /// For small models.
    pub short: &'static str,
}

impl Prompt {
    /// The form for this model.
    pub fn of(&self, profile: &ModelProfile) -> &'static str {
        if profile.is_small { self.short } else { self.long }
    }
}

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let lines = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(lines.expect("the delimiters are the usual ones"));
    environment
});

/// Renders a prompt. Values are inserted verbatim and never parsed as templates.
pub fn render(template: &str, context: impl Serialize) -> String {
    let text = ENVIRONMENT.render_str(template, Serde(context));
    text.expect("a prompt is part of the program, and every one is rendered in a test").trim().to_owned()
}

/// A message.
pub fn message(role: &str, content: impl Into<String>) -> Message {
    Message { role: role.to_owned(), content: content.into() }
}

/// A system message.
pub fn system(content: impl Into<String>) -> Message {
    message("system", content)
}

/// A user message.
pub fn user(content: impl Into<String>) -> Message {
    message("user", content)
}

/// A model on two cores needs half a minute for a plan; this is the limit for one reply.
pub const DEADLINE_MS: u64 = 180_000;
const ATTEMPTS_MAX: u32 = 3;
/// Overhead of one message.
const MESSAGE_TOKENS: u64 = 6;

/// A model call with default attempts and deadline.
pub fn call(purpose: &str, messages: Vec<Message>, schema: Option<Value>, tokens_max: u32) -> Request {
    let tokens_in = tokens_of(&messages) as u64 + schema.as_ref().map_or(0, |schema| evidence::tokens(&schema.to_string()) as u64);
    let call = ModelCall { purpose: purpose.to_owned(), messages, schema, tokens_max: Some(tokens_max), ..ModelCall::default() };
    let estimate = Usage { tokens_in, tokens_out: u64::from(tokens_max), ..Usage::default() };
    Request::from(Effect::CallModel(call)).label(purpose).attempts(ATTEMPTS_MAX).deadline_ms(DEADLINE_MS).estimate(estimate)
}

/// Estimated tokens of messages.
pub fn tokens_of(messages: &[Message]) -> usize {
    messages.iter().map(|message| evidence::tokens(&message.content) + MESSAGE_TOKENS as usize).sum()
}

/// Parses the reply as a type; what does not fit is a failure. A reply refused because of its schema is parsed too: it has been paid for,
/// and the type may need less than the schema.
pub fn read<T: DeserializeOwned>(replies: &Replies<'_>, index: usize) -> Result<T, Failure> {
    let value = match replies.value(index) {
        Ok(value) => value,
        Err(failure) => {
            let found = failure.output.as_deref().and_then(json_in_text).and_then(|json| serde_json::from_value(json).ok());
            return found.ok_or(failure);
        }
    };
    let wrong = |why: String| Failure::new(FailureKind::Invalid, format!("{why}: {}", shown(value)));
    let found = json_in(value).ok_or_else(|| wrong("there is no JSON in the reply".to_owned()))?;
    serde_json::from_value(found).map_err(|error| wrong(format!("the reply has not the expected form ({error})")))
}

/// The object or list in a reply: the value itself, or in its text, whole, fenced or between other text.
pub fn json_in(value: &Value) -> Option<Value> {
    match value {
        Value::Object(_) | Value::Array(_) => Some(value.clone()),
        Value::String(text) => json_in_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Maximum number of positions in a text where JSON is looked for.
const STARTS_MAX: usize = 16;

fn json_in_text(text: &str) -> Option<Value> {
    let is_whole = |value: &Value| value.is_object() || value.is_array();
    if let Some(value) = serde_json::from_str(text.trim()).ok().filter(is_whole) {
        return Some(value);
    }
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at).take(STARTS_MAX);
    let mut found = starts.filter_map(|at| serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok());
    // `[1]` in a text is a citation, not JSON.
    found.find(|value: &Value| match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => items.iter().any(|item| item.is_object() || item.is_string()),
        _ => false,
    })
}

/// The reply as non-empty text.
pub fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Readable text where JSON was expected. JSON without usable content is not shown to users.
pub fn prose(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && !text.starts_with(['{', '['])).then(|| text.to_owned())
}

/// What a person answered to a question in their own words.
pub fn text_of_person(reply: Option<&Value>, tokens_max: usize) -> String {
    let text = reply.map(|value| match value {
        Value::String(text) => text.clone(),
        // A form may wrap the words.
        Value::Object(fields) => fields.values().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    });
    let answer = text.map(|text| evidence::visible(&text).trim().to_owned()).filter(|text| !text.is_empty());
    answer.map_or_else(|| "(nothing; assume what is most likely)".to_owned(), |text| clipped(&text, tokens_max))
}

/// The start of a reply, for an error message.
pub fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 200;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.chars().count() > CHARS_MAX { text.chars().take(CHARS_MAX).chain(['…']).collect() } else { text }
}

/// Start and end of a text that exceeds this many tokens, and the size of the part removed.
pub fn clipped(text: &str, tokens_max: usize) -> String {
    const MARK_TOKENS: usize = 16;
    let tokens = evidence::tokens(text);
    if tokens <= tokens_max {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut keep = chars.len() * tokens_max.saturating_sub(MARK_TOKENS) / tokens.max(1);
    loop {
        let (head, tail) = (keep * 2 / 3, keep - keep * 2 / 3);
        let start: String = chars[..head].iter().collect();
        let end: String = chars[chars.len() - tail..].iter().collect();
        let whole = format!("{} [… {} characters left out …] {}", start.trim_end(), chars.len() - keep, end.trim_start());
        // Dense parts of a text may have more tokens than their share.
        if keep == 0 || evidence::tokens(&whole) <= tokens_max {
            return if tokens_max < MARK_TOKENS { String::new() } else { whole };
        }
        keep = keep * 4 / 5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_go_in_as_they_are() {
        let text = render("{% for tool in tools %}\n- {{ tool }}\n{% endfor %}\n", json!({ "tools": ["<a> & {{ b }}", "c"] }));
        assert_eq!(text, "- <a> & {{ b }}\n- c");
    }

    #[test]
    #[should_panic(expected = "every one is rendered in a test")]
    fn a_field_that_is_not_there_is_a_bug() {
        let _ = render("{{ misspelt }}", json!({}));
    }

    #[test]
    fn json_is_found_where_models_put_it() {
        let plan = json!({ "tasks": [] });
        let cases = [
            (json!({ "tasks": [] }), Some(plan.clone())),
            (json!("{\"tasks\": []}"), Some(plan.clone())),
            (json!("As [1] says:\n```json\n{\"tasks\": []}\n```\nGood luck {you}!"), Some(plan)),
            (json!("[\"a\"]"), Some(json!(["a"]))),
            (json!("It is so [1], {really}."), None),
            (json!("{\"tasks\": ["), None),
            (json!(3), None),
        ];
        for (value, expected) in cases {
            assert_eq!(json_in(&value), expected, "{value}");
        }
    }

    #[test]
    fn clipping_keeps_both_ends_and_the_limit() {
        let text = (0..2_000).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
        for tokens_max in [0, 10, 40, 500] {
            let clip = clipped(&text, tokens_max);
            assert!(evidence::tokens(&clip) <= tokens_max, "{tokens_max}: {clip}");
            assert_eq!(clip.starts_with("word0") && clip.ends_with("word1999"), tokens_max >= 40, "{clip}");
        }
        assert_eq!(clipped("short", 10), "short");
    }

    #[test]
    fn a_call_has_an_estimate_of_its_cost() {
        let request = call("plan", vec![user("one two three")], None, 100);
        assert_eq!((request.estimate.tokens_out, request.label.as_str()), (100, "plan"));
        assert!(request.estimate.tokens_in > 3);
    }
}

//! A question to the user.

use graph::{Ask, Effect, Go, Question, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Reason;
use crate::prompt;

/// Maximum number of questions to the user in one run.
pub(super) const QUESTIONS_MAX: usize = 2;
pub(super) const QUESTION_TOKENS_MAX: usize = 150;
const REPLY_TOKENS_MAX: usize = 500;

/// A question to the user, and the reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Clarified {
    question: String,
    answer: String,
}

pub(super) fn ask(s: &Reason) -> Ask {
    let Some(prompt) = s.question_to_user.clone() else { return Ask::nothing() };
    let schema = json!({ "type": "string", "description": "your answer, in your own words" });
    Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking what is meant"))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let question = s.question_to_user.take().unwrap_or_default();
    let text = replies.value(0).ok().map(|value| match value {
        Value::String(text) => text.clone(),
        // The reply may be an object with the text in its fields.
        Value::Object(fields) => fields.values().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    });
    let answer = text.map(|text| evidence::visible(&text).trim().to_owned()).filter(|text| !text.is_empty());
    let answer = answer.map_or_else(|| "(nothing; assume what is most likely)".to_owned(), |text| prompt::clipped(&text, REPLY_TOKENS_MAX));
    let clarified = Clarified { question, answer };
    let note = json!(clarified);
    s.clarified.push(clarified);
    Go::to("plan").note("clarified", note)
}

//! A question to the user.

use graph::{Ask, Effect, Go, Question, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Reason;
use crate::prompt;

/// Maximum number of questions to the user in one run.
pub(super) const QUESTIONS_MAX: usize = 2;
pub(super) const QUESTION_TOKENS_MAX: usize = 150;
const REPLY_TOKENS_MAX: usize = 500;

/// A question to the user, and the reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Clarification {
    question: String,
    answer: String,
}

pub(super) fn ask(s: &Reason) -> Ask {
    let Some(prompt) = s.question_to_user.clone() else { return Ask::nothing() };
    let schema = json!({ "type": "string", "description": "your answer, in your own words" });
    Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking for clarification"))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let question = s.question_to_user.take().unwrap_or_default();
    let answer = prompt::text_of_person(replies.value(0).ok(), REPLY_TOKENS_MAX);
    let clarified = Clarification { question, answer };
    let note = json!(clarified);
    s.clarified.push(clarified);
    Go::to("plan").note("clarified", note)
}

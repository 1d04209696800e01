//! Approval of a plan by a person, shared by all flows with a plan: the question, and the meaning of the answer.
//!
//! ```text
//! request(prompt, lists, hash) -> Request          approve, send other steps, decline with a reason, or request a revision with a reason
//! read::<T>(replies, hash) -> Decision<T>          T: the flow's own lists, each an `Option`
//! declined_words(what, reason) -> String           the answer of a run whose plan was declined; the planner of the next turn sees it in the conversation
//! ```
//!
//! An answer is `{"approve": true}`, `{"approve": true, "steps": […]}`, `{"approve": false, "reason": "…"}` or `{"approve": false,
//! "revise": "…"}`.

use graph::{Effect, Question, Replies, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::prompt;

/// Maximum number of revisions in one run.
pub(crate) const REVISIONS_MAX: usize = 10;
const REASON_TOKENS_MAX: usize = 500;

/// A person's decision about a plan.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision<T> {
    /// With the lists that replace those of the plan.
    Approved(T),
    /// The person's reason; empty if none was given.
    Declined(String),
    /// The planner plans again with this reason.
    Revise(String),
    /// Why the answer is invalid.
    Wrong(String),
}

/// `lists`: the plan's lists by name, each with the schema of its items.
pub(crate) fn request(prompt: String, lists: &[(&str, Value)], hash: Option<&str>) -> Request {
    let mut properties = Map::new();
    properties.insert("approve".into(), json!({ "type": "boolean" }));
    properties.insert("reason".into(), json!({ "type": "string", "description": "why the plan is declined" }));
    properties.insert("revise".into(), json!({ "type": "string", "description": "what the planner should change; it plans again and asks again" }));
    if let Some(hash) = hash {
        properties.insert("plan_hash".into(), json!({ "type": "string", "description": "the plan this is about", "default": hash }));
    }
    for (name, items) in lists {
        properties
            .insert((*name).to_owned(), json!({ "type": "array", "items": items, "description": "what to do instead; then this is what runs" }));
    }
    let schema = json!({ "type": "object", "required": ["approve"], "properties": properties });
    Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking for approval of the plan")
}

/// The answer to [`request`]. With `hash`, an answer about another plan is wrong.
pub(crate) fn read<T: DeserializeOwned + Default>(replies: &Replies<'_>, hash: Option<&str>) -> Decision<T> {
    #[derive(Deserialize)]
    struct Word {
        #[serde(default)]
        approve: Option<bool>,
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        revise: Option<String>,
        #[serde(default)]
        plan_hash: Option<String>,
    }
    let value = match replies.value(0) {
        Ok(Value::Bool(true)) => return Decision::Approved(T::default()),
        Ok(Value::Bool(false) | Value::Null) => return Decision::Declined(String::new()),
        Ok(Value::String(word)) => {
            let is_yes = matches!(word.trim().to_lowercase().as_str(), "yes" | "y" | "ok" | "approve" | "true");
            return if is_yes { Decision::Approved(T::default()) } else { Decision::Declined(String::new()) };
        }
        Ok(value) => value,
        Err(failure) => return Decision::Declined(failure.to_string()),
    };
    let word = match Word::deserialize(value) {
        Ok(word) => word,
        Err(error) => return Decision::Wrong(error.to_string()),
    };
    let words = |text: Option<String>| prompt::clipped(evidence::visible(&text.unwrap_or_default()).trim(), REASON_TOKENS_MAX);
    let revise = words(word.revise);
    if let (Some(about), Some(hash)) = (&word.plan_hash, hash)
        && about != hash
    {
        return Decision::Wrong(format!("the answer is about plan {about}, but this is plan {hash}"));
    }
    match word.approve {
        Some(true) if !revise.is_empty() => Decision::Wrong("a plan is either approved or revised; send one of them".to_owned()),
        _ if !revise.is_empty() => Decision::Revise(revise),
        // Sent steps imply approval; an empty answer does not.
        None if !value.as_object().is_some_and(|fields| fields.values().any(Value::is_array)) => Decision::Declined(words(word.reason)),
        Some(false) => Decision::Declined(words(word.reason)),
        Some(true) | None => match T::deserialize(value) {
            Ok(lists) => Decision::Approved(lists),
            Err(error) => Decision::Wrong(error.to_string()),
        },
    }
}

/// `The plan was not approved: too expensive.`
pub(crate) fn declined_words(what: &str, reason: &str) -> String {
    let what = what.trim_end_matches('.');
    match reason.trim().trim_end_matches('.') {
        "" => format!("{what}."),
        reason => format!("{what}: {reason}."),
    }
}

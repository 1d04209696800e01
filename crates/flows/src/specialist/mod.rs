//! The agents that come with Baton: each a flow, served as a process of its own by `baton agent NAME` or called as a child of `supervise`.
//!
//! | flow | capability | ends with |
//! |---|---|---|
//! | [`researcher`] | `research` | `data.research_summary {topic, summary, key_points, sources}`, `data.tool_used` |
//! | [`writer`] | `create_document` | `data.document {path, format, title, bytes, sources}` |
//! | [`mailer`] | `send_mail` | `data.mail {to, subject, attachments, message_id}` |
//!
//! Each takes a state and gives it back with one message more: the contract as pure JSON, or, where there was nothing to do, plain words.

pub mod mailer;
pub mod researcher;
pub mod writer;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::turn::{self, Turn};

/// The newest data that an agent reported under this capability.
fn handed(messages: &[Turn], capability: &str) -> Option<Value> {
    messages.iter().rev().filter(|turn| !turn.is_a_persons()).find_map(|turn| turn::data_in(&turn.content, capability))
}

/// The state with one message added, and a line for people.
fn closing(messages: &[Turn], context: &Map<String, Value>, flow: &str, last: &Option<Turn>, report: &str, capability: &str) -> Value {
    let mut messages = messages.to_vec();
    messages.extend(last.clone());
    let mut context = context.clone();
    if !report.is_empty() {
        let reports = context.entry("reports").or_insert_with(|| json!({}));
        if !reports.is_object() {
            *reports = json!({});
        }
        reports[capability] = json!(report);
    }
    let words = last.as_ref().map_or("", |turn| turn.content.as_str());
    let answer = if report.is_empty() { words } else { report };
    Value::Object(turn::state(&messages, "", &context, flow, answer))
}

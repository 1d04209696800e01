//! What was searched stays with its thread: the same question within a day is not searched again (C3). A summary is not kept so, because what it is
//! of has changed by then.

use graph::{Context, Note, Reach};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Chat, RECALLED_MESSAGES_MAX, Row};
use crate::context;

const KIND: &str = "row";
/// News are older than that by tomorrow.
const MS_MAX: i64 = 86_400_000;

pub(super) fn keep(s: &Chat) -> Vec<Note> {
    if s.row.search_results.trim().is_empty() {
        return Vec::new();
    }
    let Row { query, turn, search_results, search_confidence, .. } = s.row.clone();
    let row = Row { query, turn, search_results, search_confidence, ..Row::default() };
    vec![Note { kind: KIND.to_owned(), key: key(&s.asked()), value: json!(row), reach: Reach::Thread, ms_max: Some(MS_MAX) }]
}

pub(super) fn recall(input: &mut Value, context: &Context) -> bool {
    let is_heard = context::fill(input, context, RECALLED_MESSAGES_MAX);
    let key = key(&context::asked(input));
    let found = context.notes.iter().find(|note| note.kind == KIND && note.key == key).and_then(|note| Row::deserialize(&note.value).ok());
    let Some(settings) = context::settings(input) else { return is_heard };
    settings.entry("turn").or_insert_with(|| json!(context.turns + 1));
    let Some(row) = found.filter(|_| !settings.contains_key("row")) else { return is_heard };
    settings.insert("row".to_owned(), json!(row));
    true
}

fn key(question: &str) -> Value {
    json!(question.trim().to_lowercase())
}

//! Search results are kept with their thread: the same question within a day is not searched again (C3). A summary is not kept, because its
//! material changes.

use graph::{Context, Note, NoteScope};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Chat, RECALLED_MESSAGES_MAX, Row};
use crate::context;

const KIND: &str = "row";
/// One day; after that, results about current events are outdated.
const MS_MAX: i64 = 86_400_000;

pub(super) fn keep(s: &Chat) -> Vec<Note> {
    if s.row.search_results.trim().is_empty() {
        return Vec::new();
    }
    let Row { query, turn, search_results, search_confidence, .. } = s.row.clone();
    let row = Row { query, turn, search_results, search_confidence, ..Row::default() };
    vec![Note { kind: KIND.to_owned(), key: key(&s.full_question()), value: json!(row), reach: NoteScope::Thread, ms_max: Some(MS_MAX) }]
}

pub(super) fn recall(input: &mut Value, context: &Context) -> bool {
    let is_filled = context::fill(input, context, RECALLED_MESSAGES_MAX);
    mark_without_findings(input, context);
    let key = key(&context::full_question(input));
    let found = context.notes.iter().find(|note| note.kind == KIND && note.key == key).and_then(|note| Row::deserialize(&note.value).ok());
    let Some(settings) = context::settings(input) else { return is_filled };
    settings.entry("turn").or_insert_with(|| json!(context.turns + 1));
    let Some(row) = found.filter(|_| !settings.contains_key("row")) else { return is_filled };
    settings.insert("row".to_owned(), json!(row));
    true
}

fn key(question: &str) -> Value {
    json!(question.trim().to_lowercase())
}

/// Marks which messages of the input are answers without findings. They are matched by their text, because a parent run may have passed a
/// different part of the history than the engine would.
fn mark_without_findings(input: &mut Value, context: &Context) {
    let answers: Vec<&str> =
        context.without_findings.iter().filter_map(|index| context.history.get(*index)).map(|message| message.content.as_str()).collect();
    let Some(fields) = input.as_object_mut() else { return };
    if answers.is_empty() || fields.contains_key("without_findings") {
        return;
    }
    let is_marked = |message: &Value| message["role"] == "assistant" && message["content"].as_str().is_some_and(|text| answers.contains(&text));
    let history = fields.get("history").and_then(Value::as_array).into_iter().flatten();
    let marked: Vec<usize> = history.enumerate().filter(|(_, message)| is_marked(message)).map(|(index, _)| index).collect();
    fields.insert("without_findings".to_owned(), json!(marked));
}

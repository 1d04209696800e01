//! Executes the planned stages, one node visit each: the search first, so that a summary planned with it has material.

use evidence::Found;
use graph::{Ask, Go, Replies, Request};
use serde_json::{Value, json};

use super::{Chat, Stage};
use crate::toolbox::DOCUMENTS;

pub(super) const SEARCH: &str = "search.search";
pub(super) const SUMMARIZE: &str = "summary.summarize";
const SEARCH_MS_MAX: u64 = 30_000;
const SUMMARIZE_MS_MAX: u64 = 120_000;
/// Number of earlier answers that a summary covers.
pub(super) const RESPONSES_MAX: usize = 3;

fn current(s: &Chat) -> Option<Stage> {
    s.planned.iter().copied().find(|stage| !s.executed.contains(stage) && !s.failed.iter().any(|(failed, _)| failed == stage))
}

/// The last answers of the thread that hold findings, and the results just found if they belong to the summary.
fn texts(s: &Chat) -> Vec<String> {
    let mut responses = s.findings();
    if s.executed.contains(&Stage::Search) {
        responses.push(&s.row.search_results);
    }
    let from = responses.len().saturating_sub(RESPONSES_MAX);
    responses[from..].iter().enumerate().map(|(at, text)| format!("Response {}: {text}", at + 1)).collect()
}

pub(super) fn ask(s: &Chat) -> Ask {
    match current(s) {
        Some(Stage::Search) => {
            let request = |tool: &str, label: &str| {
                let request = Request::from(graph::tool(tool, json!({ "query": s.full_question() })));
                request.label(label).attempts(3).deadline_ms(SEARCH_MS_MAX)
            };
            let mut ask = Ask::nothing();
            if s.docs {
                ask.add(request(DOCUMENTS, "searching the documents"));
            }
            ask.add(request(SEARCH, "searching"));
            ask
        }
        Some(Stage::Summarize) => match texts(s) {
            texts if texts.is_empty() => Ask::nothing(),
            texts => {
                let request = Request::from(graph::tool(SUMMARIZE, json!({ "texts": texts })));
                Ask::one(request.label("summarizing").attempts(3).deadline_ms(SUMMARIZE_MS_MAX))
            }
        },
        Some(Stage::ConversationQuery) | None => Ask::nothing(),
    }
}

pub(super) fn fold(s: &mut Chat, replies: &Replies<'_>) -> Go {
    let Some(stage) = current(s) else { return Go::to("answer") };
    let result = match replies.is_empty() {
        true => Err("nothing was answered yet that could be summed up".to_owned()),
        false => joined(replies),
    };
    let note = match result.and_then(|found| keep(s, stage, found)) {
        Ok(()) => {
            s.executed.push(stage);
            json!({ "stage": stage, "ok": true })
        }
        Err(why) => {
            s.failed.push((stage, why.clone()));
            json!({ "stage": stage, "ok": false, "why": why })
        }
    };
    Go::to(if current(s).is_some() { "run" } else { "answer" }).note("stage", note)
}

/// All results, documents first. A source without results is not a failure as long as another has some.
fn joined(replies: &Replies<'_>) -> Result<Found, String> {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for index in 0..replies.len() {
        match replies.parse::<Found>(index) {
            Ok(found) => all.push(found),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    let texts: Vec<String> = all.iter().map(|found| text_of(found, "text")).filter(|text| !text.is_empty()).collect();
    let mut parts = all.into_iter();
    let Some(mut first) = parts.next() else { return Err(failures.join("; ")) };
    for part in parts {
        let surest = confidence(&first.data).into_iter().chain(confidence(&part.data)).max_by(f64::total_cmp);
        first.spans.extend(part.spans);
        first.data = json!({ "text": texts.join("\n\n"), "confidence": surest });
    }
    Ok(first)
}

fn keep(s: &mut Chat, stage: Stage, found: Found) -> Result<(), String> {
    let confidence = confidence(&found.data);
    match stage {
        Stage::Search => {
            let text = text_of(&found, "text");
            if text.is_empty() && found.spans.is_empty() {
                return Err(format!("{SEARCH} found nothing"));
            }
            s.row.search_results =
                if text.is_empty() { found.spans.iter().map(|span| span.text.as_str()).collect::<Vec<_>>().join("\n\n") } else { text };
            s.row.search_confidence = confidence;
            s.spans = found.spans;
        }
        Stage::Summarize => {
            let text = text_of(&found, "summary");
            if text.is_empty() {
                return Err(format!("{SUMMARIZE} returned no text"));
            }
            s.is_summary_extracted = found.data.get("how").and_then(Value::as_str) == Some("extracted");
            s.row.summary = text;
            s.row.summary_confidence = confidence;
        }
        Stage::ConversationQuery => {}
    }
    Ok(())
}

fn text_of(found: &Found, field: &str) -> String {
    let data = found.data.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    data.unwrap_or(&found.text).trim().to_owned()
}

/// The tool's own confidence, otherwise that of its best passage. Only numbers from 0 to 1 are accepted.
fn confidence(data: &Value) -> Option<f64> {
    let of = |value: &Value| value.get("confidence").and_then(Value::as_f64).filter(|number| (0.0..=1.0).contains(number));
    let passages = data.get("passages").and_then(Value::as_array).into_iter().flatten().filter_map(of);
    of(data).or_else(|| passages.max_by(f64::total_cmp))
}

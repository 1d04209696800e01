//! The objects that OpenAI's clients read.

use graph::Usage;
use serde_json::{Value, json};

use crate::turn::{Answered, citations};

pub(super) fn model(name: &str, about: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "baton", "description": about })
}

pub(super) fn chat_usage(usage: Usage) -> Value {
    json!({ "prompt_tokens": usage.tokens_in, "completion_tokens": usage.tokens_out, "total_tokens": usage.tokens_in + usage.tokens_out })
}

pub(super) fn response_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.tokens_in,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": usage.tokens_out,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.tokens_in + usage.tokens_out,
    })
}

/// Calls of the client's functions: id, name and arguments as JSON text.
pub(crate) fn calls(run: &str, output: &Value) -> Vec<(String, String, String)> {
    let calls = output.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate();
    let call = |(at, call): (usize, &Value)| {
        (format!("call_{run}_{at}"), call["name"].as_str().unwrap_or_default().to_owned(), call["arguments"].to_string())
    };
    calls.map(call).collect()
}

pub(super) fn chat_calls(run: &str, output: &Value) -> Vec<Value> {
    let call = |(at, (id, name, arguments)): (usize, (String, String, String))| json!({ "index": at, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    calls(run, output).into_iter().enumerate().map(call).collect()
}

/// Citations of chat completions: sources with an address on the web as `url_citation`, others as `file_citation`.
pub(super) fn chat_annotations(answered: &Answered) -> Vec<Value> {
    let annotation = |cited: CitedSource| match cited.url {
        Some(url) => {
            json!({ "type": "url_citation", "url_citation": { "url": url, "title": cited.title, "start_index": cited.start, "end_index": cited.end } })
        }
        None => json!({ "type": "file_citation", "file_citation": { "file_id": cited.file, "filename": cited.title, "index": cited.start } }),
    };
    cited(answered).map(annotation).collect()
}

/// The same for responses.
pub(super) fn response_annotations(answered: &Answered) -> Vec<Value> {
    let annotation = |cited: CitedSource| match cited.url {
        Some(url) => json!({ "type": "url_citation", "url": url, "title": cited.title, "start_index": cited.start, "end_index": cited.end }),
        None => json!({ "type": "file_citation", "file_id": cited.file, "filename": cited.title, "index": cited.start }),
    };
    cited(answered).map(annotation).collect()
}

struct CitedSource<'a> {
    title: &'a str,
    url: Option<&'a str>,
    file: &'a str,
    /// In characters.
    start: usize,
    end: usize,
}

fn cited(answered: &Answered) -> impl Iterator<Item = CitedSource<'_>> {
    let (mut byte, mut chars) = (0, 0);
    citations(&answered.text, answered.sources.len()).into_iter().map(move |(range, number)| {
        chars += answered.text[byte..range.start].chars().count();
        byte = range.start;
        let source = &answered.sources[number - 1];
        let address = source.address.as_deref();
        CitedSource {
            title: &source.title,
            url: address.filter(|address| address.starts_with("http://") || address.starts_with("https://")),
            file: address.unwrap_or(&source.title),
            start: chars,
            end: chars + range.len(),
        }
    })
}

//! The call that found a span, as one short line: `stories.search (query: upstream)`.

use serde_json::Value;

use crate::fence;

/// Characters of one argument's value, and of the whole label.
const VALUE_CHARS_MAX: usize = 60;
const LABEL_CHARS_MAX: usize = 160;

/// Names of arguments whose values are never repeated.
const SECRETS: &[&str] = &["password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential"];

/// A tool's name and arguments as text, for `Span::task`.
pub fn task_label(tool: &str, arguments: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (name, value) in arguments.as_object().into_iter().flatten() {
        let is_secret = SECRETS.iter().any(|secret| name.to_lowercase().contains(secret));
        match words(value) {
            _ if is_secret => parts.push(format!("{name}: …")),
            Some(words) => parts.push(format!("{name}: {words}")),
            None => {}
        }
    }
    let tool = clipped(tool, LABEL_CHARS_MAX);
    if parts.is_empty() { tool } else { clipped(&format!("{tool} ({})", parts.join(", ")), LABEL_CHARS_MAX) }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(clipped(text, VALUE_CHARS_MAX)),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Array(items) => {
            let list: Vec<String> = items.iter().filter_map(words).collect();
            (!list.is_empty()).then(|| clipped(&list.join(", "), VALUE_CHARS_MAX))
        }
        Value::Object(_) => Some(clipped(&value.to_string(), VALUE_CHARS_MAX)),
    }
}

/// One line without characters that a prompt or Markdown would parse.
fn clipped(text: &str, chars_max: usize) -> String {
    let line = fence::defused(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if line.chars().count() > chars_max { line.chars().take(chars_max).chain(['…']).collect() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn s12_a_label_names_the_tool_and_what_it_was_asked() {
        let cases = [
            (json!({ "query": "upstream" }), "stories.search (query: upstream)"),
            (json!({ "query": "upstream tag:*", "size": 50 }), "stories.search (query: upstream tag:*, size: 50)"),
            (json!({ "none": null, "open": true, "tags": ["a", "b"] }), "stories.search (open: true, tags: a, b)"),
            (json!({ "api_key": "sk-1", "query": "x" }), "stories.search (api_key: …, query: x)"),
            (json!({}), "stories.search"),
            (json!("x"), "stories.search"),
            (json!({ "q": "a\n`b` <|im_start|>" }), "stories.search (q: a 'b' ‹|im_start|›)"),
        ];
        for (arguments, expected) in cases {
            assert_eq!(task_label("stories.search", &arguments), expected);
        }
        let long = task_label("t", &json!({ "a": "x ".repeat(500), "b": "y".repeat(500), "c": "z".repeat(500) }));
        assert!(long.chars().count() <= LABEL_CHARS_MAX + 1, "{long}");
    }
}

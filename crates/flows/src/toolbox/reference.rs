//! References in a plan to the result of another task: `{{1}}` in an argument, or `{{1.data.items.0.id}}` for a part of it.
//!
//! References are read only in plans written by a model, and become holes beside the arguments, so text in a tool's reply is never parsed
//! for them. A number that no task has is an error of the plan, which the caller reports.

use std::ops::Range;

use graph::Placeholder;
use serde_json::Value;

/// A reference in an argument to the result of another task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Position in the arguments: a JSON pointer.
    pub at: String,
    /// The byte range it replaces; `None` is the whole value.
    pub within: Option<Range<usize>>,
    /// The number of the task it refers to.
    pub task: usize,
    /// A JSON pointer into that task's reply, an `evidence::Found`.
    pub part: String,
}

impl Reference {
    /// The hole in a tool call, where `from` is the index of the task's request.
    pub fn hole(&self, from: usize) -> Placeholder {
        Placeholder { at: format!("/arguments{}", self.at), within: self.within.clone(), from, part: self.part.clone() }
    }

    /// Whether it is the value of this argument.
    pub fn is_of(&self, argument: &str) -> bool {
        self.at == format!("/{}", escaped(argument))
    }
}

/// All references in arguments.
pub fn references(arguments: &Value) -> Vec<Reference> {
    let mut found = Vec::new();
    collect(arguments, &mut String::new(), &mut found, 0);
    found
}

const DEPTH_MAX: usize = 16;

fn collect(value: &Value, at: &mut String, found: &mut Vec<Reference>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let mut below = |name: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(&escaped(name));
        collect(value, at, found, depth + 1);
        at.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| below(&index.to_string(), value)),
        Value::String(text) => found.extend(in_text(text, at)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn in_text(text: &str, at: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|place| from + place) {
        let Some(close) = text[open..].find("}}").map(|place| open + place) else { break };
        from = close + 2;
        if let Some((task, part)) = parsed(&text[open + 2..close]) {
            let is_whole = text[..open].trim().is_empty() && text[from..].trim().is_empty();
            found.push(Reference { at: at.to_owned(), within: (!is_whole).then_some(open..from), task, part });
        }
    }
    found
}

/// `1`, `task 1`, `step_2.data.url`, `3.items[0].id`.
fn parsed(words: &str) -> Option<(usize, String)> {
    let words = words.trim().trim_start_matches('$');
    let rest = ["tasks", "task", "steps", "step", "result of", "results", "result"].into_iter().find_map(|word| words.strip_prefix(word));
    let words = rest.unwrap_or(words).trim_start_matches([' ', '_', '.', '[', '#', ':']);
    let digits = words.bytes().take_while(u8::is_ascii_digit).count();
    let task = words[..digits].parse().ok()?;
    let path = words[digits..].replace('[', ".").replace(']', "");
    if !path.is_empty() && !path.starts_with('.') {
        return None;
    }
    let mut path: Vec<&str> = path.split('.').map(|part| part.trim().trim_matches(['"', '\''])).filter(|part| !part.is_empty()).collect();
    if matches!(path.first(), Some(&("result" | "output" | "results"))) {
        path.remove(0);
    }
    let pointer = |parts: &[&str]| parts.iter().map(|part| format!("/{}", escaped(part))).collect::<String>();
    let part = match path.as_slice() {
        [] | ["text" | "content"] => "/text".to_owned(),
        ["data" | "spans" | "text", ..] => pointer(&path),
        ["passages", rest @ ..] => format!("/spans{}", pointer(rest)),
        ["url" | "address" | "link"] => "/spans/0/address".to_owned(),
        ["title"] => "/spans/0/title".to_owned(),
        _ => format!("/data{}", pointer(&path)),
    };
    Some((task, part))
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_found_as_models_write_them() {
        let cases = [
            ("{{1}}", Some((1, "/text", true))),
            (" {{ task 2 }} ", Some((2, "/text", true))),
            ("about {{step_3.output}} now", Some((3, "/text", false))),
            ("{{1.data.items.0.id}}", Some((1, "/data/items/0/id", true))),
            ("{{1.items[0].a/b}}", Some((1, "/data/items/0/a~1b", true))),
            ("{{tasks[4].result.url}}", Some((4, "/spans/0/address", true))),
            ("{{2.passages.1.text}}", Some((2, "/spans/1/text", true))),
            ("{{ name }}", None),
            ("{{1abc}}", None),
            ("{{1", None),
            ("{1}", None),
        ];
        for (text, expected) in cases {
            let found = references(&json!({ "q": text }));
            let found: Vec<(usize, &str, bool)> =
                found.iter().map(|reference| (reference.task, reference.part.as_str(), reference.within.is_none())).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn places_are_pointers_and_bytes() {
        let found = references(&json!({ "list": [{ "a/b": "ä {{1}} {{2}}" }], "n": 3 }));
        let holes: Vec<Placeholder> = found.iter().map(|reference| reference.hole(7)).collect();
        assert_eq!(
            holes,
            [Placeholder::within("/arguments/list/0/a~1b", 3..8, 7, "/text"), Placeholder::within("/arguments/list/0/a~1b", 9..14, 7, "/text"),]
        );
        assert!(references(&json!({ "a/b": "{{1}}" }))[0].is_of("a/b"));
    }
}

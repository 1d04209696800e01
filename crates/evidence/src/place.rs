//! Locates a span in its tool's whole reply, for opening a citation.

use std::ops::Range;

use serde_json::Value;

use crate::span::{Found, Span};

/// Size limit of a shown reply; of a longer one, the part around the location.
const SHOWN_BYTES_MAX: usize = 100_000;

/// The reply as text, and the byte range of the span. `None` if the span is not of this reply.
pub fn reply_at(found: &Found, span: &Span) -> Option<(String, Range<usize>)> {
    if !found.spans.contains(span) {
        return None;
    }
    let place = span.place.as_deref().unwrap_or_default();
    let (text, range) = in_data(&found.data, place).or_else(|| in_text(found, span, place))?;
    Some(around(text, range))
}

fn in_data(data: &Value, place: &str) -> Option<(String, Range<usize>)> {
    if data.is_null() {
        return None;
    }
    let first = place.split(", ").next().unwrap_or_default();
    written(data, first)
}

/// Formatted JSON, with the byte range of the value at a path such as `items[3].total`; for `items[3-8]`, the first.
fn written(value: &Value, path: &str) -> Option<(String, Range<usize>)> {
    let path = match path.rsplit_once('-') {
        Some((head, tail)) if tail.ends_with(']') && head.contains('[') => format!("{head}]"),
        _ => path.to_owned(),
    };
    let mut text = String::new();
    let mut range = None;
    write(value, "", &path, 0, &mut text, &mut range);
    Some((text, range?))
}

const DEPTH_MAX: usize = 64;

fn write(value: &Value, at: &str, path: &str, depth: usize, text: &mut String, range: &mut Option<Range<usize>>) {
    let start = text.len();
    let indent = |depth: usize| "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() && depth < DEPTH_MAX => {
            text.push_str("{\n");
            for (number, (key, inner)) in fields.iter().enumerate() {
                let below = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let from = text.len() + (depth + 1) * 2;
                text.push_str(&format!("{}{}: ", indent(depth + 1), Value::String(key.clone())));
                write(inner, &below, path, depth + 1, text, range);
                // A field is marked with its name.
                if below == path {
                    *range = Some(from..text.len());
                }
                text.push_str(if number + 1 < fields.len() { ",\n" } else { "\n" });
            }
            text.push_str(&format!("{}}}", indent(depth)));
        }
        Value::Array(items) if !items.is_empty() && depth < DEPTH_MAX => {
            text.push_str("[\n");
            for (number, inner) in items.iter().enumerate() {
                text.push_str(&indent(depth + 1));
                write(inner, &format!("{at}[{number}]"), path, depth + 1, text, range);
                text.push_str(if number + 1 < items.len() { ",\n" } else { "\n" });
            }
            text.push_str(&format!("{}]", indent(depth)));
        }
        leaf => text.push_str(&leaf.to_string()),
    }
    if at == path && range.is_none() {
        *range = Some(start..text.len());
    }
}

fn in_text(found: &Found, span: &Span, place: &str) -> Option<(String, Range<usize>)> {
    if found.text.trim().is_empty() {
        let text = found.data.to_string();
        return (!found.data.is_null()).then(|| (text.clone(), 0..text.len()));
    }
    if let Ok(value) = serde_json::from_str::<Value>(found.text.trim())
        && (value.is_object() || value.is_array())
    {
        return written(&value, place.split(", ").next().unwrap_or_default());
    }
    if let Some(start) = found.text.find(&span.text) {
        return Some((found.text.clone(), start..start + span.text.len()));
    }
    // A table row: the line with all its values.
    let values: Vec<&str> = span.text.lines().filter_map(|line| Some(line.split_once(": ")?.1)).collect();
    let mut at = 0;
    for line in found.text.split_inclusive('\n') {
        if !values.is_empty() && place.contains("row") && values.iter().all(|value| line.contains(value)) {
            return Some((found.text.clone(), at..at + line.trim_end().len()));
        }
        at += line.len();
    }
    Some((found.text.clone(), 0..found.text.trim_end().len()))
}

fn around(text: String, range: Range<usize>) -> (String, Range<usize>) {
    if text.len() <= SHOWN_BYTES_MAX {
        return (text, range);
    }
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let from = boundary(range.start.saturating_sub(SHOWN_BYTES_MAX / 2));
    let to = boundary((from + SHOWN_BYTES_MAX).min(text.len()));
    (text[from..to].to_owned(), range.start - from..boundary(range.end.min(to)).max(range.start) - from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Trust, found};
    use serde_json::json;

    #[test]
    fn s12_a_citation_opens_the_reply_at_its_place() {
        let data = json!({ "items": [{ "id": "a", "n": 1 }, { "id": "b", "n": 2 }], "page": { "size": 5 }, "total": 2 });
        let marked = |found: &Found, place: &str| {
            let span = found.spans.iter().find(|span| span.place.as_deref() == Some(place)).unwrap_or_else(|| panic!("{place}: {:?}", found.spans));
            let (text, range) = reply_at(found, span).unwrap();
            text[range].split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for reply in [found("t.t", Trust::Own, "", Some(&data)), found("t.t", Trust::Own, &data.to_string(), None)] {
            assert_eq!(marked(&reply, "page, total"), "\"page\": { \"size\": 5 }");
            assert_eq!(marked(&reply, "items[1]"), "{ \"id\": \"b\", \"n\": 2 }");
            assert!(marked(&reply, "items").starts_with("\"items\": [ {"));
        }
        let table = found("t.t", Trust::Own, "Sales:\n\narea,orders\nNorth,120\nSouth,95\n", None);
        assert_eq!(marked(&table, "row 2"), "South,95");
        let plain = found("t.t", Trust::Own, "Just so.", None);
        assert_eq!(reply_at(&plain, &plain.spans[0]), Some(("Just so.".to_owned(), 0..8)));
        assert_eq!(reply_at(&plain, &Span::default()), None);
    }

    #[test]
    fn a_long_reply_is_shown_around_its_place() {
        let items: Vec<Value> = (0..5_000).map(|n| json!({ "name": format!("número {n}"), "value": n })).collect();
        let data = json!({ "items": items });
        let (text, range) = around(written(&data, "items[4321]").unwrap().0, written(&data, "items[4321]").unwrap().1);
        assert!(text.len() <= SHOWN_BYTES_MAX && text[range].contains("número 4321"));
    }
}

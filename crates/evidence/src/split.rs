//! A tool's reply as spans.
//!
//! A tool that says `passages` is taken at its word. Text of any other kind is cut at paragraphs, and long paragraphs at sentence ends; headings
//! of Markdown become the place of what follows them; JSON becomes one span for each thing in it. Every word of the text is in exactly one
//! span, in order. Only past `SPANS_MAX` spans of `SPAN_BYTES_MAX` bytes is the rest left out, and the last span says how much; `Found.text`
//! has it all.

use serde_json::Value;

use crate::sentences::sentences;
use crate::span::{Found, Span, Trust};

pub const SPANS_MAX: usize = 500;
pub const SPAN_BYTES_MAX: usize = 4_000;
/// Paragraphs are put together up to about this size, so that a span is something to read.
const SPAN_BYTES_AIM: usize = 1_000;
/// Shorter pieces go with their neighbour.
const SPAN_BYTES_MIN: usize = 200;

/// A tool's reply, with its spans.
pub fn found(source: &str, trust: Trust, text: &str, data: Option<&Value>) -> Found {
    let frame = Span { source: source.to_owned(), trust, ..Span::default() };
    let mut spans = match data.and_then(|data| data.get("passages")).and_then(Value::as_array) {
        Some(passages) => (0..).zip(passages).flat_map(|(rank, passage)| from_passage(passage, rank, &frame)).collect(),
        None => {
            let parsed = json(text);
            let value = parsed.as_ref().or(data.filter(|data| !data.is_null() && text.trim().is_empty()));
            match value {
                Some(value) => from_json(value, &frame),
                None => from_text(text, &frame),
            }
        }
    };
    bound(&mut spans, &frame);
    Found { text: text.to_owned(), data: data.cloned().unwrap_or(Value::Null), spans }
}

fn from_passage(passage: &Value, rank: u32, frame: &Span) -> Vec<Span> {
    let said = |name: &str| passage.get(name).and_then(Value::as_str).filter(|value| !value.trim().is_empty()).map(str::to_owned);
    let text = match passage {
        Value::String(text) => text.clone(),
        _ => said("text").unwrap_or_default(),
    };
    let whole =
        Span { text, title: said("title"), address: said("address"), place: said("place"), at: said("at"), rank: Some(rank), ..frame.clone() };
    if whole.text.trim().is_empty() {
        return Vec::new();
    }
    if whole.text.len() <= SPAN_BYTES_MAX {
        vec![whole]
    } else {
        pieces(&whole.text).into_iter().map(|text| Span { text, ..whole.clone() }).collect()
    }
}

/// Paragraphs, put together or cut apart to a good size, under their headings.
fn from_text(text: &str, frame: &Span) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut headings: Vec<(usize, String)> = Vec::new();
    let mut open = String::new();
    let close = |open: &mut String, headings: &[(usize, String)], spans: &mut Vec<Span>| {
        let place = (!headings.is_empty()).then(|| headings.iter().map(|(_, words)| words.as_str()).collect::<Vec<_>>().join(" › "));
        for text in pieces(open) {
            spans.push(Span { text, place: place.clone(), ..frame.clone() });
        }
        open.clear();
    };
    for paragraph in paragraphs(text) {
        if let Some((level, words)) = heading(paragraph) {
            close(&mut open, &headings, &mut spans);
            headings.retain(|(above, _)| *above < level);
            headings.push((level, words.to_owned()));
            // A heading over another heading or over nothing is still something the tool said.
            open.push_str(paragraph.trim_end());
            continue;
        }
        let has_heading_only = heading(&open).is_some();
        if !open.is_empty() && open.len() + paragraph.len() > SPAN_BYTES_AIM && open.len() >= SPAN_BYTES_MIN && !has_heading_only {
            close(&mut open, &headings, &mut spans);
        }
        if !open.is_empty() {
            open.push_str("\n\n");
        }
        open.push_str(paragraph.trim_end());
    }
    close(&mut open, &headings, &mut spans);
    spans
}

/// Blocks between blank lines, headings by themselves, fenced code in one piece.
fn paragraphs(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    let mut fence: Option<(char, usize)> = None;
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        let mark = crate::citation::fence_mark(line);
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some((c, count)), Some((other, more))) if c == other && more >= count => fence = None,
            (None, None) if line.trim().is_empty() || heading(line).is_some() => {
                found.push(&text[begin..at]);
                found.push(&text[at..next]);
                begin = next;
            }
            _ => {}
        }
        at = next;
    }
    found.push(&text[begin..]);
    found.retain(|paragraph| !paragraph.trim().is_empty());
    found
}

fn heading(paragraph: &str) -> Option<(usize, &str)> {
    let line = paragraph.trim();
    let level = line.bytes().take_while(|b| *b == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with(' ') && !line.contains('\n'))
        .then(|| (level, line[level..].trim().trim_end_matches('#').trim()))
}

/// A text no piece of which is longer than a span may be: cut at sentence ends if it can be.
fn pieces(text: &str) -> Vec<String> {
    let text = text.trim_matches('\n');
    if text.trim().is_empty() {
        return Vec::new();
    }
    if text.len() <= SPAN_BYTES_MAX {
        return vec![text.to_owned()];
    }
    let mut pieces = Vec::new();
    let mut begin = 0;
    let mut last = 0;
    let ends = sentences(text).into_iter().map(|range| range.end).chain([text.len()]);
    for end in ends {
        if end - begin > SPAN_BYTES_AIM * 2 && last > begin {
            pieces.push(text[begin..last].trim().to_owned());
            begin = last;
        }
        // One endless sentence: cut at a space, or anywhere.
        while end - begin > SPAN_BYTES_MAX {
            let mut cut = begin + SPAN_BYTES_MAX;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let space = text[begin..cut].rfind(char::is_whitespace).filter(|space| *space > SPAN_BYTES_MAX / 2);
            let cut = space.map_or(cut, |space| begin + space);
            pieces.push(text[begin..cut].trim().to_owned());
            begin = cut;
        }
        last = end;
    }
    pieces.push(text[begin..].trim().to_owned());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn json(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

const TITLES: &[&str] = &["title", "name", "headline", "subject"];
const ADDRESSES: &[&str] = &["address", "url", "link", "href", "uri", "path", "file"];
const TIMES: &[&str] = &["at", "date", "published", "published_at", "updated", "updated_at", "created_at", "timestamp"];

/// One span for each object of a list; an object's own fields first, then the lists in it.
fn from_json(value: &Value, frame: &Span) -> Vec<Span> {
    let mut spans = Vec::new();
    gather(value, "", frame, &mut spans, 0);
    spans
}

const DEPTH_MAX: usize = 32;

fn gather(value: &Value, path: &str, frame: &Span, spans: &mut Vec<Span>, depth: usize) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let place = (!path.is_empty()).then(|| path.to_owned());
    match value {
        Value::Array(items) if depth < DEPTH_MAX && items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                gather(item, &format!("{path}[{index}]"), frame, spans, depth + 1);
            }
        }
        Value::Object(fields) if depth < DEPTH_MAX => {
            let is_list = |value: &Value| value.as_array().is_some_and(|items| items.iter().any(|item| item.is_object() || item.is_array()));
            let has_lists = |value: &Value| is_list(value) || value.as_object().is_some_and(|fields| fields.values().any(is_list));
            let said = |names: &[&str]| {
                names.iter().find_map(|name| fields.get(*name)).and_then(Value::as_str).filter(|value| !value.trim().is_empty()).map(str::to_owned)
            };
            let lines: Vec<String> = fields.iter().filter(|(_, value)| !has_lists(value)).map(|(key, value)| line(key, value)).collect();
            if !lines.is_empty() {
                let whole = Span { title: said(TITLES), address: said(ADDRESSES), at: said(TIMES), place, ..frame.clone() };
                spans.extend(pieces(&lines.join("\n")).into_iter().map(|text| Span { text, ..whole.clone() }));
            }
            for (key, value) in fields.iter().filter(|(_, value)| has_lists(value)) {
                gather(value, &below(key), frame, spans, depth + 1);
            }
        }
        leaf => spans.extend(pieces(&shown(leaf)).into_iter().map(|text| Span { text, place: place.clone(), ..frame.clone() })),
    }
}

fn line(key: &str, value: &Value) -> String {
    match value {
        Value::Object(fields) => fields.iter().map(|(inner, value)| line(&format!("{key}.{inner}"), value)).collect::<Vec<_>>().join("\n"),
        value => format!("{key}: {}", shown(value)),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(shown).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

/// Too many small spans are put together; what is still too much is named.
fn bound(spans: &mut Vec<Span>, frame: &Span) {
    if spans.len() <= SPANS_MAX {
        return;
    }
    let mut merged: Vec<Span> = Vec::new();
    for span in spans.drain(..) {
        match merged.last_mut() {
            Some(last) if last.address == span.address && last.title == span.title && last.text.len() + span.text.len() + 2 <= SPAN_BYTES_MAX => {
                last.text.push_str("\n\n");
                last.text.push_str(&span.text);
                if last.place != span.place {
                    last.place = None;
                }
            }
            _ => merged.push(span),
        }
    }
    if merged.len() > SPANS_MAX {
        let rest = merged.split_off(SPANS_MAX - 1);
        let bytes: usize = rest.iter().map(|span| span.text.len()).sum();
        merged.push(Span { text: format!("({} more passages, {bytes} bytes, were not kept as evidence.)", rest.len()), ..frame.clone() });
    }
    *spans = merged;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, data: Option<&Value>, expected: &[(&str, Option<&str>)]) {
        let found = found("s.t", Trust::Untrusted, text, data);
        let seen: Vec<(&str, Option<&str>)> = found.spans.iter().map(|span| (span.text.as_str(), span.place.as_deref())).collect();
        assert_eq!(seen, expected, "{text}");
        assert_eq!(found.text, text);
    }

    #[test]
    fn replies_become_spans_of_what_they_are() {
        let data = json!({"passages": [{"text": "One.", "title": "T", "address": "https://a.example", "place": "p", "at": "2024-01-01T00:00:00Z", "confidence": 0.5}, "Two.", {"text": " "}], "count": 2});
        check("", Some(&data), &[("One.", Some("p")), ("Two.", None)]);
        let one = &found("s.t", Trust::Own, "", Some(&data)).spans[0];
        assert_eq!(
            (one.title.as_deref(), one.at.as_deref(), one.trust, one.source.as_str()),
            (Some("T"), Some("2024-01-01T00:00:00Z"), Trust::Own, "s.t")
        );
        let ranks = |text: &str, data| found("s.t", Trust::Own, text, data).spans.iter().map(|span| span.rank).collect::<Vec<_>>();
        assert_eq!((ranks("", Some(&data)), ranks("Just a line.", None)), (vec![Some(0), Some(1)], vec![None]));
        check("Just a line.", None, &[("Just a line.", None)]);
        check("", None, &[]);
        check(
            "# A\n\nalpha\n\n## B\n\nbeta\n\nmore\n# C\ngamma",
            None,
            &[("# A\n\nalpha", Some("A")), ("## B\n\nbeta\n\nmore", Some("A › B")), ("# C\n\ngamma", Some("C"))],
        );
        let text =
            r#"{"total": 2, "items": [{"n": 1, "title": "x", "url": "https://x.example"}, {"by": {"name": "z"}, "tags": ["a", "b"], "title": "y"}]}"#;
        check(
            text,
            None,
            &[
                ("total: 2", None),
                ("n: 1\ntitle: x\nurl: https://x.example", Some("items[0]")),
                ("by.name: z\ntags: a, b\ntitle: y", Some("items[1]")),
            ],
        );
        check("{not json", None, &[("{not json", None)]);
        check("", Some(&json!({"answer": 42})), &[("answer: 42", None)]);
        check("[1, 2]", None, &[("1, 2", None)]);
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_too_long() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let long = (0..3_000).map(|n| format!("Sentence number {n} is here.")).collect::<Vec<_>>().join(" ");
        let paragraphs = (0..300).map(|n| format!("Paragraph {n} with some words in it.")).collect::<Vec<_>>().join("\n\n");
        let endless = "x".repeat(20_000);
        for text in [long, paragraphs, endless.clone()] {
            let found = found("s.t", Trust::Untrusted, &text, None);
            assert!(found.spans.iter().all(|span| span.text.len() <= SPAN_BYTES_MAX) && found.spans.len() <= SPANS_MAX);
            let together: Vec<String> = found.spans.iter().flat_map(|span| words(&span.text)).collect();
            if text == endless { assert_eq!(together.concat(), text) } else { assert_eq!(together, words(&text)) }
        }
        let much = (0..4_000).map(|n| format!("# H{n}\n\n{}", "word ".repeat(500))).collect::<Vec<_>>().join("\n\n");
        let found = found("s.t", Trust::Untrusted, &much, None);
        assert_eq!(found.spans.len(), SPANS_MAX);
        assert!(found.spans[SPANS_MAX - 1].text.contains("were not kept as evidence"));
    }
}

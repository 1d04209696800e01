//! Splits a tool's reply into spans.
//!
//! A tool's own `passages` are used as they are. Other text is split at paragraphs, and long paragraphs at sentence ends; Markdown headings
//! become the location of the text below them; JSON and tables become one span for each item (`fields`), with the totals of their rows.
//! Every word of a text that is not a table is in exactly one span, in order. Beyond `SPANS_MAX` spans of `SPAN_BYTES_MAX` bytes the rest
//! is dropped, and the last span states how much; `Found.text` has everything.

use serde_json::Value;

use crate::fields::{self, Detail};
use crate::sentences::sentences;
use crate::span::{Form, Found, Span, Trust};
use crate::table;

/// Spans of one reply; the rest of the reply is dropped.
pub const SPANS_MAX: usize = 500;
/// Bytes of one span's text.
pub const SPAN_BYTES_MAX: usize = 4_000;
/// Paragraphs are merged up to about this size.
const SPAN_BYTES_AIM: usize = 1_000;
/// Shorter pieces are merged with a neighbour.
const SPAN_BYTES_MIN: usize = 200;

/// A tool's reply, with its spans.
pub fn found(source: &str, trust: Trust, text: &str, data: Option<&Value>) -> Found {
    let frame = Span { source: source.to_owned(), trust, ..Span::default() };
    let data = data.filter(|data| !data.is_null());
    let mut spans = match data {
        Some(data) => from_data(text, data, &frame),
        None => match json(text) {
            Some(value) => fields::spans(&value, &frame, Detail::All),
            None => from_text(text, &frame),
        },
    };
    bound(&mut spans, &frame);
    Found { text: text.to_owned(), data: data.cloned().unwrap_or(Value::Null), spans }
}

/// A reply with structured content usually contains the same as text: common content is kept once.
fn from_data(text: &str, data: &Value, frame: &Span) -> Vec<Span> {
    if let Some(passages) = data.get("passages").and_then(Value::as_array) {
        let mut spans: Vec<Span> = (0..).zip(passages).flat_map(|(rank, passage)| from_passage(passage, rank, frame)).collect();
        let known: Vec<String> = spans.iter().flat_map(|span| words_of(&span.text)).collect();
        let detail = if is_within(&words_of(&fields::listed(data)), &known) { Detail::Totals } else { Detail::Lists };
        spans.extend(fields::spans(data, frame, detail));
        return spans;
    }
    // Servers without structured content repeat their data as JSON in the text.
    if text.trim().is_empty() || json(text).is_some_and(|parsed| &parsed == data) || is_within(&words_of(text), &fields::words(data)) {
        return fields::spans(data, frame, Detail::All);
    }
    let mut spans = match json(text) {
        Some(value) => fields::spans(&value, frame, Detail::All),
        None => from_text(text, frame),
    };
    let detail = if is_within(&words_of(&fields::values(data)), &words_of(text)) { Detail::Totals } else { Detail::All };
    spans.extend(fields::spans(data, frame, detail));
    spans
}

/// Share of words from which one text adds nothing to the other.
const WITHIN_MIN: f32 = 0.9;

fn is_within(some: &[String], all: &[String]) -> bool {
    let known: std::collections::HashSet<&str> = all.iter().map(String::as_str).collect();
    let shared = some.iter().filter(|word| known.contains(word.as_str())).count();
    shared as f32 >= WITHIN_MIN * some.len() as f32
}

fn words_of(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn from_passage(passage: &Value, rank: u32, frame: &Span) -> Vec<Span> {
    let field = |name: &str| passage.get(name).and_then(Value::as_str).filter(|value| !value.trim().is_empty()).map(str::to_owned);
    let text = match passage {
        Value::String(text) => text.clone(),
        _ => field("text").unwrap_or_default(),
    };
    let whole =
        Span { text, title: field("title"), address: field("address"), place: field("place"), at: field("at"), rank: Some(rank), ..frame.clone() };
    if whole.text.trim().is_empty() {
        return Vec::new();
    }
    // A file that is a table is kept whole; the totals of its rows are added.
    let derived = table::table(&whole.text).and_then(|table| fields::derived(&table.rows.iter().collect::<Vec<_>>(), "table", &whole));
    let mut spans: Vec<Span> = if whole.text.len() <= SPAN_BYTES_MAX {
        vec![whole.clone()]
    } else {
        pieces(&whole.text).into_iter().map(|text| Span { text, ..whole.clone() }).collect()
    };
    spans.extend(derived.map(|span| Span { place: whole.place, ..span }));
    spans
}

/// Paragraphs, merged or split to a good size, under their headings.
pub(crate) fn from_text(text: &str, frame: &Span) -> Vec<Span> {
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
    let mut tables = 0;
    for paragraph in paragraphs(text) {
        if let Some(table) = table::table(paragraph) {
            close(&mut open, &headings, &mut spans);
            tables += 1;
            spans.extend(fields::of_table(&table, tables, frame));
            continue;
        }
        if let Some((level, words)) = heading(paragraph) {
            close(&mut open, &headings, &mut spans);
            headings.retain(|(above, _)| *above < level);
            headings.push((level, words.to_owned()));
            // A heading without a text of its own is still part of the reply.
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

/// Blocks between blank lines, headings alone, fenced code in one piece.
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

/// Pieces no longer than a span: split at sentence ends if possible.
pub(crate) fn pieces(text: &str) -> Vec<String> {
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
        // A very long sentence is cut at a space, or anywhere.
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

/// Too many small spans are merged; a remaining excess is reported.
fn bound(spans: &mut Vec<Span>, frame: &Span) {
    if spans.len() <= SPANS_MAX {
        return;
    }
    let mut merged: Vec<Span> = Vec::new();
    for span in spans.drain(..) {
        match merged.last_mut() {
            Some(last)
                if last.form == span.form
                    && last.form != Form::Derived
                    && last.address == span.address
                    && last.title == span.title
                    && last.text.len() + span.text.len() + 2 <= SPAN_BYTES_MAX =>
            {
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
        check("", Some(&data), &[("One.", Some("p")), ("Two.", None), ("count: 2", Some("count"))]);
        let one = &found("s.t", Trust::Own, "", Some(&data)).spans[0];
        assert_eq!(
            (one.title.as_deref(), one.at.as_deref(), one.trust, one.source.as_str()),
            (Some("T"), Some("2024-01-01T00:00:00Z"), Trust::Own, "s.t")
        );
        let ranks = |text: &str, data| found("s.t", Trust::Own, text, data).spans.iter().map(|span| span.rank).collect::<Vec<_>>();
        assert_eq!((ranks("", Some(&data)), ranks("Just a line.", None)), (vec![Some(0), Some(1), None], vec![None]));
        check("Just a line.", None, &[("Just a line.", None)]);
        check("", None, &[]);
        check(
            "# A\n\nalpha\n\n## B\n\nbeta\n\nmore\n# C\ngamma",
            None,
            &[("# A\n\nalpha", Some("A")), ("## B\n\nbeta\n\nmore", Some("A › B")), ("# C\n\ngamma", Some("C"))],
        );
        let text =
            r#"{"items": [{"n": 1, "title": "x", "url": "https://x.example"}, {"by": {"name": "z"}, "tags": ["a", "b"], "title": "y"}], "total": 2}"#;
        check(
            text,
            None,
            &[
                ("total: 2", Some("total")),
                ("items: 2 rows\nrows by tags: a 1, b 1\nrows with n: 1\nrows with url: 1\nrows with by: 1\nrows with tags: 1", Some("items")),
                ("n: 1\ntitle: x\nurl: https://x.example", Some("items[0]")),
                ("by.name: z\ntags: a, b\ntitle: y", Some("items[1]")),
            ],
        );
        check("{not json", None, &[("{not json", None)]);
        check("", Some(&json!({"answer": 42})), &[("answer: 42", Some("answer"))]);
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

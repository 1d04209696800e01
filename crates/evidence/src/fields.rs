//! Structured replies as spans: the scalars of an object in one, each row of a list in one, and the totals of a list in one.
//!
//! ```text
//!   {"total": 12, "stories": [{"id": "ST-1", "status": "done"}, …]}
//!
//!   total: 12                              place `total`        Form::Scalars
//!   stories: 12 rows                       place `stories`      Form::Derived, with its facts
//!   rows by status: done 5, ready 7
//!   id: ST-1                               place `stories[0]`   Form::Rows
//!   status: done
//! ```
//!
//! A partial list (`total` is larger, or a field states that it continues) is not counted or added up.

use serde_json::{Map, Value};

use crate::fact;
use crate::span::{Form, Span};
use crate::split::{SPAN_BYTES_MAX, pieces};
use crate::table::Table;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything in it.
    All,
    /// Totals, lists, and totals of lists: passages contain the rest.
    Lists,
    /// Only totals and totals of lists: passages or a text contain the rows too.
    Totals,
}

const TITLES: &[&str] = &["title", "name", "headline", "subject"];
const ADDRESSES: &[&str] = &["address", "url", "link", "href", "uri", "path", "file"];
const TIMES: &[&str] = &["at", "date", "published", "published_at", "updated", "updated_at", "created_at", "timestamp"];
/// Words in names of count fields.
const COUNTS: &[&str] = &["total", "count", "hits", "found", "matches", "matched"];
const DEPTH_MAX: usize = 32;
/// Maximum number of lists of one reply that are counted and added up.
const DERIVED_MAX: usize = 8;
/// With more rows, several share a span.
const ROWS_ALONE_MAX: usize = 60;
const ROWS_BYTES_AIM: usize = 1_000;
/// Names in a location that several fields share.
const PLACE_NAMES_MAX: usize = 3;

pub(crate) fn spans(value: &Value, frame: &Span, detail: Detail) -> Vec<Span> {
    let mut spans = Vec::new();
    gather(value, "", frame, detail, &mut spans, 0);
    spans
}

/// Whether a field of this name is a count.
pub(crate) fn is_count(name: &str) -> bool {
    parts(name).iter().any(|part| COUNTS.contains(&part.as_str()))
}

/// The words of `totalCount`, `total_count`, `search-stories`.
pub(crate) fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            was_small = false;
            parts.push(String::new());
            continue;
        }
        if c.is_uppercase() && was_small || parts.is_empty() {
            parts.push(String::new());
        }
        was_small = c.is_lowercase() || c.is_ascii_digit();
        if let Some(last) = parts.last_mut() {
            last.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn gather(value: &Value, path: &str, frame: &Span, detail: Detail, spans: &mut Vec<Span>, depth: usize) {
    let place = (!path.is_empty()).then(|| path.to_owned());
    match value {
        Value::Array(items) if depth < DEPTH_MAX && is_list(value) => list(items, path, true, frame, detail, spans, depth),
        Value::Object(fields) if depth < DEPTH_MAX => object(fields, path, frame, detail, spans, depth),
        Value::Null => {}
        leaf if detail == Detail::All => {
            let form = if leaf.is_string() { Form::Text } else { Form::Scalars };
            spans.extend(pieces(&shown(leaf)).into_iter().map(|text| Span { text, place: place.clone(), form, ..frame.clone() }));
        }
        _ => {}
    }
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().any(|item| item.is_object() || item.is_array()))
}

fn has_lists(value: &Value) -> bool {
    is_list(value) || value.as_object().is_some_and(|fields| fields.values().any(has_lists))
}

/// A long text in a field, which is split like any text.
fn is_prose(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().contains('\n'))
}

/// An object that is not a row: its own scalars first, then its texts and lists.
fn object(fields: &Map<String, Value>, path: &str, frame: &Span, detail: Detail, spans: &mut Vec<Span>, depth: usize) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let is_own = |value: &Value| !has_lists(value) && !is_prose(value) && !is_blank(value);
    let is_wanted = |key: &str, value: &Value| match detail {
        Detail::All => is_own(value),
        Detail::Lists | Detail::Totals => value.is_number() && is_count(key),
    };
    let own: Vec<(&String, &Value)> = fields.iter().filter(|(key, value)| is_wanted(key, value)).collect();
    let lines: Vec<String> = own.iter().map(|(key, value)| line(key, value)).collect();
    if !lines.is_empty() {
        let names: Vec<String> = own.iter().take(PLACE_NAMES_MAX).map(|(key, _)| below(key)).collect();
        let more = if own.len() > PLACE_NAMES_MAX { ", …" } else { "" };
        let field = |names: &[&str]| text_of(fields, names).filter(|_| detail == Detail::All);
        let place = Some(format!("{}{more}", names.join(", ")));
        let whole = Span { title: field(TITLES), address: field(ADDRESSES), at: field(TIMES), place, form: Form::Scalars, ..frame.clone() };
        spans.extend(pieces(&lines.join("\n")).into_iter().map(|text| Span { text, ..whole.clone() }));
    }
    for (key, value) in fields.iter().filter(|(key, value)| is_prose(value) && detail == Detail::All && *key != "passages") {
        let texts = crate::split::from_text(value.as_str().unwrap_or_default(), frame);
        spans.extend(texts.into_iter().map(|span| {
            let place = span.place.as_ref().map_or_else(|| below(key), |place| format!("{}, {place}", below(key)));
            Span { place: Some(place), ..span }
        }));
    }
    for (key, value) in fields.iter().filter(|(key, value)| has_lists(value) && *key != "passages") {
        match value {
            Value::Array(items) => list(items, &below(key), is_whole(items.len(), fields), frame, detail, spans, depth + 1),
            value => gather(value, &below(key), frame, detail, spans, depth + 1),
        }
    }
}

/// Whether a list is complete, according to neighbouring fields.
fn is_whole(rows: usize, fields: &Map<String, Value>) -> bool {
    let goes_on = |(key, value): (&String, &Value)| {
        let parts = parts(key);
        let has = |word: &str| parts.iter().any(|part| part == word);
        let is_more = has("next") || has("more") || has("truncated") || has("cut") || has("cursor") || has("incomplete");
        let is_set = value.as_bool() == Some(true) || value.is_number() && has("next") || value.as_str().is_some_and(|text| !text.is_empty());
        (is_more && is_set) || (is_count(key) && value.as_f64().is_some_and(|count| count > rows as f64))
    };
    !fields.iter().any(goes_on)
}

fn list(items: &[Value], path: &str, is_whole: bool, frame: &Span, detail: Detail, spans: &mut Vec<Span>, depth: usize) {
    let rows: Vec<&Map<String, Value>> = items.iter().filter_map(Value::as_object).collect();
    let is_counted = spans.iter().filter(|span| span.form == Form::Derived).count() < DERIVED_MAX;
    if rows.len() == items.len() && is_whole && is_counted {
        let name = path.rsplit('.').next().filter(|name| !name.is_empty()).unwrap_or("result");
        let place = (!path.is_empty()).then(|| path.to_owned());
        spans.extend(derived(&rows, name, frame).map(|span| Span { place, ..span }));
    }
    if detail == Detail::Totals {
        return;
    }
    let mut open: Option<(usize, usize, String)> = None;
    let close = |open: &mut Option<(usize, usize, String)>, spans: &mut Vec<Span>| {
        if let Some((from, to, text)) = open.take() {
            spans.push(Span { text, place: Some(format!("{path}[{from}-{to}]")), form: Form::Rows, ..frame.clone() });
        }
    };
    for (index, item) in items.iter().enumerate() {
        let place = format!("{path}[{index}]");
        match item {
            Value::Object(fields) if depth < DEPTH_MAX => {
                let nested: Vec<(&String, &Value)> = fields.iter().filter(|(_, value)| has_lists(value)).collect();
                let text = row(fields);
                if items.len() > ROWS_ALONE_MAX && text.len() < ROWS_BYTES_AIM {
                    match &mut open {
                        Some((_, to, together)) if together.len() + text.len() < ROWS_BYTES_AIM => {
                            *to = index;
                            together.push_str("\n\n");
                            together.push_str(&text);
                        }
                        _ => {
                            close(&mut open, spans);
                            open = Some((index, index, text));
                        }
                    }
                    nested.into_iter().for_each(|(key, value)| gather(value, &format!("{place}.{key}"), frame, detail, spans, depth + 1));
                    continue;
                }
                let field = |names: &[&str]| text_of(fields, names);
                let whole = Span {
                    title: field(TITLES),
                    address: field(ADDRESSES),
                    at: field(TIMES),
                    place: Some(place.clone()),
                    form: Form::Rows,
                    ..frame.clone()
                };
                spans.extend(pieces(&text).into_iter().map(|text| Span { text, ..whole.clone() }));
                nested.into_iter().for_each(|(key, value)| gather(value, &format!("{place}.{key}"), frame, detail, spans, depth + 1));
            }
            other => gather(other, &place, frame, detail, spans, depth + 1),
        }
    }
    close(&mut open, spans);
}

/// The rows of the `number`-th table of a text, and their totals.
pub(crate) fn of_table(table: &Table, number: usize, frame: &Span) -> Vec<Span> {
    let name = if number > 1 { format!("table {number}") } else { "table".to_owned() };
    let rows: Vec<&Map<String, Value>> = table.rows.iter().collect();
    let mut spans: Vec<Span> = derived(&rows, &name, frame).map(|span| Span { place: Some(name.clone()), ..span }).into_iter().collect();
    let prefix = if number > 1 { format!("{name}, ") } else { String::new() };
    let mut from = 0;
    while from < rows.len() {
        let mut text = row(rows[from]);
        let mut to = from + 1;
        while rows.len() > ROWS_ALONE_MAX && to < rows.len() {
            let next = row(rows[to]);
            if text.len() + next.len() > ROWS_BYTES_AIM {
                break;
            }
            text.push_str("\n\n");
            text.push_str(&next);
            to += 1;
        }
        let place = if to - from > 1 { format!("{prefix}rows {}-{to}", from + 1) } else { format!("{prefix}row {}", from + 1) };
        spans.extend(pieces(&text).into_iter().map(|text| Span { text, place: Some(place.clone()), form: Form::Rows, ..frame.clone() }));
        from = to;
    }
    spans
}

/// Totals of rows, if there are any.
pub(crate) fn derived(rows: &[&Map<String, Value>], name: &str, frame: &Span) -> Option<Span> {
    if rows.is_empty() {
        return None;
    }
    let facts = fact::facts(rows);
    let text = fact::render(&facts, name);
    debug_assert!(text.len() <= SPAN_BYTES_MAX);
    Some(Span { text, place: Some(name.to_owned()), form: Form::Derived, facts, rank: None, ..frame.clone() })
}

fn row(fields: &Map<String, Value>) -> String {
    fields.iter().filter(|(_, value)| !value.is_null() && !has_lists(value)).map(|(key, value)| line(key, value)).collect::<Vec<_>>().join("\n")
}

fn text_of(fields: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let text = names.iter().find_map(|name| fields.get(*name)).and_then(Value::as_str)?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()) || value.as_array().is_some_and(Vec::is_empty)
}

fn line(key: &str, value: &Value) -> String {
    match value {
        Value::Object(fields) => fields.iter().map(|(inner, value)| line(&format!("{key}.{inner}"), value)).collect::<Vec<_>>().join("\n"),
        Value::Array(items) if items.is_empty() => format!("{key}: none"),
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

/// Every value, as text.
pub(crate) fn values(value: &Value) -> String {
    let mut text = String::new();
    flat(value, &mut |_, leaf| {
        text.push_str(leaf);
        text.push(' ');
    });
    text
}

/// The same for its lists of records only, without `passages`.
pub(crate) fn listed(value: &Value) -> String {
    let lists = value.as_object().into_iter().flatten().filter(|(key, value)| *key != "passages" && has_lists(value));
    lists.map(|(_, value)| values(value)).collect::<Vec<_>>().join(" ")
}

/// The words of names and values.
pub(crate) fn words(value: &Value) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |text: &str| words.extend(text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase));
    flat(value, &mut |name, leaf| {
        add(name);
        add(leaf);
    });
    words
}

fn flat(value: &Value, each: &mut dyn FnMut(&str, &str)) {
    let mut open: Vec<(&str, &Value)> = vec![("", value)];
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(fields) => open.extend(fields.iter().map(|(name, value)| (name.as_str(), value))),
            Value::Array(items) => {
                each(name, "");
                open.extend(items.iter().map(|item| (name, item)));
            }
            Value::String(text) => each(name, text),
            other => each(name, &other.to_string()),
        }
    }
}

//! Fills a schema from sentences, going by the names of its fields. What it produces is validated like any model's answer, so a
//! schema that is beyond it ends as a clear failure.

use serde_json::{Map, Value, json};

use super::{Material, plan, rank};
use crate::extract::rank::Picked;

const DEPTH_MAX: usize = 12;

pub(super) fn fill(schema: &Value, material: &Material<'_>) -> Value {
    Filler { root: schema, material }.value(schema, "", &FillContext { question: &material.question, picked: None }, 0)
}

struct Filler<'s, 'c> {
    root: &'s Value,
    material: &'s Material<'c>,
}

/// What the part being filled is about: inside a list, one step or one sentence.
#[derive(Clone, Copy)]
struct FillContext<'a, 'c> {
    question: &'a str,
    picked: Option<&'a Picked<'c>>,
}

/// What a field's name asks for.
#[derive(Clone, Copy, PartialEq)]
enum FieldKind {
    Answer,
    Sentence,
    Source,
    Query,
    Plan,
    Reason,
    Support,
    Words,
    Short,
    Other,
}

fn field_kind(name: &str) -> FieldKind {
    let name = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match () {
        () if has(&["step", "plan", "queries", "questions", "task", "searches", "subquestion"]) => FieldKind::Plan,
        () if has(&["source", "citation", "reference", "url", "link"]) => FieldKind::Source,
        () if has(&["sentence", "claim", "quote", "statement", "evidence", "passage", "fact", "finding"]) => FieldKind::Sentence,
        () if has(&["reason", "why", "rationale", "feedback", "explanation", "thought"]) => FieldKind::Reason,
        () if has(&["query", "question", "search", "goal", "topic", "input", "argument"]) => FieldKind::Query,
        () if has(&["confidence", "score", "support", "approve", "enough", "sufficient", "answerable", "found", "ok", "known"]) => FieldKind::Support,
        () if has(&["keyword", "term", "tag"]) => FieldKind::Words,
        () if has(&["short", "brief"]) => FieldKind::Short,
        () if has(&["answer", "text", "summary", "reply", "response", "content", "output", "result", "report"]) => FieldKind::Answer,
        () => FieldKind::Other,
    }
}

impl<'c> Filler<'_, 'c> {
    fn value(&self, schema: &Value, name: &str, about: &FillContext<'_, 'c>, depth: usize) -> Value {
        if depth > DEPTH_MAX {
            return Value::Null;
        }
        let schema = self.resolved(schema);
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(Value::Array(options)) = schema.get("enum") {
            return self.option(options, name, about);
        }
        for either in ["anyOf", "oneOf"] {
            if let Some(Value::Array(options)) = schema.get(either) {
                let is_null = |option: &&Value| option.get("type").is_some_and(|kind| kind == "null");
                let option = options.iter().find(|option| !is_null(option)).or(options.first());
                return option.map_or(Value::Null, |option| self.value(option, name, about, depth + 1));
            }
        }
        let meaning = field_kind(name);
        if meaning == FieldKind::Other
            && let Some(default) = schema.get("default")
        {
            return default.clone();
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null"),
            _ if schema.get("properties").is_some() => "object",
            _ if schema.get("items").is_some() => "array",
            _ => "string",
        };
        match kind {
            "object" => self.object(schema, about, depth),
            "array" => self.array(schema, name, about, depth),
            "string" => Value::String(bounded(self.text(meaning, about), schema)),
            "boolean" => Value::Bool(match meaning {
                FieldKind::Support => about.picked.is_some() || self.material.is_supported(),
                _ => false,
            }),
            "integer" | "number" => self.number(schema, meaning, about, kind == "integer"),
            _ => Value::Null,
        }
    }

    fn resolved<'v>(&'v self, schema: &'v Value) -> &'v Value {
        let mut schema = schema;
        for _ in 0..DEPTH_MAX {
            match schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#')).and_then(|at| self.root.pointer(at)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn object(&self, schema: &Value, about: &FillContext<'_, 'c>, depth: usize) -> Value {
        let mut map = Map::new();
        let required: Vec<&str> = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        for (name, part) in properties {
            // Optional fields stay empty: their meaning is not known here.
            if required.contains(&name.as_str()) || field_kind(name) != FieldKind::Other {
                map.insert(name.clone(), self.value(part, name, about, depth + 1));
            }
        }
        Value::Object(map)
    }

    fn array(&self, schema: &Value, name: &str, about: &FillContext<'_, 'c>, depth: usize) -> Value {
        let anything = json!({"type": "string"});
        let items = self.resolved(schema.get("items").unwrap_or(&anything));
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let is_text = items.get("type").is_some_and(|kind| kind == "string") && items.get("enum").is_none();
        let mut values: Vec<Value> = match field_kind(name) {
            FieldKind::Plan => {
                let steps = plan(about.question);
                steps.iter().map(|step| self.value(items, "query", &FillContext { question: step, picked: None }, depth + 1)).collect()
            }
            FieldKind::Words if is_text => rank::terms(about.question).into_iter().map(Value::String).collect(),
            FieldKind::Source => {
                let mut seen = Vec::new();
                let fresh = self.material.picked.iter().filter(|picked| {
                    let is_new = !seen.contains(&picked.number);
                    seen.push(picked.number);
                    is_new
                });
                fresh.map(|picked| self.value(items, name, &FillContext { picked: Some(picked), ..*about }, depth + 1)).collect()
            }
            FieldKind::Answer
            | FieldKind::Sentence
            | FieldKind::Reason
            | FieldKind::Query
            | FieldKind::Support
            | FieldKind::Words
            | FieldKind::Short
            | FieldKind::Other => {
                let each = self.material.picked.iter();
                each.map(|picked| self.value(items, "sentence", &FillContext { picked: Some(picked), ..*about }, depth + 1)).collect()
            }
        };
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut unique: Vec<Value> = Vec::new();
            values.into_iter().for_each(|value| {
                if !unique.contains(&value) {
                    unique.push(value);
                }
            });
            values = unique;
        }
        values.truncate(bound("maxItems").unwrap_or(usize::MAX));
        while values.len() < bound("minItems").unwrap_or(0).min(16) {
            values.push(self.value(items, "query", about, depth + 1));
        }
        Value::Array(values)
    }

    /// The option whose words the question uses; to look something up rather than not; else the first.
    fn option(&self, options: &[Value], name: &str, about: &FillContext<'_, 'c>) -> Value {
        let words = rank::terms(about.question);
        let texts = || options.iter().filter_map(|option| option.as_str().map(|text| (option, text)));
        let used = texts().find(|(_, text)| !rank::terms(text).is_empty() && rank::terms(text).is_subset(&words));
        let verdict = (field_kind(name) == FieldKind::Support).then_some(if self.material.is_supported() { "yes" } else { "no" });
        let verdict = verdict.and_then(|word| texts().find(|(_, text)| text.eq_ignore_ascii_case(word)));
        let look_up = texts().find(|(_, text)| ["search", "retrieve", "lookup", "research"].iter().any(|word| text.to_lowercase().contains(word)));
        verdict.or(used).or(look_up).map(|(option, _)| option).or(options.first()).cloned().unwrap_or(Value::Null)
    }

    fn text(&self, meaning: FieldKind, about: &FillContext<'_, 'c>) -> String {
        let picked = about.picked.or(self.material.picked.first());
        match meaning {
            FieldKind::Answer => self.material.answer(),
            FieldKind::Sentence => picked.map(|picked| picked.sentence.to_owned()).unwrap_or_default(),
            FieldKind::Source => picked.map(|picked| picked.source.map_or_else(|| format!("[{}]", picked.number), str::to_owned)).unwrap_or_default(),
            FieldKind::Reason => "Picked by the words it shares with the question; no model was asked.".to_owned(),
            // Sentences can be picked but not shortened.
            FieldKind::Short => String::new(),
            FieldKind::Query | FieldKind::Plan | FieldKind::Words | FieldKind::Support | FieldKind::Other => about.question.to_owned(),
        }
    }

    fn number(&self, schema: &Value, meaning: FieldKind, about: &FillContext<'_, 'c>, is_integer: bool) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        let (low, high) = (bound("minimum"), bound("maximum"));
        let picked = about.picked.or(self.material.picked.first());
        let wanted = match meaning {
            FieldKind::Source => picked.map_or(0.0, |picked| picked.number as f64),
            FieldKind::Support => self.material.support() * high.unwrap_or(1.0),
            _ => low.unwrap_or(0.0),
        };
        let number = wanted.min(high.unwrap_or(f64::MAX)).max(low.unwrap_or(f64::MIN));
        if is_integer { json!(number.round() as i64) } else { json!((number * 100.0).round() / 100.0) }
    }
}

fn bounded(text: String, schema: &Value) -> String {
    match schema.get("maxLength").and_then(Value::as_u64).map(|n| usize::try_from(n).unwrap_or(usize::MAX)) {
        Some(most) if text.chars().count() > most => {
            let cut: String = text.chars().take(most).collect();
            // Rather a word less than half a word.
            match cut.rfind(' ') {
                Some(at) if at > most / 2 => cut[..at].to_owned(),
                _ => cut,
            }
        }
        _ => text,
    }
}

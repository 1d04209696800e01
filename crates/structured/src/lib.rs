//! Extracts JSON that fits a schema from a model's reply, or reports why there is none.
//!
//! ```text
//!   text ── without <think> ── candidates ── parse ─┬─ validate ── value
//!             the whole · fenced · balanced · open   └─ repair ── validate
//! ```
//!
//! A provider's structured-output mode is not relied on, nothing is fetched (a `$ref` to another document is an error), and the model is
//! not called a second time: a repair costs microseconds, a second call costs money.

#![warn(missing_docs)]

mod cost;

use std::borrow::Cow;

use jsonschema::PatternOptions;
use serde_json::Value;

use effects::clip;

/// A value that fits its schema.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidJson {
    /// The value, without nulls that the schema does not allow.
    pub value: Value,
    /// Whether text around the JSON was dropped, its syntax was repaired, or nulls were removed.
    pub is_repaired: bool,
}

/// Why a reply gave no value that fits its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum NotJson {
    #[error("there is no JSON in the reply: {text:?}")]
    Nothing { text: String },
    #[error("the reply does not fit its schema ({}): {text}", .errors.join("; "))]
    Unfit { errors: Vec<String>, text: String },
    #[error("the schema itself is wrong: {0}")]
    Schema(String),
}

/// Bytes of an unusable reply that an error message shows; the flow gets all of it as `Failure::output`.
const SHOWN_BYTES_MAX: usize = 400;
const ERRORS_MAX: usize = 5;
/// Longer texts are parsed but not repaired.
const REPAIR_BYTES_MAX: usize = 1 << 20;
/// serde_json refuses JSON nested deeper than 128 levels, so repairing deeper text is useless; and the repairer recurses.
const REPAIR_DEPTH_MAX: usize = 120;
/// Positions in a text that are tried as the start of JSON.
const CANDIDATES_MAX: usize = 16;
/// Disallowed nulls that are removed from one value at most.
const PRUNED_MAX: usize = 256;

/// Finds the JSON in a text, repairs it if it does not parse, and validates it.
pub fn read(text: &str, schema: &Value) -> Result<ValidJson, NotJson> {
    let validator = validator(schema)?;
    let clean = without_thinking(text);
    let candidates = candidates(&clean);
    let mut first_errors: Option<(Vec<String>, String)> = None;
    let mut consider = |value: Value, is_repaired: bool| -> Option<ValidJson> {
        match fit(value, &validator) {
            Ok((value, pruned)) => Some(ValidJson { value, is_repaired: is_repaired || pruned }),
            Err((errors, value)) => {
                first_errors.get_or_insert_with(|| (errors, value.to_string()));
                None
            }
        }
    };
    for candidate in &candidates {
        if let Some(read) = serde_json::from_str(candidate.text).ok().and_then(|value| consider(value, candidate.is_part)) {
            return Ok(read);
        }
    }
    for candidate in &candidates {
        if let Some(read) = repaired(candidate.text).and_then(|value| consider(value, true)) {
            return Ok(read);
        }
    }
    Err(match first_errors {
        Some((errors, value)) => NotJson::Unfit { errors, text: clip(&value, SHOWN_BYTES_MAX) },
        None => NotJson::Nothing { text: clip(text.trim(), SHOWN_BYTES_MAX) },
    })
}

/// Validates a value that is parsed already.
pub fn check(value: Value, schema: &Value) -> Result<ValidJson, NotJson> {
    match fit(value, &validator(schema)?) {
        Ok((value, is_repaired)) => Ok(ValidJson { value, is_repaired }),
        Err((errors, value)) => Err(NotJson::Unfit { errors, text: clip(&value.to_string(), SHOWN_BYTES_MAX) }),
    }
}

/// The text without the `<think>` sections of a reasoning model. A section without its closing tag extends to the end.
pub fn without_thinking(text: &str) -> Cow<'_, str> {
    let mut clean = Cow::Borrowed(text);
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<|thinking|>", "<|/thinking|>")] {
        // Some templates put the opening tag into the prompt, so that only the closing one is generated.
        if let Some(at) = clean.find(close)
            && !clean[..at].contains(open)
        {
            clean = Cow::Owned(clean[at + close.len()..].to_owned());
        }
        while let Some(begin) = clean.find(open) {
            let end = clean[begin..].find(close).map_or(clean.len(), |at| begin + at + close.len());
            clean = Cow::Owned(format!("{}{}", &clean[..begin], &clean[end..]));
        }
    }
    match clean {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(text) => Cow::Owned(text.trim_start().to_owned()),
    }
}

struct Candidate<'t> {
    text: &'t str,
    /// Whether it is a part of the reply: there is other text around it.
    is_part: bool,
}

/// The parts of a text that may be JSON, the likeliest first.
fn candidates<'t>(text: &'t str) -> Vec<Candidate<'t>> {
    let whole = text.trim().trim_start_matches('\u{feff}');
    let mut found = vec![Candidate { text: whole, is_part: false }];
    let mut add = |part: &'t str| {
        let part = part.trim();
        if !part.is_empty() && part.len() < whole.len() {
            found.push(Candidate { text: part, is_part: true });
        }
    };
    fenced(whole).into_iter().take(CANDIDATES_MAX).for_each(&mut add);
    let mut from = 0;
    let mut unclosed = None;
    for _ in 0..CANDIDATES_MAX {
        let Some(begin) = whole[from..].find(['{', '[']).map(|at| from + at) else { break };
        match balanced(&whole[begin..]) {
            Some(length) => {
                add(&whole[begin..begin + length]);
                from = begin + length;
            }
            None => {
                unclosed.get_or_insert(begin);
                from = begin + 1;
            }
        }
    }
    if let Some(begin) = unclosed {
        add(&whole[begin..]);
    }
    found
}

fn fenced(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("```") {
        let after = &rest[open + 3..];
        // The rest of the fence's line is the language, unless the JSON begins there.
        let body = match after.find('\n') {
            Some(line) if !after[..line].contains(['{', '[', '"']) => &after[line + 1..],
            _ => after.trim_start_matches(|c: char| c.is_ascii_alphanumeric()),
        };
        match body.find("```") {
            Some(close) => {
                blocks.push(&body[..close]);
                rest = &body[close + 3..];
            }
            None => {
                blocks.push(body);
                break;
            }
        }
    }
    blocks
}

/// The length in bytes of the object or array that this text begins with; `None` if it is not closed.
fn balanced(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn repaired(text: &str) -> Option<Value> {
    if text.len() > REPAIR_BYTES_MAX || depth_of(text) > REPAIR_DEPTH_MAX {
        return None;
    }
    // The repairer is third-party code with untrusted input: if it panics, the reply counts as unreadable.
    let fixed = std::panic::catch_unwind(|| jsonrepair_rs::jsonrepair(text)).ok()?.ok()?;
    serde_json::from_str(&fixed).ok()
}

/// The nesting depth of brackets; an upper bound, because brackets in strings count too.
fn depth_of(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' | b'(' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A retriever for `jsonschema` that refuses every URI, whatever features of `jsonschema` other crates enable.
pub struct NoFetch;

impl jsonschema::Retrieve for NoFetch {
    fn retrieve(&self, uri: &jsonschema::Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("a schema must not refer to another document ({uri})").into())
    }
}

fn validator(schema: &Value) -> Result<Validator, NotJson> {
    Validator::new(schema.clone()).map_err(|why| NotJson::Schema(clip(&why, SHOWN_BYTES_MAX)))
}

/// A schema of somebody else's, ready to hold values against it. What would take too long or too much memory is an error.
pub struct Validator {
    validator: jsonschema::Validator,
    schema: Value,
}

impl Validator {
    /// The error is what is wrong with the schema.
    pub fn new(schema: Value) -> Result<Validator, String> {
        cost::check_schema(&schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(cost::BACKTRACK_MAX)
            .size_limit(cost::PATTERN_BYTES_MAX)
            .dfa_size_limit(cost::PATTERN_BYTES_MAX);
        let built = jsonschema::options().with_retriever(NoFetch).with_pattern_options(patterns).build(&schema);
        Ok(Validator { validator: built.map_err(|error| error.to_string())?, schema })
    }

    /// What is wrong with a value: the first few errors, in words.
    pub fn errors(&self, value: &Value, errors_max: usize) -> Vec<String> {
        match cost::steps(&self.schema, value) {
            // The errors are all found before the first is seen, and each step may be one.
            Ok(_) => self.validator.iter_errors(value).take(errors_max).map(|error| describe(&error)).collect(),
            Err(why) => vec![format!("it was not checked: {why}")],
        }
    }
}

/// Validates. Nulls that a schema does not allow are taken out of their objects first: strict schema modes make every property
/// required, and models then write null for what they would have left out.
fn fit(mut value: Value, validator: &Validator) -> Result<(Value, bool), (Vec<String>, Value)> {
    let steps = match cost::steps(&validator.schema, &value) {
        Ok(steps) => steps,
        Err(why) => return Err((vec![format!("it was not checked: {why}")], value)),
    };
    let validator = &validator.validator;
    let mut pruned = false;
    // Each round goes through the value twice.
    let rounds_max = usize::try_from(cost::STEPS_MAX / steps.max(1)).unwrap_or(PRUNED_MAX).clamp(1, PRUNED_MAX);
    for _ in 0..rounds_max {
        if validator.is_valid(&value) {
            return Ok((value, pruned));
        }
        let nulls: Vec<String> = validator
            .iter_errors(&value)
            .take(PRUNED_MAX)
            .map(|error| error.instance_path().to_string())
            .filter(|path| !path.is_empty() && value.pointer(path).is_some_and(Value::is_null))
            .collect();
        if !nulls.into_iter().any(|path| remove_at(&mut value, &path)) {
            break;
        }
        pruned = true;
    }
    let errors = validator.iter_errors(&value).take(ERRORS_MAX).map(|error| describe(&error)).collect();
    Err((errors, value))
}

fn remove_at(value: &mut Value, path: &str) -> bool {
    let Some((parent, name)) = path.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&name).is_some(),
        _ => false,
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let at = error.instance_path().to_string();
    let message = clip(&error.to_string(), 200);
    if at.is_empty() { message } else { format!("at {at}: {message}") }
}

#[cfg(test)]
mod tests;

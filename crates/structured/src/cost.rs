//! How much work it is to validate a value against a schema, before it is done.
//!
//! Schemas come from tool servers, agents and clients. A schema of a kilobyte whose definitions refer twice to the next one doubles the work with each of them,
//! and a validator that has begun cannot be stopped. So the steps are counted first: each pair of a schema and a part of the value is counted once and its count is
//! reused, which takes no longer than the schema is long, however many times a validator would go through it.
//!
//! What is counted is an upper bound: every branch of `anyOf` is taken, and every property is held against every pattern.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Steps of a validation, each of about 50 to 100 ns.
pub(crate) const STEPS_MAX: u64 = 1_000_000;
/// Pairs that are counted before that is given up.
const PAIRS_MAX: usize = 200_000;
/// Schemas within schemas, by nesting and by reference: the validator recurses.
const DEPTH_MAX: usize = 200;
/// Patterns in one schema, and bytes of all of them: each becomes a program of up to [`PATTERN_BYTES_MAX`].
const PATTERNS_MAX: usize = 128;
const PATTERNS_TEXT_BYTES_MAX: usize = 16 << 10;
/// A compiled pattern, and the states of its automaton that are kept.
pub(crate) const PATTERN_BYTES_MAX: usize = 512 << 10;
/// Steps that a pattern with look-around may go back.
pub(crate) const BACKTRACK_MAX: usize = 10_000;
/// Steps that one match of a pattern counts for.
const PATTERN_STEPS: u64 = 20;

/// Subschemas that are held against the same value.
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Refuses a schema whose patterns would take too much memory, or that refers to itself without an end.
pub(crate) fn check_schema(schema: &Value) -> Result<(), String> {
    let mut patterns = (0, 0);
    count_patterns(schema, &mut patterns);
    if patterns.0 > PATTERNS_MAX || patterns.1 > PATTERNS_TEXT_BYTES_MAX {
        return Err(format!(
            "it has {} patterns of {} bytes, and at most {PATTERNS_MAX} of {PATTERNS_TEXT_BYTES_MAX} are used",
            patterns.0, patterns.1
        ));
    }
    steps(schema, &Value::Null).map(drop)
}

/// An upper bound of the steps. An error where there are too many.
pub(crate) fn steps(schema: &Value, value: &Value) -> Result<u64, String> {
    let steps = Counter { root: schema, anchors: None, pairs: HashMap::new(), sizes: HashMap::new() }.count(schema, value, 0)?;
    if steps > STEPS_MAX { Err(too_much()) } else { Ok(steps) }
}

fn too_much() -> String {
    format!("holding a value against it takes more than {STEPS_MAX} steps")
}

fn count_patterns(schema: &Value, (count, bytes): &mut (usize, usize)) {
    let mut open = vec![schema];
    while let Some(next) = open.pop() {
        match next {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match (name.as_str(), field) {
                        ("pattern", Value::String(pattern)) => {
                            *count += 1;
                            *bytes += pattern.len();
                        }
                        ("patternProperties", Value::Object(patterns)) => {
                            *count += patterns.len();
                            *bytes += patterns.keys().map(String::len).sum::<usize>();
                        }
                        _ => {}
                    }
                    open.push(field);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// A node of the schema and one of the value, by address. Scalars are all alike, so that a long list of them is counted once.
type Pair = (*const Value, *const Value);

struct Counter<'a> {
    root: &'a Value,
    /// Names of subschemas that references may use, found when the first one does.
    anchors: Option<HashMap<&'a str, &'a Value>>,
    /// `None` while it is being counted.
    pairs: HashMap<Pair, Option<u64>>,
    sizes: HashMap<*const Value, u64>,
}

static SCALAR: Value = Value::Null;

impl<'a> Counter<'a> {
    fn count(&mut self, schema: &'a Value, value: &'a Value, depth: usize) -> Result<u64, String> {
        let Value::Object(fields) = schema else { return Ok(1) };
        if depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} levels deep"));
        }
        let value_key = if value.is_array() || value.is_object() { value } else { &SCALAR };
        let pair: Pair = (schema, value_key);
        match self.pairs.get(&pair) {
            Some(Some(steps)) => return Ok(*steps),
            // The same schema for the same value, on the way to itself.
            Some(None) => return Err("it refers to itself without an end".to_owned()),
            None => {}
        }
        if self.pairs.len() >= PAIRS_MAX {
            return Err(too_much());
        }
        self.pairs.insert(pair, None);
        let mut steps = 1 + fields.len() as u64;
        steps = add(steps, self.in_place(fields, value, depth)?)?;
        steps = add(
            steps,
            match value {
                Value::Object(properties) => self.of_object(fields, properties, depth)?,
                Value::Array(items) => self.of_array(fields, items, value, depth)?,
                Value::String(_) if fields.contains_key("pattern") => PATTERN_STEPS,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
            },
        )?;
        if let Some(Value::Array(choices)) = fields.get("enum") {
            steps = add(steps, choices.len() as u64)?;
        }
        self.pairs.insert(pair, Some(steps));
        Ok(steps)
    }

    fn in_place(&mut self, fields: &'a Map<String, Value>, value: &'a Value, depth: usize) -> Result<u64, String> {
        let mut steps = 0;
        for list in IN_PLACE_LISTS.iter().filter_map(|name| fields.get(*name)?.as_array()) {
            for schema in list {
                steps = add(steps, self.count(schema, value, depth + 1)?)?;
            }
        }
        for schema in IN_PLACE.iter().filter_map(|name| fields.get(*name)) {
            steps = add(steps, self.count(schema, value, depth + 1)?)?;
        }
        for dependents in ["dependentSchemas", "dependencies"].iter().filter_map(|name| fields.get(*name)?.as_object()) {
            for schema in dependents.values() {
                steps = add(steps, self.count(schema, value, depth + 1)?)?;
            }
        }
        for reference in REFERENCES.iter().filter_map(|name| fields.get(*name)?.as_str()) {
            steps = add(
                steps,
                match self.target(reference) {
                    Some(schema) => self.count(schema, value, depth + 1)?,
                    // A schema that the validator knows by itself, such as that of schemas.
                    None => self.size(value).saturating_mul(100),
                },
            )?;
        }
        Ok(steps)
    }

    fn of_object(&mut self, fields: &'a Map<String, Value>, properties: &'a Map<String, Value>, depth: usize) -> Result<u64, String> {
        let mut steps = properties.len() as u64;
        if let Some(Value::Object(known)) = fields.get("properties") {
            // The shorter of the two is gone through.
            for (name, schema) in known {
                if let Some(value) = properties.get(name) {
                    steps = add(steps, self.count(schema, value, depth + 1)?)?;
                }
            }
        }
        let patterns = fields.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        let others = ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|name| fields.get(*name));
        for (schema, own) in patterns.map(|schema| (schema, PATTERN_STEPS)).chain(others.map(|schema| (schema, 1))) {
            for value in properties.values() {
                steps = add(add(steps, own)?, self.count(schema, value, depth + 1)?)?;
            }
        }
        if let Some(schema) = fields.get("propertyNames") {
            let each = self.count(schema, &SCALAR, depth + 1)? + PATTERN_STEPS;
            steps = add(steps, each.saturating_mul(properties.len() as u64))?;
        }
        Ok(steps)
    }

    fn of_array(&mut self, fields: &'a Map<String, Value>, items: &'a [Value], value: &'a Value, depth: usize) -> Result<u64, String> {
        let mut steps = 0;
        for (name, schema) in fields {
            match (name.as_str(), schema) {
                ("items" | "prefixItems", Value::Array(schemas)) => {
                    for (schema, value) in schemas.iter().zip(items) {
                        steps = add(steps, self.count(schema, value, depth + 1)?)?;
                    }
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", schema) => {
                    for value in items {
                        steps = add(steps, self.count(schema, value, depth + 1)?)?;
                    }
                }
                ("uniqueItems", Value::Bool(true)) => steps = add(steps, self.size(value))?,
                _ => {}
            }
        }
        Ok(steps)
    }

    /// The subschema that a reference within the schema names.
    fn target(&mut self, reference: &str) -> Option<&'a Value> {
        let root_id = self.root.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let local = if root_id.is_empty() { reference } else { reference.strip_prefix(root_id).unwrap_or(reference) };
        match local.strip_prefix('#') {
            Some("") => return Some(self.root),
            None if local.is_empty() => return Some(self.root),
            Some(pointer) if pointer.starts_with('/') => {
                if let Some(found) = self.root.pointer(&percent_decoded(pointer)) {
                    return Some(found);
                }
            }
            _ => {}
        }
        let root = self.root;
        let anchors = self.anchors.get_or_insert_with(|| anchors(root));
        let (resource, anchor) = local.split_once('#').unwrap_or((local, ""));
        if !anchor.is_empty() && !anchor.starts_with('/') {
            return anchors.get(anchor).copied();
        }
        let found = anchors.get(resource).copied()?;
        if anchor.is_empty() { Some(found) } else { found.pointer(&percent_decoded(anchor)) }
    }

    /// How many parts a value has.
    fn size(&mut self, value: &'a Value) -> u64 {
        if let Some(size) = self.sizes.get(&std::ptr::from_ref(value)) {
            return *size;
        }
        let mut size = 0;
        let mut open = vec![value];
        while let Some(next) = open.pop() {
            size += 1;
            match next {
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => open.extend(fields.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        self.sizes.insert(value, size);
        size
    }
}

fn add(steps: u64, more: u64) -> Result<u64, String> {
    let sum = steps.saturating_add(more);
    if sum > STEPS_MAX { Err(too_much()) } else { Ok(sum) }
}

/// Subschemas by their `$anchor`, `$dynamicAnchor` and `$id`.
fn anchors(schema: &Value) -> HashMap<&str, &Value> {
    let mut found = HashMap::new();
    let mut open = vec![schema];
    while let Some(next) = open.pop() {
        match next {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                for name in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                    if let Some(Value::String(anchor)) = fields.get(name) {
                        found.entry(anchor.trim_start_matches('#')).or_insert(next);
                    }
                }
                open.extend(fields.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

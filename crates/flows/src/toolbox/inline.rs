//! Local references of a tool's schema (`{"$ref": "#/$defs/Format"}`) replaced by what they refer to, so that a planner sees a tool's choices and a small model
//! is held to them. Many servers generate such schemas from types.

use serde_json::{Map, Value};

/// Deeper references are those of a type that contains itself.
const DEPTH_MAX: usize = 6;
/// Values in the result; a few references can multiply to a very large schema.
const VALUES_MAX: usize = 2_000;

/// The schema without references; as it was if they lead elsewhere, into themselves, or to too much.
pub(super) fn inlined(schema: Value) -> Value {
    if !schema.to_string().contains("\"$ref\"") {
        return schema;
    }
    let mut left = VALUES_MAX;
    match replaced(&schema, &schema, 0, &mut left) {
        Some(Value::Object(mut fields)) => {
            fields.remove("$defs");
            fields.remove("definitions");
            Value::Object(fields)
        }
        _ => schema,
    }
}

fn replaced(value: &Value, root: &Value, depth: usize, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(1)?;
    match value {
        Value::Object(fields) => {
            let mut result = Map::new();
            if let Some(reference) = fields.get("$ref") {
                if depth >= DEPTH_MAX {
                    return None;
                }
                let target = root.pointer(reference.as_str()?.strip_prefix('#')?)?;
                match replaced(target, root, depth + 1, left)? {
                    Value::Object(fields) => result = fields,
                    other => return Some(other),
                }
            }
            let is_kept = |name: &str| name != "$ref" && (depth > 0 || name != "$defs" && name != "definitions");
            // What stands beside a reference is more specific than what it refers to.
            for (name, value) in fields.iter().filter(|(name, _)| is_kept(name)) {
                result.insert(name.clone(), replaced(value, root, depth, left)?);
            }
            Some(Value::Object(result))
        }
        Value::Array(items) => items.iter().map(|item| replaced(item, root, depth, left)).collect::<Option<Vec<_>>>().map(Value::Array),
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn s11_choices_behind_a_reference_are_seen() {
        let schema = json!({
            "type": "object",
            "properties": { "format": { "$ref": "#/$defs/Format", "description": "of the file" }, "all": { "type": "array", "items": { "$ref": "#/$defs/Format" } } },
            "$defs": { "Format": { "enum": ["pdf", "html"], "description": "a format" } },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "format": { "enum": ["pdf", "html"], "description": "of the file" },
                "all": { "type": "array", "items": { "enum": ["pdf", "html"], "description": "a format" } },
            },
        });
        assert_eq!(inlined(schema), expected);
    }

    #[test]
    fn what_cannot_be_replaced_stays_as_it_was() {
        let tree = json!({ "properties": { "a": { "$ref": "#/$defs/T" } }, "$defs": { "T": { "properties": { "next": { "$ref": "#/$defs/T" } } } } });
        let elsewhere = json!({ "properties": { "a": { "$ref": "https://example.org/schema.json" } } });
        let absent = json!({ "properties": { "a": { "$ref": "#/$defs/none" } } });
        let mut wide = json!({ "properties": { "a": { "$ref": "#/$defs/0" } }, "$defs": { "5": { "type": "string" } } });
        for level in 0..5 {
            let item = json!({ "$ref": format!("#/$defs/{}", level + 1) });
            wide["$defs"][level.to_string()] = json!({ "anyOf": vec![item; 10] });
        }
        for schema in [tree, elsewhere, absent, wide, json!({ "type": "object" })] {
            assert_eq!(inlined(schema.clone()), schema);
        }
    }
}

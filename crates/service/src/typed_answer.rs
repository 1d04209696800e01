//! Parses typed text as the answer to a question.

use graph::{Consent, Question};
use serde_json::{Value, json};

/// The typed text in the requested form. JSON is used as it is; a bare word becomes the value of the single required field.
pub fn answer(question: &Question, typed: &str) -> Value {
    let value = serde_json::from_str(typed).unwrap_or_else(|_| Value::String(typed.trim().to_owned()));
    let Some((name, field)) = only_field(question).filter(|_| !value.is_object()) else { return value };
    let value = match (field.get("type").and_then(Value::as_str), yes_or_no(&value)) {
        (Some("boolean"), Some(yes)) => Value::Bool(yes),
        _ => chosen(&words(question), &value).map_or(value, Value::String),
    };
    json!({ name: value })
}

/// The selected word: by itself, by a unique prefix, or by a plain yes or no.
fn chosen(words: &[String], typed: &Value) -> Option<String> {
    let is_word = |word: &str| words.iter().any(|known| known == word);
    if let Some(typed) = typed.as_str().map(str::to_lowercase) {
        if is_word(&typed) {
            return Some(typed);
        }
        let mut fitting = words.iter().filter(|word| !typed.is_empty() && word.starts_with(&typed));
        if let (Some(word), None) = (fitting.next(), fitting.next()) {
            return Some(word.clone());
        }
    }
    let word = if yes_or_no(typed)? { Consent::Once } else { Consent::No };
    is_word(word.as_str()).then(|| word.as_str().to_owned())
}

/// The accepted words, if there is a choice.
pub fn words(question: &Question) -> Vec<String> {
    let Some((_, field)) = only_field(question) else { return Vec::new() };
    match (field.get("type").and_then(Value::as_str), field.get("enum").and_then(Value::as_array)) {
        (Some("boolean"), _) => vec!["yes".into(), "no".into()],
        (_, Some(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn only_field(question: &Question) -> Option<(&str, &Value)> {
    let schema = question.schema.as_ref()?;
    match schema.get("required")?.as_array()?.as_slice() {
        [Value::String(name)] => Some((name, schema.get("properties")?.get(name)?)),
        _ => None,
    }
}

fn yes_or_no(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(yes) => Some(*yes),
        Value::String(word) => match word.to_lowercase().as_str() {
            "y" | "yes" | "ok" | "true" => Some(true),
            "n" | "no" | "false" => Some(false),
            _ => None,
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, typed: &str, value: &Value) {
        let question = Question { prompt: String::new(), schema: Some(schema).filter(|schema| !schema.is_null()) };
        assert_eq!(&answer(&question, typed), value, "{typed}");
    }

    #[test]
    fn what_is_typed_becomes_what_was_asked_for() {
        check(Value::Null, "plain words", &json!("plain words"));
        check(Value::Null, "{\"a\": 1}", &json!({ "a": 1 }));
        let approval = json!({ "type": "object", "required": ["approve"], "properties": { "approve": { "type": "boolean" } } });
        for typed in ["yes", "Y", "true", "{\"approve\": true}"] {
            check(approval.clone(), typed, &json!({ "approve": true }));
        }
        check(approval.clone(), "no", &json!({ "approve": false }));
        check(approval, "perhaps", &json!({ "approve": "perhaps" }));
        let doubt = json!({ "required": ["verdict"], "properties": { "verdict": { "enum": ["done", "again"] }, "value": {} } });
        check(doubt.clone(), "again", &json!({ "verdict": "again" }));
        let question = Question { prompt: String::new(), schema: Some(doubt) };
        assert_eq!(words(&question), ["done", "again"]);
    }

    #[test]
    fn a_permission_is_given_by_name_letter_or_yes_or_no() {
        let words = ["once", "conversation", "tool", "server", "no"];
        let allow = json!({ "required": ["allow"], "properties": { "allow": { "enum": words } } });
        for word in words {
            for typed in [word, &word[..1], &word.to_uppercase()] {
                check(allow.clone(), typed, &json!({ "allow": word }));
            }
        }
        for (typed, word) in [("yes", "once"), ("true", "once"), ("y", "once"), ("false", "no"), ("{\"allow\": true}", "")] {
            let value = if word.is_empty() { json!({ "allow": true }) } else { json!({ "allow": word }) };
            check(allow.clone(), typed, &value);
        }
        check(allow.clone(), "always", &json!({ "allow": "always" }));
        check(allow, "", &json!({ "allow": "" }));
    }
}

//! A person's word in plain text, as the value that a question takes.

pub(crate) use engine::OpenQuestion;
use graph::Waiting;
use serde_json::{Map, Value, json};

const YES: [&str; 8] = ["yes", "y", "ok", "okay", "approve", "approved", "true", "allow"];
const NO: [&str; 8] = ["no", "n", "decline", "declined", "reject", "false", "deny", "stop"];

/// What a text means to this question. The error is why it is no valid answer; [`hint`] describes the valid ones.
pub(crate) fn answer_value(text: &str, waiting: &Waiting) -> Result<Value, String> {
    let text = text.trim();
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(text) {
        return Ok(value);
    }
    let Some(schema) = &waiting.question.schema else { return Ok(json!(text)) };
    match field(schema) {
        None if schema["type"] == "object" => Err(format!("{text:?} is not an answer to this question.")),
        None => simple(text, schema),
        Some((name, field)) => {
            let mut answer = Map::from_iter([(name.to_owned(), simple(text, field)?)]);
            // The plan that was shown is the plan that is approved.
            let defaults = schema["properties"].as_object().into_iter().flatten().filter_map(|(name, field)| Some((name, field.get("default")?)));
            for (name, default) in defaults {
                answer.entry(name.clone()).or_insert_with(|| default.clone());
            }
            Ok(Value::Object(answer))
        }
    }
}

/// The tool call that a question is about, as clients are shown it: without the digests of what the tool is.
pub(crate) fn call_json(waiting: &Waiting) -> Option<Value> {
    let call = waiting.call.as_ref()?;
    Some(json!({ "tool": call.tool, "server": call.server, "arguments": call.arguments, "sources": call.sources }))
}

/// How the question can be answered, in a sentence.
pub(crate) fn hint(waiting: &Waiting) -> String {
    let Some(schema) = &waiting.question.schema else { return "Answer in your own words.".to_owned() };
    let field = field(schema).map_or(schema, |(_, field)| field);
    match (field["enum"].as_array(), field["type"].as_str()) {
        (Some(words), _) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            format!("Answer with one of: {}.", words.join(", "))
        }
        (None, Some("boolean")) => "Answer yes or no.".to_owned(),
        (None, Some("integer" | "number")) => "Answer with a number.".to_owned(),
        (None, Some("object")) => format!("Answer with JSON that fits {schema}."),
        (None, _) => "Answer in your own words.".to_owned(),
    }
}

/// The one field of an object that an answer needs.
fn field(schema: &Value) -> Option<(&str, &Value)> {
    let properties = schema["properties"].as_object()?;
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let name = match required.as_slice() {
        [only] => *only,
        [] if properties.len() == 1 => properties.keys().next()?,
        _ => return None,
    };
    properties.get(name).map(|field| (name, field))
}

fn simple(text: &str, schema: &Value) -> Result<Value, String> {
    let word = text.trim_end_matches(['.', '!']).to_lowercase();
    let wrong = || format!("{text:?} is not an answer to this question.");
    if let Some(choices) = schema["enum"].as_array() {
        let named = choices.iter().find(|choice| choice.as_str().is_some_and(|choice| choice.eq_ignore_ascii_case(&word)));
        // A plain yes is the first choice, which allows the least.
        let plain = || match word.as_str() {
            yes if YES.contains(&yes) => choices.first().filter(|first| first.as_str().is_some_and(|first| !NO.contains(&first))),
            no if NO.contains(&no) => choices.iter().find(|choice| choice.as_str().is_some_and(|choice| NO.contains(&choice))),
            _ => None,
        };
        return named.or_else(plain).cloned().ok_or_else(wrong);
    }
    match schema["type"].as_str() {
        Some("boolean") if YES.contains(&word.as_str()) => Ok(json!(true)),
        Some("boolean") if NO.contains(&word.as_str()) => Ok(json!(false)),
        Some("integer") => text.parse::<i64>().map(|number| json!(number)).map_err(|_| wrong()),
        Some("number") => text.parse::<f64>().map(|number| json!(number)).map_err(|_| wrong()),
        Some("boolean" | "object" | "array") => Err(wrong()),
        Some(_) | None => Ok(json!(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Question, TaskId};

    fn waiting(schema: Option<Value>) -> Waiting {
        let question = Question { prompt: "May I?".into(), schema };
        Waiting { task: TaskId { step: 0, index: 0 }, attempt: 1, question, call: None, why: None }
    }

    #[test]
    fn plain_words_become_the_value_that_is_asked_for() {
        let approve = json!({ "type": "object", "required": ["approve"], "properties": { "approve": { "type": "boolean" },
            "plan_hash": { "type": "string", "default": "3f" }, "tasks": { "type": "array" } } });
        let allow = json!({ "type": "object", "required": ["allow"], "properties": { "allow": { "enum": ["once", "conversation", "no"] } } });
        for (schema, text, value) in [
            (None, " blue ", json!("blue")),
            (Some(json!({ "type": "string" })), "blue", json!("blue")),
            (Some(approve.clone()), "Yes!", json!({ "approve": true, "plan_hash": "3f" })),
            (Some(approve.clone()), "no", json!({ "approve": false, "plan_hash": "3f" })),
            (Some(approve.clone()), r#"{"approve": true, "tasks": []}"#, json!({ "approve": true, "tasks": [] })),
            (Some(allow.clone()), "conversation", json!({ "allow": "conversation" })),
            (Some(allow.clone()), "yes", json!({ "allow": "once" })),
            (Some(allow.clone()), "no", json!({ "allow": "no" })),
            (Some(json!({ "type": "integer" })), "7", json!(7)),
        ] {
            assert_eq!(answer_value(text, &waiting(schema)), Ok(value), "{text}");
        }
        assert!(answer_value("perhaps", &waiting(Some(approve))).is_err());
        assert_eq!(hint(&waiting(Some(allow))), "Answer with one of: once, conversation, no.");
    }
}

//! Questions to a person as MCP's elicitation puts them: a form whose fields are simple values.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, InputRequest, InputRequests,
    InputResponses,
};
use rmcp::service::{ElicitationMode, Peer, RoleServer};
use serde_json::{Map, Value, json};

use crate::turn::{OpenQuestion, StartedTurn, answer_value, hint};

/// The field of a form for a question whose answer is no object.
const ANSWER: &str = "answer";
/// The one question of an `input_required` result.
const QUESTION: &str = "question";

/// Whether the host can ask a person.
pub(super) fn can(peer: &Peer<RoleServer>) -> bool {
    peer.supported_elicitation_modes().contains(&ElicitationMode::Form)
}

pub(super) fn params(asks: &OpenQuestion) -> ElicitRequestParams {
    let message = asks.waiting.question.prompt.clone();
    let schema = |form: Value| serde_json::from_value::<ElicitationSchema>(form).ok();
    let plain =
        || json!({ "type": "object", "required": [ANSWER], "properties": { ANSWER: { "type": "string", "description": hint(&asks.waiting) } } });
    // A form that hosts cannot draw is a line of text.
    let requested_schema = schema(form(asks)).or_else(|| schema(plain())).unwrap_or_else(|| ElicitationSchema::new(BTreeMap::new()));
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

pub(super) fn requests(asks: &OpenQuestion) -> InputRequests {
    BTreeMap::from([(QUESTION.to_owned(), InputRequest::Elicitation(ElicitRequest::new(params(asks))))])
}

/// What a person did, as reported by a host that repeats its call.
pub(super) fn response(answers: &InputResponses) -> (ElicitationAction, Option<Value>) {
    let answer = answers.get(QUESTION).cloned().unwrap_or_default();
    let action = match answer["action"].as_str() {
        Some("accept") => ElicitationAction::Accept,
        Some("decline") => ElicitationAction::Decline,
        _ => ElicitationAction::Cancel,
    };
    (action, answer.get("content").cloned())
}

/// The fields of the question's schema that a form can have.
fn form(asks: &OpenQuestion) -> Value {
    let Some(schema) = &asks.waiting.question.schema else { return Value::Null };
    let simple = |field: &Value| field.get("enum").is_some() || matches!(field["type"].as_str(), Some("string" | "boolean" | "integer" | "number"));
    match schema["properties"].as_object() {
        Some(properties) => {
            let mut fields = Map::new();
            for (name, field) in properties.iter().filter(|(_, field)| simple(field)) {
                let mut field = field.clone();
                if field.get("enum").is_some() {
                    field["type"] = json!("string");
                }
                fields.insert(name.clone(), field);
            }
            let required: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
            json!({ "type": "object", "properties": fields, "required": required })
        }
        None => json!({ "type": "object", "required": [ANSWER], "properties": { ANSWER: schema } }),
    }
}

/// A filled form as the value that the question takes; `None` if it is none.
pub(super) fn value(asks: &OpenQuestion, content: &Value) -> Option<Value> {
    let has_fields = asks.waiting.question.schema.as_ref().is_some_and(|schema| schema.get("properties").is_some());
    match content.get(ANSWER) {
        Some(Value::String(text)) if !has_fields || !content_is_form(asks, content) => answer_value(text, &asks.waiting).ok(),
        Some(answer) if !has_fields => Some(answer.clone()),
        _ => {
            let defaults = asks.waiting.question.schema.as_ref().and_then(|schema| schema["properties"].as_object());
            let mut fields = content.as_object().cloned().unwrap_or_default();
            for (name, field) in defaults.into_iter().flatten() {
                if let Some(default) = field.get("default") {
                    fields.entry(name.clone()).or_insert_with(|| default.clone());
                }
            }
            Some(Value::Object(fields))
        }
    }
}

/// Whether the form had a field of that name itself.
fn content_is_form(asks: &OpenQuestion, content: &Value) -> bool {
    let fields = asks.waiting.question.schema.as_ref().and_then(|schema| schema["properties"].as_object());
    content.as_object().is_some_and(|content| content.keys().all(|name| fields.is_some_and(|fields| fields.contains_key(name))))
}

/// For hosts that cannot ask the user: the question, and how to answer it.
pub(super) fn question_result(begun: &StartedTurn, asks: &OpenQuestion) -> CallToolResult {
    let question = &asks.waiting.question;
    let words = format!(
        "A person must answer before this goes on.\n\n{}\n\n{} Ask the user, then call answer_question with run {:?} and their answer.",
        question.prompt,
        hint(&asks.waiting),
        begun.run.as_str()
    );
    let mut result = CallToolResult::success(vec![ContentBlock::text(words)]);
    result.structured_content = Some(json!({ "run": begun.run, "thread": begun.thread, "asks": question }));
    result
}

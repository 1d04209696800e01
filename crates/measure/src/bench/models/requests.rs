//! The requests: fifty plans over varied tools, and texts for the speeds.

use graph::{Message, ModelCall};
use serde::Deserialize;
use serde_json::{Value, json};
use service::Result;

use super::super::wrong;

/// Enough for the longest plan the schema allows, in any language.
const PLAN_TOKENS_MAX: u32 = 800;
pub(crate) const FREE_TOKENS: u32 = 128;

#[derive(Deserialize)]
struct Requests {
    sets: Vec<Set>,
}

#[derive(Deserialize)]
struct Set {
    tools: Vec<Tool>,
    questions: Vec<String>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    arguments: Value,
}

/// One set of tools after the other, like a flow: questions of a set share the prefix of their prompt.
pub(crate) fn plans() -> Result<Vec<ModelCall>> {
    let requests: Requests = serde_json::from_str(include_str!("requests.json")).map_err(wrong)?;
    let of_set = |set: &Set| {
        let (system, schema) = (system(&set.tools), schema(&set.tools));
        let ask = |question: &String| call("plan", &[("system", &system), ("user", question)], Some(schema.clone()), PLAN_TOKENS_MAX);
        set.questions.iter().map(ask).collect::<Vec<_>>()
    };
    Ok(requests.sets.iter().flat_map(of_set).collect())
}

/// A prompt of about four hundred tokens without a common prefix, for a long text.
pub(crate) fn free(round: u32) -> ModelCall {
    let text = "A write-ahead log records every change before it is applied, so that a crash loses nothing that was promised. ".repeat(17);
    let system = format!("Text {round}. {text}");
    let question = "Explain every single idea of the text in detail, with many examples, in at least a thousand words.";
    call("direct", &[("system", &system), ("user", question)], None, FREE_TOKENS)
}

/// The prefix of `free` with another question.
pub(crate) fn again(round: u32) -> ModelCall {
    let mut call = free(round);
    if let Some(question) = call.messages.last_mut() {
        question.content = "And what is promised?".into();
    }
    ModelCall { tokens_max: Some(8), ..call }
}

fn call(purpose: &str, messages: &[(&str, &str)], schema: Option<Value>, tokens_max: u32) -> ModelCall {
    let messages = messages.iter().map(|(role, content)| Message { role: (*role).into(), content: (*content).into() }).collect();
    ModelCall { purpose: purpose.into(), messages, schema, tokens_max: Some(tokens_max), temperature: Some(0.0), ..ModelCall::default() }
}

fn system(tools: &[Tool]) -> String {
    let tools: Vec<String> =
        tools.iter().map(|tool| format!("- {}: {}; arguments {}", tool.name, tool.description, tool.arguments["properties"])).collect();
    format!(
        "You plan how a question is answered, with as few tasks as possible. Each task calls one tool. Answer with JSON only: \
         reasoning in one short sentence, then the tasks with task_number (from 1 on), tool_name, tool_arguments and a short description.\nTools:\n{}",
        tools.join("\n")
    )
}

/// The specification's plan (S3), with each tool's own arguments.
fn schema(tools: &[Tool]) -> Value {
    let task = |tool: &Tool| {
        json!({
            "type": "object",
            "properties": {
                "task_number": {"type": "integer", "minimum": 1, "maximum": 9},
                "tool_name": {"const": tool.name},
                "tool_arguments": tool.arguments,
                "description": {"type": "string", "maxLength": 60},
            },
            "required": ["task_number", "tool_name", "tool_arguments", "description"],
            "additionalProperties": false,
        })
    };
    let tasks = json!({"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": tools.iter().map(task).collect::<Vec<_>>()}});
    json!({
        "type": "object",
        "properties": {"reasoning": {"type": "string", "maxLength": 120}, "tasks": tasks},
        "required": ["reasoning", "tasks"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_different_plans_with_usable_schemas() {
        let plans = plans().unwrap();
        assert_eq!(plans.len(), 50);
        let distinct: std::collections::BTreeSet<String> = plans.iter().map(|plan| serde_json::to_string(plan).unwrap()).collect();
        assert_eq!(distinct.len(), 50);
        let good = json!({"reasoning": "r", "tasks": [{"task_number": 1, "tool_name": "math.compute", "tool_arguments": {"expression": "1"}, "description": ""}]});
        let schema = |at: usize| plans[at].schema.clone().unwrap();
        assert!(structured::check(good.clone(), &schema(0)).is_ok_and(|read| !read.is_repaired));
        assert!(structured::check(good, &schema(10)).is_err(), "another set has other tools");
    }
}

//! A model with a valid reply to any request of a flow. It uses only the schema and the text, and knows no prompt, so that prompts may
//! change.
//!
//! A question that names an errand (`errand 17`) gets plans with the tools of [`calls`], as far as the prompt lists them, and an answer
//! that names the errand again. So every effect of a run can be traced back to its question, before and after a crash.

use async_trait::async_trait;
use effects::{EffectHandler, Progress, Repeatability};
use graph::{Effect, Failure, FailureKind, Job, ModelCall, Reply, Usage};
use serde_json::{Map, Value, json};

/// The reply to a request of OpenAI's API.
pub fn to_request(body: &Value) -> String {
    let content = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let contents: Vec<String> = body["messages"].as_array().into_iter().flatten().map(content).collect();
    let asked = PromptParts { question: contents.last().cloned().unwrap_or_default(), prompt: contents.join("\n") };
    match body.pointer("/response_format/json_schema/schema") {
        Some(schema) => fill("", schema, &asked).to_string(),
        None => asked.sentence(),
    }
}

/// The reply to the same call without a network.
pub fn to_call(call: &ModelCall) -> Value {
    let contents: Vec<&str> = call.messages.iter().map(|message| message.content.as_str()).collect();
    let asked = PromptParts { question: contents.last().copied().unwrap_or_default().to_owned(), prompt: contents.join("\n") };
    call.schema.as_ref().map_or_else(|| json!(asked.sentence()), |schema| fill("", schema, &asked))
}

/// A model without a network: a function of the call.
pub struct ModelFn<F>(pub F);

#[async_trait]
impl<F: Fn(&ModelCall) -> Value + Send + Sync + 'static> EffectHandler for ModelFn<F> {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let Effect::CallModel(call) = &*job.effect else {
            return Reply::failed(Failure::new(FailureKind::Internal, "a model is asked nothing else"));
        };
        let reply = (self.0)(call);
        if let Some(text) = reply.as_str() {
            progress.send(text);
        }
        let length = |text: &str| text.len() as u64 / 4;
        let tokens_in = call.messages.iter().map(|message| length(&message.content)).sum();
        Reply::ok(reply.clone()).using(Usage { tokens_in, tokens_out: length(&reply.to_string()), ..Usage::default() })
    }
}

/// The tools that an errand needs, in dependency order. The last two leave external traces.
pub fn calls(errand: u64) -> Vec<(&'static str, Value)> {
    vec![
        ("stories.search_stories", json!({ "query": "upstream", "size": 2 })),
        ("calc.calculate", json!({ "expression": format!("{errand} + 1") })),
        ("search.search", json!({ "query": format!("relay {errand}") })),
        ("files.append", json!({ "path": LEDGER, "content": format!("errand {errand}: {{{{2}}}}\n") })),
        ("mail.send", json!({ "to": ["ann@example.org"], "subject": format!("Errand {errand}"), "body": "{{2}}" })),
    ]
}

/// The file that errands are written to.
pub const LEDGER: &str = "ledger.txt";

/// The first errand in a text.
pub fn errand_in(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    lower.match_indices("errand ").find_map(|(at, word)| {
        let digits: String = lower[at + word.len()..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

struct PromptParts {
    question: String,
    /// The whole prompt, including the question.
    prompt: String,
}

impl PromptParts {
    fn sentence(&self) -> String {
        errand_in(&self.prompt).map_or_else(|| "It is done.".to_owned(), |errand| format!("Errand {errand} is done."))
    }

    /// The calls whose tools are in the prompt.
    fn calls(&self) -> Vec<(&'static str, Value)> {
        let is_listed = |tool: &str| self.prompt.contains(&format!("- {tool}("));
        calls(errand_in(&self.prompt).unwrap_or_default()).into_iter().filter(|(tool, _)| is_listed(tool)).collect()
    }
}

/// A value that fits the schema, with required fields only.
fn fill(name: &str, schema: &Value, asked: &PromptParts) -> Value {
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return choose(options, asked);
    }
    if let Some(first) = schema.get("anyOf").or(schema.get("oneOf")).and_then(|all| all.get(0)) {
        return fill(name, first, asked);
    }
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let fields: Map<String, Value> = required.map(|name| (name.to_owned(), fill(name, &schema["properties"][name], asked))).collect();
            Value::Object(fields)
        }
        Some("array") => {
            let most = limit("maxItems").map_or(usize::MAX, |most| most as usize);
            let mut items = list(name, schema, asked);
            items.truncate(most);
            Value::Array(items)
        }
        Some("string") => {
            let most = limit("maxLength").map_or(usize::MAX, |most| most as usize);
            json!(asked.sentence().chars().take(most).collect::<String>())
        }
        Some("integer" | "number") => json!(limit("minimum").unwrap_or(1)),
        // Continuing would never end.
        Some("boolean") => json!(!name.contains("continue")),
        // One of several types: nullable values are null.
        _ => Value::Null,
    }
}

/// An option named in the question, or one that lets a flow continue.
fn choose(options: &[Value], asked: &PromptParts) -> Value {
    let question = asked.question.to_lowercase();
    let word = |option: &&Value| option.as_str().unwrap_or_default().split('_').next().unwrap_or_default().to_owned();
    let named = options.iter().find(|option| question.contains(&word(option)));
    let usual = ["approve", "search", "moderate"].into_iter().find_map(|usual| options.iter().find(|option| *option == usual));
    named.or(usual).or(options.first()).cloned().unwrap_or_default()
}

fn list(name: &str, schema: &Value, asked: &PromptParts) -> Vec<Value> {
    let items = &schema["items"];
    let fields: Vec<&String> = items["properties"].as_object().into_iter().flat_map(|fields| fields.keys()).collect();
    let field = |part: &str| fields.iter().find(|field| field.contains(part)).map(|field| field.as_str());
    if let (Some(arguments), Some(tool)) = (field("arguments"), fields.iter().find(|field| field.starts_with("tool") && !field.contains("arguments")))
    {
        let call = |(index, (called, with)): (usize, (&str, Value))| {
            let mut call = fill(name, items, asked);
            call[tool.as_str()] = json!(called);
            call[arguments] = with;
            if let Some(number) = field("number") {
                call[number] = json!(index + 1);
            }
            call
        };
        return asked.calls().into_iter().enumerate().map(call).collect();
    }
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or_default();
    let count = match (name, items.get("enum")) {
        ("research_steps", _) => 2,
        (_, Some(_)) => least.max(1),
        (_, None) => least,
    };
    let mut made: Vec<Value> = (0..count).map(|_| fill(name, items, asked)).collect();
    for (index, one) in made.iter_mut().enumerate() {
        if let Value::String(text) = one
            && items.get("enum").is_none()
        {
            // Identical steps would count as one.
            *text = format!("{} of {}", index + 1, text.trim_end_matches(" is done."));
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_follows_from_the_schema_and_the_task() {
        let asked = PromptParts { question: "Errand 7?".into(), prompt: "- calc.calculate(expression: string): …\nErrand 7?".into() };
        let task = json!({ "type": "object", "required": ["description", "task_number", "tool_arguments", "tool_name"], "properties": {
            "description": { "type": "string" }, "task_number": { "type": "integer" }, "tool_arguments": { "type": "object" }, "tool_name": { "type": "string" } } });
        let plan = json!({ "type": "object", "required": ["tasks", "reasoning"], "properties": {
            "tasks": { "type": "array", "minItems": 1, "maxItems": 20, "items": task }, "reasoning": { "type": "string", "maxLength": 6 } } });
        let expected = json!({ "reasoning": "Errand", "tasks": [
            { "description": "Errand 7 is done.", "task_number": 1, "tool_arguments": { "expression": "7 + 1" }, "tool_name": "calc.calculate" }] });
        assert_eq!(fill("", &plan, &asked), expected);
        let verdict = json!({ "type": "object", "required": ["decision"], "properties": { "decision": { "enum": ["reject", "approve"] } } });
        assert_eq!(fill("", &verdict, &asked), json!({ "decision": "approve" }));
        assert_eq!(asked.sentence(), "Errand 7 is done.");
        assert_eq!((errand_in("the Errand 12, errand 3"), errand_in("no errand at all")), (Some(12), None));
    }
}

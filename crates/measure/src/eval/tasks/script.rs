//! `--model scripted`: replies of a competent large model to a task, from the task's own data. Everything else in the run is real.
//!
//! Replies have the form of the call's schema, by the names of its properties: a list of tool calls is the plan, a choice of flow is the
//! route, a judgement is a reflection, and the rest are texts. Facts are taken from the prompt alone: `{{shown:REGEX}}` in the answer is
//! replaced by the match among the messages of the call, so a flow that does not show a result to the model fails the task. A further plan
//! ([`Then`]) is made only when its text was shown; that is also how the model obeys hostile text.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use effects::Progress;
use graph::{Key, ModelCall, Usage};
use mcp_hub::LIST;
use models::{Answer, Finish, Model, ModelError, ModelOutput};
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::task::{Part, Script, Step, Then, parts, shown_patterns};

pub(super) struct ScriptedModel {
    request: String,
    script: Script,
    /// What was planned and not found is planned again.
    is_persistent: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The first plan was given.
    is_planned: bool,
    /// Further plans that were given, by index.
    given: Vec<usize>,
    /// Tools that were looked for.
    looked_for: Vec<String>,
    /// The same prompt gets the same reply, whether it is a retry or a replay.
    replies: HashMap<String, Value>,
}

/// Replaces a fact that was not shown.
const NOT_SHOWN: &str = "(not shown)";

/// Precedes the steps and their results in the prompt of a reflection.
const STEP_LIST: &str = "\nSteps:\n";

/// The reply of a persistent model that something is missing.
const NOT_FOUND: &str = "the results do not have what was asked for";

/// How a prompt lets the model request another round instead of an answer.
const MISSING: &str = "MISSING:";

/// The capability of an agent that sends mails, in the plan of a team.
const SEND_MAIL: &str = "send_mail";

/// Names of properties in a planned call.
const TOOL_FIELDS: [&str; 3] = ["tool", "tool_name", "name"];
const ARGUMENT_FIELDS: [&str; 4] = ["arguments", "tool_arguments", "args", "input"];
/// Parts of the names of properties that contain the answer.
const ANSWER_FIELDS: [&str; 6] = ["answer", "response", "content", "summary", "result", "text"];

impl ScriptedModel {
    pub(super) fn new(request: &str, script: Script, is_persistent: bool) -> Self {
        ScriptedModel { request: request.to_owned(), script, is_persistent, state: Mutex::default() }
    }

    /// A JSON object if the call has a schema, otherwise text.
    fn reply(&self, call: &ModelCall) -> Value {
        let prompt: String = call.messages.iter().map(|message| format!("{}: {}\n", message.role, message.content)).collect();
        let asked = format!("{} {prompt}", call.purpose);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reply) = state.replies.get(&asked) {
            return reply.clone();
        }
        // Messages of the user and the model are not evidence.
        let shown: Vec<&str> =
            call.messages.iter().filter(|message| !matches!(message.role.as_str(), "user" | "assistant")).map(|one| one.content.as_str()).collect();
        let shown = shown.join("\n");
        let reply = match &call.schema {
            None => match self.missing(&shown, &state.given).filter(|_| shown.contains(MISSING)) {
                Some(text) => json!(format!("{MISSING} {text}")),
                None => json!(self.answer(&shown)),
            },
            Some(schema) => self.object(schema, &shown, &mut state),
        };
        state.replies.insert(asked, reply.clone());
        reply
    }

    fn object(&self, schema: &Value, shown: &str, state: &mut State) -> Value {
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let is_plan = properties.values().any(|field| call_form(&field["items"]).is_some());
        let mut reply = Map::new();
        for (name, field) in &properties {
            // Before anything was done there is no answer; optional fields of a plan stay empty.
            let value = if is_plan && can_be_null(field) { Value::Null } else { self.field(name, field, shown, state) };
            reply.insert(name.clone(), value);
        }
        Value::Object(reply)
    }

    fn field(&self, name: &str, field: &Value, shown: &str, state: &mut State) -> Value {
        let next = || self.missing(shown, &state.given);
        match name {
            "flow" => return json!(self.script.route.as_deref().unwrap_or("reason")),
            "goal_achieved" => return json!(next().is_none() && self.is_answerable(shown)),
            "should_continue" => return json!(next().is_some()),
            "plan_adjustments" => return next().map_or(Value::Null, |text| json!(format!("Still to do, as found: {text}"))),
            "issues_found" => return next().map_or_else(|| json!([]), |text| json!([format!("not done yet: {text}")])),
            "decision" => return json!("approve"),
            "missing" => return next().map_or_else(|| json!(""), |text| json!(text)),
            "final_response" => return Value::Null,
            "expert_steps" => return json!([self.request]),
            "subject" | "body" => return self.mail_field(name).map_or_else(|| json!(self.answer(shown)), Value::clone),
            // The reply if no agent of a team is needed.
            "reply" => return if self.mail_field("subject").is_some() { json!("") } else { json!(self.answer(shown)) },
            // The outline of a report.
            "sections" => return json!([{ "heading": "Overview", "question": self.request }, { "heading": "Details", "question": self.request }]),
            "title" => return json!(self.script.title.as_deref().unwrap_or(&self.request)),
            "ask_user" => return Value::Null,
            "research_steps" if !self.script.plan.is_empty() => return json!([self.request]),
            _ => {}
        }
        match field["type"].as_str() {
            Some("array") => match call_form(&field["items"]) {
                Some(form) => self.plan(&form, shown, state),
                None if self.mail_field("subject").is_some() && shown.contains(SEND_MAIL) => json!([SEND_MAIL]),
                None => json!([]),
            },
            Some("boolean") => json!(false),
            Some("integer" | "number") => field.get("minimum").cloned().unwrap_or_else(|| json!(1)),
            Some("object") => json!({}),
            _ => match field["enum"].as_array().and_then(|options| options.first()) {
                Some(first) => first.clone(),
                None if ANSWER_FIELDS.iter().any(|part| name.contains(part)) => json!(self.answer(shown)),
                None => json!("as planned"),
            },
        }
    }

    /// A further plan whose text was shown, if one is left; otherwise the first plan, once; otherwise an empty one. Tools that are not
    /// listed in the prompt are searched for first, if it offers that.
    fn plan(&self, form: &CallForm, shown: &str, state: &mut State) -> Value {
        let next = self.next(shown, &state.given);
        let steps = match &next {
            Some((_, steps, _)) => steps.clone(),
            // It is asked for a second plan only if the first one did not work.
            None if !state.is_planned || self.is_persistent => self.script.plan.clone(),
            None => Vec::new(),
        };
        let missing = steps.iter().find(|step| !shown.contains(&step.tool)).filter(|_| shown.contains(LIST));
        if let Some(step) = missing.filter(|step| !state.looked_for.contains(&step.tool)) {
            state.looked_for.push(step.tool.clone());
            let query = step.tool.replace(['.', '_'], " ");
            let look = Step { tool: LIST.to_owned(), arguments: json!({ "query": query }), description: "Look for a tool".to_owned() };
            return json!([form.fill(1, &look)]);
        }
        state.given.extend(next.map(|(index, _, _)| index));
        state.is_planned |= !steps.is_empty();
        steps.iter().enumerate().map(|(index, step)| form.fill(index + 1, step)).collect()
    }

    /// The first unused further plan whose text is shown: its index, its steps, and the matched text.
    fn next(&self, shown: &str, given: &[usize]) -> Option<(usize, Vec<Step>, String)> {
        let open = self.script.then.iter().enumerate().filter(|(index, _)| !given.contains(index));
        open.into_iter().find_map(|(index, Then { when, plan })| {
            let found = Regex::new(when).ok()?.captures(shown)?;
            let steps = plan.iter().map(|step| Step { arguments: filled(&step.arguments, &found), ..step.clone() }).collect();
            Some((index, steps, found[0].to_owned()))
        })
    }

    /// What is still to be done: the text of a further plan, or what was planned and not found.
    fn missing(&self, shown: &str, given: &[usize]) -> Option<String> {
        let further = self.next(shown, given).map(|(_, _, text)| text);
        further.or_else(|| self.is_unfound(shown).then(|| NOT_FOUND.to_owned()))
    }

    /// Whether a persistent model sees that its plan did not work: facts of the answer are not shown, or a planned step is not listed as done.
    fn is_unfound(&self, shown: &str) -> bool {
        let is_undone = |step: &Step| !shown.contains(&format!("({}): done", step.tool));
        let is_incomplete = shown.contains(STEP_LIST) && self.script.plan.iter().any(is_undone);
        self.is_persistent && (is_incomplete || !self.is_answerable(shown))
    }

    /// A part of the mail that the plan sends or drafts, for a flow that composes mails itself.
    fn mail_field(&self, name: &str) -> Option<&Value> {
        self.script.plan.iter().find(|step| step.tool.starts_with("mail."))?.arguments.get(name)
    }

    fn is_answerable(&self, shown: &str) -> bool {
        shown_patterns(&self.script.answer).iter().all(|pattern| find(pattern, shown).is_some())
    }

    fn answer(&self, shown: &str) -> String {
        let part = |part: Part<'_>| match part {
            Part::Text(text) => text.to_owned(),
            Part::Shown { pattern, text } => match (find(pattern, shown), text) {
                (None, _) => NOT_SHOWN.to_owned(),
                (Some(_), Some(text)) => text.to_owned(),
                (Some(found), None) => found,
            },
        };
        parts(&self.script.answer).into_iter().map(part).collect()
    }
}

/// The first group of an expression, or the whole match.
fn find(pattern: &str, shown: &str) -> Option<String> {
    let found = Regex::new(pattern).ok()?.captures(shown)?;
    found.get(1).or_else(|| found.get(0)).map(|part| part.as_str().trim().to_owned())
}

/// Replaces `$1` in a text by the first group, and so on.
fn filled(arguments: &Value, found: &Captures<'_>) -> Value {
    match arguments {
        Value::String(text) => {
            let put = |text: String, group: usize| match found.get(group) {
                Some(part) => text.replace(&format!("${group}"), part.as_str()),
                None => text,
            };
            json!((1..found.len()).fold(text.clone(), put))
        }
        Value::Array(items) => items.iter().map(|item| filled(item, found)).collect(),
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, value)| (name.clone(), filled(value, found))).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => arguments.clone(),
    }
}

fn can_be_null(field: &Value) -> bool {
    field["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
}

/// The names that a schema has for the parts of a planned call.
struct CallForm {
    tool: String,
    arguments: String,
    /// Other properties, with their schemas.
    others: Vec<(String, Value)>,
}

/// The form of a planned call, if a list contains calls. If each tool has its own form, their names are equal.
fn call_form(items: &Value) -> Option<CallForm> {
    let variants = ["anyOf", "oneOf"].into_iter().find_map(|name| items[name].as_array()?.first());
    let properties = variants.unwrap_or(items)["properties"].as_object()?;
    let named = |names: &[&str]| names.iter().find(|name| properties.contains_key(**name)).map(|name| (*name).to_owned());
    let (tool, arguments) = (named(&TOOL_FIELDS)?, named(&ARGUMENT_FIELDS)?);
    let others = properties.iter().filter(|(name, _)| **name != tool && **name != arguments).map(|(name, field)| (name.clone(), field.clone()));
    Some(CallForm { others: others.collect(), tool, arguments })
}

impl CallForm {
    fn fill(&self, number: usize, step: &Step) -> Value {
        let mut call = Map::from_iter([(self.tool.clone(), json!(step.tool)), (self.arguments.clone(), step.arguments.clone())]);
        for (name, field) in &self.others {
            let value = match field["type"].as_str() {
                Some("integer" | "number") => json!(number),
                Some("boolean") => json!(false),
                Some("array") => json!([]),
                _ if step.description.is_empty() => json!(format!("Call {}", step.tool)),
                _ => json!(step.description),
            };
            call.insert(name.clone(), value);
        }
        Value::Object(call)
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn answer(&self, call: &ModelCall, _key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        let output = match self.reply(call) {
            Value::String(text) => {
                progress.send(&text);
                ModelOutput::Text(text)
            }
            object => ModelOutput::Json(object),
        };
        Ok(Answer { output, usage: Usage::default(), model: None, finish: Finish::Stop, notes: Value::Null })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Message;

    fn call(purpose: &str, messages: &[(&str, &str)], schema: Value) -> ModelCall {
        let messages = messages.iter().map(|(role, content)| Message { role: (*role).into(), content: (*content).into() }).collect();
        ModelCall { purpose: purpose.into(), messages, schema: Some(schema).filter(|schema| !schema.is_null()), ..ModelCall::default() }
    }

    fn model(script: &str) -> ScriptedModel {
        ScriptedModel::new("How much?", toml::from_str(script).unwrap(), false)
    }

    fn plan_schema(list: &str, tool: &str, arguments: &str) -> Value {
        let item = json!({ "properties": { tool: { "type": "string" }, arguments: { "type": "object" }, "task_number": { "type": "integer" } } });
        json!({ "properties": { list: { "type": "array", "items": item }, "reasoning": { "type": "string" } } })
    }

    #[test]
    fn a_plan_takes_the_form_the_schema_asks_for() {
        let script = "plan = [{ tool = 'calc.calculate', arguments = { expression = '1+1' } }]\nanswer = 'x'";
        for (list, tool, arguments) in [("steps", "tool", "arguments"), ("tasks", "tool_name", "tool_arguments"), ("calls", "name", "args")] {
            let model = model(script);
            let schema = plan_schema(list, tool, arguments);
            let plan = model.reply(&call("plan", &[("system", "Plan."), ("user", "How much?")], schema.clone()));
            assert_eq!(plan[list], json!([{ tool: "calc.calculate", arguments: { "expression": "1+1" }, "task_number": 1 }]));
            assert_eq!(model.reply(&call("plan", &[("system", "Plan."), ("user", "How much?")], schema.clone())), plan, "a retry");
            assert_eq!(model.reply(&call("plan", &[("system", "Plan what is missing.")], schema))[list], json!([]), "nothing more to do");
        }
        let item = json!({ "properties": { "tool": { "type": "string" }, "arguments": {} } });
        let schema = json!({ "properties": { "steps": { "type": "array", "items": item }, "answer": { "type": ["string", "null"] } } });
        assert_eq!(model(script).reply(&call("plan", &[], schema.clone()))["answer"], Value::Null, "nothing is known yet");
        let looking = model(script);
        let first = looking.reply(&call("plan", &[("system", "Tools: a.b, registry.tools")], schema.clone()));
        assert_eq!(first["steps"][0]["tool"], "registry.tools");
        let then = looking.reply(&call("plan", &[("system", "Tools: calc.calculate, registry.tools")], schema));
        assert_eq!(then["steps"][0]["tool"], "calc.calculate");
        let each = json!({ "anyOf": [{ "properties": { "tool": { "const": "a" }, "arguments": {} } }] });
        let schema = json!({ "properties": { "steps": { "type": "array", "items": each } } });
        assert_eq!(model(script).reply(&call("plan", &[], schema))["steps"][0]["tool"], "calc.calculate");
    }

    #[test]
    fn facts_are_taken_from_what_is_shown_and_nothing_else() {
        let model = model("answer = 'It is {{shown:total: (\\d+)}} in {{shown:Bern|Rome=>town}}.'");
        let shown = [("system", "Answer."), ("evidence", "total: 12 in Bern"), ("user", "total: 99 in Rome?")];
        assert_eq!(model.reply(&call("answer", &shown, Value::Null)), "It is 12 in town.");
        assert_eq!(model.reply(&call("answer", &shown[2..], Value::Null)), "It is (not shown) in (not shown).");
        let schema = json!({ "properties": { "reasoning": { "type": "string" }, "response_content": { "type": "string" } } });
        assert_eq!(model.reply(&call("synthesis", &shown, schema))["response_content"], "It is 12 in town.");
    }

    #[test]
    fn a_further_plan_waits_for_its_text_and_is_made_once() {
        let model = model(
            "plan = [{ tool = 'tickets.list_tickets' }]\nanswer = '{{shown:is closed}}'\n\
             [[then]]\nwhen = '(T-\\d+) .*printer'\nplan = [{ tool = 'tickets.close_ticket', arguments = { id = '$1' } }]",
        );
        let reflect = json!({ "properties": {
            "goal_achieved": { "type": "boolean" }, "should_continue": { "type": "boolean" }, "plan_adjustments": { "type": ["string", "null"] },
        } });
        let plan = plan_schema("steps", "tool", "arguments");
        assert_eq!(model.reply(&call("plan", &[("system", "Plan.")], plan.clone()))["steps"][0]["tool"], "tickets.list_tickets");
        let seen = model.reply(&call("reflect", &[("system", "Judge."), ("evidence", "T-7 [open] The printer")], reflect.clone()));
        assert_eq!((&seen["goal_achieved"], &seen["should_continue"]), (&json!(false), &json!(true)));
        let answering = [("system", "Answer, or reply MISSING: and what is missing."), ("evidence", "T-7 [open] The printer")];
        assert_eq!(model.reply(&call("answer", &answering, Value::Null)), "MISSING: T-7 [open] The printer");
        let adjusted = format!("Plan. {}", seen["plan_adjustments"].as_str().unwrap());
        let second = model.reply(&call("plan", &[("system", &adjusted)], plan));
        assert_eq!(second["steps"][0]["arguments"], json!({ "id": "T-7" }));
        let done = [("system", "Judge again."), ("evidence", "T-7 [open] The printer"), ("evidence", "T-7 is closed.")];
        let seen = model.reply(&call("reflect", &done, reflect));
        assert_eq!((&seen["goal_achieved"], &seen["should_continue"]), (&json!(true), &json!(false)));
    }

    #[test]
    fn a_team_is_given_the_mail_of_the_plan() {
        let model = model("plan = [{ tool = 'mail.send', arguments = { to = ['a@x.example'], subject = 'Hi', body = 'There' } }]\nanswer = 'Sent.'");
        let plan = json!({ "properties": { "plan": { "type": "array", "items": { "type": "string" } }, "reply": { "type": "string" } } });
        assert_eq!(model.reply(&call("plan", &[("system", "- send_mail: sends mails")], plan)), json!({ "plan": ["send_mail"], "reply": "" }));
        let letter = json!({ "properties": { "subject": { "type": "string" }, "body": { "type": "string" } } });
        assert_eq!(model.reply(&call("letter", &[], letter)), json!({ "subject": "Hi", "body": "There" }));
    }

    #[test]
    fn other_calls_get_the_reply_of_a_competent_model() {
        let model = model("route = 'search'\nplan = [{ tool = 'a.b' }]\nanswer = 'Yes.'");
        let schema = json!({ "properties": {
            "flow": { "enum": ["direct", "search"] }, "decision": { "enum": ["reject", "approve"] }, "complexity": { "enum": ["simple", "complex"] },
            "research_steps": { "type": "array", "items": { "type": "string" } }, "final_answer": { "type": "string" },
        } });
        let reply = model.reply(&call("any", &[], schema));
        assert_eq!((&reply["flow"], &reply["decision"], &reply["complexity"]), (&json!("search"), &json!("approve"), &json!("simple")));
        assert_eq!((&reply["research_steps"], &reply["final_answer"]), (&json!(["How much?"]), &json!("Yes.")));
    }
}

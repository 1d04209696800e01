//! Approval of a plan at the terminal: shown, approved, declined, or changed in an editor.
//!
//! A question is about a plan if its schema takes more than yes or no; the other fields are the plan's lists. Their current content is in a
//! note of the flow. The flow checks what is sent back, and the plan's hash ensures that the approved plan is the one that runs.

use engine::{Engine, plan_lists as lists};
use graph::Question;
use jsonschema::validator_for;
use serde_json::{Map, Value, json};

use crate::exit::{Result, ServiceError};
use crate::plan::Plan;
use crate::question::Open;

/// The plan a question is about.
pub(crate) struct Proposal {
    pub(crate) plan: Plan,
    /// The hash given by the flow.
    pub(crate) hash: Option<String>,
}

/// Fields of an answer that are not the plan.
const HASH: &str = "plan_hash";
const APPROVE: &str = "approve";
const REVISE: &str = "revise";

/// `None` if the question is about something else.
pub(crate) async fn proposal(engine: &Engine, open: &Open) -> Result<Option<Proposal>> {
    let plan = engine.plan_of(open).await?;
    Ok(plan.map(|plan| Proposal { plan: Plan(plan), hash: hash(&open.waiting.question) }))
}

impl Proposal {
    /// The answer that approves this plan, or the edited one.
    pub(crate) fn approved(&self, question: &Question, edited: Option<&Plan>) -> Value {
        let mut answer = Map::from_iter([(APPROVE.to_owned(), json!(true))]);
        if properties(question).is_some_and(|fields| fields.contains_key(HASH)) {
            answer.extend(self.hash.iter().map(|hash| (HASH.to_owned(), json!(hash))));
        }
        answer.extend(edited.into_iter().flat_map(|plan| plan.0.clone()));
        Value::Object(answer)
    }
}

/// With a reason, if the person gave one and the question takes it.
pub(crate) fn declined(question: &Question, reason: &str) -> Value {
    refused(question, "reason", reason)
}

/// The planner is to plan again with this in view.
pub(crate) fn revised(question: &Question, reason: &str) -> Value {
    refused(question, REVISE, reason)
}

pub(crate) fn can_be_revised(question: &Question) -> bool {
    properties(question).is_some_and(|fields| fields.contains_key(REVISE))
}

fn refused(question: &Question, field: &str, reason: &str) -> Value {
    let mut answer = json!({ APPROVE: false });
    if !reason.trim().is_empty() && properties(question).is_some_and(|fields| fields.contains_key(field)) {
        answer[field] = json!(reason.trim());
    }
    answer
}

/// Parses an edited plan and checks that the question accepts it.
pub(crate) fn read(question: &Question, text: &str) -> std::result::Result<Plan, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("that is not JSON: {error}"))?;
    let Value::Object(fields) = value else { return Err("that is not an object".to_owned()) };
    let lists = lists(question);
    if let Some(unknown) = fields.keys().find(|name| lists.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = lists.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no {unknown:?} in a plan, only {}", known.join(", ")));
    }
    let mut answer = fields.clone();
    answer.insert(APPROVE.to_owned(), json!(true));
    if let Some(schema) = &question.schema {
        let validator = validator_for(schema).map_err(|error| format!("the question itself is wrong: {error}"))?;
        if let Some(error) = validator.iter_errors(&Value::Object(answer)).next() {
            return Err(format!("{}: {error}", error.instance_path()));
        }
    }
    match fields.values().all(|list| list.as_array().is_some_and(Vec::is_empty)) {
        true => Err("a plan without steps is a no".to_owned()),
        false => Ok(Plan(fields)),
    }
}

/// Opens the user's editor on a text and returns the edited text.
pub(crate) fn edit(text: &str) -> Result<String> {
    let failed = |why: String| ServiceError::Failed(format!("the plan cannot be edited: {why}"));
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()));
    let editor = named.unwrap_or_else(|| "vi".to_owned());
    let file = tempfile::Builder::new().prefix("plan-").suffix(".json").tempfile().map_err(|error| failed(error.to_string()))?;
    std::fs::write(file.path(), text)?;
    // Run by the shell, because the command may have arguments (`code --wait`).
    let status = std::process::Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path()).status();
    match status {
        Ok(status) if status.success() => Ok(std::fs::read_to_string(file.path())?),
        Ok(_) => Err(failed(format!("{editor} ended with an error; VISUAL or EDITOR name another"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn properties(question: &Question) -> Option<&Map<String, Value>> {
    question.schema.as_ref()?.get("properties")?.as_object()
}

/// From its field, or from the last line of the question.
fn hash(question: &Question) -> Option<String> {
    let field = properties(question).and_then(|fields| fields.get(HASH)?.get("default")?.as_str());
    let last = || question.prompt.lines().last()?.strip_prefix("plan ");
    field.or_else(last).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::plan_as_sent;

    fn question() -> Question {
        let task = json!({ "type": "object", "required": ["tool_name"], "properties": { "tool_name": { "enum": ["calc", "docs.search"] }, "tool_arguments": { "type": "object" } } });
        let properties = json!({ "approve": { "type": "boolean" }, "plan_hash": { "type": "string", "default": "3f2a" }, "tasks": { "type": "array", "items": task } });
        Question { prompt: "May I?".into(), schema: Some(json!({ "type": "object", "required": ["approve"], "properties": properties })) }
    }

    #[test]
    fn a_plan_is_read_back_as_it_may_be_sent() {
        let noted = json!({ "hash": "3f2a", "tasks": [
            { "task_number": 1, "tool_name": "calc", "tool_arguments": { "x": 1 }, "status": "pending", "error": null },
            { "task_number": 2, "tool_name": "nonsense", "tool_arguments": {}, "status": "failed", "error": "no such tool" },
        ] });
        let question = question();
        let plan = Plan(plan_as_sent(&noted, &lists(&question)));
        assert_eq!(Value::Object(plan.0.clone()), json!({ "tasks": [{ "tool_name": "calc", "tool_arguments": { "x": 1 } }] }));
        let proposal = Proposal { plan: plan.clone(), hash: hash(&question) };
        assert_eq!(proposal.approved(&question, None), json!({ "approve": true, "plan_hash": "3f2a" }));
        assert_eq!(proposal.approved(&question, Some(&plan))["tasks"][0]["tool_name"], "calc");
        assert_eq!(read(&question, &Value::Object(plan.0.clone()).to_string()), Ok(plan));
    }

    #[test]
    fn a_reason_goes_into_the_field_that_the_question_has_for_it() {
        let question = |fields: Value| Question { prompt: String::new(), schema: Some(json!({ "properties": fields })) };
        let new = question(json!({ "approve": {}, "reason": {}, "revise": {} }));
        assert_eq!(declined(&new, " too broad "), json!({ "approve": false, "reason": "too broad" }));
        assert_eq!(declined(&new, ""), json!({ "approve": false }));
        assert_eq!(revised(&new, "shorter"), json!({ "approve": false, "revise": "shorter" }));
        let old = question(json!({ "approve": {} }));
        assert_eq!((declined(&old, "no"), can_be_revised(&old), can_be_revised(&new)), (json!({ "approve": false }), false, true));
    }

    #[test]
    fn an_invalid_plan_is_refused_with_a_reason() {
        for (text, words) in [
            ("{", "not JSON"),
            ("[]", "not an object"),
            ("{\"steps\": []}", "only tasks"),
            ("{\"tasks\": []}", "is a no"),
            ("{\"tasks\": [{\"tool_name\": \"rm\"}]}", "/tasks/0/tool_name"),
            ("{\"tasks\": 3}", "/tasks"),
        ] {
            let why = read(&question(), text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn a_plain_question_has_no_plan() {
        let plain = Question { prompt: "May I?\n\nplan 77".into(), schema: Some(json!({ "properties": { "approve": { "type": "boolean" } } })) };
        assert!(lists(&plain).is_empty());
        assert_eq!(hash(&plain).as_deref(), Some("77"));
    }
}

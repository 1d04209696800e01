//! Formats a plan of any flow: numbered, with tools and arguments.
//!
//! Flows publish their plans in notes; [`flows::descriptor::is_plan_list`] decides which fields are lists of steps.

use flows::descriptor::is_plan_list;
use serde_json::{Map, Value};

use terminal::{BOLD, DIM, RED, one_line, paint};

/// The lists of a plan by their names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan(pub(crate) Map<String, Value>);

/// The list's name in a plan that has only one.
const ONLY_LIST: &str = "tasks";
const ARGUMENTS_CHARS_MAX: usize = 160;
const WORDS_CHARS_MAX: usize = 160;

impl Plan {
    pub(crate) fn of(value: &Value) -> Option<Plan> {
        if let Value::Array(_) = value {
            return Some(Plan(Map::from_iter([(ONLY_LIST.to_owned(), value.clone())])));
        }
        let fields = value.as_object().into_iter().flatten();
        let lists = fields.filter(|(name, list)| is_plan_list(name) && list.is_array());
        Some(Plan(lists.map(|(name, list)| (name.clone(), list.clone())).collect())).filter(|plan| !plan.0.is_empty())
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, list) in &self.0 {
            // Only several lists need headings.
            if self.0.len() > 1 {
                lines.push(paint(DIM, format!("{}:", name.replace('_', " "))));
            }
            let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
            lines.extend(items.iter().enumerate().map(|(at, item)| line(at + 1, item)));
            if items.is_empty() {
                lines.push(paint(DIM, "(none)"));
            }
        }
        lines
    }
}

fn line(number: usize, item: &Value) -> String {
    let text = |names: [&str; 2]| names.iter().find_map(|name| item.get(name)?.as_str()).unwrap_or_default();
    if let Some(words) = item.as_str() {
        return format!("{number}. {}", one_line(words, WORDS_CHARS_MAX));
    }
    if let Some(heading) = item.get("heading").and_then(Value::as_str) {
        let question = item.get("question").and_then(Value::as_str).unwrap_or_default();
        return format!("{number}. {}  {}", paint(BOLD, one_line(heading, WORDS_CHARS_MAX)), paint(DIM, one_line(question, WORDS_CHARS_MAX)));
    }
    let number = item.get("task_number").and_then(Value::as_u64).map_or_else(|| number.to_string(), |number| number.to_string());
    let arguments = ["tool_arguments", "arguments"].iter().find_map(|name| item.get(name)).map(Value::to_string).unwrap_or_default();
    let mut line =
        format!("{number}. {} {}", paint(BOLD, one_line(text(["tool_name", "tool"]), WORDS_CHARS_MAX)), one_line(&arguments, ARGUMENTS_CHARS_MAX));
    match text(["description", "about"]) {
        "" => {}
        words => line.push_str(&paint(DIM, format!("  {}", one_line(words, WORDS_CHARS_MAX)))),
    }
    match text(["error", "error"]) {
        "" => {}
        why => line.push_str(&paint(RED, format!("  {}", one_line(why, WORDS_CHARS_MAX)))),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &Value, lines: &[&str]) {
        let plan = Plan::of(value).expect("a plan");
        let found: Vec<String> = plan.lines().iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn every_flows_plan_is_a_numbered_list() {
        let task = json!({ "task_number": 4, "tool_name": "docs.search", "tool_arguments": { "query": "a\u{1b}[2Jb" }, "description": "Look" });
        check(&json!({ "tasks": [task] }), &["4. docs.search {\"query\":\"a\\u001b[2Jb\"}  Look"]);
        check(&json!({ "steps": [{ "tool": "calc", "arguments": { "x": 1 } }] }), &["1. calc {\"x\":1}"]);
        check(&json!({ "research_steps": [], "expert_steps": ["Think"] }), &["research steps:", "(none)", "expert steps:", "1. Think"]);
        check(&json!(["what it is"]), &["1. what it is"]);
        check(&json!({ "sections": [{ "heading": "Cost", "question": "What does it cost?" }] }), &["1. Cost  What does it cost?"]);
        assert_eq!(Plan::of(&json!({ "hash": "1" })), None);
    }
}

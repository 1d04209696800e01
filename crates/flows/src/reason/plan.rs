//! A plan: what to call, in which order, and when it is good enough.

use graph::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::decide::Complexity;
use crate::input::Mind;
use crate::toolbox::{Toolbox, references};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub estimated_complexity: Complexity,
    #[serde(default)]
    pub success_criteria: Vec<String>,
    #[serde(default)]
    pub required_tools: Vec<String>,
}

/// Steps are numbered from 1; `{{1}}` in an argument is what the first one found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    #[serde(default)]
    pub description: String,
    pub tool: String,
    #[serde(default)]
    pub arguments: Value,
}

impl Step {
    pub fn call(&self) -> ToolCall {
        ToolCall { tool: self.tool.clone(), arguments: self.arguments.clone() }
    }
}

pub(super) const STEPS_MAX: usize = 8;
pub(super) const SMALL_STEPS_MAX: usize = 3;

/// As a model may write it: only the steps are needed.
#[derive(Deserialize)]
pub(super) struct Draft {
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) estimated_complexity: Option<Complexity>,
    #[serde(default)]
    pub(super) success_criteria: Vec<String>,
}

pub(super) fn schema(toolbox: &Toolbox, mind: &Mind) -> Value {
    let mut more = Map::new();
    if mind.is_small {
        let steps = json!({ "type": "array", "maxItems": SMALL_STEPS_MAX, "items": toolbox.call_schema(mind, "tool", "arguments", &more) });
        return json!({ "type": "object", "required": ["steps"], "additionalProperties": false, "properties": { "steps": steps } });
    }
    more.insert("description".into(), json!({ "type": "string" }));
    json!({
        "type": "object",
        "required": ["steps", "estimated_complexity", "success_criteria"],
        "additionalProperties": false,
        "properties": {
            "steps": { "type": "array", "maxItems": STEPS_MAX, "items": toolbox.call_schema(mind, "tool", "arguments", &more) },
            "estimated_complexity": { "enum": ["simple", "moderate", "complex"] },
            "success_criteria": { "type": "array", "maxItems": 5, "items": { "type": "string" } },
        },
    })
}

/// The draft made into something that can be carried out, and what was wrong with it. A step that cannot be called is looked up in its own
/// words instead; numbers stay what they were, so that references hold.
pub(super) fn checked(draft: Draft, toolbox: &Toolbox, guess: Complexity) -> (Plan, Vec<String>) {
    let mut wrong = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for (index, step) in draft.steps.into_iter().take(STEPS_MAX).enumerate() {
        let number = index + 1;
        let resolved =
            toolbox.resolve(&step.call()).and_then(|call| match references(&call.arguments).iter().find(|one| one.task == 0 || one.task >= number) {
                Some(bad) => Err(format!("step {number} refers to step {}, which is not before it", bad.task)),
                None => Ok(call),
            });
        match resolved {
            Ok(call) => steps.push(Step { description: step.description, tool: call.tool, arguments: call.arguments }),
            Err(why) => {
                let text = text_of(&step);
                let instead = toolbox.fallback(&text).filter(|_| !text.is_empty());
                wrong.push(format!("step {number}: {why}"));
                // An empty tool is never called; it only keeps the number.
                let call = instead.unwrap_or(ToolCall { tool: String::new(), arguments: json!({}) });
                steps.push(Step { description: step.description, tool: call.tool, arguments: call.arguments });
            }
        }
    }
    while steps.last().is_some_and(|step| step.tool.is_empty()) {
        steps.pop();
    }
    let plan = Plan {
        required_tools: tools_of(&steps),
        steps,
        estimated_complexity: draft.estimated_complexity.unwrap_or(guess),
        success_criteria: draft.success_criteria,
    };
    (plan, wrong)
}

/// One step on the first tool that can do with a text: for what is simple, and for when planning fails. Without such a tool there is nothing to do.
pub(super) fn simple(question: &str, toolbox: &Toolbox) -> Plan {
    let call = toolbox.fallback(question);
    let steps: Vec<Step> =
        call.into_iter().map(|call| Step { description: "Look it up".into(), tool: call.tool, arguments: call.arguments }).collect();
    let success_criteria = if steps.is_empty() { Vec::new() } else { vec!["Something was found that bears on the question".to_owned()] };
    Plan { required_tools: tools_of(&steps), steps, estimated_complexity: Complexity::Simple, success_criteria }
}

/// Whether every step only uses what comes before it.
pub(super) fn is_in_order(plan: &Plan) -> bool {
    let refers = |(index, step): (usize, &Step)| references(&step.arguments).iter().all(|one| (1..=index).contains(&one.task));
    plan.steps.iter().enumerate().all(refers)
}

fn tools_of(steps: &[Step]) -> Vec<String> {
    let mut tools: Vec<String> = steps.iter().map(|step| step.tool.clone()).filter(|tool| !tool.is_empty()).collect();
    tools.sort();
    tools.dedup();
    tools
}

/// What a step is about, in words: its description, or the longest text among its arguments.
fn text_of(step: &Step) -> String {
    let texts = step.arguments.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()).filter(|text| !text.contains("{{"));
    match step.description.trim() {
        "" => texts.max_by_key(|text| text.len()).unwrap_or_default().trim().to_owned(),
        description => description.to_owned(),
    }
}

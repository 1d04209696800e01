//! Plans: which calls, in which order, with which success criteria; and the prompt for one.

use graph::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::decide::Complexity;
use crate::input::ModelProfile;
use crate::toolbox::{REGISTRY, Toolbox, references};

/// A plan that can be executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The calls, in order.
    pub steps: Vec<Step>,
    /// The planner's estimate.
    pub estimated_complexity: Complexity,
    /// When the goal is reached.
    #[serde(default)]
    pub success_criteria: Vec<String>,
    /// The tools used.
    #[serde(default)]
    pub required_tools: Vec<String>,
}

/// Steps are numbered from 1; `{{1}}` in an argument is the result of the first one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What the step does.
    #[serde(default)]
    pub description: String,
    /// The tool's full name.
    #[serde(alias = "tool_name")]
    pub tool: String,
    /// Its arguments, with references.
    #[serde(default, alias = "tool_arguments")]
    pub arguments: Value,
}

impl Step {
    /// The call of the step.
    pub fn call(&self) -> ToolCall {
        ToolCall { tool: self.tool.clone(), arguments: self.arguments.clone() }
    }
}

pub(super) const STEPS_MAX: usize = 8;
pub(super) const SMALL_STEPS_MAX: usize = 3;
const CRITERIA_MAX: usize = 5;

/// A plan as a model writes it.
#[derive(Default, Deserialize)]
pub(super) struct Draft {
    #[serde(default)]
    pub(super) steps: Option<Vec<Step>>,
    /// The goal, in one sentence.
    #[serde(default)]
    pub(super) analysis: Option<String>,
    #[serde(default)]
    pub(super) estimated_complexity: Option<Complexity>,
    #[serde(default)]
    pub(super) success_criteria: Option<Vec<String>>,
    /// The answer, as far as it can be written before the steps run; it may refer to their results.
    #[serde(default)]
    pub(super) answer: Option<String>,
    /// A question to the user.
    #[serde(default, alias = "question")]
    pub(super) ask_user: Option<String>,
}

impl Draft {
    pub(super) fn of_steps(steps: Vec<Step>) -> Draft {
        Draft { steps: Some(steps), ..Draft::default() }
    }

    pub(super) fn has_steps(&self) -> bool {
        self.steps.as_ref().is_some_and(|steps| !steps.is_empty())
    }

    /// The query for tools that were not listed.
    pub(super) fn wanted_tools(&self) -> Option<String> {
        let step = self.steps.as_ref()?.iter().find(|step| step.tool == REGISTRY)?;
        non_empty(step.arguments.get("query").and_then(Value::as_str))
    }

    pub(super) fn answer(&self) -> Option<String> {
        non_empty(self.answer.as_deref())
    }

    pub(super) fn question(&self) -> Option<String> {
        non_empty(self.ask_user.as_deref()).filter(|_| !self.has_steps())
    }
}

fn non_empty(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty() && *text != "null").map(str::to_owned)
}

/// What a plan may contain.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) steps_max: usize,
    pub(super) may_ask: bool,
}

pub(super) fn schema(toolbox: &Toolbox, profile: &ModelProfile, form: Form) -> Value {
    let mut more = Map::new();
    if profile.is_small {
        let steps = json!({ "type": "array", "maxItems": form.steps_max, "items": toolbox.call_schema(profile, "tool", "arguments", &more) });
        return json!({ "type": "object", "required": ["steps"], "additionalProperties": false, "properties": { "steps": steps } });
    }
    more.insert("description".into(), json!({ "type": "string" }));
    let mut properties = json!({
        "analysis": { "type": "string" },
        "steps": { "type": "array", "maxItems": form.steps_max, "items": toolbox.call_schema(profile, "tool", "arguments", &more) },
        "estimated_complexity": { "enum": ["simple", "moderate", "complex"] },
        "success_criteria": { "type": "array", "maxItems": CRITERIA_MAX, "items": { "type": "string" } },
        "answer": { "type": ["string", "null"] },
    });
    if form.may_ask {
        properties["ask_user"] = json!({ "type": ["string", "null"] });
    }
    // All of them, because some providers take no schema with optional fields.
    let mut required: Vec<String> = properties.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
    required.sort();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
}

/// The plan, checked so that it can be executed, or all its errors, worded for the planner.
pub(super) fn checked(draft: Draft, toolbox: &Toolbox, guess: Complexity) -> Result<Plan, Vec<String>> {
    let (complexity, criteria) = (draft.estimated_complexity.unwrap_or(guess), draft.success_criteria.clone().unwrap_or_default());
    let is_answered = draft.answer().is_some();
    let Some(wanted) = draft.steps.or(is_answered.then(Vec::new)) else { return Err(vec!["it has no `steps`".to_owned()]) };
    let mut wrong = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for (index, step) in wanted.into_iter().take(STEPS_MAX).enumerate() {
        let number = index + 1;
        let resolved =
            toolbox.resolve(&step.call()).and_then(|call| match references(&call.arguments).iter().find(|one| one.task == 0 || one.task >= number) {
                Some(bad) => Err(format!("it refers to step {}, which is not before it; add a step before it that finds the value", bad.task)),
                None if call.tool == REGISTRY => Err(format!("{REGISTRY} only finds tools, and no more of them can be found")),
                None => Ok(call),
            });
        match resolved {
            Ok(call) => steps.push(Step { description: step.description, tool: call.tool, arguments: call.arguments }),
            Err(why) => wrong.push(format!("step {number}: {why}")),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(of(steps, complexity, criteria))
}

pub(super) fn of(steps: Vec<Step>, estimated_complexity: Complexity, success_criteria: Vec<String>) -> Plan {
    let mut required_tools: Vec<String> = steps.iter().map(|step| step.tool.clone()).collect();
    required_tools.sort();
    required_tools.dedup();
    Plan { steps, estimated_complexity, success_criteria, required_tools }
}

/// One call and nothing else.
pub(super) fn single(call: ToolCall, description: &str) -> Plan {
    of(vec![Step { description: description.to_owned(), tool: call.tool, arguments: call.arguments }], Complexity::Simple, Vec::new())
}

/// Looks up the request itself, when no model plans. Without a lookup tool the plan is empty.
pub(super) fn look_up(question: &str, toolbox: &Toolbox) -> Plan {
    toolbox.look_up(question).map_or_else(nothing, |call| single(call, "Look it up"))
}

pub(super) fn nothing() -> Plan {
    of(Vec::new(), Complexity::Simple, Vec::new())
}

/// Whether every step refers only to earlier steps.
pub(super) fn is_in_order(plan: &Plan) -> bool {
    let refers = |(index, step): (usize, &Step)| references(&step.arguments).iter().all(|one| (1..=index).contains(&one.task));
    plan.steps.iter().enumerate().all(refers)
}

/// A call in an example, with its arguments in the order in which they are shown.
struct Example<'e> {
    tool: &'e str,
    arguments: Vec<(&'e str, Value)>,
}

impl Example<'_> {
    fn call(&self) -> ToolCall {
        let arguments: Map<String, Value> = self.arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        ToolCall { tool: self.tool.to_owned(), arguments: Value::Object(arguments) }
    }

    /// Written by hand: the order of a JSON object depends on serde_json's features, and a prompt must not.
    fn describe(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        format!("{{\"tool\":{},\"arguments\":{{{}}}}}", json!(self.tool), arguments.join(","))
    }
}

/// Example requests with their plans, limited to the available tools, so that a model only sees calls it could make.
pub(super) fn examples(toolbox: &Toolbox, profile: &ModelProfile) -> Vec<Value> {
    let write = |path: &str, content: &str| Example {
        tool: "files.write",
        arguments: vec![("path", json!(path)), ("content", json!(content)), ("mode", json!("create"))],
    };
    let run = |code: &str| Example { tool: "code.run_python", arguments: vec![("code", json!(code))] };
    let look_up = toolbox.look_up("");
    let looked_up = look_up.as_ref().and_then(|call| {
        let argument = call.arguments.as_object()?.keys().next()?;
        Some(Example { tool: &call.tool, arguments: vec![(argument.as_str(), json!("completion year of the Eiffel Tower"))] })
    });
    let mut total = run("rows = [line.split(',') for line in text.splitlines()[1:]]\nprint(sum(float(row[2]) for row in rows))");
    total.arguments.push(("inputs", json!({ "text": "{{1}}" })));
    let read = Example { tool: "files.read", arguments: vec![("path", json!("costs.csv"))] };
    let calculate = |expression: &str| Example { tool: "calc.calculate", arguments: vec![("expression", json!(expression))] };
    let read_draft = Example { tool: "files.read", arguments: vec![("path", json!("draft.md"))] };
    let mut count = run("print(len(text.split()))");
    count.arguments.push(("inputs", json!({ "text": "{{1}}" })));
    let mut all = vec![
        ("How much is 8% of 1250?", vec![calculate("8% of 1250")]),
        ("Add 7 and 5, then halve it", vec![calculate("(7 + 5) / 2")]),
        ("How many words does draft.md have?", vec![read_draft, count]),
        ("Run this code: for i in [5, 6]: print(i)", vec![run("for i in [5, 6]:\n    print(i)")]),
        ("Make a file todo.txt with the text: buy milk", vec![write("todo.txt", "buy milk")]),
        ("Add up column 3 of costs.csv with Python and save the total as total.txt", vec![read, total, write("total.txt", "{{2}}")]),
    ];
    all.extend(looked_up.map(|call| ("When was the Eiffel Tower completed?", vec![call])));
    if !profile.is_small {
        // A large model only needs to see how steps refer to one another.
        all.retain(|(_, steps)| steps.len() > 1);
    }
    all.retain(|(_, steps)| steps.iter().all(|step| toolbox.resolve(&step.call()).is_ok()));
    let plan_json = |steps: &[Example<'_>]| format!("{{\"steps\":[{}]}}", steps.iter().map(Example::describe).collect::<Vec<_>>().join(","));
    all.iter().map(|(request, steps)| json!({ "request": request, "plan": plan_json(steps) })).collect()
}

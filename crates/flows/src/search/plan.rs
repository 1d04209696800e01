//! Plans of `search`, checked against the available tools.
//!
//! ```text
//!   {reasoning, tasks: [{task_number, tool_name, tool_arguments, description}]}
//!       each task: a known tool, valid arguments, references only to earlier tasks ─► pending
//!       otherwise ─► failed with a reason; it is never called
//!   no task left ─► one task: the first read-only tool, with the question (S4)
//! ```

use graph::{Ask, Digest, Request, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::toolbox::{OWN_WORDS, OWN_WORDS_TOKENS_MAX, REGISTRY, Toolbox, references};

/// Further tasks are dropped, with a note.
pub(super) const TASKS_MAX: usize = 20;
const ATTEMPTS_MAX: u32 = 2;
const DEADLINE_MS: u64 = 60_000;

/// One task with its result: a thinking step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its planning iteration, from 1.
    pub iteration: u32,
    /// Its number, from 1.
    pub task_number: usize,
    /// The tool's full name.
    pub tool_name: String,
    /// Its arguments, with references.
    pub tool_arguments: Value,
    /// What it does.
    pub description: String,
    /// Its state.
    pub status: Status,
    /// The tool's whole reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<evidence::Found>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not started.
    Pending,
    /// Being performed.
    Executing,
    /// It has a result.
    Completed,
    /// It has none.
    Failed,
}

/// A plan as a model or a person writes it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Planned {
    #[serde(default)]
    pub(super) reasoning: String,
    pub(super) tasks: Vec<PlannedTask>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlannedTask {
    #[serde(default)]
    task_number: Value,
    #[serde(alias = "tool")]
    tool_name: String,
    #[serde(default, alias = "arguments")]
    tool_arguments: Value,
    #[serde(default)]
    description: String,
}

impl Planned {
    /// The query for tools that were not listed.
    pub(super) fn wanted_tools(&self) -> Option<String> {
        let step = self.tasks.iter().find(|task| task.tool_name == REGISTRY)?;
        step.tool_arguments.get("query").and_then(Value::as_str).map(str::trim).filter(|query| !query.is_empty()).map(str::to_owned)
    }
}

/// The tasks of a plan, the usable ones pending and the others failed.
pub(super) fn tasks(planned: Vec<PlannedTask>, toolbox: &Toolbox, iteration: u32) -> Vec<Task> {
    let numbers: Vec<Option<usize>> = planned.iter().map(|task| number(&task.task_number)).collect();
    let is_numbered = numbers.iter().enumerate().all(|(index, number)| number.is_some() && !numbers[..index].contains(number));
    let mut tasks: Vec<Task> = Vec::new();
    for (index, planned) in planned.into_iter().enumerate() {
        let task_number = numbers[index].filter(|_| is_numbered).unwrap_or(index + 1);
        let call = ToolCall { tool: planned.tool_name, arguments: planned.tool_arguments };
        let checked = toolbox.resolve(&call).and_then(|call| match problem(&call, &tasks) {
            _ if index >= TASKS_MAX => Err(format!("tasks_max = {TASKS_MAX}")),
            Some(why) => Err(why),
            None => Ok(call),
        });
        let (call, status, error) = match checked {
            Ok(call) => (call, Status::Pending, None),
            Err(why) => (call, Status::Failed, Some(format!("not called: {why}"))),
        };
        let description = planned.description.trim().to_owned();
        let (tool_name, tool_arguments) = (call.tool, call.arguments);
        tasks.push(Task { iteration, task_number, tool_name, tool_arguments, description, status, result: None, error });
    }
    tasks
}

/// The plan used when there is none.
pub(super) fn fallback(question: &str, toolbox: &Toolbox, iteration: u32) -> Option<Task> {
    let call = toolbox.fallback(&crate::prompt::clipped(question, OWN_WORDS_TOKENS_MAX))?;
    Some(Task {
        iteration,
        task_number: 1,
        tool_name: call.tool,
        tool_arguments: call.arguments,
        description: OWN_WORDS.to_owned(),
        status: Status::Pending,
        result: None,
        error: None,
    })
}

/// The question in its own words, where a plan searches the documents: a small model's queries often leave out what matters.
pub(super) fn own_words(question: &str, tasks: &[Task], toolbox: &Toolbox) -> Option<Task> {
    let pending: Vec<&Task> = tasks.iter().filter(|task| task.status == Status::Pending).collect();
    let calls: Vec<ToolCall> = pending.iter().map(|task| ToolCall { tool: task.tool_name.clone(), arguments: task.tool_arguments.clone() }).collect();
    let call = toolbox.in_own_words(question, &calls)?;
    let planned = pending.into_iter().find(|task| task.tool_name == call.tool)?;
    let task_number = tasks.iter().map(|task| task.task_number).max().unwrap_or(0) + 1;
    Some(Task { task_number, tool_arguments: call.arguments, description: OWN_WORDS.to_owned(), ..planned.clone() })
}

fn problem(call: &ToolCall, earlier: &[Task]) -> Option<String> {
    if let Some(same) =
        earlier.iter().find(|task| task.status != Status::Failed && task.tool_name == call.tool && task.tool_arguments == call.arguments)
    {
        return Some(format!("it is the same as task {}", same.task_number));
    }
    references(&call.arguments).into_iter().find_map(|reference| match earlier.iter().find(|task| task.task_number == reference.task) {
        None => Some(format!("it refers to task {}, which does not come before it", reference.task)),
        Some(task) if task.status == Status::Failed => Some(format!("it needs task {}, which cannot be called", reference.task)),
        Some(_) => None,
    })
}

fn number(value: &Value) -> Option<usize> {
    let number = value.as_u64().or_else(|| value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64));
    number.or_else(|| value.as_str()?.trim().parse().ok()).and_then(|number| usize::try_from(number).ok())
}

/// All pending tasks at once; a task that refers to another waits for that one only.
pub(super) fn ask(tasks: &[Task], toolbox: &Toolbox) -> Ask {
    let due: Vec<&Task> = tasks.iter().filter(|task| task.status == Status::Executing).collect();
    let mut ask = Ask::nothing();
    for task in &due {
        let label = if task.description.is_empty() { format!("{} {}", task.tool_name, task.tool_arguments) } else { task.description.clone() };
        let request = Request::from(graph::tool(task.tool_name.as_str(), task.tool_arguments.clone()));
        // A call that may change something is tried once: it may have taken effect although it failed.
        let attempts = if toolbox.is_read_only(&task.tool_name) { ATTEMPTS_MAX } else { 1 };
        let request = request.label(label.chars().take(120).collect::<String>()).attempts(attempts).deadline_ms(DEADLINE_MS);
        let holes = references(&task.tool_arguments).into_iter().filter_map(|reference| {
            let from = due.iter().position(|other| other.task_number == reference.task)?;
            Some(reference.hole(from))
        });
        ask.add(holes.fold(request, Request::hole));
    }
    ask
}

/// A hash of the calls and nothing else: an approval is valid for one plan only.
pub(super) fn hash(tasks: &[Task]) -> String {
    let due = tasks.iter().filter(|task| matches!(task.status, Status::Pending | Status::Executing));
    let calls: Vec<Value> = due.map(|task| json!([task.task_number, task.tool_name, task.tool_arguments])).collect();
    Digest::of(&graph::tool("plan", json!(calls))).to_string()
}

/// A plan for people.
pub(super) fn describe_plan(tasks: &[Task]) -> String {
    let line = |task: &Task| {
        let about = if task.description.is_empty() { String::new() } else { format!(": {}", evidence::visible(&task.description)) };
        let error = task.error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        format!("{}. {} {}{about}{error}", task.task_number, task.tool_name, task.tool_arguments)
    };
    tasks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Numbers, names and statuses, for watchers.
pub(super) fn statuses(tasks: &[Task]) -> Value {
    let one = |task: &Task| {
        let mut one = json!({ "task_number": task.task_number, "tool_name": task.tool_name, "status": task.status });
        if let Some(error) = &task.error {
            one["error"] = json!(error);
        }
        one
    };
    tasks.iter().map(one).collect()
}

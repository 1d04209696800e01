//! Executes a plan: independent steps in parallel; a failed step again with adjusted arguments, then with another tool, then not at all.
//!
//! Steps run in waves. A step whose references can all be filled is prepared (values are inserted in the form its tool takes) and called;
//! the others wait for the next wave. A step that may change something waits for all steps before it, later steps wait for it, and after
//! one that failed no further step that may change something runs. A tool that may change something is called again only if it rejected its
//! arguments, because then nothing happened; the same call is not repeated in a later iteration either.

use evidence::{Found, Span, Trust};
use graph::{Ask, Effect, FailureKind, Go, Replies, Request, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plan::Step;
use super::value::{filled, plain};
use super::{Reason, STEP_MS_MAX};
use crate::prompt;
use crate::toolbox::{Reference, Tool, Toolbox, references};

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionResult {
    /// Number of the step, from 1.
    pub step: usize,
    /// Whether it succeeded.
    pub success: bool,
    /// Its output: text, and data if there was any.
    pub output: Option<Value>,
    /// Its error.
    pub error: Option<String>,
    /// Its duration.
    pub execution_time_ms: u64,
    /// The tool called.
    pub tool_used: String,
    /// Number of calls.
    pub attempts: u32,
}

/// A file that the run wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Path in the workspace.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A step during execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StepExecution {
    /// As planned or adjusted, with its references.
    pub(super) call: ToolCall,
    /// With values in place of references; `None` while it waits for another step.
    pub(super) sent: Option<ToolCall>,
    pub(super) tries: u32,
    pub(super) spent_us: u64,
    pub(super) end: Option<Ended>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Well(Value),
    Badly { kind: FailureKind, why: String },
}

/// A call of an earlier iteration that may have changed something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PriorCall {
    pub(super) call: ToolCall,
    pub(super) end: Ended,
}

/// As planned, with adjusted arguments, with another tool.
const TRIES_MAX: u32 = 3;
const OUTPUT_TOKENS_MAX: usize = 400;
/// Tokens of a result or an error in the planner's prompt.
const FIELD_TOKENS_MAX: usize = 120;
/// Files listed in a run's output.
const FILES_MAX: usize = 200;

impl StepExecution {
    pub(super) fn new(step: &Step) -> StepExecution {
        StepExecution { call: step.call(), sent: None, tries: 0, spent_us: 0, end: None }
    }

    pub(super) fn is_well(&self) -> bool {
        matches!(self.end, Some(Ended::Well(_)))
    }

    /// Its reply, if it succeeded.
    pub(super) fn reply(&self) -> Option<&Value> {
        match &self.end {
            Some(Ended::Well(value)) => Some(value),
            Some(Ended::Badly { .. }) | None => None,
        }
    }

    pub(super) fn result(&self, step: usize) -> ExecutionResult {
        let (success, output, error) = match &self.end {
            Some(Ended::Well(value)) => (true, Some(shown(value)), None),
            Some(Ended::Badly { why, .. }) => (false, None, Some(why.clone())),
            None => (false, None, Some("it was not carried out".to_owned())),
        };
        let execution_time_ms = self.spent_us / 1_000;
        ExecutionResult { step, success, output, error, execution_time_ms, tool_used: self.call.tool.clone(), attempts: self.tries }
    }

    /// The planned call, if it would fail again: a tool refused it for what it is, and it depends on no other step.
    pub(super) fn call_that_fails(&self) -> Option<&ToolCall> {
        let is_refused = matches!(self.end, Some(Ended::Badly { kind: FailureKind::Tool | FailureKind::Invalid, .. }));
        (is_refused && references(&self.call.arguments).is_empty()).then_some(&self.call)
    }

    /// The call and its result, in one line for a planner. Tool text is neutralized.
    pub(super) fn describe(&self) -> String {
        let call = self.sent.as_ref().unwrap_or(&self.call);
        let arguments = prompt::clipped(&call.arguments.to_string(), FIELD_TOKENS_MAX);
        let outcome = match &self.end {
            Some(Ended::Well(value)) => super::value::as_text(&plain(value)),
            Some(Ended::Badly { why, .. }) => why.clone(),
            None => "not carried out".to_owned(),
        };
        let outcome = prompt::clipped(&evidence::defused(&outcome).split_whitespace().collect::<Vec<_>>().join(" "), FIELD_TOKENS_MAX);
        format!("{} {arguments}: {outcome}", call.tool)
    }
}

/// The whole text stays in the journal and its passages in the run's evidence; this is a summary.
fn shown(value: &Value) -> Value {
    let text = value.get("text").and_then(Value::as_str).unwrap_or_default();
    json!({ "text": prompt::clipped(text, OUTPUT_TOKENS_MAX), "passages": value.get("spans").and_then(Value::as_array).map_or(0, Vec::len) })
}

/// Unfinished steps, in order.
fn open(s: &Reason) -> Vec<usize> {
    (0..s.doing.len()).filter(|&index| s.doing[index].end.is_none()).collect()
}

/// Steps of the next wave.
fn due(s: &Reason) -> Vec<usize> {
    open(s).into_iter().filter(|&index| s.doing[index].sent.is_some()).collect()
}

/// Fills in the values of every step that has all it needs, and fails those that cannot get them.
pub(super) fn prepare(s: &mut Reason) {
    for index in open(s) {
        if s.doing[index].sent.is_some() {
            continue;
        }
        let needs: Vec<usize> = references(&s.doing[index].call.arguments).into_iter().map(|reference| reference.task).collect();
        let lost = needs.iter().find(|task| s.doing.get(task.wrapping_sub(1)).is_none_or(|of| matches!(of.end, Some(Ended::Badly { .. }))));
        if let Some(task) = lost {
            let why = format!("it needs what step {task} did not find");
            s.doing[index].end = Some(Ended::Badly { kind: FailureKind::Need, why });
            continue;
        }
        let is_act = |of: usize| !s.toolbox.is_read_only(&s.doing[of].call.tool);
        let is_open = |of: usize| s.doing[of].end.is_none();
        if is_act(index)
            && let Some(of) = (0..index).find(|&of| is_act(of) && matches!(s.doing[of].end, Some(Ended::Badly { .. })))
        {
            let why = format!("step {} before it was not done", of + 1);
            s.doing[index].end = Some(Ended::Badly { kind: FailureKind::Need, why });
            continue;
        }
        if (0..index).any(|of| is_open(of) && (is_act(of) || is_act(index))) {
            continue;
        }
        // A step comes after those it needs, so one pass fails every step that depends on a failed one.
        if needs.iter().any(|task| !s.doing[task - 1].is_well()) {
            continue;
        }
        let call = &s.doing[index].call;
        match filled(call, s.toolbox.get(&call.tool), |number| s.doing.get(number.wrapping_sub(1)).and_then(StepExecution::reply)) {
            Ok(call) => match s.acted.iter().find(|acted| acted.call == call) {
                None => s.doing[index].sent = Some(call),
                Some(acted) => {
                    let end = match &acted.end {
                        Ended::Well(value) => Ended::Well(value.clone()),
                        Ended::Badly { kind, why } => {
                            Ended::Badly { kind: *kind, why: format!("it may have happened before and is not repeated: {why}") }
                        }
                    };
                    s.doing[index].end = Some(end);
                }
            },
            Err(why) => s.doing[index].end = Some(Ended::Badly { kind: FailureKind::Reference, why }),
        }
    }
}

/// Records calls that may have changed something before another plan replaces this one.
pub(super) fn remember_acts(s: &mut Reason) {
    for doing in &s.doing {
        let (Some(call), Some(end)) = (&doing.sent, &doing.end) else { continue };
        let may_have_happened = match end {
            Ended::Well(_) => true,
            Ended::Badly { kind, .. } => !matches!(kind, FailureKind::Invalid | FailureKind::Refused | FailureKind::Need | FailureKind::Reference),
        };
        if !s.toolbox.is_read_only(&call.tool) && may_have_happened {
            s.acted.push(PriorCall { call: call.clone(), end: end.clone() });
        }
    }
}

pub(super) fn ask(s: &Reason) -> Ask {
    let request = |index: usize| {
        let call = s.doing[index].sent.clone()?;
        let attempts = if s.toolbox.is_read_only(&call.tool) { 2 } else { 1 };
        let request = Request::from(Effect::CallTool(call)).label(s.label(index)).attempts(attempts).deadline_ms(STEP_MS_MAX);
        // The permission question shows which arguments come from tool output.
        let from = |request: Request, reference: Reference| {
            let by = s.doing.get(reference.task.wrapping_sub(1)).map_or("", |of| of.call.tool.as_str());
            request.filled_from(format!("/arguments{}", reference.at), by)
        };
        Some(references(&s.doing[index].call.arguments).into_iter().fold(request, from))
    };
    Ask { requests: due(s).into_iter().filter_map(request).collect() }
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let (toolbox, question) = (s.toolbox.clone(), s.full_question());
    for (at, index) in due(s).into_iter().enumerate() {
        let took_us = replies.get(at).map_or(0, |reply| reply.took_us);
        let outcome = replies.parse::<Found>(at);
        let doing = &mut s.doing[index];
        let tool = toolbox.get(&doing.call.tool);
        s.has_acted |= !toolbox.is_read_only(&doing.call.tool);
        doing.spent_us = doing.spent_us.saturating_add(took_us);
        doing.tries += 1;
        let (kind, why) = match outcome {
            Ok(found) if !found.text.trim().is_empty() || !found.spans.is_empty() || !found.data.is_null() => {
                let found = with_spans(&doing.call.tool, found);
                let files = files_of(&doing.call.tool, tool, &found.data);
                doing.end = Some(Ended::Well(json!(found)));
                s.keep(found.spans);
                s.list(files);
                continue;
            }
            // A tool that changes something may reply without text.
            Ok(found) if !toolbox.is_read_only(&doing.call.tool) => {
                let text = format!("{} was carried out and returned nothing.", doing.call.tool);
                let found = with_spans(&doing.call.tool, Found { text, ..found });
                doing.end = Some(Ended::Well(json!(found)));
                s.keep(found.spans);
                continue;
            }
            Ok(_) => (FailureKind::Tool, "it found nothing".to_owned()),
            Err(failure) => (failure.kind, failure.to_string()),
        };
        match next_attempt(doing, kind, tool, &toolbox, &question) {
            Some(call) => (doing.call, doing.sent) = (call, None),
            None => doing.end = Some(Ended::Badly { kind, why }),
        }
    }
    prepare(s);
    if due(s).is_empty() {
        s.results = s.doing.iter().enumerate().map(|(index, doing)| doing.result(index + 1)).collect();
        return Go::to("reflect").note("results", json!(s.results));
    }
    Go::to("execute")
}

/// A reply without passages is evidence too: its text, or else its data.
fn with_spans(tool: &str, found: Found) -> Found {
    if !found.spans.is_empty() {
        return found;
    }
    let data = Some(&found.data).filter(|data| !data.is_null());
    let spans: Vec<Span> = evidence::found(tool, Trust::Untrusted, &found.text, data).spans;
    Found { spans, ..found }
}

/// Files written by a call, as reported in its reply: `{path, bytes}`, or `files: [{path, bytes}]`.
fn files_of(name: &str, tool: Option<&Tool>, data: &Value) -> Vec<WrittenFile> {
    // A read-only tool may list files that existed before; code lists only those it wrote.
    if tool.is_none_or(|tool| tool.read_only) && name != "code.run_python" {
        return Vec::new();
    }
    let file = |value: &Value| {
        let path = value.get("path")?.as_str().filter(|path| !path.is_empty())?;
        Some(WrittenFile { path: path.to_owned(), bytes: value.get("bytes")?.as_u64()? })
    };
    let listed = data.get("files").and_then(Value::as_array).into_iter().flatten().filter_map(file);
    file(data).into_iter().chain(listed).take(FILES_MAX).collect()
}

impl Reason {
    /// A file that is written again is listed once, with its current size.
    fn list(&mut self, files: Vec<WrittenFile>) {
        for file in files {
            self.files.retain(|known| known.path != file.path);
            if self.files.len() < FILES_MAX {
                self.files.push(file);
            }
        }
    }
}

/// The next call to try, if any.
fn next_attempt(doing: &StepExecution, kind: FailureKind, tool: Option<&Tool>, toolbox: &Toolbox, question: &str) -> Option<ToolCall> {
    let is_read_only = toolbox.is_read_only(&doing.call.tool);
    let may_pass = match kind {
        FailureKind::Network | FailureKind::Timeout | FailureKind::Tool | FailureKind::Refused => is_read_only,
        FailureKind::Invalid | FailureKind::Reference => true,
        FailureKind::Limit | FailureKind::Budget | FailureKind::Need | FailureKind::InDoubt | FailureKind::Cancelled | FailureKind::Internal => false,
    };
    if !may_pass || doing.tries >= TRIES_MAX {
        return None;
    }
    if doing.tries == 1
        && kind != FailureKind::Refused
        && let Some(call) =
            tool.and_then(|tool| adjusted(tool, &doing.call)).and_then(|call| toolbox.resolve(&call).ok()).filter(|call| *call != doing.call)
    {
        return Some(call);
    }
    // Another tool can repeat a lookup. Failed code or arithmetic is left to the planner.
    if !tool.is_some_and(Tool::is_look_up) {
        return None;
    }
    let others = Toolbox { tools: toolbox.tools.iter().filter(|tool| tool.name != doing.call.tool).cloned().collect() };
    let text = doing.call.arguments.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()).filter(|text| !text.contains("{{"));
    others.look_up(text.max_by_key(|text| text.len()).unwrap_or(question))
}

/// The same call with arguments that are more likely to work: only those the tool has, converted to its types, and queries reduced to their
/// significant words.
fn adjusted(tool: &Tool, call: &ToolCall) -> Option<ToolCall> {
    let properties = tool.schema.get("properties").and_then(Value::as_object);
    let mut arguments = call.arguments.as_object()?.clone();
    if let Some(properties) = properties {
        arguments.retain(|name, _| properties.contains_key(name));
        for (name, value) in &mut arguments {
            let kind = properties[name].get("type").and_then(Value::as_str).unwrap_or_default();
            match (kind, &*value) {
                ("integer" | "number", Value::String(text)) if text.trim().parse::<f64>().is_ok() => {
                    *value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
                }
                ("string", Value::Number(number)) => *value = json!(number.to_string()),
                ("string", Value::String(text)) if tool.is_look_up() && tool.text_argument() == Some(name.as_str()) && !text.contains("{{") => {
                    *value = json!(search_terms(text));
                }
                _ => {}
            }
        }
    }
    Some(ToolCall { tool: call.tool.clone(), arguments: Value::Object(arguments) })
}

/// A query without quotes, punctuation and stop words finds more.
fn search_terms(text: &str) -> String {
    const SMALL: [&str; 32] = [
        "a", "an", "the", "is", "are", "was", "were", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and", "or", "it", "that", "this",
        "what", "which", "who", "when", "where", "how", "does", "do", "did", "find", "about",
    ];
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '.')).map(|word| word.trim_matches(['-', '.']));
    let content_words: Vec<&str> = words.filter(|word| !word.is_empty() && !SMALL.contains(&word.to_lowercase().as_str())).collect();
    if content_words.is_empty() { text.to_owned() } else { content_words.join(" ") }
}

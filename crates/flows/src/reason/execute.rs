//! Carries out a plan: what does not depend on one another side by side, what failed again with other arguments, then in another way, then not.
//!
//! A tool that changes something is called again only when it refused its arguments, because then nothing happened.

use evidence::Found;
use graph::{Ask, Effect, FailureKind, Go, Replies, Request, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plan::Step;
use super::{Reason, STEP_MS_MAX};
use crate::prompt;
use crate::toolbox::{Tool, Toolbox, references};

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionResult {
    pub step: usize,
    pub success: bool,
    /// What it said: text, and data if there was any.
    pub output: Option<Value>,
    pub error: Option<String>,
    pub execution_time_ms: u64,
    pub tool_used: String,
    pub attempts: u32,
}

/// A step while the plan is carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Doing {
    pub(super) call: ToolCall,
    pub(super) tries: u32,
    pub(super) spent_us: u64,
    pub(super) end: Option<Ended>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Well(Value),
    Badly(String),
}

/// As planned, with other arguments, another way.
const TRIES_MAX: u32 = 3;
const OUTPUT_TOKENS_MAX: usize = 400;

impl Doing {
    pub(super) fn new(step: &Step) -> Doing {
        let end = step.tool.is_empty().then(|| Ended::Badly("no tool can do it".to_owned()));
        Doing { call: step.call(), tries: 0, spent_us: 0, end }
    }

    pub(super) fn is_well(&self) -> bool {
        matches!(self.end, Some(Ended::Well(_)))
    }

    pub(super) fn result(&self, step: usize) -> ExecutionResult {
        let (success, output, error) = match &self.end {
            Some(Ended::Well(value)) => (true, Some(shown(value)), None),
            Some(Ended::Badly(why)) => (false, None, Some(why.clone())),
            None => (false, None, Some("it was not carried out".to_owned())),
        };
        let execution_time_ms = self.spent_us / 1_000;
        ExecutionResult { step, success, output, error, execution_time_ms, tool_used: self.call.tool.clone(), attempts: self.tries }
    }
}

/// The whole text stays in the journal and its passages in the run's evidence; here is enough to see what it was.
fn shown(value: &Value) -> Value {
    let text = value.get("text").and_then(Value::as_str).unwrap_or_default();
    json!({ "text": prompt::clipped(text, OUTPUT_TOKENS_MAX), "passages": value.get("spans").and_then(Value::as_array).map_or(0, Vec::len) })
}

/// Steps without an end whose needs can still be met, in order.
fn open(s: &Reason) -> Vec<usize> {
    (0..s.doing.len()).filter(|&index| s.doing[index].end.is_none()).collect()
}

pub(super) fn ask(s: &Reason) -> Ask {
    let open = open(s);
    let request = |&index: &usize| {
        let doing = &s.doing[index];
        let mut call = doing.call.clone();
        let mut holes = Vec::new();
        // From the back, so that places before stay where they are.
        for reference in references(&doing.call.arguments).into_iter().rev() {
            // A plan is only carried out if every reference is to a step before (`plan::checked`, `plan::is_in_order`).
            let of = reference.task.saturating_sub(1);
            match &s.doing[of].end {
                // It was carried out in an earlier turn: its words are here.
                Some(Ended::Well(value)) => put(&mut call.arguments, &reference.at, reference.within.clone(), value.pointer(&reference.part)),
                Some(Ended::Badly(_)) => {}
                None => holes.extend(open.iter().position(|&other| other == of).map(|from| reference.hole(from))),
            }
        }
        let is_harmless = s.toolbox.get(&call.tool).is_some_and(|tool| tool.read_only);
        let request = Request::from(Effect::CallTool(call)).label(s.label(index)).attempts(if is_harmless { 2 } else { 1 }).deadline_ms(STEP_MS_MAX);
        holes.into_iter().fold(request, Request::hole)
    };
    Ask { requests: open.iter().map(request).collect() }
}

fn put(arguments: &mut Value, at: &str, within: Option<std::ops::Range<usize>>, part: Option<&Value>) {
    let Some(part) = part else { return };
    match (arguments.pointer_mut(at), within) {
        (Some(place), None) => *place = part.clone(),
        (Some(Value::String(text)), Some(range)) if text.get(range.clone()).is_some() => {
            text.replace_range(range, &part.as_str().map_or_else(|| part.to_string(), str::to_owned));
        }
        _ => {}
    }
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let (toolbox, question) = (s.toolbox.clone(), s.asked());
    for (at, index) in open(s).into_iter().enumerate() {
        let took_us = replies.get(at).map_or(0, |reply| reply.took_us);
        let came = replies.parse::<Found>(at);
        let doing = &mut s.doing[index];
        s.has_acted |= !toolbox.get(&doing.call.tool).is_some_and(|tool| tool.read_only && !tool.destructive);
        doing.spent_us = doing.spent_us.saturating_add(took_us);
        let tool = toolbox.get(&doing.call.tool);
        let (kind, why) = match came {
            Ok(found) if !found.text.trim().is_empty() || !found.spans.is_empty() || !found.data.is_null() => {
                doing.tries += 1;
                doing.end = Some(Ended::Well(json!(found)));
                s.keep(found.spans);
                continue;
            }
            Ok(_) => (FailureKind::Tool, "it found nothing".to_owned()),
            // Not carried out; it waits for the one it needs, which is tried again or has ended.
            Err(failure) if failure.kind == FailureKind::Need => continue,
            Err(failure) => (failure.kind, failure.to_string()),
        };
        doing.tries += 1;
        match again(doing, kind, tool, &toolbox, &question) {
            Some(call) => doing.call = call,
            None => doing.end = Some(Ended::Badly(why)),
        }
    }
    // What needs something that has failed for good cannot be done.
    loop {
        let is_lost = |doing: &Doing| {
            let needs = references(&doing.call.arguments);
            needs
                .iter()
                .find(|one| s.doing.get(one.task.wrapping_sub(1)).is_none_or(|of| matches!(of.end, Some(Ended::Badly(_)))))
                .map(|one| one.task)
        };
        let lost = s.doing.iter().enumerate().filter(|(_, doing)| doing.end.is_none()).find_map(|(index, doing)| Some((index, is_lost(doing)?)));
        let Some((index, of)) = lost else { break };
        s.doing[index].end = Some(Ended::Badly(format!("it needs what step {of} did not find")));
    }
    if open(s).is_empty() {
        let results: Vec<ExecutionResult> = s.doing.iter().enumerate().map(|(index, doing)| doing.result(index + 1)).collect();
        s.results = results;
        return Go::to("reflect").note("results", json!(s.results));
    }
    Go::to("execute").note("retrying", json!(open(s).iter().map(|index| index + 1).collect::<Vec<_>>()))
}

/// The next thing to try, or nothing.
fn again(doing: &Doing, kind: FailureKind, tool: Option<&Tool>, toolbox: &Toolbox, question: &str) -> Option<ToolCall> {
    let is_harmless = tool.is_some_and(|tool| tool.read_only);
    let may_pass = match kind {
        FailureKind::Network | FailureKind::Timeout | FailureKind::Tool => is_harmless,
        FailureKind::Invalid | FailureKind::Reference => true,
        FailureKind::Refused => is_harmless,
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
    if !is_harmless {
        return None;
    }
    let others = Toolbox { tools: toolbox.tools.iter().filter(|tool| tool.name != doing.call.tool).cloned().collect() };
    let text = doing.call.arguments.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()).filter(|text| !text.contains("{{"));
    others.fallback(text.max_by_key(|text| text.len()).unwrap_or(question))
}

/// The same call with arguments that are more likely to do: only those the tool has, of its types, and texts down to their telling words.
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
                ("string", Value::String(text)) if tool.text_argument() == Some(name.as_str()) && !text.contains("{{") => {
                    *value = json!(telling(text));
                }
                _ => {}
            }
        }
    }
    Some(ToolCall { tool: call.tool.clone(), arguments: Value::Object(arguments) })
}

/// A query without quotes, marks and small words finds more.
fn telling(text: &str) -> String {
    const SMALL: [&str; 32] = [
        "a", "an", "the", "is", "are", "was", "were", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and", "or", "it", "that", "this",
        "what", "which", "who", "when", "where", "how", "does", "do", "did", "find", "about",
    ];
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '.')).map(|word| word.trim_matches(['-', '.']));
    let telling: Vec<&str> = words.filter(|word| !word.is_empty() && !SMALL.contains(&word.to_lowercase().as_str())).collect();
    if telling.is_empty() { text.to_owned() } else { telling.join(" ") }
}

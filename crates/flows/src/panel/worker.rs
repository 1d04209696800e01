//! The researcher and the expert: the same loop of reasoning and tool calls.
//!
//! ```text
//!            ┌───────────────────────┐
//!            ▼                       │
//!   start ► think ──── calls ────► act          at most `tool_calls_max` calls, in parallel where a turn has several
//!            │ enough, or no tools   │ that was the last
//!            ▼                       ▼
//!          write ◄───────────────────┘ ► end
//! ```
//!
//! They are separate flows called as agents, not cycles inside `panel`: with `parallel_research` several loops run at the same time, each
//! at its own pace, which one graph could only interleave by hand; each has its own journal and its share of the budget and can crash
//! alone; and other flows can call them. Their memory is part of input and output, so that a rejected researcher continues where it was.
//!
//! Every tool is offered, labelled as read-only or not; the host's permission check decides whether one that may change something runs.
//! Such a call is made once. A failure is part of the output, so that the panel gets its kind.

use evidence::{Found, Span};
use graph::{Ask, END, Effect, Failure, FailureKind, Go, Graph, GraphError, Message, Replies, Request, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::state::{AgentMessage, Kind, TOOL_CALLS_MAX};
use crate::answer;
use crate::descriptor::{Descriptor, InputKind, Visibility};
use crate::input::ModelProfile;
use crate::prompt::{self, Prompt};
use crate::toolbox::{Tool, Toolbox};

/// Descriptor of this flow.
pub const RESEARCHER_FLOW: Descriptor = Descriptor {
    title: "Panel researcher",
    visibility: Visibility::Internal,
    input: InputKind::Own(|question| question.input()),
    ..Descriptor::new(RESEARCHER, |_| researcher())
};

/// Builds the researcher's graph.
pub fn researcher() -> Result<Graph, GraphError> {
    flow(RESEARCHER, Role::Researcher)
}

/// Descriptor of this flow.
pub const EXPERT_FLOW: Descriptor = Descriptor {
    title: "Panel expert",
    visibility: Visibility::Internal,
    input: InputKind::Own(|question| question.input()),
    ..Descriptor::new(EXPERT, |_| expert())
};

/// Builds the expert's graph.
pub fn expert() -> Result<Graph, GraphError> {
    flow(EXPERT, Role::Expert)
}

/// The name of the researcher's flow, for flows that call it.
pub const RESEARCHER: &str = "panel_researcher";
pub(super) const EXPERT: &str = "panel_expert";

fn flow(name: &str, role: Role) -> Result<Graph, GraphError> {
    Graph::of::<Worker>(name)
        .node("think", (ask_think, fold_think), &["act", "write"])
        .node("act", (ask_act, fold_act), &["think", "write"])
        .node("write", (ask_write, fold_write), &[END])
        .input(move |task: Task| Worker { role, task, planned: Vec::new(), used: 0, outcome: Outcome::Open })
        .output(output)
        .build()
}

const THINK: Prompt = Prompt { long: include_str!("think.md"), short: include_str!("think.small.md") };
const RESEARCH: Prompt = Prompt { long: include_str!("research.md"), short: include_str!("research.small.md") };
const ANSWER: Prompt = Prompt { long: include_str!("expert.md"), short: include_str!("expert.small.md") };

const THINK_TOKENS_MAX: u32 = 700;
const WRITE_TOKENS_MAX: u32 = 1_024;
const SMALL_WRITE_TOKENS_MAX: u32 = 320;
const CALLS_PER_TURN_MAX: usize = 3;
const CALL_MS_MAX: u64 = 60_000;
const CALL_ATTEMPTS_MAX: u32 = 2;
/// Limit on the spans in a memory: it is part of inputs and outputs, which have a size limit.
const SPANS_BYTES_MAX: usize = 256 << 10;
const CALL_WORDS_TOKENS_MAX: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    Researcher,
    Expert,
}

/// Input of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) question: String,
    /// The research step, or the expert's steps.
    pub(super) steps: Vec<String>,
    /// Messages between the orchestrator and the worker about this task.
    #[serde(default)]
    pub(super) messages: Vec<AgentMessage>,
    /// Research results, for the expert.
    #[serde(default)]
    pub(super) results: Vec<String>,
    /// The passages of those results.
    #[serde(default)]
    pub(super) spans: Vec<Span>,
    #[serde(default)]
    pub(super) model: ModelProfile,
    #[serde(default)]
    pub(super) tools: Vec<Tool>,
    #[serde(default = "four")]
    pub(super) tool_calls_max: u32,
    #[serde(default)]
    pub(super) memory: Memory,
}

fn four() -> u32 {
    4
}

/// A worker's memory of its task between attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Memory {
    pub(super) calls: Vec<ToolCallRecord>,
    pub(super) spans: Vec<Span>,
    /// The last result.
    pub(super) result: String,
    /// Number of attempts.
    pub(super) attempts: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolCallRecord {
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// The start of the reply, or the error.
    #[serde(rename = "came")]
    pub(super) result: Result<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Worker {
    role: Role,
    task: Task,
    planned: Vec<ToolCall>,
    /// Calls made in this attempt.
    used: u32,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Open,
    Result { result: String, reasoning: String },
    Failed(Failure),
}

/// Output of a worker, as the panel reads it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkerResult {
    #[serde(default)]
    pub(super) result: String,
    #[serde(default)]
    pub(super) reasoning: String,
    #[serde(default)]
    pub(super) memory: Memory,
    #[serde(default)]
    pub(super) error: Option<Failure>,
}

fn output(s: &Worker) -> Value {
    let memory = s.task.memory.clone();
    let handed = match &s.outcome {
        Outcome::Result { result, reasoning } => WorkerResult { result: result.clone(), reasoning: reasoning.clone(), memory, error: None },
        Outcome::Failed(failure) => WorkerResult { result: String::new(), reasoning: String::new(), memory, error: Some(failure.clone()) },
        Outcome::Open => {
            let failure = Failure::new(FailureKind::Internal, "it ended before it was done");
            WorkerResult { result: String::new(), reasoning: String::new(), memory, error: Some(failure) }
        }
    };
    json!(handed)
}

impl Worker {
    fn toolbox(&self) -> Toolbox {
        Toolbox { tools: self.task.tools.clone() }
    }

    fn calls_left(&self) -> usize {
        self.task.tool_calls_max.min(TOOL_CALLS_MAX).saturating_sub(self.used) as usize
    }

    fn all_spans(&self) -> Vec<Span> {
        let mut spans = self.task.spans.clone();
        spans.extend(self.task.memory.spans.iter().filter(|span| !self.task.spans.iter().any(|known| answer::is_same(known, span))).cloned());
        spans
    }

    /// Feedback of the critic, oldest first: every instruction after the first.
    fn feedback(&self) -> Vec<&str> {
        let instructions = self.task.messages.iter().filter(|message| message.kind == Kind::Instruction).map(|message| message.content.as_str());
        instructions.skip(1).collect()
    }

    fn goal(&self) -> String {
        self.task.steps.join("\n")
    }

    /// System prompt, the evidence that fits, and the task, last and alone.
    fn messages(&self, template: &Prompt, tokens_max: u32) -> (Vec<Message>, Vec<Span>) {
        let calls: Vec<String> = self.task.memory.calls.iter().map(describe_call).collect();
        let profile = &self.task.model;
        let tools = self.toolbox().describe(profile);
        let text = prompt::render(
            template.of(profile),
            json!({
                "is_expert": self.role == Role::Expert,
                "question": prompt::clipped(&self.task.question, profile.question_tokens()),
                "feedback": self.feedback(),
                "last": prompt::clipped(&self.task.memory.result, profile.history_tokens()),
                "results": self.task.results.iter().map(|one| prompt::clipped(one, profile.history_tokens())).collect::<Vec<_>>(),
                "calls": calls,
                "tools": tools,
                "calls_left": self.calls_left().min(CALLS_PER_TURN_MAX),
            }),
        );
        let mut messages = vec![prompt::system(text)];
        let goal = prompt::user(self.goal());
        let used = prompt::tokens_of(&messages) + prompt::tokens_of(std::slice::from_ref(&goal));
        let about = format!("{}\n{}", self.task.question, goal.content);
        let (evidence, shown) = answer::show(&self.all_spans(), &about, profile.evidence_tokens(used, tokens_max));
        messages.extend(evidence);
        messages.push(goal);
        (messages, shown)
    }
}

fn describe_call(made: &ToolCallRecord) -> String {
    match &made.result {
        Ok(words) => format!("{} {}: {words}", made.tool, made.arguments),
        Err(why) => format!("{} {} failed: {why}", made.tool, made.arguments),
    }
}

/// Requests the next tool calls. Without tools, or with none left, no model is called.
fn ask_think(s: &Worker) -> Ask {
    let toolbox = s.toolbox();
    if toolbox.tools.is_empty() || s.calls_left() == 0 {
        return Ask::nothing();
    }
    let profile = &s.task.model;
    let calls_max = if profile.is_small { 1 } else { s.calls_left().min(CALLS_PER_TURN_MAX) };
    let schema = json!({
        "type": "object",
        "required": ["calls"],
        "additionalProperties": false,
        "properties": {
            "calls": { "type": "array", "maxItems": calls_max, "items": toolbox.call_schema(profile, "tool", "arguments", &Map::new()) },
        },
    });
    let (messages, _) = s.messages(&THINK, THINK_TOKENS_MAX);
    Ask::one(prompt::call("tools", messages, Some(schema), THINK_TOKENS_MAX).label("choosing tools"))
}

fn fold_think(s: &mut Worker, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct CallPlan {
        calls: Vec<ToolCall>,
    }
    if replies.is_empty() {
        return Go::to("write");
    }
    let toolbox = s.toolbox();
    let (wanted, trouble) = match prompt::read::<CallPlan>(replies, 0) {
        Ok(thought) => (thought.calls, None),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    s.planned.clear();
    for call in wanted {
        match toolbox.resolve(&call) {
            Ok(call) => {
                // A call that may change something is not repeated after a failure either: it may have taken effect.
                let is_once = !toolbox.is_read_only(&call.tool);
                let is_made = |made: &ToolCallRecord| (made.result.is_ok() || is_once) && made.tool == call.tool && made.arguments == call.arguments;
                let is_known = s.planned.contains(&call) || s.task.memory.calls.iter().any(is_made);
                if !is_known && s.planned.len() < s.calls_left().min(CALLS_PER_TURN_MAX) {
                    s.planned.push(call);
                }
            }
            Err(why) => s.task.memory.calls.push(ToolCallRecord { tool: call.tool, arguments: call.arguments, result: Err(why) }),
        }
    }
    // A researcher must make at least one lookup.
    let has_looked = s.task.memory.calls.iter().any(|made| made.result.is_ok());
    if s.planned.is_empty() && s.role == Role::Researcher && !has_looked && s.used == 0 {
        s.planned.extend(toolbox.fallback(&s.goal()));
    }
    // A step of a small model's plan often leaves out what the question is about, and so does the search for it.
    if s.task.model.is_small
        && s.role == Role::Researcher
        && let Some(call) = toolbox.in_own_words(&s.task.question, &s.planned)
        && s.planned.len() < s.calls_left()
        && !s.task.memory.calls.iter().any(|made| made.tool == call.tool && made.arguments == call.arguments)
    {
        s.planned.push(call);
    }
    let go = if s.planned.is_empty() { Go::to("write") } else { Go::to("act") };
    match trouble {
        Some(why) => go.note("tools_unchosen", why),
        None => go,
    }
}

fn ask_act(s: &Worker) -> Ask {
    let toolbox = s.toolbox();
    let request = |call: &ToolCall| {
        let attempts = if toolbox.is_read_only(&call.tool) { CALL_ATTEMPTS_MAX } else { 1 };
        Request::from(Effect::CallTool(call.clone())).label(call.tool.as_str()).attempts(attempts).deadline_ms(CALL_MS_MAX)
    };
    Ask { requests: s.planned.iter().map(request).collect() }
}

fn fold_act(s: &mut Worker, replies: &Replies<'_>) -> Go {
    let planned = std::mem::take(&mut s.planned);
    let mut noted = Vec::new();
    for (index, ToolCall { tool, arguments }) in planned.into_iter().enumerate() {
        s.used += 1;
        let result = match replies.parse::<Found>(index) {
            Ok(mut found) => {
                answer::label(&mut found.spans, &tool, &arguments);
                let words = prompt::clipped(&evidence::defused(&found.text), CALL_WORDS_TOKENS_MAX);
                let words = format!("{} passages. {words}", found.spans.len());
                s.task.memory.keep(found.spans);
                Ok(words)
            }
            Err(failure) => Err(failure.to_string()),
        };
        noted.push(json!({ "tool": tool, "ok": result.is_ok() }));
        s.task.memory.calls.push(ToolCallRecord { tool, arguments, result });
    }
    let is_enough = s.calls_left() == 0 || (s.task.model.is_small && s.task.memory.calls.last().is_some_and(|made| made.result.is_ok()));
    Go::to(if is_enough { "write" } else { "think" }).note("tools_used", noted)
}

impl Memory {
    /// Adds new passages; the newest are kept when there is no room for all.
    fn keep(&mut self, spans: Vec<Span>) {
        for span in spans {
            if !self.spans.iter().any(|known| answer::is_same(known, &span)) {
                self.spans.push(span);
            }
        }
        let mut bytes: usize = self.spans.iter().map(|span| span.text.len()).sum();
        while bytes > SPANS_BYTES_MAX && self.spans.len() > 1 {
            bytes -= self.spans.remove(0).text.len();
        }
    }
}

fn ask_write(s: &Worker) -> Ask {
    let tokens_max = if s.task.model.is_small { SMALL_WRITE_TOKENS_MAX } else { WRITE_TOKENS_MAX };
    let request = match s.role {
        Role::Researcher => {
            let (messages, _) = s.messages(&RESEARCH, tokens_max);
            prompt::call("research", messages, None, tokens_max).label("writing the findings")
        }
        Role::Expert => {
            let (messages, _) = s.messages(&ANSWER, tokens_max);
            let schema = json!({
                "type": "object",
                "required": ["expert_answer", "expert_reasoning"],
                "additionalProperties": false,
                "properties": {
                    "expert_answer": { "type": "string", "minLength": 1, "maxLength": if s.task.model.is_small { 700 } else { 3_000 } },
                    "expert_reasoning": { "type": "string", "maxLength": if s.task.model.is_small { 300 } else { 1_500 } },
                },
            });
            prompt::call("expert", messages, Some(schema), tokens_max).label("working out the answer")
        }
    };
    Ask::one(request)
}

fn fold_write(s: &mut Worker, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Written {
        expert_answer: String,
        #[serde(default)]
        expert_reasoning: String,
    }
    let written = match s.role {
        Role::Researcher => replies.value(0).map(|value| (prompt::text_of(value).unwrap_or_default(), String::new())),
        // A reply in another form than requested is still an answer; the critic reviews it.
        Role::Expert => prompt::read::<Written>(replies, 0)
            .map(|written| (written.expert_answer, written.expert_reasoning))
            .or_else(|failure| Ok((failure.output.as_deref().and_then(prompt::prose).ok_or(failure)?, String::new()))),
    };
    s.outcome = match written {
        // Passage numbers are only valid next to the passages; the panel's final answer has its own.
        Ok((result, reasoning)) => match uncited(&result) {
            result if result.is_empty() => Outcome::Failed(Failure::new(FailureKind::Invalid, "it handed in nothing")),
            result => Outcome::Result { result, reasoning: uncited(&reasoning) },
        },
        Err(failure) => Outcome::Failed(failure),
    };
    s.task.memory.attempts += 1;
    if let Outcome::Result { result, .. } = &s.outcome {
        s.task.memory.result = result.clone();
    }
    Go::end()
}

/// The text without `[n]`.
pub(crate) fn uncited(text: &str) -> String {
    let mut clean = text.to_owned();
    for citation in evidence::citations(text).into_iter().rev() {
        clean.replace_range(citation.range, "");
    }
    clean.replace(" .", ".").replace(" ,", ",").trim().to_owned()
}

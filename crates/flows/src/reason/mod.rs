//! Carries out requests that need more than an answer: think, plan, execute, reflect, respond.
//!
//! ```text
//!                                                                                                  look_further, once, with a small model
//!                                                                                                     ▲ │
//!   decide ── direct ───────────────────────────────────────────────────────────────────────────► respond ► end
//!     │ agentic, by rules                                                                          ▲ │  │ no model
//!     ▼            ┌───────────────── not reached yet, at most `max_iterations` times ───────────┬─┼─┘  ▼
//!   iterate ► think ► plan ──► approve_plan ──► execute ⟲ ──► reflect ────────────────────────────┴─┘    direct ► end
//!                     │  ▲      (if asked)        │ in waves; again with other arguments, then another tool
//!                     ▼  │
//!          find_tools, clarify, or the plan again with its errors
//! ```
//!
//! `think` lists the tools; the planning call also states the goal, so that thinking costs no call of its own. A request skips that call only if it names
//! its tool and arguments ([`certain`]), or if a similar one was planned before ([`memory`]). Everything else is planned by the model with every tool.
//!
//! An unusable plan is requested again with its errors, then as one step, then the request is answered directly. Each phase, an iteration and the whole
//! run have a time limit ([`Limits`]); a phase without time left fails, and the following ones work with less.
//!
//! The planner may also draft the answer, with references to results. The draft counts only if the results support every sentence ([`conclude`]), and
//! then a plan takes one model call in all; otherwise a plan of one step takes two, the second of which also judges whether that was enough. Plans of
//! more steps are reflected on by a separate call.
//!
//! Notes of similar requests ([`memory`]) are part of the input, and new ones are kept when the run succeeds. Nothing is kept of a run that may have
//! changed anything.

mod approve;
mod certain;
mod clarify;
mod conclude;
mod decide;
mod execute;
mod find_tools;
mod further;
mod limits;
mod memory;
mod plan;
mod plan_node;
mod reflect;
mod respond;
mod value;

#[cfg(test)]
mod tests;

use evidence::Span;
use graph::{Ask, END, Go, Graph, GraphError, Message, Replies, ToolCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::descriptor::{Descriptor, Needs, PlanNote, Routing};
use crate::direct::ANSWER;
use crate::input::{Approve, Input, ModelProfile};
use crate::prompt;
use crate::settings::SettingsType;
use crate::toolbox::{self, PlanPurpose, Toolbox};
use crate::verify::{CheckOptions, Unchecked, Verify};

pub use decide::{AnswerMode, Complexity, Facts, ToolFit, Why, complexity, decide};
pub use execute::{ExecutionResult, WrittenFile};
pub use limits::{Depth, Limits};
pub use memory::{Key, Kind, RequestNote, key, recall, similarity};
pub use plan::{Plan, Step};
pub use reflect::ReflectionResult;

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Step by step",
    description: "Plans several steps, checks their results, and answers",
    routing: Some(Routing {
        purpose: "do something with tools: files, code, calculations, tickets, calendars, devices, databases; or a problem of several steps",
        examples: &["Put the word ready into state.txt", "How much is 31 * 17?"],
        needs: Needs::Tools,
        substitutes: &["search", "direct", "chat"],
        may_be_replaced: true,
    }),
    approvals: &["approve_plan"],
    plan: Some(PlanNote { note: "plan", lists: &["steps"] }),
    answer: Some(ANSWER),
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("reason", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    let limits = Limits::default();
    let iteration = ["iterate", "think", "plan", "find_tools", "clarify", "approve_plan", "execute", "reflect"];
    let work: Vec<&str> = [&["decide"], &iteration[..]].concat();
    let run: Vec<&str> = [&work[..], &["respond", "look_further", "direct", "check"]].concat();
    Graph::of::<Reason>("reason")
        .node("decide", (ask_decide, fold_decide), &["iterate", "respond"])
        .node("iterate", (|_: &Reason| Ask::nothing(), fold_iterate), &["think", "plan"])
        .node("think", (ask_think, fold_think), &["plan"])
        .node("plan", (plan_node::ask, plan_node::fold), &["plan", "find_tools", "clarify", "approve_plan", "execute", "reflect", "respond"])
        .node("find_tools", (find_tools::ask, find_tools::fold), &["plan"])
        .node("clarify", (clarify::ask, clarify::fold), &["plan"])
        .node("approve_plan", (approve::ask, approve::fold), &["plan", "execute", END])
        .node("execute", (execute::ask, execute::fold), &["execute", "reflect"])
        .node("reflect", (reflect::ask, reflect::fold), &["iterate", "respond"])
        .node("respond", (respond::ask, respond::fold), &["iterate", "look_further", "direct", "check", END])
        .node("look_further", (further::ask, further::fold), &["respond", "check", END])
        .node("direct", (respond::ask_direct, respond::fold_direct), &["check", END])
        .node("check", (respond::ask_check, respond::fold_check), &["check", END])
        .phase("think", limits.think_ms, &["think"])
        .phase("plan", limits.plan_ms, &["plan"])
        .phase("reflect", limits.reflect_ms, &["reflect"])
        // Time waiting for the person is not counted; the steps themselves are.
        .phase("iteration", limits.iteration_ms, &iteration)
        .phase("work", limits.work_ms(), &work)
        .phase("run", limits.run_ms, &run)
        .phase_limit_ms(|s, phase| Limits::of(&s.settings, &s.model).phase_ms(phase))
        .input(begin)
        .output(output)
        .recall(memory::given)
        .keep(memory::kept)
        .build()
}

const STEP_MS_MAX: u64 = 30_000;
const TURNS_MAX: usize = 5;
/// Limit on the passages that a run keeps.
const SPANS_BYTES_MAX: usize = 1 << 20;

/// User settings of this flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Answer at once (direct) or by planning (agentic); if not set, rules decide by the request.
    pub way: Option<AnswerMode>,
    /// Effort: `quick` (directly unless a tool is needed), `normal`, or `deep` (always planned and reflected on, more iterations).
    pub depth: Option<Depth>,
    /// The user's preference where no rule decides.
    #[schemars(skip)]
    pub prefers: Option<AnswerMode>,
    /// The previous answer failed.
    #[schemars(skip)]
    pub previous_failed: bool,
    /// How often it may plan, execute and reflect: 5 if not set, 10 with depth `deep`, 1 with `quick`.
    #[schemars(range(min = 1, max = limits::DEEP_ITERATIONS_MAX))]
    pub max_iterations: Option<u32>,
    /// Seconds the whole run may take; 600 if not set.
    #[schemars(range(min = 1, max = limits::SECONDS_MAX))]
    pub run_seconds_max: Option<u32>,
    /// Seconds an iteration may take; 60 if not set, 400 with a small model.
    #[schemars(range(min = 1, max = limits::SECONDS_MAX))]
    pub iteration_seconds_max: Option<u32>,
    /// Seconds for listing tools; 10 if not set.
    #[schemars(range(min = 1, max = limits::SECONDS_MAX))]
    pub think_seconds_max: Option<u32>,
    /// Seconds for a plan; 15 if not set, 150 with a small model.
    #[schemars(range(min = 1, max = limits::SECONDS_MAX))]
    pub plan_seconds_max: Option<u32>,
    /// Seconds for a reflection; 10 if not set, 60 with a small model.
    #[schemars(range(min = 1, max = limits::SECONDS_MAX))]
    pub reflect_seconds_max: Option<u32>,
    /// Tools or servers that may be planned; all if empty.
    pub enabled_tools: Vec<String>,
    /// Who checks the answer: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub verify: Verify,
    /// Notes of similar requests, newest last.
    #[schemars(skip)]
    pub remembered: Vec<RequestNote>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reason {
    question: String,
    history: Vec<Message>,
    model: ModelProfile,
    strict: bool,
    has_documents: bool,
    asks_approval: bool,
    settings: Settings,
    way: AnswerMode,
    why: Why,
    toolbox: Toolbox,
    iteration: u32,
    thought: Option<Analysis>,
    plan: Option<Plan>,
    /// The plan came from notes or from a rule, not from a model.
    is_by_rule: bool,
    /// The request named its tool and arguments.
    is_certain: bool,
    /// Errors of this iteration's unusable plans.
    plan_failures: Vec<String>,
    /// The planner's draft of the answer.
    draft: Option<String>,
    /// The planner's query for tools that were not listed.
    wanted_tools: Option<String>,
    tool_searches: u32,
    /// The planner's question to the user.
    question_to_user: Option<String>,
    clarified: Vec<clarify::Clarification>,
    /// The plan that a person wants changed, and their comments on it and on those before it.
    #[serde(default)]
    revised: String,
    #[serde(default)]
    revisions: Vec<String>,
    doing: Vec<execute::StepExecution>,
    results: Vec<ExecutionResult>,
    /// Lines for the planner: earlier steps and failures.
    done: Vec<String>,
    failed: Vec<String>,
    /// Calls of earlier iterations that failed and would fail again.
    #[serde(default)]
    failed_calls: Vec<ToolCall>,
    /// Tools that are not offered again, because the same call of them was planned after it had failed.
    #[serde(default)]
    dropped_tools: Vec<String>,
    /// Calls of earlier iterations that may have changed something.
    acted: Vec<execute::PriorCall>,
    files: Vec<WrittenFile>,
    spans: Vec<Span>,
    reflections: Vec<ReflectionResult>,
    /// Fallbacks that were used, and why.
    degraded: Vec<String>,
    to_remember: Vec<RequestNote>,
    /// A tool that may have changed something was called.
    has_acted: bool,
    /// A small model's answer before the second lookup.
    #[serde(default)]
    first_answer: Option<further::FirstAnswer>,
    /// The answer until it is checked.
    #[serde(default)]
    unchecked: Option<Unchecked>,
    answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Analysis {
    analysis: String,
    complexity: Complexity,
}

fn begin(input: Input<Settings>) -> Reason {
    let settings = input.settings.unwrap_or_default();
    Reason {
        question: input.question,
        history: input.history,
        model: input.model,
        strict: input.strict,
        has_documents: input.docs,
        asks_approval: input.approve == Approve::Plan,
        settings,
        way: AnswerMode::Direct,
        why: Why::Simple,
        toolbox: Toolbox::default(),
        iteration: 0,
        thought: None,
        plan: None,
        is_by_rule: false,
        is_certain: false,
        plan_failures: Vec::new(),
        draft: None,
        wanted_tools: None,
        tool_searches: 0,
        question_to_user: None,
        clarified: Vec::new(),
        revised: String::new(),
        revisions: Vec::new(),
        doing: Vec::new(),
        results: Vec::new(),
        done: Vec::new(),
        failed: Vec::new(),
        failed_calls: Vec::new(),
        dropped_tools: Vec::new(),
        acted: Vec::new(),
        files: Vec::new(),
        spans: Vec::new(),
        reflections: Vec::new(),
        degraded: Vec::new(),
        to_remember: Vec::new(),
        has_acted: false,
        first_answer: None,
        unchecked: None,
        answer: None,
    }
}

fn output(s: &Reason) -> Value {
    let mut output = s.answer.clone().unwrap_or_default().output("reason");
    let more = json!({
        "way": s.way,
        "why": s.why,
        "iterations": s.iteration,
        "complexity": s.thought.as_ref().map(|thought| thought.complexity),
        "plan": s.plan,
        "results": s.results,
        "files": s.files,
        "reflections": s.reflections,
        "degraded": s.degraded,
        "to_remember": s.lessons(),
    });
    if let Value::Object(more) = more {
        output.extend(more);
    }
    Value::Object(output)
}

impl Reason {
    /// The question in full, for tools that are not given the conversation.
    fn full_question(&self) -> String {
        crate::follow_up::in_full(&self.question, &self.history)
    }

    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.settings.verify, model: &self.model }
    }

    fn depth(&self) -> Depth {
        self.settings.depth.unwrap_or_default()
    }

    /// Whether another iteration is allowed.
    fn may_go_on(&self) -> bool {
        self.iteration < limits::iterations_max(&self.settings)
    }

    fn complexity(&self) -> Complexity {
        self.thought.as_ref().map_or(Complexity::Simple, |thought| thought.complexity)
    }

    fn is_harmless(&self, plan: &Plan) -> bool {
        plan.steps.iter().all(|step| self.toolbox.is_read_only(&step.tool))
    }

    fn recall(&self, kind: Kind) -> Option<&RequestNote> {
        recall(&self.settings.remembered, kind, &key(&self.full_question()))
    }

    fn remember(&mut self, kind: Kind, value: Value) {
        let key = key(&self.full_question());
        self.to_remember.push(RequestNote { kind, key, value });
    }

    /// Notes that may be kept. None if the run may have changed something: repeating such a plan for a request that is only similar would
    /// be wrong.
    fn lessons(&self) -> &[RequestNote] {
        if self.has_acted { &[] } else { &self.to_remember }
    }

    fn keep(&mut self, spans: Vec<Span>) {
        let mut bytes: usize = self.spans.iter().map(|span| span.text.len()).sum();
        for span in spans {
            bytes += span.text.len();
            if bytes <= SPANS_BYTES_MAX && !self.spans.contains(&span) {
                self.spans.push(span);
            }
        }
    }

    fn label(&self, index: usize) -> String {
        let step = self.plan.as_ref().and_then(|plan| plan.steps.get(index));
        let description = step.map_or("", |step| step.description.as_str());
        if description.is_empty() { format!("step {}", index + 1) } else { description.to_owned() }
    }

    /// System prompt, history and question; the question is last and alone.
    fn prompt_messages(&self, system: String) -> Vec<Message> {
        let mut messages = vec![prompt::system(system)];
        messages.extend(crate::input::fitted(&crate::input::recent(&self.history, TURNS_MAX), self.model.history_tokens()));
        messages.push(prompt::user(prompt::clipped(&self.question, self.model.question_tokens())));
        messages
    }
}

/// Direct or agentic, according to the request and the listed tools.
fn decide_by_rules(s: &Reason, tool_fit: Option<ToolFit>) -> (AnswerMode, Why) {
    let facts = Facts {
        message: &s.question,
        messages_before: crate::input::last_messages(&s.history, usize::MAX).len(),
        has_failed_before: s.settings.previous_failed,
        has_documents: s.has_documents,
        requested: s.settings.way,
        preference: s.settings.prefers,
        depth: s.depth(),
        tool_fit,
    };
    decide(&facts)
}

/// A plain question is answered directly unless it needs one of the tools; they are listed to decide that.
fn ask_decide(s: &Reason) -> Ask {
    match decide::depends_on_tools(decide_by_rules(s, None)) {
        true => Ask::one(toolbox::ask_named(&s.full_question(), &s.settings.enabled_tools)),
        false => Ask::nothing(),
    }
}

/// Whether one of these tools is named in the request, or the classifier routes it to a flow with tools.
fn tool_fit(s: &Reason, tools: &Toolbox) -> Option<ToolFit> {
    if tools.is_empty() {
        return None;
    }
    if tools.is_named_in(&s.question) {
        return Some(ToolFit::Named);
    }
    let has_history = !crate::input::last_messages(&s.history, 1).is_empty();
    crate::auto::needs_tools(&s.question, has_history, &tools.tools).then_some(ToolFit::Classified)
}

fn fold_decide(s: &mut Reason, replies: &Replies<'_>) -> Go {
    // Without a list nothing is known about tools.
    let listed = if replies.is_empty() { None } else { Toolbox::read(replies, 0).ok() };
    let fit = listed.and_then(|tools| tool_fit(s, &tools));
    (s.way, s.why) = decide_by_rules(s, fit);
    Go::to(if s.way == AnswerMode::Direct { "respond" } else { "iterate" }).note("way", json!({ "way": s.way, "why": s.why }))
}

fn fold_iterate(s: &mut Reason, _: &Replies<'_>) -> Go {
    s.iteration += 1;
    execute::remember_acts(s);
    for doing in &s.doing {
        if doing.is_well() {
            s.done.push(doing.describe());
        } else {
            s.failed.push(doing.describe());
        }
        s.failed_calls.extend(doing.call_that_fails().cloned());
    }
    (s.plan_failures, s.draft, s.is_certain) = (Vec::new(), None, false);
    Go::to(if s.iteration == 1 { "think" } else { "plan" }).note("iteration", s.iteration)
}

/// Lists the tools that fit the request best, and the built-in tools for tasks regardless of their rank.
fn ask_think(s: &Reason) -> Ask {
    let names = &s.settings.enabled_tools;
    let mut ask = Ask::one(toolbox::ask_named(&s.full_question(), names));
    if names.is_empty() {
        ask.add(toolbox::ask_acting());
    }
    ask
}

fn fold_think(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let acting = if replies.len() > 1 { Toolbox::read(replies, 1).unwrap_or_default() } else { Toolbox::default() };
    match Toolbox::read(replies, 0) {
        Ok(ranked) => {
            let names = &s.settings.enabled_tools;
            let is_full = ranked.is_full();
            let all = ranked.enabled(names).with(acting);
            s.toolbox = if names.is_empty() {
                let count = all.tools.len();
                let fitting = all.fitting(&s.model, PlanPurpose::Tasks, s.has_documents);
                let may_be_more = is_full || fitting.tools.len() < count;
                if may_be_more { fitting.with_finder() } else { fitting }
            } else {
                all
            };
        }
        Err(failure) => {
            s.degraded.push(format!("not all tools could be listed: {failure}"));
            s.toolbox = acting;
        }
    }
    // A small model prefers the first tools it reads, and a question changes nothing.
    if s.model.is_small && !decide::may_act(&s.question) {
        s.toolbox.tools.sort_by_key(|tool| !tool.read_only);
    }
    let guess = Analysis { analysis: String::new(), complexity: complexity(&s.question, s.why) };
    let remembered = s.recall(Kind::Pattern).and_then(|one| Analysis::deserialize(&one.value).ok());
    let thought = remembered.unwrap_or(guess);
    let note = json!({ "complexity": thought.complexity, "analysis": thought.analysis, "tools": s.toolbox.names() });
    s.thought = Some(thought);
    Go::to("plan").note("think", note)
}

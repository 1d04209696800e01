//! Thinks before it answers, where that is worth it: think, plan, execute, reflect, respond.
//!
//! ```text
//!   decide ── direct ───────────────────────────────────────────────────────────────────────────► respond ► end
//!     │ agentic, by rules                                                                            ▲ │ no model
//!     ▼            ┌────────────────── not there yet, at most five times ──────────────────┐         │ ▼
//!   iterate ► think ► plan ──► approve_plan ──► execute ⟲ ──► reflect ───────────────────────┴────────┘ direct ► end
//!                      │        (if asked)        │ again with other arguments, then another way
//!                      └──────────────────────────┘
//! ```
//!
//! Each phase has a clock ([`Limits`]), and an iteration has one for all of them. What has no time left fails, and the phase after it makes do: thinking by
//! rules, a plan of one look-up, an answer from what there is.
//!
//! A request that looks simple is thought about and planned by rule and its success is seen by rule, so that the only model call before its answer is
//! none: that is how the agentic way stays under twice the direct one. What is not simple costs a call for each phase that needs one.
//!
//! What was learnt ([`memory`]) comes in with the input and is kept when the run ends well. Nothing of a run that may have changed anything is ever kept.

mod decide;
mod execute;
mod memory;
mod plan;
mod reflect;
mod respond;

#[cfg(test)]
mod tests;

use evidence::Span;
use graph::{Ask, Digest, END, Effect, Go, Graph, GraphError, Message, Question, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::input::{Approve, Input, Mind};
use crate::prompt::{self, Prompt};
use crate::toolbox::{self, Toolbox};

pub use decide::{Complexity, Facts, Way, Why, complexity, decide};
pub use execute::ExecutionResult;
pub use memory::{Key, Kind, Remembered, key, recall, similarity};
pub use plan::{Plan, Step};
pub use reflect::ReflectionResult;

/// The flow with the document's limits.
pub fn flow() -> Result<Graph, GraphError> {
    with(Limits::default())
}

/// The flow with others.
pub fn with(limits: Limits) -> Result<Graph, GraphError> {
    Graph::of::<Reason>("reason")
        .node("decide", (|_: &Reason| Ask::nothing(), fold_decide), &["iterate", "respond"])
        .node("iterate", (|_: &Reason| Ask::nothing(), fold_iterate), &["think", "plan"])
        .node("think", (ask_think, fold_think), &["plan"])
        .node("plan", (ask_plan, fold_plan), &["approve_plan", "execute", "reflect"])
        .node("approve_plan", (ask_approval, fold_approval), &["execute", END])
        .node("execute", (execute::ask, execute::fold), &["execute", "reflect"])
        .node("reflect", (reflect::ask, reflect::fold), &["iterate", "respond"])
        .node("respond", (respond::ask, respond::fold), &["direct", END])
        .node("direct", (respond::ask_direct, respond::fold_direct), &[END])
        .phase("think", limits.think_ms, &["think"])
        .phase("plan", limits.plan_ms, &["plan"])
        .phase("reflect", limits.reflect_ms, &["reflect"])
        // The person's time is not counted, but their step is within.
        .phase("iteration", limits.iteration_ms, &["iterate", "think", "plan", "approve_plan", "execute", "reflect"])
        .input(begin)
        .output(output)
        .recall(memory::given)
        .keep(memory::kept)
        .build()
}

/// How long each phase may take. They are part of the graph, so other limits are another graph; a run keeps those it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub think_ms: u64,
    pub plan_ms: u64,
    pub reflect_ms: u64,
    pub iteration_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { think_ms: 10_000, plan_ms: 15_000, reflect_ms: 10_000, iteration_ms: 60_000 }
    }
}

const ITERATIONS_MAX: u32 = 5;
const STEP_MS_MAX: u64 = 30_000;
const THINK_TOKENS_MAX: u32 = 300;
const PLAN_TOKENS_MAX: u32 = 900;
const SMALL_PLAN_TOKENS_MAX: u32 = 220;
const TURNS_MAX: usize = 5;
/// What a run keeps of passages.
const SPANS_BYTES_MAX: usize = 1 << 20;

const THINK: Prompt = Prompt { long: include_str!("think.md"), short: include_str!("think.md") };
const PLAN: Prompt = Prompt { long: include_str!("plan.md"), short: include_str!("plan.small.md") };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Answer at once (direct) or by planning (agentic); if not set, rules decide by the request.
    pub way: Option<Way>,
    /// How often it may think, plan, execute and reflect.
    #[schemars(range(min = 1, max = ITERATIONS_MAX))]
    pub max_iterations: u32,
    /// What this user likes where no rule decides.
    #[schemars(skip)]
    pub prefers: Option<Way>,
    /// The answer before this one failed.
    #[schemars(skip)]
    pub previous_failed: bool,
    /// What similar requests taught; the newest last.
    #[schemars(skip)]
    pub remembered: Vec<Remembered>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { way: None, max_iterations: ITERATIONS_MAX, prefers: None, previous_failed: false, remembered: Vec::new() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reason {
    question: String,
    history: Vec<Message>,
    model: Mind,
    strict: bool,
    has_documents: bool,
    asks_approval: bool,
    settings: Settings,
    way: Way,
    why: Why,
    toolbox: Toolbox,
    iteration: u32,
    thought: Option<Thought>,
    plan: Option<Plan>,
    /// The plan came from memory or from a rule, not from a model.
    is_by_rule: bool,
    doing: Vec<execute::Doing>,
    results: Vec<ExecutionResult>,
    spans: Vec<Span>,
    reflections: Vec<ReflectionResult>,
    /// What had to be done in a simpler way, and why.
    degraded: Vec<String>,
    to_remember: Vec<Remembered>,
    /// A tool was called that may have changed something.
    has_acted: bool,
    answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Thought {
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
        way: Way::Direct,
        why: Why::Simple,
        toolbox: Toolbox::default(),
        iteration: 0,
        thought: None,
        plan: None,
        is_by_rule: false,
        doing: Vec::new(),
        results: Vec::new(),
        spans: Vec::new(),
        reflections: Vec::new(),
        degraded: Vec::new(),
        to_remember: Vec::new(),
        has_acted: false,
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
    /// For those who do not hear the conversation.
    fn asked(&self) -> String {
        crate::follow_up::in_full(&self.question, &self.history)
    }

    fn iterations_max(&self) -> u32 {
        self.settings.max_iterations
    }

    fn complexity(&self) -> Complexity {
        self.thought.as_ref().map_or(Complexity::Simple, |thought| thought.complexity)
    }

    fn is_simple(&self) -> bool {
        self.complexity() == Complexity::Simple
    }

    fn is_harmless(&self, plan: &Plan) -> bool {
        plan.steps.iter().all(|step| self.toolbox.get(&step.tool).is_some_and(|tool| tool.read_only && !tool.destructive))
    }

    fn recall(&self, kind: Kind) -> Option<&Remembered> {
        recall(&self.settings.remembered, kind, &key(&self.asked()))
    }

    fn remember(&mut self, kind: Kind, value: Value) {
        let key = key(&self.asked());
        self.to_remember.push(Remembered { kind, key, value });
    }

    /// What may be kept. Of a run that may have changed something, nothing: done again for a request that is only similar, it would be a mistake.
    fn lessons(&self) -> &[Remembered] {
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

    /// System prompt, history, question: what a phase is told, with the question last and alone.
    fn told(&self, system: String) -> Vec<Message> {
        let mut messages = vec![prompt::system(system)];
        messages.extend(crate::input::fitted(&crate::input::recent(&self.history, TURNS_MAX), self.model.history_tokens()));
        messages.push(prompt::user(prompt::clipped(&self.question, self.model.question_tokens())));
        messages
    }
}

fn fold_decide(s: &mut Reason, _: &Replies<'_>) -> Go {
    let facts = Facts {
        message: &s.question,
        messages_before: crate::input::last_messages(&s.history, usize::MAX).len(),
        has_failed_before: s.settings.previous_failed,
        has_documents: s.has_documents,
        told: s.settings.way,
        preference: s.settings.prefers,
    };
    (s.way, s.why) = decide(&facts);
    Go::to(if s.way == Way::Direct { "respond" } else { "iterate" }).note("way", json!({ "way": s.way, "why": s.why }))
}

fn fold_iterate(s: &mut Reason, _: &Replies<'_>) -> Go {
    s.iteration += 1;
    Go::to(if s.iteration == 1 { "think" } else { "plan" }).note("iteration", s.iteration)
}

/// Which tools there are, and what kind of request this is. A simple one, a small model and a remembered pattern need no call for the second.
fn ask_think(s: &Reason) -> Ask {
    let mut ask = Ask::one(toolbox::ask(&s.asked()));
    if complexity(&s.question, s.why) != Complexity::Simple && !s.model.is_small && s.recall(Kind::Pattern).is_none() {
        let schema = json!({
            "type": "object",
            "required": ["analysis", "complexity"],
            "additionalProperties": false,
            "properties": { "analysis": { "type": "string" }, "complexity": { "enum": ["simple", "moderate", "complex"] } },
        });
        let text = prompt::render(THINK.of(&s.model), json!({}));
        ask.add(prompt::call("think", s.told(text), Some(schema), THINK_TOKENS_MAX).label("thinking"));
    }
    ask
}

fn fold_think(s: &mut Reason, replies: &Replies<'_>) -> Go {
    match Toolbox::read(replies, 0) {
        Ok(toolbox) => s.toolbox = toolbox.harmless().fitting(&s.question, &s.model),
        Err(failure) => s.degraded.push(format!("no tools: {failure}")),
    }
    let guess = Thought { analysis: String::new(), complexity: complexity(&s.question, s.why) };
    let remembered = s.recall(Kind::Pattern).and_then(|one| Thought::deserialize(&one.value).ok());
    let thought = match (replies.len(), remembered) {
        (1, remembered) => remembered.unwrap_or(guess),
        (_, _) => match prompt::read::<Thought>(replies, 1) {
            Ok(thought) => {
                s.remember(Kind::Pattern, json!(thought));
                thought
            }
            Err(failure) => {
                s.degraded.push(format!("thought about by rule: {failure}"));
                guess
            }
        },
    };
    let note = json!({ "complexity": thought.complexity, "analysis": thought.analysis, "tools": s.toolbox.names() });
    s.thought = Some(thought);
    Go::to("plan").note("think", note)
}

/// A plan that needs no model: of a simple request, from memory, or when there is nothing to plan with.
fn plan_by_rule(s: &Reason) -> Option<Plan> {
    if s.toolbox.is_empty() {
        return Some(plan::simple(&s.asked(), &s.toolbox));
    }
    if s.iteration > 1 {
        return None;
    }
    let remembered = s.recall(Kind::Plan).and_then(|one| Plan::deserialize(&one.value).ok());
    let fits = |plan: &Plan| plan::is_in_order(plan) && s.is_harmless(plan) && plan.steps.iter().all(|step| s.toolbox.resolve(&step.call()).is_ok());
    let simple = || Some(plan::simple(&s.asked(), &s.toolbox)).filter(|plan| s.is_simple() && !plan.steps.is_empty());
    remembered.filter(fits).or_else(simple)
}

fn ask_plan(s: &Reason) -> Ask {
    if plan_by_rule(s).is_some() {
        return Ask::nothing();
    }
    let failed: Vec<Value> = s.results.iter().filter(|one| !one.success).map(|one| json!({ "tool": one.tool_used, "error": one.error })).collect();
    let advice = s.recall(Kind::Reflection).and_then(|one| one.value.get("advice").and_then(Value::as_str));
    let last = s.reflections.last();
    let text = prompt::render(
        PLAN.of(&s.model),
        json!({
            "tools": s.toolbox.told(&s.model),
            "steps_max": if s.model.is_small { plan::SMALL_STEPS_MAX } else { plan::STEPS_MAX },
            "analysis": s.thought.as_ref().map_or("", |thought| thought.analysis.as_str()),
            "advice": advice.unwrap_or_default(),
            "issues": last.map(|last| last.issues_found.clone()).unwrap_or_default(),
            "adjustments": last.and_then(|last| last.plan_adjustments.clone()).unwrap_or_default(),
            "failed": failed,
        }),
    );
    let tokens_max = if s.model.is_small { SMALL_PLAN_TOKENS_MAX } else { PLAN_TOKENS_MAX };
    Ask::one(prompt::call("plan", s.told(text), Some(plan::schema(&s.toolbox, &s.model)), tokens_max).label("planning"))
}

fn fold_plan(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let ruled = plan_by_rule(s);
    s.is_by_rule = ruled.is_some();
    let mut wrong = Vec::new();
    let plan = match ruled {
        Some(plan) => plan,
        None => match prompt::read::<plan::Draft>(replies, 0) {
            Ok(draft) => {
                let (plan, mistakes) = plan::checked(draft, &s.toolbox, s.complexity());
                wrong = mistakes;
                plan
            }
            // On a later turn the same look-up would find the same.
            Err(failure) if s.iteration > 1 => {
                s.degraded.push(format!("not planned again: {failure}"));
                Plan { steps: Vec::new(), ..plan::simple(&s.asked(), &Toolbox::default()) }
            }
            Err(failure) => {
                s.degraded.push(format!("planned by rule: {failure}"));
                plan::simple(&s.asked(), &s.toolbox)
            }
        },
    };
    s.doing = plan.steps.iter().map(execute::Doing::new).collect();
    s.results = Vec::new();
    let is_empty = plan.steps.is_empty();
    let to = match (is_empty, s.asks_approval) {
        (true, _) => "reflect",
        (false, true) => "approve_plan",
        (false, false) => "execute",
    };
    let go = Go::to(to).note("plan", json!(plan));
    s.plan = Some(plan);
    if wrong.is_empty() { go } else { go.note("plan_mended", wrong) }
}

fn ask_approval(s: &Reason) -> Ask {
    let Some(plan) = &s.plan else { return Ask::nothing() };
    let schema = json!({
        "type": "object",
        "required": ["approve"],
        "properties": { "approve": { "type": "boolean" }, "steps": { "type": "array", "items": { "type": "object" } } },
    });
    let steps = plan.steps.iter().enumerate().map(|(at, step)| format!("{}. {} {} {}", at + 1, step.description, step.tool, step.arguments));
    let listed = steps.collect::<Vec<_>>().join("\n");
    let prompt = format!("May this plan be carried out for {:?}?\n\n{listed}\n\nplan {}", s.question, digest(plan));
    Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking for approval of the plan"))
}

/// A plan by its hash: what is approved is what runs.
fn digest(plan: &Plan) -> Digest {
    Digest::of(&graph::tool("plan", json!(plan.steps)))
}

fn fold_approval(s: &mut Reason, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Word {
        approve: bool,
        #[serde(default)]
        steps: Option<Vec<Step>>,
    }
    let word = match replies.value(0) {
        Ok(Value::Bool(approve)) => Some(Word { approve: *approve, steps: None }),
        Ok(value) => Word::deserialize(value).ok(),
        Err(_) => None,
    };
    let Some(word) = word.filter(|word| word.approve) else {
        return respond::end(s, crate::answer::finish("I was asked not to carry out this plan.", &[], false)).note("approval", "declined");
    };
    let mut wrong = Vec::new();
    if let Some(steps) = word.steps {
        let draft = plan::Draft { steps, estimated_complexity: None, success_criteria: Vec::new() };
        let (plan, mistakes) = plan::checked(draft, &s.toolbox, s.complexity());
        wrong = mistakes;
        s.doing = plan.steps.iter().map(execute::Doing::new).collect();
        s.plan = Some(plan);
    }
    let hash = s.plan.as_ref().map(|plan| digest(plan).to_string());
    Go::to("execute").note("approval", json!({ "approved": hash, "mended": wrong }))
}

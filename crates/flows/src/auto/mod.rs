//! Picks the flow that suits a message, notes which one and why, and passes on what it answers.
//!
//! ```text
//!   start ► choose ── a rule decides, or there is one flow ─────────────────► run ──────────► end
//!             │                                                               ▲ │  a child run of the chosen flow
//!             └► discover ── the classifier is sure ──────────────────────────┤ │
//!                tools  │                                                     │ └─ it cannot do the task, or failed
//!                       └── it is not ► ask ──────────────────────────────────┤    without having changed anything:
//!                                       model, one small call                 └──── one other flow is tried
//! ```
//!
//! Rules are only for what a user requests explicitly ([`rules`]). Everything else is decided from the request, the conversation and the tools there are: by a small
//! classifier ([`classify`]), and where that is not sure by the model. The note `flow` names who decided.

pub mod classify;
mod rules;

use std::collections::BTreeMap;

use graph::{Ask, END, Failure, FailureKind, Go, Graph, GraphError, Message, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context;
use crate::descriptor::{Calls, Descriptor, Needs};
use crate::input::{self, Approve, Input, ModelProfile};
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::registry::Registry;
use crate::settings::SettingsType;
use crate::toolbox::{self, Tool, Toolbox};

use classify::Classifier;
pub use rules::choose;

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Auto",
    description: "Chooses the flow that fits the question",
    calls: Calls::Routed,
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("auto", flow)
};

/// Builds the graph.
pub fn flow(registry: &Registry) -> Result<Graph, GraphError> {
    let fold = |fold: fn(&mut Auto, &Replies<'_>, &Registry) -> Go| {
        let registry = registry.clone();
        move |s: &mut Auto, replies: &Replies<'_>| fold(s, replies, &registry)
    };
    let (fold_rules, fold_discover, fold_model, fold_flow) = (fold(fold_rules), fold(fold_discover), fold(fold_model), fold(fold_flow));
    let asked = registry.clone();
    let ask_model = move |s: &Auto| ask_model(s, &asked);
    Graph::of::<Auto>("auto")
        .node("choose", (|_: &Auto| Ask::nothing(), fold_rules), &["discover", "run"])
        .node("discover", (|s: &Auto| Ask::one(toolbox::ask(&s.question_in_full())), fold_discover), &["ask", "run"])
        .node("ask", (ask_model, fold_model), &["run"])
        .node("run", (ask_flow, fold_flow), &["run", END])
        .calls("run", registry.routed().chain(registry.explicit()).map(|flow| flow.name))
        .input(Auto::of)
        .output(output)
        .delegates()
        // The chosen flow may be `chat`, which uses the most history. Each flow takes only as much as it needs and keeps its own notes.
        .recall(context::recall(crate::chat::RECALLED_MESSAGES_MAX / 2))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The flows to choose from; `direct` and `search` if none is named.
    #[schemars(skip)]
    pub flows: Vec<String>,
    /// Settings for whichever of them is chosen, by its name.
    #[schemars(skip)]
    pub each: BTreeMap<String, Value>,
    /// What chooses where no rule does: `both` (the model where the classifier is unsure), `classifier` or `model`.
    pub router: Router,
}

/// What chooses where no rule does.
#[expect(missing_docs, reason = "comments at the variants would become part of the JSON schema of the setting")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Router {
    #[default]
    Both,
    Classifier,
    Model,
}

/// The flow that was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its name.
    pub flow: String,
    /// Explanation for users.
    pub why: String,
    /// What decided.
    pub by: DecidedBy,
}

/// What chose the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A rule.
    Rule,
    /// The classifier.
    Classifier,
    /// A language model.
    Model,
    /// The previous flow could not do the task.
    HandOver,
}

const ROUTE: Prompt = Prompt { long: include_str!("route.md"), short: include_str!("route.small.md") };
const ROUTE_TOKENS_MAX: u32 = 120;
const ROUTE_MS_MAX: u64 = 30_000;
const ROUTE_HISTORY_MESSAGES_MAX: usize = 4;
/// In the routing prompt the history only has to resolve references in the message.
const ROUTE_HISTORY_TOKENS_MAX: usize = 200;
const ROUTE_QUESTION_TOKENS_MAX: usize = 1_000;
const ROUTE_TOOLS_MAX: usize = 6;
const FLOW_MS_MAX: u64 = 30 * 60 * 1_000;

/// From this probability on the classifier decides without a small model. Measured: below it the classifier is right in about 46 of 100 requests it was not trained
/// on, between this and 0.7 in 64, and the embedded model alone in 59 (10 of 17 of the development half).
const SMALL_CONFIDENCE_MIN: f64 = 0.6;
/// A small model chooses only between flows that the classifier gives at least this probability: alone it takes every document for a task of `reason`.
const SHORTLIST_SHARE_MIN: f64 = 0.1;
/// A large model is fast and more accurate, so the classifier decides alone only above this.
const CONFIDENCE_MIN: f64 = 0.9;
/// With a small model, a question of at most this many words is answered by one document search.
const PLAIN_WORDS_MAX: usize = 25;

/// Flows that do nearly the same, best first, for when one is not available.
fn substitutes(registry: &Registry, flow: &str) -> &'static [&'static str] {
    registry.get(flow).and_then(|flow| flow.routing).map(|routing| routing.substitutes).unwrap_or_default()
}

#[derive(Serialize, Deserialize)]
struct Auto {
    question: String,
    history: Vec<Message>,
    model: ModelProfile,
    strict: bool,
    docs: bool,
    approve: Approve,
    settings: Settings,
    /// The best-fitting tools, without their schemas; `None` before they are listed and if they cannot be.
    tools: Option<Vec<Tool>>,
    /// The classifier's best choice.
    guess: Option<Choice>,
    /// The flows a small model chooses from; empty means all possible flows.
    #[serde(default)]
    shortlist: Vec<String>,
    choice: Option<Choice>,
    /// The flow that was tried first, and why another one replaced it.
    handed_over: Option<HandOver>,
    output: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct HandOver {
    from: String,
    why: String,
}

impl Auto {
    fn of(input: Input<Settings>) -> Auto {
        let Input { question, history, model, strict, docs, approve, settings, .. } = input;
        let mut settings = settings.unwrap_or_default();
        // `auto` cannot choose itself.
        settings.flows.retain(|flow| flow != "auto");
        if settings.flows.is_empty() {
            settings.flows = vec!["direct".to_owned(), "search".to_owned()];
        }
        let (tools, guess, choice, handed_over) = (None, None, None, None);
        let (shortlist, output) = (Vec::new(), Value::Null);
        Auto { question, history, model, strict, docs, approve, settings, tools, guess, shortlist, choice, handed_over, output }
    }

    fn question_in_full(&self) -> String {
        crate::follow_up::in_full(&self.question, &self.history)
    }

    fn has_flow(&self, flow: &str) -> bool {
        self.settings.flows.iter().any(|known| known == flow)
    }

    fn has_history(&self) -> bool {
        !input::last_messages(&self.history, 1).is_empty()
    }

    /// Whether a flow is registered and has what it needs: a conversation or a tool.
    fn is_possible(&self, flow: &str, registry: &Registry) -> bool {
        let has_needed = match registry.get(flow).and_then(|flow| flow.routing).map(|routing| routing.needs) {
            Some(Needs::Conversation) => self.has_history(),
            Some(Needs::Tools) => self.docs || self.tools.as_ref().is_none_or(|tools| !tools.is_empty()),
            Some(Needs::Nothing) | None => true,
        };
        self.has_flow(flow) && has_needed
    }

    /// In the order given; all of them if none has what it needs.
    fn possible(&self, registry: &Registry) -> Vec<&str> {
        let possible: Vec<&str> = self.settings.flows.iter().map(String::as_str).filter(|flow| self.is_possible(flow, registry)).collect();
        if possible.is_empty() { self.settings.flows.iter().map(String::as_str).collect() } else { possible }
    }

    /// The flows offered to the model.
    fn offered(&self, registry: &Registry) -> Vec<&str> {
        if self.shortlist.is_empty() { self.possible(registry) } else { self.shortlist.iter().map(String::as_str).collect() }
    }

    fn chosen(&self) -> &str {
        self.choice.as_ref().map_or("direct", |choice| choice.flow.as_str())
    }

    fn take(&mut self, choice: Choice) -> Go {
        let go = Go::to("run").note("flow", json!(choice));
        self.choice = Some(choice);
        go
    }
}

/// The possible flows with their probabilities for a request, best first. The probability of a flow that is not possible is added to its
/// nearest substitute.
fn classified(s: &Auto, registry: &Registry) -> Vec<(&'static str, f64)> {
    let features = classify::features(&classify::Request { question: &s.question, has_history: s.has_history(), tools: s.tools.as_deref() });
    let possible = s.possible(registry);
    let mut scores = [0.0; classify::FLOWS.len()];
    for (flow, score) in classify::FLOWS.into_iter().zip(Classifier::built_in().scores(&features)) {
        let wanted = std::iter::once(flow).chain(substitutes(registry, flow).iter().copied()).find(|flow| possible.contains(flow));
        // With documents, `direct` and `search` see the same passages; which one is worth its cost depends on the model, not on the
        // wording.
        let wanted =
            wanted.map(|flow| if s.docs && matches!(flow, "direct" | "search") { over_documents(s, &possible).unwrap_or(flow) } else { flow });
        if let Some(at) = wanted.and_then(|wanted| classify::FLOWS.iter().position(|flow| *flow == wanted)) {
            scores[at] += score;
        }
    }
    let mut ranked: Vec<(&'static str, f64)> = classify::FLOWS.into_iter().zip(scores).filter(|(flow, _)| possible.contains(flow)).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

/// Whether the classifier gives the flows that use tools more probability than those that answer without any.
pub(crate) fn needs_tools(question: &str, has_history: bool, tools: &[Tool]) -> bool {
    let features = classify::features(&classify::Request { question, has_history, tools: Some(tools) });
    let scores = Classifier::built_in().scores(&features);
    let share = |flows: &[&str]| classify::FLOWS.iter().zip(scores).filter(|(flow, _)| flows.contains(flow)).map(|(_, score)| score).sum::<f64>();
    share(&["search", "reason"]) > share(&["direct", "chat"])
}

/// With documents, a small and slow model answers one plain question from a single search; everything else goes to `search`.
fn over_documents(s: &Auto, possible: &[&str]) -> Option<&'static str> {
    let is_plain = s.model.is_small && s.question.split_whitespace().count() <= PLAIN_WORDS_MAX;
    let wanted = if is_plain { ["direct", "search"] } else { ["search", "direct"] };
    wanted.into_iter().find(|flow| possible.contains(flow))
}

fn fold_rules(s: &mut Auto, _: &Replies<'_>, registry: &Registry) -> Go {
    let known: Vec<&str> = s.settings.flows.iter().map(String::as_str).collect();
    if let [only] = known.as_slice() {
        let choice = Choice { flow: (*only).to_owned(), why: "it is the only flow there is".to_owned(), by: DecidedBy::Rule };
        return s.take(choice);
    }
    match choose(&s.question, &known, registry) {
        Some(choice) => s.take(choice),
        None => Go::to("discover"),
    }
}

fn fold_discover(s: &mut Auto, replies: &Replies<'_>, registry: &Registry) -> Go {
    let mut trouble = None;
    match Toolbox::read(replies, 0) {
        Ok(listed) => s.tools = Some(listed.tools.into_iter().map(|tool| Tool { schema: Value::Null, ..tool }).collect()),
        Err(failure) => trouble = Some(failure.to_string()),
    }
    let go = decide(s, registry);
    match trouble {
        Some(why) => go.note("no_tools", format!("the tools could not be listed: {why}")),
        None => go,
    }
}

fn decide(s: &mut Auto, registry: &Registry) -> Go {
    if let [only] = s.possible(registry).as_slice() {
        let choice = Choice { flow: (*only).to_owned(), why: "no other flow has what it needs here".to_owned(), by: DecidedBy::Rule };
        return s.take(choice);
    }
    // The classifier covers only the flows it was trained on.
    let knows_all = s.settings.flows.iter().all(|flow| classify::FLOWS.contains(&flow.as_str()));
    let confidence_min = match s.settings.router {
        Router::Classifier => 0.0,
        Router::Both if !knows_all => f64::INFINITY,
        Router::Both if s.model.is_small => SMALL_CONFIDENCE_MIN,
        Router::Both => CONFIDENCE_MIN,
        Router::Model => f64::INFINITY,
    };
    let ranked = classified(s, registry);
    let Some((flow, confidence)) = ranked.first().copied() else { return Go::to("ask") };
    let choice = Choice { flow: flow.to_owned(), why: format!("the classifier is {:.0}% sure", confidence * 100.0), by: DecidedBy::Classifier };
    if confidence >= confidence_min {
        return s.take(choice);
    }
    s.guess = Some(choice);
    if s.settings.router == Router::Both && s.model.is_small && knows_all {
        let likely: Vec<String> = ranked.iter().filter(|(_, share)| *share >= SHORTLIST_SHARE_MIN).map(|(flow, _)| (*flow).to_owned()).collect();
        // A shortlist of one leaves nothing to choose.
        s.shortlist = if likely.len() > 1 { likely } else { Vec::new() };
    }
    Go::to("ask")
}

/// The system text is identical for all requests up to the tools, so that a model with a prefix cache reads it once.
fn ask_model(s: &Auto, registry: &Registry) -> Ask {
    let purpose = |flow: &str| registry.get(flow).and_then(|flow| flow.routing).map_or("", |routing| routing.purpose);
    let flows: Vec<Value> = s.settings.flows.iter().map(|flow| json!({ "name": flow, "about": purpose(flow) })).collect();
    let known = registry.routed().filter(|flow| s.has_flow(flow.name));
    let examples = known.flat_map(|flow| flow.routing.iter().flat_map(|routing| routing.examples).map(move |request| (*request, flow.name)));
    let examples: Vec<Value> = examples.map(|(request, flow)| json!({ "request": request, "flow": flow })).collect();
    let tools: Vec<String> = s.tools.iter().flatten().take(ROUTE_TOOLS_MAX).map(Tool::one_line).collect();
    let text = prompt::render(ROUTE.of(&s.model), json!({ "flows": flows, "examples": examples, "tools": tools.join("\n") }));
    let mut messages = vec![prompt::system(text)];
    messages
        .extend(input::fitted(&input::last_messages(&s.history, ROUTE_HISTORY_MESSAGES_MAX), ROUTE_HISTORY_TOKENS_MAX.min(s.model.history_tokens())));
    messages.push(prompt::user(prompt::clipped(&s.question, s.model.question_tokens().min(ROUTE_QUESTION_TOKENS_MAX))));
    let flow = json!({ "type": "string", "enum": s.offered(registry) });
    let schema = match s.model.is_small {
        true => json!({ "type": "object", "required": ["flow"], "properties": { "flow": flow }, "additionalProperties": false }),
        false => {
            let properties = json!({ "flow": flow, "reason": { "type": "string", "maxLength": 160 } });
            json!({ "type": "object", "required": ["flow", "reason"], "properties": properties, "additionalProperties": false })
        }
    };
    Ask::one(prompt::call("route", messages, Some(schema), ROUTE_TOKENS_MAX).label("choosing a flow").attempts(2).deadline_ms(ROUTE_MS_MAX))
}

fn fold_model(s: &mut Auto, replies: &Replies<'_>, registry: &Registry) -> Go {
    #[derive(Deserialize)]
    struct Route {
        flow: String,
        #[serde(default)]
        reason: String,
    }
    let trouble = match prompt::read::<Route>(replies, 0) {
        Ok(route) if s.offered(registry).contains(&route.flow.trim()) => {
            let reason = route.reason.trim();
            let why = if reason.is_empty() { "the model chose it".to_owned() } else { format!("the model chose it: {reason}") };
            return s.take(Choice { flow: route.flow.trim().to_owned(), why, by: DecidedBy::Model });
        }
        Ok(route) => format!("the model named {:?}, which is not available", route.flow),
        Err(failure) => format!("the model did not choose ({})", failure.kind),
    };
    let choice = s.guess.take().or_else(|| {
        let (flow, _) = classified(s, registry).first().copied()?;
        Some(Choice { flow: flow.to_owned(), why: "it is the classifier's best guess".to_owned(), by: DecidedBy::Classifier })
    });
    let first = || Choice { flow: s.possible(registry)[0].to_owned(), why: "it is the first one".to_owned(), by: DecidedBy::Rule };
    let choice = choice.unwrap_or_else(first);
    s.take(Choice { why: format!("{}; {trouble}", choice.why), ..choice })
}

fn ask_flow(s: &Auto) -> Ask {
    let flow = s.chosen();
    let mut input = json!({
        "question": s.question,
        "history": s.history,
        "model": s.model,
        "strict": s.strict,
        "docs": s.docs,
        "approve": s.approve,
    });
    let mut settings = s.settings.each.get(flow).cloned().unwrap_or(Value::Null);
    match flow {
        // The router has decided that a plan is needed. If the user asked for one explicitly, `reason` detects that itself, and the depth
        // asked for.
        "reason" if s.choice.as_ref().is_none_or(|choice| choice.by != DecidedBy::Rule) => set_default(&mut settings, "way", json!("agentic")),
        // Another flow can take over. A small model would also decline requests that it could answer.
        "direct" if s.handed_over.is_none() && fallback_flow(s, flow).is_some() && !s.model.is_small => {
            set_default(&mut settings, "may_decline", json!(true));
        }
        _ => {}
    }
    if !settings.is_null() {
        input["settings"] = settings;
    }
    Ask::one(Request::from(graph::agent(flow, input)).label(flow).deadline_ms(FLOW_MS_MAX).last())
}

/// Sets what the user has not set.
fn set_default(settings: &mut Value, name: &str, value: Value) {
    if settings.is_null() {
        *settings = json!({});
    }
    if let Some(fields) = settings.as_object_mut() {
        fields.entry(name).or_insert(value);
    }
}

/// The flow that takes over from one that reports that it cannot do the task.
fn fallback_flow(s: &Auto, from: &str) -> Option<&'static str> {
    let has_tools = s.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    let next: &[&str] = match from {
        "direct" if has_tools => &["reason", "search"],
        "search" if has_tools => &["reason"],
        _ => &[],
    };
    next.iter().copied().find(|flow| s.has_flow(flow))
}

fn fold_flow(s: &mut Auto, replies: &Replies<'_>, registry: &Registry) -> Go {
    let flow = s.chosen().to_owned();
    match replies.value(0) {
        Ok(output) => {
            if let Some(why) = inability(&flow, output)
                && let Some(next) = fallback_flow(s, &flow).filter(|_| s.handed_over.is_none())
            {
                return hand_over(s, next, format!("{flow} cannot do it: {why}"));
            }
            s.output = output.clone();
            let answer = output.get("answer").and_then(Value::as_str).map_or_else(|| output.to_string(), str::to_owned);
            Go::end().say("user", s.question.as_str()).say("assistant", answer)
        }
        Err(failure) if failure.has_acted => {
            let look = "it had begun to change something, so nothing else is tried; `baton runs show` lists what was called";
            Go::fail(format!("the flow {flow} failed: {}; {look}", failure.message))
        }
        Err(failure) if is_final(&failure, &flow, registry) || !s.has_flow("direct") || s.handed_over.is_some() => {
            Go::fail(format!("the flow {flow} failed: {}", failure.message))
        }
        Err(failure) => hand_over(s, "direct", format!("{flow} failed: {}", failure.message)),
    }
}

/// Allowed once per run; recorded in a note.
fn hand_over(s: &mut Auto, to: &str, why: String) -> Go {
    s.handed_over = Some(HandOver { from: s.chosen().to_owned(), why: why.clone() });
    s.take(Choice { flow: to.to_owned(), why, by: DecidedBy::HandOver })
}

/// Another flow would repeat a cancelled or used-up budget, or need the same model. Side effects of a team are not hidden by another
/// answer.
fn is_final(failure: &Failure, flow: &str, registry: &Registry) -> bool {
    let may_be_replaced = registry.get(flow).and_then(|flow| flow.routing).is_some_and(|routing| routing.may_be_replaced);
    matches!(failure.kind, FailureKind::Cancelled | FailureKind::Budget | FailureKind::InDoubt)
        || no_model::is_cause(&failure.message)
        || !may_be_replaced
}

/// Why a flow that has answered could not do the task, by its own report. Only flows that called no tool report this, so nothing is done
/// twice.
fn inability(flow: &str, output: &Value) -> Option<String> {
    let is_empty = |name: &str| output.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty);
    match flow {
        "direct" => output.get("declined").and_then(Value::as_str).map(str::to_owned),
        "search" => (is_empty("thinking_steps") && is_empty("sources")).then(|| "none of its tools takes this request".to_owned()),
        _ => None,
    }
}

/// The output of the chosen flow, unchanged, with the flow's name added.
fn output(s: &Auto) -> Value {
    let mut output = s.output.clone();
    if let (Value::Object(fields), Some(choice)) = (&mut output, &s.choice) {
        fields.entry("flow").or_insert_with(|| json!(choice.flow));
        fields.insert("chosen".to_owned(), json!(choice));
        if let Some(handed_over) = &s.handed_over {
            fields.insert("handed_over".to_owned(), json!(handed_over));
        }
    }
    output
}

#[cfg(test)]
mod tests;

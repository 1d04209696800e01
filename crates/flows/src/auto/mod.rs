//! The front door: picks the flow that suits a message, says which and why, and passes on what it answers.
//!
//! ```text
//!   start ► choose ─── rules decide ───► run ► end
//!             │                           ▲│ a child run of the chosen flow
//!             └── they do not ► ask ──────┘└─ failed, and only looked things up ► run (direct)
//!                               model, one small call
//! ```
//!
//! What a user says outright ("quick answer", "step by step", "use panel") wins over everything. The words are English; in other languages the
//! model decides.

mod rules;

use std::collections::BTreeMap;

use graph::{Ask, END, FailureKind, Go, Graph, GraphError, Message, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context;
use crate::input::{self, Approve, Input, Mind};
use crate::prompt::{self, Prompt};

pub use rules::{Choice, choose};

pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Auto>("auto")
        .node("choose", (|_: &Auto| Ask::nothing(), fold_rules), &["ask", "run"])
        .node("ask", (ask_model, fold_model), &["run"])
        .node("run", (ask_flow, fold_flow), &["run", END])
        .input(Auto::of)
        .output(output)
        // Behind it may be `chat`, which takes most of all; each flow hears as much of it as it wants, and learns by itself what it learnt.
        .recall(context::recall(crate::chat::RECALLED_MESSAGES_MAX / 2))
        .build()
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The flows there are. `direct` and `search` if not said.
    pub flows: Vec<String>,
    /// Settings for whichever of them is chosen, by its name.
    pub each: BTreeMap<String, Value>,
}

const ROUTE: Prompt = Prompt { long: include_str!("route.md"), short: include_str!("route.small.md") };
const ROUTE_TOKENS_MAX: u32 = 120;
const ROUTE_MS_MAX: u64 = 30_000;
const ROUTE_HISTORY_MESSAGES_MAX: usize = 4;
const FLOW_MS_MAX: u64 = 30 * 60 * 1_000;

/// What each flow is for, as the model is told.
const FLOWS: [(&str, &str); 6] = [
    ("direct", "answer at once, from knowledge or one look into the documents"),
    ("search", "look up facts with several tools and answer with sources"),
    ("chat", "talk about this conversation, summarize it, or go on with it"),
    ("reason", "a problem of several steps that build on one another"),
    ("panel", "a hard or contested question that critics should check"),
    ("supervise", "carry out a job: research, then write a document or send a mail"),
];

#[derive(Serialize, Deserialize)]
struct Auto {
    question: String,
    history: Vec<Message>,
    model: Mind,
    strict: bool,
    docs: bool,
    approve: Approve,
    settings: Settings,
    choice: Option<Choice>,
    /// The flow that failed before.
    failed: Option<String>,
    output: Value,
}

impl Auto {
    fn of(input: Input<Settings>) -> Auto {
        let Input { question, history, model, strict, docs, approve, settings, .. } = input;
        let mut settings = settings.unwrap_or_default();
        // A door that leads to itself is no way in.
        settings.flows.retain(|flow| flow != "auto");
        if settings.flows.is_empty() {
            settings.flows = vec!["direct".to_owned(), "search".to_owned()];
        }
        Auto { question, history, model, strict, docs, approve, settings, choice: None, failed: None, output: Value::Null }
    }

    fn knows(&self, flow: &str) -> bool {
        self.settings.flows.iter().any(|known| known == flow)
    }

    fn chosen(&self) -> &str {
        self.choice.as_ref().map_or("direct", |choice| choice.flow.as_str())
    }

    fn take(&mut self, choice: Choice) -> Go {
        let go = Go::to("run").note("flow", json!({ "flow": choice.flow, "why": choice.why }));
        self.choice = Some(choice);
        go
    }
}

fn fold_rules(s: &mut Auto, _: &Replies<'_>) -> Go {
    let known: Vec<&str> = s.settings.flows.iter().map(String::as_str).collect();
    if let [only] = known.as_slice() {
        let choice = Choice { flow: (*only).to_owned(), why: "it is the only flow there is".to_owned() };
        return s.take(choice);
    }
    match choose(&s.question, !s.history.is_empty(), s.docs, &s.model, &known) {
        Some(choice) => s.take(choice),
        None => Go::to("ask"),
    }
}

fn ask_model(s: &Auto) -> Ask {
    let known: Vec<(&str, &str)> =
        s.settings.flows.iter().map(|flow| (flow.as_str(), FLOWS.iter().find(|(name, _)| name == flow).map_or("", |(_, about)| about))).collect();
    let flows: Vec<Value> = known.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
    let mut messages = vec![prompt::system(prompt::render(ROUTE.of(&s.model), json!({ "flows": flows })))];
    messages.extend(input::fitted(&input::last_messages(&s.history, ROUTE_HISTORY_MESSAGES_MAX), s.model.history_tokens() / 2));
    messages.push(prompt::user(prompt::clipped(&s.question, s.model.question_tokens().min(1_000))));
    let flow = json!({ "type": "string", "enum": s.settings.flows });
    let schema = match s.model.is_small {
        true => json!({ "type": "object", "required": ["flow"], "properties": { "flow": flow }, "additionalProperties": false }),
        false => {
            let properties = json!({ "flow": flow, "reason": { "type": "string", "maxLength": 160 } });
            json!({ "type": "object", "required": ["flow", "reason"], "properties": properties, "additionalProperties": false })
        }
    };
    Ask::one(prompt::call("route", messages, Some(schema), ROUTE_TOKENS_MAX).label("choosing a flow").attempts(2).deadline_ms(ROUTE_MS_MAX))
}

fn fold_model(s: &mut Auto, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Route {
        flow: String,
        #[serde(default)]
        reason: String,
    }
    let usual = if s.knows("search") { "search" } else { s.settings.flows.first().map_or("direct", String::as_str) }.to_owned();
    let choice = match prompt::read::<Route>(replies, 0) {
        Ok(route) if s.knows(route.flow.trim()) => {
            let why =
                if route.reason.trim().is_empty() { "the model chose it".to_owned() } else { format!("the model chose it: {}", route.reason.trim()) };
            Choice { flow: route.flow.trim().to_owned(), why }
        }
        Ok(route) => Choice { flow: usual, why: format!("it is the usual one; the model named {:?}, which is not there", route.flow) },
        Err(failure) => Choice { flow: usual, why: format!("it is the usual one; the model did not choose ({})", failure.kind) },
    };
    s.take(choice)
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
    if let Some(settings) = s.settings.each.get(flow) {
        input["settings"] = settings.clone();
    }
    Ask::one(Request::from(graph::agent(flow, input)).label(flow).deadline_ms(FLOW_MS_MAX).last())
}

fn fold_flow(s: &mut Auto, replies: &Replies<'_>) -> Go {
    match replies.value(0) {
        Ok(output) => {
            s.output = output.clone();
            let answer = output.get("answer").and_then(Value::as_str).map_or_else(|| output.to_string(), str::to_owned);
            Go::end().say("user", s.question.as_str()).say("assistant", answer)
        }
        Err(failure) => {
            let flow = s.chosen().to_owned();
            // Another way costs again what was stopped or used up, and what may have changed something must not be talked over.
            let is_final = matches!(failure.kind, FailureKind::Cancelled | FailureKind::Budget | FailureKind::InDoubt);
            let only_looks_up = matches!(flow.as_str(), "search" | "chat" | "reason" | "panel");
            if is_final || !only_looks_up || !s.knows("direct") || s.failed.is_some() {
                return Go::fail(format!("the flow {flow} failed: {}", failure.message));
            }
            s.failed = Some(flow.clone());
            let choice = Choice { flow: "direct".to_owned(), why: format!("{flow} failed: {}", failure.message) };
            s.take(choice)
        }
    }
}

/// What the chosen flow answered, as it is, and which one that was.
fn output(s: &Auto) -> Value {
    let mut output = s.output.clone();
    if let (Value::Object(fields), Some(choice)) = (&mut output, &s.choice) {
        fields.entry("flow").or_insert_with(|| json!(choice.flow));
        fields.insert("chosen".to_owned(), json!({ "flow": choice.flow, "why": choice.why }));
    }
    output
}

#[cfg(test)]
mod tests;

//! One turn of a conversation, as every protocol has it: a question that becomes a run, what happens meanwhile, and how it ends.
//!
//! ```text
//!   Turn ─► begin ─► StartedTurn ─► events() ─► TurnEvent, TurnEvent, … ─► outcome() ─► TurnOutcome: answered, asks a person, failed, cancelled
//!                      ▲
//!   answer (a person's word to a run that waits)
//! ```
//!
//! Quotas, limits of storage, idempotency keys, the depth header and ownership are the same for all protocols and are checked here.

mod events;
mod question;
pub(crate) mod rest;
mod sse;

use agents::langserve::{DEPTH, KEY};
use axum::http::HeaderMap;
use engine::{Engine, Order, SeenCounts, tree_history};
use graph::{RunId, ThreadId};
use serde_json::{Value, json};
use store::{RunRow, Status};
use wire::api::{ChatMessage, NewRun};
use wire::openai::Options;

use crate::api::Api;
use crate::api::runs::{digest_of, header_text, hold};
use crate::guard::Identity;
use crate::problem::{Problem, StatusCode};

pub(crate) use events::{Events, TurnEvent};
pub(crate) use question::{OpenQuestion, answer_value, call_json, hint};
pub(crate) use rest::{Answered, TurnOutcome, answered, citations, outcome};
pub(crate) use sse::{Sink, Source, channel, frames};

/// A question of a client.
pub(crate) struct Turn {
    pub(crate) new_run: NewRun,
    /// The messages before it, as the client keeps them.
    pub(crate) history: Vec<ChatMessage>,
    /// It holds words that may not be the user's own.
    pub(crate) is_tainted: bool,
    /// Starts this instead of the flow; it is given the flow's name and input.
    pub(crate) wrapper: Option<Wrapper>,
}

/// What a flow is wrapped into, and the fields of its input beside `flow`, `input`, `question` and `history`.
pub(crate) struct Wrapper {
    pub(crate) flow: &'static str,
    pub(crate) fields: serde_json::Map<String, Value>,
}

/// What a request has beside its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnHeaders {
    key: Option<String>,
    depth: u32,
}

/// As deep as runs may call runs.
const DEPTH_MAX: u32 = 8;

impl TurnHeaders {
    pub(crate) fn of(headers: &HeaderMap) -> Result<TurnHeaders, Problem> {
        let key = header_text(headers, KEY)?.map(str::to_owned);
        let depth = match headers.get(DEPTH) {
            None => 0,
            Some(depth) => {
                let depth = depth.to_str().ok().and_then(|depth| depth.trim().parse::<u32>().ok());
                depth.ok_or_else(|| Problem::bad_request(format!("{DEPTH} is a number: how many agents stand between a person and this call")))?
            }
        };
        if depth > DEPTH_MAX {
            let words = format!("this call is {depth} agents deep, more than {DEPTH_MAX}; do these agents call one another in a circle?");
            return Err(Problem::bad_request(words));
        }
        Ok(TurnHeaders { key, depth })
    }

    /// With this key if it has none.
    pub(crate) fn or_key(self, key: Option<&str>) -> TurnHeaders {
        TurnHeaders { key: self.key.or_else(|| key.map(str::to_owned)), ..self }
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The run that the key names: the same user, protocol and key always mean the same one.
    fn run(&self, who: &Identity, protocol: &str) -> Option<RunId> {
        self.key.as_ref().map(|key| RunId::from(digest_of(&["idempotency", protocol, who.user.as_str(), key], 16)))
    }
}

/// A run that was started, or answered, or found by its key.
pub(crate) struct StartedTurn {
    pub(crate) run: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) flow: String,
    pub(crate) created_ms: i64,
    events: Option<Events>,
}

impl StartedTurn {
    /// What happens in it from now on; only if it was begun with `is_watched`.
    pub(crate) fn events(&mut self) -> Option<Events> {
        self.events.take()
    }
}

/// Starts the run of a turn, or finds it by its key. `protocol` keeps the keys of protocols apart.
pub(crate) async fn begin(
    api: &Api,
    who: &Identity,
    protocol: &str,
    terms: &TurnHeaders,
    turn: Turn,
    is_watched: bool,
) -> Result<StartedTurn, Problem> {
    let engine = &api.0.engine;
    let named = terms.run(who, protocol);
    if let Some(run) = &named
        && let Some(row) = engine.store().run(run).await?
    {
        return found(api, who, row, is_watched).await;
    }
    let run = named.unwrap_or_else(engine::new_run_id);
    let thread = match turn.new_run.thread.as_deref() {
        Some(name) => api.thread_for(who, Some(name)).await?,
        None => ThreadId::from(run.as_str()),
    };
    let flow = turn.new_run.flow.clone().unwrap_or_default();
    let order = Order { run: Some(run.clone()), thread: Some(thread.clone()), depth: terms.depth, ..order(api, who, &thread, turn)? };
    // Before it is started, so that its first words are not missed.
    let events = is_watched.then(|| Events::of(engine, &thread, &run, SeenCounts::new()));
    let (run, thread, place) = crate::api::runs::begin(api, &who.user, order).await?;
    hold(engine, &run, place);
    Ok(StartedTurn { run, thread, flow, created_ms: crate::guard::now_ms(), events })
}

/// A run that is there already, to be followed.
pub(crate) async fn found(api: &Api, who: &Identity, row: RunRow, is_watched: bool) -> Result<StartedTurn, Problem> {
    let row = api.run(who, row.run.as_str()).await?;
    let events = is_watched.then(|| Events::of(&api.0.engine, &row.thread, &row.run, SeenCounts::new()));
    Ok(StartedTurn { run: row.run, thread: row.thread, flow: row.flow, created_ms: row.created_ms, events })
}

/// The same, without what happened in it before.
pub(crate) async fn followed(api: &Api, row: RunRow) -> StartedTurn {
    let engine = &api.0.engine;
    let events = Events::of(engine, &row.thread, &row.run, known(engine, &row.run).await);
    StartedTurn { run: row.run, thread: row.thread, flow: row.flow, created_ms: row.created_ms, events: Some(events) }
}

/// How many events of a run and of those below it there are.
pub(crate) async fn known(engine: &Engine, run: &RunId) -> SeenCounts {
    tree_history(engine, run).await.into_iter().map(|(run, events)| (run, events.len() as u64)).collect()
}

fn order(api: &Api, who: &Identity, thread: &ThreadId, turn: Turn) -> Result<Order, Problem> {
    let Turn { new_run, history, is_tainted, wrapper } = turn;
    let mut order = api.0.backend.order(&who.user, thread, &new_run)?;
    order.is_tainted |= is_tainted;
    if !history.is_empty() && api.0.backend.takes_history(&order.flow) {
        order.input["history"] = json!(history);
    }
    if let Some(Wrapper { flow, mut fields }) = wrapper {
        fields.extend([("flow".to_owned(), json!(order.flow)), ("question".to_owned(), json!(new_run.question))]);
        fields.extend(order.input.get("model").map(|model| ("model".to_owned(), model.clone())));
        fields.insert("history".to_owned(), json!(history));
        fields.insert("input".to_owned(), std::mem::take(&mut order.input));
        order.title.get_or_insert_with(|| new_run.question.chars().take(120).collect());
        order.input = Value::Object(fields);
        order.flow = flow.to_owned();
    }
    Ok(order)
}

/// Gives a person's word to the first question of a run, and follows the run from there.
pub(crate) async fn answer(api: &Api, who: &Identity, run: &str, text: &str, is_watched: bool) -> Result<StartedTurn, Problem> {
    let (row, asks) = open_question(api, who, run).await?;
    let value = answer_value(text, &asks.waiting).map_err(|why| Problem::invalid(format!("{why} {}", hint(&asks.waiting))))?;
    give(api, who, row, &asks, value, is_watched).await
}

/// The same with a value that is one already.
pub(crate) async fn give(
    api: &Api,
    who: &Identity,
    row: RunRow,
    asks: &OpenQuestion,
    value: Value,
    is_watched: bool,
) -> Result<StartedTurn, Problem> {
    let engine = &api.0.engine;
    let events = match is_watched {
        true => Some(Events::of(engine, &row.thread, &row.run, known(engine, &row.run).await)),
        false => None,
    };
    let place = api.0.quota.run(&who.user)?;
    engine.answer(&asks.run, asks.waiting.task, asks.waiting.attempt, value).await?;
    // The run above the one that asked rests too until its child goes on.
    awake(engine, &row.run).await;
    hold(engine, &row.run, place);
    Ok(StartedTurn { run: row.run, thread: row.thread, flow: row.flow, created_ms: row.created_ms, events })
}

/// A run of this user's that waits for a person, with its first question.
pub(crate) async fn open_question(api: &Api, who: &Identity, run: &str) -> Result<(RunRow, OpenQuestion), Problem> {
    let row = api.run(who, run).await?;
    if !matches!(row.status, Status::Asking | Status::Waiting) {
        return Err(Problem::conflict(format!("the run {run} has no open question")));
    }
    let first = api.0.engine.open_questions(&row).await?.into_iter().next();
    let asks = first.ok_or_else(|| Problem::conflict(format!("the run {run} has no open question")))?;
    Ok((row, asks))
}

/// Waits, for a moment, until a run that was put away is in motion again after an answer below it.
async fn awake(engine: &Engine, run: &RunId) {
    const LOOKS_MAX: u32 = 40;
    for _ in 0..LOOKS_MAX {
        match engine.store().run(run).await {
            Ok(Some(row)) if matches!(row.status, Status::Waiting) => tokio::time::sleep(std::time::Duration::from_millis(25)).await,
            _ => return,
        }
    }
}

/// The flow that a client names as its model, agent or tool.
pub(crate) fn must_know(api: &Api, flow: &str) -> Result<(), Problem> {
    if api.0.backend.has_flow(flow) {
        return Ok(());
    }
    let flows = api.0.backend.flows();
    let shown: Vec<&str> = flows.iter().filter(|flow| flow.is_shown).map(|flow| flow.name.as_str()).collect();
    Err(Problem::new(StatusCode::NOT_FOUND, "model_not_found", format!("there is no flow {flow:?}; there are: {}", shown.join(", "))))
}

/// What a client asks for when it names nothing but a question.
pub(crate) fn new_run(flow: &str, question: String) -> NewRun {
    new_run_with(flow, question, Options::default())
}

/// The same with the options of clients that support Baton.
pub(crate) fn new_run_with(flow: &str, question: String, options: Options) -> NewRun {
    let Options { model, approve, strict, budget, allow, settings } = options;
    NewRun { question, flow: Some(flow.to_owned()), model, approve, strict, budget, allow, settings, ..NewRun::default() }
}

/// Instructions of the client go before the conversation: flows take messages of users and assistants only.
pub(crate) fn with_instructions(instructions: &str, history: Vec<ChatMessage>) -> Vec<ChatMessage> {
    if instructions.trim().is_empty() {
        return history;
    }
    let message = |role: &str, content: String| ChatMessage { role: role.to_owned(), content };
    let first = message("user", format!("Instructions for your answers in this conversation:\n{}", instructions.trim()));
    let mut all = vec![first, message("assistant", "I will follow them.".to_owned())];
    // Flows are given about ten turns; the oldest give way to the instructions.
    let from = history.len().saturating_sub(HISTORY_MESSAGES_MAX);
    all.extend(history.into_iter().skip(from));
    all
}

const HISTORY_MESSAGES_MAX: usize = 18;

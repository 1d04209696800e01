use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use engine::{Delivery, Engine, Order, RunResult, RunState};
use graph::{Outcome, RunId, TaskId, ThreadId, UserId};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::{RunFilter, RunRow, Status, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use wire::api;

use super::Api;
use super::params::{JsonBody, QueryParams};
use crate::conversation::branches;
use crate::guard::{Identity, now_ms};
use crate::problem::Problem;

const PAGE: usize = 50;
const PAGE_MAX: usize = 500;
const HEADER_BYTES_MAX: usize = 200;
const REASON_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
pub(super) struct WaitQuery {
    wait: Option<String>,
}

impl WaitQuery {
    fn is_wanted(&self) -> bool {
        self.wait.as_deref().is_some_and(|wait| !matches!(wait, "" | "0" | "false"))
    }
}

pub(super) async fn start(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    headers: HeaderMap,
    QueryParams(wait): QueryParams<WaitQuery>,
    JsonBody(new_run): JsonBody<api::NewRun>,
) -> Result<(StatusCode, Json<api::RunPosted>), Problem> {
    let engine = &api.0.engine;
    let named = named(&who.user, &headers)?;
    // A retry starts nothing, whatever the state of the run.
    let again = match &named {
        Some(run) => engine.store().run(run).await?,
        None => None,
    };
    if let Some(row) = again {
        if !wait.is_wanted() {
            return Ok((StatusCode::OK, started(&row.run, &row.thread)));
        }
        engine.wait(&row.run).await?;
        return Ok((StatusCode::OK, waited(&api, &row.run).await?));
    }
    let thread = api.thread_for(&who, new_run.thread.as_deref()).await?;
    let order = Order { run: named, ..api.0.backend.order(&who.user, &thread, &new_run)? };
    let order = on_branch(&api, &thread, new_run.after.as_deref(), order).await?;
    if !wait.is_wanted() {
        // Whether a model streams is decided when it is called, and the follower of this run has not connected yet.
        let (run, thread, place) = begin(&api, &who.user, expected(&api, order)).await?;
        hold(engine, &run, place);
        return Ok((StatusCode::CREATED, started(&run, &thread)));
    }
    let (flow, title, created_ms) = (order.flow.clone(), order.title.clone().unwrap_or_default(), now_ms());
    let (run, thread, place) = begin(&api, &who.user, order).await?;
    let at = engine.wait(&run).await?;
    drop(place);
    let RunState::Over(closing) = at else { return Ok((StatusCode::CREATED, waited(&api, &run).await?)) };
    // Everything but the exact times in the store is known here, so the store is not read.
    let status = match closing.outcome {
        Outcome::Done { .. } => Status::Done,
        Outcome::Failed { .. } => Status::Failed,
        Outcome::Cancelled { .. } => Status::Cancelled,
    };
    let row = RunRow { run, thread, flow, parent: None, title, status, outcome: None, created_ms, updated_ms: now_ms() };
    Ok((StatusCode::CREATED, Json(api::RunPosted::Waited(Box::new(api_run(row, Some(&closing), Vec::new())?)))))
}

/// A run that follows a turn other than the last one: it is given only the messages up to there, and the thread remembers where it belongs. In a
/// conversation that has branches already, a run without `after` follows the newest turn.
async fn on_branch(api: &Api, thread: &ThreadId, after: Option<&str>, order: Order) -> Result<Order, Problem> {
    let store = &**api.0.engine.store();
    let Some(row) = store.thread(thread).await?.filter(|row| row.user.as_ref() == Some(&order.context.user)) else { return Ok(order) };
    let newest = match after {
        None if branches::of(store, &row).await?.is_empty() => return Ok(order),
        None => branches::runs(store, &row).await?.last().map(ToString::to_string),
        Some(_) => None,
    };
    let after = after.map(str::to_owned).or(newest).unwrap_or_default();
    let history = branches::history(store, &row, &after).await?.ok_or_else(|| Problem::not_found("run to follow in this thread"))?;
    let run = order.run.clone().unwrap_or_else(engine::new_run_id);
    branches::add(store, &row, &run, &after).await?;
    let history = api.0.backend.takes_history(&order.flow).then_some(history);
    Ok(Order { run: Some(run), history, ..order })
}

fn started(run: &RunId, thread: &ThreadId) -> Json<api::RunPosted> {
    Json(api::RunPosted::Started(api::Started { run: run.to_string(), thread: thread.to_string() }))
}

async fn waited(api: &Api, run: &RunId) -> Result<Json<api::RunPosted>, Problem> {
    let row = api.0.engine.store().run(run).await?.ok_or_else(|| Problem::not_found("run"))?;
    Ok(Json(api::RunPosted::Waited(Box::new(described(api, row).await?))))
}

/// Starts a run within the limit of its user.
pub(crate) async fn begin(api: &Api, user: &UserId, order: Order) -> Result<(RunId, ThreadId, OwnedSemaphorePermit), Problem> {
    api.check_storage(user).await?;
    let place = api.0.quota.run(user)?;
    api.check_allowance(user, order.context.model.as_deref()).await?;
    let (flow, thread) = (order.flow.clone(), order.thread.clone());
    let run = api.0.engine.start(order).await?;
    let thread = thread.unwrap_or_else(|| ThreadId::from(run.as_str()));
    api.0.metrics.run_started(&flow);
    tracing::info!(%run, %thread, %user, flow, "a run was started");
    Ok((run, thread, place))
}

/// Subscribes to a run that is about to be started, until its follower connects.
fn expected(api: &Api, order: Order) -> Order {
    let run = order.run.clone().unwrap_or_else(engine::new_run_id);
    let thread = order.thread.clone().unwrap_or_else(|| ThreadId::from(run.as_str()));
    api.0.hubs.expect(&thread, &run);
    Order { run: Some(run), thread: Some(thread), ..order }
}

/// Holds a user's permit until the run rests.
pub(crate) fn hold(engine: &Engine, run: &RunId, place: OwnedSemaphorePermit) {
    let (engine, run) = (engine.clone(), run.clone());
    tokio::spawn(async move {
        // The outcome is in the store; here the run is only counted.
        let _ = engine.wait(&run).await;
        drop(place);
    });
}

/// The run that a key names: the same user with the same key always means the same one.
fn named(user: &UserId, headers: &HeaderMap) -> Result<Option<RunId>, Problem> {
    let key = header_text(headers, "Idempotency-Key")?;
    Ok(key.map(|key| RunId::from(digest_of(&["idempotency", user.as_str(), key], 16))))
}

/// The value of a header that names something; `None` without it.
pub(crate) fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| !text.trim().is_empty() && text.len() <= HEADER_BYTES_MAX);
    text.map(Some).ok_or_else(|| Problem::invalid(format!("{name} has 1 to {HEADER_BYTES_MAX} visible ASCII characters")))
}

/// The first bytes of the SHA-256 of these parts, in hex.
pub(crate) fn digest_of(parts: &[&str], bytes: usize) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Deserialize)]
pub(super) struct Page {
    thread: Option<String>,
    status: Option<String>,
    before: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Json<api::Runs>, Problem> {
    let _place = api.0.quota.listing(&who.user).await?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let text = |value: Option<String>| value.filter(|value| !value.is_empty());
    let statuses = match text(page.status) {
        None => Vec::new(),
        Some(names) => {
            let known = || Status::ALL.map(Status::as_str).join(", ");
            let parse =
                |name: &str| Status::parse(name).ok_or_else(|| Problem::invalid(format!("there is no status {name:?}; there are: {}", known())));
            names.split(',').map(parse).collect::<Result<_, _>>()?
        }
    };
    let before = match text(page.before) {
        Some(before) => Some(api.run(&who, &before).await?.run),
        None => None,
    };
    let thread = match text(page.thread) {
        Some(thread) => Some(api.thread(&who, &thread).await?.thread),
        None => None,
    };
    let filter = RunFilter {
        statuses,
        thread,
        user: Some(who.user),
        roots_only: true,
        before,
        limit: limit + 1,
        outcome_bytes_max: Some(OUTCOME_BYTES_MAX),
        ..RunFilter::default()
    };
    let mut rows = api.0.engine.store().runs(filter).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|last| last.run.to_string());
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows {
        runs.push(listed(&api, row).await?);
    }
    Ok(Json(api::Runs { runs, next }))
}

pub(super) async fn show(State(api): State<Api>, Extension(who): Extension<Identity>, Path(run): Path<String>) -> Result<Json<api::Run>, Problem> {
    let row = api.run(&who, &run).await?;
    Ok(Json(described(&api, row).await?))
}

pub(super) async fn cancel(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(run): Path<String>,
    JsonBody(cancel): JsonBody<api::Cancel>,
) -> Result<(StatusCode, Json<api::DeliveryResult>), Problem> {
    let row = api.run(&who, &run).await?;
    let reason: String = cancel.reason.as_deref().unwrap_or("stopped by the user").chars().take(REASON_CHARS_MAX).collect();
    delivered(api.0.engine.cancel(&row.run, &reason).await?)
}

pub(super) async fn resume(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(run): Path<String>,
    JsonBody(api::EmptyObject {}): JsonBody<api::EmptyObject>,
) -> Result<(StatusCode, Json<api::DeliveryResult>), Problem> {
    let row = api.run(&who, &run).await?;
    let place = api.0.quota.run(&who.user)?;
    match api.0.engine.resume(&row.run).await {
        Ok(()) => {
            hold(&api.0.engine, &row.run, place);
            delivered(Delivery::Taken)
        }
        // Another process drives it, which is as good.
        Err(engine::EngineError::Store(StoreError::Held { .. })) => delivered(Delivery::Posted),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn answer(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(run): Path<String>,
    JsonBody(given): JsonBody<api::GiveAnswer>,
) -> Result<(StatusCode, Json<api::DeliveryResult>), Problem> {
    let row = api.run(&who, &run).await?;
    if row.status.is_over() {
        return Err(Problem::conflict("the run has ended and has no open questions"));
    }
    let task = TaskId::from(given.task);
    // A run that waits for a person holds no permit; it gets one with the answer.
    let place = match row.status {
        Status::Asking | Status::Waiting => Some(api.0.quota.run(&who.user)?),
        Status::Running | Status::Done | Status::Failed | Status::Cancelled => None,
    };
    let delivery = api.0.engine.answer(&row.run, task, given.attempt, given.value).await?;
    if let Some(place) = place {
        hold(&api.0.engine, &row.run, place);
    }
    delivered(delivery)
}

pub(super) async fn fork(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(run): Path<String>,
    JsonBody(fork): JsonBody<api::Fork>,
) -> Result<(StatusCode, Json<api::Started>), Problem> {
    let row = api.run(&who, &run).await?;
    let thread = api.thread_for(&who, fork.thread.as_deref()).await?;
    api.check_storage(&who.user).await?;
    let place = api.0.quota.run(&who.user)?;
    // The model is that of the run it branches from, and is checked where it is called.
    api.check_allowance(&who.user, None).await?;
    let new = engine::new_run_id();
    // A run that is resumed in a conversation with branches follows the one that ended.
    if thread == row.thread
        && let Some(place) = api.0.engine.store().thread(&thread).await?
        && !branches::of(&**api.0.engine.store(), &place).await?.is_empty()
    {
        branches::add(&**api.0.engine.store(), &place, &new, row.run.as_str()).await?;
    }
    let fork = engine::Fork {
        at_step: fork.at_step,
        patch: fork.patch,
        replies: fork.replies,
        thread: Some(thread.clone()),
        breakpoints: breakpoints(fork.breakpoints)?,
        passes_breakpoint: false,
        go_to: None,
        run: Some(new),
    };
    let new = api.0.engine.fork(&row.run, fork).await?;
    hold(&api.0.engine, &new, place);
    tracing::info!(run = %new, from = %row.run, user = %who.user, "a run was branched");
    Ok((StatusCode::CREATED, Json(api::Started { run: new.to_string(), thread: thread.to_string() })))
}

fn delivered(delivery: Delivery) -> Result<(StatusCode, Json<api::DeliveryResult>), Problem> {
    let delivery = match delivery {
        Delivery::Taken => api::Delivery::Taken,
        Delivery::Posted => api::Delivery::Posted,
    };
    Ok((StatusCode::ACCEPTED, Json(api::DeliveryResult { delivery })))
}

/// Lists of runs have only the short fields of longer outcomes; the run itself has all of it.
pub(super) const OUTCOME_BYTES_MAX: usize = 2 << 10;

/// The same for a list that was read with `outcome_bytes_max`.
pub(super) async fn listed(api: &Api, mut row: RunRow) -> Result<api::Run, Problem> {
    if row.status.is_over() && row.outcome.is_none() {
        row.outcome = match api.0.short_outcomes.get(&row) {
            Some(outcome) => Some(outcome),
            // One at a time is in memory as a whole.
            None => api.0.engine.store().run(&row.run).await?.and_then(|whole| whole.outcome).map(|outcome| api.0.short_outcomes.put(&row, outcome)),
        };
    }
    described(api, row).await
}

/// A run in the form of the API. Its cost is known when it has ended; until then it is in its events.
pub(super) async fn described(api: &Api, row: RunRow) -> Result<api::Run, Problem> {
    let closing = engine::result_of(&row);
    let waiting = match row.status {
        Status::Asking | Status::Waiting => waiting(api, &row).await?,
        Status::Running | Status::Done | Status::Failed | Status::Cancelled => Vec::new(),
    };
    api_run(row, closing.as_ref(), waiting)
}

fn api_run(row: RunRow, closing: Option<&RunResult>, waiting: Vec<api::Waiting>) -> Result<api::Run, Problem> {
    let outcome = closing.map(|closing| serde_json::to_value(&closing.outcome)).transpose();
    let spent = closing.map_or_else(|| Ok(json!({})), |closing| serde_json::to_value(closing.spent));
    Ok(api::Run {
        run: row.run.to_string(),
        thread: row.thread.to_string(),
        flow: row.flow,
        parent: row.parent.map(|parent| parent.to_string()),
        title: row.title,
        status: status(row.status),
        created_ms: row.created_ms,
        updated_ms: row.updated_ms,
        outcome: outcome.map_err(|error| Problem::internal(&error))?,
        spent: spent.map_err(|error| Problem::internal(&error))?,
        elapsed_ms: closing.map_or(0, |closing| closing.elapsed_us / 1_000),
        waiting,
        is_resumed: false,
    })
}

async fn waiting(api: &Api, row: &RunRow) -> Result<Vec<api::Waiting>, Problem> {
    let engine = &api.0.engine;
    let open = match engine.open_questions(row).await {
        Ok(open) => open,
        // It continued meanwhile.
        Err(engine::EngineError::Over { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut all = Vec::new();
    for open in open {
        let plan = engine.plan_of(&open).await?;
        let waiting = open.waiting;
        all.push(api::Waiting {
            run: open.run.to_string(),
            task: waiting.task.into(),
            attempt: waiting.attempt,
            kind: if plan.is_some() { api::WaitingKind::Plan } else { api::WaitingKind::Question },
            question: waiting.question.prompt,
            schema: waiting.question.schema,
            plan: plan.map(Value::Object),
            call: waiting.call.map(|call| api::HeldCall {
                tool: call.tool,
                server: call.server,
                arguments: call.arguments,
                sources: call.sources,
                why: waiting.why.unwrap_or_default(),
            }),
        });
    }
    Ok(all)
}

pub(super) fn status(status: Status) -> api::RunStatus {
    match status {
        Status::Running => api::RunStatus::Running,
        Status::Asking => api::RunStatus::Asking,
        Status::Waiting => api::RunStatus::Waiting,
        Status::Done => api::RunStatus::Done,
        Status::Failed => api::RunStatus::Failed,
        Status::Cancelled => api::RunStatus::Cancelled,
    }
}

/// Names of nodes, and bytes of each. They are part of every job and child of the run.
const BREAKPOINTS_MAX: usize = 100;
const BREAKPOINT_BYTES_MAX: usize = 200;

/// The nodes before which a run is to wait, if there are not too many.
pub fn breakpoints(nodes: Vec<String>) -> Result<Vec<String>, Problem> {
    if nodes.len() > BREAKPOINTS_MAX || nodes.iter().any(|node| node.len() > BREAKPOINT_BYTES_MAX) {
        let why =
            format!("breakpoints takes at most {BREAKPOINTS_MAX} names of nodes, each of at most {BREAKPOINT_BYTES_MAX} bytes; * is every node");
        return Err(Problem::invalid(why));
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_few_breakpoints() {
        assert_eq!(breakpoints(vec!["plan".into(), "*".into()]).unwrap().len(), 2);
        assert_eq!(breakpoints(vec!["n".into(); 101]).unwrap_err().status, 422);
        assert_eq!(breakpoints(vec!["n".repeat(201)]).unwrap_err().status, 422);
    }
}

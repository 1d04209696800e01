//! Runs: started with or without a thread, streamed, waited for, in the background, joined, cancelled, listed.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use engine::{RunState, SeenCounts, TreeWatcher, WatchScope};
use graph::{Outcome, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{RunRow, Status};
use wire::langgraph::{MultitaskStrategy, Run, RunCreate, RunStatus, StreamMode};

use super::begin::{BeginRequest, StartedTurn};
use super::records::{self, RUN};
use super::state::{conversation, named_fault, output_of, values_of};
use super::threads::Thread;
use super::{Answer, LangGraph, Query, all_of, calendar, ids, invalid, limit_of, not_found, read_or_default, stream};
use crate::guard::Identity;
use crate::langserve::{Caller, InputShape, RawJson, Refused, json_of, read};
use crate::problem::Problem;

const BATCH_MAX: usize = 100;

pub(super) fn routes() -> Router<LangGraph> {
    Router::new()
        .route("/runs", post(create_stateless))
        .route("/runs/stream", post(stream_stateless))
        .route("/runs/wait", post(wait_stateless))
        .route("/runs/batch", post(batch))
        .route("/runs/cancel", post(cancel_many))
        .route("/threads/{thread}/runs", get(list).post(create))
        .route("/threads/{thread}/runs/stream", post(streamed))
        .route("/threads/{thread}/runs/wait", post(wait))
        .route("/threads/{thread}/runs/{run}", get(show).delete(remove))
        .route("/threads/{thread}/runs/{run}/join", get(join))
        .route("/threads/{thread}/runs/{run}/stream", get(join_stream))
        .route("/threads/{thread}/runs/{run}/cancel", post(cancel))
}

/// What a client attached to a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RunRecord {
    pub(super) assistant_id: String,
    pub(super) metadata: Map<String, Value>,
    pub(super) multitask_strategy: Option<MultitaskStrategy>,
    pub(super) thread: String,
    /// The stream modes of its events, also in the stream of its thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stream_modes: Vec<StreamMode>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_subgraphs: bool,
}

/// A run that waits for a person is `success`, as LangGraph has it; its thread is `interrupted`.
fn status_of(row: &RunRow) -> RunStatus {
    match row.status {
        Status::Running => RunStatus::Running,
        Status::Asking | Status::Waiting | Status::Done => RunStatus::Success,
        Status::Failed => RunStatus::Error,
        Status::Cancelled => RunStatus::Interrupted,
    }
}

impl LangGraph {
    pub(super) async fn run_json(&self, who: &Identity, thread: &Thread, row: &RunRow) -> Result<Run, Refused> {
        let record = records::get::<RunRecord>(self.store(), &who.user, RUN, row.run.as_str()).await?.map(|stored| stored.value);
        let record = record.unwrap_or_default();
        let graph_id = self.graph_id_of(&row.flow);
        let of_graph = || ids::derived(&["assistant", graph_id]);
        Ok(Run {
            run_id: ids::shown(row.run.as_str()),
            thread_id: thread.id.clone(),
            assistant_id: if record.assistant_id.is_empty() { of_graph() } else { record.assistant_id },
            created_at: calendar::shown(row.created_ms),
            updated_at: calendar::shown(row.updated_ms),
            status: status_of(row),
            metadata: record.metadata,
            multitask_strategy: record.multitask_strategy.unwrap_or_default(),
            kwargs: Map::new(),
        })
    }

    /// The name under which a flow is served.
    fn graph_id_of<'a>(&'a self, flow: &'a str) -> &'a str {
        self.0.service.0.served.iter().find(|(_, served)| served.flow == flow).map_or(flow, |(path, _)| path)
    }

    /// A run that may not be started yet.
    async fn any_run(&self, who: &Identity, thread: &Thread, id: &str) -> Result<Run, Refused> {
        match self.run_in(thread, id).await {
            Ok(row) => self.run_json(who, thread, &row).await,
            Err(refused) => self.queued_run(who, thread, id).await?.ok_or(refused),
        }
    }

    /// The result of a run, as `wait` and `join` return it.
    pub(super) async fn outcome(&self, who: &Identity, thread_id: &str, run: &RunId, is_stateless: bool) -> Result<Value, Refused> {
        let at = self.wait_for_end(who, thread_id, run).await?;
        let thread = match is_stateless {
            false => self.thread(who, thread_id).await?,
            true => {
                let engine = graph::ThreadId::from(run.as_str());
                let row = self.store().thread(&engine).await.map_err(Problem::from)?;
                Thread { id: thread_id.to_owned(), engine, record: None, row }
            }
        };
        let row = self.store().run(run).await.map_err(Problem::from)?.ok_or_else(|| not_found("Run", run.as_str()))?;
        match at {
            RunState::Over(closing) => match &closing.outcome {
                Outcome::Done { output } => {
                    let input_shape = self.input_shape(&row.flow);
                    let more = thread.record.as_ref().map(|record| record.value.values.clone()).unwrap_or_default();
                    if input_shape == InputShape::Bare {
                        return Ok(Value::Object(values_of(input_shape, &[], Some(output), &more)));
                    }
                    let (before, own) = self.before(&thread, run, row.created_ms).await?;
                    let messages = conversation(run, input_shape, &before, &self.input_of(run).await?, &own, Some(output));
                    Ok(Value::Object(values_of(input_shape, &messages, Some(output), &more)))
                }
                Outcome::Failed { fault } => {
                    let (error, message) = named_fault(fault);
                    Ok(json!({ "__error__": { "error": error, "message": message } }))
                }
                Outcome::Cancelled { reason } => {
                    Ok(json!({ "__error__": { "error": "UserInterrupt", "message": format!("the run was cancelled: {reason}") } }))
                }
            },
            RunState::Parked(_) => {
                let mut values = self.values(&thread, Some(&row)).await?;
                let interrupts = self.interrupts(Some(&row)).await?;
                if !interrupts.is_empty() {
                    values.insert("__interrupt__".to_owned(), json!(interrupts));
                }
                Ok(Value::Object(values))
            }
            RunState::Going => Err(Refused::plain(StatusCode::SERVICE_UNAVAILABLE, "the run goes on in another process; join it")),
            RunState::Lost(error) => Err(Refused::of(error)),
        }
    }

    /// A run for those who only watch it; without a row it is queued.
    pub(super) async fn watched(&self, thread: Thread, run: RunId, row: Option<&RunRow>) -> Result<StartedTurn, Refused> {
        let flow = row.map_or("graph", |row| row.flow.as_str());
        let (before, input) = match row {
            Some(row) => (self.before(&thread, &run, row.created_ms).await?.0, self.input_of(&run).await?),
            None => (Vec::new(), Value::Null),
        };
        Ok(StartedTurn {
            input_shape: self.input_shape(flow),
            run,
            thread,
            assistant: self.built_in(self.graph_id_of(flow)),
            family: None,
            known: SeenCounts::new(),
            before,
            input,
            is_stateless: false,
            is_deleted_after: false,
            cancels_on_disconnect: false,
            is_queued: row.is_none(),
        })
    }

    /// Waits until a run is over or only a person can move it; also for one that is queued.
    async fn wait_for_end(&self, who: &Identity, thread_id: &str, run: &RunId) -> Result<RunState, Refused> {
        loop {
            match self.engine().wait(run).await {
                Ok(at) => return Ok(at),
                Err(engine::EngineError::Store(store::StoreError::NoRun { .. })) if self.is_queued(&who.user, thread_id, run).await? => {
                    tokio::time::sleep(stream::POLL).await;
                }
                Err(error) => return Err(Refused::of(error)),
            }
        }
    }

    /// Deletes what a stateless run left; one that waits for a person nobody can answer.
    pub(super) async fn discard(&self, run: &RunId) {
        let engine = graph::ThreadId::from(run.as_str());
        if let Ok(Some(row)) = self.store().run(run).await
            && !row.status.is_over()
            && let Err(refused) = self.stop(&row, "a run without a thread cannot be answered").await
        {
            tracing::warn!(%run, "a run without a thread could not be stopped: {}", refused.message());
        }
        // The lease of a run that is just over is given back a moment later.
        for _ in 0..20 {
            match self.store().delete_thread(&engine, crate::guard::now_ms()).await {
                Err(store::StoreError::Held { .. }) => tokio::time::sleep(stream::POLL).await,
                Ok(_) | Err(store::StoreError::NoThread { .. }) => break,
                Err(error) => return tracing::warn!(%run, "a run without a thread could not be deleted: {error}"),
            }
        }
        if let Some(api) = &self.0.service.0.api
            && let Err(problem) = api.0.backend.thread_deleted(&engine).await
        {
            tracing::warn!(%run, "files of a run without a thread could not be deleted: {}", problem.message);
        }
    }
}

/// Where clients find a run again, after their line broke.
pub(super) fn located(mut response: Response, started: &StartedTurn, what: &str) -> Response {
    let place = format!("/threads/{}/runs/{}", started.thread.id, ids::shown(started.run.as_str()));
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&place) {
        headers.insert(header::CONTENT_LOCATION, value);
    }
    if let (false, Ok(value)) = (started.is_deleted_after, HeaderValue::from_str(&format!("{place}/{what}"))) {
        headers.insert(header::LOCATION, value);
    }
    response
}

async fn begin(graph: &LangGraph, caller: &Caller, thread: Option<&str>, body: &[u8], is_watched: bool) -> Result<(StartedTurn, RunCreate), Refused> {
    let request: RunCreate = read(body)?;
    let started = Box::pin(graph.begin(BeginRequest { caller, thread, request: request.clone(), run: None, is_watched })).await?;
    Ok((started, request))
}

async fn create(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    background(&graph, &caller, Some(&id), &body).await
}

async fn create_stateless(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    background(&graph, &caller, None, &body).await
}

async fn background(graph: &LangGraph, caller: &Caller, thread: Option<&str>, body: &[u8]) -> Answer {
    // A client that follows it later wants the pieces of its answer.
    let (started, _) = begin(graph, caller, thread, body, true).await?;
    if let Some(family) = started.family {
        stream::expect(family);
    }
    let run = match started.is_queued {
        true => graph.queued_run(&caller.who, &started.thread, started.run.as_str()).await?,
        false => None,
    };
    let run = match run {
        Some(run) => run,
        None => {
            let row = graph.store().run(&started.run).await.map_err(Problem::from)?.ok_or_else(|| not_found("Run", started.run.as_str()))?;
            graph.run_json(&caller.who, &started.thread, &row).await?
        }
    };
    if started.is_deleted_after && !started.is_queued {
        let (graph, run) = (graph.clone(), started.run.clone());
        tokio::spawn(async move {
            let _ = graph.engine().wait(&run).await;
            graph.discard(&run).await;
        });
    }
    let mut response = json_of(StatusCode::OK, &run);
    if let Ok(place) = HeaderValue::from_str(&format!("/threads/{}/runs/{}", run.thread_id, run.run_id)) {
        response.headers_mut().insert(header::CONTENT_LOCATION, place);
    }
    Ok(response)
}

async fn wait(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    waited(&graph, &caller, Some(&id), &body).await
}

async fn wait_stateless(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    waited(&graph, &caller, None, &body).await
}

async fn waited(graph: &LangGraph, caller: &Caller, thread: Option<&str>, body: &[u8]) -> Answer {
    let (started, _) = begin(graph, caller, thread, body, false).await?;
    let mut leaving = stream::DisconnectAction::new(graph, &started.run, started.cancels_on_disconnect, started.is_deleted_after);
    let outcome = graph.outcome(&caller.who, &started.thread.id, &started.run, started.is_stateless).await;
    leaving.is_complete();
    Ok(located(json_of(StatusCode::OK, &outcome?), &started, "join"))
}

async fn streamed(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    stream_new(&graph, &caller, Some(&id), &body).await
}

async fn stream_stateless(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    stream_new(&graph, &caller, None, &body).await
}

async fn stream_new(graph: &LangGraph, caller: &Caller, thread: Option<&str>, body: &[u8]) -> Answer {
    // A client is refused before a run begins.
    let open = stream::open(graph, caller)?;
    let (started, request) = begin(graph, caller, thread, body, true).await?;
    let modes = request.stream_mode.map_or_else(|| vec![StreamMode::Values], wire::langgraph::OneOrMany::into_vec);
    stream::follow(graph, caller, started, modes, request.stream_subgraphs, None, open)
}

async fn batch(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let requests: Vec<RunCreate> = read(&body)?;
    if requests.len() > BATCH_MAX {
        return Err(invalid(format!("a batch has at most {BATCH_MAX} runs, not {}", requests.len())));
    }
    let mut runs = Vec::with_capacity(requests.len());
    for (at, request) in requests.into_iter().enumerate() {
        let mut headers = caller.headers.clone();
        // One key names every run of the batch, each by its place.
        if let Some(key) = headers.get(agents::langserve::KEY).and_then(|key| key.to_str().ok()).map(|key| format!("{key}#{at}"))
            && let Ok(key) = HeaderValue::from_str(&key)
        {
            headers.insert(agents::langserve::KEY, key);
        }
        let caller = Caller { who: caller.who.clone(), headers };
        let thread = request.thread_id.clone();
        let body = serde_json::to_vec(&request).map_err(|error| Problem::internal(&error))?;
        let response = background(&graph, &caller, thread.as_deref(), &body).await?;
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.map_err(|error| Problem::internal(&error))?;
        runs.push(serde_json::from_slice::<Value>(&body).map_err(|error| Problem::internal(&error))?);
    }
    Ok(json_of(StatusCode::OK, &runs))
}

#[derive(Deserialize)]
struct List {
    limit: Option<usize>,
    offset: Option<usize>,
    status: Option<String>,
}

async fn list(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, Query(query): Query<List>) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    let (limit, offset) = (limit_of(query.limit), query.offset.unwrap_or(0).min(super::PAGE_MAX));
    let mut runs = graph.queued_runs(&caller.who, &thread).await?;
    for row in graph.runs_of(&thread, None, limit + offset).await? {
        runs.push(graph.run_json(&caller.who, &thread, &row).await?);
    }
    let status =
        query.status.map(|status| serde_json::from_value::<RunStatus>(json!(status)).map_err(|_| invalid(format!("there is no status {status:?}"))));
    let status = status.transpose()?;
    let part: Vec<&Run> = runs.iter().filter(|run| status.is_none_or(|status| status == run.status)).skip(offset).take(limit).collect();
    Ok(json_of(StatusCode::OK, &part))
}

async fn show(State(graph): State<LangGraph>, caller: Caller, Path((id, run)): Path<(String, String)>) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &graph.any_run(&caller.who, &thread, &run).await?))
}

/// Takes a run out of its thread. One that is active is not deleted.
async fn remove(State(graph): State<LangGraph>, caller: Caller, Path((id, run)): Path<(String, String)>) -> Result<StatusCode, Refused> {
    let thread = graph.thread(&caller.who, &id).await?;
    if graph.drop_queued(&caller.who.user, &thread.id, Some(&ids::run_of(&run))).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let row = graph.run_in(&thread, &run).await?;
    if !row.status.is_over() {
        return Err(Refused::plain(StatusCode::CONFLICT, "the run is not over; cancel it first"));
    }
    graph.hide_run(&caller.who, &thread.id, &row.run).await?;
    records::remove(graph.store(), &caller.who.user, RUN, row.run.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn cancels(uri: &Uri) -> bool {
    all_of(uri, "cancel_on_disconnect").iter().any(|value| matches!(value.as_str(), "1" | "true" | "True"))
}

async fn join(State(graph): State<LangGraph>, caller: Caller, Path((id, run)): Path<(String, String)>, uri: Uri) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    graph.any_run(&caller.who, &thread, &run).await?;
    let run = ids::run_of(&run);
    let mut leaving = stream::DisconnectAction::new(&graph, &run, cancels(&uri), false);
    let outcome = graph.outcome(&caller.who, &thread.id, &run, false).await;
    leaving.is_complete();
    Ok(json_of(StatusCode::OK, &outcome?))
}

/// Names of stream modes: one, several, or a list as text.
pub(super) fn modes_of(uri: &Uri) -> Vec<String> {
    let named = all_of(uri, "stream_mode");
    named.iter().flat_map(|modes| modes.split(',')).map(|mode| mode.trim().trim_matches(['[', ']', '"', '\'']).to_owned()).collect()
}

pub(super) const OTHER_POSITION: &str = "Last-Event-ID is none of this server's; send -1 to start from the first event";

async fn join_stream(
    State(graph): State<LangGraph>,
    caller: Caller,
    Path((id, run)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let open = stream::open(&graph, &caller)?;
    let thread = graph.thread(&caller.who, &id).await?;
    graph.any_run(&caller.who, &thread, &run).await?;
    let run = ids::run_of(&run);
    let from = match headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::trim) {
        None | Some("" | "-1" | "0") => None,
        Some(id) => Some(stream::StreamPosition::parse(id).ok_or_else(|| invalid(OTHER_POSITION))?),
    };
    let modes = modes_of(&uri)
        .into_iter()
        .map(|mode| serde_json::from_value::<StreamMode>(json!(mode)).map_err(|_| invalid(format!("there is no stream mode {mode:?}"))));
    let mut modes = modes.collect::<Result<Vec<_>, _>>()?;
    if modes.is_empty() {
        modes.push(StreamMode::Values);
    }
    let family = TreeWatcher::watch(graph.engine(), &thread.engine, &run, SeenCounts::new(), WatchScope::All);
    let row = graph.store().run(&run).await.map_err(Problem::from)?;
    let started = graph.watched(thread, run, row.as_ref()).await?;
    let started = StartedTurn { family: Some(family), cancels_on_disconnect: cancels(&uri), ..started };
    stream::follow(&graph, &caller, started, modes, false, from, open)
}

#[derive(Deserialize)]
struct Cancel {
    wait: Option<String>,
    action: Option<String>,
}

async fn cancel(State(graph): State<LangGraph>, caller: Caller, Path((id, run)): Path<(String, String)>, Query(query): Query<Cancel>) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    let is_rollback = rolls_back(query.action.as_deref())?;
    let waits = query.wait.as_deref().is_some_and(|wait| !matches!(wait, "" | "0" | "false"));
    cancelled(&graph, &caller.who, &thread, &ids::run_of(&run), is_rollback, waits).await?;
    Ok(match waits {
        true => StatusCode::NO_CONTENT.into_response(),
        false => json_of(StatusCode::ACCEPTED, &json!({})),
    })
}

fn rolls_back(action: Option<&str>) -> Result<bool, Refused> {
    match action {
        None | Some("interrupt") => Ok(false),
        Some("rollback") => Ok(true),
        Some(other) => Err(invalid(format!("there is no action {other:?}; there are interrupt and rollback"))),
    }
}

async fn cancelled(graph: &LangGraph, who: &Identity, thread: &Thread, run: &RunId, is_rollback: bool, waits: bool) -> Result<(), Refused> {
    if graph.drop_queued(&who.user, &thread.id, Some(run)).await? {
        return Ok(());
    }
    let row = graph.run_in(thread, run.as_str()).await?;
    if row.status.is_over() && !is_rollback {
        return Err(Refused::plain(StatusCode::CONFLICT, "the run is over"));
    }
    match waits || is_rollback {
        true => graph.stop(&row, "cancelled by its client").await?,
        false => drop(graph.engine().cancel(&row.run, "cancelled by its client").await.map_err(Refused::of)?),
    }
    if is_rollback {
        graph.hide_run(who, &thread.id, run).await?;
    }
    Ok(())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CancelMany {
    thread_id: Option<String>,
    run_ids: Option<Vec<String>>,
    status: Option<String>,
}

async fn cancel_many(State(graph): State<LangGraph>, caller: Caller, Query(query): Query<Cancel>, RawJson(body): RawJson) -> Answer {
    let body: CancelMany = read_or_default(&body)?;
    let is_rollback = rolls_back(query.action.as_deref())?;
    let Some(id) = body.thread_id else {
        return Err(invalid("name the thread with thread_id: runs are cancelled by thread here"));
    };
    if body.status.as_deref().is_some_and(|status| !matches!(status, "pending" | "running" | "all")) {
        return Err(invalid("status is pending, running or all"));
    }
    let thread = graph.thread(&caller.who, &id).await?;
    let runs: Vec<RunId> = match body.run_ids {
        Some(runs) if runs.len() <= super::PAGE_MAX => runs.iter().map(|run| ids::run_of(run)).collect(),
        Some(_) => return Err(invalid(format!("at most {} runs are cancelled at once", super::PAGE_MAX))),
        None => {
            let going = graph.runs_of(&thread, None, super::PAGE_MAX).await?.into_iter().filter(|row| !row.status.is_over()).map(|row| row.run);
            graph.queued_runs(&caller.who, &thread).await?.iter().map(|run| ids::run_of(&run.run_id)).chain(going).collect()
        }
    };
    for run in &runs {
        match cancelled(&graph, &caller.who, &thread, run, is_rollback, false).await {
            Ok(()) => {}
            Err(refused) if refused.status == StatusCode::CONFLICT => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The values of a run that is over, for the message about its end.
pub(super) async fn ended(graph: &LangGraph, who: &Identity, thread: &Thread, row: &RunRow) -> Result<Value, Refused> {
    let mut body = serde_json::to_value(graph.run_json(who, thread, row).await?).map_err(|error| Problem::internal(&error))?;
    body["values"] = Value::Object(graph.values(thread, Some(row)).await?);
    body["error"] = json!(super::state::fault_of(row).map(|(_, message)| message));
    body["output"] = output_of(row).unwrap_or_default();
    Ok(body)
}

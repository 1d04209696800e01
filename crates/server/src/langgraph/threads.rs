//! Threads: a conversation of Baton, and the document that LangGraph's clients attach to it.

use audit::{Event, EventKind};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use graph::{RunId, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{RunFilter, RunRow, Status, StoreError, ThreadRow};
use wire::langgraph::ThreadStatus;
use wire::langserve::Message;

use super::records::{self, StoredRecord, THREAD};
use super::{Answer, LangGraph, calendar, check_metadata, ids, invalid, merged, not_found, read_or_default, search};
use crate::api::thread_named;
use crate::guard::{Identity, now_ms};
use crate::langserve::{Caller, RawJson, Refused, json_of};
use crate::problem::Problem;

/// Runs that were rolled back and are remembered as such, of one thread.
const HIDDEN_MAX: usize = 200;
/// Of a run in a list.
const OUTCOME_BYTES_MAX: usize = 16 << 10;

pub(super) fn routes() -> Router<LangGraph> {
    Router::new()
        .route("/threads", post(create))
        .route("/threads/search", post(search::threads))
        .route("/threads/count", post(search::count_threads))
        .route("/threads/prune", post(prune))
        .route("/threads/{thread}", get(show).patch(change).delete(remove))
        .route("/threads/{thread}/copy", post(copy))
}

/// What is kept of a thread beside its conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ThreadRecord {
    /// Its name in the engine.
    pub(super) thread: String,
    pub(super) metadata: Map<String, Value>,
    pub(super) config: Map<String, Value>,
    pub(super) branch: Option<Branch>,
    /// Runs that were rolled back.
    pub(super) hidden: Vec<RunId>,
    /// Fields of the state that a client set beside the messages.
    pub(super) values: Map<String, Value>,
}

/// A state that a client made: from there on the conversation is this, and the messages since.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Branch {
    pub(super) checkpoint: String,
    pub(super) messages: Vec<Message>,
    /// The first message of the thread that follows it.
    pub(super) since_seq: u64,
    pub(super) at_ms: i64,
}

pub(super) struct Thread {
    pub(super) id: String,
    pub(super) engine: ThreadId,
    pub(super) record: Option<StoredRecord<ThreadRecord>>,
    pub(super) row: Option<ThreadRow>,
}

impl Thread {
    pub(super) fn is_hidden(&self, run: &RunId) -> bool {
        self.record.as_ref().is_some_and(|record| record.value.hidden.contains(run))
    }

    pub(super) fn branch(&self) -> Option<&Branch> {
        self.record.as_ref()?.value.branch.as_ref()
    }

    /// A copy of its record, to be changed and stored.
    pub(super) fn stored(&self) -> ThreadRecord {
        let stored = self.record.as_ref().map(|record| record.value.clone()).unwrap_or_default();
        ThreadRecord { thread: self.engine.to_string(), ..stored }
    }

    fn created_ms(&self) -> i64 {
        let (record, row) = (self.record.as_ref().map(|record| record.created_ms), self.row.as_ref().map(|row| row.created_ms));
        record.into_iter().chain(row).min().unwrap_or_default()
    }

    pub(super) fn updated_ms(&self) -> i64 {
        let (record, row) = (self.record.as_ref().map(|record| record.updated_ms), self.row.as_ref().map(|row| row.updated_ms));
        record.into_iter().chain(row).max().unwrap_or_default()
    }
}

pub(super) fn status_of(head: Option<&RunRow>) -> ThreadStatus {
    match head.map(|head| head.status) {
        None | Some(Status::Done | Status::Cancelled) => ThreadStatus::Idle,
        Some(Status::Running) => ThreadStatus::Busy,
        Some(Status::Asking | Status::Waiting) => ThreadStatus::Interrupted,
        Some(Status::Failed) => ThreadStatus::Error,
    }
}

impl LangGraph {
    /// A thread of the caller's; nobody else's exists.
    pub(super) async fn find_thread(&self, who: &Identity, id: &str) -> Result<Option<Thread>, Refused> {
        let id = ids::shown(id);
        let record = records::get::<ThreadRecord>(self.store(), &who.user, THREAD, &id).await?;
        let engine = match &record {
            Some(record) => ThreadId::from(record.value.thread.as_str()),
            None => thread_named(self.engine(), who, &ids::digits(&id).unwrap_or_else(|| id.clone())).await?,
        };
        let row = self.store().thread(&engine).await.map_err(Problem::from)?.filter(|row| row.user.as_ref() == Some(&who.user));
        Ok((record.is_some() || row.is_some()).then_some(Thread { id, engine, record, row }))
    }

    pub(super) async fn thread(&self, who: &Identity, id: &str) -> Result<Thread, Refused> {
        self.find_thread(who, id).await?.ok_or_else(|| not_found("Thread", id))
    }

    pub(super) async fn keep_thread(&self, who: &Identity, id: &str, stored: &ThreadRecord) -> Result<(), Refused> {
        Ok(records::put(self.store(), &who.user, THREAD, id, stored).await?)
    }

    /// A new thread, under an id of the client's or a new one.
    pub(super) async fn make_thread(&self, who: &Identity, id: Option<&str>, stored: ThreadRecord) -> Result<Thread, Refused> {
        if let Some(api) = &self.0.service.0.api {
            api.check_storage(&who.user).await?;
        }
        let id = id.map_or_else(|| ids::shown(engine::new_run_id().as_str()), ids::shown);
        let engine = thread_named(self.engine(), who, &ids::digits(&id).unwrap_or_else(|| id.clone())).await?;
        self.keep_thread(who, &id, &ThreadRecord { thread: engine.to_string(), ..stored }).await?;
        self.thread(who, &id).await
    }

    /// Its newest run that was not rolled back.
    pub(super) async fn head(&self, thread: &Thread) -> Result<Option<RunRow>, Refused> {
        if thread.row.is_none() {
            return Ok(None);
        }
        match self.runs_of(thread, None, 1).await?.pop() {
            Some(head) => Ok(Some(self.whole(head).await?)),
            None => Ok(None),
        }
    }

    /// A run out of a list, with its outcome however long that is.
    pub(super) async fn whole(&self, row: RunRow) -> Result<RunRow, Refused> {
        if !row.status.is_over() || row.outcome.is_some() {
            return Ok(row);
        }
        Ok(self.store().run(&row.run).await.map_err(Problem::from)?.unwrap_or(row))
    }

    /// Newest first, without long outcomes: a list of many of those would not fit into memory. The runs that other runs started are not among them.
    pub(super) async fn runs_of(&self, thread: &Thread, before: Option<&RunId>, limit: usize) -> Result<Vec<RunRow>, Refused> {
        let hidden = thread.record.as_ref().map_or(0, |record| record.value.hidden.len());
        let filter = RunFilter {
            thread: Some(thread.engine.clone()),
            roots_only: true,
            before: before.cloned(),
            limit: limit + hidden,
            outcome_bytes_max: Some(OUTCOME_BYTES_MAX),
            ..RunFilter::default()
        };
        let mut rows = self.store().runs(filter).await.map_err(Problem::from)?;
        rows.retain(|row| !thread.is_hidden(&row.run));
        rows.truncate(limit);
        Ok(rows)
    }

    pub(super) async fn delete_thread(&self, who: &Identity, thread: &Thread) -> Result<(), Refused> {
        self.drop_queued(&who.user, &thread.id, None).await?;
        if thread.row.is_some() {
            match self.store().delete_thread(&thread.engine, now_ms()).await {
                Ok(_) | Err(StoreError::NoThread { .. }) => {}
                Err(StoreError::Held { .. }) => {
                    return Err(Refused::plain(StatusCode::CONFLICT, "a run is active in this thread; cancel it first"));
                }
                Err(error) => return Err(Problem::from(error).into()),
            }
            if let Some(api) = &self.0.service.0.api {
                api.0.feed.gone(&who.user, &thread.engine);
                api.0.backend.thread_deleted(&thread.engine).await?;
                api.0.guard.record(Event::new(EventKind::ThreadDeleted, who.user.as_str()).thread(thread.engine.as_str())).await?;
            }
        }
        records::remove(self.store(), &who.user, THREAD, &thread.id).await?;
        Ok(())
    }

    /// Takes a run back: it was cancelled before, and its messages are removed from the conversation.
    pub(super) async fn hide_run(&self, who: &Identity, id: &str, run: &RunId) -> Result<(), Refused> {
        let mut stored = self.thread(who, id).await?.stored();
        if !stored.hidden.contains(run) {
            stored.hidden.push(run.clone());
        }
        let too_many = stored.hidden.len().saturating_sub(HIDDEN_MAX);
        stored.hidden.drain(..too_many);
        self.keep_thread(who, id, &stored).await
    }

    pub(super) async fn thread_json(&self, thread: &Thread) -> Result<Value, Refused> {
        let head = self.head(thread).await?;
        let stored = thread.record.as_ref().map(|record| &record.value);
        let interrupts = self.interrupts(head.as_ref()).await?;
        let by_task: Map<String, Value> = match (&head, interrupts.is_empty()) {
            (Some(head), false) => Map::from_iter([(ids::shown(head.run.as_str()), json!(interrupts))]),
            _ => Map::new(),
        };
        let values = self.values(thread, head.as_ref()).await?;
        let updated = calendar::shown(thread.updated_ms());
        Ok(json!({
            "thread_id": thread.id,
            "created_at": calendar::shown(thread.created_ms()),
            "updated_at": updated,
            "state_updated_at": updated,
            "metadata": stored.map(|stored| stored.metadata.clone()).unwrap_or_default(),
            "config": stored.map(|stored| stored.config.clone()).unwrap_or_default(),
            "status": status_of(head.as_ref()),
            "values": if head.is_none() && values.is_empty() { Value::Null } else { Value::Object(values) },
            "interrupts": by_task,
            "error": head.as_ref().and_then(super::state::fault_of).map(|(_, message)| message),
        }))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Create {
    thread_id: Option<String>,
    metadata: Option<Map<String, Value>>,
    if_exists: Option<String>,
    supersteps: Option<Vec<Superstep>>,
}

#[derive(Deserialize)]
struct Superstep {
    updates: Vec<Update>,
}

#[derive(Deserialize)]
struct Update {
    values: Option<Value>,
}

async fn create(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let Create { thread_id, metadata, if_exists, supersteps } = read_or_default(&body)?;
    let metadata = metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    if let Some(id) = &thread_id
        && let Some(thread) = graph.find_thread(&caller.who, id).await?
    {
        return match if_exists.as_deref() {
            Some("do_nothing") => Ok(json_of(StatusCode::OK, &graph.thread_json(&thread).await?)),
            _ => Err(Refused::plain(StatusCode::CONFLICT, format!("Thread {id:?} already exists"))),
        };
    }
    let mut thread = graph.make_thread(&caller.who, thread_id.as_deref(), ThreadRecord { metadata, ..ThreadRecord::default() }).await?;
    // All at once: each of them would write the whole document again, and a request has room for many.
    let mut updates = Vec::new();
    for values in supersteps.into_iter().flatten().flat_map(|step| step.updates).filter_map(|update| update.values) {
        match values {
            Value::Array(all) => updates.extend(all),
            one => updates.push(one),
        }
    }
    if !updates.is_empty() {
        graph.update_state(&caller.who, &thread, Value::Array(updates), None).await?;
        thread = graph.thread(&caller.who, &thread.id).await?;
    }
    Ok(json_of(StatusCode::OK, &graph.thread_json(&thread).await?))
}

async fn show(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &graph.thread_json(&thread).await?))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Change {
    metadata: Option<Map<String, Value>>,
}

async fn change(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let change: Change = read_or_default(&body)?;
    let thread = graph.thread(&caller.who, &id).await?;
    let mut stored = thread.stored();
    stored.metadata = merged(stored.metadata, change.metadata.unwrap_or_default());
    check_metadata(&stored.metadata)?;
    graph.keep_thread(&caller.who, &thread.id, &stored).await?;
    let thread = graph.thread(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &graph.thread_json(&thread).await?))
}

async fn remove(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    let thread = graph.thread(&caller.who, &id).await?;
    graph.delete_thread(&caller.who, &thread).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A new thread with the same conversation; runs stay with the old one.
async fn copy(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    let head = graph.head(&thread).await?;
    let stored = graph.as_branch(&thread, head.as_ref()).await?;
    let copied = graph.make_thread(&caller.who, None, stored).await?;
    Ok(json_of(StatusCode::OK, &graph.thread_json(&copied).await?))
}

#[derive(Deserialize)]
struct Prune {
    thread_ids: Vec<String>,
    strategy: Option<String>,
}

const PRUNED_MAX: usize = 1_000;

async fn prune(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let Prune { thread_ids, strategy } = crate::langserve::read(&body)?;
    if thread_ids.len() > PRUNED_MAX {
        return Err(invalid(format!("at most {PRUNED_MAX} threads are pruned at once, not {}", thread_ids.len())));
    }
    let keeps_latest = match strategy.as_deref() {
        None | Some("delete") => false,
        Some("keep_latest") => true,
        Some(other) => return Err(invalid(format!("there is no strategy {other:?}; there are delete and keep_latest"))),
    };
    let mut pruned = 0;
    for id in &thread_ids {
        let Some(thread) = graph.find_thread(&caller.who, id).await? else { continue };
        let head = graph.head(&thread).await?;
        let latest = if keeps_latest { Some(graph.as_branch(&thread, head.as_ref()).await?) } else { None };
        graph.delete_thread(&caller.who, &thread).await?;
        if let Some(latest) = latest {
            graph.keep_thread(&caller.who, &thread.id, &ThreadRecord { thread: thread.engine.to_string(), ..latest }).await?;
        }
        pruned += 1;
    }
    Ok(json_of(StatusCode::OK, &json!({ "pruned_count": pruned })))
}

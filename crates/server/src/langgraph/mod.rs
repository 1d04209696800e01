//! LangGraph's server API over Baton's flows, as `langgraph-sdk`, `RemoteGraph` and `useStream` use it.
//!
//! ```text
//! /ok  /info                                            /assistants…      each flow is an assistant; users add configured ones
//! /threads…  state, history, copy, prune, stream        /runs…  /threads/{id}/runs…   stream, wait, background, join, cancel, batch
//! /runs/crons…  /threads/{id}/runs/crons                /store/items…  /store/namespaces
//! ```
//!
//! A thread is a conversation of Baton and a run one of its runs, under the same id with dashes. What LangGraph keeps beside them (metadata, assistants,
//! crons, queued runs, items) are documents of the store ([`records`]).
//!
//! | of a run | LangGraph |
//! |---|---|
//! | the messages | `messages` of the state; the flow's own output is `output` beside it |
//! | a step | a node of `updates`, `tasks`, `debug`, and a checkpoint |
//! | `interrupt_before`, `interrupt_after` | breakpoints; a run without input goes on from one |
//! | `Command(goto=…)` | a run that goes on at that node, as a fork |
//! | a question to a person | `__interrupt__`; `Command(resume=…)` answers it, and the same run goes on |
//! | a note of a flow | `custom` |
//! | a child run | a subgraph: `mode|node:run` |
//!
//! Runs are started, limited and counted as LangServe's are ([`crate::langserve`]); refusals are LangGraph's `{"detail": …}`. What the engine cannot do is
//! refused with 422; `guide/src/limits.md` lists it.

mod assistants;
mod begin;
pub(crate) mod calendar;
mod crons;
mod drawing;
mod frames;
mod goto;
mod ids;
mod interrupts;
mod items;
mod records;
pub(crate) use records::KINDS as RECORD_KINDS;
mod resume;
mod runs;
mod schedule;
mod search;
mod state;
mod state_api;
mod stream;
mod thread_stream;
mod threads;
mod webhook;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use engine::Engine;
use graph::ThreadId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::Store;
use tokio::sync::{Notify, OwnedMutexGuard, OwnedSemaphorePermit};

use crate::api::params;
use crate::guard::{Identity, now_ms};
use crate::langserve::{Refused, Service, json_of};
use crate::problem::Problem;
use crate::traced::traced;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct LangGraph(Arc<Inner>);

pub(crate) struct Inner {
    service: Service,
    began_ms: i64,
    /// Held while it is decided what a new run in a thread follows from.
    locks: Mutex<HashMap<ThreadId, Weak<tokio::sync::Mutex<()>>>>,
    /// There may be a run to begin.
    due: Notify,
    webhooks: webhook::Deliveries,
    open_streams: thread_stream::OpenStreams,
}

type Answer = Result<Response, Refused>;

/// The routes, and the task that begins queued runs and crons for as long as they are served.
pub(crate) fn routes(service: &Service) -> Router {
    let webhooks = webhook::Deliveries::new(crate::outbound::AT_ONCE_MAX);
    let graph = LangGraph(Arc::new(Inner {
        service: service.clone(),
        began_ms: now_ms(),
        locks: Mutex::default(),
        due: Notify::new(),
        webhooks,
        open_streams: thread_stream::OpenStreams::default(),
    }));
    schedule::spawn(&graph);
    Router::new()
        .route("/ok", get(ok))
        .route("/info", get(info))
        .merge(assistants::routes())
        .merge(threads::routes())
        .merge(state_api::routes())
        .merge(runs::routes())
        .merge(thread_stream::routes())
        .merge(crons::routes())
        .merge(items::routes())
        .layer(from_fn(traced))
        .with_state(graph)
}

/// Paths that begin so are LangGraph's, and what is refused there is refused in its form.
pub(crate) const PREFIXES: [&str; 6] = ["/assistants", "/threads", "/runs", "/store", "/info", "/ok"];

/// An error before a route was reached, in LangGraph's form.
pub(crate) fn error(problem: &Problem) -> Response {
    Refused::from(problem.clone()).into_response()
}

async fn ok() -> Response {
    json_of(StatusCode::OK, &json!({ "ok": true }))
}

async fn info() -> Response {
    let flags = json!({ "assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false });
    json_of(StatusCode::OK, &json!({ "version": env!("CARGO_PKG_VERSION"), "server": "baton", "flags": flags, "host": { "kind": "self-hosted" } }))
}

impl LangGraph {
    fn engine(&self) -> &Engine {
        &self.0.service.0.engine
    }

    fn store(&self) -> &dyn Store {
        &**self.engine().store()
    }

    /// A place for reading a list of a user, which is in memory for as long as it is held.
    async fn listing(&self, who: &Identity) -> Result<Option<OwnedSemaphorePermit>, Refused> {
        let Some(api) = &self.0.service.0.api else { return Ok(None) };
        Ok(Some(api.0.quota.listing(&who.user).await?))
    }

    /// One at a time decides what happens next in a thread.
    async fn lock(&self, thread: &ThreadId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(thread).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(thread.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

/// The query of an address, refused in LangGraph's form.
struct Query<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let params::QueryParams(query) = params::QueryParams::from_request_parts(parts, state).await?;
        Ok(Query(query))
    }
}

/// Every value of a name in a query; clients repeat a name for a list.
fn all_of(uri: &axum::http::Uri, name: &str) -> Vec<String> {
    let pairs: Vec<(String, String)> = axum::extract::Query::try_from_uri(uri).map(|axum::extract::Query(pairs)| pairs).unwrap_or_default();
    pairs.into_iter().filter(|(key, _)| key == name).map(|(_, value)| value).collect()
}

/// A body that may be left out.
fn read_or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Refused> {
    match body.trim_ascii().is_empty() {
        true => Ok(T::default()),
        false => crate::langserve::read(body),
    }
}

fn not_found(what: &str, id: &str) -> Refused {
    let shown: String = id.chars().take(100).collect();
    Refused::plain(StatusCode::NOT_FOUND, format!("{what} {shown:?} not found"))
}

fn invalid(message: impl Into<String>) -> Refused {
    Refused::plain(StatusCode::UNPROCESSABLE_ENTITY, message)
}

/// Whether a document has every field of a filter, at any depth.
fn contains(document: &serde_json::Map<String, Value>, filter: &serde_json::Map<String, Value>) -> bool {
    let fits = |found: &Value, wanted: &Value| match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => contains(found, wanted),
        (found, wanted) => found == wanted,
    };
    filter.iter().all(|(name, wanted)| document.get(name).is_some_and(|found| fits(found, wanted)))
}

/// A merge of fields, one level deep, as LangGraph merges metadata.
fn merged(mut old: serde_json::Map<String, Value>, new: serde_json::Map<String, Value>) -> serde_json::Map<String, Value> {
    old.extend(new);
    old
}

/// Documents that clients attach to threads, runs and assistants.
const METADATA_BYTES_MAX: usize = 64 << 10;

fn check_metadata(metadata: &serde_json::Map<String, Value>) -> Result<(), Refused> {
    let bytes = serde_json::to_string(metadata).map_or(0, |text| text.len());
    match bytes <= METADATA_BYTES_MAX {
        true => Ok(()),
        false => Err(invalid(format!("metadata has {bytes} bytes, more than the {METADATA_BYTES_MAX} allowed"))),
    }
}

/// A part of a list, with the number of all in the header that clients read.
fn page(all: usize, part: &impl serde::Serialize) -> Response {
    let mut response = json_of(StatusCode::OK, part);
    response.headers_mut().insert("x-pagination-total", all.into());
    response
}

/// One page of what was found, in the order in which it was found.
fn page_of(found: &[Value], offset: Option<usize>, limit: Option<usize>) -> Response {
    let part: Vec<&Value> = found.iter().skip(offset.unwrap_or(0)).take(limit_of(limit)).collect();
    page(found.len(), &part)
}

/// How many a client gets at once, by default and at most.
const PAGE: usize = 10;
const PAGE_MAX: usize = 1_000;

fn limit_of(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE).clamp(1, PAGE_MAX)
}

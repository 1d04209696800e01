//! Runs that begin later: put off, behind another run of their thread, or by the schedule of a cron.
//!
//! They are documents of the store, so they survive a restart. One task looks for what is due. A run has its id before it begins and a cron's run has one that
//! follows from its time, so what began just before a crash, or in another process, does not begin twice.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use graph::{RunId, UserId};
use serde::{Deserialize, Serialize};
use store::Status;
use wire::langgraph::{Run, RunCreate, RunStatus};

use super::begin::{BeginRequest, StartedTurn};
use super::crons;
use super::records::{self, Pages, QUEUED, StoredRecord};
use super::threads::Thread;
use super::{LangGraph, calendar, ids, invalid, stream, webhook};
use crate::guard::{Identity, now_ms};
use crate::langserve::{Caller, Refused};

/// How long after the last look it is looked again, with something queued and without.
const BUSY: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_secs(2);
/// Runs that may wait in one thread.
const QUEUED_MAX: usize = 100;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Queued {
    run: RunId,
    /// As its client knows it; empty for a run that makes its own.
    thread: String,
    is_stateless: bool,
    is_operator: bool,
    depth: Option<String>,
    due_ms: i64,
    request: RunCreate,
}

/// Looks for what is due for as long as the routes are served.
pub(super) fn spawn(graph: &LangGraph) {
    let inner = std::sync::Arc::downgrade(&graph.0);
    tokio::spawn(run_schedule(inner));
}

async fn run_schedule(inner: Weak<super::Inner>) {
    if let Some(inner) = inner.upgrade() {
        webhook::recover(&LangGraph(inner)).await;
    }
    loop {
        let Some(graph) = inner.upgrade().map(LangGraph) else { return };
        let has_more = match Box::pin(start_due(&graph)).await {
            Ok(has_more) => has_more,
            Err(refused) => {
                tracing::debug!("queued runs could not be looked at: {}", refused.message());
                false
            }
        };
        let pause = if has_more { BUSY } else { IDLE };
        let _ = tokio::time::timeout(pause, graph.0.due.notified()).await;
    }
}

/// Begins what is due. Returns whether something waits for another run to end.
async fn start_due(graph: &LangGraph) -> Result<bool, Refused> {
    Box::pin(crons::begin_due(graph)).await?;
    let mut has_more = false;
    let mut seen = BTreeSet::new();
    let mut pages = Pages::<Queued>::of(QUEUED);
    while let Some(page) = pages.next(graph.store()).await? {
        for stored in &page {
            has_more |= Box::pin(look_at(graph, stored, &mut seen)).await.unwrap_or_else(|refused| {
                // It is looked at again; the others must not wait for it.
                tracing::debug!(run = %stored.value.run, "a queued run could not be looked at: {}", refused.message());
                false
            });
        }
    }
    Ok(has_more)
}

/// Returns whether this one waits for another run to end.
async fn look_at(graph: &LangGraph, stored: &StoredRecord<Queued>, seen: &mut BTreeSet<(UserId, String)>) -> Result<bool, Refused> {
    // Keys are in the order in which they were queued; of a thread only the first may begin.
    let is_first = stored.value.is_stateless || stored.value.due_ms > 0 || seen.insert((stored.user.clone(), stored.value.thread.clone()));
    if stored.value.due_ms > now_ms() {
        return Ok(stored.value.due_ms - now_ms() < 2 * IDLE.as_millis() as i64);
    }
    match is_first {
        true => Box::pin(begin(graph, stored)).await.map(|has_begun| !has_begun),
        false => Ok(true),
    }
}

/// Begins one if its thread is free. What cannot begin at all is dropped, with the reason in the log.
async fn begin(graph: &LangGraph, stored: &StoredRecord<Queued>) -> Result<bool, Refused> {
    let Queued { run, thread, is_stateless, is_operator, depth, request, .. } = &stored.value;
    let who = Identity { user: stored.user.clone(), is_operator: *is_operator };
    if !is_stateless
        && let Some(found) = graph.find_thread(&who, thread).await?
        && graph.head(&found).await?.is_some_and(|head| head.status == Status::Running && head.run != *run)
    {
        return Ok(false);
    }
    let mut headers = HeaderMap::new();
    if let Some(depth) = depth.as_deref().and_then(|depth| HeaderValue::from_str(depth).ok()) {
        headers.insert(agents::langserve::DEPTH, depth);
    }
    let caller = Caller { who, headers };
    let thread_id = (!is_stateless).then_some(thread.as_str());
    let has_begun = graph.store().run(run).await.map_err(crate::problem::Problem::from)?.is_some();
    if !has_begun {
        let wanted = BeginRequest { caller: &caller, thread: thread_id, request: request.clone(), run: Some(run.clone()), is_watched: true };
        match Box::pin(graph.begin(wanted)).await {
            Ok(started) => {
                if let Some(family) = started.family {
                    stream::expect(family);
                }
                if started.is_deleted_after {
                    let (graph, run) = (graph.clone(), run.clone());
                    tokio::spawn(async move {
                        let _ = graph.engine().wait(&run).await;
                        graph.discard(&run).await;
                    });
                }
            }
            // No place at the moment: tried again.
            Err(refused) if refused.status.as_u16() == 429 || refused.status.as_u16() == 503 => return Ok(false),
            Err(refused) => tracing::warn!(%run, user = %stored.user, "a queued run could not begin: {}", refused.message()),
        }
    }
    records::remove(graph.store(), &stored.user, QUEUED, &stored.key).await?;
    Ok(true)
}

impl LangGraph {
    pub(super) async fn enqueue(&self, caller: &Caller, started: &StartedTurn, request: RunCreate, due_ms: i64) -> Result<(), Refused> {
        let prefix = prefix(&started.thread.id);
        if self.queued(&caller.who.user, &started.thread.id).await?.len() >= QUEUED_MAX {
            return Err(invalid(format!("{QUEUED_MAX} runs wait in this thread already; wait for some, or cancel some")));
        }
        let depth = caller.headers.get(agents::langserve::DEPTH).and_then(|depth| depth.to_str().ok()).map(str::to_owned);
        let queued = Queued {
            run: started.run.clone(),
            thread: started.thread.id.clone(),
            is_stateless: started.is_stateless,
            is_operator: caller.who.is_operator,
            depth,
            due_ms,
            request: RunCreate { after_seconds: None, ..request },
        };
        let key = format!("{prefix}{:016}-{}", now_ms(), started.run);
        records::put(self.store(), &caller.who.user, QUEUED, &key, &queued).await?;
        self.0.due.notify_one();
        Ok(())
    }

    async fn queued(&self, user: &UserId, thread: &str) -> Result<Vec<StoredRecord<Queued>>, Refused> {
        Ok(records::list(self.store(), user, QUEUED, &prefix(thread)).await?)
    }

    /// Whether runs wait behind others in a thread.
    pub(super) async fn has_queued(&self, user: &UserId, thread: &str) -> Result<bool, Refused> {
        Ok(self.queued(user, thread).await?.iter().any(|stored| stored.value.due_ms == 0))
    }

    pub(super) async fn is_queued(&self, user: &UserId, thread: &str, run: &RunId) -> Result<bool, Refused> {
        Ok(self.queued(user, thread).await?.iter().any(|stored| stored.value.run == *run))
    }

    /// Takes runs out of the queue: one, or all of a thread. Returns whether there were any.
    pub(super) async fn drop_queued(&self, user: &UserId, thread: &str, run: Option<&RunId>) -> Result<bool, Refused> {
        let mut was_there = false;
        for stored in self.queued(user, thread).await? {
            if run.is_none_or(|run| *run == stored.value.run) {
                was_there |= records::remove(self.store(), user, QUEUED, &stored.key).await?;
            }
        }
        Ok(was_there)
    }

    pub(super) async fn queued_runs(&self, who: &Identity, thread: &Thread) -> Result<Vec<Run>, Refused> {
        let shown = |stored: StoredRecord<Queued>| {
            let Queued { run, request, .. } = stored.value;
            Run {
                run_id: ids::shown(run.as_str()),
                thread_id: thread.id.clone(),
                assistant_id: request.assistant_id,
                created_at: calendar::shown(stored.created_ms),
                updated_at: calendar::shown(stored.updated_ms),
                status: RunStatus::Pending,
                metadata: request.metadata,
                multitask_strategy: request.multitask_strategy.unwrap_or_default(),
                kwargs: serde_json::Map::new(),
            }
        };
        Ok(self.queued(&who.user, &thread.id).await?.into_iter().rev().map(shown).collect())
    }

    pub(super) async fn queued_run(&self, who: &Identity, thread: &Thread, id: &str) -> Result<Option<Run>, Refused> {
        let id = ids::shown(id);
        Ok(self.queued_runs(who, thread).await?.into_iter().find(|run| run.run_id == id))
    }
}

fn prefix(thread: &str) -> String {
    format!("{thread}/")
}

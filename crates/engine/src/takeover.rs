//! Taking up a run whose process ended. A run that ends its process every time would end the next one too, so every takeover is counted in the store
//! until the run leaves memory in order. After `Settings::takeovers_max` in a row without a new journal line the run is ended as crashed; the others go on.
//!
//! ```text
//!   lease ─► count in the store ─► open and drive ─► left memory in order ─► count removed
//!                 │ too many                 │ the process ends
//!                 └─► failed, reported       └─► the next process counts one more
//! ```
//!
//! From the third takeover on, suspects are driven one at a time, so that the count of a run that did nothing wrong does not grow with that of the one
//! that did.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use graph::{Fault, Outcome, RunId, Usage, UserId};
use serde::{Deserialize, Serialize};
use store::{Commit, NewRecord, RecordFilter, RunFilter, RunRow, Status, Store, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::open::Pages;
use crate::{Engine, EngineError, Inner, Result, RunResult, RunState};

/// The kind of the records.
pub const KIND: &str = "takeover";
/// Takeovers in a row after which a run is driven without other suspects beside it.
const SUSPECT_FROM: u32 = 3;
/// How long a suspect keeps the others waiting.
const ALONE_MAX: Duration = Duration::from_secs(30);
/// The newest runs of one thread, which are looked at for progress.
const THREAD_RUNS_MAX: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
struct Count {
    takeovers: u32,
    /// When the thread's runs last wrote something.
    progress_ms: i64,
    /// Set when the run was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    given_up_ms: Option<i64>,
}

/// A takeover that is counted.
struct TakeoverSlot {
    user: UserId,
    /// Held by a suspect, which is driven without others beside it.
    alone: Option<OwnedSemaphorePermit>,
}

/// A run that was ended because it ended its process again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedRun {
    /// The run; `Engine::resume` tries it again.
    pub run: RunId,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// The runs that were failed after too many takeovers and not resumed since, at most `limit`.
pub async fn abandoned_runs(store: &dyn Store, limit: usize) -> Result<Vec<AbandonedRun>> {
    let filter = RecordFilter { kind: KIND.to_owned(), user: None, key_prefix: String::new(), after: None, limit };
    let mut found = Vec::new();
    for record in store.records(filter).await? {
        let count: Option<Count> = serde_json::from_value(record.value).ok();
        if let Some(at_ms) = count.and_then(|count| count.given_up_ms) {
            let run = RunId::from(record.key);
            // The thread may have been deleted since.
            if store.run(&run).await?.is_some() {
                found.push(AbandonedRun { run, at_ms });
            }
        }
    }
    Ok(found)
}

impl Engine {
    /// How often in a row the process of a run may end before the run makes progress.
    pub fn takeovers_max(&self) -> u32 {
        self.0.settings.takeovers_max
    }

    /// Ends a run as crashed whose attempts a dispatcher counts, and reports it.
    pub async fn give_up(&self, run: &RunId, crashes: u64) -> Result<()> {
        let row = self.0.row(run).await?;
        self.0.mark_given_up(&row, crashes).await?;
        self.0.give_up(&row, u32::try_from(crashes).unwrap_or(u32::MAX)).await
    }

    /// Reports a run of which an effect ended its process again and again, and is not performed any more. The run goes on with a failure.
    pub async fn report_given_up(&self, run: &RunId, crashes: u64) {
        tracing::error!(%run, "an effect of this run ended its process {crashes} times in a row, and is not performed any more");
        self.0.health.given_up.fetch_add(1, Ordering::Relaxed);
        let marked = async { self.0.mark_given_up(&self.0.row(run).await?, crashes).await };
        if let Err(error) = marked.await {
            tracing::warn!(%run, "`baton doctor` will not name it: {error}");
        }
    }
}

impl Inner {
    /// Resumes a run that another process left, unless that one still holds it.
    pub(crate) async fn take_over(self: &Arc<Self>, row: &RunRow) -> Result<()> {
        // Thousands may be resumed at a start, and new runs must not wait for all of them.
        let share = self.recoveries.clone().acquire_owned().await.map_err(|_| EngineError::Stopping)?;
        let place = self.clone().place_without_queue().await?;
        // So that no other process counts meanwhile. The driver takes the lease again: what it holds alone, it gives back with the last commit of the run.
        self.hold(&row.thread).await?;
        let counted = self.count(row).await;
        self.drop_lease(&row.thread).await;
        let Some(counted) = counted? else { return Ok(()) };
        self.resume_stored(&row.run, Some(place), None).await?;
        self.health.taken_over.fetch_add(1, Ordering::Relaxed);
        self.reset_count_when_stopped(row.run.clone(), counted, share);
        Ok(())
    }

    /// Counts a takeover; nothing if the run is given up or has to wait for another suspect.
    async fn count(self: &Arc<Self>, row: &RunRow) -> Result<Option<TakeoverSlot>> {
        let user = self.store.thread(&row.thread).await?.and_then(|thread| thread.user).unwrap_or_default();
        let progress_ms = self.progress_ms(row).await?;
        let before = self.store.record(&user, KIND, row.run.as_str()).await?;
        let before = before.and_then(|record| serde_json::from_value::<Count>(record.value).ok());
        let takeovers = before.filter(|count| count.progress_ms == progress_ms).map_or(1, |count| count.takeovers.saturating_add(1));
        let now_ms = (self.settings.clock)();
        let is_given_up = takeovers > self.settings.takeovers_max;
        // Counted before anything of the run is read: reading it may be what ends the process.
        let count = Count { takeovers, progress_ms, given_up_ms: is_given_up.then_some(now_ms) };
        let alone = match takeovers >= SUSPECT_FROM && !is_given_up {
            true => match self.suspects.clone().try_acquire_owned() {
                Ok(alone) => Some(alone),
                // Another suspect is driven; the next look finds this one again.
                Err(_) => return Ok(None),
            },
            false => None,
        };
        self.put_count(&user, &row.run, &count, now_ms).await?;
        if is_given_up {
            self.give_up(row, takeovers - 1).await?;
            return Ok(None);
        }
        if takeovers > 1 {
            tracing::warn!(run = %row.run, takeovers, "the process that drove this run ended again before the run made progress");
        }
        Ok(Some(TakeoverSlot { user, alone }))
    }

    /// Removes the count when the run has left memory in order.
    fn reset_count_when_stopped(self: &Arc<Self>, run: RunId, TakeoverSlot { user, alone }: TakeoverSlot, share: OwnedSemaphorePermit) {
        let engine = self.clone();
        self.spawn_background(async move {
            let left = engine.wait_until_stopped(&run);
            tokio::pin!(left);
            if let Some(alone) = alone {
                // Either way the next suspect may go: it left, or it has lasted.
                let _ = tokio::time::timeout(ALONE_MAX, &mut left).await;
                drop(alone);
            }
            if engine.active(&run).is_some() {
                engine.wait_until_stopped(&run).await;
            }
            drop(share);
            if let Err(error) = engine.store.drop_record(&user, KIND, run.as_str()).await {
                tracing::info!(%run, "the count of takeovers stays until the next one: {error}");
            }
        });
    }

    /// Resuming by hand resets the count.
    pub(crate) async fn forget_takeovers(&self, run: &RunId) -> Result<()> {
        let row = self.row(run).await?;
        let user = self.store.thread(&row.thread).await?.and_then(|thread| thread.user).unwrap_or_default();
        self.store.drop_record(&user, KIND, run.as_str()).await?;
        Ok(())
    }

    async fn mark_given_up(&self, row: &RunRow, crashes: u64) -> Result<()> {
        let user = self.store.thread(&row.thread).await?.and_then(|thread| thread.user).unwrap_or_default();
        let now_ms = (self.settings.clock)();
        let takeovers = u32::try_from(crashes).unwrap_or(u32::MAX);
        self.put_count(&user, &row.run, &Count { takeovers, progress_ms: row.updated_ms, given_up_ms: Some(now_ms) }, now_ms).await
    }

    async fn put_count(&self, user: &UserId, run: &RunId, count: &Count, at_ms: i64) -> Result<()> {
        let value = serde_json::to_value(count).map_err(|error| StoreError::Database(error.to_string()))?;
        let record = NewRecord { user: user.clone(), kind: KIND.to_owned(), key: run.to_string(), value, at_ms };
        match self.store.put_record(record).await {
            // A user with that many interrupted runs: they are resumed without a count.
            Err(StoreError::TooMany { .. }) => Ok(()),
            written => Ok(written?),
        }
    }

    /// When a run of the thread, this one or a child, last wrote something. All statuses: stores find the runs of a thread by an index, and have to
    /// choose another one where the status counts too.
    async fn progress_ms(&self, row: &RunRow) -> Result<i64> {
        let filter = RunFilter { thread: Some(row.thread.clone()), limit: THREAD_RUNS_MAX, outcome_bytes_max: Some(0), ..RunFilter::default() };
        let runs = self.store.runs(filter).await?;
        Ok(runs.iter().map(|run| run.updated_ms).fold(row.updated_ms, i64::max))
    }

    async fn wait_until_stopped(&self, run: &RunId) {
        let Some(active) = self.active(run) else { return };
        let mut at = active.at.subscribe();
        drop(active);
        // A closed channel means the same.
        let _ = at.wait_for(|at| !matches!(at, RunState::Going)).await;
    }

    /// Ends a run without reading more of it than the number of its lines.
    async fn give_up(self: &Arc<Self>, row: &RunRow, crashes: u32) -> Result<()> {
        let mut lines = 0;
        let mut pages = Pages::new(&row.run, 0);
        while let Some(page) = pages.next(&*self.store).await? {
            lines += page.len() as u64;
        }
        let why = format!(
            "the process that drove this run ended {crashes} times in a row before the run made progress, so it is no longer resumed; \
             `baton runs resume {}` tries again",
            row.run
        );
        let result = RunResult {
            outcome: Outcome::Failed { fault: Fault::Crash { node: "unknown".to_owned(), why: why.clone() } },
            spent: Usage::default(),
            elapsed_us: 0,
        };
        let lease = self.hold(&row.thread).await?;
        let mut commit = Commit::new(row.run.clone(), lease, (self.settings.clock)(), lines);
        commit.status = Some(Status::Failed);
        commit.outcome = serde_json::to_value(result).ok();
        let written = self.store.commit(commit).await;
        self.drop_lease(&row.thread).await;
        written?;
        self.health.given_up.fetch_add(1, Ordering::Relaxed);
        tracing::error!(run = %row.run, "{why}");
        Ok(())
    }
}

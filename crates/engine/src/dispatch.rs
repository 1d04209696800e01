//! An engine whose runs are driven by other processes: it writes their start and their signals, and submits them. Nothing is lost if the
//! dispatcher cannot be reached: runs that are not driven are found in the store and submitted again.

use std::sync::Arc;
use std::time::Duration;

use graph::RunId;
use store::{RunFilter, RunRow, SignalKind, Status, StoreError};
use tokio::sync::{oneshot, watch as cell};

use crate::driver::{Driver, RunSource};
use crate::remote::{Dispatcher, DriveRequest};
use crate::{Control, Delivery, EngineError, Inner, Result, RunState, must_be_open};

/// A run that was not touched for this long and has no lease was not submitted, or its worker has exited.
const FORGOTTEN_MS: i64 = 5_000;
/// Runs submitted in one round.
const ROUND_RUNS: usize = 256;
/// Runs whose last submission is remembered.
const REMEMBERED_MAX: usize = 10_000;
/// How long a new run waits for the one before it in its thread to be put away.
const HELD_TRIES: u32 = 60;
/// How often an answer is offered to a run that is parked in the same moment.
const ANSWER_TRIES: u32 = 8;
const HELD_PAUSE: Duration = Duration::from_millis(50);

impl Inner {
    pub(crate) fn dispatcher(&self) -> Option<Arc<dyn Dispatcher>> {
        self.settings.dispatcher.clone()
    }

    /// Writes the beginning of a run, and drives it or has it driven. `None` for a run whose state is to be read from the store.
    pub(crate) async fn begin_run(
        self: &Arc<Self>,
        source: impl Fn() -> Result<RunSource>,
        place: tokio::sync::OwnedSemaphorePermit,
    ) -> Result<Option<cell::Receiver<RunState>>> {
        let Some(dispatcher) = self.dispatcher() else {
            let begun = Driver::begin(self, source()?, Some(place)).await?;
            return begun.started.await.unwrap_or(Err(EngineError::Stopping)).map(|()| Some(begun.at));
        };
        let mut tries = 0;
        let (run, at) = loop {
            let source = source()?;
            let run = match &source {
                RunSource::New { machine, .. } => machine.facts().run.clone(),
                RunSource::Stored { run, .. } => run.clone(),
            };
            let begun = Driver::begin(self, source, None).await?;
            match begun.started.await.unwrap_or(Err(EngineError::Stopping)) {
                Ok(()) => break (run, begun.at),
                Err(EngineError::Store(StoreError::Held { .. })) if tries < HELD_TRIES => {
                    tries += 1;
                    tokio::time::sleep(HELD_PAUSE).await;
                }
                Err(e) => return Err(e),
            }
        };
        drop(place);
        let mut at = at;
        // Until then this process holds the thread.
        let end = at.wait_for(|at| !matches!(at, RunState::Going)).await.map(|at| at.clone());
        if matches!(end, Ok(RunState::Lost(EngineError::Stopping)) | Err(_)) {
            let row = self.row(&run).await?;
            self.submit(&*dispatcher, &row, "start").await;
        }
        Ok(None)
    }

    /// Submits a run to be resumed.
    pub(crate) async fn dispatch_resume(&self, dispatcher: &dyn Dispatcher, run: &RunId) -> Result<()> {
        let row = self.row(run).await?;
        must_be_open(&row)?;
        self.forget_takeovers(run).await?;
        self.submit(dispatcher, &row, &format!("resume-{}", row.updated_ms)).await;
        Ok(())
    }

    /// Delivers a message to a run. An answer is written here, so that it is accepted or refused at once, unless another process drives the run now. A
    /// cancellation is left for its driver, because children and calls in flight are cancelled with it.
    pub(crate) async fn dispatch_message(
        self: &Arc<Self>,
        dispatcher: &dyn Dispatcher,
        run: &RunId,
        message: SignalKind,
        control: impl Fn(oneshot::Sender<Result<()>>) -> Control,
    ) -> Result<Delivery> {
        let row = self.row(run).await?;
        must_be_open(&row)?;
        let ticket = uuid::Uuid::now_v7().simple().to_string();
        if matches!(message, SignalKind::Answer { .. }) {
            for _ in 0..ANSWER_TRIES {
                let (done, taken) = oneshot::channel();
                let source = RunSource::Stored { run: row.run.clone(), thread: row.thread.clone(), word: Some(control(done)) };
                let mut begun = match Driver::begin(self, source, None).await {
                    Ok(begun) => begun,
                    Err(EngineError::Store(StoreError::Held { .. })) => break,
                    Err(e) => return Err(e),
                };
                let taken = taken.await;
                // Until then this process holds the thread. A closed channel means the same.
                let _ = begun.at.wait_for(|at| !matches!(at, RunState::Going)).await;
                match taken {
                    Ok(Ok(())) => {
                        self.submit(dispatcher, &row, &ticket).await;
                        return Ok(Delivery::Taken);
                    }
                    Ok(Err(e)) => return Err(e),
                    Err(_) => {}
                }
            }
        }
        self.store.post(run, message).await?;
        self.submit(dispatcher, &row, &ticket).await;
        Ok(Delivery::Posted)
    }

    /// Submits runs with undelivered messages whose submission failed.
    pub(crate) async fn dispatch_undelivered(&self, dispatcher: &dyn Dispatcher) -> Result<()> {
        for signal in self.store.undelivered_signals((self.settings.clock)()).await? {
            match self.store.run(&signal.run).await? {
                Some(row) if must_be_open(&row).is_ok() => self.submit_once(dispatcher, &row, &format!("message-{}", signal.id)).await,
                _ => self.store.accept(signal.id).await?,
            }
        }
        Ok(())
    }

    /// Submits unfinished runs that are not driven, and returns their number.
    pub(crate) async fn dispatch_forgotten(&self, dispatcher: &dyn Dispatcher) -> Result<usize> {
        let now_ms = (self.settings.clock)();
        let filter =
            RunFilter { statuses: vec![Status::Running], roots_only: true, unheld_at_ms: Some(now_ms), limit: ROUND_RUNS, ..RunFilter::default() };
        let rows: Vec<RunRow> = self.store.runs(filter).await?.into_iter().filter(|row| row.updated_ms + FORGOTTEN_MS < now_ms).collect();
        for row in &rows {
            self.submit_once(dispatcher, row, &format!("forgotten-{}", row.updated_ms)).await;
        }
        Ok(rows.len())
    }

    async fn submit_once(&self, dispatcher: &dyn Dispatcher, row: &RunRow, ticket: &str) {
        let is_done = self.submitted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&row.run).is_some_and(|last| last == ticket);
        if !is_done {
            self.submit(dispatcher, row, ticket).await;
        }
    }

    /// A failure is not the caller's: the run or the message is in the store, and is submitted when it is found there.
    async fn submit(&self, dispatcher: &dyn Dispatcher, row: &RunRow, ticket: &str) {
        let root = match self.root_of(row).await {
            Ok(root) => root,
            Err(e) => return tracing::warn!(run = %row.run, "the run above it cannot be read, trying again later: {e}"),
        };
        let request = DriveRequest { thread: row.thread.clone(), ticket: format!("{}/{ticket}", row.run), run: root };
        match dispatcher.submit(request).await {
            Ok(()) => {
                let mut submitted = self.submitted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if submitted.len() >= REMEMBERED_MAX {
                    submitted.clear();
                }
                submitted.insert(row.run.clone(), ticket.to_owned());
            }
            Err(why) => tracing::warn!(run = %row.run, "the run could not be submitted and is submitted again later: {why}"),
        }
    }

    async fn root_of(&self, row: &RunRow) -> Result<RunId> {
        let (mut run, mut parent) = (row.run.clone(), row.parent.clone());
        while let Some(above) = parent {
            parent = self.row(&above).await?.parent;
            run = above;
        }
        Ok(run)
    }
}

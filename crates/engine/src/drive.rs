//! Drives a run for a dispatcher: the two calls that a worker answers. The caller makes sure that no other worker drives the same thread.

use effects::Progress;
use graph::{Job, RunId, ThreadId};
use store::{SignalKind, StoreError};

use crate::attempt::{PriorAttempt, perform_here};
use crate::driver::{Driver, RunSource};
use crate::remote::Performed;
use crate::{Engine, EngineError, Result, RunState, must_be_open, result_of};

impl Engine {
    /// Drives a run and those below it until it has ended or waits for a person. Messages that were left for them are delivered first.
    pub async fn drive(&self, run: &RunId) -> Result<RunState> {
        let inner = &self.0;
        let place = inner.clone().place_without_queue().await?;
        let row = inner.row(run).await?;
        if let (Err(_), Some(closing)) = (must_be_open(&row), result_of(&row)) {
            return Ok(RunState::Over(closing.into()));
        }
        // With the lease the messages of the thread are this process's to deliver, and no other process can end the run meanwhile.
        inner.hold(&row.thread).await?;
        let begun = match self.deliver_signals(&row.thread).await {
            Ok(()) => Driver::begin(inner, RunSource::Stored { run: row.run.clone(), thread: row.thread.clone(), word: None }, Some(place)).await,
            Err(e) => Err(e),
        };
        // Given back before the run is over, so that the thread is free in the moment in which others see the end.
        inner.drop_lease(&row.thread).await;
        let mut at = match begun {
            Ok(begun) => begun.at,
            Err(EngineError::Over { .. }) => return self.at(run).await,
            Err(e) => return Err(e),
        };
        // The state of this driver and not that of the store: a run that is lost here stays unfinished there.
        match at.wait_for(|at| !matches!(at, RunState::Going)).await.map(|at| at.clone()) {
            Ok(RunState::Lost(e)) => Err(e),
            Ok(state) => Ok(state),
            Err(_) => Err(EngineError::Stopping),
        }
    }

    /// Performs one attempt at an effect in this process. `was_begun`: it was begun before, and how that ended is unknown.
    pub async fn perform_attempt(&self, job: &Job, was_begun: bool, progress: &Progress) -> Performed {
        let past = if was_begun { PriorAttempt::Interrupted } else { PriorAttempt::None };
        perform_here(&self.0, job, past, progress).await
    }

    /// Whether this effect may be performed twice.
    pub fn repeatability(&self, job: &Job) -> effects::Repeatability {
        self.0.handler.repeatability(job)
    }

    /// Delivers the stored signals for runs of a thread whose lease is held.
    async fn deliver_signals(&self, thread: &ThreadId) -> Result<()> {
        let inner = &self.0;
        for signal in inner.store.signals(&inner.settings.owner).await? {
            if inner.store.run(&signal.run).await?.is_none_or(|row| row.thread != *thread) {
                continue;
            }
            let delivered = match signal.kind {
                SignalKind::Cancel { reason } => self.cancel(&signal.run, &reason).await,
                SignalKind::Answer { task, attempt, value } => self.answer(&signal.run, task, attempt, value).await,
            };
            match delivered {
                Ok(_) => {}
                Err(e @ (EngineError::Over { .. } | EngineError::Feed(_) | EngineError::Store(StoreError::NoRun { .. }))) => {
                    tracing::info!(run = %signal.run, "a message came too late or does not fit: {e}");
                }
                Err(e) => return Err(e),
            }
            inner.store.accept(signal.id).await?;
        }
        Ok(())
    }
}

//! How a driver ends: the last commit, the lease, child runs and remote agents.

use std::sync::Arc;
use std::time::Duration;

use futures::future;
use graph::{Fault, Next, Outcome};
use store::Status;

use super::{Driver, LoopEnd, ParkReason};
use crate::lease::LeaseRelease;
use crate::{EngineError, RunResult, RunState, trace};

/// How long the end of a run waits for remote agents to stop.
const ABANDON_MAX: Duration = Duration::from_secs(5);

impl Driver {
    /// Parks the run unless a control message arrived meanwhile. The thread stays locked from this check until the last commit, so that a caller that
    /// resumes the run reads all of it.
    pub(super) async fn park(&mut self) -> Option<LeaseRelease> {
        let lease_release = self.engine.begin_release(&self.lease.thread).await;
        let word = {
            let mut active = self.engine.lock_active();
            let word = self.control.try_recv().ok();
            if word.is_none() {
                active.remove(&self.commit.run);
            }
            word
        };
        let Some(word) = word else { return Some(lease_release) };
        lease_release.undo();
        self.handle_control(word);
        None
    }

    pub(super) fn park_reason(&self, idle: Next) -> ParkReason {
        match idle {
            Next::Wait(waiting) => ParkReason::Asking(waiting),
            _ if self.stop_by.is_some() => ParkReason::Stopped,
            _ => ParkReason::Waiting,
        }
    }

    /// Makes the last commit and releases the lease.
    pub(super) async fn leave(mut self, left: LoopEnd) {
        let engine = self.engine.clone();
        let run = self.commit.run.clone();
        let (at, status, mut lease_release) = match left {
            LoopEnd::Over(outcome) => {
                let status = match &*outcome {
                    Outcome::Done { .. } => Status::Done,
                    Outcome::Failed { .. } => Status::Failed,
                    Outcome::Cancelled { .. } => Status::Cancelled,
                };
                self.commit.notes = engine.notes_of(&self.machine);
                (self.over((*outcome).clone()), Some(status), engine.begin_release(&self.lease.thread).await)
            }
            LoopEnd::Crashed(why) => {
                let node = self.machine.node().map_or_else(String::new, ToString::to_string);
                let at = self.over(Outcome::Failed { fault: Fault::Crash { node, why } });
                (at, Some(Status::Failed), engine.begin_release(&self.lease.thread).await)
            }
            LoopEnd::Parked(ParkReason::Asking(waiting), lease_release) => (RunState::Parked(waiting), Some(Status::Asking), lease_release),
            LoopEnd::Parked(ParkReason::Waiting, lease_release) => (RunState::Parked(Vec::new()), Some(Status::Waiting), lease_release),
            LoopEnd::Parked(ParkReason::Stopped, lease_release) => (RunState::Lost(EngineError::Stopping), None, lease_release),
            LoopEnd::Lost(e) => {
                tracing::warn!(%run, "this process stops driving the run: {e}");
                engine.unregister(&run);
                engine.drop_lease(&self.lease.thread).await;
                trace::left(&RunState::Lost(e.clone()));
                return self.end_as_lost(e);
            }
        };
        self.commit.status = status.filter(|status| *status != self.status || self.commit.new.is_some());
        self.commit.outcome = match &at {
            RunState::Over(closing) => serde_json::to_value(closing).ok(),
            RunState::Going | RunState::Parked(_) | RunState::Lost(_) => None,
        };
        self.commit.release = lease_release.is_last;
        trace::left(&at);
        let commit = self.take_commit();
        let committed = self.keep(commit).await;
        if committed.is_ok() {
            lease_release.took(&self.lease);
        }
        engine.unregister(&run);
        engine.lease_released(&self.lease.thread, lease_release);
        if let Err(e) = committed {
            tracing::warn!(%run, "the last commit failed: {e}");
            return self.end_as_lost(e);
        }
        self.publish_events();

        if let RunState::Over(closing) = &at {
            self.cancel_remote();
            self.abandon_agent_calls().await;
            if !matches!(closing.outcome, Outcome::Done { .. }) {
                let orphans = self.children.values().map(|child| engine.cancel_child(&child.run, "the parent run has ended"));
                future::join_all(orphans).await;
            }
            if let Some(parent) = &self.machine.facts().parent {
                engine.notify_parent(parent, run);
            }
        }
        self.active.at.send_replace(at);
    }

    pub(super) fn over(&self, outcome: Outcome) -> RunState {
        RunState::Over(Arc::new(RunResult { outcome, spent: self.machine.spent(), elapsed_us: self.machine.elapsed_us() }))
    }

    pub(super) fn end_as_lost(mut self, e: EngineError) {
        for waiting in self.waiting.drain(..) {
            // The caller may have gone away.
            let _ = waiting.send(Err(e.clone()));
        }
        self.active.at.send_replace(RunState::Lost(e));
    }

    /// Calls of remote agents that this run made and no longer needs.
    pub(super) fn cancel_remote(&self) {
        if let Some(remote) = &self.engine.settings.remote {
            remote.cancel(&self.lease.thread, &self.commit.run);
        }
    }

    /// Stops what remote agents still do for a run that has ended. What does not answer in time goes on.
    pub(super) async fn abandon_agent_calls(&mut self) {
        let calls = std::mem::take(&mut self.agent_calls);
        let handler = &self.engine.handler;
        let stopping = future::join_all(calls.values().map(|job| handler.abandon(job)));
        if tokio::time::timeout(ABANDON_MAX, stopping).await.is_err() {
            tracing::warn!(run = %self.commit.run, "not every task of a remote agent could be cancelled within {} s", ABANDON_MAX.as_secs());
        }
    }
}

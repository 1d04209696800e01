//! Drives one run in one tokio task, from its start or from the state in the store.
//!
//! ```text
//!   next() ─► collect output ─► commit ─► publish ─► launch ─► receive ───┐
//!     ▲                                                                   │
//!     └───────────────────────────────────────────────────────────────────┘   until ended, parked, stopped or lost
//! ```

mod commit;
mod leave;
mod receive;
mod start;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use graph::{Effect, Job, Next, NumberedEvent, Outcome, Run, RunId, TaskId, Waiting};
use store::{Commit, Lease, Status};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tracing::Instrument as _;

pub(crate) use start::RunSource;

use crate::active::Active;
use crate::attempt::{AttemptResult, PriorAttempt, perform_attempt};
use crate::lease::LeaseRelease;
use crate::open::guarded;
use crate::{Control, EngineError, Inner, Result, heavy, trace};

/// A run in memory, and all that this process needs to drive it.
pub(crate) struct Driver {
    engine: Arc<Inner>,
    active: Arc<Active>,
    control: mpsc::Receiver<Control>,
    machine: Box<Run>,
    lease: Lease,
    _place: Option<OwnedSemaphorePermit>,
    /// The next commit.
    commit: Commit,
    events: Vec<NumberedEvent>,
    /// Callers that wait for the next commit.
    waiting: Vec<oneshot::Sender<Result<()>>>,
    attempts: FuturesUnordered<BoxFuture<'static, AttemptResult>>,
    /// Child runs that have not replied.
    children: BTreeMap<TaskId, Child>,
    /// Tasks with an intent in the store, and those attempts that a crash interrupted.
    intended: HashSet<TaskId>,
    begun: HashSet<(TaskId, u32)>,
    /// Calls of remote agents that are in flight. They continue without this process unless they are stopped.
    agent_calls: BTreeMap<TaskId, Job>,
    /// The status in the store.
    status: Status,
    /// When the last commit was made.
    committed_ms: i64,
    stop_by: Option<Instant>,
    tail_bytes: usize,
    snapshot_bytes: usize,
}

struct Child {
    run: RunId,
    job: Job,
    state: ChildState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChildState {
    /// An attempt waits for it.
    Going,
    /// It has ended, and the attempt that waits for it may have read its state before that.
    Over,
    /// It waits for a person, and no attempt waits for it.
    Parked,
}

/// Why the loop ended.
enum LoopEnd {
    Over(Arc<Outcome>),
    /// Nothing can be done until a person or a child answers. The run is no longer in the list of active runs.
    Parked(ParkReason, LeaseRelease),
    Lost(EngineError),
    Crashed(String),
}

enum ParkReason {
    Asking(Vec<Waiting>),
    /// Children wait for a person.
    Waiting,
    Stopped,
}

impl Driver {
    async fn drive(mut self, first: Option<Next>) {
        let left = self.run_loop(first).await;
        self.leave(left).await;
    }

    async fn run_loop(&mut self, mut first: Option<Next>) -> LoopEnd {
        loop {
            let next = match first.take() {
                Some(next) => Ok(next),
                None => {
                    // What the flow sees for the first time in this step.
                    let bytes = self.commit.lines.iter().map(Vec::len).sum();
                    heavy::step(bytes, || guarded(&mut self.machine)).await
                }
            };
            let next = match next {
                Ok(next) => next,
                Err(e) => return LoopEnd::Crashed(e.to_string()),
            };
            self.collect_output();
            let jobs = match next {
                Next::Done(outcome) => return LoopEnd::Over(outcome),
                Next::Perform(_) if self.stop_by.is_some() => Vec::new(),
                Next::Perform(jobs) => jobs,
                Next::Await if !self.attempts.is_empty() => Vec::new(),
                idle @ (Next::Await | Next::Wait(_)) => match self.park().await {
                    None => continue,
                    Some(lease_release) => return LoopEnd::Parked(self.park_reason(idle), lease_release),
                },
            };
            let mut launches = Vec::with_capacity(jobs.len());
            for job in jobs {
                // An effect that was started before a crash was permitted then. Only its result is looked up.
                let is_begun = self.begun.contains(&(job.task, job.attempt));
                let objection = match is_begun {
                    true => None,
                    false => match self.engine.objection(&job).await {
                        Ok(objection) => objection,
                        Err(e) => return LoopEnd::Lost(e),
                    },
                };
                match objection {
                    None => launches.push(self.intend(job)),
                    Some(objection) => match self.machine.hold(job.task, job.attempt, objection) {
                        Ok(entry) => self.write(&entry),
                        Err(e) => return LoopEnd::Lost(e.into()),
                    },
                }
            }
            self.collect_output();
            if let Err(e) = self.commit().await {
                return LoopEnd::Lost(e);
            }
            launches.into_iter().for_each(|(job, past)| self.launch(job, past));
            if self.attempts.is_empty() {
                continue;
            }
            if let Err(e) = self.receive().await {
                return LoopEnd::Lost(e);
            }
        }
    }

    fn launch(&mut self, job: Job, past: PriorAttempt) {
        self.attempts.push(attempt_future(self.engine.clone(), self.active.clone(), job, past));
    }
}

// A function with a named type, for the same cycle of futures as in `start::spawn`.
fn attempt_future(engine: Arc<Inner>, active: Arc<Active>, job: Job, past: PriorAttempt) -> BoxFuture<'static, AttemptResult> {
    let is_ours = || matches!(&*job.effect, Effect::CallAgent(call) if engine.flows.contains_key(&call.agent));
    let Some(attempt) = trace::Attempt::at(&job, is_ours) else { return Box::pin(perform_attempt(engine, active, job, past)) };
    Box::pin(async move {
        let effect = job.effect.clone();
        let result = perform_attempt(engine, active, job, past).instrument(attempt.span()).await;
        attempt.result(&effect, &result);
        result
    })
}

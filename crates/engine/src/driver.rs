//! Drives one run in one tokio task, from its start or from the state in the store.
//!
//! ```text
//!   next() ─► collect output ─► commit ─► publish ─► launch ─► receive ───┐
//!     ▲                                                                   │
//!     └───────────────────────────────────────────────────────────────────┘   until ended, parked, stopped or lost
//! ```

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use effects::Repeatability;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, future};
use graph::{Effect, Entry, Event, Fault, Job, Next, NumberedEvent, Outcome, Reply, Run, RunId, TaskId, ThreadId, Waiting, child_run};
use serde_json::Value;
use store::{Commit, Intent, Lease, NewMessage, NewRun, NewSnapshot, Status};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch as cell};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::active::{Active, Registration};
use crate::attempt::{AttemptResult, PriorAttempt, perform_attempt};
use crate::lease::{LeaseRelease, UNCLAIMED};
use crate::open::guarded;
use crate::watch::FeedItem;
use crate::{Control, EngineError, Inner, Result, RunResult, RunState, open, permissions, trace};

/// Control messages that may be queued for one run; senders beyond that wait.
const CONTROL_MAX: usize = 64;

/// How long the end of a run waits for remote agents to stop.
const ABANDON_MAX: Duration = Duration::from_secs(5);

/// How a driver gets its run.
pub(crate) enum RunSource {
    /// A new run. `past` holds the journal entries it takes over from a forked run.
    New { machine: Box<Run>, title: String, past: Vec<Entry> },
    /// A run in the store, with a control message to handle first.
    Stored { run: RunId, thread: ThreadId, word: Option<Control> },
}

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
    /// Calls of agents elsewhere that are in flight. They go on without this process unless they are stopped.
    agent_calls: BTreeMap<TaskId, Job>,
    /// The status in the store.
    status: Status,
    /// When the last commit was made.
    told_ms: i64,
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

/// A run whose driver was spawned.
pub(crate) struct StartedRun {
    /// Resolves after the first commit.
    pub(crate) started: oneshot::Receiver<Result<()>>,
    /// Its state from the start on.
    pub(crate) at: cell::Receiver<RunState>,
}

/// What a driver is made of.
struct DriverParts {
    engine: Arc<Inner>,
    active: Arc<Active>,
    control: mpsc::Receiver<Control>,
    lease: Lease,
    place: Option<OwnedSemaphorePermit>,
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
    /// Acquires the lease of the thread, creates or opens the run, and spawns its driver.
    pub(crate) async fn begin(engine: &Arc<Inner>, source: RunSource, place: Option<OwnedSemaphorePermit>) -> Result<StartedRun> {
        let (run, thread) = match &source {
            RunSource::New { machine, .. } => (machine.facts().run.clone(), machine.facts().thread.clone()),
            RunSource::Stored { run, thread, .. } => (run.clone(), thread.clone()),
        };
        let (control_to, control) = mpsc::channel(CONTROL_MAX);
        let lease = match &source {
            RunSource::New { .. } => engine.reserve(&thread).await,
            RunSource::Stored { .. } => engine.hold(&thread).await?,
        };
        let (started, heard) = oneshot::channel();
        let active = match engine.register(&run, control_to) {
            Registration::Yes(active) => active,
            Registration::Stopping => {
                engine.drop_lease(&thread).await;
                return Err(EngineError::Stopping);
            }
            Registration::Already(other) => {
                engine.drop_lease(&thread).await;
                if let RunSource::Stored { word: Some(word), .. } = source {
                    // If that run has left memory, its reply channel is dropped and the sender tries again.
                    let _ = other.control.send(word).await;
                }
                let _ = started.send(Ok(()));
                return Ok(StartedRun { started: heard, at: other.at.subscribe() });
            }
        };
        let at = active.at.subscribe();
        let parts = DriverParts { engine: engine.clone(), active, control, lease, place };
        let ready = match source {
            RunSource::New { machine, title, past } => Ok((Driver::new_run(parts, machine, title, &past), None)),
            RunSource::Stored { word, .. } => Driver::stored(parts, &run, word).await,
        };
        match ready {
            Ok((mut driver, next)) => {
                driver.active.set_ancestors(engine.ancestors(driver.machine.facts().parent.as_ref()).await);
                driver.waiting.push(started);
                spawn(driver, next);
                Ok(StartedRun { started: heard, at })
            }
            Err(e) => {
                engine.unregister(&run);
                engine.drop_lease(&thread).await;
                Err(e)
            }
        }
    }

    fn new_run(parts: DriverParts, machine: Box<Run>, title: String, past: &[Entry]) -> Driver {
        let mut driver = Driver::at(parts, machine);
        let facts = driver.machine.facts();
        let parent = facts.parent.as_ref().map(|parent| parent.run.clone());
        driver.commit.new = Some(NewRun { flow: facts.flow.to_string(), parent, title, user: facts.context.user.clone() });
        driver.commit.first_seq = 0;
        driver.write(&driver.machine.start_entry());
        past.iter().for_each(|entry| driver.write(entry));
        driver
    }

    async fn stored(parts: DriverParts, run: &RunId, word: Option<Control>) -> Result<(Driver, Option<Next>)> {
        let engine = parts.engine.clone();
        // Read after the lease is held: another process may have parked or ended the run before.
        let row = engine.row(run).await?;
        crate::must_be_open(&row)?;
        let opened = open::open(&*engine.store, &engine.flows, run).await?;
        let mut driver = Driver::at(parts, Box::new(opened.machine));
        driver.tail_bytes = opened.tail_bytes;
        driver.snapshot_bytes = opened.snapshot_bytes;
        driver.status = row.status;
        for intent in engine.store.intents(&row.run).await? {
            driver.intended.insert(intent.task);
            driver.begun.insert((intent.task, intent.attempt));
        }
        if let Some(word) = word {
            // Cannot fail: the channel is new and its receiver is in `live`.
            let _ = driver.active.control.try_send(word);
        }
        // These events were published, and their messages written, together with the entries they follow from.
        let next = guarded(&mut driver.machine).ok();
        driver.machine.take_events();
        Ok((driver, next))
    }

    fn at(parts: DriverParts, machine: Box<Run>) -> Driver {
        // Where runs are driven elsewhere, this process only writes their beginning.
        let stop_by = parts.engine.settings.dispatcher.is_some().then(Instant::now);
        Driver {
            commit: Commit::new(machine.facts().run.clone(), parts.lease.clone(), 0, machine.entries()),
            engine: parts.engine,
            active: parts.active,
            control: parts.control,
            lease: parts.lease,
            _place: parts.place,
            machine,
            events: Vec::new(),
            waiting: Vec::new(),
            attempts: FuturesUnordered::new(),
            children: BTreeMap::new(),
            intended: HashSet::new(),
            begun: HashSet::new(),
            agent_calls: BTreeMap::new(),
            status: Status::Running,
            told_ms: 0,
            stop_by,
            tail_bytes: 0,
            snapshot_bytes: 0,
        }
    }

    async fn drive(mut self, first: Option<Next>) {
        let left = self.run_loop(first).await;
        self.leave(left).await;
    }

    async fn run_loop(&mut self, mut first: Option<Next>) -> LoopEnd {
        loop {
            let next = match first.take().map_or_else(|| guarded(&mut self.machine), Ok) {
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

    fn write(&mut self, entry: &Entry) {
        let line = entry.encode();
        self.tail_bytes += line.len();
        self.commit.lines.push(line);
    }

    /// Collects the events, messages and, if one is due, the snapshot of the last step.
    fn collect_output(&mut self) {
        let events = self.machine.take_events();
        // The messages of a child are a reply to its parent; only those of the top-level run go to the thread.
        let speaks = self.machine.facts().depth == 0;
        for numbered in &events {
            if let Event::Said { role, content } = &numbered.event
                && speaks
            {
                self.commit.messages.push(NewMessage { role: role.clone(), content: content.clone() });
            }
        }
        self.events.extend(events);

        // Larger snapshots are written less often, so that all of them together stay smaller than the journal.
        let due = self.tail_bytes >= self.engine.settings.snapshot_bytes_min.max(4 * self.snapshot_bytes);
        if due && let Some(snapshot) = self.machine.snapshot() {
            let bytes = snapshot.encode();
            self.snapshot_bytes = bytes.len();
            self.tail_bytes = 0;
            self.commit.snapshot = Some(NewSnapshot { entries: snapshot.entries, bytes });
        }
    }

    /// Records the intent to perform an effect that is not repeatable.
    fn intend(&mut self, job: Job) -> (Job, PriorAttempt) {
        let is_child = matches!(&*job.effect, Effect::CallAgent(call) if self.engine.flows.contains_key(&call.agent));
        if is_child {
            self.children.insert(job.task, Child { run: child_run(job.key), job: job.clone(), state: ChildState::Going });
            return (job, PriorAttempt::None);
        }
        if matches!(&*job.effect, Effect::CallAgent(_)) {
            self.agent_calls.insert(job.task, job.clone());
        }
        let past = if !self.begun.is_empty() && self.begun.remove(&(job.task, job.attempt)) { PriorAttempt::Interrupted } else { PriorAttempt::None };
        match self.engine.handler.repeatability(&job) {
            Repeatability::Repeatable => (job, PriorAttempt::None),
            Repeatability::Checkable | Repeatability::Once => {
                if past == PriorAttempt::None {
                    self.intended.insert(job.task);
                    self.commit.intents.push(Intent { task: job.task, attempt: job.attempt, key: job.key });
                }
                (job, past)
            }
        }
    }

    /// Writes the collected output; events are published only after that.
    async fn commit(&mut self) -> Result<()> {
        if self.status != Status::Running {
            self.commit.status = Some(Status::Running);
            self.status = Status::Running;
        }
        let commit = self.take_commit();
        if commit.new.is_some() || !commit.lines.is_empty() || !commit.intents.is_empty() || commit.status.is_some() || commit.snapshot.is_some() {
            let was_claimed = self.is_claimed();
            self.keep(commit).await?;
            if !was_claimed {
                self.engine.took(&self.lease).await;
            }
        }
        self.publish_events();
        Ok(())
    }

    /// The first commit of a new run also acquires the lease of its thread: one write, one fsync.
    async fn keep(&mut self, commit: Commit) -> Result<()> {
        if self.is_claimed() {
            let written = self.engine.store.commit(commit).await;
            self.engine.health.wrote(&written);
            return Ok(written?);
        }
        self.lease = self.engine.open_with(commit).await?;
        self.commit.lease = self.lease.clone();
        Ok(())
    }

    fn is_claimed(&self) -> bool {
        self.lease.fence != UNCLAIMED
    }

    fn take_commit(&mut self) -> Commit {
        let at_ms = (self.engine.settings.clock)();
        let next = Commit::new(self.commit.run.clone(), self.lease.clone(), 0, self.machine.entries());
        let mut commit = std::mem::replace(&mut self.commit, next);
        commit.at_ms = at_ms;
        self.told_ms = at_ms;
        commit
    }

    fn publish_events(&mut self) {
        let events = std::mem::take(&mut self.events);
        if self.active.is_watched() {
            events.into_iter().for_each(|numbered| self.active.publish(FeedItem::Event(Arc::new(numbered), self.told_ms)));
        }
        for waiting in self.waiting.drain(..) {
            // The caller may have gone away.
            let _ = waiting.send(Ok(()));
        }
    }

    fn launch(&mut self, job: Job, past: PriorAttempt) {
        self.attempts.push(attempt_future(self.engine.clone(), self.active.clone(), job, past));
    }

    /// Waits for the first message or result, then takes all that are ready.
    async fn receive(&mut self) -> Result<()> {
        let stop_by = self.stop_by;
        tokio::select! {
            biased;
            Some(word) = self.control.recv() => self.handle_control(word),
            Some(result) = self.attempts.next() => self.take_result(result)?,
            () = sleep_until(stop_by), if stop_by.is_some() => self.attempts.clear(),
        }
        while let Ok(word) = self.control.try_recv() {
            self.handle_control(word);
        }
        while let Some(Some(result)) = self.attempts.next().now_or_never() {
            self.take_result(result)?;
        }
        Ok(())
    }

    fn handle_control(&mut self, word: Control) {
        match word {
            Control::Cancel { reason, done } => {
                if let Some(entry) = self.machine.cancel(&reason) {
                    self.write(&entry);
                }
                self.attempts.clear();
                self.cancel_remote();
                self.waiting.extend(done);
            }
            Control::Answer { task, attempt, value, done } => match self.take_answer(task, attempt, &value) {
                Ok(()) => self.waiting.extend(done),
                Err(e) => {
                    if let Some(done) = done {
                        let _ = done.send(Err(e));
                    }
                }
            },
            Control::ChildOver { child, done } => {
                if let Some(child) = self.children.values_mut().find(|known| known.run == child) {
                    let was = std::mem::replace(&mut child.state, ChildState::Over);
                    if was == ChildState::Parked {
                        let job = child.job.clone();
                        self.launch(job, PriorAttempt::None);
                    }
                }
                // If the receiver was dropped, the sender resumes the parent from the store.
                let _ = done.send(());
            }
            Control::Stop { by } => self.stop_by = Some(by),
        }
    }

    /// Calls that this run made elsewhere and no longer needs.
    fn cancel_remote(&self) {
        if let Some(remote) = &self.engine.settings.remote {
            remote.cancel(&self.lease.thread, &self.commit.run);
        }
    }

    /// Stops what remote agents still do for a run that has ended. What does not answer in time goes on.
    async fn abandon_agent_calls(&mut self) {
        let calls = std::mem::take(&mut self.agent_calls);
        let handler = &self.engine.handler;
        let stopping = future::join_all(calls.values().map(|job| handler.abandon(job)));
        if tokio::time::timeout(ABANDON_MAX, stopping).await.is_err() {
            tracing::warn!(run = %self.commit.run, "not every remote agent could be told within {} s that its task is no longer needed", ABANDON_MAX.as_secs());
        }
    }

    /// Takes a person's answer. A standing permission is written in the same commit, and other open questions that it covers are answered with it.
    fn take_answer(&mut self, task: TaskId, attempt: u32, value: &Value) -> Result<()> {
        let open = self.machine.waiting();
        let asked = open.iter().find(|waiting| (waiting.task, waiting.attempt) == (task, attempt));
        let permission = asked.and_then(|waiting| permissions::given(self.machine.facts(), waiting, value, (self.engine.settings.clock)()));
        let Some(entry) = self.machine.feed(task, attempt, Reply::ok(value.clone()))? else { return Ok(()) };
        self.answered(task, Some(entry));
        if let (Some(tell), Some(asked)) = (&self.engine.settings.on_answer, asked) {
            tell(self.machine.facts(), asked, value);
        }
        let Some(permission) = permission else { return Ok(()) };
        let thread = self.machine.facts().thread.clone();
        for other in open.iter().filter(|other| other.task != task && permissions::covers(&permission.grant, &thread, other)) {
            let entry = self.machine.feed(other.task, other.attempt, Reply::ok(value.clone()))?;
            self.answered(other.task, entry);
        }
        self.commit.permissions.push(permission);
        Ok(())
    }

    fn take_result(&mut self, result: AttemptResult) -> Result<()> {
        match result {
            AttemptResult::Replied { task, attempt, reply } => {
                self.children.remove(&task);
                self.agent_calls.remove(&task);
                let entry = self.machine.feed(task, attempt, reply)?;
                self.answered(task, entry);
            }
            AttemptResult::InDoubt { task, attempt } => {
                let entry = self.machine.doubt(task, attempt)?;
                self.write(&entry);
            }
            AttemptResult::ChildParked { task } => {
                if let Some(child) = self.children.get_mut(&task) {
                    match child.state {
                        ChildState::Going | ChildState::Parked => child.state = ChildState::Parked,
                        ChildState::Over => {
                            let job = child.job.clone();
                            self.launch(job, PriorAttempt::None);
                        }
                    }
                }
            }
            // The child stopped because the engine stops; this run stops too, after its next commit.
            AttemptResult::Lost(EngineError::Stopping) => {
                self.stop_by.get_or_insert_with(Instant::now);
            }
            AttemptResult::Lost(e) => return Err(e),
        }
        Ok(())
    }

    fn answered(&mut self, task: TaskId, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        self.write(&entry);
        if !self.intended.is_empty() && self.intended.remove(&task) {
            self.commit.settled.push(task);
        }
    }

    /// Parks the run unless a control message arrived meanwhile. The thread stays locked from this check until the last commit, so that a caller that
    /// resumes the run reads all of it.
    async fn park(&mut self) -> Option<LeaseRelease> {
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

    fn park_reason(&self, idle: Next) -> ParkReason {
        match idle {
            Next::Wait(waiting) => ParkReason::Asking(waiting),
            _ if self.stop_by.is_some() => ParkReason::Stopped,
            _ => ParkReason::Waiting,
        }
    }

    /// Makes the last commit and releases the lease.
    async fn leave(mut self, left: LoopEnd) {
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

    fn over(&self, outcome: Outcome) -> RunState {
        RunState::Over(Arc::new(RunResult { outcome, spent: self.machine.spent(), elapsed_us: self.machine.elapsed_us() }))
    }

    fn end_as_lost(mut self, e: EngineError) {
        for waiting in self.waiting.drain(..) {
            // The caller may have gone away.
            let _ = waiting.send(Err(e.clone()));
        }
        self.active.at.send_replace(RunState::Lost(e));
    }
}

// Functions with named types, because an attempt may start a child whose driver has attempts of its own: the compiler needs one boxed future in this cycle.
fn spawn(driver: Driver, first: Option<Next>) {
    let (engine, active, run) = (driver.engine.clone(), driver.active.clone(), driver.commit.run.clone());
    let span = trace::run(driver.machine.facts());
    let driven = async move {
        // Panics of flows and effects are caught where they run. A panic here is a bug, and must not leave a run registered that is no longer driven.
        if let Err(panic) = AssertUnwindSafe(driver.drive(first)).catch_unwind().await {
            let why = open::panic_message(&*panic);
            tracing::error!(%run, "the driver panicked: {why}");
            engine.unregister(&run);
            active.at.send_replace(RunState::Lost(EngineError::Crashed { run, why }));
        }
    };
    match span {
        None => tokio::spawn(driven),
        Some(span) => tokio::spawn(driven.instrument(span)),
    };
}

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

async fn sleep_until(by: Option<Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => future::pending().await,
    }
}

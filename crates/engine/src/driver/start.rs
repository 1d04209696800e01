//! Starts the driver of a new run, or of one in the store.

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::FuturesUnordered;
use graph::{Entry, Next, Run, RunId, ThreadId};
use store::{Commit, Lease, NewRun, Status};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch as cell};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Driver;
use crate::active::{Active, Registration};
use crate::open::guarded;
use crate::{Control, EngineError, Inner, Result, RunState, open, trace};

/// Control messages that may be queued for one run; senders beyond that wait.
const CONTROL_MAX: usize = 64;

/// How a driver gets its run.
pub(crate) enum RunSource {
    /// A new run. `past` holds the journal entries it takes over from a forked run.
    New { machine: Box<Run>, title: String, past: Vec<Entry> },
    /// A run in the store, with a control message to handle first.
    Stored { run: RunId, thread: ThreadId, word: Option<Control> },
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
        let (started, received) = oneshot::channel();
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
                return Ok(StartedRun { started: received, at: other.at.subscribe() });
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
                Ok(StartedRun { started: received, at })
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
        // If other processes drive runs, this one only writes their beginning.
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
            committed_ms: 0,
            stop_by,
            tail_bytes: 0,
            snapshot_bytes: 0,
        }
    }
}

// A function with a named type, because an attempt may start a child whose driver has attempts of its own: the compiler needs one boxed future in this cycle.
fn spawn(driver: Driver, first: Option<Next>) {
    let (engine, active, run) = (driver.engine.clone(), driver.active.clone(), driver.commit.run.clone());
    let span = trace::run(driver.machine.facts());
    let user = driver.machine.facts().context.user.clone();
    let driven = async move {
        // Panics of flows and effects are caught where they run. A panic here is a bug, and must not leave a run registered that is no longer driven.
        if let Err(panic) = AssertUnwindSafe(driver.drive(first)).catch_unwind().await {
            let why = open::panic_message(&*panic);
            tracing::error!(%run, "the driver panicked: {why}");
            engine.unregister(&run);
            active.at.send_replace(RunState::Lost(EngineError::Crashed { run, why }));
        }
    };
    let driven = store::reading_for(user, driven);
    match span {
        None => tokio::spawn(driven),
        Some(span) => tokio::spawn(driven.instrument(span)),
    };
}

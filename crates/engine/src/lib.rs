//! Drives runs: asks the machine what is next, has the world do it, writes the answers down, and only then tells anyone.
//!
//! ```text
//!   next() ──► commit (journal + intents) ──► tell watchers ──► launch ──► answers, cancel, stop ──► feed() ─┐
//!     ▲                                                                                                      │
//!     └──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`Engine`] is the embedded one: every run is one tokio task in this process ([`embedded`]). What it needs of the world and
//! the store are traits, and deciding is `graph`'s, so the loop stays short and another engine can be the same loop again.
//!
//! Deliberately absent: HTTP, SQL, names of vendors, and anything a flow would have to know about.

#![warn(missing_docs)]

mod active;
mod background;
mod child;
mod embedded;
mod error;
mod family;
mod flight;
mod fork;
mod lease;
mod memory;
mod open;
mod open_questions;
mod permissions;
mod replay;
mod settings;
pub mod trace;
mod upkeep;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use effects::World;
use graph::{Addresses, Budget, Graph, Outcome, Run, RunContext, RunId, Start, TaskId, ThreadId, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{RunRow, SignalKind, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch as cell};

pub use error::EngineError;
pub use family::{Family, Heard, Known, Whom, family_past};
pub use fork::Fork;
pub use open_questions::{OpenQuestion, plan_as_sent, plan_lists};
pub use replay::{History, Replayed, replay};
pub use settings::{Clock, OnAnswer, OnExpired, Settings};
pub use watch::{Seen, Watcher};

use active::Active;
use background::Background;
use embedded::{Beginning, Live};
use lease::Leases;

/// With the error of the engine.
pub type Result<T> = std::result::Result<T, EngineError>;

/// The flows an engine knows, by name.
pub type Flows = BTreeMap<String, Graph>;

/// Runs flows in this process. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(crate) struct Inner {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    flows: Flows,
    settings: Settings,
    leases: Leases,
    /// Runs that are in memory here.
    active: Mutex<HashMap<RunId, Arc<Active>>>,
    /// Feeds of runs that are watched and not in memory. Locked only under `active`.
    early_subscribers: Mutex<HashMap<RunId, Arc<watch::Feed>>>,
    active_count: cell::Sender<usize>,
    places: Arc<Semaphore>,
    queued: AtomicUsize,
    stopping: AtomicBool,
    background: Background,
    /// Whether this engine takes up what others left.
    sweeping: AtomicBool,
    /// Runs that are about to be taken up, and those that could not be and are not tried again.
    seen: Mutex<HashSet<RunId>>,
}

/// Where a run is, for those who wait for it.
#[derive(Clone, Debug)]
pub enum At {
    /// It is being driven.
    Going,
    /// Put away until a person answers.
    Parked(Vec<Waiting>),
    /// It has ended.
    Over(Arc<Closing>),
    /// This process no longer drives it; what was confirmed is in the store.
    Lost(EngineError),
}

/// How a run ended and what it cost, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What it used.
    #[serde(default)]
    pub spent: graph::Usage,
    /// How long it took, in microseconds.
    #[serde(default)]
    pub elapsed_us: u64,
}

/// What may be said to a run while it goes.
pub(crate) enum Control {
    Cancel {
        reason: String,
        done: Option<oneshot::Sender<Result<()>>>,
    },
    Answer {
        task: TaskId,
        attempt: u32,
        value: Value,
        done: Option<oneshot::Sender<Result<()>>>,
    },
    /// A child that was waiting for a person has ended.
    ChildOver {
        child: RunId,
        done: oneshot::Sender<()>,
    },
    /// Finish what is in flight by then, and let go.
    Stop {
        by: tokio::time::Instant,
    },
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Order {
    /// The name of the flow.
    pub flow: String,
    /// What the flow is given. What it wants to know of the time before is added, where this says nothing of it.
    pub input: Value,
    /// What every effect of the run and of its child runs is performed with: user, model, permissions.
    pub context: RunContext,
    /// A new thread otherwise.
    pub thread: Option<ThreadId>,
    /// A caller that may ask twice names the run; the second time nothing is started.
    pub run: Option<RunId>,
    /// What the run may use.
    pub budget: Budget,
    /// A line for lists.
    pub title: Option<String>,
    /// Not all of the input is the user's own words: it holds earlier answers, or output of tools or agents.
    pub is_tainted: bool,
    /// How many agents stand between a person and this run. Past `depth_max` it may not call others.
    pub depth: u32,
}

impl Order {
    /// A run of this flow in a thread of its own.
    pub fn new(flow: impl Into<String>, input: Value) -> Self {
        Order {
            flow: flow.into(),
            input,
            context: RunContext::default(),
            thread: None,
            run: None,
            budget: Budget::default(),
            title: None,
            is_tainted: false,
            depth: 0,
        }
    }
}

/// A name for a run that is about to be started. They sort by time.
pub fn fresh() -> RunId {
    RunId::from(uuid::Uuid::now_v7().simple().to_string())
}

/// What became of a word to a run that may be driven elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the journal.
    Taken,
    /// Another process drives the run; it will find the word.
    Posted,
}

impl Engine {
    /// An engine for these flows over a store, with `world` to perform their effects.
    pub fn new(store: Arc<dyn Store>, world: Arc<dyn World>, flows: impl IntoIterator<Item = Graph>, settings: Settings) -> Engine {
        let inner = Inner {
            leases: Leases::default(),
            active: Mutex::default(),
            early_subscribers: Mutex::default(),
            active_count: cell::Sender::new(0),
            places: Arc::new(Semaphore::new(settings.runs_max)),
            queued: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            background: Background::default(),
            sweeping: AtomicBool::new(false),
            seen: Mutex::default(),
            flows: flows.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect(),
            store,
            world,
            settings,
        };
        let engine = Engine(Arc::new(inner));
        upkeep::spawn(&engine.0);
        engine
    }

    /// The flows it knows.
    pub fn flows(&self) -> &Flows {
        &self.0.flows
    }

    /// The store it writes to.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// How many runs are in memory here.
    pub fn going(&self) -> usize {
        self.0.lock_active().len()
    }

    /// Starts a run. When this returns, the run is in the store and survives this process.
    ///
    /// With `runs_max` runs going, it waits for a place; with `queue_max` callers waiting, it says `Busy` at once.
    pub async fn start(&self, order: Order) -> Result<RunId> {
        self.begin(order).await.map(|(run, _)| run)
    }

    /// Starts a run and waits as [`Engine::wait`] does. For those who want nothing but the outcome: it is not read back from the store.
    pub async fn perform(&self, order: Order) -> Result<(RunId, At)> {
        let (run, at) = self.begin(order).await?;
        if let Some(mut at) = at {
            match at.wait_for(|at| !matches!(at, At::Going)).await.map(|at| at.clone()) {
                Ok(At::Lost(e)) => return Err(e),
                Ok(at) => return Ok((run, at)),
                Err(_) => {}
            }
        }
        let at = self.wait(&run).await?;
        Ok((run, at))
    }

    /// `None` for a run that was there already.
    async fn begin(&self, order: Order) -> Result<(RunId, Option<cell::Receiver<At>>)> {
        // Asked a second time: nothing is begun, not even for a moment, or whoever takes up the run would think that it goes already.
        if let Some(run) = &order.run
            && self.0.store.run(run).await?.is_some()
        {
            return Ok((run.clone(), None));
        }
        let run = order.run.unwrap_or_else(fresh);
        let thread = order.thread.unwrap_or_else(|| ThreadId::from(run.as_str()));
        let title = order.title.unwrap_or_else(|| title_of(&order.input));
        let graph = self.0.graph(&order.flow)?;
        let (mut context, mut input) = (order.context, order.input);
        context.model = context.model.or_else(|| self.0.settings.default_model.clone());
        // Before anything is recalled into it. An input that holds more than the user's own words names nothing.
        let addresses = if order.is_tainted { Addresses::default() } else { Addresses::named_in(&input) };
        let is_tainted = self.0.recall(&graph, &context.user, &thread, &mut input).await? || order.is_tainted;
        let (budget, depth) = (order.budget, order.depth);
        let start = Start { budget, context, is_tainted, addresses, depth, ..Start::new(&order.flow, thread, run.clone(), input) };
        let machine = Box::new(Run::start(&graph, start)?);
        let place = self.0.clone().place().await?;
        let beginning = Beginning::New { machine, title, past: Vec::new() };
        let begun = Live::begin(&self.0, beginning, Some(place)).await?;
        match begun.started.await {
            Ok(Ok(())) => Ok((run, Some(begun.at))),
            Ok(Err(EngineError::Store(StoreError::Exists { .. }))) => Ok((run, None)),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(EngineError::Stopping),
        }
    }

    /// Takes up a run that is in the store and not over. Doing so to a run that is going here is no error.
    pub async fn resume(&self, run: &RunId) -> Result<()> {
        let place = self.0.clone().place().await?;
        self.0.take_up(run, Some(place), None).await
    }

    /// Where a run is now, and from then on. A run that is not in memory is looked up.
    pub async fn at(&self, run: &RunId) -> Result<At> {
        if let Some(active) = self.0.active(run) {
            return Ok(active.at.borrow().clone());
        }
        let row = self.0.row(run).await?;
        if let Some(closing) = closing_of(&row) {
            return Ok(At::Over(Arc::new(closing)));
        }
        match row.status {
            store::Status::Asking | store::Status::Waiting => Ok(At::Parked(self.waiting(run).await?)),
            _ => Ok(At::Going),
        }
    }

    /// Waits until the run is over, or until only a person can move it.
    pub async fn wait(&self, run: &RunId) -> Result<At> {
        loop {
            if let Some(active) = self.0.active(run) {
                let mut at = active.at.subscribe();
                drop(active);
                match at.wait_for(|at| !matches!(at, At::Going)).await.map(|at| at.clone()) {
                    Ok(At::Lost(e)) => return Err(e),
                    Ok(at) => return Ok(at),
                    Err(_) => {}
                }
            }
            match self.at(run).await? {
                // Driven by another process, or between two moments of this one.
                At::Going => tokio::time::sleep(Duration::from_millis(self.0.settings.poll_ms.min(50))).await,
                at => return Ok(at),
            }
        }
    }

    /// The questions a parked run has for people.
    pub async fn waiting(&self, run: &RunId) -> Result<Vec<Waiting>> {
        let mut opened = open::open(&*self.0.store, &self.0.flows, run).await?;
        open::guarded(&mut opened.machine)?;
        Ok(opened.machine.waiting())
    }

    /// Gives a person's answer, wherever the run is driven. What it allows for good is in the store when this returns `Taken`.
    pub async fn answer(&self, run: &RunId, task: TaskId, attempt: u32, value: Value) -> Result<Delivery> {
        let delivery = self.give(run, task, attempt, &value).await?;
        if delivery == Delivery::Taken && permissions::is_standing(&value) {
            self.answer_covered(run).await;
        }
        Ok(delivery)
    }

    async fn give(&self, run: &RunId, task: TaskId, attempt: u32, value: &Value) -> Result<Delivery> {
        let post = SignalKind::Answer { task, attempt, value: value.clone() };
        self.tell(run, post, |done| Control::Answer { task, attempt, value: value.clone(), done: Some(done) }).await
    }

    /// Ends a run and its children, wherever they are driven.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<Delivery> {
        let post = SignalKind::Cancel { reason: reason.to_owned() };
        self.tell(run, post, |done| Control::Cancel { reason: reason.to_owned(), done: Some(done) }).await
    }

    /// Events from a number on: those that were, then those that come, until the run is over.
    ///
    /// It listens from now on, even to a run that is not started or taken up yet; it reads when it is asked for the next event.
    pub fn watch(&self, run: &RunId, from_seq: u64) -> Watcher {
        Watcher::new(self.0.clone(), run.clone(), from_seq)
    }

    /// Takes up every run that somebody should be driving. Returns how many were; trouble with one is logged and leaves the others be.
    pub async fn recover(&self) -> Result<usize> {
        upkeep::recover(&self.0).await
    }

    /// Starts a new run that has the past of another up to a step.
    pub async fn fork(&self, run: &RunId, fork: Fork) -> Result<RunId> {
        fork::fork(self, run, fork).await
    }

    /// Stops in order: starts nothing more, lets effects that are being performed finish within `grace`, commits every run with its children, gives
    /// every lease back, and waits for background tasks. After that nothing of the engine uses the store, and it may be closed. What did not finish
    /// continues at the next start.
    pub async fn stop(&self, grace: Duration) {
        self.0.stopping.store(true, Ordering::SeqCst);
        self.0.places.close();
        let by = tokio::time::Instant::now() + grace;
        let going: Vec<_> = self.0.lock_active().values().cloned().collect();
        for active in going {
            // A full or closed channel belongs to a run that is busy or already letting go; the deadline below catches the rest.
            let _ = active.control.send(Control::Stop { by }).await;
        }
        let mut count = self.0.active_count.subscribe();
        let idle = async {
            let _ = count.wait_for(|count| *count == 0).await;
            // A run that ended may have left the notification of its parent to a background task.
            self.0.background.idle().await;
        };
        if tokio::time::timeout_at(by + Duration::from_secs(5), idle).await.is_err() {
            tracing::warn!("some runs did not stop in time; they continue at the next start");
        }
    }

    async fn tell(&self, run: &RunId, post: SignalKind, control: impl Fn(oneshot::Sender<Result<()>>) -> Control) -> Result<Delivery> {
        // A run may be put away between being found and being told; then it is taken up and told again.
        for _ in 0..8 {
            let (done, taken) = oneshot::channel();
            if let Some(active) = self.0.active(run) {
                if active.control.send(control(done)).await.is_ok()
                    && let Ok(result) = taken.await
                {
                    return result.map(|()| Delivery::Taken);
                }
                tokio::task::yield_now().await;
                continue;
            }
            match self.0.take_up(run, None, Some(control(done))).await {
                Ok(()) => match taken.await {
                    Ok(result) => return result.map(|()| Delivery::Taken),
                    Err(_) => continue,
                },
                Err(EngineError::Store(StoreError::Held { .. })) => {
                    self.0.store.post(run, post).await?;
                    return Ok(Delivery::Posted);
                }
                Err(e) => return Err(e),
            }
        }
        Err(EngineError::Restless { run: run.clone() })
    }
}

impl Inner {
    fn graph(&self, flow: &str) -> Result<Graph> {
        self.flows.get(flow).cloned().ok_or_else(|| EngineError::NoFlow { flow: flow.to_owned(), known: self.flows.keys().cloned().collect() })
    }

    async fn row(&self, run: &RunId) -> Result<RunRow> {
        self.store.run(run).await?.ok_or_else(|| StoreError::NoRun { run: run.clone() }.into())
    }

    /// A place for a run that is already in the store: it waits as long as it takes.
    async fn place_without_queue(self: Arc<Self>) -> Result<OwnedSemaphorePermit> {
        self.places.clone().acquire_owned().await.map_err(|_| EngineError::Stopping)
    }

    async fn place(self: Arc<Self>) -> Result<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        if self.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let queue_max = self.settings.queue_max;
        let taken = self.queued.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |queued| (queued < queue_max).then_some(queued + 1));
        if taken.is_err() {
            return Err(EngineError::Busy { runs_max: self.settings.runs_max, queue_max });
        }
        let _queued = Leave(&self.queued);
        self.places.clone().acquire_owned().await.map_err(|_| EngineError::Stopping)
    }

    /// Opens a run that is in the store and drives it on. `word` reaches it before anything else.
    async fn take_up(self: &Arc<Self>, run: &RunId, place: Option<OwnedSemaphorePermit>, word: Option<Control>) -> Result<()> {
        if self.active(run).is_some() && word.is_none() {
            return Ok(());
        }
        let row = self.row(run).await?;
        must_be_open(&row)?;
        let begun = Live::begin(self, Beginning::Kept { run: row.run, thread: row.thread, word }, place).await?;
        match begun.started.await {
            Ok(result) => result,
            Err(_) => Err(EngineError::Stopping),
        }
    }
}

struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A run that is over is not taken up; one whose flow crashed may be, in case it is mended.
fn must_be_open(row: &RunRow) -> Result<()> {
    match closing_of(row) {
        Some(closing) if !matches!(closing.outcome, Outcome::Failed { fault: graph::Fault::Crash { .. } }) => {
            Err(EngineError::Over { run: row.run.clone(), status: row.status })
        }
        _ => Ok(()),
    }
}

/// How a run that is over ended.
pub fn closing_of(row: &RunRow) -> Option<Closing> {
    if !row.status.is_over() {
        return None;
    }
    serde_json::from_value(row.outcome.clone()?).ok()
}

fn title_of(input: &Value) -> String {
    fn first(value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => Some(text),
            Value::Array(items) => items.iter().find_map(first),
            Value::Object(map) => map.values().find_map(first),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
    first(input).unwrap_or_default().chars().take(120).collect()
}

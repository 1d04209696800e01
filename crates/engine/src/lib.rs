//! Drives runs: asks the state machine for the next step, performs its effects, commits the replies, and publishes events after the commit.
//!
//! ```text
//!   next() ──► commit (journal + intents) ──► publish ──► launch ──► answers, cancel, stop ──► feed() ─┐
//!     ▲                                                                                                      │
//!     └──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Every run is one tokio task in this process ([`driver`]). Effects and storage are traits; decisions are made in `graph`.
//!
//! Deliberately absent: HTTP, SQL, vendors, and knowledge of particular flows.

#![warn(missing_docs)]

mod active;
mod attempt;
mod background;
mod child;
mod dispatch;
mod drive;
mod driver;
mod error;
mod fork;
mod health;
mod heavy;
mod lease;
mod memory;
mod open;
mod open_questions;
mod permissions;
mod remote;
mod replay;
mod settings;
mod steps;
mod store_changes;
mod takeover;
pub mod trace;
mod tree_watcher;
mod upkeep;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use effects::EffectHandler;
use graph::{Addresses, Budget, Graph, Outcome, Run, RunContext, RunId, Start, TaskId, ThreadId, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Change, RunRow, SignalKind, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch as cell};

pub use error::EngineError;
pub use fork::Fork;
pub use health::HealthNow;
pub use heavy::in_place;
pub use open_questions::{OpenQuestion, plan_as_sent, plan_lists};
pub use remote::{Dispatcher, DriveRequest, Performed, RemoteEffects};
pub use replay::{History, Replayed, replay};
pub use settings::{Clock, OnAnswer, OnExpired, Settings};
pub use steps::{StateChange, Step, Steps, changes};
pub use takeover::{AbandonedRun, KIND as TAKEOVER_KIND, abandoned_runs};
pub use tree_watcher::{SeenCounts, TreeItem, TreeWatcher, WatchScope, tree_history};
pub use watch::{FeedItem, Watcher};

use active::Active;
use background::Background;
use driver::{Driver, RunSource};
use health::Health;
use lease::Leases;
use store_changes::StoreChanges;

/// With the error of the engine.
pub type Result<T> = std::result::Result<T, EngineError>;

/// The flows of an engine, by name.
pub type Flows = BTreeMap<String, Graph>;

/// Runs flows in this process. Clones are cheap and share one engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(crate) struct Inner {
    store: Arc<dyn Store>,
    handler: Arc<dyn EffectHandler>,
    flows: Flows,
    settings: Settings,
    /// The model of runs that are started without one; `settings.default_model` at first.
    default_model: RwLock<Option<String>>,
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
    /// Whether this engine resumes runs that no other process drives.
    sweeping: AtomicBool,
    /// Runs that are being resumed, and those that failed to and are not tried again.
    seen: Mutex<HashSet<RunId>>,
    /// The last ticket with which a run was submitted to the dispatcher.
    submitted: Mutex<HashMap<RunId, String>>,
    health: Health,
    /// Whether there are other processes that are notified of what is not stored.
    has_others: bool,
    /// Runs of other processes that may be driven here at the same time: half of the places, so that new ones start meanwhile.
    recoveries: Arc<Semaphore>,
    /// Runs whose process ended again and again are driven one at a time.
    suspects: Arc<Semaphore>,
}

/// The state of a run.
#[derive(Clone, Debug)]
pub enum RunState {
    /// It is being driven.
    Going,
    /// Not in memory until a person answers.
    Parked(Vec<Waiting>),
    /// It has ended.
    Over(Arc<RunResult>),
    /// This process no longer drives the run; what was committed is in the store.
    Lost(EngineError),
}

/// The outcome of a run and its cost, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
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

/// A control message to a run in memory.
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
    /// Finish pending attempts by then, and stop.
    Stop {
        by: tokio::time::Instant,
    },
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Order {
    /// The name of the flow.
    pub flow: String,
    /// The input of the flow. Context from earlier runs is added where the input does not set it.
    pub input: Value,
    /// What every effect of the run and of its child runs is performed with: user, model, permissions.
    pub context: RunContext,
    /// The thread of the run; a new one by default.
    pub thread: Option<ThreadId>,
    /// The id of the run, for callers that may retry: a second start with the same id starts nothing.
    pub run: Option<RunId>,
    /// What the run may use.
    pub budget: Budget,
    /// The title in lists.
    pub title: Option<String>,
    /// Not all of the input is the user's own words: it holds earlier answers, or output of tools or agents.
    pub is_tainted: bool,
    /// Number of agents between a person and this run. At `depth_max` it may not call others.
    pub depth: u32,
    /// The earlier messages, in place of those of the thread: a branch of a conversation has only some of them.
    pub history: Option<Vec<graph::Message>>,
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
            history: None,
        }
    }
}

/// A new run id. Ids sort by time.
pub fn new_run_id() -> RunId {
    RunId::from(uuid::Uuid::now_v7().simple().to_string())
}

/// How a message to a run was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the journal.
    Taken,
    /// Another process drives the run and will read the message from the store.
    Posted,
}

impl Engine {
    /// An engine for these flows over a store, with `world` to perform their effects.
    pub fn new(store: Arc<dyn Store>, handler: Arc<dyn EffectHandler>, flows: impl IntoIterator<Item = Graph>, settings: Settings) -> Engine {
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
            submitted: Mutex::default(),
            health: Health::default(),
            has_others: store.changes().is_some(),
            recoveries: Arc::new(Semaphore::new((settings.runs_max / 2).max(1))),
            suspects: Arc::new(Semaphore::new(1)),
            flows: flows.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect(),
            store,
            handler,
            default_model: RwLock::new(settings.default_model.clone()),
            settings,
        };
        let engine = Engine(Arc::new(inner));
        upkeep::spawn(&engine.0);
        engine
    }

    /// Its flows.
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

    /// What an operator is alarmed by.
    pub fn health(&self) -> HealthNow {
        self.0.health.now()
    }

    /// Starts a run. When this returns, the run is in the store and survives this process.
    ///
    /// With `runs_max` runs in memory it waits; with `queue_max` callers waiting it fails with `Busy`.
    pub async fn start(&self, order: Order) -> Result<RunId> {
        self.begin(order).await.map(|(run, _)| run)
    }

    /// Starts a run and waits as [`Engine::wait`] does. The outcome is not read back from the store.
    pub async fn perform(&self, order: Order) -> Result<(RunId, RunState)> {
        let (run, at) = self.begin(order).await?;
        if let Some(mut at) = at {
            match at.wait_for(|at| !matches!(at, RunState::Going)).await.map(|at| at.clone()) {
                Ok(RunState::Lost(e)) => return Err(e),
                Ok(at) => return Ok((run, at)),
                Err(_) => {}
            }
        }
        let at = self.wait(&run).await?;
        Ok((run, at))
    }

    /// Runs that are started without a model have this one from now on.
    pub fn set_default_model(&self, model: &str) {
        *self.0.default_model.write().unwrap_or_else(PoisonError::into_inner) = Some(model.to_owned());
    }

    /// `None` for a run that exists already.
    async fn begin(&self, order: Order) -> Result<(RunId, Option<cell::Receiver<RunState>>)> {
        // A retry starts nothing, not even briefly: a caller that resumes the run would find it active.
        if let Some(run) = &order.run
            && self.0.store.run(run).await?.is_some()
        {
            return Ok((run.clone(), None));
        }
        let run = order.run.unwrap_or_else(new_run_id);
        let thread = order.thread.unwrap_or_else(|| ThreadId::from(run.as_str()));
        let title = order.title.unwrap_or_else(|| title_of(&order.input));
        let graph = self.0.graph(&order.flow)?;
        let (mut context, mut input) = (order.context, order.input);
        context.model = context.model.or_else(|| self.0.default_model.read().unwrap_or_else(PoisonError::into_inner).clone());
        // Taken before context is added. An input that is not only the user's own words names no addresses.
        let addresses = if order.is_tainted { Addresses::default() } else { Addresses::named_in(&input) };
        let is_tainted = self.0.recall(&graph, &context.user, &thread, order.history, &mut input).await? || order.is_tainted;
        let (budget, depth) = (order.budget, order.depth);
        let start = Start { budget, context, is_tainted, addresses, depth, ..Start::new(&order.flow, thread, run.clone(), input) };
        // Refuses an input that does not fit before it waits.
        let machine = Run::start(&graph, start.clone())?;
        let place = self.0.clone().place().await?;
        let first = Mutex::new(Some(machine));
        let source = || {
            let machine = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let machine = Box::new(machine.map_or_else(|| Run::start(&graph, start.clone()), Ok)?);
            Ok(RunSource::New { machine, title: title.clone(), past: Vec::new() })
        };
        match self.0.begin_run(source, place).await {
            Ok(at) => Ok((run, at)),
            Err(EngineError::Store(StoreError::Exists { .. })) => Ok((run, None)),
            Err(e) => Err(e),
        }
    }

    /// Resumes a run that is in the store and has not ended. A run that is in memory here is left as it is.
    pub async fn resume(&self, run: &RunId) -> Result<()> {
        if let Some(dispatcher) = self.0.dispatcher() {
            return self.0.dispatch_resume(&*dispatcher, run).await;
        }
        self.0.forget_takeovers(run).await?;
        let place = self.0.clone().place().await?;
        self.0.resume_stored(run, Some(place), None).await
    }

    /// The state of a run; read from the store if it is not in memory.
    pub async fn at(&self, run: &RunId) -> Result<RunState> {
        if let Some(active) = self.0.active(run) {
            return Ok(active.at.borrow().clone());
        }
        let row = self.0.row(run).await?;
        if let Some(closing) = result_of(&row) {
            return Ok(RunState::Over(Arc::new(closing)));
        }
        match row.status {
            store::Status::Asking | store::Status::Waiting => Ok(RunState::Parked(self.waiting(run).await?)),
            _ => Ok(RunState::Going),
        }
    }

    /// Waits until the run has ended or waits for a person.
    pub async fn wait(&self, run: &RunId) -> Result<RunState> {
        let mut changes = None;
        loop {
            if let Some(active) = self.0.active(run) {
                let mut at = active.at.subscribe();
                drop(active);
                match at.wait_for(|at| !matches!(at, RunState::Going)).await.map(|at| at.clone()) {
                    // It was in memory only to receive a message, and is driven by another process.
                    Ok(RunState::Lost(EngineError::Stopping)) if self.0.dispatcher().is_some() && !self.0.is_stopping() => {}
                    Ok(RunState::Lost(e)) => return Err(e),
                    Ok(at) => return Ok(at),
                    Err(_) => {}
                }
            }
            match self.at(run).await? {
                // Driven by another process, or about to be registered in this one.
                RunState::Going => {
                    let patience = Duration::from_millis(self.0.settings.poll_ms.min(50));
                    let changes = changes.get_or_insert_with(|| StoreChanges::of(&self.0.store));
                    changes.wait(patience, |change| matches!(change, Change::Run(changed) if changed == run)).await;
                }
                at => return Ok(at),
            }
        }
    }

    /// The open questions of a parked run.
    pub async fn waiting(&self, run: &RunId) -> Result<Vec<Waiting>> {
        let mut opened = open::open(&*self.0.store, &self.0.flows, run).await?;
        open::guarded(&mut opened.machine)?;
        Ok(opened.machine.waiting())
    }

    /// Delivers a person's answer, whichever process drives the run. A standing permission is in the store when this returns `Taken`.
    pub async fn answer(&self, run: &RunId, task: TaskId, attempt: u32, value: Value) -> Result<Delivery> {
        let delivery = self.give(run, task, attempt, &value).await?;
        if delivery == Delivery::Taken && permissions::is_standing(&value) {
            self.answer_covered(run).await;
        }
        Ok(delivery)
    }

    async fn give(&self, run: &RunId, task: TaskId, attempt: u32, value: &Value) -> Result<Delivery> {
        let post = SignalKind::Answer { task, attempt, value: value.clone() };
        self.deliver(run, post, |done| Control::Answer { task, attempt, value: value.clone(), done: Some(done) }).await
    }

    /// Cancels a run and its children, whichever process drives them.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<Delivery> {
        let post = SignalKind::Cancel { reason: reason.to_owned() };
        self.deliver(run, post, |done| Control::Cancel { reason: reason.to_owned(), done: Some(done) }).await
    }

    /// Events starting at a number: past ones, then new ones until the run has ended.
    ///
    /// Subscribes at once, also to a run that is not started; past events are read on the first call of `next`.
    pub fn watch(&self, run: &RunId, from_seq: u64) -> Watcher {
        Watcher::new(self.0.clone(), run.clone(), from_seq)
    }

    /// Resumes every unfinished run that no process drives, and returns their number. A run that cannot be resumed is logged.
    pub async fn recover(&self) -> Result<usize> {
        upkeep::recover(&self.0).await
    }

    /// Starts a new run from the journal of another one up to a step.
    pub async fn fork(&self, run: &RunId, fork: Fork) -> Result<RunId> {
        fork::fork(self, run, fork).await
    }

    /// Stops in order: starts nothing more, lets effects that are being performed finish within `grace`, commits every run with its children, gives
    /// every lease back, and waits for background tasks. After that nothing of the engine uses the store, and it may be closed. What did not finish
    /// continues at the next start.
    pub async fn stop(&self, grace: Duration) {
        self.0.stopping.store(true, Ordering::SeqCst);
        self.0.places.close();
        self.0.recoveries.close();
        let by = tokio::time::Instant::now() + grace;
        let going: Vec<_> = self.0.lock_active().values().cloned().collect();
        for active in going {
            // A closed channel belongs to a run that is ending; the deadline below covers the rest.
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

    async fn deliver(&self, run: &RunId, post: SignalKind, control: impl Fn(oneshot::Sender<Result<()>>) -> Control) -> Result<Delivery> {
        if let Some(dispatcher) = self.0.dispatcher() {
            return self.0.dispatch_message(&*dispatcher, run, post, control).await;
        }
        // A run may be parked between being found and receiving the message; then it is resumed and the message is sent again.
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
            match self.0.resume_stored(run, None, Some(control(done))).await {
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

    /// A permit for a run that is in the store already: waits without limit.
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
        let _queued = QueueSlot(&self.queued);
        self.places.clone().acquire_owned().await.map_err(|_| EngineError::Stopping)
    }

    /// Opens a run from the store and drives it. `word` is handled first.
    async fn resume_stored(self: &Arc<Self>, run: &RunId, place: Option<OwnedSemaphorePermit>, word: Option<Control>) -> Result<()> {
        if self.active(run).is_some() && word.is_none() {
            return Ok(());
        }
        let row = self.row(run).await?;
        must_be_open(&row)?;
        let begun = Driver::begin(self, RunSource::Stored { run: row.run, thread: row.thread, word }, place).await?;
        match begun.started.await {
            Ok(result) => result,
            Err(_) => Err(EngineError::Stopping),
        }
    }
}

struct QueueSlot<'a>(&'a AtomicUsize);

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A run that has ended cannot be resumed, except one whose flow panicked: the flow may have been fixed.
fn must_be_open(row: &RunRow) -> Result<()> {
    match result_of(row) {
        Some(closing) if !matches!(closing.outcome, Outcome::Failed { fault: graph::Fault::Crash { .. } }) => {
            Err(EngineError::Over { run: row.run.clone(), status: row.status })
        }
        _ => Ok(()),
    }
}

/// The result of a run that has ended.
pub fn result_of(row: &RunRow) -> Option<RunResult> {
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

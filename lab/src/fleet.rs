//! A fleet of workers on one store, in simulated time: real engines over one memory store, each with its own way to it. Workers are killed, started again, and
//! cut off from the store for longer than their leases last, while runs arrive. In the end every run must have ended well, with its mail sent exactly once.
//!
//! What it shows is the behaviour of leases, fences and takeovers with many workers; it does not measure the speed of a database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use engine::{Engine, Order, Settings};
use graph::{Ask, END, Go, Graph, GraphError, Job, Key, Replies, Reply, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{MemoryStore, RunFilter, Status, Store};
use tokio::time::Instant;

use crate::sim::case::Pace;
use crate::sim::dice::Dice;
use crate::sim::gate::{Gate, GatedStore};
use crate::sim::ledger::Ledger;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub workers: usize,
    /// Runs that arrive a second, in all, and for how long.
    pub runs_per_s: u64,
    pub seconds: u64,
    /// Mean time between two kills of one worker, and how long it is away.
    pub kill_every_s: u64,
    pub away_s: u64,
    /// The same for being cut off from the store.
    pub cut_every_s: u64,
    pub cut_s: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { seed: 1, workers: 100, runs_per_s: 50, seconds: 60, kill_every_s: 120, away_s: 5, cut_every_s: 240, cut_s: 10 }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub runs: usize,
    pub kills: u64,
    pub cuts: u64,
    /// Runs that did not end well; none may be.
    pub lost: usize,
    /// Runs whose mail was sent another number of times than once; none may be.
    pub mails_wrong: usize,
    /// Calls of models that were performed again because their reply was lost with its worker, as a part of all.
    pub repeated_part: f64,
    /// From the kill of the worker to the next call or mail of one of its runs, in milliseconds.
    pub takeovers: usize,
    pub takeover_ms_median: u64,
    pub takeover_ms_p99: u64,
    /// Simulated seconds until the last run had ended.
    pub ended_after_s: f64,
}

const LEASE_MS: i64 = 3_000;
const SWEEP_MS: i64 = 500;
const CALLS: u64 = 5;
/// A call of a model takes this long at least, and up to four times that.
const CALL_MS: u64 = 400;
/// How long the fleet has to end what arrived.
const REST_S_MAX: u64 = 600;

/// What is outside: it outlives every worker.
#[derive(Default)]
struct ExternalState {
    mails: Mutex<HashMap<Key, (RunId, u32)>>,
    calls: AtomicU64,
    /// When the worker that drove a run was killed, and which run goes on since.
    orphaned: Mutex<HashMap<RunId, Instant>>,
    /// Which worker a run was last seen at.
    at: Mutex<HashMap<RunId, usize>>,
    takeovers_ms: Mutex<Vec<u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExternalState {
    fn seen(&self, run: &RunId, worker: usize) {
        lock(&self.at).insert(run.clone(), worker);
        if let Some(killed) = lock(&self.orphaned).remove(run) {
            lock(&self.takeovers_ms).push(killed.elapsed().as_millis() as u64);
        }
    }

    fn killed(&self, worker: usize) {
        let now = Instant::now();
        let at = lock(&self.at);
        let its = at.iter().filter(|(_, at)| **at == worker).map(|(run, _)| (run.clone(), now));
        lock(&self.orphaned).extend(its);
    }

    fn ended(&self, run: &RunId) {
        lock(&self.at).remove(run);
        lock(&self.orphaned).remove(run);
    }
}

struct Handler {
    worker: usize,
    gate: Arc<Gate>,
    outside: Arc<ExternalState>,
    seed: u64,
}

#[async_trait]
impl EffectHandler for Handler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        match job.effect.name() {
            "mail" => Repeatability::Checkable,
            _ => Repeatability::Repeatable,
        }
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        self.gate.alive().await;
        self.outside.seen(&job.run, self.worker);
        let number = self.outside.calls.fetch_add(1, Ordering::Relaxed);
        let half = Duration::from_millis((CALL_MS + Dice::new(&[self.seed, number]).below(3 * CALL_MS)) / 2);
        tokio::time::sleep(half).await;
        self.gate.alive().await;
        if job.effect.name() == "mail" {
            lock(&self.outside.mails).entry(job.key).or_insert_with(|| (job.run.clone(), 0)).1 += 1;
            // A worker that is cut here has sent the mail and has not recorded it.
            tokio::time::sleep(half).await;
            self.gate.alive().await;
            return Reply::ok("sent");
        }
        tokio::time::sleep(half).await;
        self.gate.alive().await;
        Reply::ok("a word")
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.gate.alive().await;
        self.outside.seen(&job.run, self.worker);
        match lock(&self.outside.mails).contains_key(&job.key) {
            true => LookUp::Done(Reply::ok("sent")),
            false => LookUp::NotDone,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct StepsLeft {
    left: u64,
}

/// Some calls of a model, then a mail.
fn flow() -> Result<Graph, GraphError> {
    let think = |s: &mut StepsLeft, _: &Replies<'_>| {
        s.left -= 1;
        if s.left == 0 { Go::to("send") } else { Go::to("think") }
    };
    let sent = |_: &mut StepsLeft, replies: &Replies<'_>| match replies.iter().all(|reply| reply.result.is_ok()) {
        true => Go::end(),
        false => Go::fail("the mail was not sent"),
    };
    Graph::of::<StepsLeft>("work")
        .node("think", (|_: &StepsLeft| Ask::one(graph::tool("model", Value::Null)), think), &["think", "send"])
        .node("send", (|_: &StepsLeft| Ask::one(graph::tool("mail", Value::Null)), sent), &[END])
        .build()
}

/// One life of a worker.
struct Worker {
    engine: Engine,
    gate: Arc<Gate>,
}

struct Fleet {
    plan: Plan,
    store: Arc<MemoryStore>,
    ledger: Arc<Ledger>,
    outside: Arc<ExternalState>,
    graph: Graph,
    began: Instant,
    starts: u64,
}

impl Fleet {
    async fn start(&mut self, worker: usize) -> Result<Worker, String> {
        self.starts += 1;
        let gate = Arc::new(Gate::new(None, Pace::AtOnce, self.starts, false));
        let store = GatedStore { inner: self.store.clone(), gate: gate.clone(), ledger: self.ledger.clone(), stands_still: false };
        let handler = Handler { worker, gate: gate.clone(), outside: self.outside.clone(), seed: self.plan.seed };
        let began = self.began;
        let settings = Settings {
            owner: format!("worker {worker} start {}", self.starts),
            lease_ms: LEASE_MS,
            sweep_ms: SWEEP_MS,
            poll_ms: 500,
            clock: Arc::new(move || 1_700_000_000_000 + i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX)),
            ..Settings::default()
        };
        let engine = Engine::new(Arc::new(store), Arc::new(handler), [self.graph.clone()], settings);
        engine.recover().await.map_err(|error| error.to_string())?;
        Ok(Worker { engine, gate })
    }

    async fn unfinished(&self) -> Result<usize, String> {
        let filter = RunFilter { statuses: vec![Status::Running, Status::Waiting, Status::Asking], limit: usize::MAX, ..RunFilter::default() };
        Ok(self.store.runs(filter).await.map_err(|error| error.to_string())?.len())
    }
}

/// Runs the plan in simulated time.
pub fn simulate(plan: Plan) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().map_err(|error| error.to_string())?;
    runtime.block_on(drive(plan))
}

/// What happens to a worker next.
enum WorkerEvent {
    Kill,
    Start,
    CutOff,
    Connect,
}

async fn drive(plan: Plan) -> Result<Report, String> {
    let graph = flow().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut fleet = Fleet { plan, store: Arc::new(MemoryStore::new()), ledger: Arc::default(), outside: Arc::default(), graph, began, starts: 0 };
    let mut dice = Dice::new(&[plan.seed, 0xf1ee7]);
    let mut workers: Vec<Option<Worker>> = Vec::new();
    let mut fates: Vec<(Duration, usize, WorkerEvent)> = Vec::new();
    // Between half of the mean and half as much again.
    let mut after = |mean_s: u64, now: Duration| now + Duration::from_millis(mean_s * 500 + dice.below(mean_s * 1_000 + 1));
    for worker in 0..plan.workers {
        workers.push(Some(fleet.start(worker).await?));
        fates.push((after(plan.kill_every_s, Duration::ZERO), worker, WorkerEvent::Kill));
        fates.push((after(plan.cut_every_s, Duration::ZERO), worker, WorkerEvent::CutOff));
    }
    let mut report = Report::default();
    let mut started: Vec<RunId> = Vec::new();
    let mut next_worker = 0;
    let tick = Duration::from_millis(20);
    let arrives = Duration::from_secs(plan.seconds);
    loop {
        tokio::time::sleep(tick).await;
        let now = began.elapsed();
        let due: Vec<usize> = (0..fates.len()).filter(|at| fates[*at].0 <= now).collect();
        for at in due {
            let worker = fates[at].1;
            let (when, fate) = match fates[at].2 {
                WorkerEvent::Kill => {
                    // Nobody is killed any more once nothing arrives: the fleet shall come to rest.
                    if now < arrives
                        && let Some(life) = workers[worker].take()
                    {
                        life.gate.kill();
                        fleet.outside.killed(worker);
                        report.kills += 1;
                        (now + Duration::from_secs(plan.away_s), WorkerEvent::Start)
                    } else {
                        (after(plan.kill_every_s, now), WorkerEvent::Kill)
                    }
                }
                WorkerEvent::Start => {
                    workers[worker] = Some(fleet.start(worker).await?);
                    (after(plan.kill_every_s, now), WorkerEvent::Kill)
                }
                WorkerEvent::CutOff => match workers[worker].as_ref().filter(|_| now < arrives) {
                    Some(life) => {
                        life.gate.cut_off(true);
                        report.cuts += 1;
                        (now + Duration::from_secs(plan.cut_s), WorkerEvent::Connect)
                    }
                    None => (after(plan.cut_every_s, now), WorkerEvent::CutOff),
                },
                WorkerEvent::Connect => {
                    if let Some(life) = &workers[worker] {
                        life.gate.cut_off(false);
                    }
                    (after(plan.cut_every_s, now), WorkerEvent::CutOff)
                }
            };
            fates[at] = (when, worker, fate);
        }
        let wanted = (now.min(arrives).as_millis() as u64 * plan.runs_per_s / 1_000) as usize;
        let mut tries = 0;
        while started.len() < wanted && tries < 4 * plan.workers {
            tries += 1;
            next_worker = (next_worker + 1) % plan.workers;
            let Some(life) = &workers[next_worker] else { continue };
            let run = RunId::from(format!("run-{}", started.len()));
            let order = Order { run: Some(run.clone()), ..Order::new("work", json!({ "left": CALLS })) };
            // A client that gets no answer asks another worker, with the same id: it is started once.
            if let Ok(Ok(run)) = tokio::time::timeout(Duration::from_millis(5), life.engine.start(order)).await {
                started.push(run);
            }
        }
        if now >= arrives && fleet.unfinished().await? == 0 {
            break;
        }
        if now > arrives + Duration::from_secs(REST_S_MAX) {
            break;
        }
    }
    report.ended_after_s = began.elapsed().as_secs_f64();
    judge(&fleet, &started, report).await
}

async fn judge(fleet: &Fleet, started: &[RunId], mut report: Report) -> Result<Report, String> {
    report.runs = started.len();
    let mails = lock(&fleet.outside.mails).clone();
    let mut sent: HashMap<&RunId, u32> = HashMap::new();
    for (run, times) in mails.values() {
        *sent.entry(run).or_default() += times;
    }
    for run in started {
        let row = fleet.store.run(run).await.map_err(|error| error.to_string())?;
        report.lost += usize::from(row.is_none_or(|row| row.status != Status::Done));
        report.mails_wrong += usize::from(sent.get(run) != Some(&1));
        fleet.outside.ended(run);
    }
    let performed = fleet.outside.calls.load(Ordering::Relaxed) as f64;
    let needed = (started.len() as u64 * (CALLS + 1)) as f64;
    report.repeated_part = (performed - needed) / needed;
    let mut takeovers = lock(&fleet.outside.takeovers_ms).clone();
    takeovers.sort_unstable();
    report.takeovers = takeovers.len();
    report.takeover_ms_median = takeovers.get(takeovers.len() / 2).copied().unwrap_or(0);
    report.takeover_ms_p99 = takeovers.get(takeovers.len() * 99 / 100).copied().unwrap_or(0);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_fleet_loses_nothing_and_sends_every_mail_once() {
        let plan = Plan { workers: 8, runs_per_s: 5, seconds: 20, kill_every_s: 10, away_s: 2, cut_every_s: 20, cut_s: 6, ..Plan::default() };
        let report = simulate(plan).unwrap();
        assert_eq!((report.runs, report.lost, report.mails_wrong), (100, 0, 0), "{report:?}");
        assert!(report.kills > 0 && report.cuts > 0 && report.takeovers > 0, "{report:?}");
    }
}

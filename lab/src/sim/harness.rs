//! One simulated run, from its order to its end, with any number of kills.
//!
//! ```text
//!   life 0: engine ─► recover, start ─► … ✂ at its n-th point
//!   life 1: engine ─► recover, start ─► … ✂                     the store and external state remain
//!   life 2: engine ─► recover, start ─► … the person answers … ─► all ended ─► read the store
//! ```
//!
//! Each life has its own single-threaded runtime with a paused clock, so the same seed and cuts give the same run, without waiting. A kill
//! drops the runtime and everything in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Engine, EngineError, FeedItem, Flows, History, RunResult, Settings, result_of};
use graph::{NumberedEvent, RunId, ThreadId};
use store::{RunFilter, RunRow, Status, Store, StoreError};
use tokio::time::Instant;

use super::case::{Case, SurvivingState};
use super::dice::mix;
use super::gate::{Gate, GatedStore};
use super::home::Home;
use super::person::{Act, Person};

/// The result of a run.
pub struct Record {
    pub runs: BTreeMap<RunId, RunRecord>,
    /// The messages that each root run added to its thread.
    pub messages: BTreeMap<(ThreadId, RunId), Vec<(String, String)>>,
    /// Number of points of the last life.
    pub points: u64,
    pub deaths: usize,
    pub performances: u64,
}

pub struct RunRecord {
    pub closing: RunResult,
    pub events: Vec<NumberedEvent>,
}

#[derive(Clone, Copy, Default)]
pub struct Options {
    pub is_loud: bool,
    /// Watches every root run.
    pub is_watched: bool,
    /// The order of replies in the first life; later ones have their own.
    pub shuffle: u64,
}

/// Far more than any run here needs by its own clock; a run beyond it hangs.
const LIFE_MAX: Duration = Duration::from_secs(600);
/// How long the person waits for a posted message before asking for its result.
const PATIENCE: Duration = Duration::from_secs(5);
/// Long enough that no expired lease repairs anything, if exited processes are detected.
const LEASE_MS_LONG: i64 = 3_600_000;
const LEASE_MS_SHORT: i64 = 2_000;

/// Runs a case, each life ended at its cut. The error is a problem independent of any comparison.
pub fn run(case: &Case, home: &dyn Home, cuts: &[u64], options: Options) -> Result<Record, String> {
    let mut processes =
        ProcessLives { case, elsewhere: SurvivingState::default(), clock: Arc::new(AtomicI64::new(1_000_000)), seen: Arc::default(), options };
    for life in 0.. {
        if let Some(mut record) = processes.live(home, life, cuts.get(life).copied())? {
            record.deaths = life;
            return Ok(record);
        }
    }
    unreachable!("without a cut a life ends the run")
}

struct ProcessLives<'a> {
    case: &'a Case,
    elsewhere: SurvivingState,
    clock: Arc<AtomicI64>,
    seen: Arc<SeenEvents>,
    options: Options,
}

/// Events received by watchers, across all processes.
type SeenEvents = Mutex<BTreeMap<RunId, Vec<Arc<NumberedEvent>>>>;

impl ProcessLives<'_> {
    /// `None` when it was cut.
    fn live(&mut self, home: &dyn Home, life: usize, cut: Option<u64>) -> Result<Option<Record>, String> {
        if self.options.is_loud {
            eprintln!("life {life}");
        }
        let turn = mix(&[self.case.seed, 12, life as u64, self.options.shuffle]);
        let gate = Arc::new(Gate::new(cut, self.case.pace, turn, self.options.is_loud));
        let store = home.open()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().map_err(|e| e.to_string())?;
        let ended = runtime.block_on(async {
            let begun = Instant::now();
            let ended = tokio::select! {
                biased;
                () = gate.death() => Ok(None),
                ended = tokio::time::timeout(LIFE_MAX, self.go(&store, &gate, life)) => match ended {
                    Ok(ended) => ended.map(Some),
                    Err(_) => Err(format!("after {LIFE_MAX:?} it was still not over: {}", self.stuck(&*store).await)),
                },
            };
            self.clock.fetch_add(begun.elapsed().as_millis() as i64 + 1, Ordering::Relaxed);
            ended
        });
        drop(runtime);
        let troubles = self.elsewhere.ledger.troubles();
        if let Some(first) = troubles.first() {
            return Err(format!("{first} ({} such)", troubles.len()));
        }
        ended
    }

    async fn go(&self, store: &Arc<dyn Store>, gate: &Arc<Gate>, life: usize) -> Result<Record, String> {
        let case = self.case;
        let shuffle = if life == 0 { self.options.shuffle } else { mix(&[case.seed, life as u64]) };
        let gated = GatedStore { inner: store.clone(), gate: gate.clone(), ledger: self.elsewhere.ledger.clone(), stands_still: false };
        let engine = Engine::new(Arc::new(gated), case.handler(&self.elsewhere, gate, shuffle), case.flows.clone(), self.settings(life));
        engine.recover().await.map_err(|e| format!("recovering: {e}"))?;
        let mut watching = Vec::new();
        for ordered in &case.orders {
            self.start(&engine, &**store, ordered, life).await?;
            if self.options.is_watched {
                watching.push(tokio::spawn(watch(engine.clone(), ordered.run.clone(), self.seen.clone())));
            }
        }
        self.rest(&engine, &**store).await?;
        for watching in watching {
            watching.await.map_err(|e| e.to_string())??;
        }
        let points = gate.passed();
        let mut record = self.read(&**store, engine.flows(), life).await?;
        record.points = points;
        self.compare_with_watchers(&record)?;
        Ok(record)
    }

    fn settings(&self, life: usize) -> Settings {
        let case = self.case;
        let sees_the_dead = case.sees_the_dead;
        let (base, begun) = (self.clock.clone(), Instant::now());
        Settings {
            owner: owner_of(life),
            is_gone: Arc::new(move |_| sees_the_dead),
            lease_ms: if sees_the_dead { LEASE_MS_LONG } else { LEASE_MS_SHORT },
            snapshot_bytes_min: case.snapshot_bytes_min,
            runs_max: case.runs_max,
            clock: Arc::new(move || base.load(Ordering::Relaxed) + begun.elapsed().as_millis() as i64),
            ..Settings::default()
        }
    }

    /// A caller that was cut off does not know whether its run was started, and repeats the request under the same id.
    async fn start(&self, engine: &Engine, store: &dyn Store, ordered: &super::case::Ordered, life: usize) -> Result<(), String> {
        if life > 0 && !self.case.asks_again && store.run(&ordered.run).await.map_err(|e| e.to_string())?.is_some() {
            return Ok(());
        }
        loop {
            match engine.start(ordered.order()).await {
                Ok(_) => return Ok(()),
                Err(EngineError::Store(StoreError::Held { .. })) if !self.case.sees_the_dead => tokio::time::sleep(Duration::from_millis(500)).await,
                Err(e) => return Err(format!("{} cannot be started: {e}", ordered.run)),
            }
        }
    }

    /// Until every run has ended. Waits while runs progress; otherwise the person acts.
    async fn rest(&self, engine: &Engine, store: &dyn Store) -> Result<(), String> {
        let eyes = self.elsewhere.eyes(self.case.kind);
        let person = Person { seed: self.case.seed, outside: &*eyes, may_have_posted: !self.case.sees_the_dead, is_loud: self.options.is_loud };
        let mut looks = 0;
        let mut rested = false;
        loop {
            let rows = all_runs(store).await?;
            if rows.iter().all(|row| row.status.is_over()) && self.case.orders.iter().all(|ordered| rows.iter().any(|row| row.run == ordered.run)) {
                return Ok(());
            }
            // Twice in a row: after a cut, a waiting run may have a child whose end it has not received yet.
            let rests = is_at_rest(&rows);
            let has_rested = std::mem::replace(&mut rested, rests);
            match person.act(engine, &rows, rests && has_rested).await? {
                Act::Taken => rested = false,
                Act::None => {
                    looks += 1;
                    tokio::time::sleep(Duration::from_millis(1 + mix(&[self.case.seed, looks]) % 20)).await;
                }
                Act::Posted => tokio::time::sleep(PATIENCE).await,
            }
        }
    }

    /// The complete store, and whether it is consistent.
    async fn read(&self, store: &dyn Store, flows: &Flows, life: usize) -> Result<Record, String> {
        let words = |e: StoreError| e.to_string();
        let mut runs = BTreeMap::new();
        let mut messages: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in all_runs(store).await? {
            let run = &row.run;
            let closing = result_of(&row).ok_or_else(|| format!("{run} is over, but does not say how"))?;
            let history = History::of(store, flows, run).await.map_err(|e| format!("{run} cannot be replayed: {e}"))?;
            if history.outcome.as_deref() != Some(&closing.outcome) {
                return Err(format!("{run} ended as {:?}, but its journal has {:?}", closing.outcome, history.outcome));
            }
            if (history.spent, history.elapsed_us) != (closing.spent, closing.elapsed_us) {
                return Err(format!("{run} cost {closing:?}, but its journal has {:?} and {} us", history.spent, history.elapsed_us));
            }
            if self.options.is_watched {
                let replayed = engine::replay(store, flows, run).await.map_err(|e| format!("{run} cannot be replayed: {e}"))?;
                if let Some(difference) = replayed.difference {
                    return Err(format!("a replay of {run} differs: {difference}"));
                }
            }
            let intents = store.intents(run).await.map_err(words)?;
            if row.status != Status::Cancelled && !intents.is_empty() {
                return Err(format!("{run} is over and still intends {intents:?}"));
            }
            if store.snapshot(run).await.map_err(words)?.is_some() {
                return Err(format!("{run} is over and still has a snapshot"));
            }
            runs.insert(row.run, RunRecord { closing, events: history.events });
        }
        for thread in store.threads(None, usize::MAX >> 1).await.map_err(words)? {
            let now_ms = self.clock.load(Ordering::Relaxed);
            match store.claim(&thread.thread, "the harness", now_ms, now_ms).await {
                Ok(_) => {}
                // A killed process cannot release its lease; it expires, or the next owner takes the thread.
                Err(StoreError::Held { owner, .. }) if owner != owner_of(life) => {}
                Err(e) => return Err(format!("a lease was left behind: {e}")),
            }
            for message in store.messages(&thread.thread, 0, usize::MAX >> 1).await.map_err(words)? {
                messages.entry((thread.thread.clone(), message.run)).or_default().push((message.role, message.content));
            }
        }
        Ok(Record { runs, messages, points: 0, deaths: 0, performances: self.elsewhere.ledger.performances() })
    }

    /// The events published by all processes equal those derived from the journal: byte by byte, without gaps, and nothing that was not
    /// yet durable.
    fn compare_with_watchers(&self, record: &Record) -> Result<(), String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (run, numbered) in seen.iter() {
            let events = &record.runs.get(run).ok_or_else(|| format!("{run} was watched and is not in the store"))?.events;
            let text = |numbered: &NumberedEvent| serde_json::to_string(numbered).unwrap_or_default();
            if numbered.len() != events.len() {
                return Err(format!("a watcher of {run} saw {} events, and its journal has {}", numbered.len(), events.len()));
            }
            if let Some((then, now)) = numbered.iter().zip(events).find(|(then, now)| text(then) != text(now)) {
                return Err(format!("a watcher of {run} received {}, and its journal has {}", text(then), text(now)));
            }
        }
        Ok(())
    }

    async fn stuck(&self, store: &dyn Store) -> String {
        let rows = all_runs(store).await.unwrap_or_default();
        rows.iter().filter(|row| !row.status.is_over()).map(|row| format!("{} is {}", row.run, row.status.as_str())).collect::<Vec<_>>().join(", ")
    }
}

fn owner_of(life: usize) -> String {
    format!("life {life}")
}

async fn watch(engine: Engine, run: RunId, seen: Arc<SeenEvents>) -> Result<(), String> {
    let from = seen.lock().unwrap_or_else(PoisonError::into_inner).get(&run).map_or(0, Vec::len);
    let mut watcher = engine.watch(&run, from as u64);
    while let Some(next) = watcher.next().await {
        if let FeedItem::Event(numbered, _) = next.map_err(|e| format!("watching {run}: {e}"))? {
            seen.lock().unwrap_or_else(PoisonError::into_inner).entry(run.clone()).or_default().push(numbered);
        }
    }
    Ok(())
}

async fn all_runs(store: &dyn Store) -> Result<Vec<RunRow>, String> {
    store.runs(RunFilter { limit: usize::MAX >> 1, ..RunFilter::default() }).await.map_err(|e| e.to_string())
}

/// Only a person can act.
fn is_at_rest(rows: &[RunRow]) -> bool {
    let waits_for_a_child = |row: &RunRow| rows.iter().any(|child| child.parent.as_ref() == Some(&row.run) && !child.status.is_over());
    rows.iter().all(|row| match row.status {
        Status::Running => false,
        Status::Waiting => waits_for_a_child(row),
        Status::Asking | Status::Done | Status::Failed | Status::Cancelled => true,
    })
}

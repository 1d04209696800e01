//! The test's side: starts a process, kills it after a random time, reads its database, and starts the next. The last one is not killed,
//! and must finish everything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use graph::{Entry, Key, RunId, ThreadId};
use store::{Durability, RunFilter, SqliteSettings, SqliteStore, Status, Store};

use super::{DB, run_of};
use crate::sim::dice::Dice;

pub struct Hunt<'h> {
    pub folder: PathBuf,
    pub kills: u64,
    pub seed: u64,
    /// More runs than one process can drive before it is killed.
    pub ahead: u64,
    /// Lifetime of a process.
    pub life_ms: Range<u64>,
    /// Starts the process with this number, for these runs.
    pub spawn: &'h dyn Fn(u64, Range<u64>) -> Child,
    /// Called after each kill, before the next start: waits for external effects in flight.
    pub settle: &'h dyn Fn(),
}

/// A hundred times what it needs.
const LAST_LIFE_MAX: Duration = Duration::from_secs(120);

impl Hunt<'_> {
    pub fn run(self) -> KnownState {
        let mut dice = Dice::new(&[self.seed]);
        let mut known = KnownState::default();
        for life in 0..self.kills {
            let mut victim = (self.spawn)(life, known.first..known.first + self.ahead);
            std::thread::sleep(Duration::from_millis(self.life_ms.start + dice.below(self.life_ms.end - self.life_ms.start)));
            let ended = victim.try_wait().expect("it can be looked at");
            assert!(ended.is_none(), "life {life} ended by itself: {ended:?}");
            victim.kill().expect("it can be killed");
            victim.wait().expect("it can be buried");
            (self.settle)();
            known.read(&self.folder, life);
        }
        let last = (self.spawn)(self.kills, known.first..known.target());
        let is_finished = wait(last);
        (self.settle)();
        known.read(&self.folder, self.kills);
        assert!(is_finished, "the last life, which nobody disturbed, did not finish: {:?}", unfinished(&self.folder));
        assert_eq!(unfinished(&self.folder), [""; 0], "a run is left behind");
        known
    }
}

/// A number from the environment, or the default.
pub fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Whether it exited successfully. One that hangs is killed, so that the test can report it.
fn wait(mut victim: Child) -> bool {
    let started = Instant::now();
    loop {
        match victim.try_wait().expect("it can be looked at") {
            Some(status) => return status.success(),
            None if started.elapsed() > LAST_LIFE_MAX => {
                victim.kill().expect("it can be killed");
                victim.wait().expect("it can be buried");
                return false;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn unfinished(folder: &Path) -> Vec<String> {
    let open = RunFilter { statuses: vec![Status::Running, Status::Asking, Status::Waiting], ..RunFilter::default() };
    let rows = block_on(open_store(folder).runs(open)).expect("it can be read");
    rows.iter().map(|row| format!("{} is {}", row.run, row.status.as_str())).collect()
}

/// The database contents after each kill.
#[derive(Default)]
pub struct KnownState {
    /// Every attempt at each effect whose reply was journalled.
    pub answered: HashMap<Key, BTreeMap<u32, Answer>>,
    /// Root runs, by their numbers.
    pub roots: HashSet<u64>,
    pub over: HashSet<RunId>,
    lines: HashMap<RunId, u64>,
    /// The first unfinished run.
    first: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The life after which it was first found in the journal.
    pub life: u64,
    pub is_ok: bool,
}

impl KnownState {
    pub fn target(&self) -> u64 {
        self.roots.iter().max().map_or(1, |last| last + 1)
    }

    /// Reads what is new since the last kill.
    fn read(&mut self, folder: &Path, life: u64) {
        if !folder.join(DB).exists() {
            return;
        }
        let store = open_store(folder);
        block_on(async {
            let mut before = None;
            loop {
                let rows = store.runs(RunFilter { before, ..RunFilter::default() }).await.expect("it can be read");
                before = rows.last().map(|row| row.run.clone());
                let is_known = !rows.is_empty() && rows.iter().all(|row| self.over.contains(&row.run));
                for row in rows {
                    if !self.over.contains(&row.run) {
                        self.read_run(&store, &row.run, &row.thread, life).await;
                    }
                    if row.status.is_over() {
                        self.over.insert(row.run.clone());
                    }
                    if row.parent.is_none() {
                        self.roots.insert(number_of(&row.run));
                    }
                }
                if is_known || before.is_none() {
                    break;
                }
            }
        });
        while self.over.contains(&run_of(self.first)) {
            self.first += 1;
        }
    }

    async fn read_run(&mut self, store: &SqliteStore, run: &RunId, thread: &ThreadId, life: u64) {
        let from = self.lines.entry(run.clone()).or_default();
        for line in store.journal(run, *from, 10_000).await.expect("it can be read") {
            *from = line.seq + 1;
            if let Entry::Replied { task, attempt, reply, .. } = Entry::decode(&line.bytes).expect("every line is whole") {
                let answer = Answer { life, is_ok: reply.result.is_ok() };
                self.answered.entry(Key::of(thread, run, task)).or_default().entry(attempt).or_insert(answer);
            }
        }
    }
}

/// Only the victim's own writes must be durable; the test's need not wait for the disk.
pub fn open_store(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder.join(DB), SqliteSettings { durability: Durability::Off }).expect("the database is sound")
}

fn number_of(run: &RunId) -> u64 {
    run.as_str().trim_start_matches('r').parse().expect("runs are numbered")
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime(false).block_on(future)
}

/// With a paused clock, waiting takes no time.
pub fn runtime(is_paused: bool) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(is_paused).build().expect("a runtime")
}

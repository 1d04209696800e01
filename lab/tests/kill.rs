//! A real process, killed with SIGKILL at random moments and started again, 200 times. Afterwards nothing may be lost, nothing
//! that was answered may have been asked again, and everything that changes the world must have happened once.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{At, Engine, Order, Settings, closing_of};
use graph::{Entry, Key, Outcome, RunId, ThreadId};
use lab::kill::{FileWorld, Trace, Traces, flows, input, messages, nature_of, read_log, read_outside};
use lab::sim::dice::Dice;
use serde_json::Value;
use store::{Durability, MemoryStore, RunFilter, SqliteSettings, SqliteStore, Status, Store};
use world::Nature;

const KILLS: u64 = 200;
/// More than a life can do before it is killed.
const AHEAD: u64 = 60;
/// A hundred times what it needs.
const LAST_LIFE_MAX: Duration = Duration::from_secs(60);

#[test]
fn two_hundred_kills_lose_nothing_and_repeat_nothing() {
    let seed = std::env::var("BATON_KILL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_601);
    println!("BATON_KILL_SEED={seed}");
    let mut dice = Dice::new(&[seed]);
    let folder = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    for life in 0..KILLS {
        let mut victim = spawn(folder.path(), life, known.first, known.first + AHEAD);
        std::thread::sleep(Duration::from_millis(5 + dice.below(76)));
        let ended = victim.try_wait().unwrap();
        assert!(ended.is_none(), "life {life} ended by itself: {ended:?}");
        victim.kill().unwrap();
        victim.wait().unwrap();
        known.read(folder.path(), life);
    }
    let last = spawn(folder.path(), KILLS, known.first, known.target());
    let ended = wait(last);
    known.read(folder.path(), KILLS);
    assert!(ended, "the last life, which nobody disturbed, did not finish: {:?}", known.unfinished(folder.path()));
    known.verify(folder.path());
}

/// Whether it ended well by itself. One that hangs is ended, so that the test can say what hung.
fn wait(mut victim: Child) -> bool {
    let begun = Instant::now();
    loop {
        match victim.try_wait().unwrap() {
            Some(status) => return status.success(),
            None if begun.elapsed() > LAST_LIFE_MAX => {
                victim.kill().unwrap();
                victim.wait().unwrap();
                return false;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn spawn(folder: &Path, life: u64, first: u64, target: u64) -> Child {
    let mut victim = Command::new(env!("CARGO_BIN_EXE_victim"));
    victim.arg(folder).args([life.to_string(), first.to_string(), target.to_string()]);
    victim.stdin(Stdio::null()).spawn().unwrap()
}

/// What the database said after each kill.
#[derive(Default)]
struct Known {
    /// The last attempt at each effect whose reply was journalled, and the first life after which it was found so.
    answered: HashMap<Key, BTreeMap<u32, u64>>,
    lines: HashMap<RunId, u64>,
    over: HashSet<RunId>,
    roots: HashSet<u64>,
    /// The first errand that is not over.
    first: u64,
}

impl Known {
    /// Reads what is new since the last kill.
    fn read(&mut self, folder: &Path, life: u64) {
        if !folder.join("victim.db").exists() {
            return;
        }
        let store = open_store(folder);
        block_on(async {
            let mut before = None;
            loop {
                let rows = store.runs(RunFilter { before, ..RunFilter::default() }).await.unwrap();
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
        while self.over.contains(&RunId::from(format!("r{}", self.first))) {
            self.first += 1;
        }
    }

    async fn read_run(&mut self, store: &SqliteStore, run: &RunId, thread: &ThreadId, life: u64) {
        let from = self.lines.entry(run.clone()).or_default();
        for line in store.journal(run, *from, 10_000).await.unwrap() {
            *from = line.seq + 1;
            if let Entry::Replied { task, attempt, .. } = Entry::decode(&line.bytes).unwrap() {
                self.answered.entry(Key::of(thread, run, task)).or_default().entry(attempt).or_insert(life);
            }
        }
    }

    fn target(&self) -> u64 {
        self.roots.iter().max().map_or(1, |last| last + 1)
    }

    fn unfinished(&self, folder: &Path) -> Vec<String> {
        let open = RunFilter { statuses: vec![Status::Running, Status::Asking, Status::Waiting], ..RunFilter::default() };
        let rows = block_on(open_store(folder).runs(open)).unwrap();
        rows.iter().map(|row| format!("{} is {}", row.run, row.status.as_str())).collect()
    }

    fn verify(&self, folder: &Path) {
        let log = read_log(folder);
        let (mut begun, mut again, mut done) = (HashMap::<(Key, u32), u32>::new(), 0, 0);
        let mut names = HashMap::new();
        for (life, trace) in &log {
            match trace {
                Trace::Begin { key, attempt, name } => {
                    names.insert(*key, name.clone());
                    let times = begun.entry((*key, *attempt)).or_default();
                    *times += 1;
                    assert!(*times == 1 || nature_of(name) != Nature::Once, "{name} {key} attempt {attempt} was begun twice, and nobody was asked");
                    let answered = self.answered.get(key).into_iter().flatten().find(|(last, known)| *last >= attempt && *known < life);
                    assert!(answered.is_none(), "life {life} performed {name} {key} attempt {attempt} though {answered:?} was journalled");
                }
                Trace::Started { number } => assert!(self.roots.contains(number), "errand {number} was started and is lost"),
                Trace::Verdict { happened: true, .. } => done += 1,
                Trace::Verdict { happened: false, .. } => again += 1,
                Trace::End { .. } => {}
            }
        }
        let happened: HashMap<Key, usize> = read_outside(folder).into_iter().collect();
        for (key, name) in &names {
            if nature_of(name) != Nature::Repeatable {
                assert_eq!(happened.get(key), Some(&1), "{name} {key} should have happened once");
            }
        }

        let store = open_store(folder);
        let expected = undisturbed(self.target());
        block_on(async {
            let unfinished = RunFilter { statuses: vec![Status::Running, Status::Asking, Status::Waiting], ..RunFilter::default() };
            assert_eq!(store.runs(unfinished).await.unwrap(), []);
            let graphs = flows().into_iter().map(|graph| (graph.name().to_owned(), graph)).collect();
            for number in 0..self.target() {
                let (run, thread) = (RunId::from(format!("r{number}")), ThreadId::from(format!("t{number}")));
                let row = store.run(&run).await.unwrap().unwrap_or_else(|| panic!("errand {number} is lost"));
                assert_eq!(closing_of(&row).unwrap().outcome, Outcome::Done { output: expected[&number].clone() }, "errand {number}");
                let said: Vec<_> = store.messages(&thread, 0, 100).await.unwrap().into_iter().map(|message| message.content).collect();
                assert_eq!(said, messages(number), "errand {number}");
                assert_eq!(store.runs(RunFilter { thread: Some(thread.clone()), ..RunFilter::default() }).await.unwrap().len(), 3);
                assert_eq!(engine::replay(&store, &graphs, &run).await.unwrap().difference, None);
                store.claim(&thread, "the test", i64::MAX - 1, i64::MAX).await.unwrap();
            }
        });
        let repeated = begun.values().filter(|times| **times > 1).count();
        println!(
            "{KILLS} kills, {} errands, {} performances, {repeated} attempts repeated, {done} vouched for, {again} done again at a person's word",
            self.target(),
            begun.values().sum::<u32>()
        );
    }
}

/// The same errands where nobody is killed.
fn undisturbed(count: u64) -> BTreeMap<u64, Value> {
    let folder = tempfile::tempdir().unwrap();
    let traces = Arc::new(Traces::open(folder.path(), 0).unwrap());
    // Its clock stands still, so that it takes no time.
    runtime(true).block_on(async {
        let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(FileWorld { traces }), flows(), Settings::default());
        let mut outputs = BTreeMap::new();
        for number in 0..count {
            let order =
                Order { run: Some(format!("r{number}").into()), thread: Some(format!("t{number}").into()), ..Order::new("errand", input(number)) };
            let run = engine.start(order).await.unwrap();
            let At::Over(closing) = engine.wait(&run).await.unwrap() else { panic!("nothing here waits for anybody") };
            outputs.insert(number, closing.outcome.output().unwrap().clone());
        }
        outputs
    })
}

/// Only the victim's own writes must survive anything; what the test does to the file need not wait for the disk.
fn open_store(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder.join("victim.db"), SqliteSettings { durability: Durability::Off }).unwrap()
}

fn number_of(run: &RunId) -> u64 {
    run.as_str().trim_start_matches('r').parse().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime(false).block_on(future)
}

fn runtime(is_paused: bool) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(is_paused).build().unwrap()
}

//! A real process, killed with SIGKILL at random moments and restarted, 200 times. Afterwards nothing may be lost, no journalled call may
//! have been repeated, and every side effect must have happened once.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use baton_lab::kill::errand::{FileHandler, flows, messages, nature_of, order};
use baton_lab::kill::hunt::{Hunt, KnownState, block_on, open_store, runtime, setting};
use baton_lab::kill::traces::{Trace, Traces, read_log, read_outside};
use baton_lab::kill::{run_of, thread_of};
use effects::Repeatability;
use engine::{Engine, Order, RunState, Settings, result_of};
use graph::{Key, Outcome};
use serde_json::Value;
use store::{MemoryStore, RunFilter, Store};

const KILLS: u64 = 200;

#[test]
fn x3_two_hundred_kills_lose_nothing_and_repeat_nothing() {
    let seed = setting("BATON_KILL_SEED", 20_260_601);
    println!("BATON_KILL_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let spawn = |life: u64, numbers: std::ops::Range<u64>| {
        let mut victim = Command::new(env!("CARGO_BIN_EXE_victim"));
        victim.arg(folder.path()).args([life.to_string(), numbers.start.to_string(), numbers.end.to_string()]);
        victim.stdin(Stdio::null()).spawn().unwrap()
    };
    let hunt = Hunt { folder: folder.path().to_owned(), kills: KILLS, seed, ahead: 60, life_ms: 5..81, spawn: &spawn, settle: &|| {} };
    verify(&hunt.run(), folder.path());
}

fn verify(known: &KnownState, folder: &Path) {
    let log = read_log(folder);
    let (mut begun, mut again, mut done) = (HashMap::<(Key, u32), u32>::new(), 0, 0);
    let mut names = HashMap::new();
    for (life, trace) in &log {
        match trace {
            Trace::Begin { key, attempt, name } => {
                names.insert(*key, name.clone());
                let times = begun.entry((*key, *attempt)).or_default();
                *times += 1;
                assert!(
                    *times == 1 || nature_of(name) != Repeatability::Once,
                    "{name} {key} attempt {attempt} was begun twice, and no person was asked"
                );
                let answered = known.answered.get(key).into_iter().flatten().find(|(last, answer)| *last >= attempt && answer.life < *life);
                assert!(answered.is_none(), "life {life} performed {name} {key} attempt {attempt} though {answered:?} was journalled");
            }
            Trace::Started { number } => assert!(known.roots.contains(number), "errand {number} was started and is lost"),
            Trace::Verdict { happened: true, .. } => done += 1,
            Trace::Verdict { happened: false, .. } => again += 1,
            Trace::End { .. } => {}
        }
    }
    let happened: HashMap<Key, usize> = read_outside(folder).into_iter().collect();
    for (key, name) in &names {
        if nature_of(name) != Repeatability::Repeatable {
            assert_eq!(happened.get(key), Some(&1), "{name} {key} should have happened once");
        }
    }

    let store = open_store(folder);
    let expected = undisturbed(known.target());
    block_on(async {
        let graphs = flows().into_iter().map(|graph| (graph.name().to_owned(), graph)).collect();
        for number in 0..known.target() {
            let (run, thread) = (run_of(number), thread_of(number));
            let row = store.run(&run).await.unwrap().unwrap_or_else(|| panic!("errand {number} is lost"));
            assert_eq!(result_of(&row).unwrap().outcome, Outcome::Done { output: expected[&number].clone() }, "errand {number}");
            let contents: Vec<_> = store.messages(&thread, 0, 100).await.unwrap().into_iter().map(|message| message.content).collect();
            assert_eq!(contents, messages(number), "errand {number}");
            assert_eq!(store.runs(RunFilter { thread: Some(thread.clone()), ..RunFilter::default() }).await.unwrap().len(), 3);
            assert_eq!(engine::replay(&store, &graphs, &run).await.unwrap().difference, None);
            store.claim(&thread, "the test", i64::MAX - 1, i64::MAX).await.unwrap();
        }
    });
    let repeated = begun.values().filter(|times| **times > 1).count();
    println!(
        "{KILLS} kills, {} errands, {} performances, {repeated} attempts repeated, {done} confirmed, {again} done again at a person's word",
        known.target(),
        begun.values().sum::<u32>()
    );
}

/// The same errands without kills.
fn undisturbed(count: u64) -> BTreeMap<u64, Value> {
    let folder = tempfile::tempdir().unwrap();
    let traces = Arc::new(Traces::open(folder.path(), 0).unwrap());
    // Its clock is paused, so that it takes no time.
    runtime(true).block_on(async {
        let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(FileHandler { traces }), flows(), Settings::default());
        let mut outputs = BTreeMap::new();
        for number in 0..count {
            let run = engine.start(Order { run: Some(run_of(number)), thread: Some(thread_of(number)), ..order(number) }).await.unwrap();
            let RunState::Over(closing) = engine.wait(&run).await.unwrap() else { panic!("nothing here waits for anybody") };
            outputs.insert(number, closing.outcome.output().unwrap().clone());
        }
        outputs
    })
}

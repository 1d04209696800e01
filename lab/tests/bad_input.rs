//! Invalid input in one place: each is refused or becomes a failure with a helpful message, and existing data is not lost. All with a
//! SQLite file.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use effects::{EffectHandler, Progress, Repeatability};
use engine::{Engine, EngineError, Order, RunState, Settings};
use graph::{Ask, END, FeedError, Go, Graph, GraphError, Job, Limits, Replies, Reply, RunId, TaskId};
use scripted::ScriptedHandler;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Commit, Durability, SqliteSettings, SqliteStore, Store, StoreError};
use tempfile::TempDir;

const QUESTION: TaskId = TaskId { step: 0, index: 0 };

#[tokio::test]
async fn a_truncated_database_is_refused_and_left_as_it_is() {
    let place = TestFolder::new();
    let run = place.waiting_run().await;
    let whole = std::fs::read(&place.db).unwrap();
    for keep in [whole.len() - 1, whole.len() / 2, 4_096, 500, 50, 1] {
        std::fs::write(&place.db, &whole[..keep]).unwrap();
        let Err(refused) = SqliteStore::open(&place.db, SqliteSettings::default()) else { panic!("{keep} of {} bytes were opened", whole.len()) };
        assert!(matches!(refused, StoreError::Damaged { .. }), "{keep} bytes: {refused}");
        check_contains(&refused, &["work.db", "restore it from a copy"]);
        assert_eq!(std::fs::read(&place.db).unwrap(), whole[..keep], "it was touched");
    }
    // The copy that the error message suggests.
    std::fs::write(&place.db, &whole).unwrap();
    let engine = place.engine(asking(), "");
    engine.answer(&run, QUESTION, 1, json!("yes")).await.unwrap();
    assert_eq!(output(&engine, &run).await, json!(["yes"]));
}

#[tokio::test]
async fn a_journal_entry_of_a_newer_version_stops_its_run_and_no_other() {
    let place = TestFolder::new();
    let (strange, sound) = (place.waiting_run().await, place.waiting_run().await);
    let store = place.store();
    let row = store.run(&strange).await.unwrap().unwrap();
    let lease = store.claim(&row.thread, "a newer baton", 0, i64::MAX).await.unwrap();
    let lines = vec![br#"{"v":99,"dreamt":{"of":"sheep"}}"#.to_vec()];
    store.commit(Commit { lines, release: true, ..Commit::new(strange.clone(), lease, 0, 1) }).await.unwrap();
    drop(store);

    let engine = place.engine(asking(), "");
    let refused = engine.answer(&strange, QUESTION, 1, json!("yes")).await.unwrap_err();
    check_contains(&refused, &[strange.as_str(), "entry 1", "newer Baton", "upgrade"]);
    engine.answer(&sound, QUESTION, 1, json!("yes")).await.unwrap();
    assert_eq!(output(&engine, &sound).await, json!(["yes"]));
    assert_eq!(place.store().journal(&strange, 0, 9).await.unwrap().len(), 2, "what cannot be read is kept for those who can");
}

#[test]
fn a_graph_with_a_dangling_edge_is_not_built() {
    let node = || (|_: &Value| Ask::nothing(), |_: &mut Value, _: &Replies<'_>| Go::end());
    let built = Graph::of::<Value>("lost").node("here", node(), &["there", END]).build();
    let Err(refused @ GraphError::UnknownTarget { .. }) = built else { panic!("it was built") };
    check_contains(&refused, &["lost", "here", "there", "not one of its nodes"]);
}

#[tokio::test]
async fn a_reply_to_what_was_never_asked_changes_nothing() {
    let place = TestFolder::new();
    let run = place.waiting_run().await;
    let engine = place.engine(asking(), "");
    for (task, attempt) in [(TaskId { step: 9, index: 0 }, 1), (TaskId { step: 0, index: 9 }, 1), (QUESTION, 9)] {
        let refused = engine.answer(&run, task, attempt, json!("?")).await.unwrap_err();
        assert!(matches!(refused, EngineError::Feed(FeedError::NeverAsked { .. } | FeedError::NeverTried { .. })), "{refused}");
        check_contains(&refused, &[&task.to_string()]);
    }
    assert_eq!(place.store().journal(&run, 0, 9).await.unwrap().len(), 1);
    engine.answer(&run, QUESTION, 1, json!("yes")).await.unwrap();
    assert_eq!(output(&engine, &run).await, json!(["yes"]));
}

#[tokio::test]
async fn a_reply_of_a_hundred_megabytes_is_a_failure_the_flow_can_read() {
    let place = TestFolder::new();
    let flow = one_after_another("big", 1, graph::tool("huge", json!({})));
    let engine = Engine::new(place.store(), Arc::new(Huge), [flow], Settings::default());
    let run = engine.start(Order::new("big", json!({}))).await.unwrap();
    let RunState::Over(closing) = engine.wait(&run).await.unwrap() else { panic!("it should end") };
    let error = closing.outcome.output().unwrap()[0]["failed"].as_str().unwrap().to_owned();
    check_contains(&error, &["reply_bytes_max", "too large"]);
    drop(engine);
    // A hundredth of it is far more than the run itself takes, twice over while SQLite checkpoints its WAL.
    assert!(place.bytes() < 1_000_000, "{} bytes were written", place.bytes());
}

/// No timing is asserted: the time to open is printed, with a target under 50 ms.
#[tokio::test]
async fn ten_thousand_steps_take_little_room_and_open_fast() {
    const STEPS: u32 = 10_000;
    let words = "w".repeat(200);
    let script = format!("when tool step reply {{\"words\": \"{words}\"}}");
    let place = TestFolder::new();
    let engine = place.engine(long(STEPS), &script);
    let run = engine.start(Order::new("long", json!({ "left": STEPS }))).await.unwrap();
    let RunState::Parked(waiting) = engine.wait(&run).await.unwrap() else { panic!("it asks in the end") };
    drop(engine);
    let reply_bytes = u64::from(STEPS) * json!({ "words": words }).to_string().len() as u64;
    let bytes = place.bytes();
    assert!(bytes <= 3 * reply_bytes, "{bytes} bytes for {reply_bytes} bytes of replies");

    let started = Instant::now();
    let engine = place.engine(long(STEPS), &script);
    assert_eq!(engine.waiting(&run).await.unwrap(), waiting);
    println!("{STEPS} steps: {bytes} bytes for {reply_bytes} bytes of replies; opened in {:?}", started.elapsed());
    engine.answer(&run, waiting[0].task, 1, json!("enough")).await.unwrap();
    let RunState::Over(closing) = engine.wait(&run).await.unwrap() else { panic!("it was answered") };
    assert_eq!(closing.outcome.output().unwrap()["seen"], json!(u64::from(STEPS) * 200 + 6));
}

/// A folder with one database.
struct TestFolder {
    _folder: TempDir,
    db: PathBuf,
}

impl TestFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        TestFolder { db: folder.path().join("work.db"), _folder: folder }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.db, SqliteSettings { durability: Durability::Off }).unwrap())
    }

    /// A new process on the same file.
    fn engine(&self, flow: Graph, script: &str) -> Engine {
        let handler = ScriptedHandler::parse(script).unwrap();
        Engine::new(self.store(), Arc::new(handler), [flow], Settings { is_gone: Arc::new(|_| true), ..Settings::default() })
    }

    /// A parked run without a process.
    async fn waiting_run(&self) -> RunId {
        let engine = self.engine(asking(), "");
        let run = engine.start(Order::new("asking", json!({}))).await.unwrap();
        assert!(matches!(engine.wait(&run).await.unwrap(), RunState::Parked(_)));
        run
    }

    /// Size on disk with all files beside it. Only known once every store on it is closed.
    fn bytes(&self) -> u64 {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        size(&self.db) + size(&self.db.with_extension("db-wal"))
    }
}

async fn output(engine: &Engine, run: &RunId) -> Value {
    match engine.wait(run).await.unwrap() {
        RunState::Over(closing) => closing.outcome.output().expect("it ends well").clone(),
        other => panic!("not over: {other:?}"),
    }
}

fn check_contains(error: &impl ToString, words: &[&str]) {
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{text:?} does not say {word:?}"));
}

fn asking() -> Graph {
    one_after_another("asking", 1, graph::person("May I?"))
}

/// Requests the same effect several times, and ends with the replies.
fn one_after_another(name: &str, times: usize, effect: graph::Effect) -> Graph {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct SeenReplies(Vec<Value>);
    let fold = move |seen: &mut SeenReplies, replies: &Replies<'_>| {
        seen.0.extend(replies.iter().map(|reply| match &reply.result {
            Ok(value) => value.clone(),
            Err(failure) => json!({ "failed": failure.to_string() }),
        }));
        if seen.0.len() < times { Go::to("ask") } else { Go::end() }
    };
    let graph = Graph::of::<SeenReplies>(name).input(|_: Value| SeenReplies::default()).node(
        "ask",
        (move |_: &SeenReplies| Ask::one(effect.clone()), fold),
        &["ask", END],
    );
    graph.build().unwrap()
}

/// This many steps with a reply each, and then a question.
fn long(steps: u32) -> Graph {
    #[derive(Serialize, Deserialize)]
    struct Long {
        left: u32,
        #[serde(default)]
        seen: usize,
    }
    let step = (
        |_: &Long| Ask::one(graph::tool("step", json!({}))),
        |s: &mut Long, replies: &Replies<'_>| {
            s.seen += replies.value(0).map_or(0, |value| value["words"].as_str().unwrap_or_default().len());
            s.left -= 1;
            if s.left > 0 { Go::to("step") } else { Go::to("ask") }
        },
    );
    let ask = (
        |_: &Long| Ask::one(graph::person("Enough?")),
        |s: &mut Long, replies: &Replies<'_>| {
            s.seen += replies.value(0).map_or(0, |value| value.as_str().unwrap_or_default().len());
            Go::end()
        },
    );
    let limits = Limits { steps_max: u64::from(steps) + 1, ..Limits::default() };
    Graph::of::<Long>("long").node("step", step, &["step", "ask"]).node("ask", ask, &[END]).limits(limits).build().unwrap()
}

/// Replies with a hundred megabytes.
struct Huge;

#[async_trait]
impl EffectHandler for Huge {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, _: &Job, _: &Progress) -> Reply {
        Reply::ok("x".repeat(100 << 20))
    }
}

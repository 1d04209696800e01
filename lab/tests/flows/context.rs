//! Context of a conversation: all messages are stored by thread, passed to the next run as far as its flow uses them, and dropped when they
//! expire.

use std::sync::{Arc, Mutex};

use baton_lab::provider::dialect::Dialect;
use baton_lab::provider::scripted_thought::{self, ModelFn};
use baton_lab::provider::web;
use baton_lab::setup::Setup;
use engine::{Engine, Order};
use graph::{Message, ModelCall, ThreadId};
use serde_json::json;
use store::{Retention, RunFilter, SqliteSettings, SqliteStore, Store};

use crate::{FlowFixture, input, output};

/// All model calls.
type ReceivedCalls = Arc<Mutex<Vec<ModelCall>>>;

async fn engine(fixture: &FlowFixture) -> (Engine, ReceivedCalls) {
    let received = ReceivedCalls::default();
    let kept = received.clone();
    let web = web::serve(web::ARTICLE).await;
    let setup = Setup::new(Dialect::OpenaiChat, "http://127.0.0.1:9", &web, fixture.folder.path());
    let profile = ModelFn(move |call: &ModelCall| {
        kept.lock().unwrap().push(call.clone());
        scripted_thought::to_call(call)
    });
    (fixture.engine(setup.handlers_with(profile).await), received)
}

async fn history(engine: &Engine, thread: &ThreadId) -> Vec<Message> {
    if engine.store().thread(thread).await.unwrap().is_none() {
        return Vec::new();
    }
    let rows = engine.store().messages(thread, 0, usize::MAX >> 1).await.unwrap();
    rows.into_iter().map(|row| Message { role: row.role, content: row.content }).collect()
}

/// Asks like the command line: with all earlier messages of the thread.
async fn ask(engine: &Engine, thread: &str, flow: &str, question: &str) {
    let thread = ThreadId::from(thread);
    let history = history(engine, &thread).await;
    let order = Order { is_tainted: !history.is_empty(), thread: Some(thread), ..Order::new(flow, input(question, json!({ "history": history }))) };
    output(engine, order).await;
}

/// Whether any model call since contains this text.
fn was_told(received: &ReceivedCalls, words: &str) -> bool {
    received.lock().unwrap().drain(..).any(|call| call.messages.iter().any(|message| message.content.contains(words)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_the_whole_history_is_kept_in_a_database_however_long() {
    const TURNS: usize = 60;
    let fixture = FlowFixture::new();
    let (engine, received) = engine(&fixture).await;
    for turn in 1..=TURNS {
        ask(&engine, "long", if turn % 2 == 0 { "direct" } else { "chat" }, &format!("Errand {turn}: and what then?")).await;
    }
    // Another process finds all of it, in order.
    let (again, _) = self::engine(&fixture).await;
    let messages = history(&again, &"long".into()).await;
    assert_eq!(messages.len(), 2 * TURNS);
    for (turn, pair) in messages.chunks(2).enumerate() {
        assert_eq!((pair[0].role.as_str(), pair[1].role.as_str()), ("user", "assistant"));
        assert!(pair[0].content.starts_with(&format!("Errand {}: ", turn + 1)), "{pair:?}");
    }
    // And a question about the conversation is answered from all of it.
    received.lock().unwrap().clear();
    ask(&engine, "long", "chat", "What did this conversation begin with?").await;
    assert!(was_told(&received, "Errand 1: and what then?"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_context_is_per_thread_survives_a_restart_and_is_deleted_with_the_thread() {
    let fixture = FlowFixture::new();
    let (engine, received) = engine(&fixture).await;
    for (chat, flow, question) in [("ann/1", "reason", "Think about errand 1."), ("ann/2", "search", "Errand 2: what is a relay?")] {
        ask(&engine, chat, flow, question).await;
    }
    received.lock().unwrap().clear();
    // A follow-up sees its own chat and no other, also in another process.
    let (later, received) = self::engine(&fixture).await;
    for (chat, own, other) in [("ann/1", "errand 1", "Errand 2"), ("ann/2", "Errand 2", "errand 1")] {
        ask(&later, chat, "direct", "And why is that so?").await;
        let calls = received.lock().unwrap().clone();
        assert!(was_told(&received, own), "{chat}: {calls:?}");
        assert!(!calls.iter().any(|call| call.messages.iter().any(|message| message.content.contains(other))), "{chat}: {calls:?}");
    }
    // The reasoning and the tool replies are stored too, run by run.
    let runs = later.store().runs(RunFilter { thread: Some("ann/1".into()), ..RunFilter::default() }).await.unwrap();
    let past = engine::History::of(&**later.store(), later.flows(), &runs.last().unwrap().run).await.unwrap();
    let notes: Vec<String> =
        past.events.iter().map(|numbered| serde_json::to_string(numbered).unwrap()).filter(|line| line.contains("\"noted\"")).collect();
    for name in ["plan", "results", "reflection"] {
        assert!(notes.iter().any(|line| line.contains(&format!("\"{name}\""))), "{name}: {notes:?}");
    }
    // A user's preference is part of the input.
    let prefers = json!({ "settings": { "prefers": "agentic" } });
    assert_eq!(output(&later, Order::new("reason", input("Who is she?", prefers))).await["way"], "agentic");
    drop((engine, later));
    // An unused one expires.
    let store = SqliteStore::open(fixture.folder.path().join("lab.db"), SqliteSettings::default()).unwrap();
    let freed = store.retain(Retention::KeepSince { ms: i64::MAX - 1 }, i64::MAX).await.unwrap();
    assert!(freed.threads >= 2, "{freed:?}");
    assert!(store.thread(&"ann/1".into()).await.unwrap().is_none());
}

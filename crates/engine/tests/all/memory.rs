//! R7, R8: the history that a run receives, and what is stored of it, whichever process drives it and however it ends.

use std::sync::Arc;

use baton_engine::{Engine, Order, Settings};
use graph::{Ask, Context, END, Go, Graph, Note, NoteScope, Outcome, Replies, RunContext, RunId, tool};
use serde_json::{Value, json};
use store::{NoteFilter, NoteRow, RunFilter, StoreError};

use crate::flows::{Notes, fan};
use crate::{Fixture, outcome, output, start};

/// Looks something up, adds a message, and stores a note; copies the history it received into `word`.
fn learner(name: &str) -> Graph {
    let node = (
        |_: &Notes| Ask::one(tool("look", json!({}))),
        |notes: &mut Notes, replies: &Replies<'_>| match replies.value(0) {
            Ok(value) => {
                notes.got.push(value.clone());
                Go::end().say("user", "why?").say("assistant", "so.")
            }
            Err(failure) => Go::fail(failure.message),
        },
    );
    let recall = |input: &mut Value, context: &Context| {
        let history: Vec<&str> = context.history.iter().map(|message| message.content.as_str()).collect();
        let learnt: Vec<&Value> = context.notes.iter().map(|note| &note.value).collect();
        let word = json!([history, context.turns, context.has_failed_before, context.preferences, learnt]);
        input["word"] = json!(word.to_string());
        !learnt.is_empty()
    };
    let left = |notes: &Notes| {
        let note = |value: &Value| Note { kind: "seen".into(), key: json!("k"), value: value.clone(), reach: NoteScope::User, ms_max: None };
        notes.got.iter().map(note).collect()
    };
    Graph::of::<Notes>(name).node("n", node, &[END]).output(|notes| json!(notes.word)).recall(recall).keep(left).build().unwrap()
}

async fn learnt(fixture: &Fixture, user: &str) -> Vec<NoteRow> {
    let filter = NoteFilter { user: user.into(), flow: None, thread: None, now_ms: 0, limit: 99 };
    fixture.store.notes(filter).await.unwrap()
}

async fn ask(engine: &Engine, user: &str, thread: &str) -> Result<RunId, baton_engine::EngineError> {
    engine
        .start(Order {
            context: RunContext { user: user.into(), ..RunContext::default() },
            thread: Some(thread.into()),
            ..Order::new("learner", json!({}))
        })
        .await
}

/// The history that the flow received, as JSON.
async fn received(engine: &Engine, run: &RunId) -> Value {
    serde_json::from_str(output(engine, run).await.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn r7_a_run_receives_messages_preferences_and_notes() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool look reply 7", vec![learner("learner")]);
    let first = ask(&engine, "ada", "t").await.unwrap();
    assert_eq!(received(&engine, &first).await, json!([[], 0, false, {}, []]));
    fixture.store.prefer(&"ada".into(), "way", Some(json!("agentic"))).await.unwrap();
    let second = ask(&engine, "ada", "t").await.unwrap();
    assert_eq!(received(&engine, &second).await, json!([["why?", "so."], 1, false, { "way": "agentic" }, [7]]));
    let elsewhere = ask(&engine, "ada", "u").await.unwrap();
    assert_eq!(received(&engine, &elsewhere).await, json!([[], 0, false, { "way": "agentic" }, [7]]));
    assert_eq!(learnt(&fixture, "ada").await.len(), 1, "the same is kept once");
}

#[tokio::test]
async fn r7_nothing_of_one_user_reaches_another() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool look reply 7", vec![learner("learner")]);
    let adas = ask(&engine, "ada", "t").await.unwrap();
    received(&engine, &adas).await;
    fixture.store.prefer(&"ada".into(), "way", Some(json!("agentic"))).await.unwrap();
    assert_eq!(ask(&engine, "bob", "t").await, Err(StoreError::NotYours { thread: "t".into() }.into()), "a thread is its first user's");
    let bobs = ask(&engine, "bob", "u").await.unwrap();
    assert_eq!(received(&engine, &bobs).await, json!([[], 0, false, {}, []]));
}

#[tokio::test]
async fn r7_a_run_receives_that_the_one_before_failed_and_a_failed_one_keeps_no_notes() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool look fail refused \"no\" times 1\nwhen tool look reply 7", vec![learner("learner")]);
    let failed = ask(&engine, "ada", "t").await.unwrap();
    assert!(matches!(outcome(&engine, &failed).await, Outcome::Failed { .. }));
    assert!(learnt(&fixture, "ada").await.is_empty());
    let next = ask(&engine, "ada", "t").await.unwrap();
    assert_eq!(received(&engine, &next).await[2], true);
    let after = ask(&engine, "ada", "t").await.unwrap();
    assert_eq!(received(&engine, &after).await[2], false);
}

#[tokio::test]
async fn r8_what_a_child_learnt_is_kept_and_given_to_the_next() {
    let fixture = Fixture::new();
    let flows = || vec![fan("parent", vec![graph::agent("learner", json!({}))]), learner("learner")];
    let engine = fixture.engine("when tool look reply 7", flows());
    let order =
        || Order { context: RunContext { user: "ada".into(), ..RunContext::default() }, thread: Some("t".into()), ..Order::new("parent", json!({})) };
    let first = engine.start(order()).await.unwrap();
    assert_eq!(output(&engine, &first).await, json!([json!([[], 0, false, {}, []]).to_string()]));
    let second = engine.start(order()).await.unwrap();
    assert_eq!(
        output(&engine, &second).await,
        json!([json!([[], 0, false, {}, [7]]).to_string()]),
        "a child adds no messages to the thread, but its notes are kept"
    );
    let rows = learnt(&fixture, "ada").await;
    let children = fixture.store.runs(RunFilter::default()).await.unwrap().into_iter().filter(|row| row.parent.is_some());
    assert!(children.map(|row| row.run).any(|run| run == rows[0].run), "{rows:?}");
}

#[tokio::test]
async fn r8_a_run_that_another_process_resumes_keeps_its_notes_once() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool look reply 7 after 50s", vec![learner("learner")]);
    let run = ask(&engine, "ada", "t").await.unwrap();
    drop(engine);
    assert!(learnt(&fixture, "ada").await.is_empty());
    let engine = fixture.engine("when tool look reply 7", vec![learner("learner")]);
    engine.recover().await.unwrap();
    assert_eq!(received(&engine, &run).await, json!([[], 0, false, {}, []]), "its context is that of its start");
    assert_eq!(learnt(&fixture, "ada").await.len(), 1);
    assert!(engine.resume(&run).await.is_err(), "it is over");
    assert_eq!(learnt(&fixture, "ada").await.len(), 1);
}

#[tokio::test]
async fn r8_notes_are_kept_as_long_as_set() {
    for (notes_ms, kept) in [(0, 0), (1_000, 1)] {
        let fixture = Fixture::new();
        let handler = scripted::ScriptedHandler::parse("when tool look reply 7").unwrap();
        let settings = Settings { notes_ms, clock: Arc::new(|| 5_000), ..Settings::default() };
        let engine = Engine::new(fixture.store.clone(), Arc::new(handler), vec![learner("learner")], settings);
        let run = start(&engine, "learner", json!({})).await;
        output(&engine, &run).await;
        let rows = learnt(&fixture, "local").await;
        assert_eq!(rows.len(), kept);
        assert!(rows.iter().all(|row| row.until_ms == 6_000));
    }
}

#[tokio::test]
async fn what_was_recalled_may_be_somebody_elses_idea() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool look reply 7", vec![learner("learner")]);
    for expected in [false, true] {
        let run = ask(&engine, "ada", if expected { "t" } else { "u" }).await.unwrap();
        received(&engine, &run).await;
        let first = fixture.store.journal(&run, 0, 1).await.unwrap().remove(0);
        let Ok(graph::Entry::Started(start)) = graph::Entry::decode(&first.bytes) else { panic!("a start") };
        assert_eq!((start.is_tainted, start.context.user.as_str()), (expected, "ada"));
    }
}

#[tokio::test]
async fn r7_threads_that_nobody_used_for_long_are_deleted_where_that_is_set() {
    let fixture = Fixture::new();
    let at = |now_ms: i64, threads_ms: i64| {
        let handler = scripted::ScriptedHandler::parse("when tool look reply 7").unwrap();
        let settings = Settings { threads_ms, clock: Arc::new(move || now_ms), is_gone: Arc::new(|_| true), ..Settings::default() };
        Engine::new(fixture.store.clone(), Arc::new(handler), vec![learner("learner")], settings)
    };
    let begun = at(1_000, 0);
    for thread in ["old", "older"] {
        let run = ask(&begun, "ada", thread).await.unwrap();
        outcome(&begun, &run).await;
    }
    begun.stop(std::time::Duration::from_secs(5)).await;
    // Without the setting all stay, however old.
    let keeping = at(900_000, 0);
    let run = ask(&keeping, "ada", "new").await.unwrap();
    outcome(&keeping, &run).await;
    assert_eq!(fixture.store.threads(None, 9).await.unwrap().len(), 3);
    keeping.stop(std::time::Duration::from_secs(5)).await;
    let expiring = at(900_500, 10_000);
    while fixture.store.threads(None, 9).await.unwrap().len() > 1 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(fixture.store.threads(None, 9).await.unwrap()[0].thread.as_str(), "new");
    assert_eq!(fixture.store.runs(RunFilter::default()).await.unwrap().len(), 1, "with their runs");
    assert_eq!(received(&expiring, &ask(&expiring, "ada", "old").await.unwrap()).await[0], json!([]), "no message is left");
}

#[tokio::test]
async fn c5_a_run_receives_which_earlier_answers_hold_no_findings() {
    let talker = |notes: &mut Notes, _: &Replies<'_>| Go::end().say("user", "why?").say("assistant", notes.word.clone());
    let recall = |input: &mut Value, context: &Context| {
        let marked: Vec<&str> = context.without_findings.iter().map(|index| context.history[*index].content.as_str()).collect();
        input["got"] = json!([marked]);
        false
    };
    let graph = Graph::of::<Notes>("talker")
        .node("n", (|_: &Notes| Ask::nothing(), talker), &[END])
        .output(|notes| json!({ "marked": notes.got, "without_findings": notes.word == "talk" }))
        .recall(recall)
        .build()
        .unwrap();
    let fixture = Fixture::new();
    let engine = fixture.engine("", vec![graph]);
    let mut seen = Value::Null;
    for word in ["fact", "talk", "other fact", "last"] {
        let run = engine.start(Order { thread: Some("t".into()), ..Order::new("talker", json!({ "word": word })) }).await.unwrap();
        seen = output(&engine, &run).await;
    }
    assert_eq!(seen["marked"], json!([["talk"]]));
}

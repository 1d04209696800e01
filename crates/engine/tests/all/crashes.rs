use std::time::Duration;

use baton_engine::RunState;
use graph::{Fault, Outcome, TaskId, agent, tool};
use serde_json::json;
use store::{RunFilter, Status};

use crate::flows::{fan, fragile, line};
use crate::{Fixture, outcome, output, start};

/// Runs `script` until virtual time `ms`, then drops the runtime with everything in it, as a kill would.
fn killed(fixture: &Fixture, script: &str, flows: Vec<graph::Graph>, flow: &'static str, ms: u64) -> graph::RunId {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let engine = fixture.engine(script, flows);
        let run = start(&engine, flow, json!({})).await;
        tokio::time::sleep(Duration::from_millis(ms)).await;
        run
    })
}

fn after<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

#[test]
fn after_a_kill_every_unfinished_run_goes_on_and_nothing_answered_is_asked_again() {
    let fixture = Fixture::new();
    let script = "when tool a reply 1 after 10ms\nwhen tool b reply 2 after 10ms";
    let flows = || vec![line("l", vec![tool("a", json!({})), tool("b", json!({}))])];
    let run = killed(&fixture, script, flows(), "l", 15);
    after(async {
        let engine = fixture.engine(script, flows());
        engine.recover().await.unwrap();
        assert_eq!(output(&engine, &run).await, json!([1, 2]));
    });
    assert_eq!((fixture.calls("a"), fixture.calls("b")), (1, 2));
}

#[test]
fn a_once_effect_in_doubt_goes_before_a_person() {
    for (verdict, expected, sent) in [
        (json!({ "verdict": "done", "value": "it arrived" }), json!(["it arrived"]), 1),
        (json!({ "verdict": "again" }), json!(["sent"]), 2),
        (json!({ "verdict": "failed" }), json!([{ "failed": "in_doubt", "why": "it was begun before a crash, and a person left it at that" }]), 1),
    ] {
        let fixture = Fixture::new();
        let script = "when tool mail reply \"sent\" after 10ms once";
        let flows = || vec![line("l", vec![tool("mail", json!({ "to": "ada" }))])];
        let run = killed(&fixture, script, flows(), "l", 8);
        after(async {
            let engine = fixture.engine(script, flows());
            engine.recover().await.unwrap();
            let RunState::Parked(waiting) = engine.wait(&run).await.unwrap() else { panic!("it should wait") };
            assert!(waiting[0].question.prompt.contains("mail") && waiting[0].question.prompt.contains("ada"), "{waiting:?}");
            let refused = engine.answer(&run, waiting[0].task, 1, json!("dunno")).await.unwrap_err();
            assert!(refused.to_string().contains("verdict"), "{refused}");
            engine.answer(&run, TaskId { step: 0, index: 0 }, 1, verdict).await.unwrap();
            assert_eq!(output(&engine, &run).await, expected);
        });
        assert_eq!(fixture.calls("mail"), sent);
    }
}

#[test]
fn a_checkable_effect_is_looked_up_and_done_only_if_it_was_not() {
    // The change happens in the middle of its time: a kill before it and a kill after it.
    for kill_ms in [3, 8] {
        let fixture = Fixture::new();
        let script = "when tool note reply \"kept\" after 10ms checkable";
        let flows = || vec![line("l", vec![tool("note", json!({}))])];
        let run = killed(&fixture, script, flows(), "l", kill_ms);
        after(async {
            let engine = fixture.engine(script, flows());
            engine.recover().await.unwrap();
            assert_eq!(output(&engine, &run).await, json!(["kept"]));
        });
        assert_eq!(fixture.outside.changes().values().copied().collect::<Vec<_>>(), [1], "killed after {kill_ms} ms");
    }
}

#[test]
fn parent_and_child_resume_as_the_same_two_runs() {
    let fixture = Fixture::new();
    let script = "when tool a reply 1 after 10ms\nwhen tool b reply 2 after 10ms";
    let flows = || vec![fan("parent", vec![agent("child", json!({}))]), line("child", vec![tool("a", json!({})), tool("b", json!({}))])];
    let run = killed(&fixture, script, flows(), "parent", 15);
    after(async {
        let engine = fixture.engine(script, flows());
        engine.recover().await.unwrap();
        assert_eq!(output(&engine, &run).await, json!([[1, 2]]));
        assert_eq!(fixture.store.runs(RunFilter::default()).await.unwrap().len(), 2);
    });
    assert_eq!(fixture.calls("a"), 1);
}

#[test]
fn a_child_whose_parent_is_over_is_ended() {
    let fixture = Fixture::new();
    let script = "when tool slow reply 1 after 3600s";
    let flows = || vec![fan("parent", vec![agent("child", json!({}))]), line("child", vec![tool("slow", json!({}))])];
    let parent = killed(&fixture, script, flows(), "parent", 5);
    after(async {
        // The parent's end was stored, and the process exited before it cancelled the child.
        let row = fixture.store.run(&parent).await.unwrap().unwrap();
        fixture.store.renew(&holder(&fixture, &row.thread).await, 0).await.unwrap();
        let lease = fixture.store.claim(&row.thread, "hand", 1, 2).await.unwrap();
        let lines = vec![graph::Entry::Cancelled { reason: "by hand".into() }.encode()];
        let commit = store::Commit { lines, status: Some(Status::Cancelled), release: true, ..store::Commit::new(parent.clone(), lease, 1, 1) };
        fixture.store.commit(commit).await.unwrap();

        let engine = fixture.engine(script, flows());
        engine.recover().await.unwrap();
        let open = fixture.store.runs(RunFilter { statuses: vec![Status::Running], ..RunFilter::default() }).await.unwrap();
        assert!(open.is_empty(), "{open:?}");
    });
}

async fn holder(fixture: &Fixture, thread: &graph::ThreadId) -> String {
    match fixture.store.claim(thread, "asking", 0, 0).await {
        Err(store::StoreError::Held { owner, .. }) => owner,
        other => panic!("nobody holds it: {other:?}"),
    }
}

#[tokio::test]
async fn a_flow_that_panics_fails_alone_and_its_run_can_be_resumed_once_fixed() {
    let fixture = Fixture::new();
    let script = "when tool look reply 1";
    let engine = fixture.engine(script, vec![fragile(false), line("l", vec![tool("look", json!({}))])]);
    let run = start(&engine, "fragile", json!({})).await;
    let Outcome::Failed { fault: Fault::Crash { node, why } } = outcome(&engine, &run).await else { panic!("it should fail") };
    assert!(node == "n" && why.contains("the flow has a bug"), "{node}: {why}");
    let events = crate::events(&engine, &run, 0).await;
    assert_eq!(crate::names(&events).last(), Some(&"ended"));
    let other = start(&engine, "l", json!({})).await;
    assert_eq!(output(&engine, &other).await, json!([1]));
    drop(engine);

    let engine = fixture.engine(script, vec![fragile(true)]);
    engine.resume(&run).await.unwrap();
    assert_eq!(output(&engine, &run).await, json!([1]));
    assert_eq!(fixture.calls("look"), 2, "one for each run: the reply before the panic was kept");
}

#[tokio::test]
async fn a_newer_journal_entry_stops_one_run_and_no_other() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool a reply 1", vec![line("l", vec![graph::person("?")])]);
    let (strange, sound) = (start(&engine, "l", json!({})).await, start(&engine, "l", json!({})).await);
    engine.wait(&strange).await.unwrap();
    engine.wait(&sound).await.unwrap();
    let row = fixture.store.run(&strange).await.unwrap().unwrap();
    let lease = fixture.store.claim(&row.thread, "newer", 0, i64::MAX).await.unwrap();
    let lines = vec![br#"{"v":99,"dreamt":{}}"#.to_vec()];
    fixture.store.commit(store::Commit { lines, release: true, ..store::Commit::new(strange.clone(), lease, 0, 1) }).await.unwrap();
    let refused = engine.answer(&strange, TaskId { step: 0, index: 0 }, 1, json!("yes")).await.unwrap_err();
    assert!(refused.to_string().contains("newer Baton") && refused.to_string().contains("entry 1"), "{refused}");
    engine.answer(&sound, TaskId { step: 0, index: 0 }, 1, json!("yes")).await.unwrap();
    assert_eq!(output(&engine, &sound).await, json!(["yes"]));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_lost_its_thread_writes_nothing_more() {
    let fixture = Fixture::new();
    let script = "when tool a reply 1 after 10ms\nwhen tool b reply 2 after 10ms";
    let flows = || vec![line("l", vec![tool("a", json!({})), tool("b", json!({}))])];
    let slow = fixture.engine(script, flows());
    let run = start(&slow, "l", json!({})).await;
    tokio::time::sleep(Duration::from_millis(15)).await;
    // Its lease is taken although it still runs.
    let other = fixture.engine(script, flows());
    other.recover().await.unwrap();
    assert_eq!(output(&other, &run).await, json!([1, 2]));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fixture.store.journal(&run, 0, 99).await.unwrap().len(), 3, "a start and two replies, each once");
    assert_eq!(output(&slow, &run).await, json!([1, 2]), "what the other wrote is the truth");
    assert!(slow.start(baton_engine::Order::new("l", json!({}))).await.is_ok(), "its other threads are not hurt");
}

#[tokio::test]
async fn a_run_can_be_resumed_after_its_driver_crashed() {
    struct UncertainTool(std::sync::atomic::AtomicBool);
    #[async_trait::async_trait]
    impl effects::EffectHandler for UncertainTool {
        fn repeatability(&self, _: &graph::Job) -> effects::Repeatability {
            assert!(self.0.swap(true, std::sync::atomic::Ordering::SeqCst), "what would that even mean");
            effects::Repeatability::Repeatable
        }
        async fn perform(&self, _: &graph::Job, _: &effects::Progress) -> graph::Reply {
            graph::Reply::ok(1)
        }
    }
    let fixture = Fixture::new();
    let handler = std::sync::Arc::new(UncertainTool(false.into()));
    let engine = baton_engine::Engine::new(
        fixture.store.clone(),
        handler,
        [line("l", vec![tool("a", json!({})), tool("b", json!({}))])],
        baton_engine::Settings::default(),
    );
    let order = baton_engine::Order { run: Some("mine".into()), ..baton_engine::Order::new("l", json!({})) };
    assert!(engine.start(order.clone()).await.is_err(), "it was never written");
    let run = engine.start(order).await.unwrap();
    assert_eq!(output(&engine, &run).await, json!([1, 1]));
}

use std::sync::Arc;
use std::time::Duration;

use baton_engine::{Engine, EngineError, Order, RunState, Settings};
use graph::{Budget, Outcome, RunId, tool};
use scripted::ScriptedHandler;
use serde_json::json;

use crate::flows::{fan, line};
use crate::{Fixture, names, outcome, output, start};

#[tokio::test]
async fn a_run_goes_from_start_to_end_and_publishes_its_events() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool a reply 1\nwhen tool b reply 2", vec![line("l", vec![tool("a", json!({})), tool("b", json!({}))])]);
    let run = start(&engine, "l", json!({})).await;
    assert_eq!(output(&engine, &run).await, json!([1, 2]));
    let events = crate::events(&engine, &run, 0).await;
    assert_eq!(names(&events), ["started", "entered", "asked", "replied", "left", "entered", "asked", "replied", "said", "left", "ended"]);
    assert!(events.iter().enumerate().all(|(at, numbered)| numbered.seq == at as u64));
    let thread = fixture.store.run(&run).await.unwrap().unwrap().thread;
    let messages = fixture.store.messages(&thread, 0, 10).await.unwrap();
    assert_eq!(messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>(), ["2 things"]);
}

#[tokio::test]
async fn failures_are_tried_again_and_then_values() {
    let fixture = Fixture::new();
    let script = "when tool flaky fail network \"reset\" retry times 2 each\nwhen tool flaky reply \"ok\"\nwhen tool bad fail refused \"no\"";
    let engine = fixture.engine(script, vec![fan("f", vec![tool("flaky", json!({})), tool("bad", json!({}))])]);
    let run = start(&engine, "f", json!({})).await;
    assert_eq!(output(&engine, &run).await, json!(["ok", { "failed": "refused", "why": "no" }]));
    assert_eq!(fixture.calls("flaky"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_at_its_deadline() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool slow hang", vec![fan("f", vec![tool("slow", json!({}))])]);
    let run = start(&engine, "f", json!({})).await;
    let got = output(&engine, &run).await;
    assert_eq!(got[0]["failed"], "timeout");
    assert_eq!(fixture.calls("slow"), 3);
}

#[tokio::test]
async fn a_crash_of_the_world_is_one_failed_effect() {
    let fixture = Fixture::new();
    let engine =
        fixture.engine("when tool broken panic \"boom\"\nwhen tool a reply 1", vec![fan("f", vec![tool("broken", json!({})), tool("a", json!({}))])]);
    let run = start(&engine, "f", json!({})).await;
    let got = output(&engine, &run).await;
    assert_eq!((&got[0]["failed"], &got[1]), (&json!("internal"), &json!(1)));
    assert!(got[0]["why"].as_str().unwrap().contains("boom"), "{got}");
}

#[tokio::test]
async fn a_reply_of_100_megabytes_is_refused_with_a_message() {
    struct Flood;
    #[async_trait::async_trait]
    impl effects::EffectHandler for Flood {
        fn repeatability(&self, _: &graph::Job) -> effects::Repeatability {
            effects::Repeatability::Repeatable
        }
        async fn perform(&self, _: &graph::Job, _: &effects::Progress) -> graph::Reply {
            graph::Reply::ok("x".repeat(100 << 20))
        }
    }
    let fixture = Fixture::new();
    let engine = Engine::new(fixture.store.clone(), Arc::new(Flood), [fan("f", vec![tool("a", json!({}))])], Settings::default());
    let run = start(&engine, "f", json!({})).await;
    let got = output(&engine, &run).await;
    assert_eq!(got[0]["failed"], "limit");
    assert!(got[0]["why"].as_str().unwrap().contains("reply_bytes_max"), "{got}");
}

#[tokio::test]
async fn a_budget_ends_in_values_not_in_calls() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool * reply 1", vec![fan("f", vec![tool("a", json!({})), tool("b", json!({})), tool("c", json!({}))])]);
    let order = Order { budget: Budget { calls_max: Some(2), ..Budget::default() }, ..Order::new("f", json!({})) };
    let run = engine.start(order).await.unwrap();
    let got = output(&engine, &run).await;
    assert_eq!((&got[0], &got[1], &got[2]["failed"]), (&json!(1), &json!(1), &json!("budget")));
    assert_eq!(fixture.outside.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_what_is_in_flight() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool slow reply 1 after 3600s", vec![line("l", vec![tool("slow", json!({}))])]);
    let run = start(&engine, "l", json!({})).await;
    engine.cancel(&run, "enough").await.unwrap();
    assert_eq!(outcome(&engine, &run).await, Outcome::Cancelled { reason: "enough".into() });
    let again = engine.cancel(&run, "enough").await;
    assert!(matches!(again, Err(EngineError::Over { .. })), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn past_the_bound_callers_wait_and_past_the_queue_they_are_refused() {
    let fixture = Fixture::new();
    let handler = ScriptedHandler::parse("when tool slow reply 1 after 1s").unwrap();
    let settings = Settings { runs_max: 2, queue_max: 1, ..Settings::default() };
    let engine = Engine::new(fixture.store.clone(), Arc::new(handler), [line("l", vec![tool("slow", json!({}))])], settings);
    let (first, second) = (start(&engine, "l", json!({})).await, start(&engine, "l", json!({})).await);
    let third = tokio::spawn({
        let engine = engine.clone();
        async move { start(&engine, "l", json!({})).await }
    });
    tokio::task::yield_now().await;
    let fourth = engine.start(Order::new("l", json!({}))).await;
    assert!(matches!(fourth, Err(EngineError::Busy { runs_max: 2, queue_max: 1 })), "{fourth:?}");
    assert!(!third.is_finished());
    let third = third.await.unwrap();
    for run in [first, second, third] {
        assert_eq!(output(&engine, &run).await, json!([1]));
    }
}

#[tokio::test]
async fn starting_the_same_run_twice_starts_it_once() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool a reply 1", vec![line("l", vec![tool("a", json!({}))])]);
    let order = Order { run: Some(RunId::from("mine")), ..Order::new("l", json!({})) };
    for _ in 0..3 {
        let run = engine.start(order.clone()).await.unwrap();
        assert_eq!(output(&engine, &run).await, json!([1]));
    }
    assert_eq!(fixture.calls("a"), 1);
}

#[tokio::test]
async fn unknown_flows_and_unfit_input_are_named() {
    let fixture = Fixture::new();
    let engine = fixture.engine("", vec![fan("known", vec![])]);
    let unknown = engine.start(Order::new("other", json!({}))).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no flow \"other\"; there are: known");
    let unfit = engine.start(Order::new("known", json!({ "word": 7 }))).await.unwrap_err();
    assert!(unfit.to_string().contains("does not fit the flow known"), "{unfit}");
    let missing = engine.wait(&RunId::from("nobody")).await.unwrap_err();
    assert!(missing.to_string().contains("baton runs list"), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_keeps_what_came_in_and_the_next_start_goes_on() {
    let fixture = Fixture::new();
    let script = "when tool quick reply 1 after 100ms\nwhen tool slow reply 2 after 10s";
    let flow = || vec![line("l", vec![tool("quick", json!({})), tool("slow", json!({}))])];
    let engine = fixture.engine(script, flow());
    let run = start(&engine, "l", json!({})).await;
    engine.stop(Duration::from_secs(1)).await;
    assert!(matches!(engine.start(Order::new("l", json!({}))).await, Err(EngineError::Stopping)));
    assert!(matches!(engine.at(&run).await.unwrap(), RunState::Going));
    drop(engine);

    let engine = fixture.engine(script, flow());
    assert_eq!(engine.recover().await.unwrap(), 1);
    assert_eq!(output(&engine, &run).await, json!([1, 2]));
    assert_eq!(fixture.calls("quick"), 1, "what was answered before the stop is not asked again");
}

//! Runs that end their process: counted, given up, and resumed by hand.

use std::sync::Arc;
use std::time::Duration;

use baton_engine::{Engine, Settings, abandoned_runs};
use graph::{Fault, Outcome, RunId, tool};
use scripted::ScriptedHandler;
use serde_json::json;

use crate::flows::line;
use crate::{Fixture, outcome, output, start};

const TAKEOVERS_MAX: u32 = 3;
const HANGS: &str = "when tool a reply 1\nwhen tool b hang";
const REPAIRED: &str = "when tool a reply 1\nwhen tool b reply 2";

fn engine(fixture: &Fixture, script: &str) -> Engine {
    let handler = ScriptedHandler::with_outside(script, fixture.outside.clone()).unwrap();
    let settings = Settings { is_gone: Arc::new(|_| true), takeovers_max: TAKEOVERS_MAX, ..Settings::default() };
    let flows = vec![line("l", vec![tool("a", json!({})), tool("b", json!({}))])];
    Engine::new(fixture.store.clone(), Arc::new(handler), flows, settings)
}

/// One life of a process, which ends as by a kill.
fn life<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

fn started(fixture: &Fixture) -> RunId {
    life(async {
        let run = start(&engine(fixture, HANGS), "l", json!({})).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        run
    })
}

fn was_resumed(fixture: &Fixture, script: &str) -> u64 {
    life(async {
        let engine = engine(fixture, script);
        engine.recover().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        engine.health().given_up
    })
}

#[test]
fn a_run_that_ends_its_process_every_time_is_given_up_and_can_be_resumed_by_hand() {
    let fixture = Fixture::new();
    let run = started(&fixture);
    for _ in 0..TAKEOVERS_MAX {
        assert_eq!(was_resumed(&fixture, HANGS), 0);
    }
    assert_eq!(was_resumed(&fixture, HANGS), 1, "the next one gives it up");
    life(async {
        let engine = engine(&fixture, REPAIRED);
        let failed = outcome(&engine, &run).await;
        let Outcome::Failed { fault: Fault::Crash { why, .. } } = failed else { panic!("{failed:?}") };
        assert!(why.contains("3 times in a row") && why.contains("baton runs resume"), "{why}");
        assert_eq!(abandoned_runs(&*fixture.store, 9).await.unwrap().first().map(|found| found.run.clone()), Some(run.clone()));
        assert_eq!(engine.recover().await.unwrap(), 0, "it is left alone");

        engine.resume(&run).await.unwrap();
        assert_eq!(output(&engine, &run).await, json!([1, 2]));
        assert!(abandoned_runs(&*fixture.store, 9).await.unwrap().is_empty());
    });
    assert_eq!(fixture.calls("a"), 1, "what was answered is not asked again");
}

#[test]
fn a_process_that_stops_in_order_does_not_count() {
    let fixture = Fixture::new();
    let run = started(&fixture);
    for _ in 0..=2 * TAKEOVERS_MAX {
        let found = life(async {
            let engine = engine(&fixture, HANGS);
            engine.recover().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            engine.stop(Duration::ZERO).await;
            engine.health().given_up
        });
        assert_eq!(found, 0);
    }
    assert_eq!(was_resumed(&fixture, REPAIRED), 0);
    life(async { assert_eq!(output(&engine(&fixture, REPAIRED), &run).await, json!([1, 2])) });
}

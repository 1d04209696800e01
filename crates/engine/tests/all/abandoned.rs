//! Calls of remote agents in flight when their run ends: they are stopped when it was cancelled, and left alone when only this process stops.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_engine::{Engine, Settings};
use effects::{EffectHandler, Progress, Repeatability};
use graph::{Job, Outcome, Reply, agent};
use serde_json::json;
use tokio::sync::Notify;

use crate::flows::fan;
use crate::{Fixture, outcome, start};

/// Agents that never answer, and what was stopped.
#[derive(Default)]
struct Silent {
    called: Notify,
    stopped: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl EffectHandler for Silent {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        match job.effect.name() {
            "quick" => Reply::ok(json!("done")),
            _ => {
                self.called.notify_one();
                std::future::pending().await
            }
        }
    }

    async fn abandon(&self, job: &Job) {
        self.stopped.lock().unwrap().push(job.effect.name().to_owned());
    }
}

fn engine(fixture: &Fixture, handler: &Arc<Silent>) -> Engine {
    let flow = fan("f", vec![agent("quick", json!({})), agent("slow", json!({}))]);
    Engine::new(fixture.store.clone(), handler.clone(), [flow], Settings { is_gone: Arc::new(|_| true), ..Settings::default() })
}

#[tokio::test]
async fn cancelling_a_run_stops_the_agents_that_still_work_for_it() {
    let (fixture, handler) = (Fixture::new(), Arc::<Silent>::default());
    let engine = engine(&fixture, &handler);
    let run = start(&engine, "f", json!({})).await;
    handler.called.notified().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    engine.cancel(&run, "enough").await.unwrap();
    assert!(matches!(outcome(&engine, &run).await, Outcome::Cancelled { .. }));
    assert_eq!(*handler.stopped.lock().unwrap(), ["slow"]);
}

#[tokio::test]
async fn stopping_the_process_leaves_them_to_the_next_one_whose_cancelling_stops_them() {
    let (fixture, handler) = (Fixture::new(), Arc::<Silent>::default());
    let first = engine(&fixture, &handler);
    let run = start(&first, "f", json!({})).await;
    handler.called.notified().await;
    first.stop(Duration::from_millis(10)).await;
    assert!(handler.stopped.lock().unwrap().is_empty());
    let next = engine(&fixture, &handler);
    next.cancel(&run, "enough").await.unwrap();
    assert!(matches!(outcome(&next, &run).await, Outcome::Cancelled { .. }));
    assert_eq!(*handler.stopped.lock().unwrap(), ["slow"]);
}

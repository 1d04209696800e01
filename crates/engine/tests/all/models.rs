//! A run keeps the model it was started with: beside other runs of its thread, in its children, and after a restart.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_engine::{Engine, Order, Settings};
use effects::{EffectHandler, Progress, Repeatability};
use graph::{Job, Reply, RunContext, RunId, agent, tool};
use serde_json::json;

use crate::flows::line;
use crate::{Fixture, output};

/// Records which model each effect is performed with. The tool `slow` takes an hour.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, Option<String>)>>);

#[async_trait::async_trait]
impl EffectHandler for Recorder {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        self.0.lock().unwrap().push((job.effect.name().to_owned(), job.context.model.clone()));
        if job.effect.name() == "slow" {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
        Reply::ok(json!(1))
    }
}

impl Recorder {
    fn models(&self, effect: &str) -> Vec<Option<String>> {
        self.0.lock().unwrap().iter().filter(|(name, _)| name == effect).map(|(_, model)| model.clone()).collect()
    }
}

fn engine(fixture: &Fixture, handler: &Arc<Recorder>, default_model: Option<&str>, model_override: Option<&str>) -> Engine {
    let flows = [
        line("slow_first", vec![tool("slow", json!({})), tool("after", json!({}))]),
        line("parent", vec![agent("child", json!({}))]),
        line("child", vec![tool("in_child", json!({}))]),
    ];
    let settings = Settings {
        is_gone: Arc::new(|_| true),
        default_model: default_model.map(str::to_owned),
        model_override: model_override.map(str::to_owned),
        ..Settings::default()
    };
    Engine::new(fixture.store.clone(), handler.clone(), flows, settings)
}

async fn start_with(engine: &Engine, flow: &str, model: Option<&str>) -> RunId {
    let context = RunContext { model: model.map(str::to_owned), ..RunContext::default() };
    engine.start(Order { context, thread: Some("t".into()), ..Order::new(flow, json!({})) }).await.unwrap()
}

fn named(model: &str) -> Vec<Option<String>> {
    vec![Some(model.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn a_second_post_in_a_thread_does_not_change_the_model_of_a_run() {
    let (fixture, handler) = (Fixture::new(), Arc::new(Recorder::default()));
    let engine = engine(&fixture, &handler, Some("default"), None);
    let first = start_with(&engine, "slow_first", Some("large")).await;
    let second = start_with(&engine, "parent", Some("small")).await;
    let third = start_with(&engine, "parent", None).await;
    for run in [&second, &third, &first] {
        output(&engine, run).await;
    }
    assert_eq!(handler.models("after"), named("large"));
    assert_eq!(handler.models("in_child"), [named("small"), named("default")].concat());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_continues_in_another_process_has_the_model_it_was_started_with() {
    let (fixture, handler) = (Fixture::new(), Arc::new(Recorder::default()));
    let before = engine(&fixture, &handler, Some("large"), None);
    let run = start_with(&before, "slow_first", None).await;
    before.stop(Duration::from_secs(1)).await;
    drop(before);

    let after = engine(&fixture, &handler, Some("small"), None);
    after.resume(&run).await.unwrap();
    output(&after, &run).await;
    assert_eq!(handler.models("after"), named("large"));
}

#[tokio::test(start_paused = true)]
async fn a_user_may_resume_a_run_with_another_model() {
    let (fixture, handler) = (Fixture::new(), Arc::new(Recorder::default()));
    let before = engine(&fixture, &handler, Some("large"), None);
    let run = start_with(&before, "slow_first", None).await;
    before.stop(Duration::from_secs(1)).await;
    drop(before);

    let after = engine(&fixture, &handler, Some("small"), Some("small"));
    after.resume(&run).await.unwrap();
    output(&after, &run).await;
    assert_eq!(handler.models("after"), named("small"));
}

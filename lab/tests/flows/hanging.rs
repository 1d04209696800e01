//! Effects that never reply, phase by phase, under an engine with a paused clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_lab::provider::scripted_thought;
use effects::{EffectHandler, Progress, Repeatability};
use engine::{Engine, Order, Settings};
use graph::{Effect, Job, Reply};
use serde_json::{Value, json};
use store::MemoryStore;
use tokio::time::Instant;

use crate::{input, output};

/// Never replies to the named effect, and succeeds otherwise.
struct Hanging(&'static str);

#[async_trait]
impl EffectHandler for Hanging {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        if job.effect.name() == self.0 || (self.0 == "all but the answer" && job.effect.name() != "answer") {
            std::future::pending::<()>().await;
        }
        Reply::ok(match &*job.effect {
            Effect::CallModel(call) => scripted_thought::to_call(call),
            Effect::CallTool(call) if call.tool == "registry.tools" => json!({ "text": "", "data": { "tools": [tool()] }, "spans": [] }),
            _ => json!({ "text": "Upstream stories say so.", "data": null, "spans": [] }),
        })
    }
}

fn tool() -> Value {
    let schema = json!({ "type": "object", "required": ["query"], "properties": { "query": { "type": "string" }, "size": { "type": "integer" } } });
    json!({ "name": "stories.search_stories", "description": "Finds stories.", "schema": schema, "read_only": true, "destructive": false })
}

#[tokio::test(start_paused = true)]
async fn r6_a_phase_that_hangs_is_left_in_time_and_there_is_an_answer() {
    // The effect that hangs, and the specification's time limit.
    let cases = [("registry.tools", 10), ("plan", 15), ("stories.search_stories", 60), ("reflect", 10), ("all but the answer", 60)];
    for (hanging, seconds) in cases {
        let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(Hanging(hanging)), flows::all().unwrap(), Settings::default());
        let started = Instant::now();
        let answered = output(&engine, Order::new("reason", input("Think about errand 3.", json!({ "settings": { "depth": "deep" } })))).await;
        let took = started.elapsed();
        assert!(answered["answer"].as_str().unwrap().contains("Errand 3 is done"), "{hanging}: {answered}");
        assert!(took <= Duration::from_secs(seconds) + Duration::from_secs(1), "{hanging}: {took:?}");
        assert!(took >= Duration::from_secs(1), "{hanging} did not hang: {took:?}, {answered}");
    }
}

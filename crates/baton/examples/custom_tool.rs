//! A tool of one's own: an implementation of `EffectHandler` that answers tool calls. `repeatability` returns whether a call may be repeated after a crash.

use std::sync::Arc;

use async_trait::async_trait;
use baton::{
    Ask, END, Effect, EffectHandler, EffectHandlers, Engine, Failure, FailureKind, Go, Graph, Job, MemoryStore, Order, Progress, Repeatability,
    Replies, Reply, RunState, Settings, tool,
};
use serde_json::{Value, json};

struct Dice {
    sides: u64,
}

#[async_trait]
impl EffectHandler for Dice {
    /// A second throw gives another result, but changes nothing outside: it may be repeated.
    fn repeatability(&self, _job: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let Effect::CallTool(call) = &*job.effect else { return refused("only tool calls are answered here") };
        if call.tool != "dice.throw" {
            return refused(&format!("there is no tool {}; there is dice.throw", call.tool));
        }
        progress.send("throwing");
        let seed = call.arguments["seed"].as_u64().unwrap_or(1);
        Reply::ok(json!(seed.wrapping_mul(6_364_136_223_846_793_005) % self.sides + 1))
    }
}

fn refused(why: &str) -> Reply {
    Reply::failed(Failure::new(FailureKind::Refused, why))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let throw = (
        |state: &Value| Ask::one(tool("dice.throw", json!({ "seed": state["seed"] }))),
        |state: &mut Value, replies: &Replies<'_>| match replies.value(0) {
            Ok(eyes) => {
                state["eyes"] = eyes.clone();
                Go::end()
            }
            Err(failure) => Go::fail(failure.message),
        },
    );
    let flow = Graph::of::<Value>("game").node("throw", throw, &[END]).build()?;
    let effects = EffectHandlers { tools: Some(Arc::new(Dice { sides: 6 })), ..EffectHandlers::default() };
    let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(effects), [flow], Settings::default());
    let (_, at) = engine.perform(Order::new("game", json!({ "seed": 42 }))).await?;
    let RunState::Over(closing) = at else { return Err("the run has not ended".into()) };
    println!("{}", closing.outcome.output().ok_or("the run failed")?);
    Ok(())
}

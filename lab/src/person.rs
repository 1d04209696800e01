//! Drives a run to its end with a person who answers all questions of the run and its children.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, EngineError, RunResult, RunState};
use graph::{Key, RunId, ThreadId, Waiting};
use serde_json::{Value, json};
use store::{RunFilter, Status};

/// The answer to a question about the effect with this key.
pub type Person<'p> = &'p (dyn Fn(Key, &Waiting) -> Value + Send + Sync);

/// Waits for the end, and answers every question of the thread until then.
pub async fn through(engine: &Engine, thread: &ThreadId, run: &RunId, person: Person<'_>) -> Result<Arc<RunResult>, EngineError> {
    loop {
        match engine.wait(run).await? {
            RunState::Over(closing) => return Ok(closing),
            RunState::Parked(_) | RunState::Going | RunState::Lost(_) => answer(engine, thread, person).await?,
        }
    }
}

async fn answer(engine: &Engine, thread: &ThreadId, person: Person<'_>) -> Result<(), EngineError> {
    let filter = RunFilter { statuses: vec![Status::Asking], thread: Some(thread.clone()), ..RunFilter::default() };
    let asking = engine.store().runs(filter).await?;
    if asking.is_empty() {
        // Its child has just been answered and continues.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for row in asking {
        for waiting in engine.waiting(&row.run).await? {
            let answer = person(Key::of(thread, &row.run, waiting.task), &waiting);
            engine.answer(&row.run, waiting.task, waiting.attempt, answer).await?;
        }
    }
    Ok(())
}

/// The field that the question asks for: `allow`, `verdict`, `approve`…
pub fn wanted(waiting: &Waiting) -> &str {
    let schema = waiting.question.schema.as_ref();
    schema.and_then(|schema| schema["required"][0].as_str()).unwrap_or_default()
}

/// A person who approves everything.
pub fn agreeable(_: Key, waiting: &Waiting) -> Value {
    json!({ wanted(waiting): true })
}

//! Waits for a run that a person may have answered.

use engine::{Engine, RunState};
use graph::RunId;

use crate::error::Result;

/// Waits until the run rests. If a run below it was answered, that one goes first: its end is what those above it wait for.
pub async fn wait_until_idle(engine: &Engine, run: &RunId, answered: Option<RunId>) -> Result<RunState> {
    if let Some(below) = answered.filter(|below| below != run) {
        engine.wait(&below).await?;
        match engine.resume(run).await {
            Ok(()) | Err(engine::EngineError::Over { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(engine.wait(run).await?)
}

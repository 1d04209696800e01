//! Waits for a run after a person may have answered.

use engine::{Engine, RunState};
use graph::RunId;

use crate::error::Result;

/// Waits until the run stops. If a descendant was answered, that one is waited for first, because its ancestors wait for it.
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

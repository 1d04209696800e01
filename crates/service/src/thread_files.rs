//! The files that runs of a thread wrote, which go when the thread goes.

use engine::OnExpired;
use graph::ThreadId;
use std::sync::Arc;
use tools::workspace::Workspaces;

use crate::config::Config;
use crate::error::{Result, Trouble};
use crate::hub::{self, Servers};
use crate::place::Place;

/// Where they are, unless a command named another folder for them.
pub fn workspaces(place: &Place) -> Result<Workspaces> {
    Ok(Servers::default().workspaces(&hub::folder(place)?, &Config::for_run(place)?))
}

/// Removes those of threads that were deleted.
pub fn remove(place: &Place, threads: &[ThreadId]) -> Result<()> {
    let workspaces = workspaces(place)?;
    for thread in threads {
        let failed = |error| Trouble::Failed(format!("the files of the thread {thread} cannot be removed: {error}"));
        workspaces.remove(thread.as_str()).map_err(failed)?;
    }
    Ok(())
}

/// The same for threads that expire while an engine runs.
pub fn on_expired(place: &Place) -> Result<OnExpired> {
    let workspaces = workspaces(place)?;
    Ok(Arc::new(move |threads: Vec<ThreadId>| {
        let workspaces = workspaces.clone();
        tokio::task::spawn_blocking(move || {
            for thread in &threads {
                if let Err(error) = workspaces.remove(thread.as_str()) {
                    tracing::error!(%thread, "the files of an expired conversation cannot be removed: {error}");
                }
            }
        });
    }))
}

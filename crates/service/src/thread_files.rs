//! The files written by runs of a thread, which are deleted with the thread.

use engine::OnExpired;
use graph::ThreadId;
use std::sync::Arc;
use tools::workspace::Workspaces;

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub::{self, Servers};

/// Their location, unless a command named another folder.
pub fn workspaces(globals: &GlobalArgs) -> Result<Workspaces> {
    Ok(Servers::default().workspaces(&hub::folder(globals)?, &Config::for_run(globals)?))
}

/// Removes those of deleted threads.
pub fn remove(globals: &GlobalArgs, threads: &[ThreadId]) -> Result<()> {
    let workspaces = workspaces(globals)?;
    for thread in threads {
        let failed = |error| ServiceError::Failed(format!("the files of the thread {thread} cannot be removed: {error}"));
        workspaces.remove(thread.as_str()).map_err(failed)?;
    }
    Ok(())
}

/// The same for threads that expire while an engine runs.
pub fn on_expired(globals: &GlobalArgs) -> Result<OnExpired> {
    let workspaces = workspaces(globals)?;
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

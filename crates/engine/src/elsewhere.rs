//! What other processes write, as far as the store says so. Whoever waits here also polls, because changes may be missing.

use std::time::Duration;

use store::{Change, Store};
use tokio::sync::broadcast::{Receiver, error::RecvError};

pub(crate) struct Elsewhere(Option<Receiver<Change>>);

impl Elsewhere {
    pub(crate) fn of(store: &dyn Store) -> Elsewhere {
        Elsewhere(store.changes())
    }

    /// Waits for a change that the caller is concerned with, at most `patience`. Safe to drop and call again.
    pub(crate) async fn wait(&mut self, patience: Duration, concerns: impl Fn(&Change) -> bool) {
        // Only a limit of time remains when it has passed.
        let _ = tokio::time::timeout(patience, self.heard(concerns)).await;
    }

    async fn heard(&mut self, concerns: impl Fn(&Change) -> bool) {
        while let Some(changes) = &mut self.0 {
            match changes.recv().await {
                Ok(change) if concerns(&change) => return,
                Ok(_) => {}
                // What was missed may be of concern.
                Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => self.0 = None,
            }
        }
        std::future::pending::<()>().await;
    }
}

//! Changes that other processes write, as far as the store reports them. Waiters also poll, because changes may be missing.
//!
//! A watcher of a run that another process drives announces itself from time to time, and that process then sends it pieces of answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use graph::RunId;
use store::{Change, Piece, Store};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::Instant;

/// How often a watcher announces itself.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(10);
/// How long an announcement is valid.
pub(crate) const WATCHED_FOR: Duration = Duration::from_secs(30);

pub(crate) struct StoreChanges {
    /// Not kept open by who waits here: a store is closed when its engine is dropped.
    store: Weak<dyn Store>,
    changes: Option<Receiver<Change>>,
    announced: Option<Instant>,
}

impl StoreChanges {
    pub(crate) fn of(store: &Arc<dyn Store>) -> StoreChanges {
        StoreChanges { changes: store.changes(), store: Arc::downgrade(store), announced: None }
    }

    /// Waits for a change that the caller is concerned with, at most `patience`. Safe to drop and call again.
    pub(crate) async fn wait(&mut self, patience: Duration, concerns: impl Fn(&Change) -> bool) {
        // Only a limit of time remains when it has passed.
        let _ = tokio::time::timeout(patience, self.next(concerns)).await;
    }

    /// The same for a watcher of a run: also returns with a piece of an answer of that run or one below it.
    pub(crate) async fn watch(&mut self, run: &RunId, patience: Duration, concerns: impl Fn(&Change) -> bool) -> Option<Piece> {
        if self.changes.is_some() && self.announced.is_none_or(|announced| announced.elapsed() >= ANNOUNCE_EVERY) {
            self.announced = Some(Instant::now());
            if let Some(store) = self.store.upgrade() {
                store.notify(Change::Watched(run.clone()));
            }
        }
        let is_ours = |change: &Change| match change {
            Change::Piece(piece) => piece.watched == *run,
            other => concerns(other),
        };
        match tokio::time::timeout(patience, self.next(is_ours)).await {
            Ok(Some(Change::Piece(piece))) => Some(piece),
            Ok(_) | Err(_) => None,
        }
    }

    /// `None` when changes were missed, which may be of concern.
    async fn next(&mut self, concerns: impl Fn(&Change) -> bool) -> Option<Change> {
        while let Some(changes) = &mut self.changes {
            match changes.recv().await {
                Ok(change) if concerns(&change) => return Some(change),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return None,
                Err(RecvError::Closed) => self.changes = None,
            }
        }
        std::future::pending().await
    }
}

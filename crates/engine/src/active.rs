//! The runs that are in memory here, and how others in the process reach them.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use graph::{Parent, RunId};
use tokio::sync::{mpsc, watch as cell};

use crate::open::start_of;
use crate::watch::{Feed, FeedItem, TreeEvent};
use crate::{Control, Inner, RunState};

/// A run in memory, as others in the process see it.
pub(crate) struct Active {
    pub(crate) run: RunId,
    pub(crate) control: mpsc::Sender<Control>,
    pub(crate) at: cell::Sender<RunState>,
    /// Its own events, and those of the runs below it.
    pub(crate) feed: Arc<Feed>,
    /// The feeds of the runs above it, the parent's first. Set before the run is driven.
    ancestors: OnceLock<Vec<Ancestor>>,
}

/// A run above another one.
#[derive(Clone)]
pub(crate) struct Ancestor {
    run: RunId,
    feed: Arc<Feed>,
}

pub(crate) enum Registration {
    Yes(Arc<Active>),
    Stopping,
    Already(Arc<Active>),
}

impl Active {
    pub(crate) fn set_ancestors(&self, ancestors: Vec<Ancestor>) {
        // Set once, by the caller that starts the run.
        let _ = self.ancestors.set(ancestors);
    }

    fn ancestors(&self) -> &[Ancestor] {
        self.ancestors.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Publishes an event to the watchers of this run and of the runs above it.
    pub(crate) fn publish(&self, seen: FeedItem) {
        let event = || TreeEvent { run: self.run.clone(), seen: seen.clone() };
        self.ancestors().iter().map(|ancestor| &ancestor.feed).chain([&self.feed]).for_each(|feed| feed.publish_tree(event));
        self.feed.publish(seen);
    }

    /// Whether this run or one above it is watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.feed.is_watched() || self.ancestors().iter().any(|ancestor| ancestor.feed.is_tree_watched())
    }

    /// This run and the runs above it, as far as they are watched in other processes.
    pub(crate) fn watched_remotely(&self) -> impl Iterator<Item = &RunId> {
        let all = self.ancestors().iter().map(|ancestor| (&ancestor.run, &ancestor.feed)).chain([(&self.run, &self.feed)]);
        all.filter(|(_, feed)| feed.is_watched_remotely()).map(|(run, _)| run)
    }
}

impl Inner {
    pub(crate) fn active(&self, run: &RunId) -> Option<Arc<Active>> {
        self.lock_active().get(run).cloned()
    }

    pub(crate) fn lock_active(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Active>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run to the list. Watchers that subscribed before it was in memory receive its events from the first one on.
    pub(crate) fn register(&self, run: &RunId, control: mpsc::Sender<Control>) -> Registration {
        let mut all = self.lock_active();
        if self.is_stopping() {
            return Registration::Stopping;
        }
        if let Some(other) = all.get(run) {
            return Registration::Already(other.clone());
        }
        let feed = self.lock_early_subscribers().remove(run).unwrap_or_default();
        let active = Arc::new(Active { run: run.clone(), control, at: cell::Sender::new(RunState::Going), feed, ancestors: OnceLock::new() });
        all.insert(run.clone(), active.clone());
        self.active_count.send_modify(|count| *count += 1);
        Registration::Yes(active)
    }

    /// Removes a run from the list, if it is still there.
    pub(crate) fn unregister(&self, run: &RunId) {
        self.lock_active().remove(run);
        self.active_count.send_modify(|count| *count = count.saturating_sub(1));
    }

    /// The feeds of the runs above a child. Those that are parked are found in the store, and may be watched all the same.
    pub(crate) async fn ancestors(&self, parent: Option<&Parent>) -> Vec<Ancestor> {
        let mut all = Vec::new();
        let mut next = parent.map(|parent| parent.run.clone());
        while let Some(run) = next {
            if let Some(active) = self.active(&run) {
                all.push(Ancestor { run, feed: active.feed.clone() });
                all.extend_from_slice(active.ancestors());
                break;
            }
            all.push(Ancestor { run: run.clone(), feed: self.feed_of(&run) });
            next = start_of(&*self.store, &run).await.ok().and_then(|start| start.parent).map(|parent| parent.run);
        }
        all
    }
}

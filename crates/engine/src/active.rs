//! The runs that are in memory here, and how others in the process reach them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use graph::RunId;
use tokio::sync::{mpsc, watch as cell};

use crate::watch::Feed;
use crate::{At, Control, Inner};

/// A run in memory, as others in the process see it.
pub(crate) struct Active {
    pub(crate) control: mpsc::Sender<Control>,
    pub(crate) feed: Feed,
    pub(crate) at: cell::Sender<At>,
}

pub(crate) enum Enlisted {
    Yes,
    Stopping,
    Already(Arc<Active>),
}

impl Inner {
    pub(crate) fn active(&self, run: &RunId) -> Option<Arc<Active>> {
        self.lock_active().get(run).cloned()
    }

    pub(crate) fn lock_active(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Active>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a run known, with whoever listened for it before it was.
    pub(crate) fn enlist(&self, run: &RunId, active: &Arc<Active>) -> Enlisted {
        let mut all = self.lock_active();
        if self.stopping.load(Ordering::SeqCst) {
            return Enlisted::Stopping;
        }
        if let Some(other) = all.get(run) {
            return Enlisted::Already(other.clone());
        }
        if let Some(feed) = self.lock_foretold().remove(run) {
            active.feed.begin_as(feed);
        }
        all.insert(run.clone(), active.clone());
        self.active_count.send_modify(|count| *count += 1);
        Enlisted::Yes
    }

    /// The counterpart, when a run has let go of everything; it may have left the list before.
    pub(crate) fn delist(&self, run: &RunId) {
        self.lock_active().remove(run);
        self.active_count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

//! Which threads this process may write to. Several runs may go on one thread here; the lease is given back when the last of
//! them ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use graph::ThreadId;
use store::{Lease, StoreError};
use tokio::sync::OwnedMutexGuard;

use crate::{Inner, Result};

#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<ThreadId, Arc<tokio::sync::Mutex<Slot>>>>);

/// Locked while the lease is being taken or given back, so that the two cannot cross.
#[derive(Default)]
pub(crate) struct Slot {
    runs: usize,
}

impl Inner {
    /// Takes the thread for one more run.
    pub(crate) async fn hold(&self, thread: &ThreadId) -> Result<Lease> {
        let mut slot = self.leases.slot(thread).lock_owned().await;
        let lease = self.claim(thread).await;
        if lease.is_ok() {
            slot.runs += 1;
        } else {
            self.leases.forget_if_idle(thread, &slot);
        }
        lease
    }

    /// Ends one run's part in the thread. The guard says whether it was the last, and keeps others out until the lease is back.
    pub(crate) async fn let_go(&self, thread: &ThreadId) -> Parting {
        let mut slot = self.leases.slot(thread).lock_owned().await;
        slot.runs = slot.runs.saturating_sub(1);
        Parting { is_last: slot.runs == 0, slot }
    }

    pub(crate) fn parted(&self, thread: &ThreadId, parting: Parting) {
        self.leases.forget_if_idle(thread, &parting.slot);
        drop(parting);
    }

    pub(crate) fn holds_any(&self) -> bool {
        !self.leases.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    async fn claim(&self, thread: &ThreadId) -> Result<Lease> {
        let settings = &self.settings;
        let now_ms = (settings.clock)();
        let until_ms = now_ms + settings.lease_ms;
        match self.store.claim(thread, &settings.owner, now_ms, until_ms).await {
            Err(StoreError::Held { owner, .. }) if (settings.is_gone)(&owner) => {
                // Its process is dead: let its leases have run out long ago. Not just before now: others may be at this too, with clocks
                // a moment apart, and a later one must not bring them back.
                self.store.renew(&owner, 0).await?;
                Ok(self.store.claim(thread, &settings.owner, now_ms, until_ms).await?)
            }
            result => Ok(result?),
        }
    }
}

pub(crate) struct Parting {
    pub(crate) is_last: bool,
    slot: OwnedMutexGuard<Slot>,
}

impl Parting {
    /// Not parting after all.
    pub(crate) fn stay(mut self) {
        self.slot.runs += 1;
    }
}

impl Leases {
    fn slot(&self, thread: &ThreadId) -> Arc<tokio::sync::Mutex<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(thread.clone()).or_default().clone()
    }

    fn forget_if_idle(&self, thread: &ThreadId, slot: &OwnedMutexGuard<Slot>) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Two hold the slot now: the table and this guard. A third is a run that waits to take the thread.
        if slot.runs == 0 && slots.get(thread).is_some_and(|kept| Arc::strong_count(kept) == 2) {
            slots.remove(thread);
        }
    }
}

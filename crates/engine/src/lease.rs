//! The leases of the threads this process may write to. Several runs of one thread share a lease; it is released when the last of them ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use graph::ThreadId;
use store::{Commit, Lease, StoreError};
use tokio::sync::OwnedMutexGuard;

use crate::{EngineError, Inner, Result};

#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<ThreadId, Arc<tokio::sync::Mutex<Slot>>>>);

/// Locked while the lease is being acquired or released.
#[derive(Default)]
pub(crate) struct Slot {
    runs: usize,
    /// The lease in the store; a new run acquires it with its first commit.
    lease: Option<Lease>,
}

impl Inner {
    /// Acquires the lease for one more run.
    pub(crate) async fn hold(&self, thread: &ThreadId) -> Result<Lease> {
        let mut slot = self.leases.slot(thread).lock_owned().await;
        let lease = self.claim(thread).await;
        match &lease {
            Ok(lease) => {
                slot.runs += 1;
                slot.lease = Some(lease.clone());
            }
            Err(_) => self.leases.forget_if_idle(thread, &slot),
        }
        lease
    }

    /// Counts one more run of the thread, which acquires the lease with its first commit ([`Inner::open_with`]).
    pub(crate) async fn reserve(&self, thread: &ThreadId) -> Lease {
        self.leases.slot(thread).lock_owned().await.runs += 1;
        Lease { thread: thread.clone(), owner: self.settings.owner.clone(), fence: UNCLAIMED }
    }

    /// Writes the first commit of a run that was counted by `reserve`.
    pub(crate) async fn open_with(&self, commit: Commit) -> Result<Lease> {
        let until_ms = commit.at_ms + self.settings.lease_ms;
        let begun = self.take_over_if_exited(|| self.store.begin(commit.clone(), until_ms)).await;
        match &begun {
            Ok(_) => self.health.wrote(&Ok(())),
            Err(EngineError::Store(error)) => self.health.wrote::<()>(&Err(error.clone())),
            Err(_) => {}
        }
        begun
    }

    /// Records the acquired lease for the other runs of the thread.
    pub(crate) async fn took(&self, lease: &Lease) {
        self.leases.slot(&lease.thread).lock_owned().await.lease = Some(lease.clone());
    }

    /// Begins the end of one run's use of the lease. The returned guard has whether it was the last, and locks the thread until the lease is released.
    pub(crate) async fn begin_release(&self, thread: &ThreadId) -> LeaseRelease {
        let mut slot = self.leases.slot(thread).lock_owned().await;
        slot.runs = slot.runs.saturating_sub(1);
        LeaseRelease { is_last: slot.runs == 0, slot }
    }

    pub(crate) fn lease_released(&self, thread: &ThreadId, mut lease_release: LeaseRelease) {
        if lease_release.is_last {
            lease_release.slot.lease = None;
        }
        self.leases.forget_if_idle(thread, &lease_release.slot);
        drop(lease_release);
    }

    /// Ends one run's use of the lease without a last commit.
    pub(crate) async fn drop_lease(&self, thread: &ThreadId) {
        let lease_release = self.begin_release(thread).await;
        if let Some(lease) = lease_release.left()
            && let Err(e) = self.store.release(lease).await
        {
            tracing::warn!(%thread, "the lease could not be given back, it runs out by itself: {e}");
        }
        self.lease_released(thread, lease_release);
    }

    pub(crate) fn holds_any(&self) -> bool {
        !self.leases.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    async fn claim(&self, thread: &ThreadId) -> Result<Lease> {
        let settings = &self.settings;
        let now_ms = (settings.clock)();
        self.take_over_if_exited(|| self.store.claim(thread, &settings.owner, now_ms, now_ms + settings.lease_ms)).await
    }

    /// Acquires the lease of a thread, also from a process that has exited.
    async fn take_over_if_exited<F: Future<Output = store::Result<Lease>>>(&self, take: impl Fn() -> F) -> Result<Lease> {
        match take().await {
            Err(StoreError::Held { owner, .. }) if (self.settings.is_gone)(&owner) => {
                // Its process has exited: its leases are set to have expired long ago, not just now, because other processes may do the same with
                // slightly different clocks, and a later renewal must not revive them.
                self.store.renew(&owner, 0).await?;
                Ok(take().await?)
            }
            result => Ok(result?),
        }
    }
}

/// Smaller than the fence of every lease: those start at 1.
pub(crate) const UNCLAIMED: u64 = 0;

pub(crate) struct LeaseRelease {
    pub(crate) is_last: bool,
    slot: OwnedMutexGuard<Slot>,
}

impl LeaseRelease {
    /// The run continues.
    pub(crate) fn undo(mut self) {
        self.slot.runs += 1;
    }

    /// As [`Inner::took`], for a run that ends with its first commit.
    pub(crate) fn took(&mut self, lease: &Lease) {
        self.slot.lease = Some(lease.clone());
    }

    /// The lease to release, if this was the last run.
    pub(crate) fn left(&self) -> Option<&Lease> {
        self.slot.lease.as_ref().filter(|_| self.is_last)
    }
}

impl Leases {
    fn slot(&self, thread: &ThreadId) -> Arc<tokio::sync::Mutex<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(thread.clone()).or_default().clone()
    }

    fn forget_if_idle(&self, thread: &ThreadId, slot: &OwnedMutexGuard<Slot>) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The table and this guard hold the slot. A third reference is a run that waits for the lease.
        if slot.runs == 0 && slots.get(thread).is_some_and(|kept| Arc::strong_count(kept) == 2) {
            slots.remove(thread);
        }
    }
}

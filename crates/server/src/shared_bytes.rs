//! Memory that users share, counted in KiB. A little of it is everybody's own. Of the rest one user may have at most as much as is free, so that users who take all
//! they can never leave nothing: one of them leaves half of it, and each further one half of what is left.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::count;

const KIB: u64 = 1_024;
/// What a user has in any case; it is not counted as shared.
const OWN_KIB: usize = 64;

/// Limits of memory for one user and for all users.
#[derive(Clone)]
pub(crate) struct SharedBytes {
    kib: Arc<Semaphore>,
    kib_max: usize,
}

impl SharedBytes {
    pub(crate) fn new(bytes_max: u64) -> SharedBytes {
        let kib_max = count(bytes_max.div_ceil(KIB)).min(Semaphore::MAX_PERMITS);
        SharedBytes { kib: Arc::new(Semaphore::new(kib_max)), kib_max }
    }

    fn take(&self, kib: u32) -> Option<OwnedSemaphorePermit> {
        self.kib.clone().try_acquire_many_owned(kib).ok()
    }

    fn used(&self) -> usize {
        self.kib_max - self.kib.available_permits().min(self.kib_max)
    }
}

/// Memory that one request takes from its user's share and from the total; returned when this is dropped.
pub(crate) struct BytesPermit {
    user: OwnedSemaphorePermit,
    total: OwnedSemaphorePermit,
    of_user: SharedBytes,
    of_all: SharedBytes,
    bytes: u64,
}

impl BytesPermit {
    pub(crate) fn empty(of_user: SharedBytes, of_all: SharedBytes) -> Option<BytesPermit> {
        let (user, total) = (of_user.take(0)?, of_all.take(0)?);
        Some(BytesPermit { user, total, of_user, of_all, bytes: 0 })
    }

    /// Makes room for `more` bytes, unless the user has too many in memory already, or as many as are free.
    pub(crate) fn grow(&mut self, more: u64) -> bool {
        let (before, after) = (self.bytes.div_ceil(KIB), (self.bytes + more).div_ceil(KIB));
        let Ok(kib) = u32::try_from(after - before) else { return false };
        let Some(user) = self.of_user.take(kib) else { return false };
        // Looked at when it is taken: requests of a user at the same time can only see more in use, and take more of what is shared.
        let used = self.of_user.used();
        let shared = used.saturating_sub(OWN_KIB).min(kib as usize);
        let Some(total) = self.of_all.take(u32::try_from(shared).unwrap_or(u32::MAX)) else { return false };
        // What is refused is given back.
        if shared > 0 && used - OWN_KIB > self.of_all.kib.available_permits() {
            return false;
        }
        self.user.merge(user);
        self.total.merge(total);
        self.bytes += more;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_who_take_all_they_can_leave_something_for_the_others() {
        let of_all = SharedBytes::new(1 << 20);
        let user = || BytesPermit::empty(SharedBytes::new(256 << 10), of_all.clone()).unwrap();
        let mut hostile: Vec<_> = (0..20).map(|_| user()).collect();
        for one in &mut hostile {
            while one.grow(KIB) {}
        }
        assert!(hostile[..4].iter().all(|one| one.bytes == 256 << 10), "what a user may have alone");
        let mut other = user();
        assert!(other.grow(64 << 10), "what is everybody's own");
        assert!(!other.grow(64 << 10), "{} KiB are free", of_all.kib.available_permits());
        hostile.truncate(4);
        assert!(other.grow(64 << 10), "what was refused was given back");
        drop((hostile, other));
        assert_eq!(of_all.used(), 0);
    }
}

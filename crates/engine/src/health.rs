//! What an operator is alarmed by: whether the store can be read and written, and runs that were taken over or given up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use store::StoreError;

#[derive(Default)]
pub(crate) struct Health {
    pub(crate) taken_over: AtomicU64,
    pub(crate) given_up: AtomicU64,
    store_failures: AtomicU64,
    cannot_read: AtomicBool,
    cannot_write: AtomicBool,
}

/// Numbers about an engine since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthNow {
    /// Whether the last read and the last write of the store succeeded.
    pub is_store_up: bool,
    /// Reads and writes that failed because of the store, not because of what was asked.
    pub store_failures: u64,
    /// Runs of other processes that were resumed.
    pub taken_over: u64,
    /// Runs that were ended because they ended their process again and again.
    pub given_up: u64,
}

impl Health {
    pub(crate) fn read<T>(&self, end: &Result<T, StoreError>) {
        self.note(&self.cannot_read, end);
    }

    pub(crate) fn wrote<T>(&self, end: &Result<T, StoreError>) {
        self.note(&self.cannot_write, end);
    }

    fn note<T>(&self, flag: &AtomicBool, end: &Result<T, StoreError>) {
        match end {
            Err(error) if is_of_the_store(error) => {
                self.store_failures.fetch_add(1, Ordering::Relaxed);
                flag.store(true, Ordering::Relaxed);
            }
            Ok(_) | Err(_) => flag.store(false, Ordering::Relaxed),
        }
    }

    pub(crate) fn now(&self) -> HealthNow {
        HealthNow {
            is_store_up: !self.cannot_read.load(Ordering::Relaxed) && !self.cannot_write.load(Ordering::Relaxed),
            store_failures: self.store_failures.load(Ordering::Relaxed),
            taken_over: self.taken_over.load(Ordering::Relaxed),
            given_up: self.given_up.load(Ordering::Relaxed),
        }
    }
}

fn is_of_the_store(error: &StoreError) -> bool {
    match error {
        StoreError::Damaged { .. }
        | StoreError::Open { .. }
        | StoreError::Full { .. }
        | StoreError::Unreachable { .. }
        | StoreError::Database(_)
        | StoreError::Closed
        | StoreError::Newer { .. }
        | StoreError::Foreign { .. } => true,
        StoreError::Fenced { .. }
        | StoreError::Held { .. }
        | StoreError::Exists { .. }
        | StoreError::NoRun { .. }
        | StoreError::NoThread { .. }
        | StoreError::NotYours { .. }
        | StoreError::OutOfOrder { .. }
        | StoreError::TooLarge { .. }
        | StoreError::TooMany { .. } => false,
    }
}

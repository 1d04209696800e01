//! Counts requests, and unexpected responses.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Number of problems kept verbatim; all are counted.
const WRONG_MAX: usize = 20;

#[derive(Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    kinds: BTreeMap<&'static str, Kind>,
    wrong: Vec<String>,
}

/// Requests of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kind {
    pub requests: u64,
    /// Rate-limited responses, which are expected.
    pub slowed: u64,
    pub wrong: u64,
}

impl Tally {
    pub(super) fn right(&self, kind: &'static str) {
        self.lock().kinds.entry(kind).or_default().requests += 1;
    }

    pub(super) fn slowed(&self, kind: &'static str) {
        let mut counts = self.lock();
        let kind = counts.kinds.entry(kind).or_default();
        kind.requests += 1;
        kind.slowed += 1;
    }

    pub(super) fn wrong(&self, kind: &'static str, why: impl Into<String>) {
        let mut counts = self.lock();
        let of_kind = counts.kinds.entry(kind).or_default();
        of_kind.requests += 1;
        of_kind.wrong += 1;
        if counts.wrong.len() < WRONG_MAX {
            counts.wrong.push(format!("{kind}: {}", why.into()));
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.lock().kinds.values().map(|kind| kind.requests).sum()
    }

    pub(super) fn kinds(&self) -> BTreeMap<&'static str, Kind> {
        self.lock().kinds.clone()
    }

    pub(super) fn all_wrong(&self) -> Vec<String> {
        self.lock().wrong.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Who may have a long document read next. Of each owner one document is read at a time, and the last free reader is kept for owners whose
//! documents took little time lately: a hostile document occupies a reader until its time is over, and must not keep others waiting.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The name of an owner's folder; `None` for files without an owner.
pub(crate) type Owner = Option<String>;

/// An owner who used more than this lately does not get the last free reader.
const LIGHT_MAX: Duration = Duration::from_secs(10);
/// After this time, half of what an owner used is forgotten.
const HALF_FORGOTTEN: Duration = Duration::from_secs(300);
/// Owners that are remembered.
const OWNERS_MAX: usize = 10_000;
/// How long [`Turns::take`] waits.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Readers, handed out to owners in turns.
pub struct Turns {
    at_once_max: usize,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    owners: BTreeMap<Owner, Use>,
}

struct Use {
    is_reading: bool,
    used: Duration,
    at: Instant,
}

impl Use {
    fn lately(&self) -> Duration {
        let halves = self.at.elapsed().as_secs_f64() / HALF_FORGOTTEN.as_secs_f64();
        self.used.mul_f64(0.5_f64.powf(halves))
    }
}

/// A reader, until it is dropped.
pub struct Turn<'a> {
    turns: &'a Turns,
    owner: Owner,
    begun: Instant,
}

impl Turns {
    /// At most so many readers at once.
    pub fn new(at_once_max: usize) -> Turns {
        Turns { at_once_max: at_once_max.max(1), state: Mutex::default(), ended: Condvar::new() }
    }

    /// A reader for this owner, if one is free for them now.
    pub fn try_take(&self, owner: &Owner) -> Option<Turn<'_>> {
        let mut state = self.lock();
        self.may_begin(&state, owner).then(|| self.begin(&mut state, owner.clone()))
    }

    /// Waits for a reader; `None` when that takes too long.
    pub(crate) fn take(&self, owner: Owner) -> Option<Turn<'_>> {
        let waited = self.ended.wait_timeout_while(self.lock(), WAIT_MAX, |state| !self.may_begin(state, &owner));
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(|| self.begin(&mut state, owner))
    }

    /// What this owner used lately.
    pub(crate) fn used(&self, owner: &Owner) -> Duration {
        self.lock().owners.get(owner).map(Use::lately).unwrap_or_default()
    }

    fn may_begin(&self, state: &State, owner: &Owner) -> bool {
        let of_owner = state.owners.get(owner);
        let is_last = self.at_once_max > 1 && state.running + 1 == self.at_once_max;
        state.running < self.at_once_max && of_owner.is_none_or(|of| !(of.is_reading || is_last && of.lately() > LIGHT_MAX))
    }

    fn begin(&self, state: &mut State, owner: Owner) -> Turn<'_> {
        if state.owners.len() >= OWNERS_MAX {
            state.owners.retain(|_, of| of.is_reading || of.lately() > LIGHT_MAX);
        }
        let begun = Instant::now();
        let of = state.owners.entry(owner.clone()).or_insert(Use { is_reading: false, used: Duration::ZERO, at: begun });
        (of.used, of.at, of.is_reading) = (of.lately(), begun, true);
        state.running += 1;
        Turn { turns: self, owner, begun }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.running -= 1;
        if let Some(of) = state.owners.get_mut(&self.owner) {
            (of.used, of.at, of.is_reading) = (of.lately() + self.begun.elapsed(), Instant::now(), false);
        }
        drop(state);
        self.turns.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Some(name.to_owned())
    }

    #[test]
    fn one_at_a_time_of_each_owner_and_the_last_for_those_who_used_little() {
        let turns = Turns::new(2);
        let of_mallory = turns.try_take(&owner("mallory")).unwrap();
        assert!(turns.try_take(&owner("mallory")).is_none(), "one at a time");
        let of_ada = turns.try_take(&owner("ada")).unwrap();
        assert!(turns.try_take(&owner("bob")).is_none(), "both are busy");
        drop(of_mallory);
        turns.lock().owners.get_mut(&owner("mallory")).unwrap().used = Duration::from_secs(30);
        assert!(turns.try_take(&owner("mallory")).is_none(), "the last one is for others");
        assert!(turns.try_take(&owner("bob")).is_some());
        drop(of_ada);
        assert!(turns.try_take(&owner("mallory")).is_some(), "while another one is free");
        assert_eq!(turns.lock().running, 0);
        let only = Turns::new(1);
        let of_mallory = only.try_take(&owner("mallory"));
        assert!(of_mallory.is_some() && only.try_take(&None).is_none());
    }

    #[test]
    fn a_waiting_caller_gets_the_next_one() {
        let turns = Turns::new(1);
        let held = turns.try_take(&None).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(owner("ada")).is_some());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}

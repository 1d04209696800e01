//! Whose page is parsed next. A hostile page occupies a parser until its time is over, so pages wait by user: of each one page is parsed at a time, and a
//! user whose pages took long lately leaves the last free parser to others ([`turns::Turns`]). Bodies that wait are bounded, for each user and in total.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use turns::{Turn, TurnLimits, Turns};

/// Bytes of bodies that wait or are parsed, of one user and of all. A user's first page is always taken.
const USER_BYTES_MAX: usize = 24 << 20;
const TOTAL_BYTES_MAX: usize = 96 << 20;
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(super) struct PageTurns {
    turns: Arc<Turns>,
    bodies: Mutex<BTreeMap<Option<String>, usize>>,
}

/// A parser for one page, until it is dropped.
pub(super) struct PageTurn {
    _turn: Turn,
    _waiting: Waiting,
}

/// A body that counts as waiting, until it is dropped.
struct Waiting {
    of: &'static PageTurns,
    user: Option<String>,
    bytes: usize,
}

impl PageTurns {
    pub(super) fn new(at_once_max: usize) -> PageTurns {
        // How many wait is bounded by the bytes of their bodies.
        let limits = TurnLimits { waiting_max: usize::MAX, ..TurnLimits::one_each(at_once_max) };
        PageTurns { turns: Turns::new(limits), bodies: Mutex::default() }
    }

    /// Waits for a parser. The error is a message for the caller.
    pub(super) async fn take(&'static self, user: Option<&str>, bytes: usize) -> Result<PageTurn, String> {
        let user = user.map(str::to_owned);
        let waiting = self.enter(&user, bytes)?;
        let turn = timeout(WAIT_MAX, self.turns.take(user)).await;
        let turn = turn.map_err(|_| format!("no page could be read for {} s; try again later", WAIT_MAX.as_secs()))?;
        let turn = turn.map_err(|turns::Full| "too many pages wait to be read; try again later".to_owned())?;
        Ok(PageTurn { _turn: turn, _waiting: waiting })
    }

    fn enter(&'static self, user: &Option<String>, bytes: usize) -> Result<Waiting, String> {
        let mut bodies = self.lock();
        let (of_user, total) = (bodies.get(user).copied().unwrap_or(0), bodies.values().sum::<usize>());
        if of_user > 0 && (of_user + bytes > USER_BYTES_MAX || total + bytes > TOTAL_BYTES_MAX) {
            return Err("too many pages wait to be read; try again later".to_owned());
        }
        // An empty body counts too, so that an entry is there as long as something waits.
        let bytes = bytes.max(1);
        *bodies.entry(user.clone()).or_default() += bytes;
        Ok(Waiting { of: self, user: user.clone(), bytes })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<String>, usize>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut bodies = self.of.lock();
        if let Some(bytes) = bodies.get_mut(&self.user) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                bodies.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(at_once_max: usize) -> &'static PageTurns {
        Box::leak(Box::new(PageTurns::new(at_once_max)))
    }

    #[tokio::test]
    async fn slow_pages_of_one_user_leave_a_parser_to_others() {
        let turns = turns(2);
        let slow = turns.take(Some("mallory"), 10).await.unwrap();
        let second = tokio::spawn(turns.take(Some("mallory"), 10));
        let third = tokio::spawn(turns.take(Some("mallory"), 10));
        tokio::time::sleep(Duration::from_millis(20)).await;
        for _ in 0..20 {
            drop(turns.take(Some("ada"), 10).await.unwrap());
        }
        assert!(!second.is_finished() && !third.is_finished(), "one page of a user at a time");
        drop(slow);
        let (second, third) = (second, third);
        tokio::select! {
            turn = second => drop(turn.unwrap().unwrap()),
            turn = third => drop(turn.unwrap().unwrap()),
        }
    }

    #[tokio::test]
    async fn bodies_that_wait_are_bounded_for_each_user_and_in_total() {
        let turns = turns(1);
        let first = turns.take(Some("mallory"), USER_BYTES_MAX + 1).await.unwrap();
        assert!(turns.take(Some("mallory"), 1).await.is_err_and(|why| why.contains("too many pages")));
        for number in 0..3 {
            drop(turns.enter(&Some(format!("user {number}")), TOTAL_BYTES_MAX).unwrap());
        }
        let held = turns.enter(&Some("ada".into()), 1).unwrap();
        assert!(turns.enter(&Some("ada".into()), USER_BYTES_MAX - 1).is_ok(), "what was given back counts no more");
        drop((first, held));
        assert!(turns.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_waits_too_long_gets_an_error() {
        let turns = turns(1);
        let _held = turns.take(Some("mallory"), 1).await.unwrap();
        assert!(turns.take(Some("ada"), 1).await.is_err_and(|why| why.contains("60 s")));
    }
}

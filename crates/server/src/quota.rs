//! How much one user may want at once: requests by a bucket that refills, runs and open streams by count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use graph::UserId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests of one user in a second, over time; and at once.
    pub requests_s: u32,
    pub requests_burst: u32,
    /// Runs of one user that go at once.
    pub runs_max: usize,
    /// Open event streams of one user.
    pub streams_max: usize,
    /// Connections of everybody.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { requests_s: 200, requests_burst: 1_000, runs_max: 32, streams_max: 64, connections_max: 4_096 }
    }
}

#[derive(Clone)]
pub struct Quota(Arc<Inner>);

struct Inner {
    limits: Limits,
    users: Mutex<HashMap<UserId, User>>,
}

struct User {
    tokens: f64,
    filled: Instant,
    runs: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// Users come from the store, so there are not many; this only keeps a strange day from filling the memory.
const USERS_MAX: usize = 10_000;

impl Quota {
    pub fn new(limits: Limits) -> Self {
        Quota(Arc::new(Inner { limits, users: Mutex::default() }))
    }

    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    pub fn request(&self, user: &UserId) -> Result<(), Problem> {
        let Limits { requests_s, requests_burst, .. } = self.0.limits;
        self.of(user, |of| {
            let now = Instant::now();
            let since = now.duration_since(of.filled).as_secs_f64();
            of.tokens = (of.tokens + since * f64::from(requests_s)).min(f64::from(requests_burst));
            of.filled = now;
            if of.tokens < 1.0 {
                return Err(Problem::too_many(format!("more than {requests_s} requests in a second; slow down"), 1));
            }
            of.tokens -= 1.0;
            Ok(())
        })
    }

    /// A place for a run; it is free again when the permit goes.
    pub fn run(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let runs_max = self.0.limits.runs_max;
        let place = self.of(user, |of| of.runs.clone().try_acquire_owned());
        place.map_err(|_| Problem::too_many(format!("{runs_max} of your runs are going; wait for one, or stop one"), 2))
    }

    /// The same for one of many that were asked for at once: it waits until one of the others is done.
    pub async fn run_in_turn(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let runs = self.of(user, |of| of.runs.clone());
        runs.acquire_owned().await.map_err(|error| Problem::internal(&error))
    }

    pub fn stream(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let streams_max = self.0.limits.streams_max;
        let place = self.of(user, |of| of.streams.clone().try_acquire_owned());
        place.map_err(|_| Problem::too_many(format!("{streams_max} of your streams are open; close one"), 2))
    }

    fn of<T>(&self, user: &UserId, then: impl FnOnce(&mut User) -> T) -> T {
        let Limits { requests_burst, runs_max, streams_max, .. } = self.0.limits;
        let mut users = self.lock();
        if users.len() >= USERS_MAX && !users.contains_key(user) {
            // Whoever has something open keeps it: permits outlive this.
            users.retain(|_, of| of.runs.available_permits() < runs_max || of.streams.available_permits() < streams_max);
        }
        let of = users.entry(user.clone()).or_insert_with(|| User {
            tokens: f64::from(requests_burst),
            filled: Instant::now(),
            runs: Arc::new(Semaphore::new(runs_max)),
            streams: Arc::new(Semaphore::new(streams_max)),
        });
        then(of)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, User>> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_places_of_their_own() {
        let quota = Quota::new(Limits { requests_s: 1, requests_burst: 2, runs_max: 1, streams_max: 1, connections_max: 1 });
        let (ada, bob) = (UserId::from("ada"), UserId::from("bob"));
        assert!(quota.request(&ada).is_ok() && quota.request(&ada).is_ok());
        assert_eq!(quota.request(&ada).unwrap_err().status, 429);
        assert!(quota.request(&bob).is_ok());
        let place = quota.run(&ada).unwrap();
        assert_eq!(quota.run(&ada).unwrap_err().status, 429);
        assert!(quota.run(&bob).is_ok());
        drop(place);
        assert!(quota.run(&ada).is_ok());
    }
}

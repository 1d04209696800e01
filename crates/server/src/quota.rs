//! How much one user, and all users together, may use at the same time: requests by a bucket that refills, runs, streams and request bodies by count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use graph::UserId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{Limits, count};
use crate::problem::Problem;
use crate::shared_bytes::{BytesPermit, SharedBytes};

/// Limits of users and of the server: requests, runs, streams and memory. Cheap to clone.
#[derive(Clone)]
pub struct Quota(Arc<Inner>);

struct Inner {
    limits: Limits,
    users: Mutex<HashMap<UserId, User>>,
    total: Mutex<Bucket>,
    streams: Arc<Semaphore>,
    bodies: SharedBytes,
    responses: SharedBytes,
}

struct User {
    requests: Bucket,
    at_once: Arc<Semaphore>,
    runs: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bodies: SharedBytes,
    responses: SharedBytes,
    lists: Arc<Semaphore>,
}

/// Tokens that refill at a rate.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(burst: u64) -> Bucket {
        Bucket { tokens: burst as f64, filled: Instant::now() }
    }

    fn take(&mut self, per_second: u64, burst: u64) -> bool {
        let now = Instant::now();
        let since = now.duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + since * per_second as f64).min(burst as f64);
        self.filled = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

/// A stream's share of the streams of its user and of all users.
pub struct StreamPermit {
    _user: OwnedSemaphorePermit,
    _total: OwnedSemaphorePermit,
}

const KIB: u64 = 1_024;
/// Lists of one user that are read at once.
const LISTS_MAX: usize = 1;
/// Responses up to this length are limited by the number of requests only.
const RESPONSE_BYTES_FREE: u64 = 64 * KIB;
/// Users come from the store, so there are few; this bounds memory in any case.
const USERS_MAX: usize = 10_000;

impl Quota {
    /// Nothing is in use.
    pub fn new(limits: Limits) -> Self {
        let total = Mutex::new(Bucket::new(limits.requests_per_second_total_max));
        let streams = Arc::new(Semaphore::new(count(limits.streams_total_max)));
        let [bodies, responses] = [limits.bodies_bytes_total_max; 2].map(SharedBytes::new);
        Quota(Arc::new(Inner { limits, users: Mutex::default(), total, streams, bodies, responses }))
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Counts a request; it is one of its user's requests at once until the permit is dropped.
    pub fn request(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let Limits { requests_per_second_max, requests_burst_max, requests_at_once_max, requests_per_second_total_max, .. } = self.0.limits;
        let at_once = self.of(user, |of| {
            if !of.requests.take(requests_per_second_max, requests_burst_max) {
                return Err(Problem::too_many(format!("more than {requests_per_second_max} requests per second; send fewer"), 1));
            }
            let at_once = of.at_once.clone().try_acquire_owned();
            at_once.map_err(|_| Problem::too_many(format!("{requests_at_once_max} of your requests are being handled; wait for one"), 1))
        })?;
        let mut total = self.0.total.lock().unwrap_or_else(PoisonError::into_inner);
        match total.take(requests_per_second_total_max, requests_per_second_total_max) {
            true => Ok(at_once),
            false => Err(Problem::busy("the server has more requests than it may answer per second; try again")),
        }
    }

    /// A place for a run; it is free again when the permit is dropped.
    pub fn run(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let runs_max = self.0.limits.runs_max;
        let place = self.of(user, |of| of.runs.clone().try_acquire_owned());
        place.map_err(|_| Problem::too_many(format!("{runs_max} of your runs are active; wait for one, or stop one"), 2))
    }

    /// The same for one run of a batch: it waits until another run of the user has ended.
    pub(crate) async fn run_in_turn(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let runs = self.of(user, |of| of.runs.clone());
        runs.acquire_owned().await.map_err(|error| Problem::internal(&error))
    }

    /// A place for a stream; it is free again when the permit is dropped.
    pub fn stream(&self, user: &UserId) -> Result<StreamPermit, Problem> {
        let Limits { streams_max, streams_total_max, .. } = self.0.limits;
        let of_user = self.of(user, |of| of.streams.clone().try_acquire_owned());
        let of_user = of_user.map_err(|_| Problem::too_many(format!("{streams_max} of your streams are open; close one"), 2))?;
        let total = self.0.streams.clone().try_acquire_owned();
        let total = total.map_err(|_| Problem::busy(format!("all {streams_total_max} streams of this server are open; try again later")))?;
        Ok(StreamPermit { _user: of_user, _total: total })
    }

    /// Memory for the body of a request; more is taken as it arrives.
    pub(crate) fn body(&self, user: &UserId) -> Result<BytesPermit, Problem> {
        let permit = BytesPermit::empty(self.of(user, |of| of.bodies.clone()), self.0.bodies.clone());
        permit.ok_or_else(|| Problem::internal(&"the quota of bodies was closed"))
    }

    /// A place for reading a list out of the store. Of one user few are read at once; more wait, so that requests of others do not wait behind all of them.
    pub(crate) async fn listing(&self, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
        let lists = self.of(user, |of| of.lists.clone());
        lists.acquire_owned().await.map_err(|error| Problem::internal(&error))
    }

    /// Memory for a response that is complete, until it was sent: a slow reader must not keep many long ones in memory. Short ones are not counted.
    pub(crate) fn response(&self, user: &UserId, bytes: u64) -> Result<Option<BytesPermit>, Problem> {
        if bytes <= RESPONSE_BYTES_FREE {
            return Ok(None);
        }
        let Limits { bodies_bytes_max, bodies_bytes_total_max, .. } = self.0.limits;
        let permit = BytesPermit::empty(self.of(user, |of| of.responses.clone()), self.0.responses.clone());
        // One that is longer than all that is allowed is sent alone.
        let taken = permit.and_then(|mut permit| permit.grow(bytes.min(bodies_bytes_max).min(bodies_bytes_total_max / 2)).then_some(permit));
        let words = || format!("too many long responses are on their way (bodies_bytes_max of a user is {bodies_bytes_max} bytes); read yours first");
        taken.map(Some).ok_or_else(|| Problem::too_many(words(), 1))
    }

    fn of<T>(&self, user: &UserId, then: impl FnOnce(&mut User) -> T) -> T {
        let limits = self.0.limits;
        let mut users = self.lock();
        if users.len() >= USERS_MAX && !users.contains_key(user) {
            // Users with something open keep their entry: permits outlive this.
            users.retain(|_, of| of.is_busy(&limits));
        }
        let of = users.entry(user.clone()).or_insert_with(|| User {
            requests: Bucket::new(limits.requests_burst_max),
            at_once: Arc::new(Semaphore::new(count(limits.requests_at_once_max))),
            runs: Arc::new(Semaphore::new(count(limits.runs_max))),
            streams: Arc::new(Semaphore::new(count(limits.streams_max))),
            bodies: SharedBytes::new(limits.bodies_bytes_max),
            responses: SharedBytes::new(limits.bodies_bytes_max),
            lists: Arc::new(Semaphore::new(LISTS_MAX)),
        });
        then(of)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, User>> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl User {
    fn is_busy(&self, limits: &Limits) -> bool {
        self.runs.available_permits() < count(limits.runs_max)
            || self.streams.available_permits() < count(limits.streams_max)
            || self.at_once.available_permits() < count(limits.requests_at_once_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_places_of_their_own() {
        let quota = Quota::new(Limits { requests_per_second_max: 1, requests_burst_max: 2, runs_max: 1, ..Limits::default() });
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

    #[test]
    fn requests_streams_and_bodies_are_bounded_per_user_and_in_total() {
        let limits = Limits { requests_at_once_max: 1, streams_max: 2, streams_total_max: 3, ..Limits::default() };
        let quota = Quota::new(Limits { bodies_bytes_max: 1_000 << 10, bodies_bytes_total_max: 2_000 << 10, ..limits });
        let (ada, bob) = (UserId::from("ada"), UserId::from("bob"));
        let first = quota.request(&ada).unwrap();
        assert_eq!(quota.request(&ada).unwrap_err().status, 429);
        drop(first);
        assert!(quota.request(&ada).is_ok());

        let streams = [quota.stream(&ada), quota.stream(&ada), quota.stream(&bob)];
        assert!(streams.iter().all(Result::is_ok));
        assert_eq!(quota.stream(&ada).map(drop).unwrap_err().status, 429);
        assert_eq!(quota.stream(&bob).map(drop).unwrap_err().status, 503);

        let (mut of_ada, mut of_bob) = (quota.body(&ada).unwrap(), quota.body(&bob).unwrap());
        assert!(of_ada.grow(900 << 10) && of_ada.grow(50 << 10) && !of_ada.grow(200 << 10), "of one user");
        assert!(of_bob.grow(500 << 10) && !of_bob.grow(250 << 10), "no more than is free");
        drop(of_ada);
        assert!(of_bob.grow(250 << 10));
    }

    #[tokio::test]
    async fn lists_of_one_user_wait_for_one_another() {
        let quota = Quota::new(Limits::default());
        let (ada, bob) = (UserId::from("ada"), UserId::from("bob"));
        let mut held = Vec::new();
        for _ in 0..LISTS_MAX {
            held.push(quota.listing(&ada).await.unwrap());
        }
        let waits = tokio::time::timeout(std::time::Duration::from_millis(5), quota.listing(&ada)).await;
        assert!(waits.is_err() && quota.listing(&bob).await.is_ok());
        held.pop();
        assert!(quota.listing(&ada).await.is_ok());
    }

    #[test]
    fn long_responses_that_are_not_read_are_bounded_per_user() {
        let quota = Quota::new(Limits { bodies_bytes_max: 1 << 20, ..Limits::default() });
        let (ada, bob) = (UserId::from("ada"), UserId::from("bob"));
        let first = quota.response(&ada, 700 << 10).unwrap();
        assert_eq!(quota.response(&ada, 400 << 10).map(drop).unwrap_err().status, 429);
        assert!(quota.response(&ada, 64 << 10).unwrap().is_none(), "a short one is always sent");
        assert!(quota.response(&bob, 900 << 10).is_ok());
        drop(first);
        // Longer than all that is allowed: sent, but alone.
        let alone = quota.response(&ada, 50 << 20).unwrap();
        assert!(quota.response(&ada, 100 << 10).is_err());
        drop(alone);
        assert!(quota.response(&ada, 100 << 10).is_ok());
    }
}

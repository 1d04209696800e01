//! Work that takes a processor for a while, such as rendering an answer: beside the runtime and with a lower priority, so that no other request waits for it, a few at
//! once, and one of each user, so that a user with many such requests waits behind their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::UserId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};

use crate::problem::Problem;

pub(crate) struct Renderer {
    places: Semaphore,
    /// One permit each; only of users who have or wait for a place.
    users: Mutex<BTreeMap<UserId, Arc<Semaphore>>>,
}

/// The right to render, until it is dropped.
pub(crate) struct RenderPermit {
    of_user: Option<OwnedSemaphorePermit>,
    _place: Option<SemaphorePermit<'static>>,
    renderer: &'static Renderer,
    user: UserId,
}

impl Renderer {
    /// `at_once_max`: each takes a processor and some memory; more wait.
    pub(crate) const fn new(at_once_max: usize) -> Renderer {
        Renderer { places: Semaphore::const_new(at_once_max), users: Mutex::new(BTreeMap::new()) }
    }

    /// Waits for a place; for the user's own first, so that of each user one request waits with the others.
    pub(crate) async fn place(&'static self, user: &UserId) -> Result<RenderPermit, Problem> {
        let own = self.lock().entry(user.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone();
        // From here on its drop removes the entry of the user, also when the request is given up while it waits.
        let mut place = RenderPermit { of_user: None, _place: None, renderer: self, user: user.clone() };
        place.of_user = Some(own.acquire_owned().await.map_err(|error| Problem::internal(&error))?);
        place._place = Some(self.places.acquire().await.map_err(|error| Problem::internal(&error))?);
        Ok(place)
    }

    pub(crate) async fn run<T: Send + 'static>(&'static self, user: &UserId, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        self.place(user).await?.run(work).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<UserId, Arc<Semaphore>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RenderPermit {
    pub(crate) async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            give_way();
            let done = work();
            // Given back when the work is done, also when its request is gone. If the work panics, both are dropped.
            drop(self);
            let _ = sender.send(done);
        };
        std::thread::Builder::new().name("render".to_owned()).spawn(work).map_err(|error| Problem::internal(&error))?;
        receiver.await.map_err(|_| Problem::internal(&"work beside the runtime panicked"))
    }
}

/// How much the work gives way: the threads that serve everybody else's requests have about nine tenths of a processor that both want.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lowers the priority of this thread, which ends with its work: a priority cannot be raised again.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "work beside the runtime has the normal priority");
    }
}

impl Drop for RenderPermit {
    fn drop(&mut self) {
        self.of_user = None;
        let mut users = self.renderer.lock();
        // Others of this user hold it while they wait.
        if users.get(&self.user).is_some_and(|own| Arc::strong_count(own) == 1) {
            users.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn user(name: &str) -> UserId {
        UserId::from(name)
    }

    /// On a runtime with one thread, which would stand still if the work ran on it.
    #[tokio::test]
    async fn work_runs_beside_the_runtime_and_few_at_once_also_when_requests_are_gone() {
        static RENDERER: Renderer = Renderer::new(2);
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let work = || {
            MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            NOW.fetch_sub(1, Ordering::SeqCst);
            DONE.fetch_add(1, Ordering::SeqCst);
        };
        let request = |number: usize| tokio::spawn(async move { RENDERER.run(&user(&number.to_string()), work).await });
        let requests: Vec<_> = (0..8).map(request).collect();
        while NOW.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // Its work goes on, and keeps its place.
        requests[0].abort();
        for request in requests.into_iter().skip(1) {
            request.await.unwrap().unwrap();
        }
        assert_eq!((MOST.load(Ordering::SeqCst), DONE.load(Ordering::SeqCst) >= 7), (2, true));
    }

    /// With one queue for all, bob would wait for the hundred of mallory.
    #[tokio::test]
    async fn one_user_with_many_requests_does_not_keep_others_waiting() {
        static RENDERER: Renderer = Renderer::new(1);
        let first = RENDERER.place(&user("mallory")).await.unwrap();
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                tokio::spawn(async {
                    drop(RENDERER.place(&user("mallory")).await);
                    tokio::task::yield_now().await;
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let of_bob = tokio::spawn(async { RENDERER.place(&user("bob")).await.map(drop) });
        tokio::task::yield_now().await;
        assert!(!of_bob.is_finished(), "there is one place");
        drop(first);
        of_bob.await.unwrap().unwrap();
        assert!(waiting.iter().filter(|one| one.is_finished()).count() <= 2, "bob was among the first");
        for one in waiting {
            one.await.unwrap();
        }
        assert!(RENDERER.lock().is_empty(), "nobody waits any more");
        // One that is given up while it waits leaves nothing.
        let held = RENDERER.place(&user("ada")).await.unwrap();
        let given_up = tokio::time::timeout(Duration::from_millis(5), RENDERER.place(&user("carl"))).await;
        assert!(given_up.is_err() && RENDERER.lock().len() == 1);
        drop(held);
        assert!(RENDERER.lock().is_empty());
    }
}

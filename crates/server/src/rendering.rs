//! Work that takes a processor for a while, such as rendering an answer: beside the runtime, so that no other request waits for it, a few at once, and one of each
//! user. Users whose work took long lately leave one place to the others, and their work has a lower priority than everybody's requests.

use std::sync::Arc;
use std::time::Duration;

use graph::UserId;
use tokio::sync::oneshot;
use turns::{Full, Turn, TurnLimits, Turns};

use crate::problem::Problem;

/// A user whose work took longer than this lately goes after the others.
const LIGHT_MAX: Duration = Duration::from_secs(1);
const HALF_LIFE: Duration = Duration::from_secs(30);
/// Requests of one user that wait; more are refused.
const WAITING_MAX: usize = 64;

pub(crate) struct Renderer {
    turns: Arc<Turns>,
}

/// The right to render, until it is dropped.
pub(crate) struct RenderPermit {
    turn: Turn,
    user: UserId,
}

impl Renderer {
    /// `at_once_max`: each takes a processor and some memory; more wait.
    pub(crate) fn new(at_once_max: usize) -> Renderer {
        Renderer::sharing(at_once_max, LIGHT_MAX)
    }

    fn sharing(at_once_max: usize, light_max: Duration) -> Renderer {
        let limits = TurnLimits { light_max, half_life: HALF_LIFE, waiting_max: WAITING_MAX, ..TurnLimits::one_each(at_once_max) };
        Renderer { turns: Turns::new(limits) }
    }

    /// Waits for a place.
    pub(crate) async fn place(&self, user: &UserId) -> Result<RenderPermit, Problem> {
        let turn = self.turns.take(Some(user.to_string())).await;
        let turn = turn.map_err(|Full| Problem::too_many(format!("{WAITING_MAX} of your requests wait for work like this; wait for one"), 1))?;
        Ok(RenderPermit { turn, user: user.clone() })
    }

    pub(crate) async fn run<T: Send + 'static>(&self, user: &UserId, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        self.place(user).await?.run(work).await
    }
}

impl RenderPermit {
    pub(crate) async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        let (sender, receiver) = oneshot::channel();
        let RenderPermit { turn, .. } = self;
        let work = move || {
            if turn.is_heavy() {
                turns::give_way();
            }
            let done = work();
            // Given back when the work is done, also when its request is gone. If the work panics, both are dropped.
            drop(turn);
            let _ = sender.send(done);
        };
        std::thread::Builder::new().name("render".to_owned()).spawn(work).map_err(|error| Problem::internal(&error))?;
        receiver.await.map_err(|_| Problem::internal(&"work beside the runtime panicked"))
    }

    /// The same for work that reads the store: the reads count for the user.
    pub(crate) async fn run_async<T, W>(self, work: W) -> Result<T, Problem>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let (runtime, user) = (tokio::runtime::Handle::current(), self.user.clone());
        self.run(move || runtime.block_on(store::reading_for(user, work))).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn user(name: &str) -> UserId {
        UserId::from(name)
    }

    /// On a runtime with one thread, which would stand still if the work ran on it.
    #[tokio::test]
    async fn work_runs_beside_the_runtime_and_few_at_once_also_when_requests_are_gone() {
        static RENDERER: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));
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

    /// With a turn for each in the order of arrival, ada would wait for what oscar waits for.
    #[tokio::test]
    async fn users_whose_work_takes_long_leave_a_place_to_others() {
        let renderer = Renderer::sharing(2, Duration::from_millis(20));
        for name in ["mallory", "oscar"] {
            let place = renderer.place(&user(name)).await.unwrap();
            std::thread::sleep(Duration::from_millis(60));
            drop(place);
        }
        let of_mallory = renderer.place(&user("mallory")).await.unwrap();
        let of_oscar = tokio::time::timeout(Duration::from_millis(20), renderer.place(&user("oscar"))).await;
        assert!(of_oscar.is_err(), "the last place is for those who used little");
        for _ in 0..20 {
            drop(renderer.place(&user("ada")).await.unwrap());
        }
        drop(of_mallory);
        assert!(renderer.place(&user("oscar")).await.is_ok());
    }

    #[tokio::test]
    async fn too_many_requests_of_one_user_are_refused() {
        let renderer = Renderer::new(1);
        let held = renderer.place(&user("mallory")).await.unwrap();
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| renderer.turns.take(Some("mallory".to_owned()))).collect();
        assert_eq!(renderer.place(&user("mallory")).await.map(drop).unwrap_err().status, 429);
        let of_ada = tokio::time::timeout(Duration::from_millis(5), renderer.place(&user("ada"))).await;
        assert!(of_ada.is_err(), "others may wait");
        drop((held, waiting));
        assert!(renderer.place(&user("ada")).await.is_ok());
    }
}

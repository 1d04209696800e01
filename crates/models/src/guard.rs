//! Limits the calls to an endpoint: `calls_max` at once, and none while it is known to be down.
//!
//! ```text
//!            failures_max in a row             open_ms passed: one may try
//!   closed ───────────────────────▶ open ───────────────────────────────▶ half-open
//!     ▲                              ▲                                      │    │
//!     │                              └────────────── failed ────────────────┘    │
//!     └───────────────────────────────── answered ───────────────────────────────┘
//! ```
//!
//! Only these count as failed: no connection, a status 5xx, a call that was dropped after it hung.
//! A refusal (a bad key, too many requests) is an answer of an endpoint that is up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use graph::FailureKind;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{ModelError, Remedy};

const FAILURES_MAX: u32 = 5;
const OPEN_FOR: Duration = Duration::from_secs(15);
/// A call dropped after so long without an answer counts as a failure of the endpoint, not as a cancellation.
const HUNG_AFTER: Duration = Duration::from_secs(10);

pub(crate) struct Guard {
    name: String,
    turns: Semaphore,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen,
}

impl Guard {
    pub(crate) fn new(name: &str, calls_max: usize) -> Self {
        let calls_max = calls_max.clamp(1, Semaphore::MAX_PERMITS);
        Guard { name: name.to_owned(), turns: Semaphore::new(calls_max), state: Arc::new(Mutex::new(State::Closed { failures: 0 })) }
    }

    pub(crate) async fn run<T>(&self, call: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
        let turn = self.turns.acquire().await;
        let Ok(_turn) = turn else { return Err(ModelError::again(FailureKind::Internal, "the endpoint's queue is closed")) };
        // Checked after the wait: the endpoint may have failed since.
        self.enter()?;
        let watch = Watch { state: self.state.clone(), began: Instant::now(), settled: false };
        let result = call.await;
        watch.settle(result.as_ref().err().is_some_and(is_down));
        result
    }

    fn enter(&self) -> Result<(), ModelError> {
        let mut state = lock(&self.state);
        let now = Instant::now();
        let wait = match *state {
            State::Closed { .. } => return Ok(()),
            State::Open { until } if now >= until => {
                *state = State::HalfOpen;
                return Ok(());
            }
            State::Open { until } => until - now,
            State::HalfOpen => OPEN_FOR / 5,
        };
        let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let message = format!("{} failed {FAILURES_MAX} times in a row; it is tried again in {} s", self.name, after_ms.div_ceil(1_000));
        Err(ModelError { remedy: Remedy::Again { after_ms: Some(after_ms) }, kind: FailureKind::Network, message })
    }
}

fn is_down(trouble: &ModelError) -> bool {
    matches!(trouble.remedy, Remedy::Again { .. }) && matches!(trouble.kind, FailureKind::Network | FailureKind::Timeout)
}

/// Also notices a call that is dropped, as the engine does when the deadline passes.
struct Watch {
    state: Arc<Mutex<State>>,
    began: Instant,
    settled: bool,
}

impl Watch {
    fn settle(mut self, is_down: bool) {
        self.settled = true;
        let mut state = lock(&self.state);
        *state = match (*state, is_down) {
            (_, false) => State::Closed { failures: 0 },
            (state, true) => worse(state),
        };
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let mut state = lock(&self.state);
        let hung = self.began.elapsed() >= HUNG_AFTER;
        *state = match *state {
            // The one that was let in to try has not said anything; another must be able to.
            State::HalfOpen => worse(State::HalfOpen),
            state if hung => worse(state),
            state => state,
        };
    }
}

fn worse(state: State) -> State {
    let open = State::Open { until: Instant::now() + OPEN_FOR };
    match state {
        State::Closed { failures } if failures + 1 < FAILURES_MAX => State::Closed { failures: failures + 1 },
        State::Closed { .. } | State::HalfOpen => open,
        // Calls that were under way when it opened do not make it stay open longer.
        State::Open { until } => State::Open { until },
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn down() -> ModelError {
        ModelError::again(FailureKind::Network, "down")
    }

    async fn fail(guard: &Guard, trouble: ModelError) -> ModelError {
        guard.run(async { Err::<(), _>(trouble) }).await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_lets_one_try_later() {
        let guard = Guard::new("there", 4);
        for _ in 0..FAILURES_MAX {
            assert_eq!(fail(&guard, down()).await, down());
        }
        let refused = guard.run(async { Ok(1) }).await.unwrap_err();
        assert!(matches!(refused.remedy, Remedy::Again { after_ms: Some(ms) } if ms > 0), "{refused:?}");
        assert!(refused.message.contains("there"));
        tokio::time::sleep(OPEN_FOR).await;
        assert_eq!(fail(&guard, down()).await, down());
        assert!(guard.run(async { Ok(1) }).await.is_err(), "a failed try opens it again");
        tokio::time::sleep(OPEN_FOR).await;
        assert_eq!(guard.run(async { Ok(1) }).await, Ok(1));
        assert_eq!(fail(&guard, down()).await, down());
        assert_eq!(guard.run(async { Ok(2) }).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_do_not_open_it() {
        let guard = Guard::new("there", 4);
        for _ in 0..20 {
            fail(&guard, ModelError::user("no key")).await;
            fail(&guard, ModelError::again(FailureKind::Refused, "429")).await;
        }
        assert_eq!(guard.run(async { Ok(1) }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_until_they_are_dropped_count() {
        let guard = Guard::new("there", 4);
        for _ in 0..FAILURES_MAX {
            let hang = guard.run(std::future::pending::<Result<(), ModelError>>());
            assert!(tokio::time::timeout(HUNG_AFTER * 2, hang).await.is_err());
        }
        assert!(guard.run(async { Ok(1) }).await.is_err());
        tokio::time::sleep(OPEN_FOR).await;
        let hang = guard.run(std::future::pending::<Result<(), ModelError>>());
        assert!(tokio::time::timeout(Duration::from_millis(1), hang).await.is_err());
        tokio::time::sleep(OPEN_FOR).await;
        assert_eq!(guard.run(async { Ok(1) }).await, Ok(1), "a dropped try does not keep it half-open for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_calls_max_at_once() {
        let guard = Arc::new(Guard::new("there", 3));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut calls = Vec::new();
        for _ in 0..20 {
            let (guard, now, most) = (guard.clone(), now.clone(), most.clone());
            calls.push(tokio::spawn(async move {
                let call = async {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                guard.run(call).await
            }));
        }
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }
}

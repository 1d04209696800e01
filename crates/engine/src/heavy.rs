//! Steps over much data: parsing, checking and rendering megabytes takes a processor for a while. Of each user one such step is taken at a time, and the tasks of
//! everybody else go on meanwhile. Users with many such steps leave processors to others, and their steps have a lower priority.

use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use turns::{Turn, TurnLimits, Turns};

/// A step over fewer bytes takes about a millisecond at most.
const BYTES_MIN: usize = 64 << 10;

static TURNS: LazyLock<Arc<Turns>> = LazyLock::new(|| {
    let at_once_max = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    Turns::new(TurnLimits {
        of_heavy_max: at_once_max / 2,
        light_max: Duration::from_secs(1),
        half_life: Duration::from_secs(10),
        // Each waiting step is one of a run or of a watcher, whose numbers are limited.
        waiting_max: usize::MAX,
        all_for_one: true,
        ..TurnLimits::one_each(at_once_max)
    })
});

/// Does `work` over so many bytes for the user for whom the store is read here.
pub(crate) async fn step<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if bytes < BYTES_MIN {
        return work();
    }
    let turn = TURNS.take(store::reader().map(|user| user.to_string())).await;
    let gives_way = turn.as_ref().is_ok_and(Turn::is_heavy);
    let work = || if gives_way { in_background(work) } else { work() };
    let done = in_place(bytes, work);
    drop(turn);
    done
}

/// On a thread that gives way, which this one waits for. Where there is none left, here.
fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take().map(|work| work());
    let done = std::thread::scope(|scope| {
        let begun = std::thread::Builder::new().name("long-step".to_owned()).spawn_scoped(scope, || {
            turns::give_way();
            take()
        });
        begun.ok().and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    done.or_else(take).expect("the work is done on one of the two threads")
}

/// Does `work` over so many bytes without waiting for a turn. If they are many, the tasks of this thread go on elsewhere meanwhile.
pub fn in_place<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes >= BYTES_MIN && is_multi_threaded() { tokio::task::block_in_place(work) } else { work() }
}

/// A runtime with one thread has nobody to hand its tasks to.
fn is_multi_threaded() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use graph::UserId;

    use super::*;

    /// On the tasks' own threads, two such steps stop everything else.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tasks_go_on_while_steps_take_long() {
        static IS_OVER: AtomicBool = AtomicBool::new(false);
        let long = || {
            while !IS_OVER.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let steps: Vec<_> = ["mallory", "oscar"]
            .into_iter()
            .map(|user| tokio::spawn(store::reading_for(UserId::from(user), async move { step(BYTES_MIN, long).await })))
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let others = tokio::time::timeout(Duration::from_secs(10), tokio::spawn(async { step(10, || 7).await })).await;
        IS_OVER.store(true, Ordering::SeqCst);
        assert_eq!(others.unwrap().unwrap(), 7);
        for one in steps {
            one.await.unwrap();
        }
    }

    #[test]
    fn the_work_has_a_low_priority_and_its_panic_is_the_callers() {
        let name = || std::thread::current().name().unwrap_or_default().to_owned();
        assert_eq!(in_background(name), "long-step");
        let panicked = std::panic::catch_unwind(|| in_background(|| -> u32 { panic!("a flow's own") }));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a flow's own"));
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_takes_them_there() {
        assert_eq!(step(BYTES_MIN, || 7).await, 7);
    }
}

//! Threads that share the work of a product.
//!
//! A token is made of hundreds of short regions, so workers wait for the next one without sleeping at first. On a busy machine
//! that must not cost the time of others, nor our own:
//!
//! - Parts are handed out one after the other, so a thread that is slow takes fewer.
//! - A region ends when its parts are done and all that *entered* it have left. A worker that was not running when the region
//!   began is not waited for.
//! - A waiting thread spins for microseconds, then yields its core at each check, then sleeps.
//!
//! ```text
//!   state   generation │ is open │ workers inside
//!   caller  write job ─ open ─ wake ─ take parts ─ close ─ wait until nobody is inside
//!   worker  wait for a new open generation ─ enter (fails once closed) ─ take parts ─ leave
//! ```

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;

use super::super::threads;

/// The pool of this process, made at its first use.
pub(super) fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::new(threads::count()))
}

/// Its threads sleep when there is nothing to do, and never end.
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Thread>,
    /// Held while a region runs.
    region: Mutex<()>,
}

struct Shared {
    state: AtomicU64,
    next: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only while the region is closed and nobody is inside, and read only by the caller and by those inside.
unsafe impl Sync for Shared {}
// SAFETY: the address in a job is used only as `Sync` above allows, on what is itself `Sync`.
unsafe impl Send for Shared {}

struct Job {
    /// Borrowed until the region has ended.
    work: *const (dyn Fn(Range<usize>) + Sync),
    count: usize,
    size: usize,
    caller: Thread,
}

const OPEN: u64 = 1 << 16;
const INSIDE: u64 = OPEN - 1;
const GENERATION: u64 = OPEN << 1;

/// Looks before a waiting thread yields: about 30 microseconds.
const SPINS_MAX: u32 = 1000;
/// Yields before it sleeps: about half a millisecond where no other thread wants the core.
const YIELDS_MAX: u32 = 1000;
/// Parts of a region for each thread, so that a slow one holds up little.
const PARTS_PER_THREAD: usize = 8;

impl Pool {
    /// `threads` includes the caller.
    pub(super) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared { state: AtomicU64::new(0), next: AtomicUsize::new(0), job: UnsafeCell::new(None), panic: Mutex::default() });
        let start = |at: usize| {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name(format!("kernels-{at}"));
            // Without a thread there are fewer.
            builder.spawn(move || shared.serve()).ok().map(|handle| handle.thread().clone())
        };
        let workers = (1..threads.min(INSIDE as usize)).filter_map(start).collect();
        Pool { shared, workers, region: Mutex::new(()) }
    }

    pub(super) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// `work` for parts of `0..count` on all threads. Within a region, and while another caller has the threads, on this one alone.
    pub(super) fn run(&self, count: usize, work: impl Fn(Range<usize>) + Sync) {
        if count <= 1 || self.workers.is_empty() {
            return work(0..count);
        }
        let _region = match self.region.try_lock() {
            Ok(region) => region,
            // A panic of `work` leaves nothing behind.
            Err(TryLockError::Poisoned(region)) => region.into_inner(),
            Err(TryLockError::WouldBlock) => return work(0..count),
        };
        let work: &(dyn Fn(Range<usize>) + Sync) = &work;
        // SAFETY: the lifetime is extended to be stored; `RegionGuard` waits until nobody uses it before `work` ends.
        let work = unsafe { std::mem::transmute::<*const (dyn Fn(Range<usize>) + Sync + '_), *const (dyn Fn(Range<usize>) + Sync)>(work) };
        let size = count.div_ceil(self.threads() * PARTS_PER_THREAD);
        let job = Job { work, count, size, caller: std::thread::current() };
        self.shared.next.store(0, Ordering::Relaxed);
        // SAFETY: the region is held and closed, and the last caller has waited until nobody was inside.
        unsafe { *self.shared.job.get() = Some(job) };
        self.shared.state.fetch_add(GENERATION | OPEN, Ordering::Release);
        for worker in &self.workers {
            worker.unpark();
        }
        {
            let _ending = RegionGuard(&self.shared);
            self.shared.take_parts();
        }
        let panic = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// Closes the region and waits for those inside, also when the caller panics.
struct RegionGuard<'a>(&'a Shared);

impl Drop for RegionGuard<'_> {
    fn drop(&mut self) {
        let RegionGuard(shared) = self;
        shared.state.fetch_and(!OPEN, Ordering::AcqRel);
        wait(|| (shared.state.load(Ordering::Acquire) & INSIDE == 0).then_some(()));
    }
}

impl Shared {
    fn serve(&self) {
        let mut last = 0;
        loop {
            last = wait(|| self.enter(last));
            let caught = catch_unwind(AssertUnwindSafe(|| self.take_parts()));
            if let Err(panic) = caught {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
            // SAFETY: this thread is inside.
            let caller = unsafe { (*self.job.get()).as_ref().map(|job| job.caller.clone()) };
            let before = self.state.fetch_sub(1, Ordering::AcqRel);
            if let (1, Some(caller)) = (before & (INSIDE | OPEN), caller) {
                caller.unpark();
            }
        }
    }

    /// The generation that was entered, if there is a new one that is open.
    fn enter(&self, last: u64) -> Option<u64> {
        let state = self.state.load(Ordering::Acquire);
        let generation = state / GENERATION;
        if state & OPEN == 0 || generation == last {
            return None;
        }
        let entered = self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed);
        entered.is_ok().then_some(generation)
    }

    /// By the caller and by those inside.
    fn take_parts(&self) {
        // SAFETY: it is not written while the region is open or somebody is inside.
        let Some(Job { work, count, size, .. }) = (unsafe { &*self.job.get() }) else { return };
        // SAFETY: the caller waits for everyone inside before what it points to ends.
        let work = unsafe { &**work };
        loop {
            let start = self.next.fetch_add(*size, Ordering::Relaxed);
            if start >= *count {
                return;
            }
            work(start..(start + size).min(*count));
        }
    }
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut looks = 0_u32;
    loop {
        if let Some(found) = look() {
            return found;
        }
        looks = looks.saturating_add(1);
        if looks < SPINS_MAX {
            std::hint::spin_loop();
        } else if looks < SPINS_MAX + YIELDS_MAX {
            std::thread::yield_now();
        } else {
            // The thread that changes the condition unparks afterwards, so no change is missed.
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_item_is_worked_on_once() {
        let pool = Pool::new(4);
        for round in 0..2000 {
            let count = round % 67;
            let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            pool.run(count, |part| {
                for at in part {
                    seen[at].fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed) == 1), "{count}");
            if round % 500 == 0 {
                // Long enough for the workers to sleep.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    #[test]
    fn a_region_within_a_region_runs_on_its_own_thread() {
        let pool = Pool::new(3);
        let sum = AtomicUsize::new(0);
        pool.run(8, |outer| {
            for _ in outer {
                pool.run(5, |inner| {
                    sum.fetch_add(inner.len(), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(sum.into_inner(), 40);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(3);
        for bad in 0..20 {
            let result = catch_unwind(AssertUnwindSafe(|| pool.run(20, |part| assert!(!part.contains(&bad), "expected in this test"))));
            assert!(result.is_err());
        }
        let sum = AtomicUsize::new(0);
        pool.run(20, |part| {
            sum.fetch_add(part.len(), Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 20);
    }
}

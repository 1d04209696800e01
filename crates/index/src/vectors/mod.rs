//! Vectors: texts of similar meaning are close to each other. Computed in the background by a separate thread; nothing waits for them.
//!
//! ```text
//!   Loading ──> Filling ──> Ready          Off: vectors are disabled
//!      └───────────┴──────> Failed         full text and links are used alone
//! ```

#[cfg(not(feature = "vectors"))]
mod absent;
#[cfg(feature = "vectors")]
mod net;
mod vector_cache;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::shared::{SharedVectors, SharedWork};
#[cfg(not(feature = "vectors"))]
use absent as net;
use net::Net;
pub(crate) use vector_cache::{Key, VectorCache, key};

/// Texts computed at once: several batches for each thread, and few enough to stop soon and to report progress.
const WINDOW_ROWS: usize = 128;
/// How often vectors that another server computes are looked for.
const ELSEWHERE_PAUSE: Duration = Duration::from_millis(500);

/// The model of the vectors, or nothing. Cheap to clone; the weights are loaded once, when first needed.
#[derive(Clone)]
pub struct Model(Option<Arc<Inner>>);

#[derive(Default)]
struct Inner {
    net: OnceLock<Ready>,
    loading: Mutex<()>,
}

struct Ready {
    net: Net,
    /// One thread for a question: it is a single text, computed in some milliseconds.
    asking: rayon::ThreadPool,
    /// Background work on all cores, with the lowest priority: work that somebody waits for has the cores first.
    filling: rayon::ThreadPool,
}

impl Model {
    /// No vectors at all.
    pub fn none() -> Self {
        Model(None)
    }

    /// The one that is part of the binary; none in a binary that was built without it.
    pub fn builtin() -> Self {
        Model(cfg!(feature = "vectors").then(Arc::default))
    }

    /// Whether vectors are switched on.
    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a question can be turned into a vector now.
    pub fn is_ready(&self) -> bool {
        self.ready().is_some()
    }

    /// Loads the weights, blocking the caller. The background thread does this by itself.
    pub fn load(&self) -> Result<(), String> {
        self.0.as_ref().ok_or("no vectors are wanted")?.load()
    }

    /// The first question waits a fraction of a second for the weights to load, so that a process with a single question gets the same result.
    pub(crate) fn ask(&self, text: &str) -> Option<Vec<f32>> {
        self.ask_beside(text, || ()).1
    }

    /// The same while the caller does something else.
    pub(crate) fn ask_beside<T>(&self, text: &str, meanwhile: impl FnOnce() -> T) -> (T, Option<Vec<f32>>) {
        if self.is_wanted()
            && !self.is_ready()
            && let Err(why) = self.load()
        {
            tracing::warn!(why, "a question has no vector");
        }
        let Some(ready) = self.ready() else { return (meanwhile(), None) };
        let mut vector = Ok(Vec::new());
        let done = ready.asking.in_place_scope(|pool| {
            pool.spawn(|_| vector = ready.net.tokens(text).map(|tokens| ready.net.encode(vec![tokens])));
            meanwhile()
        });
        let vector = vector.inspect_err(|why| tracing::warn!(why, "a question has no vector")).unwrap_or_default();
        (done, vector.into_iter().next())
    }

    fn ready(&self) -> Option<&Ready> {
        self.0.as_ref()?.net.get()
    }
}

impl Inner {
    fn load(&self) -> Result<(), String> {
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.net.get().is_some() {
            return Ok(());
        }
        let net = Net::load()?;
        let pool = |name: &'static str, threads: usize, begin: fn(usize)| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(move |_| name.into()).start_handler(begin);
            pool.build().map_err(|error| error.to_string())
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let background = if cfg!(target_os = "linux") { cores } else { cores.div_ceil(2) };
        let ready = Ready { net, asking: pool("vectors-ask", 1, |_| ())?, filling: pool("vectors-fill", background, |_| net::give_way())? };
        let _ = self.net.set(ready);
        Ok(())
    }
}

/// State of the vectors.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// There is no model.
    Off,
    /// The weights are loaded.
    Loading,
    /// Vectors are computed.
    Filling,
    /// All passages have a vector.
    Ready,
    /// Why, and what to do.
    Failed(String),
}

/// The state of the vectors and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The state.
    pub state: State,
    /// Passages with a vector, of all there are.
    pub done: usize,
    /// All passages.
    pub total: usize,
    /// Throughput of this process.
    pub per_second: Option<f32>,
}

/// Texts that need vectors. Rows are stable for the lifetime of the value.
pub(crate) trait Corpus: Send + Sync {
    fn total(&self) -> usize;
    /// Rows without a vector.
    fn missing(&self) -> Vec<(u32, Key)>;
    fn text(&self, row: u32) -> Option<String>;
    fn filled(&self, row: u32, slot: u32);
}

/// The background thread. Stops within one batch when dropped; finished vectors are on disk.
pub(crate) struct Filler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    model: Model,
    cache: Arc<VectorCache>,
    /// Where other servers compute the same vectors.
    work: OnceLock<Arc<dyn SharedWork>>,
    stop: AtomicBool,
    queue: Mutex<FillQueue>,
    changed: Condvar,
}

struct FillQueue {
    next: Option<Arc<dyn Corpus>>,
    progress: Progress,
}

impl Filler {
    pub(crate) fn new(model: Model, cache: Arc<VectorCache>) -> Self {
        let progress = Progress { state: State::Off, done: 0, total: 0, per_second: None };
        let shared = Arc::new(Shared {
            model,
            cache,
            work: OnceLock::new(),
            stop: AtomicBool::new(false),
            queue: Mutex::new(FillQueue { next: None, progress }),
            changed: Condvar::new(),
        });
        let thread = shared.model.is_wanted().then(|| {
            let shared = shared.clone();
            std::thread::Builder::new().name("vectors".into()).spawn(move || shared.work())
        });
        let thread = match thread.transpose() {
            Ok(thread) => thread,
            Err(error) => {
                shared.set_state(State::Failed(format!("no thread for vectors: {error}")));
                None
            }
        };
        Filler { shared, thread }
    }

    /// From now on, what other servers computed is taken from them. The first one stays.
    pub(crate) fn share(&self, work: Arc<dyn SharedWork>) {
        let _ = self.shared.work.set(work);
    }

    /// Replaces the current corpus.
    pub(crate) fn fill(&self, corpus: Arc<dyn Corpus>) {
        let mut queue = self.shared.queue();
        let total = corpus.total();
        queue.progress.total = total;
        queue.progress.done = total - corpus.missing().len();
        if self.thread.is_some() && !matches!(queue.progress.state, State::Failed(_)) {
            queue.progress.state = if total == queue.progress.done && self.shared.model.is_ready() { State::Ready } else { State::Loading };
            queue.next = Some(corpus);
            self.shared.changed.notify_all();
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.shared.queue().progress.clone()
    }

    /// Blocks until there is nothing to do, or until the limit.
    pub(crate) fn wait(&self, limit: Duration) -> Progress {
        let began = Instant::now();
        let mut queue = self.shared.queue();
        loop {
            let is_over = matches!(queue.progress.state, State::Off | State::Ready | State::Failed(_)) && queue.next.is_none();
            let left = limit.saturating_sub(began.elapsed());
            if is_over || left.is_zero() {
                return queue.progress.clone();
            }
            queue = self.shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Under the lock, otherwise a thread about to wait would miss it.
        drop(self.shared.queue());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for vectors panicked; full text went on without it");
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, FillQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: State) {
        self.queue().progress.state = state;
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut pace = Pace::default();
        while let Some(corpus) = self.next() {
            if let Err(why) = self.fill(&*corpus, &mut pace) {
                tracing::warn!(why, "vectors are left out");
                self.set_state(State::Failed(why));
                return;
            }
        }
    }

    fn next(&self) -> Option<Arc<dyn Corpus>> {
        let mut queue = self.queue();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(corpus) = queue.next.take() {
                return Some(corpus);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fill(&self, corpus: &dyn Corpus, pace: &mut Pace) -> Result<(), String> {
        let inner = self.model.0.as_ref().ok_or("no vectors are wanted")?;
        self.set_state(State::Loading);
        inner.load()?;
        let ready = self.model.ready().ok_or("the weights were not loaded")?;
        let missing = corpus.missing();
        let mut done = corpus.total() - missing.len();
        self.set_state(State::Filling);
        let mut windows: VecDeque<Vec<(u32, Key)>> = missing.chunks(WINDOW_ROWS).map(<[_]>::to_vec).collect();
        let mut elsewhere = Vec::new();
        loop {
            let Some(window) = windows.pop_front() else {
                if elsewhere.is_empty() {
                    break;
                }
                if self.is_interrupted_within(ELSEWHERE_PAUSE) {
                    return Ok(());
                }
                windows = std::mem::take(&mut elsewhere).chunks(WINDOW_ROWS).map(<[_]>::to_vec).collect();
                continue;
            };
            let Taken { rows: window, ours } = match self.work.get() {
                Some(work) => self.take_shared(&**work, corpus, window, &mut elsewhere, &mut done)?,
                None => Taken { rows: window, ours: HashSet::new() },
            };
            if window.is_empty() {
                self.queue().progress.done = done;
                continue;
            }
            let (mut rows, mut texts) = (Vec::with_capacity(window.len()), Vec::with_capacity(window.len()));
            for (row, key) in &window {
                // A row deleted meanwhile needs none.
                if let Some(text) = corpus.text(*row) {
                    rows.push((*row, *key));
                    texts.push(ready.net.tokens(&text)?);
                }
            }
            if self.stop.load(Ordering::Relaxed) || self.queue().next.is_some() {
                return Ok(());
            }
            let began = Instant::now();
            let vectors = ready.filling.install(|| ready.net.encode(texts));
            pace.add(rows.len(), began.elapsed());
            let keyed: Vec<(Key, Vec<f32>)> = rows.iter().map(|(_, key)| *key).zip(vectors).collect();
            let slots = self.cache.add(&keyed).map_err(|error| format!("the vectors cannot be written: {error}"))?;
            for ((row, _), slot) in rows.iter().zip(&slots) {
                corpus.filled(*row, *slot);
            }
            if let Some(work) = self.work.get().filter(|_| !ours.is_empty()) {
                let own = rows.iter().zip(&slots).filter(|((_, key), _)| ours.contains(key));
                let kept: Vec<(Key, Vec<u8>)> = own.filter_map(|((_, key), slot)| Some((*key, self.cache.record(*slot)?))).collect();
                work.keep_vectors(&kept);
            }
            done += rows.len();
            let mut queue = self.queue();
            queue.progress.done = done;
            queue.progress.per_second = pace.per_second();
            drop(queue);
            self.changed.notify_all();
        }
        if self.queue().next.is_none() {
            self.set_state(State::Ready);
        }
        Ok(())
    }
}

/// What is left to compute after the results of other servers were taken.
struct Taken {
    rows: Vec<(u32, Key)>,
    /// Other servers wait for these.
    ours: HashSet<Key>,
}

impl Shared {
    /// Takes vectors that other servers computed. What they compute at the moment is added to `elsewhere`.
    fn take_shared(
        &self,
        work: &dyn SharedWork,
        corpus: &dyn Corpus,
        window: Vec<(u32, Key)>,
        elsewhere: &mut Vec<(u32, Key)>,
        done: &mut usize,
    ) -> Result<Taken, String> {
        let keys: Vec<Key> = window.iter().map(|(_, key)| *key).collect();
        let SharedVectors { known, ours, elsewhere: others } = work.vectors(&keys);
        let slots = self.cache.add_records(&known).map_err(|error| format!("the vectors cannot be written: {error}"))?;
        let others: HashSet<Key> = others.into_iter().collect();
        let mut rows = Vec::new();
        for (row, key) in window {
            match slots.get(&key) {
                Some(slot) => {
                    corpus.filled(row, *slot);
                    *done += 1;
                }
                None if others.contains(&key) => elsewhere.push((row, key)),
                None => rows.push((row, key)),
            }
        }
        Ok(Taken { rows, ours: ours.into_iter().collect() })
    }

    /// Waits, and returns whether there is something else to do by then.
    fn is_interrupted_within(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut queue = self.queue();
        loop {
            if self.stop.load(Ordering::Relaxed) || queue.next.is_some() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Default)]
struct Pace {
    count: usize,
    time: Duration,
}

impl Pace {
    fn add(&mut self, count: usize, time: Duration) {
        self.count += count;
        self.time += time;
    }

    fn per_second(&self) -> Option<f32> {
        (!self.time.is_zero()).then(|| self.count as f32 / self.time.as_secs_f32())
    }
}

//! Parses untrusted documents (files to index, pages fetched) in a separate process with limits on memory, stack and time, and, on Linux,
//! without files or network. A document that crashes its parser ends only that process.
//!
//! ```text
//! Folders, fetch ── job ──► worker thread ── pipe ──► child: this program with READER_COMMAND, confined
//!                           (starts, times, replaces it)   one job after the other, a result each
//! ```
//!
//! There are a few such children, so that a document that takes long leaves one for others. Each reads many documents, is started when first needed, replaced after some work, and stopped when idle. An embedder calls
//! [`reader_main`] first in `main` when [`READER_COMMAND`] is given.

mod child;
mod frame;
mod job;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use index::{Document, ReadLimits, Skipped};

pub use child::{enter, reader_main};
pub(crate) use job::{Job, JobResult};
use worker::{Failure, Order};

/// The hidden command that runs this program as a reader.
pub const READER_COMMAND: &str = "document-reader";

/// Jobs that wait for the child.
const QUEUE_MAX: usize = 16;

/// Limits of the reader processes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program and first arguments that start a reader; if empty, this program with [`READER_COMMAND`].
    pub command: Vec<String>,
    /// Address space in addition to that of the program itself.
    pub memory_mib_max: u64,
    /// Stack of a reader.
    pub stack_mib_max: u64,
    /// Idle time after which the child is stopped.
    pub idle_max: Duration,
    /// A child is replaced after this many jobs.
    pub jobs_max: u32,
    /// Children at the same time.
    pub children_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { command: Vec::new(), memory_mib_max: 512, stack_mib_max: 64, idle_max: Duration::from_secs(30), jobs_max: 500, children_max: 2 }
    }
}

/// The parent's side. Its worker threads and their children end when it is dropped.
pub struct ReaderProcess {
    workers: Vec<Worker>,
    settings: Settings,
}

struct Worker {
    orders: SyncSender<Order>,
    /// Jobs that it has or that wait for it.
    jobs: Arc<AtomicUsize>,
}

impl ReaderProcess {
    /// Starts the worker threads; a child process is started with the first job.
    pub fn new(settings: Settings) -> std::io::Result<Self> {
        let start = |_| {
            let (orders, waiting) = sync_channel(QUEUE_MAX);
            let own = settings.clone();
            std::thread::Builder::new().name("document-reader".into()).spawn(move || worker::run(&own, &waiting))?;
            Ok(Worker { orders, jobs: Arc::default() })
        };
        let workers = (0..settings.children_max.max(1)).map(start).collect::<std::io::Result<_>>()?;
        Ok(ReaderProcess { workers, settings })
    }

    /// Blocks until the job is done.
    fn run(&self, job: Job, bytes: Vec<u8>, time_max: Duration) -> Result<JobResult, Failure> {
        let (sender, receiver) = sync_channel(1);
        let (orders, order) = self.order(job, bytes, time_max, move |result| drop(sender.send(result)));
        orders.send(order).map_err(|_| Failure::worker_ended())?;
        receiver.recv().unwrap_or_else(|_| Err(Failure::worker_ended()))
    }

    /// The same without blocking; the error is a message for the caller. `held` is dropped when the job is done, also when nobody waits for it any more.
    pub(crate) async fn run_async<H: Send + 'static>(&self, job: Job, bytes: Vec<u8>, time_max: Duration, held: H) -> Result<JobResult, String> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (orders, order) = self.order(job, bytes, time_max, move |result| {
            drop(held);
            drop(sender.send(result));
        });
        orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(_) => "too many documents are being read; try again later".to_owned(),
            TrySendError::Disconnected(_) => Failure::worker_ended().to_string(),
        })?;
        receiver.await.unwrap_or_else(|_| Err(Failure::worker_ended())).map_err(|failure| failure.to_string())
    }

    /// An order for the worker with the fewest jobs. It counts as one of its jobs until it is answered or dropped.
    fn order(
        &self,
        job: Job,
        bytes: Vec<u8>,
        time_max: Duration,
        answer: impl FnOnce(Result<JobResult, Failure>) + Send + 'static,
    ) -> (&SyncSender<Order>, Order) {
        let worker = self.workers.iter().min_by_key(|worker| worker.jobs.load(Ordering::SeqCst)).unwrap_or(&self.workers[0]);
        let counted = Counted::new(&worker.jobs);
        let answer = move |result| {
            drop(counted);
            answer(result);
        };
        (&worker.orders, Order { job, bytes, time_max, answer: Box::new(answer) })
    }
}

/// One job of a worker, until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(jobs: &Arc<AtomicUsize>) -> Counted {
        jobs.fetch_add(1, Ordering::SeqCst);
        Counted(jobs.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl index::Reader for ReaderProcess {
    fn read(&self, path: &Path, bytes: Vec<u8>, limits: ReadLimits) -> Result<Document, Skipped> {
        if index::is_small_text(path, bytes.len()) {
            return index::read_document(path, &bytes, limits);
        }
        // The reader needs the extension only, and the name as a fallback title.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let job = Job::Document { name, bytes_max: limits.bytes_max, milliseconds_max: limits.time_max.as_millis().try_into().unwrap_or(u64::MAX) };
        match self.run(job, bytes, limits.time_max) {
            Ok(JobResult::Document(document)) => document,
            Ok(JobResult::Page(_)) => Err(Skipped::NoReader("the reader answered with something else".into())),
            Err(Failure::Start(why)) => Err(Skipped::NoReader(why)),
            Err(Failure::TooSlow) => Err(Skipped::TooSlow { seconds_max: limits.time_max.as_secs() }),
            Err(Failure::TooMuchMemory) => Err(Skipped::TooMuchMemory { mib_max: self.settings.memory_mib_max }),
            Err(Failure::Crashed(why)) => Err(Skipped::Crashed(why)),
        }
    }

    fn at_once_max(&self) -> usize {
        self.workers.len()
    }
}

//! The log for a server: callers wait until their line is on the disk, and lines that wait together share one write.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::event::Event;
use crate::log::{AuditError, Log};

/// Callers that may wait for a line at once; further ones wait to be among them.
const WAITING_MAX: usize = 1_024;

/// Cheap to clone. When the last clone is dropped, what was queued has been written.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    queue: Option<mpsc::Sender<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread ends when all senders are dropped.
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the audit log had panicked");
        }
    }
}

struct Waiting {
    event: Event,
    done: Option<oneshot::Sender<Result<(), Arc<AuditError>>>>,
}

impl Recorder {
    /// Starts the thread that writes.
    pub fn start(log: Log) -> std::io::Result<Recorder> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || write_all(&log, receiver))?;
        Ok(Recorder(Arc::new(Inner { queue: Some(sender), thread: Some(thread) })))
    }

    /// Returns when the line is on the disk.
    pub async fn record(&self, event: Event) -> Result<(), Arc<AuditError>> {
        let (done, written) = oneshot::channel();
        let stopped = || Arc::new(AuditError::Stopped);
        let queue = self.0.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Waiting { event, done: Some(done) }).await.map_err(|_| stopped())?;
        written.await.map_err(|_| stopped())?
    }

    /// Queues a line without waiting for it. It is written before every line that is recorded later.
    pub fn note(&self, event: Event) {
        let is_queued = self.0.queue.as_ref().is_some_and(|queue| queue.try_send(Waiting { event, done: None }).is_ok());
        if !is_queued {
            tracing::error!("a line of the audit log was lost: too many wait, or its recorder has stopped");
        }
    }
}

fn write_all(log: &Log, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::new();
    while waiting.blocking_recv_many(&mut batch, WAITING_MAX) > 0 {
        let (events, done): (Vec<Event>, Vec<_>) = batch.drain(..).map(|one| (one.event, one.done)).unzip();
        let now_ms = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        let written = log.append(&events, now_ms).map_err(Arc::new);
        if let Err(error) = &written {
            tracing::error!(lines = events.len(), "{error}");
        }
        for done in done.into_iter().flatten() {
            // The caller may be gone.
            let _ = done.send(written.clone());
        }
    }
}

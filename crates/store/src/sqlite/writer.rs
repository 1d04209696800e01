//! The one thread that writes, and its group commit: everything that waits goes into one transaction and shares one fsync.
//!
//! ```text
//!            ┌────────────────── waits; when it is quiet, works the WAL into the file
//!            ▼
//! first write ► BEGIN ► apply it and all that is queued ► COMMIT ► answer all
//!                           │ SQLite fails                  │
//!                           └──► ROLLBACK ► each again, alone, so that one failure does not affect the others
//! ```
//!
//! Long writes are queued apart, and a group has few of them: the short ones of everybody else do not wait for megabytes.
//!
//! A write that is refused has written nothing, so its neighbours go on undisturbed.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::fault::{Fault, WithPath, to_store_error};
use super::write::Tables;
use crate::{Result, StoreError};

/// Writes that may wait. More of them wait for room, without blocking a thread.
const QUEUE_MAX: usize = 1_024;
/// A group larger than this is cut, so that the first in it does not wait for ever.
const GROUP_BYTES_MAX: usize = 2 << 20;
/// A write from this size on waits for the shorter ones.
const LARGE_BYTES_MIN: usize = 128 << 10;
/// Deletions cut the files once in this time.
const CUT_EVERY: Duration = Duration::from_secs(1);
/// Time without a write after which the writer tidies.
const QUIET: Duration = Duration::from_millis(200);

pub(super) struct Writer {
    queue: Option<Sender<Message>>,
    permits: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, path: Arc<Path>) -> Result<Self> {
        let (queue, messages) = channel();
        let permits = Arc::new(Semaphore::new(QUEUE_MAX));
        let tables = Tables::new(connection).named(&path)?;
        let mut writer = WriterThread {
            tables,
            path,
            messages,
            permits: permits.clone(),
            must_tidy: true,
            large: VecDeque::new(),
            left: None,
            must_cut: false,
            cut: None,
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.work());
        let thread = thread.map_err(|error| StoreError::Database(format!("no thread to write with: {error}")))?;
        Ok(Writer { queue: Some(queue), permits, thread: Some(thread) })
    }

    /// Does something in the next transaction and answers when that is durable. Once it is queued it will be done, whether or
    /// not the caller still waits.
    pub(super) async fn write<T, F>(&self, bytes: usize, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tables) -> std::result::Result<T, Fault> + Send + 'static,
    {
        // The writer returns the permit when it takes the write from the queue.
        self.permits.acquire().await.map_err(|_| StoreError::Closed)?.forget();
        let (ack, answer) = oneshot::channel();
        self.send(Message::Write(QueuedWrite { job: Box::new(WriteJob { act, reply: None, ack }), bytes }))?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Works the WAL into the file and cuts both to what they need.
    pub(super) async fn checkpoint(&self) -> Result<()> {
        let (ack, answer) = oneshot::channel();
        self.send(Message::Checkpoint(ack))?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// The same without waiting for readers: at once, or soon if the files were cut a moment ago or somebody reads them.
    pub(super) async fn cut(&self) -> Result<()> {
        let (ack, answer) = oneshot::channel();
        self.send(Message::Cut(ack))?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Finishes what is queued.
    pub(super) fn close(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes to the database had panicked");
        }
    }

    fn send(&self, message: Message) -> Result<()> {
        self.queue.as_ref().and_then(|queue| queue.send(message).ok()).ok_or(StoreError::Closed)
    }
}

enum Message {
    Write(QueuedWrite),
    Checkpoint(oneshot::Sender<Result<()>>),
    Cut(oneshot::Sender<Result<()>>),
}

struct QueuedWrite {
    job: Box<dyn Job>,
    bytes: usize,
}

/// A write of whatever type. It may be applied a second time after a rollback.
trait Job: Send {
    fn apply(&mut self, tables: &mut Tables) -> rusqlite::Result<()>;
    fn settle(self: Box<Self>, end: Result<()>);
}

struct WriteJob<T, F> {
    act: F,
    reply: Option<Result<T>>,
    ack: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for WriteJob<T, F>
where
    T: Send,
    F: FnMut(&mut Tables) -> std::result::Result<T, Fault> + Send,
{
    fn apply(&mut self, tables: &mut Tables) -> rusqlite::Result<()> {
        self.reply = Some(match (self.act)(tables) {
            Ok(reply) => Ok(reply),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn settle(self: Box<Self>, end: Result<()>) {
        let WriteJob { reply, ack, .. } = *self;
        // The caller may be gone; the write counts.
        drop(ack.send(end.and_then(|()| reply.unwrap_or(Err(StoreError::Closed)))));
    }
}

/// The writer's side.
struct WriterThread {
    tables: Tables,
    path: Arc<Path>,
    messages: Receiver<Message>,
    permits: Arc<Semaphore>,
    /// Something was written since the last quiet moment, or before this process began.
    must_tidy: bool,
    /// Long writes, in the order of arrival.
    large: VecDeque<QueuedWrite>,
    /// The message that ended the last group.
    left: Option<Message>,
    /// The files are to be cut, and when that was last done for a deletion.
    must_cut: bool,
    cut: Option<Instant>,
}

impl WriterThread {
    fn work(&mut self) {
        loop {
            let message = match self.left.take() {
                Some(left) => Some(left),
                None if self.large.is_empty() => match self.next() {
                    Some(message) => Some(message),
                    None => break,
                },
                None => self.messages.try_recv().ok(),
            };
            match message {
                Some(Message::Write(write)) => self.group(Some(write)),
                Some(Message::Checkpoint(ack)) => drop(ack.send(self.tables.checkpoint().named(&self.path))),
                Some(Message::Cut(ack)) => {
                    self.must_cut = true;
                    drop(ack.send(self.cut_if_due().named(&self.path)));
                }
                None => self.group(None),
            }
            if let Err(error) = self.cut_if_due() {
                tracing::warn!(%error, "the files of the database could not be cut; will try again");
            }
        }
        if let Err(error) = self.tables.checkpoint() {
            tracing::warn!(%error, path = %self.path.display(), "the WAL stays beside the database until it is next opened");
        }
    }

    /// Cuts the files if a deletion wants that and they were not cut a moment ago.
    fn cut_if_due(&mut self) -> rusqlite::Result<()> {
        if self.must_cut && self.cut.is_none_or(|cut| cut.elapsed() >= CUT_EVERY) {
            self.cut = Some(Instant::now());
            self.must_cut = !self.tables.cut()?;
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Message> {
        while self.must_tidy || self.must_cut {
            match self.messages.recv_timeout(QUIET) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.tidy(),
            }
        }
        self.messages.recv().ok()
    }

    /// Sweeps a piece of what a deletion left behind when it was cut short, or else works the WAL into the file.
    fn tidy(&mut self) {
        let done = match self.alone(&mut |tables| tables.sweep()).named(&self.path) {
            Ok(true) => return,
            Ok(false) if self.must_cut => self.cut_if_due().named(&self.path),
            Ok(false) => self.tables.checkpoint_passively().named(&self.path),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "could not tidy the database; will try again after the next write");
        }
        self.must_tidy = false;
    }

    /// Writes all that waits, and some of the long writes.
    fn group(&mut self, first: Option<QueuedWrite>) {
        self.must_tidy = true;
        let mut jobs = Vec::new();
        let end = match self.tables.begin() {
            Ok(()) => self.fill(first, &mut jobs).and_then(|()| self.tables.commit_group()),
            Err(error) => {
                jobs.extend(first.or_else(|| self.large.pop_front()).map(|write| write.job));
                Err(error)
            }
        };
        self.permits.add_permits(jobs.len());
        match end {
            Ok(()) => jobs.into_iter().for_each(|job| job.settle(Ok(()))),
            Err(error) => {
                self.tables.roll_back();
                self.retry(jobs, &error);
            }
        }
    }

    fn fill(&mut self, first: Option<QueuedWrite>, jobs: &mut Vec<Box<dyn Job>>) -> rusqlite::Result<()> {
        let (mut next, mut bytes) = (first, 0);
        while jobs.len() < QUEUE_MAX && bytes < GROUP_BYTES_MAX {
            match next.take() {
                Some(write) if write.bytes >= LARGE_BYTES_MIN => self.large.push_back(write),
                Some(write) => {
                    bytes += write.bytes;
                    self.apply(write.job, jobs)?;
                }
                None => {}
            }
            match self.messages.try_recv() {
                Ok(Message::Write(write)) => next = Some(write),
                Ok(other) => {
                    self.left = Some(other);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        // One that was taken from the queue when the group was full.
        self.left = self.left.take().or(next.map(Message::Write));
        // At least one, so that the long ones do not wait for ever.
        while let Some(write) = self.large.pop_front() {
            bytes += write.bytes;
            self.apply(write.job, jobs)?;
            if bytes >= GROUP_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn apply(&mut self, mut job: Box<dyn Job>, jobs: &mut Vec<Box<dyn Job>>) -> rusqlite::Result<()> {
        let end = job.apply(&mut self.tables);
        jobs.push(job);
        end
    }

    /// Each job of a failed group on its own. One that was alone has had its chance.
    fn retry(&mut self, jobs: Vec<Box<dyn Job>>, error: &rusqlite::Error) {
        let was_alone = jobs.len() == 1;
        for mut job in jobs {
            let end = if was_alone { Err(to_store_error(error, &self.path)) } else { self.alone(&mut |tables| job.apply(tables)).named(&self.path) };
            job.settle(end);
        }
    }

    fn alone<T, E: From<rusqlite::Error>>(&mut self, act: &mut dyn FnMut(&mut Tables) -> std::result::Result<T, E>) -> std::result::Result<T, E> {
        let end = self.tables.begin().map_err(E::from).and_then(|()| act(&mut self.tables)).and_then(|reply| {
            self.tables.commit_group()?;
            Ok(reply)
        });
        if end.is_err() {
            self.tables.roll_back();
        }
        end
    }
}

impl Drop for WriterThread {
    /// Whether it ends or panics: callers that wait for a permit must not wait for ever.
    fn drop(&mut self) {
        self.permits.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sqlite::Durability;
    use crate::sqlite::open::open_writer;

    /// In the order of arrival, the short write would wait for 30 MiB.
    #[tokio::test]
    async fn a_short_write_does_not_wait_for_long_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path: Arc<Path> = folder.path().join("a.db").into();
        let mut writer = Writer::start(open_writer(&path, Durability::Off).unwrap(), path.clone()).unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let act = |name: usize| {
            let done = done.clone();
            move |_: &mut Tables| {
                done.lock().unwrap().push(name);
                Ok(())
            }
        };
        let (go, waits) = channel::<()>();
        let waits = Mutex::new(waits);
        // While this one holds the writer, the others are queued.
        let first = writer.write(0, move |_| Ok(waits.lock().unwrap().recv().map_err(|_| StoreError::Closed)?));
        let long = futures_of((0..30).map(|name| writer.write(1 << 20, act(name))));
        let short = writer.write(100, act(99));
        let all = async { tokio::join!(first, long, short) };
        let held = async {
            tokio::task::yield_now().await;
            go.send(()).unwrap();
        };
        let ((first, long, short), ()) = tokio::join!(all, held);
        assert!(first.is_ok() && short.is_ok() && long.iter().all(Result::is_ok));
        let done = done.lock().unwrap();
        assert_eq!(done.len(), 31);
        assert!(done.iter().position(|name| *name == 99).unwrap() <= 2, "{done:?}");
        let long: Vec<usize> = done.iter().copied().filter(|name| *name != 99).collect();
        assert!(long.is_sorted(), "{long:?}");
        writer.close();
    }

    /// All of them, polled together.
    async fn futures_of<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
        let mut all: Vec<_> = all.map(Box::pin).collect();
        let mut ended: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
        std::future::poll_fn(|context| {
            for (one, ended) in all.iter_mut().zip(&mut ended).filter(|(_, ended)| ended.is_none()) {
                if let std::task::Poll::Ready(end) = one.as_mut().poll(context) {
                    *ended = Some(end);
                }
            }
            if ended.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        ended.into_iter().flatten().collect()
    }
}

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
//! A write that is refused has written nothing, so its neighbours go on undisturbed.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::fault::{Fault, WithPath, to_store_error};
use super::write::Tables;
use crate::{Result, StoreError};

/// Writes that may wait. More of them wait for room, without blocking a thread.
const QUEUE_MAX: usize = 1_024;
/// A group larger than this is cut, so that the first in it does not wait for ever.
const GROUP_BYTES_MAX: usize = 8 << 20;
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
        let mut writer = WriterThread { tables, path, messages, permits: permits.clone(), must_tidy: true };
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
        self.send(Message::Write { job: Box::new(WriteJob { act, reply: None, ack }), bytes })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Works the WAL into the file and cuts both to what they need.
    pub(super) async fn checkpoint(&self) -> Result<()> {
        let (ack, answer) = oneshot::channel();
        self.send(Message::Checkpoint(ack))?;
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
    Write { job: Box<dyn Job>, bytes: usize },
    Checkpoint(oneshot::Sender<Result<()>>),
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
}

impl WriterThread {
    fn work(&mut self) {
        while let Some(message) = self.next() {
            let mut message = Some(message);
            while let Some(now) = message.take() {
                match now {
                    Message::Write { job, bytes } => message = self.group(job, bytes),
                    Message::Checkpoint(ack) => drop(ack.send(self.tables.checkpoint().named(&self.path))),
                }
            }
        }
        if let Err(error) = self.tables.checkpoint() {
            tracing::warn!(%error, path = %self.path.display(), "the WAL stays beside the database until it is next opened");
        }
    }

    fn next(&mut self) -> Option<Message> {
        while self.must_tidy {
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
            Ok(false) => self.tables.checkpoint_passively().named(&self.path),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "could not tidy the database; will try again after the next write");
        }
        self.must_tidy = false;
    }

    /// Writes all that waits. Gives back the message that ended the group, if it was not a write.
    fn group(&mut self, first: Box<dyn Job>, bytes: usize) -> Option<Message> {
        self.must_tidy = true;
        let mut jobs = vec![first];
        let mut left = None;
        let end = self.tables.begin().and_then(|()| self.fill(&mut jobs, bytes, &mut left)).and_then(|()| self.tables.commit_group());
        self.permits.add_permits(jobs.len());
        match end {
            Ok(()) => jobs.into_iter().for_each(|job| job.settle(Ok(()))),
            Err(error) => {
                self.tables.roll_back();
                self.retry(jobs, &error);
            }
        }
        left
    }

    fn fill(&mut self, jobs: &mut Vec<Box<dyn Job>>, mut bytes: usize, left: &mut Option<Message>) -> rusqlite::Result<()> {
        let mut end = Ok(());
        if let Some(first) = jobs.last_mut() {
            end = first.apply(&mut self.tables);
        }
        while end.is_ok() && jobs.len() < QUEUE_MAX && bytes < GROUP_BYTES_MAX {
            match self.messages.try_recv() {
                Ok(Message::Write { mut job, bytes: more }) => {
                    bytes += more;
                    end = job.apply(&mut self.tables);
                    jobs.push(job);
                }
                Ok(other @ Message::Checkpoint(_)) => {
                    *left = Some(other);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
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

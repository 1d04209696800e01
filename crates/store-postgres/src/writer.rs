//! The task that writes, and its group commit: everything that waits goes into one transaction, sent without waiting in between.
//!
//! ```text
//! first write ─► all that is queued ─► BEGIN, mark, write, write, …, COMMIT in one message ─► all replies
//!                                          │ a statement fails        │ the connection is lost
//!                                          └─► each again, alone      └─► connect again, read the mark:
//!                                                                          not committed ─► the group again
//!                                                                          committed ─► Unreachable: its replies are lost
//! ```
//!
//! A write that is refused has written nothing, so the others of its group are not affected. While the database cannot be reached, writes wait
//! up to `PostgresSettings::patience`.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use store::{Change, Result, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::database::{Database, Session};
use crate::error::{Kind, detail, kind, to_store_error, unreachable};

/// Writes that may wait. More of them wait for room.
const QUEUE_MAX: usize = 1_024;
/// Writes in one transaction: each locks its thread until the transaction ends.
const GROUP_MAX: usize = 256;
/// A group larger than this is cut, so that the first in it does not wait too long.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// How often a write is run again that collided with one of another server.
const COLLISIONS_MAX: u32 = 8;
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

pub(crate) fn param<T: ToSql + Sync + Send + 'static>(value: T) -> Param {
    Box::new(value)
}

/// One statement that returns at most one row.
pub(crate) struct Write {
    pub(crate) sql: &'static str,
    pub(crate) params: Vec<Param>,
    /// The statement with two parameters more, the writer and the group, that also marks the group; used when nothing else is in it.
    pub(crate) alone_sql: Option<&'static str>,
    /// Writes of a group are sorted by this, so that two servers lock threads in the same order.
    pub(crate) thread: String,
    pub(crate) bytes: usize,
    /// What is announced to other servers when it is committed.
    pub(crate) change: Option<Change>,
}

impl Write {
    pub(crate) fn new(sql: &'static str, params: Vec<Param>) -> Write {
        Write { sql, params, alone_sql: None, thread: String::new(), bytes: 0, change: None }
    }
}

struct Queued {
    write: Write,
    reply: oneshot::Sender<Result<Option<Row>>>,
}

pub(crate) struct Writer {
    queue: mpsc::Sender<Queued>,
}

impl Writer {
    /// `number` is this writer's own in the database.
    pub(crate) fn start(database: Arc<Database>, number: i64, patience: Duration, statement_max: Duration, changes: mpsc::Sender<Change>) -> Writer {
        let (queue, queued) = mpsc::channel(QUEUE_MAX);
        let writer = WriterTask { database, number, patience, attempt_max: 2 * statement_max, group_number: 0, session: None, changes };
        tokio::spawn(writer.work(queued));
        Writer { queue }
    }

    /// Answers when the write is durable. Once it is queued it will be done, whether or not the caller still waits.
    pub(crate) async fn write(&self, write: Write) -> Result<Option<Row>> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Queued { write, reply }).await.map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}

struct WriterTask {
    database: Arc<Database>,
    number: i64,
    patience: Duration,
    attempt_max: Duration,
    group_number: i64,
    session: Option<Session>,
    changes: mpsc::Sender<Change>,
}

/// Why a group was not written.
enum GroupError {
    /// One of its writes failed; each is to be tried alone.
    Split,
    Error(StoreError),
}

impl WriterTask {
    async fn work(mut self, mut queued: mpsc::Receiver<Queued>) {
        while let Some(first) = queued.recv().await {
            let mut bytes = first.write.bytes;
            let mut group = vec![first];
            while group.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX {
                let Ok(next) = queued.try_recv() else { break };
                bytes += next.write.bytes;
                group.push(next);
            }
            // Stable: writes to one thread keep their order.
            group.sort_by(|one, other| one.write.thread.cmp(&other.write.thread));
            self.settle(group).await;
        }
    }

    async fn settle(&mut self, group: Vec<Queued>) {
        let writes: Vec<&Write> = group.iter().map(|queued| &queued.write).collect();
        match self.write(&writes).await {
            Ok(rows) => group.into_iter().zip(rows).for_each(|(queued, row)| self.reply(queued, Ok(row))),
            Err(GroupError::Error(error)) => group.into_iter().for_each(|queued| self.reply(queued, Err(error.clone()))),
            Err(GroupError::Split) => {
                for queued in group {
                    let end = match self.write(&[&queued.write]).await {
                        Ok(mut rows) => Ok(rows.pop().flatten()),
                        Err(GroupError::Error(error)) => Err(error),
                        Err(GroupError::Split) => Err(StoreError::Database("a single write cannot be split".to_owned())),
                    };
                    self.reply(queued, end);
                }
            }
        }
    }

    fn reply(&self, queued: Queued, end: Result<Option<Row>>) {
        if end.is_ok()
            && let Some(change) = queued.write.change
        {
            // Where there are too many to tell, watchers find them by polling.
            let _ = self.changes.try_send(change);
        }
        // Nobody waiting is fine: the write counts all the same.
        let _ = queued.reply.send(end);
    }

    async fn write(&mut self, writes: &[&Write]) -> std::result::Result<Vec<Option<Row>>, GroupError> {
        let name = self.database.name();
        let mut collisions = 0;
        let mut deadline = None;
        loop {
            let mut session = match self.session(&mut deadline).await {
                Ok(session) => session,
                Err(error) => return Err(GroupError::Error(error)),
            };
            self.group_number += 1;
            let group_number = self.group_number;
            let end = timeout(self.attempt_max, attempt(&mut session, self.number, group_number, writes)).await;
            let error = match end {
                Ok(Ok(rows)) => {
                    self.session = Some(session);
                    return Ok(rows);
                }
                Ok(Err(error)) if kind(&error) != Kind::Lost => {
                    self.session = Some(session);
                    error
                }
                lost => {
                    let why = match lost {
                        Ok(Err(error)) => detail(&error),
                        _ => format!("no reply for {} s", self.attempt_max.as_secs()),
                    };
                    drop(session);
                    tracing::warn!("the connection to {name} was lost, connecting again: {why}");
                    deadline.get_or_insert(Instant::now() + self.patience);
                    match self.was_committed(group_number, &mut deadline).await {
                        Ok(false) if deadline.is_some_and(|deadline| Instant::now() > deadline) => {
                            return Err(GroupError::Error(unreachable(&name, &why)));
                        }
                        Ok(false) => {
                            sleep(RECONNECT_FIRST).await;
                            continue;
                        }
                        Ok(true) => {
                            return Err(GroupError::Error(unreachable(&name, "the connection was lost after the commit and before its reply")));
                        }
                        Err(error) => return Err(GroupError::Error(error)),
                    }
                }
            };
            match kind(&error) {
                _ if writes.len() > 1 => {
                    tracing::debug!("a group of {} writes is split: {}", writes.len(), detail(&error));
                    return Err(GroupError::Split);
                }
                Kind::Collision if collisions < COLLISIONS_MAX => {
                    collisions += 1;
                    sleep(Duration::from_millis(u64::from(collisions) * 5)).await;
                }
                Kind::Collision | Kind::Final | Kind::Lost => return Err(GroupError::Error(to_store_error(&error, &name))),
            }
        }
    }

    /// The connection, made again if it was lost, until the deadline, which begins with the first failure.
    async fn session(&mut self, deadline: &mut Option<Instant>) -> Result<Session> {
        if let Some(session) = self.session.take().filter(|session| !session.client.is_closed()) {
            return Ok(session);
        }
        let mut pause = RECONNECT_FIRST;
        loop {
            let error = match self.database.session().await {
                Ok(session) => return Ok(session),
                Err(error) => error,
            };
            let deadline = *deadline.get_or_insert(Instant::now() + self.patience);
            if kind(&error) == Kind::Final || Instant::now() + pause > deadline {
                return Err(to_store_error(&error, &self.database.name()));
            }
            tracing::warn!("{} cannot be reached, trying again: {}", self.database.name(), detail(&error));
            sleep(pause).await;
            pause = (2 * pause).min(RECONNECT_MAX);
        }
    }

    /// Whether a group was committed whose replies were lost. From then on it cannot be committed any more.
    async fn was_committed(&mut self, group_number: i64, deadline: &mut Option<Instant>) -> Result<bool> {
        loop {
            let session = self.session(deadline).await?;
            self.group_number += 1;
            let sql = "SELECT baton_last_group($1, $2)";
            match session.client.query_one(sql, &[&self.number, &self.group_number]).await {
                Ok(row) => {
                    self.session = Some(session);
                    return Ok(row.get::<_, i64>(0) >= group_number);
                }
                Err(error) if deadline.is_some_and(|deadline| Instant::now() > deadline) => {
                    return Err(to_store_error(&error, &self.database.name()));
                }
                Err(_) => sleep(RECONNECT_FIRST).await,
            }
        }
    }
}

const MARK: &str = "SELECT baton_begin_group($1, $2)";

/// One transaction. All of it is sent before the first reply is awaited.
async fn attempt(session: &mut Session, number: i64, group_number: i64, writes: &[&Write]) -> std::result::Result<Vec<Option<Row>>, Error> {
    if let [Write { params, alone_sql: Some(sql), .. }] = writes {
        let statement = session.prepare(sql).await?;
        let own: [&(dyn ToSql + Sync); 2] = [&number, &group_number];
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| &**value as &(dyn ToSql + Sync)).chain(own).collect();
        return Ok(vec![session.client.query_opt(&statement, &params).await?]);
    }
    let mark = session.prepare(MARK).await?;
    let mut statements = Vec::with_capacity(writes.len());
    for write in writes {
        statements.push(session.prepare(write.sql).await?);
    }
    let client = &session.client;
    let mut sent: Vec<Reply<'_>> = Vec::with_capacity(writes.len() + 3);
    sent.push(Box::pin(async { client.batch_execute("BEGIN").await.map(|()| None) }));
    sent.push(Box::pin(async { client.query_opt(&mark, &[&number, &group_number]).await }));
    for (write, statement) in writes.iter().zip(&statements) {
        sent.push(Box::pin(async move {
            let params: Vec<&(dyn ToSql + Sync)> = write.params.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            client.query_opt(statement, &params).await
        }));
    }
    sent.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| None) }));
    let mut replies = pipelined(sent).await?;
    // Without those of BEGIN, the mark and COMMIT.
    replies.pop();
    Ok(replies.split_off(2))
}

type Reply<'a> = Pin<Box<dyn Future<Output = std::result::Result<Option<Row>, Error>> + Send + 'a>>;

/// A request is sent when its future is first polled, so one round over all sends all of them in order. Every reply is awaited, also after an
/// error: then the rest fails too, and the transaction is rolled back.
async fn pipelined(mut sent: Vec<Reply<'_>>) -> std::result::Result<Vec<Option<Row>>, Error> {
    let mut replies: Vec<Option<std::result::Result<Option<Row>, Error>>> = Vec::with_capacity(sent.len());
    poll_fn(|context| {
        for request in &mut sent {
            replies.push(match request.as_mut().poll(context) {
                Poll::Ready(reply) => Some(reply),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;
    let mut rows = Vec::with_capacity(sent.len());
    let mut failed = None;
    for (request, reply) in sent.into_iter().zip(replies) {
        let reply = match reply {
            Some(reply) => reply,
            None => request.await,
        };
        match reply {
            Ok(row) => rows.push(row),
            // The first error is the reason for the others.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(rows), Err)
}

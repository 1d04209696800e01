//! Reading, on connections of its own: in WAL mode a reader sees the last finished transaction and does not wait.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use graph::{RunId, TaskId, ThreadId, UserId};
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use tokio::sync::Semaphore;
use turns::{Turn, TurnLimits, Turns};

use super::fault::WithPath;
use super::open::open_reader;
use super::write::SqlResult;
use crate::reading_for::reader;
use crate::{Intent, JOURNAL_PAGE_BYTES_MAX, JournalLine, MessageRow, Result, RunFilter, RunRow, Signal, SnapshotRow, Status, StoreError, ThreadRow};

/// Reads at once; more of them wait their turn, without blocking a thread.
const READERS_MAX: usize = 6;
/// Long reads at once: lists, journals and messages, which may be megabytes. The rest is left to reads of one row, which nobody should wait for.
const LONG_READS_MAX: usize = 3;
/// How reads for users are shared among them; those of the program itself wait for nobody's turn. A user who read for more than a twentieth of the
/// last seconds is heavy, and heavy users together leave one of the long reads to others. How many wait is bounded by the requests and runs of a user.
const READ_TURNS: TurnLimits = TurnLimits {
    at_once_max: READERS_MAX,
    of_owner_max: 2,
    of_heavy_max: LONG_READS_MAX - 1,
    light_max: Duration::from_millis(500),
    half_life: Duration::from_secs(7),
    waiting_max: usize::MAX,
    all_for_one: true,
};

pub(super) struct Readers {
    path: Arc<Path>,
    /// Idle connections. They are opened when first needed.
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    long_reads: Semaphore,
    turns: Arc<Turns>,
}

impl Readers {
    pub(super) fn new(path: Arc<Path>) -> Self {
        let (permits, long_reads) = (Arc::new(Semaphore::new(READERS_MAX)), Semaphore::new(LONG_READS_MAX));
        Readers { path, idle: Arc::default(), permits, long_reads, turns: Turns::new(READ_TURNS) }
    }

    /// As [`Readers::read`], for what may read megabytes.
    pub(super) async fn read_long<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> SqlResult<T> + Send + 'static,
    {
        let turn = self.turn().await?;
        let _permit = self.long_reads.acquire().await.map_err(|_| StoreError::Closed)?;
        self.read_in(turn, look).await
    }

    /// Looks at one moment of the database, on a thread where blocking is fine.
    pub(super) async fn read<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> SqlResult<T> + Send + 'static,
    {
        let turn = self.turn().await?;
        self.read_in(turn, look).await
    }

    /// A turn of the user for whom is read.
    async fn turn(&self) -> Result<Option<Turn>> {
        let Some(user) = reader() else { return Ok(None) };
        self.turns.take(Some(user.to_string())).await.map(Some).map_err(|turns::Full| StoreError::Closed)
    }

    async fn read_in<T, F>(&self, turn: Option<Turn>, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> SqlResult<T> + Send + 'static,
    {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (path, idle) = (self.path.clone(), self.idle.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let waiting = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match waiting {
                Some(connection) => connection,
                None => open_reader(&path)?,
            };
            let end = at_one_moment(&connection, look).named(&path);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            // Only now, so that the next caller finds the connection.
            drop((permit, turn));
            end
        });
        reading.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.long_reads.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn at_one_moment<T>(connection: &Connection, look: impl FnOnce(&Connection) -> SqlResult<T>) -> SqlResult<T> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let seen = look(connection);
    connection.prepare_cached("ROLLBACK")?.execute([])?;
    seen
}

/// A user with more threads has so many that their runs are looked for from the newest run of all on.
const FEW_THREADS: i64 = 1_000;

/// A run was used when it was last changed or its journal grew; the row itself is not touched for a line.
const RUN_COLUMNS: &str = "name, (SELECT name FROM threads WHERE id = thread), flow, parent, title, status, outcome, created_ms,
    max(updated_ms, coalesce((SELECT at_ms FROM journal WHERE run = runs.id ORDER BY seq DESC LIMIT 1), updated_ms))";

pub(super) fn run(rows: &Connection, run: &RunId) -> SqlResult<Option<RunRow>> {
    Ok(rows.prepare_cached(&format!("SELECT {RUN_COLUMNS} FROM runs WHERE name = ?1"))?.query_row([run.as_str()], run_row).optional()?)
}

pub(super) fn runs(rows: &Connection, filter: &RunFilter) -> SqlResult<Vec<RunRow>> {
    let mut sql = String::new();
    let mut values: Vec<Value> = Vec::new();
    if !filter.statuses.is_empty() {
        let marks = vec!["?"; filter.statuses.len()].join(", ");
        sql += &format!(" AND status IN ({marks})");
        values.extend(filter.statuses.iter().map(|status| Value::from(status.as_str().to_owned())));
    }
    if let Some(thread) = &filter.thread {
        sql += " AND thread = (SELECT id FROM threads WHERE name = ?)";
        values.push(Value::from(thread.as_str().to_owned()));
    }
    if let Some(user) = &filter.user {
        // The threads of a user are few, or so many that runs of theirs are soon met among all.
        let mut threads = rows.prepare_cached("SELECT count(*) FROM (SELECT 1 FROM threads WHERE user = ?1 LIMIT ?2)")?;
        let count: i64 = threads.query_row(params![user.as_str(), FEW_THREADS], |row| row.get(0))?;
        sql += match count < FEW_THREADS {
            true => " AND thread IN (SELECT id FROM threads WHERE user = ?)",
            false => " AND EXISTS (SELECT 1 FROM threads WHERE threads.id = +runs.thread AND user = ?)",
        };
        values.push(Value::from(user.as_str().to_owned()));
    }
    if filter.roots_only {
        sql += " AND parent IS NULL";
    }
    if let Some(part) = &filter.id_part {
        sql += " AND instr(name, ?) > 0";
        values.push(Value::from(part.clone()));
    }
    if let Some(now_ms) = filter.unheld_at_ms {
        sql += " AND NOT EXISTS (SELECT 1 FROM leases JOIN owners ON owners.id = leases.owner WHERE leases.thread = runs.thread AND until_ms >= ?)";
        values.push(Value::from(now_ms));
    }
    if let Some(before) = &filter.before {
        sql += " AND id < ?";
        values.push(Value::from(run_id(rows, before)?));
    }
    values.push(Value::from(number(filter.limit as u64)));
    let columns = match filter.outcome_bytes_max {
        Some(bytes_max) => RUN_COLUMNS.replace("outcome", &format!("iif(octet_length(outcome) <= {bytes_max}, outcome, NULL)")),
        None => RUN_COLUMNS.to_owned(),
    };
    // First which, then what is known of them: sorting all that fit would read the journals of all.
    let sql = format!("SELECT {columns} FROM runs WHERE id IN (SELECT id FROM runs WHERE TRUE{sql} ORDER BY id DESC LIMIT ?) ORDER BY id DESC");
    Ok(rows.prepare_cached(&sql)?.query_map(params_from_iter(values), run_row)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn journal(rows: &Connection, run: &RunId, from_seq: u64, limit: usize) -> SqlResult<Vec<JournalLine>> {
    let run = run_id(rows, run)?;
    let mut select = rows.prepare_cached("SELECT seq, at_ms, bytes FROM journal WHERE run = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3")?;
    let mut found = select.query([run, number(from_seq), number(limit as u64)])?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while bytes < JOURNAL_PAGE_BYTES_MAX
        && let Some(row) = found.next()?
    {
        let line = JournalLine { seq: unsigned(row, 0)?, at_ms: row.get(1)?, bytes: row.get(2)? };
        bytes += line.bytes.len();
        lines.push(line);
    }
    Ok(lines)
}

pub(super) fn snapshot(rows: &Connection, run: &RunId) -> SqlResult<Option<SnapshotRow>> {
    let run = run_id(rows, run)?;
    let mut select = rows.prepare_cached("SELECT entries, bytes FROM snapshots WHERE run = ?1")?;
    Ok(select.query_row([run], |row| Ok(SnapshotRow { entries: unsigned(row, 0)?, bytes: row.get(1)? })).optional()?)
}

pub(super) fn intents(rows: &Connection, run: &RunId) -> SqlResult<Vec<Intent>> {
    let run = run_id(rows, run)?;
    let mut select = rows.prepare_cached("SELECT step, place, attempt, key FROM intents WHERE run = ?1 ORDER BY step, place")?;
    let read = |row: &Row<'_>| {
        let key = row.get::<_, String>(3)?.parse().map_err(|error| unreadable(3, error))?;
        Ok(Intent { task: TaskId { step: unsigned(row, 0)?, index: row.get(1)? }, attempt: row.get(2)?, key })
    };
    Ok(select.query_map([run], read)?.collect::<rusqlite::Result<_>>()?)
}

const THREAD_COLUMNS: &str = "name, title, messages, created_ms, updated_ms, user";

pub(super) fn thread(rows: &Connection, thread: &ThreadId) -> SqlResult<Option<ThreadRow>> {
    Ok(rows.prepare_cached(&format!("SELECT {THREAD_COLUMNS} FROM threads WHERE name = ?1"))?.query_row([thread.as_str()], thread_row).optional()?)
}

pub(super) fn threads(rows: &Connection, before: Option<&ThreadId>, limit: usize) -> SqlResult<Vec<ThreadRow>> {
    let before: (i64, i64) = match before {
        None => (i64::MAX, i64::MAX),
        Some(thread) => rows
            .prepare_cached("SELECT updated_ms, id FROM threads WHERE name = ?1")?
            .query_row([thread.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?
            .ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?,
    };
    let sql = format!("SELECT {THREAD_COLUMNS} FROM threads WHERE (updated_ms, id) < (?1, ?2) ORDER BY updated_ms DESC, id DESC LIMIT ?3");
    let values = [before.0, before.1, number(limit as u64)];
    Ok(rows.prepare_cached(&sql)?.query_map(values, thread_row)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn newest_thread(rows: &Connection, user: &UserId, name_prefix: &str) -> SqlResult<Option<ThreadRow>> {
    // The signs keep the planner from walking all threads in the order of their numbers or their users; names have an index.
    let sql = format!("SELECT {THREAD_COLUMNS} FROM threads WHERE name >= ?1 AND name < ?2 AND +user = ?3 ORDER BY +id DESC LIMIT 1");
    let past_prefix = format!("{name_prefix}{}", char::MAX);
    Ok(rows.prepare_cached(&sql)?.query_row(params![name_prefix, past_prefix, user.as_str()], thread_row).optional()?)
}

pub(super) fn stored_bytes(rows: &Connection, user: &UserId) -> SqlResult<u64> {
    let found = rows.prepare_cached("SELECT bytes FROM stored WHERE user = ?1")?.query_row([user.as_str()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(found.map_or(0, |bytes| bytes.max(0) as u64))
}

pub(super) fn messages(rows: &Connection, thread: &ThreadId, from_seq: u64, limit: usize) -> SqlResult<Vec<MessageRow>> {
    let found: Option<i64> =
        rows.prepare_cached("SELECT id FROM threads WHERE name = ?1")?.query_row([thread.as_str()], |row| row.get(0)).optional()?;
    let thread = found.ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?;
    let sql = "SELECT seq, (SELECT name FROM runs WHERE id = run), role, content, created_ms FROM messages
               WHERE thread = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3";
    let read = |row: &Row<'_>| {
        let run = RunId::from(row.get::<_, String>(1)?);
        Ok(MessageRow { seq: unsigned(row, 0)?, run, role: row.get(2)?, content: row.get(3)?, created_ms: row.get(4)? })
    };
    Ok(rows.prepare_cached(sql)?.query_map([thread, number(from_seq), number(limit as u64)], read)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn signals(rows: &Connection, owner: &str) -> SqlResult<Vec<Signal>> {
    let sql = "SELECT signals.id, runs.name, kind FROM signals JOIN runs ON runs.id = signals.run JOIN leases ON leases.thread = runs.thread
               WHERE leases.owner = (SELECT id FROM owners WHERE name = ?1) ORDER BY signals.id";
    Ok(rows.prepare_cached(sql)?.query_map(params![owner], signal)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn undelivered_signals(rows: &Connection, now_ms: i64) -> SqlResult<Vec<Signal>> {
    let sql = "SELECT signals.id, runs.name, kind FROM signals JOIN runs ON runs.id = signals.run LEFT JOIN leases ON leases.thread = runs.thread
               LEFT JOIN owners ON owners.id = leases.owner WHERE owners.id IS NULL OR until_ms < ?1 ORDER BY signals.id";
    Ok(rows.prepare_cached(sql)?.query_map(params![now_ms], signal)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn is_held(rows: &Connection, thread: &ThreadId, now_ms: i64) -> SqlResult<bool> {
    let sql = "SELECT 1 FROM leases JOIN owners ON owners.id = leases.owner JOIN threads ON threads.id = leases.thread
               WHERE threads.name = ?1 AND until_ms >= ?2";
    Ok(rows.prepare_cached(sql)?.exists(params![thread.as_str(), now_ms])?)
}

fn signal(row: &Row<'_>) -> rusqlite::Result<Signal> {
    let kind = serde_json::from_str(&row.get::<_, String>(2)?).map_err(|error| unreadable(2, error))?;
    Ok(Signal { id: unsigned(row, 0)?, run: RunId::from(row.get::<_, String>(1)?), kind })
}

fn run_id(rows: &Connection, run: &RunId) -> SqlResult<i64> {
    let found = rows.prepare_cached("SELECT id FROM runs WHERE name = ?1")?.query_row([run.as_str()], |row| row.get(0)).optional()?;
    Ok(found.ok_or_else(|| StoreError::NoRun { run: run.clone() })?)
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let status: String = row.get(5)?;
    let outcome: Option<String> = row.get(6)?;
    Ok(RunRow {
        run: RunId::from(row.get::<_, String>(0)?),
        thread: ThreadId::from(row.get::<_, String>(1)?),
        flow: row.get(2)?,
        parent: row.get::<_, Option<String>>(3)?.map(RunId::from),
        title: row.get(4)?,
        status: Status::parse(&status).ok_or_else(|| unreadable(5, StoreError::Database(format!("there is no status {status:?}"))))?,
        outcome: outcome.map(|outcome| serde_json::from_str(&outcome)).transpose().map_err(|error| unreadable(6, error))?,
        created_ms: row.get(7)?,
        updated_ms: row.get(8)?,
    })
}

fn thread_row(row: &Row<'_>) -> rusqlite::Result<ThreadRow> {
    let name: String = row.get(0)?;
    let user = row.get::<_, Option<String>>(5)?.map(UserId::from);
    Ok(ThreadRow { thread: name.into(), user, title: row.get(1)?, messages: unsigned(row, 2)?, created_ms: row.get(3)?, updated_ms: row.get(4)? })
}

pub(super) fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// SQLite counts with a sign; the upper half of our numbers is stored as its negatives and converted back.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|n| n as u64)
}

/// A number that is past every row is past these too.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_read_of_one_row_does_not_wait_for_long_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path: Arc<Path> = folder.path().join("a.db").into();
        Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE one (id INTEGER)").unwrap();
        let readers = Arc::new(Readers::new(path));
        let (started, starts) = mpsc::channel();
        let (ends, held): (Vec<_>, Vec<_>) = (0..2 * READERS_MAX).map(|_| mpsc::channel::<()>()).unzip();
        let long: Vec<_> = held
            .into_iter()
            .map(|held| {
                let (readers, started) = (readers.clone(), started.clone());
                tokio::spawn(async move {
                    let wait = move |_: &Connection| {
                        started.send(()).unwrap();
                        // The end of the sender ends it.
                        let _ = held.recv();
                        Ok(())
                    };
                    readers.read_long(wait).await
                })
            })
            .collect();
        let starts = tokio::task::spawn_blocking(move || {
            (0..LONG_READS_MAX).for_each(|_| starts.recv().unwrap());
            starts
        });
        let starts = starts.await.unwrap();
        let count = readers.read(|rows| Ok(rows.query_row("SELECT count(*) FROM one", [], |row| row.get::<_, i64>(0))?)).await.unwrap();
        assert_eq!(count, 0);
        assert!(starts.try_recv().is_err(), "no more long reads than {LONG_READS_MAX} at once");
        drop(ends);
        for one in long {
            one.await.unwrap().unwrap();
        }
    }

    /// Without turns of users, bob waits until one of mallory's two hundred reads has ended, and there are always more of them.
    #[tokio::test]
    async fn a_user_with_many_reads_does_not_keep_others_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path: Arc<Path> = folder.path().join("a.db").into();
        Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE one (id INTEGER)").unwrap();
        let readers = Arc::new(Readers::new(path));
        fn count(rows: &Connection) -> SqlResult<i64> {
            Ok(rows.query_row("SELECT count(*) FROM one", [], |row| row.get(0))?)
        }
        // Mallory is not alone.
        assert_eq!(crate::reading_for(UserId::from("bob"), readers.read(count)).await.unwrap(), 0);
        let (end, held) = tokio::sync::watch::channel(());
        let of_mallory: Vec<_> = (0..200)
            .map(|number| {
                let (readers, mut held) = (readers.clone(), held.clone());
                let wait = move |_: &Connection| {
                    // The end of the sender ends it.
                    let _ = tokio::runtime::Handle::current().block_on(held.changed());
                    Ok(())
                };
                let read = async move { if number % 2 == 0 { readers.read_long(wait).await } else { readers.read(wait).await } };
                tokio::spawn(crate::reading_for(UserId::from("mallory"), read))
            })
            .collect();
        tokio::task::yield_now().await;
        let of_bob = async { (readers.read(count).await, readers.read_long(count).await) };
        let read = tokio::time::timeout(Duration::from_secs(30), crate::reading_for(UserId::from("bob"), of_bob)).await;
        assert_eq!(read.map(|(one, list)| (one.unwrap(), list.unwrap())), Ok((0, 0)));
        assert_eq!(readers.read(count).await.unwrap(), 0, "nor the program itself");
        drop(end);
        for one in of_mallory {
            one.await.unwrap().unwrap();
        }
    }
}

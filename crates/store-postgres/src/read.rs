//! Reading threads, runs and journals. Each read is one statement, so it sees one moment of the database.

use graph::{RunId, TaskId, ThreadId, UserId};
use store::{Intent, JOURNAL_PAGE_BYTES_MAX, JournalLine, MessageRow, Result, RunFilter, RunRow, Signal, SnapshotRow, Status, StoreError, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::text::{decode, encode};

/// A run was used when it was last changed or its journal grew; the row itself is not touched for a line.
const RUN_COLUMNS: &str = "runs.name, (SELECT name FROM threads WHERE id = runs.thread), flow, parent, runs.title, status, outcome, runs.created_ms,
    greatest(runs.updated_ms, (SELECT at_ms FROM journal WHERE run = runs.id ORDER BY seq DESC LIMIT 1))";

pub(crate) async fn run(database: &Database, run: &RunId) -> Result<Option<RunRow>> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE name = $1");
    database.query_opt(&sql, &[&encode(run.as_str())]).await?.map(|row| run_row(&row)).transpose()
}

pub(crate) async fn runs(database: &Database, filter: &RunFilter) -> Result<Vec<RunRow>> {
    let columns = match filter.outcome_bytes_max {
        Some(bytes_max) => RUN_COLUMNS.replace("outcome", &format!("CASE WHEN octet_length(outcome) <= {bytes_max} THEN outcome END")),
        None => RUN_COLUMNS.to_owned(),
    };
    let mut query = Query::new(format!("SELECT {columns} FROM runs WHERE TRUE"));
    if !filter.statuses.is_empty() {
        let statuses: Vec<&'static str> = filter.statuses.iter().map(|status| status.as_str()).collect();
        query.and("status = ANY ($)", statuses);
    }
    if let Some(thread) = &filter.thread {
        query.and("thread = (SELECT id FROM threads WHERE name = $)", owned(thread.as_str()));
    }
    if let Some(user) = &filter.user {
        query.and("thread IN (SELECT id FROM threads WHERE user_name = $)", owned(user.as_str()));
    }
    if filter.roots_only {
        query.sql += " AND parent IS NULL";
    }
    if let Some(part) = &filter.id_part {
        query.and("strpos(runs.name, $) > 0", owned(part));
    }
    if let Some(now_ms) = filter.unheld_at_ms {
        let is_held = "SELECT 1 FROM threads JOIN owners ON owners.name = threads.owner WHERE threads.id = runs.thread AND until_ms >= $";
        query.and(&format!("NOT EXISTS ({is_held})"), now_ms);
    }
    if let Some(before) = &filter.before {
        let row = database.query_opt("SELECT id FROM runs WHERE name = $1", &[&encode(before.as_str())]).await?;
        let id: i64 = row.ok_or_else(|| StoreError::NoRun { run: before.clone() })?.get(0);
        query.and("id < $", id);
    }
    query.end("ORDER BY id DESC LIMIT $", number(filter.limit as u64));
    query.rows(database).await?.iter().map(run_row).collect()
}

pub(crate) async fn journal(database: &Database, run: &RunId, from_seq: u64, limit: usize) -> Result<Vec<JournalLine>> {
    // Lengths are read without the bytes.
    let sql = format!(
        "SELECT seq, at_ms, bytes FROM runs LEFT JOIN LATERAL
             (SELECT seq, at_ms, bytes FROM
                 (SELECT seq, at_ms, bytes, sum(octet_length(bytes)) OVER (ORDER BY seq) - octet_length(bytes) AS bytes_before FROM
                     (SELECT seq, at_ms, bytes FROM journal WHERE run = runs.id AND seq >= $2 ORDER BY seq LIMIT $3) AS found) AS page
              WHERE bytes_before < {JOURNAL_PAGE_BYTES_MAX}) AS lines ON TRUE
         WHERE name = $1 ORDER BY seq"
    );
    let rows = database.query(&sql, &[&encode(run.as_str()), &number(from_seq), &number(limit as u64)]).await?;
    let line = |row: &Row| Some(JournalLine { seq: unsigned(row.get::<_, Option<i64>>(0)?), at_ms: row.get(1), bytes: row.get(2) });
    of_run(run, &rows)?;
    Ok(rows.iter().filter_map(line).collect())
}

pub(crate) async fn snapshot(database: &Database, run: &RunId) -> Result<Option<SnapshotRow>> {
    let sql = "SELECT entries, bytes FROM runs LEFT JOIN snapshots ON run = runs.id WHERE name = $1";
    let rows = database.query(sql, &[&encode(run.as_str())]).await?;
    let row = of_run(run, &rows)?;
    Ok(row.get::<_, Option<i64>>(0).map(|entries| SnapshotRow { entries: unsigned(entries), bytes: row.get(1) }))
}

pub(crate) async fn intents(database: &Database, run: &RunId) -> Result<Vec<Intent>> {
    let sql = "SELECT step, place, attempt, key FROM runs LEFT JOIN intents ON run = runs.id WHERE name = $1 ORDER BY step, place";
    let rows = database.query(sql, &[&encode(run.as_str())]).await?;
    of_run(run, &rows)?;
    let intent = |row: &Row| {
        let step = row.get::<_, Option<i64>>(0)?;
        let (place, attempt, key): (i64, i64, &str) = (row.get(1), row.get(2), row.get(3));
        let key = key.parse().map_err(|error| damaged(database, &format!("an intent of run {run}: {error}")));
        Some(key.map(|key| Intent { task: TaskId { step: unsigned(step), index: place as u32 }, attempt: attempt as u32, key }))
    };
    rows.iter().filter_map(intent).collect()
}

/// A join with a run that exists has a row at least.
fn of_run<'a>(run: &RunId, rows: &'a [Row]) -> Result<&'a Row> {
    rows.first().ok_or_else(|| StoreError::NoRun { run: run.clone() })
}

const THREAD_COLUMNS: &str = "name, title, messages, created_ms, updated_ms, user_name";

pub(crate) async fn thread(database: &Database, thread: &ThreadId) -> Result<Option<ThreadRow>> {
    let sql = format!("SELECT {THREAD_COLUMNS} FROM threads WHERE name = $1");
    Ok(database.query_opt(&sql, &[&encode(thread.as_str())]).await?.map(|row| thread_row(&row)))
}

pub(crate) async fn threads(database: &Database, before: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
    let (used_ms, id) = match before {
        None => (i64::MAX, i64::MAX),
        Some(thread) => place(database, thread).await?,
    };
    let sql = format!("SELECT {THREAD_COLUMNS} FROM threads WHERE (updated_ms, id) < ($1, $2) ORDER BY updated_ms DESC, id DESC LIMIT $3");
    let rows = database.query(&sql, &[&used_ms, &id, &number(limit as u64)]).await?;
    Ok(rows.iter().map(thread_row).collect())
}

/// Where a thread stands in the order of use.
pub(crate) async fn place(database: &Database, thread: &ThreadId) -> Result<(i64, i64)> {
    let row = database.query_opt("SELECT updated_ms, id FROM threads WHERE name = $1", &[&encode(thread.as_str())]).await?;
    let row = row.ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?;
    Ok((row.get(0), row.get(1)))
}

pub(crate) async fn newest_thread(database: &Database, user: &UserId, name_prefix: &str) -> Result<Option<ThreadRow>> {
    // `id + 0` keeps the planner from walking all threads in the order of their numbers; names have an index.
    let sql = format!("SELECT {THREAD_COLUMNS} FROM threads WHERE name >= $1 AND name < $2 AND user_name || '' = $3 ORDER BY id + 0 DESC LIMIT 1");
    let prefix = encode(name_prefix);
    let past_prefix = format!("{prefix}{}", char::MAX);
    Ok(database.query_opt(&sql, &[&prefix, &past_prefix, &encode(user.as_str())]).await?.map(|row| thread_row(&row)))
}

pub(crate) async fn stored_bytes(database: &Database, user: &UserId) -> Result<u64> {
    let sql = "SELECT coalesce(sum(bytes), 0)::bigint FROM stored WHERE user_name = $1";
    let row = database.query_opt(sql, &[&encode(user.as_str())]).await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0).max(0) as u64))
}

pub(crate) async fn messages(database: &Database, thread: &ThreadId, from_seq: u64, limit: usize) -> Result<Vec<MessageRow>> {
    let sql = "SELECT seq, (SELECT name FROM runs WHERE id = run), role, content, said.created_ms FROM threads LEFT JOIN LATERAL
                   (SELECT seq, run, role, content, created_ms FROM messages WHERE thread = threads.id AND seq >= $2 ORDER BY seq LIMIT $3) AS said ON TRUE
               WHERE name = $1 ORDER BY seq";
    let rows = database.query(sql, &[&encode(thread.as_str()), &number(from_seq), &number(limit as u64)]).await?;
    if rows.is_empty() {
        return Err(StoreError::NoThread { thread: thread.clone() });
    }
    let message = |row: &Row| {
        let seq = unsigned(row.get::<_, Option<i64>>(0)?);
        Some(MessageRow { seq, run: RunId::from(string(row, 1)), role: string(row, 2), content: string(row, 3), created_ms: row.get(4) })
    };
    Ok(rows.iter().filter_map(message).collect())
}

pub(crate) async fn signals(database: &Database, owner: &str) -> Result<Vec<Signal>> {
    let sql = "SELECT signals.id, runs.name, kind FROM signals JOIN runs ON runs.id = signals.run JOIN threads ON threads.id = runs.thread
               WHERE threads.owner = $1 ORDER BY signals.id";
    database.query(sql, &[&encode(owner)]).await?.iter().map(|row| signal(database, row)).collect()
}

pub(crate) async fn undelivered_signals(database: &Database, now_ms: i64) -> Result<Vec<Signal>> {
    let sql = "SELECT signals.id, runs.name, kind FROM signals JOIN runs ON runs.id = signals.run JOIN threads ON threads.id = runs.thread
               LEFT JOIN owners ON owners.name = threads.owner WHERE owners.name IS NULL OR until_ms < $1 ORDER BY signals.id";
    database.query(sql, &[&now_ms]).await?.iter().map(|row| signal(database, row)).collect()
}

pub(crate) async fn is_held(database: &Database, thread: &ThreadId, now_ms: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM threads JOIN owners ON owners.name = threads.owner WHERE threads.name = $1 AND until_ms >= $2";
    Ok(database.query_opt(sql, &[&encode(thread.as_str()), &now_ms]).await?.is_some())
}

fn signal(database: &Database, row: &Row) -> Result<Signal> {
    let kind = serde_json::from_str(&string(row, 2)).map_err(|error| damaged(database, &format!("a signal: {error}")))?;
    Ok(Signal { id: unsigned(row.get(0)), run: RunId::from(string(row, 1)), kind })
}

fn run_row(row: &Row) -> Result<RunRow> {
    let run = RunId::from(string(row, 0));
    let unreadable = |what: String| StoreError::Database(format!("run {run}: {what}"));
    let outcome = row.get::<_, Option<&str>>(6).map(serde_json::from_str).transpose().map_err(|error| unreadable(error.to_string()))?;
    Ok(RunRow {
        thread: ThreadId::from(string(row, 1)),
        flow: string(row, 2),
        parent: row.get::<_, Option<String>>(3).map(decode).map(RunId::from),
        title: string(row, 4),
        status: status(row.get(5))?,
        outcome,
        created_ms: row.get(7),
        updated_ms: row.get(8),
        run,
    })
}

pub(crate) fn status(name: &str) -> Result<Status> {
    Status::parse(name).ok_or_else(|| StoreError::Database(format!("there is no status {name:?}")))
}

pub(crate) fn thread_row(row: &Row) -> ThreadRow {
    ThreadRow {
        thread: ThreadId::from(string(row, 0)),
        title: string(row, 1),
        messages: unsigned(row.get(2)),
        created_ms: row.get(3),
        updated_ms: row.get(4),
        user: row.get::<_, Option<String>>(5).map(decode).map(UserId::from),
    }
}

/// A statement that is put together from conditions. `$` in each stands for its value.
pub(crate) struct Query {
    pub(crate) sql: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Query {
    pub(crate) fn new(sql: String) -> Query {
        Query { sql, values: Vec::new() }
    }

    pub(crate) fn and(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.end(&format!("AND {condition}"), value);
    }

    pub(crate) fn end(&mut self, part: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.sql = format!("{} {}", self.sql, part.replace('$', &format!("${}", self.values.len())));
    }

    /// Makes it a part of another query.
    pub(crate) fn within(&mut self, before: &str, after: &str) {
        self.sql = format!("{before}{}{after}", self.sql);
    }

    pub(crate) async fn rows(self, database: &Database) -> Result<Vec<Row>> {
        let values: Vec<&(dyn ToSql + Sync)> = self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        database.query(&self.sql, &values).await
    }
}

pub(crate) fn owned(text: &str) -> String {
    encode(text).into_owned()
}

pub(crate) fn string(row: &Row, column: usize) -> String {
    decode(row.get(column))
}

pub(crate) fn damaged(database: &Database, why: &str) -> StoreError {
    StoreError::Damaged { path: database.name(), why: why.to_owned() }
}

/// Postgres counts with a sign; the upper half of our numbers is stored as its negatives and converted back.
pub(crate) fn unsigned(number: i64) -> u64 {
    number as u64
}

/// A number that is past every row is past these too.
pub(crate) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

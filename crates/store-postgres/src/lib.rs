//! The store for several servers: one Postgres database.
//!
//! ```text
//! commit, claim, … ──► queue ──► writer task ──► one transaction for all that waits, sent at once, then all replies
//! run, journal, …  ──────────► a pool of connections
//! what was written ──► NOTIFY ──► the other servers' `changes`
//! ```
//!
//! It keeps the promises of `store` (`tests/promises` runs the same list as SQLite's). Leases keep servers out of one another's threads: every
//! commit checks its fence in the transaction that writes it.
//!
//! Deliberately absent: a clock in promises (callers say what time it is); `clock` offers the server's, for callers on several machines.

#![warn(missing_docs)]

mod address;
mod bare;
mod database;
mod error;
mod files;
mod limits;
mod migrate;
mod notify;
mod read;
mod shared_index;
mod text;
mod tls;
mod transfer;
mod users;
mod values;
mod write;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use call_limits::CallLimits;
use graph::{RunId, ThreadId, UserId};
use serde_json::Value;
use store::{
    CardFilter, CardRow, Change, Commit, DeletionReport, Intent, JournalLine, Lease, MessageRow, NewPermission, NewRecord, NewToken, NoteFilter,
    NoteRow, PERMISSIONS_MAX, PermissionRow, RECORDS_MAX, RecordFilter, RecordRow, Result, Retention, RunFilter, RunRow, SESSIONS_MAX, SharedFiles,
    SharedIndex, SharedValues, Signal, SignalKind, SnapshotRow, Store, StoreError, ThreadRow, TokenRow,
};
use tokio_postgres::Row;

pub use address::Address;
pub use bare::BenchSchema;
use database::{Database, steady_ms};
use notify::{Notifier, SWEEP_ROWS};
use read::{number, unsigned};
use write::{Refusable, Uncounted, claimed, committed, no_reply, refused, text};
use writer::{Write, Writer, param};

/// Threads looked at in one transaction of a retention.
const THREADS_MAX: i64 = 128;

/// Limits of connections, statements and waiting.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// Connections for reading. The store has two more: one writes, one listens.
    pub readers_max: usize,
    /// A statement that takes longer is ended by the server.
    pub statement_max: Duration,
    /// How long writes wait while the database cannot be reached.
    pub patience: Duration,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        PostgresSettings { readers_max: 8, statement_max: Duration::from_secs(30), patience: Duration::from_secs(90) }
    }
}

/// A [`Store`] in a Postgres database, shared by several processes.
pub struct PostgresStore {
    database: Arc<Database>,
    writer: Writer,
    number: i64,
    notifier: Notifier,
    uncounted: Uncounted,
    clock_offset_ms: Arc<AtomicI64>,
}

impl PostgresStore {
    /// Makes the tables if there are none. Called inside a runtime: writing and listening are tasks.
    pub async fn open(address: Address, settings: PostgresSettings) -> Result<PostgresStore> {
        let database = Arc::new(Database::open(address, &settings).await?);
        let clock_offset_ms = Arc::new(AtomicI64::new(database.clock_offset_ms().await?));
        let row = database.query_opt("SELECT nextval('writer_numbers')", &[]).await?;
        let number = row.ok_or_else(no_reply)?.get(0);
        let notifier = Notifier::start(database.clone(), clock_offset_ms.clone());
        let writer = Writer::start(database.clone(), number, settings.patience, settings.statement_max, notifier.outgoing.clone());
        Ok(PostgresStore { database, writer, number, notifier, uncounted: Uncounted::default(), clock_offset_ms })
    }

    /// The database without its password.
    pub fn name(&self) -> String {
        self.database.name()
    }

    async fn write(&self, sql: &'static str, params: Vec<writer::Param>) -> Result<Option<Row>> {
        self.writer.write(Write::new(sql, params)).await
    }

    async fn commit_at(&self, commit: Commit, until_ms: Option<i64>) -> Result<u64> {
        let wanted = Refusable::of(&commit);
        let end = self.writer.write(write::commit(commit, until_ms, &self.uncounted, self.number)).await;
        let end = end.and_then(|row| committed(row.as_ref(), &wanted));
        if end.is_err() {
            self.uncounted.forget(&wanted.thread);
        }
        end
    }

    /// Removes the rows of deleted threads, in transactions small enough for other writes to come between.
    async fn sweep(&self) -> Result<()> {
        loop {
            let row = self.write("SELECT baton_sweep($1)", vec![param(SWEEP_ROWS)]).await?;
            if !row.ok_or_else(no_reply)?.get::<_, bool>(0) {
                return Ok(());
            }
        }
    }

    /// Threads are kept from this place on, in the order of use.
    async fn kept_from(&self, retention: Retention) -> Result<(i64, i64)> {
        Ok(match retention {
            Retention::KeepSince { ms } => (ms, i64::MIN),
            Retention::KeepLast(0) => (i64::MAX, i64::MAX),
            Retention::KeepLast(count) => {
                let sql = "SELECT updated_ms, id FROM threads ORDER BY updated_ms DESC, id DESC LIMIT 1 OFFSET $1";
                let row = self.database.query_opt(sql, &[&number(count - 1)]).await?;
                row.map_or((i64::MIN, i64::MIN), |row| (row.get(0), row.get(1)))
            }
        })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.database.close();
    }
}

fn first<T: for<'a> tokio_postgres::types::FromSql<'a>>(row: Option<&Row>) -> Result<T> {
    Ok(row.ok_or_else(no_reply)?.get(0))
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, commit: Commit) -> Result<()> {
        self.commit_at(commit, None).await.map(drop)
    }

    async fn begin(&self, commit: Commit, until_ms: i64) -> Result<Lease> {
        let lease = commit.lease.clone();
        let fence = self.commit_at(commit, Some(until_ms)).await?;
        Ok(Lease { fence, ..lease })
    }

    async fn claim(&self, thread: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> Result<Lease> {
        let params = vec![param(text(thread.as_str())), param(text(owner)), param(now_ms), param(until_ms)];
        let sql = "SELECT refusal, who, number FROM baton_claim($1, $2, $3, $4)";
        let row = self.writer.write(Write { thread: thread.to_string(), ..Write::new(sql, params) }).await?;
        claimed(row.as_ref(), Lease { thread: thread.clone(), owner: owner.to_owned(), fence: 0 })
    }

    async fn renew(&self, owner: &str, until_ms: i64) -> Result<()> {
        self.write("UPDATE owners SET until_ms = $2, seen_at = now() WHERE name = $1", vec![param(text(owner)), param(until_ms)]).await.map(drop)
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        let params = vec![param(text(lease.thread.as_str())), param(text(&lease.owner)), param(lease.fence as i64)];
        let sql = "UPDATE threads SET owner = NULL WHERE name = $1 AND owner = $2 AND fence = $3";
        self.writer.write(Write { thread: lease.thread.to_string(), ..Write::new(sql, params) }).await.map(drop)
    }

    async fn is_held(&self, thread: &ThreadId, now_ms: i64) -> Result<bool> {
        read::is_held(&self.database, thread, now_ms).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        read::run(&self.database, run).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        read::runs(&self.database, &filter).await
    }

    async fn journal(&self, run: &RunId, from_seq: u64, limit: usize) -> Result<Vec<JournalLine>> {
        read::journal(&self.database, run, from_seq, limit).await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<SnapshotRow>> {
        read::snapshot(&self.database, run).await
    }

    async fn intents(&self, run: &RunId) -> Result<Vec<Intent>> {
        read::intents(&self.database, run).await
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>> {
        read::thread(&self.database, thread).await
    }

    async fn threads(&self, before: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        read::threads(&self.database, before, limit).await
    }

    async fn newest_thread(&self, user: &UserId, name_prefix: &str) -> Result<Option<ThreadRow>> {
        read::newest_thread(&self.database, user, name_prefix).await
    }

    async fn stored_bytes(&self, user: &UserId) -> Result<u64> {
        read::stored_bytes(&self.database, user).await
    }

    async fn cards(&self, filter: CardFilter) -> Result<Vec<CardRow>> {
        users::cards(&self.database, &filter).await
    }

    async fn messages(&self, thread: &ThreadId, from_seq: u64, limit: usize) -> Result<Vec<MessageRow>> {
        read::messages(&self.database, thread, from_seq, limit).await
    }

    async fn post(&self, run: &RunId, signal: SignalKind) -> Result<()> {
        let kind = serde_json::to_string(&signal).map_err(|error| StoreError::Database(error.to_string()))?;
        let sql = "INSERT INTO signals (run, kind) SELECT id, $2 FROM runs WHERE name = $1 RETURNING id";
        let params = vec![param(text(run.as_str())), param(text(&kind))];
        let write = Write { bytes: kind.len(), change: Some(Change::Signal(run.clone())), ..Write::new(sql, params) };
        self.writer.write(write).await?.map(drop).ok_or_else(|| StoreError::NoRun { run: run.clone() })
    }

    async fn signals(&self, owner: &str) -> Result<Vec<Signal>> {
        read::signals(&self.database, owner).await
    }

    async fn undelivered_signals(&self, now_ms: i64) -> Result<Vec<Signal>> {
        read::undelivered_signals(&self.database, now_ms).await
    }

    async fn accept(&self, signal: u64) -> Result<()> {
        self.write("DELETE FROM signals WHERE id = $1", vec![param(number(signal))]).await.map(drop)
    }

    async fn notes(&self, filter: NoteFilter) -> Result<Vec<NoteRow>> {
        users::notes(&self.database, &filter).await
    }

    async fn forget(&self, user: &UserId, note: Option<u64>) -> Result<u64> {
        let sql = "WITH gone AS (DELETE FROM notes WHERE user_name = $1 AND ($2::bigint IS NULL OR id = $2) RETURNING 1) SELECT count(*) FROM gone";
        let row = self.write(sql, vec![param(text(user.as_str())), param(note.map(number))]).await?;
        first(row.as_ref()).map(unsigned)
    }

    async fn preferences(&self, user: &UserId) -> Result<BTreeMap<String, Value>> {
        users::preferences(&self.database, user).await
    }

    async fn prefer(&self, user: &UserId, name: &str, value: Option<Value>) -> Result<()> {
        let (user, name) = (param(text(user.as_str())), param(text(name)));
        match value {
            Some(value) => {
                let sql = "INSERT INTO preferences (user_name, name, value) VALUES ($1, $2, $3)
                           ON CONFLICT (user_name, name) DO UPDATE SET value = excluded.value";
                self.write(sql, vec![user, name, param(text(&value.to_string()))]).await.map(drop)
            }
            None => self.write("DELETE FROM preferences WHERE user_name = $1 AND name = $2", vec![user, name]).await.map(drop),
        }
    }

    async fn keep_token(&self, token: NewToken) -> Result<u64> {
        let params = vec![
            param(token.digest.to_vec()),
            param(text(token.user.as_str())),
            param(token.made_with.map(Vec::from)),
            param(token.created_ms),
            param(token.until_ms),
            param(SESSIONS_MAX as i64),
            param(token.scope.as_deref().map(text)),
        ];
        let row = self.write("SELECT baton_keep_token($1, $2, $3, $4, $5, $6, $7)", params).await?;
        first(row.as_ref()).map(unsigned)
    }

    async fn token(&self, digest: &[u8; 32], now_ms: i64) -> Result<Option<TokenRow>> {
        users::token(&self.database, digest, now_ms).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        users::tokens(&self.database).await
    }

    async fn expire_token(&self, token: u64, until_ms: i64) -> Result<bool> {
        let sql = "UPDATE tokens SET until_ms = $2 WHERE id = $1 RETURNING id";
        Ok(self.write(sql, vec![param(number(token)), param(until_ms)]).await?.is_some())
    }

    async fn drop_token(&self, token: u64) -> Result<bool> {
        first(self.write("SELECT baton_drop_token($1)", vec![param(number(token))]).await?.as_ref())
    }

    async fn permissions(&self, user: &UserId) -> Result<Vec<PermissionRow>> {
        users::permissions(&self.database, user).await
    }

    async fn keep_permission(&self, permission: NewPermission) -> Result<u64> {
        let thread = permission.grant.thread().cloned();
        let params = vec![
            param(text(permission.user.as_str())),
            param(permission.grant.scope()),
            param(text(permission.grant.name())),
            param(thread.as_ref().map(|thread| text(thread.as_str()))),
            param(permission.created_ms),
            param(PERMISSIONS_MAX as i64),
            param(write::definition(&permission)),
        ];
        let row = self.write("SELECT refusal, number FROM baton_keep_permission($1, $2, $3, $4, $5, $6, $7)", params).await?;
        committed(row.as_ref(), &Refusable::thread(&thread.unwrap_or_else(|| ThreadId::from(""))))
    }

    async fn revoke_permission(&self, user: &UserId, permission: u64) -> Result<bool> {
        let sql = "WITH gone AS (DELETE FROM permissions WHERE user_name = $1 AND id = $2 RETURNING 1) SELECT count(*) > 0 FROM gone";
        first(self.write(sql, vec![param(text(user.as_str())), param(number(permission))]).await?.as_ref())
    }

    async fn put_record(&self, record: NewRecord) -> Result<()> {
        let value = record.value.to_string();
        record.must_fit(value.len())?;
        let params = vec![
            param(text(record.user.as_str())),
            param(text(&record.kind)),
            param(text(&record.key)),
            param(text(&value)),
            param(record.at_ms),
            param(RECORDS_MAX as i64),
            param(self.number),
        ];
        let row = self.write("SELECT baton_put_record($1, $2, $3, $4, $5, $6, $7)", params).await?;
        match first(row.as_ref())? {
            true => Ok(()),
            false => Err(StoreError::TooMany { kind: record.kind, count_max: RECORDS_MAX }),
        }
    }

    async fn record(&self, user: &UserId, kind: &str, key: &str) -> Result<Option<RecordRow>> {
        users::record(&self.database, user, kind, key).await
    }

    async fn users(&self) -> Result<Vec<UserId>> {
        users::users(&self.database).await
    }

    async fn records(&self, filter: RecordFilter) -> Result<Vec<RecordRow>> {
        users::records(&self.database, &filter).await
    }

    async fn drop_record(&self, user: &UserId, kind: &str, key: &str) -> Result<bool> {
        let params = vec![param(text(user.as_str())), param(text(kind)), param(text(key)), param(self.number)];
        first(self.write("SELECT baton_drop_record($1, $2, $3, $4)", params).await?.as_ref())
    }

    /// `DeletionReport::bytes` are those of the deleted journals and messages: Postgres uses the space again and does not shrink its files.
    async fn retain(&self, retention: Retention, now_ms: i64) -> Result<DeletionReport> {
        let kept = self.kept_from(retention).await?;
        let mut freed = DeletionReport::default();
        let mut from = (i64::MIN, i64::MIN);
        loop {
            let params = vec![param(from.0), param(from.1), param(kept.0), param(kept.1), param(now_ms), param(THREADS_MAX), param(self.number)];
            let row = self.write("SELECT deleted, runs, bytes, next_ms, next FROM baton_delete_some($1, $2, $3, $4, $5, $6, $7)", params).await?;
            let row = row.ok_or_else(no_reply)?;
            freed.deleted.extend(row.get::<_, Vec<String>>(0).into_iter().map(text::decode).map(ThreadId::from));
            freed.threads = freed.deleted.len() as u64;
            freed.runs += unsigned(row.get(1));
            freed.bytes += unsigned(row.get(2));
            match row.get::<_, Option<i64>>(4) {
                Some(next) => from = (row.get(3), next),
                None => break,
            }
        }
        self.sweep().await?;
        Ok(freed)
    }

    async fn delete_thread(&self, thread: &ThreadId, now_ms: i64) -> Result<DeletionReport> {
        let params = vec![param(text(thread.as_str())), param(now_ms), param(self.number)];
        let sql = "SELECT refusal, who, number, runs, bytes FROM baton_delete_thread($1, $2, $3)";
        let row = self.writer.write(Write { thread: thread.to_string(), ..Write::new(sql, params) }).await?.ok_or_else(no_reply)?;
        if let Some(refusal) = row.get::<_, Option<&str>>("refusal") {
            return Err(refused(refusal, &row, row.get::<_, Option<i64>>("number").unwrap_or_default(), &Refusable::thread(thread)));
        }
        self.uncounted.forget(thread);
        self.sweep().await?;
        Ok(DeletionReport { deleted: vec![thread.clone()], threads: 1, runs: unsigned(row.get("runs")), bytes: unsigned(row.get("bytes")) })
    }

    fn notify(&self, change: Change) {
        // A full queue drops the notification.
        let _ = self.notifier.outgoing.try_send(change);
    }

    fn files(&self) -> Option<&dyn SharedFiles> {
        Some(self)
    }

    fn values(&self) -> Option<&dyn SharedValues> {
        Some(self)
    }

    fn shared_index(&self) -> Option<&dyn SharedIndex> {
        Some(self)
    }

    fn call_limits(&self) -> Option<Arc<dyn CallLimits>> {
        Some(Arc::new(limits::PostgresLimits { database: self.database.clone() }))
    }

    fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<Change>> {
        Some(self.notifier.incoming.subscribe())
    }

    /// The database's clock, as far as it differs from this machine's; compared every minute.
    fn clock(&self) -> Option<Arc<dyn Fn() -> i64 + Send + Sync>> {
        let offset_ms = self.clock_offset_ms.clone();
        Some(Arc::new(move || steady_ms() + offset_ms.load(Ordering::Relaxed)))
    }
}

//! The home for one machine: a SQLite file in WAL mode.
//!
//! ```text
//! commit, claim, ... ──► queue ──► writer thread ──► one transaction for all that waits, one fsync, then all answers
//! run, journal, ...  ──────────► a few read-only connections on blocking threads
//! ```
//!
//! Several processes may open one file; leases keep them out of each other's threads.

mod cards;
mod copy;
mod fault;
mod notes;
mod open;
mod permissions;
mod read;
mod records;
mod retention;
mod tokens;
mod transfer;
mod users;
mod write;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use graph::{RunId, ThreadId, UserId};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    CardFilter, CardRow, Commit, DeletionReport, Intent, JournalLine, Lease, MessageRow, NewPermission, NewRecord, NewToken, NoteFilter, NoteRow,
    PermissionRow, RecordFilter, RecordRow, Result, Retention, RunFilter, RunRow, Signal, SignalKind, SnapshotRow, Store, StoreError, ThreadRow,
    TokenRow,
};
pub use copy::{CheckedDatabase, check_database, compact_database, copy_database, is_in_use};
use read::Readers;
use retention::RetainedFrom;
use writer::Writer;

/// Pause between two pieces of a deletion: longer than writers of other processes take to see that the file is free.
const OTHERS_TURN: Duration = Duration::from_millis(3);

/// A store in one SQLite file.
pub struct SqliteStore {
    path: Arc<Path>,
    readers: Readers,
    writer: Writer,
}

/// How a SQLite store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteSettings {
    /// What commits survive.
    pub durability: Durability,
}

/// What a commit that was answered survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The power going out.
    #[default]
    Full,
    /// The process dying, but not the machine. For tests.
    Off,
}

impl SqliteStore {
    /// Makes the file if there is none; its folder must exist. Blocks for a few file operations.
    pub fn open(path: impl Into<PathBuf>, settings: SqliteSettings) -> Result<Self> {
        let path: Arc<Path> = path.into().into();
        let connection = open::open_writer(&path, settings.durability)?;
        Ok(SqliteStore { writer: Writer::start(connection, path.clone())?, readers: Readers::new(path.clone()), path })
    }

    /// Sweeps up after deletions and gives the pages back.
    async fn give_back(&self, files_bytes: u64, freed: DeletionReport) -> Result<DeletionReport> {
        self.sweep().await?;
        self.writer.checkpoint().await?;
        Ok(DeletionReport { bytes: files_bytes.saturating_sub(self.files_bytes()), ..freed })
    }

    /// In pieces small enough for other writers to come between.
    async fn sweep(&self) -> Result<()> {
        while self.writer.write(0, |tables| tables.sweep()).await? {
            sleep(OTHERS_TURN).await;
        }
        while self.writer.write(0, |tables| tables.vacuum()).await? {
            sleep(OTHERS_TURN).await;
        }
        Ok(())
    }

    fn files_bytes(&self) -> u64 {
        open::file_bytes(&self.path) + open::file_bytes(&open::wal_of(&self.path))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // Readers first: the last connection to go tidies the WAL away, and only one that may write can.
        self.readers.close();
        self.writer.close();
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<()> {
        self.writer.write(bytes_of(&commit), move |tables| tables.commit(&commit)).await
    }

    async fn begin(&self, commit: Commit, until_ms: i64) -> Result<Lease> {
        self.writer.write(bytes_of(&commit), move |tables| tables.begin_run(&commit, until_ms)).await
    }

    async fn claim(&self, thread: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> Result<Lease> {
        let (thread, owner) = (thread.clone(), owner.to_owned());
        self.writer.write(0, move |tables| tables.claim(&thread, &owner, now_ms, until_ms)).await
    }

    async fn renew(&self, owner: &str, until_ms: i64) -> Result<()> {
        let owner = owner.to_owned();
        self.writer.write(0, move |tables| tables.renew(&owner, until_ms)).await
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.writer.write(0, move |tables| tables.release(&lease)).await
    }

    async fn is_held(&self, thread: &ThreadId, now_ms: i64) -> Result<bool> {
        let thread = thread.clone();
        self.readers.read(move |rows| read::is_held(rows, &thread, now_ms)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        let run = run.clone();
        self.readers.read(move |rows| read::run(rows, &run)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        self.readers.read_long(move |rows| read::runs(rows, &filter)).await
    }

    async fn journal(&self, run: &RunId, from_seq: u64, limit: usize) -> Result<Vec<JournalLine>> {
        let run = run.clone();
        self.readers.read_long(move |rows| read::journal(rows, &run, from_seq, limit)).await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<SnapshotRow>> {
        let run = run.clone();
        self.readers.read(move |rows| read::snapshot(rows, &run)).await
    }

    async fn intents(&self, run: &RunId) -> Result<Vec<Intent>> {
        let run = run.clone();
        self.readers.read(move |rows| read::intents(rows, &run)).await
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>> {
        let thread = thread.clone();
        self.readers.read(move |rows| read::thread(rows, &thread)).await
    }

    async fn threads(&self, before: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        let before = before.cloned();
        self.readers.read_long(move |rows| read::threads(rows, before.as_ref(), limit)).await
    }

    async fn newest_thread(&self, user: &UserId, name_prefix: &str) -> Result<Option<ThreadRow>> {
        let (user, name_prefix) = (user.clone(), name_prefix.to_owned());
        self.readers.read(move |rows| read::newest_thread(rows, &user, &name_prefix)).await
    }

    async fn stored_bytes(&self, user: &UserId) -> Result<u64> {
        let user = user.clone();
        self.readers.read(move |rows| read::stored_bytes(rows, &user)).await
    }

    async fn cards(&self, filter: CardFilter) -> Result<Vec<CardRow>> {
        self.readers.read_long(move |rows| cards::cards(rows, &filter)).await
    }

    async fn messages(&self, thread: &ThreadId, from_seq: u64, limit: usize) -> Result<Vec<MessageRow>> {
        let thread = thread.clone();
        self.readers.read_long(move |rows| read::messages(rows, &thread, from_seq, limit)).await
    }

    async fn post(&self, run: &RunId, signal: SignalKind) -> Result<()> {
        let run = run.clone();
        let kind = serde_json::to_string(&signal).map_err(|error| StoreError::Database(error.to_string()))?;
        self.writer.write(kind.len(), move |tables| tables.post(&run, &kind)).await
    }

    async fn signals(&self, owner: &str) -> Result<Vec<Signal>> {
        let owner = owner.to_owned();
        self.readers.read(move |rows| read::signals(rows, &owner)).await
    }

    async fn undelivered_signals(&self, now_ms: i64) -> Result<Vec<Signal>> {
        self.readers.read(move |rows| read::undelivered_signals(rows, now_ms)).await
    }

    async fn accept(&self, signal: u64) -> Result<()> {
        self.writer.write(0, move |tables| tables.accept(signal)).await
    }

    async fn notes(&self, filter: NoteFilter) -> Result<Vec<NoteRow>> {
        self.readers.read_long(move |rows| notes::notes(rows, &filter)).await
    }

    async fn forget(&self, user: &UserId, note: Option<u64>) -> Result<u64> {
        let user = user.clone();
        self.writer.write(0, move |tables| tables.forget_notes(&user, note)).await
    }

    async fn preferences(&self, user: &UserId) -> Result<BTreeMap<String, Value>> {
        let user = user.clone();
        self.readers.read(move |rows| notes::preferences(rows, &user)).await
    }

    async fn prefer(&self, user: &UserId, name: &str, value: Option<Value>) -> Result<()> {
        let (user, name) = (user.clone(), name.to_owned());
        self.writer.write(0, move |tables| tables.prefer(&user, &name, value.as_ref())).await
    }

    async fn keep_token(&self, token: NewToken) -> Result<u64> {
        self.writer.write(0, move |tables| tables.keep_token(&token)).await
    }

    async fn token(&self, digest: &[u8; 32], now_ms: i64) -> Result<Option<TokenRow>> {
        let digest = *digest;
        self.readers.read(move |rows| tokens::token(rows, &digest, now_ms)).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        self.readers.read(tokens::tokens).await
    }

    async fn expire_token(&self, token: u64, until_ms: i64) -> Result<bool> {
        self.writer.write(0, move |tables| tables.expire_token(token, until_ms)).await
    }

    async fn drop_token(&self, token: u64) -> Result<bool> {
        self.writer.write(0, move |tables| tables.drop_token(token)).await
    }

    async fn permissions(&self, user: &UserId) -> Result<Vec<PermissionRow>> {
        let user = user.clone();
        self.readers.read(move |rows| permissions::permissions(rows, &user)).await
    }

    async fn keep_permission(&self, permission: NewPermission) -> Result<u64> {
        self.writer.write(0, move |tables| tables.keep_permission(&permission)).await
    }

    async fn revoke_permission(&self, user: &UserId, permission: u64) -> Result<bool> {
        let user = user.clone();
        self.writer.write(0, move |tables| tables.revoke_permission(&user, permission)).await
    }

    async fn put_record(&self, record: NewRecord) -> Result<()> {
        self.writer.write(0, move |tables| tables.put_record(&record)).await
    }

    async fn record(&self, user: &UserId, kind: &str, key: &str) -> Result<Option<RecordRow>> {
        let (user, kind, key) = (user.clone(), kind.to_owned(), key.to_owned());
        self.readers.read(move |rows| records::record(rows, &user, &kind, &key)).await
    }

    async fn users(&self) -> Result<Vec<UserId>> {
        self.readers.read(users::users).await
    }

    async fn records(&self, filter: RecordFilter) -> Result<Vec<RecordRow>> {
        self.readers.read_long(move |rows| records::records(rows, &filter)).await
    }

    async fn drop_record(&self, user: &UserId, kind: &str, key: &str) -> Result<bool> {
        let (user, kind, key) = (user.clone(), kind.to_owned(), key.to_owned());
        self.writer.write(0, move |tables| tables.drop_record(&user, &kind, &key)).await
    }

    async fn retain(&self, retention: Retention, now_ms: i64) -> Result<DeletionReport> {
        let files_bytes = self.files_bytes();
        let mut freed = DeletionReport::default();
        let kept: RetainedFrom = self.readers.read(move |rows| RetainedFrom::of(rows, retention)).await?;
        let mut from = Some(RetainedFrom::NOTHING);
        while let Some(place) = from {
            let piece = self.writer.write(0, move |tables| tables.delete_some(place, kept, now_ms)).await?;
            freed.threads += piece.threads.len() as u64;
            freed.deleted.extend(piece.threads);
            freed.runs += piece.runs;
            from = piece.next;
            sleep(OTHERS_TURN).await;
        }
        self.give_back(files_bytes, freed).await
    }

    async fn delete_thread(&self, thread: &ThreadId, now_ms: i64) -> Result<DeletionReport> {
        let files_bytes = self.files_bytes();
        let deleted = vec![thread.clone()];
        let thread = thread.clone();
        // Of a short thread everything is done in one transaction.
        let delete = self.writer.write(0, move |tables| {
            let runs = tables.delete_thread(&thread, now_ms)?;
            Ok((runs, tables.sweep()? || tables.vacuum()?))
        });
        let (runs, has_more) = delete.await?;
        if has_more {
            self.sweep().await?;
        }
        self.writer.cut().await?;
        Ok(DeletionReport { deleted, threads: 1, runs, bytes: files_bytes.saturating_sub(self.files_bytes()) })
    }
}

fn bytes_of(commit: &Commit) -> usize {
    commit.lines.iter().map(Vec::len).sum::<usize>() + commit.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes.len())
}

//! Threads, messages, runs and their journals, and what runs left for later ones. The only crate with SQL.
//!
//! One trait, one list of promises (`tests/promises`), and one implementation for each kind of storage. A run's journal is
//! append-only and is the truth; snapshots may be thrown away; everything else about a run is derived from its journal.
//!
//! Deliberately absent: what entries mean (that is `graph`), when to write them (that is `engine`), and a clock: callers say
//! what time it is.

#![warn(missing_docs)]

mod error;
mod files;
mod memory;
mod newest_messages;
mod reading_for;
mod rows;
mod scratch;
mod shared_index;
mod sqlite;
pub mod transfer;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use call_limits::CallLimits;
use graph::{RunId, ThreadId, UserId};
use serde_json::Value;

pub use error::StoreError;
pub use files::{FileVersion, NewFile, SharedFiles};
pub use memory::MemoryStore;
pub use newest_messages::newest_messages;
pub use reading_for::{reader, reading_for, reading_likewise};
pub use rows::{
    CardFilter, CardRow, Change, Commit, DeletionReport, Grant, Intent, JOURNAL_PAGE_BYTES_MAX, JournalLine, Lease, MessageRow, NOTE_BYTES_MAX,
    NOTES_BYTES_MAX, NOTES_MAX, NewMessage, NewNote, NewPermission, NewRecord, NewRun, NewSnapshot, NewToken, NewestRun, NoteFilter, NoteRow,
    PERMISSIONS_MAX, PREVIEW_CHARS_MAX, PermissionCheck, PermissionRow, Piece, RECORD_BYTES_MAX, RECORDS_LISTED_BYTES_MAX, RECORDS_MAX, RecordFilter,
    RecordRow, Retention, RunFilter, RunRow, SESSIONS_MAX, Signal, SignalKind, SnapshotRow, Status, ThreadRow, TokenRow,
};
pub use scratch::{Rows, Scratch};
pub use shared_index::{KeyedVector, Share, SharedIndex};
pub use sqlite::{CheckedDatabase, Durability, SqliteSettings, SqliteStore, check_database, compact_database, copy_database, is_in_use};
pub use values::{NewValue, SharedValues};

/// The result of a call of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Reading about a run or thread that does not exist is `NoRun` or `NoThread`, except where the answer can be `None` or an
/// empty list of a filter. Lines and messages are numbered from 0.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes one run's next moment: all of it, or none. When this returns, it is as durable as the home can make it.
    ///
    /// Refused when the lease is no longer the newest of its thread (`Fenced`), when `first_seq` is not the next number of the
    /// journal (`OutOfOrder`), and, for a new run, when there is one of that name (`Exists`) or the thread is another user's (`NotYours`).
    async fn commit(&self, commit: Commit) -> Result<()>;

    /// The first moment of a new run, and its thread taken in the same moment, as `claim` would by the commit's own time; the fence of the commit's
    /// lease is not looked at. Refused as either would be, and then nothing is taken.
    async fn begin(&self, commit: Commit, until_ms: i64) -> Result<Lease>;

    /// Takes the right to write to a thread, making the thread if there is none. Held until released, or until its owner has
    /// not renewed in time; then the next one gets it, with a higher fence. Taking what one holds gives the same fence again.
    /// `Held` has its holder and until when.
    async fn claim(&self, thread: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> Result<Lease>;
    /// Keeps everything this owner has claimed until the given time.
    async fn renew(&self, owner: &str, until_ms: i64) -> Result<()>;
    /// Gives a thread back. Giving back what was lost is no error.
    async fn release(&self, lease: &Lease) -> Result<()>;
    /// Whether a thread has a holder at this time: its lease was neither released nor has it expired.
    async fn is_held(&self, thread: &ThreadId, now_ms: i64) -> Result<bool>;

    /// A run by its id.
    async fn run(&self, run: &RunId) -> Result<Option<RunRow>>;
    /// Newest first, at most `limit` of them.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>>;
    /// The journal from a number on, in order, at most `limit` lines, and none after [`JOURNAL_PAGE_BYTES_MAX`].
    async fn journal(&self, run: &RunId, from_seq: u64, limit: usize) -> Result<Vec<JournalLine>>;
    /// The last snapshot of a run that is not over.
    async fn snapshot(&self, run: &RunId) -> Result<Option<SnapshotRow>>;
    /// What was begun and has no answer in the journal.
    async fn intents(&self, run: &RunId) -> Result<Vec<Intent>>;

    /// A thread by its id.
    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>>;
    /// Most recently used first; `before` is the last one of the page before.
    async fn threads(&self, before: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>>;
    /// The thread of this user that was made last, among those whose name begins so.
    async fn newest_thread(&self, user: &UserId, name_prefix: &str) -> Result<Option<ThreadRow>>;
    /// Bytes of journal lines and messages in a user's threads. Lines of unfinished runs may be missing, at most 64 KiB a thread.
    async fn stored_bytes(&self, user: &UserId) -> Result<u64>;
    /// Threads with what a list shows of them, most recently used first.
    async fn cards(&self, filter: CardFilter) -> Result<Vec<CardRow>>;
    /// In order, from a number on, at most `limit`.
    async fn messages(&self, thread: &ThreadId, from_seq: u64, limit: usize) -> Result<Vec<MessageRow>>;

    /// Leaves a signal for the driver of the run, in any process. Delivered at least once, in order.
    async fn post(&self, run: &RunId, signal: SignalKind) -> Result<()>;
    /// Word left for runs of threads this owner holds. Stays until `accept`ed.
    async fn signals(&self, owner: &str) -> Result<Vec<Signal>>;
    /// Signals for runs of threads that no process holds: left too late, or for a process that exited.
    async fn undelivered_signals(&self, now_ms: i64) -> Result<Vec<Signal>>;
    /// Removes a signal that was handled.
    async fn accept(&self, signal: u64) -> Result<()>;

    /// What runs left for later ones, newest first; what is out of date is not among it.
    async fn notes(&self, filter: NoteFilter) -> Result<Vec<NoteRow>>;
    /// Forgets one of a user's notes, or all of them. Returns how many there were.
    async fn forget(&self, user: &UserId, note: Option<u64>) -> Result<u64>;
    /// What a user likes, by name.
    async fn preferences(&self, user: &UserId) -> Result<BTreeMap<String, Value>>;
    /// Sets what a user likes, or with `None` that nothing is known of it.
    async fn prefer(&self, user: &UserId, name: &str, value: Option<Value>) -> Result<()>;

    /// Adds a token by its digest. Returns its number, which is never used twice.
    async fn keep_token(&self, token: NewToken) -> Result<u64>;
    /// The token with this digest, unless it has expired. The caller checks whether the token that created it still exists.
    async fn token(&self, digest: &[u8; 32], now_ms: i64) -> Result<Option<TokenRow>>;
    /// The tokens that people were given, in the order they were made; those that were made with another are not among them.
    async fn tokens(&self) -> Result<Vec<TokenRow>>;
    /// Makes a token valid until then and no longer. Returns whether there was one.
    async fn expire_token(&self, token: u64, until_ms: i64) -> Result<bool>;
    /// Takes one back, with all that was made with it. Returns whether there was one.
    async fn drop_token(&self, token: u64) -> Result<bool>;

    /// What a user allowed for good, in the order it was allowed.
    async fn permissions(&self, user: &UserId) -> Result<Vec<PermissionRow>>;
    /// Allows something for good, and returns its number. What is allowed already keeps its number and its time.
    async fn keep_permission(&self, permission: NewPermission) -> Result<u64>;
    /// Takes one of a user's permissions back. Returns whether there was one.
    async fn revoke_permission(&self, user: &UserId, permission: u64) -> Result<bool>;

    /// Everybody of whom something is kept, by name.
    async fn users(&self) -> Result<Vec<UserId>>;

    /// Keeps a document of a user, in place of one of the same kind and key, which keeps its `created_ms`. Refused when it is too large or there are
    /// too many of its kind (`TooLarge`, `TooMany`).
    async fn put_record(&self, record: NewRecord) -> Result<()>;
    /// One document of a user.
    async fn record(&self, user: &UserId, kind: &str, key: &str) -> Result<Option<RecordRow>>;
    /// In the order of their keys. Fewer than `limit` are returned once they have [`RECORDS_LISTED_BYTES_MAX`] bytes: the next page begins after the last one
    /// until there are none.
    async fn records(&self, filter: RecordFilter) -> Result<Vec<RecordRow>>;
    /// Deletes a document. Returns whether there was one.
    async fn drop_record(&self, user: &UserId, kind: &str, key: &str) -> Result<bool>;

    /// Deletes threads with their messages, runs, journals and what was learnt in them, and gives the space back. A thread with an unfinished run or a
    /// live lease is kept.
    async fn retain(&self, retention: Retention, now_ms: i64) -> Result<DeletionReport>;
    /// Deletes a thread in any state, unless it is held.
    async fn delete_thread(&self, thread: &ThreadId, now_ms: i64) -> Result<DeletionReport>;

    /// What other processes write from now on, where the store can notify. Changes may be missing, so waiters also poll.
    fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<Change>> {
        None
    }

    /// Notifies other processes of something that is not written, where the store can. It may get lost, and never waits.
    fn notify(&self, _change: Change) {}

    /// The files of users that all processes share, where the store keeps them; `None` where they lie on this machine's disk alone.
    fn files(&self) -> Option<&dyn SharedFiles> {
        None
    }

    /// Values with versions that all processes share, where the store keeps them; `None` where there is one process.
    fn values(&self) -> Option<&dyn SharedValues> {
        None
    }

    /// What is made of users' files, where several processes share it; `None` where each makes its own.
    fn shared_index(&self) -> Option<&dyn SharedIndex> {
        None
    }

    /// Limits of calls to providers that all processes share, where the store can decide them; `None` where each process decides alone.
    fn call_limits(&self) -> Option<Arc<dyn CallLimits>> {
        None
    }

    /// Milliseconds since 1970 by the clock that all processes on this store share; `None` where that is their machine's.
    fn clock(&self) -> Option<Arc<dyn Fn() -> i64 + Send + Sync>> {
        None
    }
}

//! The points at which a process can be killed. Every store write and every effect passes the gate before and after; a cut at the n-th
//! passage is a kill at that instant, after which nothing of that process happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future;
use graph::{RunId, ThreadId, UserId};
use serde_json::Value;
use store::{
    CardFilter, CardRow, Commit, DeletionReport, Intent, JournalLine, Lease, MessageRow, NewPermission, NewRecord, NewToken, NoteFilter, NoteRow,
    PermissionRow, RecordFilter, RecordRow, Result, Retention, RunFilter, RunRow, Signal, SignalKind, SnapshotRow, Store, ThreadRow, TokenRow,
};
use tokio::sync::{Notify, watch};

use super::case::Pace;
use super::dice::Dice;
use super::ledger::Ledger;

/// The gate of one process.
pub struct Gate {
    pace: Pace,
    turn: u64,
    asked: AtomicU64,
    passed: AtomicU64,
    cut: Option<u64>,
    has_exited: AtomicBool,
    exited: Notify,
    /// Cut off from its store: what it asks waits.
    is_cut_off: watch::Sender<bool>,
    is_loud: bool,
}

impl Gate {
    pub fn new(cut: Option<u64>, pace: Pace, turn: u64, is_loud: bool) -> Self {
        let is_cut_off = watch::Sender::new(false);
        Gate {
            pace,
            turn,
            asked: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            cut,
            has_exited: AtomicBool::new(false),
            exited: Notify::new(),
            is_cut_off,
            is_loud,
        }
    }

    /// One point. The process may be killed here, and then this never returns.
    pub async fn pass(&self, what: impl FnOnce() -> String) {
        self.alive().await;
        let point = self.passed.fetch_add(1, Ordering::Relaxed);
        let is_cut = self.cut == Some(point);
        if self.is_loud {
            eprintln!("  {point:>4} {}{}", what(), if is_cut { "  ✂" } else { "" });
        }
        if is_cut {
            self.has_exited.store(true, Ordering::Relaxed);
            self.exited.notify_one();
            future::pending::<()>().await;
        }
    }

    /// Kills the process at this instant.
    pub fn kill(&self) {
        self.has_exited.store(true, Ordering::Relaxed);
        self.exited.notify_one();
    }

    /// Cuts the process off from its store, or connects it again.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.send_replace(is_cut_off);
    }

    /// Waits while the process is cut off from its store.
    async fn connected(&self) {
        if *self.is_cut_off.borrow() {
            // The sender is in `self`, so the channel cannot be closed.
            let _ = self.is_cut_off.subscribe().wait_for(|is_cut_off| !is_cut_off).await;
        }
    }

    /// A killed process neither reads nor writes.
    pub async fn alive(&self) {
        if self.has_exited.load(Ordering::Relaxed) {
            future::pending::<()>().await;
        }
    }

    /// Yields to other tasks, like a store that waits for a disk. The resulting order follows from the seed.
    async fn wait_for_the_disk(&self) {
        if self.pace == Pace::AtOnce {
            return;
        }
        let mut dice = Dice::new(&[self.turn, self.asked.fetch_add(1, Ordering::Relaxed)]);
        match dice.below(10) {
            0 if self.pace == Pace::Slow => tokio::time::sleep(Duration::from_millis(1 + dice.below(3))).await,
            0..4 => {
                for _ in 0..=dice.below(4) {
                    tokio::task::yield_now().await;
                }
            }
            _ => {}
        }
    }

    pub async fn death(&self) {
        self.exited.notified().await;
    }

    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// A store as one process sees it.
pub struct GatedStore {
    pub inner: Arc<dyn Store>,
    pub gate: Arc<Gate>,
    pub ledger: Arc<Ledger>,
    /// A store with its own threads replies at arbitrary times. For reproducibility, the simulation's single thread blocks until it has.
    pub stands_still: bool,
}

impl GatedStore {
    async fn write<T>(&self, what: &str, name: &str, write: impl Future<Output = Result<T>>) -> Result<T> {
        self.gate.pass(|| format!("before {what} {name}")).await;
        let written = self.ask(write).await;
        self.gate.pass(|| format!("after  {what} {name}")).await;
        written
    }

    /// A write to a journal.
    async fn journal_by<T, F: Future<Output = Result<T>>>(&self, what: &str, commit: Commit, write: impl FnOnce(Commit) -> F) -> Result<T> {
        let name = if self.gate.is_loud { describe(&commit) } else { String::new() };
        self.gate.pass(|| format!("before {what} {name}")).await;
        let noted = self.ledger.read(&commit);
        let written = self
            .ask(async {
                let written = write(commit).await;
                if written.is_ok() {
                    self.ledger.journalled(noted);
                }
                written
            })
            .await;
        self.gate.pass(|| format!("after  {what} {name}")).await;
        written
    }

    async fn read<T>(&self, read: impl Future<Output = T>) -> T {
        self.gate.alive().await;
        self.ask(read).await
    }

    async fn ask<T>(&self, what: impl Future<Output = T>) -> T {
        self.gate.connected().await;
        self.gate.wait_for_the_disk().await;
        let answer = if self.stands_still { futures::executor::block_on(tokio::task::unconstrained(what)) } else { what.await };
        self.gate.wait_for_the_disk().await;
        self.gate.alive().await;
        answer
    }
}

#[async_trait]
impl Store for GatedStore {
    async fn commit(&self, commit: Commit) -> Result<()> {
        self.journal_by("commit", commit, |commit| self.inner.commit(commit)).await
    }

    async fn begin(&self, commit: Commit, until_ms: i64) -> Result<Lease> {
        self.journal_by("begin", commit, |commit| self.inner.begin(commit, until_ms)).await
    }

    async fn claim(&self, thread: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> Result<Lease> {
        self.write("claim", thread.as_str(), self.inner.claim(thread, owner, now_ms, until_ms)).await
    }

    async fn renew(&self, owner: &str, until_ms: i64) -> Result<()> {
        self.write("renew", owner, self.inner.renew(owner, until_ms)).await
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        self.write("release", lease.thread.as_str(), self.inner.release(lease)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        self.read(self.inner.run(run)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        self.read(self.inner.runs(filter)).await
    }

    async fn journal(&self, run: &RunId, from_seq: u64, limit: usize) -> Result<Vec<JournalLine>> {
        self.read(self.inner.journal(run, from_seq, limit)).await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<SnapshotRow>> {
        self.read(self.inner.snapshot(run)).await
    }

    async fn intents(&self, run: &RunId) -> Result<Vec<Intent>> {
        self.read(self.inner.intents(run)).await
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>> {
        self.read(self.inner.thread(thread)).await
    }

    async fn threads(&self, before: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        self.read(self.inner.threads(before, limit)).await
    }

    async fn newest_thread(&self, user: &UserId, name_prefix: &str) -> Result<Option<ThreadRow>> {
        self.read(self.inner.newest_thread(user, name_prefix)).await
    }

    async fn stored_bytes(&self, user: &UserId) -> Result<u64> {
        self.read(self.inner.stored_bytes(user)).await
    }

    async fn cards(&self, filter: CardFilter) -> Result<Vec<CardRow>> {
        self.read(self.inner.cards(filter)).await
    }

    async fn messages(&self, thread: &ThreadId, from_seq: u64, limit: usize) -> Result<Vec<MessageRow>> {
        self.read(self.inner.messages(thread, from_seq, limit)).await
    }

    async fn post(&self, run: &RunId, signal: SignalKind) -> Result<()> {
        self.write("post", run.as_str(), self.inner.post(run, signal)).await
    }

    async fn is_held(&self, thread: &ThreadId, now_ms: i64) -> Result<bool> {
        self.read(self.inner.is_held(thread, now_ms)).await
    }

    async fn undelivered_signals(&self, now_ms: i64) -> Result<Vec<Signal>> {
        self.read(self.inner.undelivered_signals(now_ms)).await
    }

    async fn signals(&self, owner: &str) -> Result<Vec<Signal>> {
        self.read(self.inner.signals(owner)).await
    }

    async fn accept(&self, signal: u64) -> Result<()> {
        self.write("accept", "", self.inner.accept(signal)).await
    }

    async fn notes(&self, filter: NoteFilter) -> Result<Vec<NoteRow>> {
        self.read(self.inner.notes(filter)).await
    }

    async fn forget(&self, user: &UserId, note: Option<u64>) -> Result<u64> {
        self.write("forget", user.as_str(), self.inner.forget(user, note)).await
    }

    async fn preferences(&self, user: &UserId) -> Result<BTreeMap<String, Value>> {
        self.read(self.inner.preferences(user)).await
    }

    async fn prefer(&self, user: &UserId, name: &str, value: Option<Value>) -> Result<()> {
        self.write("prefer", user.as_str(), self.inner.prefer(user, name, value)).await
    }

    async fn keep_token(&self, token: NewToken) -> Result<u64> {
        self.write("keep token", "", self.inner.keep_token(token)).await
    }

    async fn token(&self, digest: &[u8; 32], now_ms: i64) -> Result<Option<TokenRow>> {
        self.read(self.inner.token(digest, now_ms)).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        self.read(self.inner.tokens()).await
    }

    async fn expire_token(&self, token: u64, until_ms: i64) -> Result<bool> {
        self.write("expire token", "", self.inner.expire_token(token, until_ms)).await
    }

    async fn drop_token(&self, token: u64) -> Result<bool> {
        self.write("drop token", "", self.inner.drop_token(token)).await
    }

    async fn permissions(&self, user: &UserId) -> Result<Vec<PermissionRow>> {
        self.read(self.inner.permissions(user)).await
    }

    async fn keep_permission(&self, permission: NewPermission) -> Result<u64> {
        self.write("keep permission", "", self.inner.keep_permission(permission)).await
    }

    async fn revoke_permission(&self, user: &UserId, permission: u64) -> Result<bool> {
        self.write("revoke permission", user.as_str(), self.inner.revoke_permission(user, permission)).await
    }

    async fn put_record(&self, record: NewRecord) -> Result<()> {
        let key = record.key.clone();
        self.write("put_record", &key, self.inner.put_record(record)).await
    }

    async fn record(&self, user: &UserId, kind: &str, key: &str) -> Result<Option<RecordRow>> {
        self.read(self.inner.record(user, kind, key)).await
    }

    async fn users(&self) -> Result<Vec<UserId>> {
        self.read(self.inner.users()).await
    }

    async fn records(&self, filter: RecordFilter) -> Result<Vec<RecordRow>> {
        self.read(self.inner.records(filter)).await
    }

    async fn drop_record(&self, user: &UserId, kind: &str, key: &str) -> Result<bool> {
        self.write("drop_record", key, self.inner.drop_record(user, kind, key)).await
    }

    async fn retain(&self, retention: Retention, now_ms: i64) -> Result<DeletionReport> {
        self.write("retain", "", self.inner.retain(retention, now_ms)).await
    }

    async fn delete_thread(&self, thread: &ThreadId, now_ms: i64) -> Result<DeletionReport> {
        self.write("delete", thread.as_str(), self.inner.delete_thread(thread, now_ms)).await
    }
}

fn describe(commit: &Commit) -> String {
    let lines: Vec<_> = commit.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let intents: Vec<_> = commit.intents.iter().map(|intent| format!("{}#{}", intent.task, intent.attempt)).collect();
    let settled: Vec<_> = commit.settled.iter().map(ToString::to_string).collect();
    format!(
        "{} at {} status {:?} intents {intents:?} settled {settled:?} messages {}{}{}\n         {}",
        commit.run,
        commit.first_seq,
        commit.status,
        commit.messages.len(),
        if commit.snapshot.is_some() { " snapshot" } else { "" },
        if commit.release { " release" } else { "" },
        lines.join("\n         ")
    )
}

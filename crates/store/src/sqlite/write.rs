//! What is written, statement by statement, inside the writer's transaction.
//!
//! Every write checks first and writes then, so that one that is refused leaves nothing. What the checks need (where a run
//! stands, who holds a thread) is remembered from one transaction to the next, and forgotten as soon as SQLite reports that
//! another process has written: then the database is asked again. So the checks always have the state of the transaction
//! they run in, and a run that is being driven costs one insert per line.

use std::collections::HashMap;

use graph::{RunId, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Fault;
use crate::{Commit, Lease, NewRun, Status, StoreError};

/// Runs and leases to remember, each.
const KNOWN_MAX: usize = 8_192;
/// Bytes of journal lines that are added to a thread's sum at the latest; before, they wait for the next change of the thread's row.
const UNCOUNTED_BYTES_MAX: u64 = 64 << 10;

pub(super) type SqlResult<T> = Result<T, Fault>;

pub(super) struct Tables {
    pub(super) connection: Connection,
    known: CachedRows,
    /// Bytes written to a thread that its row does not count yet.
    uncounted: HashMap<i64, u64>,
    /// What this transaction adds to the sums of users.
    stored: HashMap<String, u64>,
}

/// True as of `data_version`.
#[derive(Default)]
struct CachedRows {
    data_version: i64,
    runs: HashMap<RunId, KnownRun>,
    leases: HashMap<ThreadId, KnownLease>,
    /// The last claimant: one process has one owner name.
    owner: Option<KnownOwner>,
}

#[derive(Clone, Copy)]
struct KnownRun {
    id: i64,
    thread: i64,
    next_seq: u64,
}

struct KnownOwner {
    name: String,
    id: i64,
    until_ms: i64,
}

struct KnownLease {
    thread: i64,
    owner: String,
    fence: u64,
}

impl Tables {
    pub(super) fn new(connection: Connection) -> rusqlite::Result<Self> {
        Ok(Tables { connection, known: CachedRows::default(), uncounted: HashMap::new(), stored: HashMap::new() })
    }

    pub(super) fn begin(&mut self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let data_version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if data_version != self.known.data_version {
            self.forget();
            self.known.data_version = data_version;
        }
        Ok(())
    }

    pub(super) fn commit_group(&mut self) -> rusqlite::Result<()> {
        for (user, bytes) in self.stored.drain() {
            let sql = "INSERT INTO stored (user, bytes) VALUES (?1, ?2) ON CONFLICT (user) DO UPDATE SET bytes = bytes + ?2";
            self.connection.prepare_cached(sql)?.execute(params![user, bytes as i64])?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    pub(super) fn roll_back(&mut self) {
        self.forget();
        self.stored.clear();
        // Some errors have rolled back already; then there is nothing left to do.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the database could not roll back");
        }
    }

    pub(super) fn forget(&mut self) {
        self.known.runs.clear();
        self.known.leases.clear();
        self.known.owner = None;
    }

    pub(super) fn commit(&mut self, commit: &Commit) -> SqlResult<()> {
        let found = self.find_run(&commit.run)?;
        if commit.new.is_none() && found.is_none() {
            return Err(StoreError::NoRun { run: commit.run.clone() }.into());
        }
        let Some(thread) = self.held_thread(&commit.lease)? else {
            return Err(fenced(&commit.lease));
        };
        let wanted = found.map_or(0, |run| run.next_seq);
        match found {
            Some(_) if commit.new.is_some() => return Err(StoreError::Exists { run: commit.run.clone() }.into()),
            Some(run) if run.thread != thread => return Err(fenced(&commit.lease)),
            Some(_) | None => {}
        }
        if commit.first_seq != wanted {
            return Err(StoreError::OutOfOrder { run: commit.run.clone(), found: commit.first_seq, wanted }.into());
        }
        if let Some(new) = &commit.new
            && self.user_of(thread)?.is_some_and(|user| user != new.user.as_str())
        {
            return Err(StoreError::NotYours { thread: commit.lease.thread.clone() }.into());
        }

        let run = match (found, &commit.new) {
            (Some(run), _) => run.id,
            (None, Some(new)) => self.insert_run(commit, thread, new)?,
            (None, None) => return Err(StoreError::NoRun { run: commit.run.clone() }.into()),
        };
        self.put(run, thread, commit)?;
        self.change_thread(run, thread, commit)?;
        if commit.release {
            self.end_lease(thread, &commit.lease.thread)?;
        }
        Ok(())
    }

    /// All that could be refused is looked at before anything is written. A run that is over at once, as trivial ones are, never shows as a lease.
    pub(super) fn begin_run(&mut self, commit: &Commit, until_ms: i64) -> SqlResult<Lease> {
        let Lease { thread: name, owner, .. } = &commit.lease;
        let found = self.claimable(name)?;
        refuse_if_held(name, owner, found.as_ref(), commit.at_ms)?;
        let user = match &found {
            Some(found) => self.user_of(found.id)?,
            None => None,
        };
        commit.must_begin(self.find_run(&commit.run)?.is_some(), user.as_deref())?;
        let Some(new) = &commit.new else { return Err(StoreError::NoRun { run: commit.run.clone() }.into()) };

        let was_held = found.as_ref().is_some_and(|found| found.holder.is_some());
        let is_new_thread = found.is_none();
        let (thread, fence) = self.take(name, owner, found, (commit.at_ms, until_ms), !commit.release, Some(commit))?;
        let run = self.insert_run(commit, thread, new)?;
        self.put(run, thread, commit)?;
        match is_new_thread {
            true => {
                *self.stored.entry(new.user.to_string()).or_default() += kept_bytes(commit);
                self.insert_messages(run, thread, 0, commit)?;
            }
            false => self.change_thread(run, thread, commit)?,
        }
        if commit.release && was_held {
            self.end_lease(thread, name)?;
        }
        Ok(Lease { thread: name.clone(), owner: owner.clone(), fence })
    }

    /// What a commit holds beside the run itself and what its thread shows of it.
    fn put(&mut self, run: i64, thread: i64, commit: &Commit) -> SqlResult<()> {
        self.insert_lines(run, commit)?;
        self.change_intents(run, commit)?;
        self.change_run(run, commit)?;
        self.keep_notes(run, thread, commit)?;
        for permission in &commit.permissions {
            self.keep_permission(permission)?;
        }
        let next_seq = commit.first_seq + commit.lines.len() as u64;
        match self.known.runs.get_mut(&commit.run) {
            Some(known) => known.next_seq = next_seq,
            // Nothing follows what is over.
            None if commit.outcome.is_some() => {}
            None => self.remember_run(&commit.run, KnownRun { id: run, thread, next_seq }),
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, thread: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> SqlResult<Lease> {
        let found = self.claimable(thread)?;
        refuse_if_held(thread, owner, found.as_ref(), now_ms)?;
        let (_, fence) = self.take(thread, owner, found, (now_ms, until_ms), true, None)?;
        Ok(Lease { thread: thread.clone(), owner: owner.to_owned(), fence })
    }

    /// Takes a thread that nobody else holds, for a moment or, if it `stays`, until it is given back. One that is not there is made, for the
    /// commit that begins it if there is one. Returns its number and fence.
    fn take(
        &mut self,
        thread: &ThreadId,
        owner: &str,
        found: Option<Claimable>,
        (now_ms, until_ms): (i64, i64),
        stays: bool,
        first: Option<&Commit>,
    ) -> SqlResult<(i64, u64)> {
        let owner_id = self.keep_owner(owner, now_ms, until_ms)?;
        let (id, fence, is_ours) = match found {
            Some(Claimable { id, fence, holder: Some((holder, _)) }) if holder == owner => (id, fence, true),
            Some(Claimable { id, fence, .. }) => {
                self.connection.prepare_cached("UPDATE threads SET fence = ?2 WHERE id = ?1")?.execute([id, fence + 1])?;
                (id, fence + 1, false)
            }
            None => {
                let sql = "INSERT INTO threads (name, title, messages, created_ms, updated_ms, user, bytes, fence)
                           SELECT ?1, ?2, ?3, ?4, ?4, ?5, ?6, floor + 1 FROM fences RETURNING id, fence";
                let new = first.and_then(|commit| commit.new.as_ref());
                let (title, user) = (new.map_or("", |new| new.title.as_str()), new.map(|new| new.user.as_str()));
                let messages = first.map_or(0, |commit| commit.messages.len() as i64);
                let bytes = first.map_or(0, kept_bytes) as i64;
                let mut insert = self.connection.prepare_cached(sql)?;
                let values = params![thread.as_str(), title, messages, now_ms, user, bytes];
                let (id, fence) = insert.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
                (id, fence, false)
            }
        };
        let fence = fence as u64;
        if stays {
            if !is_ours {
                self.start_lease(id, owner_id)?;
            }
            self.remember_lease(thread, KnownLease { thread: id, owner: owner.to_owned(), fence });
        }
        Ok((id, fence))
    }

    pub(super) fn renew(&mut self, owner: &str, until_ms: i64) -> SqlResult<()> {
        self.known.owner = None;
        self.connection.prepare_cached("UPDATE owners SET until_ms = ?2 WHERE name = ?1")?.execute(params![owner, until_ms])?;
        Ok(())
    }

    pub(super) fn release(&mut self, lease: &Lease) -> SqlResult<()> {
        if let Some(thread) = self.held_thread(lease)? {
            self.end_lease(thread, &lease.thread)?;
        }
        Ok(())
    }

    pub(super) fn post(&mut self, run: &RunId, kind: &str) -> SqlResult<()> {
        let found = self.find_run(run)?.ok_or_else(|| StoreError::NoRun { run: run.clone() })?;
        self.connection.prepare_cached("INSERT INTO signals (run, kind) VALUES (?1, ?2)")?.execute(params![found.id, kind])?;
        Ok(())
    }

    pub(super) fn accept(&mut self, signal: u64) -> SqlResult<()> {
        self.connection.prepare_cached("DELETE FROM signals WHERE id = ?1")?.execute([signal as i64])?;
        Ok(())
    }

    fn insert_run(&self, commit: &Commit, thread: i64, new: &NewRun) -> SqlResult<i64> {
        let sql = "INSERT INTO runs (name, thread, flow, parent, title, status, created_ms, updated_ms, outcome) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)";
        let outcome = commit.outcome.as_ref().map(ToString::to_string);
        let parent = new.parent.as_ref().map(RunId::as_str);
        let status = commit.status.unwrap_or(Status::Running).as_str();
        let mut insert = self.connection.prepare_cached(sql)?;
        Ok(insert.insert(params![commit.run.as_str(), thread, new.flow, parent, new.title, status, commit.at_ms, outcome])?)
    }

    fn insert_lines(&self, run: i64, commit: &Commit) -> SqlResult<()> {
        if commit.lines.is_empty() {
            return Ok(());
        }
        let mut insert = self.connection.prepare_cached("INSERT INTO journal (run, seq, at_ms, bytes) VALUES (?1, ?2, ?3, ?4)")?;
        for (seq, line) in (commit.first_seq..).zip(&commit.lines) {
            insert.execute(params![run, seq as i64, commit.at_ms, line])?;
        }
        Ok(())
    }

    /// Gone before come: an attempt that is given up and the next one may share a moment.
    fn change_intents(&self, run: i64, commit: &Commit) -> SqlResult<()> {
        for task in &commit.settled {
            let mut delete = self.connection.prepare_cached("DELETE FROM intents WHERE run = ?1 AND step = ?2 AND place = ?3")?;
            delete.execute(params![run, task.step as i64, task.index])?;
        }
        for intent in &commit.intents {
            let sql = "INSERT OR REPLACE INTO intents (run, step, place, attempt, key) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut insert = self.connection.prepare_cached(sql)?;
            insert.execute(params![run, intent.task.step as i64, intent.task.index, intent.attempt, intent.key.to_string()])?;
        }
        Ok(())
    }

    fn change_run(&self, run: i64, commit: &Commit) -> SqlResult<()> {
        // A new one was inserted with both.
        let is_new = commit.new.is_some();
        if (commit.status.is_some() || commit.outcome.is_some()) && !is_new {
            let sql = "UPDATE runs SET status = coalesce(?2, status), outcome = coalesce(?3, outcome), updated_ms = ?4 WHERE id = ?1";
            let outcome = commit.outcome.as_ref().map(ToString::to_string);
            self.connection.prepare_cached(sql)?.execute(params![run, commit.status.map(Status::as_str), outcome, commit.at_ms])?;
        }
        match &commit.snapshot {
            // It never had one.
            _ if commit.outcome.is_some() && is_new => {}
            _ if commit.outcome.is_some() => {
                self.connection.prepare_cached("DELETE FROM snapshots WHERE run = ?1")?.execute([run])?;
            }
            Some(snapshot) => {
                let sql = "INSERT OR REPLACE INTO snapshots (run, entries, bytes) VALUES (?1, ?2, ?3)";
                self.connection.prepare_cached(sql)?.execute(params![run, snapshot.entries as i64, snapshot.bytes])?;
            }
            None => {}
        }
        Ok(())
    }

    /// A line more in a journal is no use of the thread that anyone would notice; all else is.
    fn change_thread(&mut self, run: i64, thread: i64, commit: &Commit) -> SqlResult<()> {
        let bytes = kept_bytes(commit) + self.uncounted.remove(&thread).unwrap_or_default();
        if commit.new.is_none() && commit.status.is_none() && commit.outcome.is_none() && commit.messages.is_empty() {
            return self.count_lines(thread, bytes);
        }
        let sql = "UPDATE threads SET updated_ms = max(updated_ms, ?2), title = iif(title = '', ?3, title), messages = messages + ?4,
                       user = coalesce(user, ?5), bytes = bytes + ?6 WHERE id = ?1 RETURNING messages, user";
        let user = commit.new.as_ref().map(|new| new.user.as_str());
        let title = commit.new.as_ref().map_or("", |new| new.title.as_str());
        let count = commit.messages.len() as i64;
        let values = params![thread, commit.at_ms, title, count, user, bytes as i64];
        let (messages, user): (i64, Option<String>) = self.connection.prepare_cached(sql)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.add_stored(user, bytes);
        self.insert_messages(run, thread, messages - count, commit)
    }

    /// Remembers bytes of a thread, and writes them to its row when there are many.
    fn count_lines(&mut self, thread: i64, bytes: u64) -> SqlResult<()> {
        if bytes < UNCOUNTED_BYTES_MAX {
            // Forgetting all when there are too many counts a little less than there is.
            if self.uncounted.len() >= KNOWN_MAX {
                self.uncounted.clear();
            }
            self.uncounted.insert(thread, bytes);
            return Ok(());
        }
        let sql = "UPDATE threads SET bytes = bytes + ?2 WHERE id = ?1 RETURNING user";
        let user = self.connection.prepare_cached(sql)?.query_row(params![thread, bytes as i64], |row| row.get(0))?;
        self.add_stored(user, bytes);
        Ok(())
    }

    fn add_stored(&mut self, user: Option<String>, bytes: u64) {
        if let Some(user) = user {
            *self.stored.entry(user).or_default() += bytes;
        }
    }

    fn insert_messages(&self, run: i64, thread: i64, first_seq: i64, commit: &Commit) -> SqlResult<()> {
        for (seq, message) in (first_seq..).zip(&commit.messages) {
            let sql = "INSERT INTO messages (thread, seq, run, role, content, created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            self.connection.prepare_cached(sql)?.execute(params![thread, seq, run, message.role, message.content, commit.at_ms])?;
        }
        Ok(())
    }

    fn user_of(&self, thread: i64) -> SqlResult<Option<String>> {
        Ok(self.connection.prepare_cached("SELECT user FROM threads WHERE id = ?1")?.query_row([thread], |row| row.get(0))?)
    }

    fn find_run(&mut self, run: &RunId) -> SqlResult<Option<KnownRun>> {
        if let Some(known) = self.known.runs.get(run) {
            return Ok(Some(*known));
        }
        let sql = "SELECT id, thread, (SELECT coalesce(max(seq) + 1, 0) FROM journal WHERE run = runs.id) FROM runs WHERE name = ?1";
        let read = |row: &Row<'_>| Ok(KnownRun { id: row.get(0)?, thread: row.get(1)?, next_seq: row.get::<_, i64>(2)? as u64 });
        let found = self.connection.prepare_cached(sql)?.query_row([run.as_str()], read).optional()?;
        if let Some(found) = found {
            self.remember_run(run, found);
        }
        Ok(found)
    }

    /// The thread of a lease that still holds.
    fn held_thread(&mut self, lease: &Lease) -> SqlResult<Option<i64>> {
        if let Some(known) = self.known.leases.get(&lease.thread) {
            return Ok((known.fence == lease.fence && known.owner == lease.owner).then_some(known.thread));
        }
        let Some(Claimable { id, fence, holder: Some((owner, _)) }) = self.claimable(&lease.thread)? else {
            return Ok(None);
        };
        let fence = fence as u64;
        let held = (fence == lease.fence && owner == lease.owner).then_some(id);
        self.remember_lease(&lease.thread, KnownLease { thread: id, owner, fence });
        Ok(held)
    }

    pub(super) fn claimable(&self, thread: &ThreadId) -> SqlResult<Option<Claimable>> {
        let sql = "SELECT threads.id, fence, owners.name, until_ms FROM threads LEFT JOIN leases ON leases.thread = threads.id
                   LEFT JOIN owners ON owners.id = leases.owner WHERE threads.name = ?1";
        let read = |row: &Row<'_>| {
            let holder = row.get::<_, Option<String>>(2)?.zip(row.get(3)?);
            Ok(Claimable { id: row.get(0)?, fence: row.get(1)?, holder })
        };
        Ok(self.connection.prepare_cached(sql)?.query_row([thread.as_str()], read).optional()?)
    }

    /// Claiming one thread for a shorter time must not shorten the others.
    fn keep_owner(&mut self, owner: &str, now_ms: i64, until_ms: i64) -> SqlResult<i64> {
        if let Some(known) = self.known.owner.as_mut().filter(|known| known.name == owner) {
            if known.until_ms < until_ms {
                self.connection.prepare_cached("UPDATE owners SET until_ms = ?2 WHERE id = ?1")?.execute([known.id, until_ms])?;
                known.until_ms = until_ms;
            }
            return Ok(known.id);
        }
        let mut select = self.connection.prepare_cached("SELECT id, until_ms FROM owners WHERE name = ?1")?;
        let found: Option<(i64, i64)> = select.query_row([owner], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        drop(select);
        let id = match found {
            Some((id, kept_until_ms)) => {
                if kept_until_ms < until_ms {
                    self.connection.prepare_cached("UPDATE owners SET until_ms = ?2 WHERE id = ?1")?.execute([id, until_ms])?;
                }
                id
            }
            None => {
                // Once per process: those who are gone and hold nothing go for good.
                self.connection.execute("DELETE FROM owners WHERE until_ms < ?1 AND id NOT IN (SELECT owner FROM leases)", [now_ms])?;
                self.connection.prepare_cached("INSERT INTO owners (name, until_ms) VALUES (?1, ?2)")?.insert(params![owner, until_ms])?
            }
        };
        let until_ms = found.map_or(until_ms, |(_, kept_until_ms)| kept_until_ms.max(until_ms));
        self.known.owner = Some(KnownOwner { name: owner.to_owned(), id, until_ms });
        Ok(id)
    }

    fn start_lease(&self, thread: i64, owner: i64) -> SqlResult<()> {
        self.connection.prepare_cached("INSERT OR REPLACE INTO leases (thread, owner) VALUES (?1, ?2)")?.execute([thread, owner])?;
        Ok(())
    }

    fn end_lease(&mut self, thread: i64, name: &ThreadId) -> SqlResult<()> {
        self.known.leases.remove(name);
        self.connection.prepare_cached("DELETE FROM leases WHERE thread = ?1")?.execute([thread])?;
        Ok(())
    }

    // Forgetting all when there are too many is crude, but runs that are driven are remembered again with one lookup each.
    fn remember_run(&mut self, name: &RunId, run: KnownRun) {
        if self.known.runs.len() >= KNOWN_MAX {
            self.known.runs.clear();
        }
        self.known.runs.insert(name.clone(), run);
    }

    fn remember_lease(&mut self, name: &ThreadId, lease: KnownLease) {
        if self.known.leases.len() >= KNOWN_MAX {
            self.known.leases.clear();
        }
        self.known.leases.insert(name.clone(), lease);
    }
}

/// Bytes of a commit that stay: journal lines and messages.
fn kept_bytes(commit: &Commit) -> u64 {
    let lines: usize = commit.lines.iter().map(Vec::len).sum();
    let messages: usize = commit.messages.iter().map(|message| message.content.len()).sum();
    (lines + messages) as u64
}

/// A thread as a claimant sees it.
pub(super) struct Claimable {
    pub(super) id: i64,
    pub(super) fence: i64,
    /// The holder, and until when it is one.
    pub(super) holder: Option<(String, i64)>,
}

fn refuse_if_held(thread: &ThreadId, owner: &str, found: Option<&Claimable>, now_ms: i64) -> SqlResult<()> {
    match found.and_then(|found| found.holder.as_ref()) {
        Some((holder, until_ms)) if holder != owner && *until_ms >= now_ms => {
            Err(StoreError::Held { thread: thread.clone(), owner: holder.clone(), until_ms: *until_ms }.into())
        }
        Some(_) | None => Ok(()),
    }
}

fn fenced(lease: &Lease) -> Fault {
    StoreError::Fenced { thread: lease.thread.clone() }.into()
}

//! The store for tests, previews and runs that need not outlive their process: ordered maps behind one mutex.
//!
//! Nothing waits while the mutex is held, so calls are short and never block an executor. Each write checks
//! everything first and then changes everything, which makes it atomic for other callers.

mod cards;
mod leases;
mod permissions;
mod records;
mod retention;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use graph::{NoteScope, RunId, TaskId, ThreadId, UserId};
use serde_json::Value;

use crate::{
    CardFilter, CardRow, Commit, DeletionReport, Intent, JOURNAL_PAGE_BYTES_MAX, JournalLine, Lease, MessageRow, NOTES_BYTES_MAX, NOTES_MAX, NewNote,
    NewPermission, NewRecord, NewToken, NoteFilter, NoteRow, PermissionRow, RecordFilter, RecordRow, Result, Retention, RunFilter, RunRow, Signal,
    SignalKind, SnapshotRow, Status, Store, StoreError, ThreadRow, TokenRow,
};

/// A store in memory, for tests and runs that need not survive the process.
#[derive(Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A panic of another thread cannot have left a write half done, because writes do not panic between their changes.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, commit: Commit) -> Result<()> {
        self.tables().commit(commit)
    }

    async fn begin(&self, commit: Commit, until_ms: i64) -> Result<Lease> {
        self.tables().begin(commit, until_ms)
    }

    async fn claim(&self, thread: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> Result<Lease> {
        self.tables().claim(thread, owner, now_ms, until_ms)
    }

    async fn renew(&self, owner: &str, until_ms: i64) -> Result<()> {
        if let Some(until) = self.tables().owners.get_mut(owner) {
            *until = until_ms;
        }
        Ok(())
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        self.tables().release(lease);
        Ok(())
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        Ok(self.tables().runs.get(run).map(Run::row))
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        self.tables().list_runs(&filter)
    }

    async fn journal(&self, run: &RunId, from_seq: u64, limit: usize) -> Result<Vec<JournalLine>> {
        let tables = self.tables();
        let lines = tables.known_run(run)?.lines.iter().enumerate();
        let mut bytes_before = 0;
        let is_on_page = |(_, (_, bytes)): &(usize, &(i64, Vec<u8>))| {
            let is_on_page = bytes_before < JOURNAL_PAGE_BYTES_MAX;
            bytes_before += bytes.len();
            is_on_page
        };
        let page = lines.skip(index(from_seq)).take(limit).take_while(is_on_page);
        Ok(page.map(|(seq, (at_ms, bytes))| JournalLine { seq: seq as u64, at_ms: *at_ms, bytes: bytes.clone() }).collect())
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<SnapshotRow>> {
        Ok(self.tables().known_run(run)?.snapshot.clone())
    }

    async fn intents(&self, run: &RunId) -> Result<Vec<Intent>> {
        Ok(self.tables().known_run(run)?.intents.values().cloned().collect())
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>> {
        Ok(self.tables().threads.get(thread).map(|found| found.row(thread)))
    }

    async fn threads(&self, before: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadRow>> {
        let tables = self.tables();
        let before = before.map(|thread| tables.known_thread(thread).map(Thread::place)).transpose()?;
        let listed = tables.by_use().into_iter().filter(|(place, _)| before.is_none_or(|before| *place < before));
        listed.take(limit).map(|(_, name)| tables.known_thread(&name).map(|thread| thread.row(&name))).collect()
    }

    async fn newest_thread(&self, user: &UserId, name_prefix: &str) -> Result<Option<ThreadRow>> {
        let tables = self.tables();
        let fits = |(id, thread): &(&ThreadId, &Thread)| id.as_str().starts_with(name_prefix) && thread.user.as_ref() == Some(user);
        Ok(tables.threads.iter().filter(fits).max_by_key(|(_, thread)| thread.number).map(|(id, thread)| thread.row(id)))
    }

    async fn stored_bytes(&self, user: &UserId) -> Result<u64> {
        let tables = self.tables();
        let threads = tables.threads.values().filter(|thread| thread.user.as_ref() == Some(user));
        let of_thread = |thread: &Thread| {
            let lines = thread.runs.iter().filter_map(|run| tables.runs.get(run)).flat_map(|run| &run.lines).map(|(_, bytes)| bytes.len());
            lines.sum::<usize>() + thread.messages.iter().map(|message| message.content.len()).sum::<usize>()
        };
        Ok((threads.map(of_thread).sum::<usize>() + tables.records_bytes(user)) as u64)
    }

    async fn cards(&self, filter: CardFilter) -> Result<Vec<CardRow>> {
        self.tables().cards(&filter)
    }

    async fn messages(&self, thread: &ThreadId, from_seq: u64, limit: usize) -> Result<Vec<MessageRow>> {
        Ok(self.tables().known_thread(thread)?.messages.iter().skip(index(from_seq)).take(limit).cloned().collect())
    }

    async fn post(&self, run: &RunId, kind: SignalKind) -> Result<()> {
        let mut tables = self.tables();
        tables.known_run(run)?;
        tables.signals_made += 1;
        let id = tables.signals_made;
        tables.signals.insert(id, Signal { id, run: run.clone(), kind });
        Ok(())
    }

    async fn signals(&self, owner: &str) -> Result<Vec<Signal>> {
        let tables = self.tables();
        Ok(tables.signals.values().filter(|signal| tables.is_driven_by(&signal.run, owner)).cloned().collect())
    }

    async fn undelivered_signals(&self, now_ms: i64) -> Result<Vec<Signal>> {
        let tables = self.tables();
        let is_held = |signal: &&Signal| {
            let thread = tables.runs.get(&signal.run).and_then(|run| tables.threads.get(&run.row.thread));
            thread.is_some_and(|thread| tables.holder(thread, now_ms).is_some())
        };
        Ok(tables.signals.values().filter(|signal| !is_held(signal)).cloned().collect())
    }

    async fn is_held(&self, thread: &ThreadId, now_ms: i64) -> Result<bool> {
        let tables = self.tables();
        Ok(tables.threads.get(thread).is_some_and(|thread| tables.holder(thread, now_ms).is_some()))
    }

    async fn accept(&self, signal: u64) -> Result<()> {
        self.tables().signals.remove(&signal);
        Ok(())
    }

    async fn notes(&self, filter: NoteFilter) -> Result<Vec<NoteRow>> {
        let tables = self.tables();
        let is_meant = |note: &&Note| {
            note.user == filter.user
                && note.row.until_ms > filter.now_ms
                && filter.flow.as_ref().is_none_or(|flow| *flow == note.row.flow)
                && filter.thread.as_ref().is_none_or(|thread| note.row.reach == NoteScope::User || *thread == note.row.thread)
        };
        Ok(tables.notes.values().rev().filter(is_meant).take(filter.limit).map(|note| note.row.clone()).collect())
    }

    async fn forget(&self, user: &UserId, note: Option<u64>) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.notes.len();
        tables.notes.retain(|id, kept| kept.user != *user || note.is_some_and(|note| note != *id));
        Ok((before - tables.notes.len()) as u64)
    }

    async fn preferences(&self, user: &UserId) -> Result<BTreeMap<String, Value>> {
        Ok(self.tables().preferences.get(user).cloned().unwrap_or_default())
    }

    async fn prefer(&self, user: &UserId, name: &str, value: Option<Value>) -> Result<()> {
        let mut tables = self.tables();
        let liked = tables.preferences.entry(user.clone()).or_default();
        match value {
            Some(value) => liked.insert(name.to_owned(), value),
            None => liked.remove(name),
        };
        Ok(())
    }

    async fn keep_token(&self, token: NewToken) -> Result<u64> {
        Ok(self.tables().keep_token(token))
    }

    async fn token(&self, digest: &[u8; 32], now_ms: i64) -> Result<Option<TokenRow>> {
        let tables = self.tables();
        let found = tables.tokens.values().find(|(of, row)| of == digest && row.until_ms.is_none_or(|until_ms| until_ms > now_ms));
        Ok(found.map(|(_, row)| row.clone()))
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        Ok(self.tables().tokens.values().filter(|(_, row)| row.made_with.is_none()).map(|(_, row)| row.clone()).collect())
    }

    async fn expire_token(&self, token: u64, until_ms: i64) -> Result<bool> {
        let mut tables = self.tables();
        Ok(tables.tokens.get_mut(&token).map(|(_, row)| row.until_ms = Some(until_ms)).is_some())
    }

    async fn drop_token(&self, token: u64) -> Result<bool> {
        Ok(self.tables().drop_token(token))
    }

    async fn permissions(&self, user: &UserId) -> Result<Vec<PermissionRow>> {
        Ok(self.tables().permissions(user))
    }

    async fn keep_permission(&self, permission: NewPermission) -> Result<u64> {
        self.tables().keep_permission(permission)
    }

    async fn revoke_permission(&self, user: &UserId, permission: u64) -> Result<bool> {
        Ok(self.tables().revoke_permission(user, permission))
    }

    async fn put_record(&self, record: NewRecord) -> Result<()> {
        self.tables().put_record(record)
    }

    async fn record(&self, user: &UserId, kind: &str, key: &str) -> Result<Option<RecordRow>> {
        Ok(self.tables().record(user, kind, key))
    }

    async fn users(&self) -> Result<Vec<UserId>> {
        Ok(self.tables().users())
    }

    async fn records(&self, filter: RecordFilter) -> Result<Vec<RecordRow>> {
        Ok(self.tables().records(&filter))
    }

    async fn drop_record(&self, user: &UserId, kind: &str, key: &str) -> Result<bool> {
        Ok(self.tables().drop_record(user, kind, key))
    }

    async fn retain(&self, retention: Retention, now_ms: i64) -> Result<DeletionReport> {
        Ok(self.tables().retain(retention, now_ms))
    }

    async fn delete_thread(&self, thread: &ThreadId, now_ms: i64) -> Result<DeletionReport> {
        let mut tables = self.tables();
        let found = tables.known_thread(thread)?;
        if let Some((owner, until_ms)) = tables.holder(found, now_ms) {
            return Err(StoreError::Held { thread: thread.clone(), owner, until_ms });
        }
        let mut freed = DeletionReport::default();
        tables.delete(thread, &mut freed);
        Ok(freed)
    }
}

#[derive(Default)]
struct Tables {
    threads: BTreeMap<ThreadId, Thread>,
    runs: BTreeMap<RunId, Run>,
    /// Runs in the order they were made: ids are the caller's and may sort in any way.
    made: BTreeMap<u64, RunId>,
    runs_made: u64,
    threads_made: u64,
    /// Until when each owner keeps what it holds.
    owners: BTreeMap<String, i64>,
    signals: BTreeMap<u64, Signal>,
    signals_made: u64,
    notes: BTreeMap<u64, Note>,
    notes_made: u64,
    preferences: BTreeMap<UserId, BTreeMap<String, Value>>,
    records: records::Records,
    tokens: cards::Tokens,
    tokens_made: u64,
    permissions: permissions::Permissions,
    permissions_made: u64,
    /// No fence given out from now on is lower or equal: a thread that was deleted and made again must not repeat one.
    fence_floor: u64,
}

struct Note {
    user: UserId,
    bytes: usize,
    row: NoteRow,
}

struct Thread {
    number: u64,
    user: Option<UserId>,
    title: String,
    messages: Vec<MessageRow>,
    runs: Vec<RunId>,
    created_ms: i64,
    updated_ms: i64,
    fence: u64,
    holder: Option<String>,
}

struct Run {
    number: u64,
    row: RunRow,
    lines: Vec<(i64, Vec<u8>)>,
    snapshot: Option<SnapshotRow>,
    intents: BTreeMap<TaskId, Intent>,
}

impl Tables {
    fn commit(&mut self, commit: Commit) -> Result<()> {
        let Commit {
            run: id,
            lease,
            at_ms,
            new,
            first_seq,
            lines,
            intents,
            settled,
            messages,
            notes,
            permissions,
            status,
            outcome,
            snapshot,
            release,
        } = commit;
        let is_new = new.is_some();
        let wanted = match self.runs.get(&id) {
            Some(run) if !is_new && run.row.thread != lease.thread => return Err(StoreError::Fenced { thread: lease.thread }),
            Some(run) => run.lines.len() as u64,
            None if is_new => 0,
            None => return Err(StoreError::NoRun { run: id }),
        };
        for thread in permissions.iter().filter_map(|permission| permission.grant.thread()) {
            self.known_thread(thread)?;
        }
        let Some(thread) = self.threads.get_mut(&lease.thread).filter(|thread| thread.is_held_with(&lease)) else {
            return Err(StoreError::Fenced { thread: lease.thread });
        };
        if is_new && self.runs.contains_key(&id) {
            return Err(StoreError::Exists { run: id });
        }
        if first_seq != wanted {
            return Err(StoreError::OutOfOrder { run: id, found: first_seq, wanted });
        }
        if let (Some(new), Some(user)) = (&new, &thread.user)
            && new.user != *user
        {
            return Err(StoreError::NotYours { thread: lease.thread });
        }

        if is_new || status.is_some() || outcome.is_some() || !messages.is_empty() {
            thread.updated_ms = thread.updated_ms.max(at_ms);
        }
        if let Some(new) = new {
            if thread.title.is_empty() {
                thread.title.clone_from(&new.title);
            }
            thread.user.get_or_insert(new.user);
            self.runs_made += 1;
            let number = self.runs_made;
            let row = RunRow {
                run: id.clone(),
                thread: lease.thread.clone(),
                flow: new.flow,
                parent: new.parent,
                title: new.title,
                status: Status::Running,
                outcome: None,
                created_ms: at_ms,
                updated_ms: at_ms,
            };
            self.runs.insert(id.clone(), Run { number, row, lines: Vec::new(), snapshot: None, intents: BTreeMap::new() });
            self.made.insert(number, id.clone());
            thread.runs.push(id.clone());
        }
        for message in messages {
            let seq = thread.messages.len() as u64;
            thread.messages.push(MessageRow { seq, run: id.clone(), role: message.role, content: message.content, created_ms: at_ms });
        }
        if release {
            thread.holder = None;
        }

        let run = self.runs.get_mut(&id).expect("it was found or made above");
        run.lines.extend(lines.into_iter().map(|bytes| (at_ms, bytes)));
        // Gone before come: an attempt that is given up and the next one may share a moment.
        for task in &settled {
            run.intents.remove(task);
        }
        run.intents.extend(intents.into_iter().map(|intent| (intent.task, intent)));
        if let Some(snapshot) = snapshot {
            run.snapshot = Some(SnapshotRow { entries: snapshot.entries, bytes: snapshot.bytes });
        }
        if status.is_some() || outcome.is_some() {
            run.row.updated_ms = at_ms;
        }
        if let Some(status) = status {
            run.row.status = status;
        }
        if outcome.is_some() {
            run.row.outcome = outcome;
            run.snapshot = None;
        }
        if !notes.is_empty() {
            self.notes.retain(|_, note| note.row.until_ms > at_ms);
            notes.into_iter().for_each(|note| self.keep(note, &lease.thread, &id, at_ms));
        }
        for permission in permissions {
            self.keep_permission(permission)?;
        }
        Ok(())
    }

    fn begin(&mut self, mut commit: Commit, until_ms: i64) -> Result<Lease> {
        // Looked at before the thread is taken, so that a refused caller leaves nothing behind.
        let thread = self.threads.get(&commit.lease.thread);
        let held = thread.and_then(|thread| self.holder(thread, commit.at_ms));
        if let Some((owner, until_ms)) = held.filter(|(owner, _)| *owner != commit.lease.owner) {
            return Err(StoreError::Held { thread: commit.lease.thread, owner, until_ms });
        }
        let owner = thread.and_then(|thread| thread.user.as_ref());
        commit.must_begin(self.runs.contains_key(&commit.run), owner.map(UserId::as_str))?;
        commit.lease = self.claim(&commit.lease.thread, &commit.lease.owner, commit.at_ms, until_ms)?;
        let lease = commit.lease.clone();
        self.commit(commit).map(|()| lease)
    }

    fn keep(&mut self, new: NewNote, thread: &ThreadId, run: &RunId, at_ms: i64) {
        let (key, value) = new.texts();
        let NewNote { user, flow, reach, kind, until_ms, .. } = new;
        self.notes.retain(|_, Note { user: of, row, .. }| {
            let is_same_place = reach == NoteScope::User || row.thread == *thread;
            !(*of == user && row.flow == flow && row.reach == reach && row.kind == kind && row.key == new.key && is_same_place)
        });
        let Some(value) = value else { return };
        self.notes_made += 1;
        let note = self.notes_made;
        let (thread, run, created_ms) = (thread.clone(), run.clone(), at_ms);
        let row = NoteRow { note, flow, kind, key: new.key, value: new.value, reach, thread, run, created_ms, until_ms };
        self.notes.insert(note, Note { user, bytes: key.len() + value.len(), row });
        let Some(Note { user, row, .. }) = self.notes.get(&note) else { return };
        let (mut count, mut bytes) = (0, 0);
        let of_same = self.notes.iter().rev().filter(|(_, other)| other.user == *user && other.row.flow == row.flow);
        let too_many: Vec<u64> = of_same
            .filter(|(_, other)| {
                (count, bytes) = (count + 1, bytes + other.bytes);
                count > NOTES_MAX || bytes > NOTES_BYTES_MAX
            })
            .map(|(id, _)| *id)
            .collect();
        too_many.iter().for_each(|id| drop(self.notes.remove(id)));
    }

    fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>> {
        let before = match &filter.before {
            Some(run) => self.known_run(run)?.number,
            None => u64::MAX,
        };
        let older = self.made.range(..before).rev().filter_map(|(_, id)| self.runs.get(id));
        let wanted = older.filter(|run| {
            (filter.statuses.is_empty() || filter.statuses.contains(&run.row.status))
                && filter.thread.as_ref().is_none_or(|thread| *thread == run.row.thread)
                && filter.user.as_ref().is_none_or(|user| self.threads.get(&run.row.thread).is_some_and(|thread| thread.user.as_ref() == Some(user)))
                && (!filter.roots_only || run.row.parent.is_none())
                && filter
                    .unheld_at_ms
                    .is_none_or(|now_ms| self.threads.get(&run.row.thread).is_none_or(|thread| self.holder(thread, now_ms).is_none()))
                && filter.id_part.as_ref().is_none_or(|part| run.row.run.as_str().contains(part.as_str()))
        });
        let is_short = |outcome: &Value| filter.outcome_bytes_max.is_none_or(|bytes_max| bytes_max > 0 && outcome.to_string().len() <= bytes_max);
        let row = |run: &Run| {
            let row = run.row();
            RunRow { outcome: row.outcome.filter(is_short), ..row }
        };
        Ok(wanted.take(filter.limit).map(row).collect())
    }

    fn known_run(&self, run: &RunId) -> Result<&Run> {
        self.runs.get(run).ok_or_else(|| StoreError::NoRun { run: run.clone() })
    }

    fn known_thread(&self, thread: &ThreadId) -> Result<&Thread> {
        self.threads.get(thread).ok_or_else(|| StoreError::NoThread { thread: thread.clone() })
    }
}

impl Thread {
    fn is_held_with(&self, lease: &Lease) -> bool {
        self.fence == lease.fence && self.holder.as_deref() == Some(lease.owner.as_str())
    }

    /// Where it stands in the order of use; the number decides between equals.
    fn place(&self) -> (i64, u64) {
        (self.updated_ms, self.number)
    }

    fn row(&self, id: &ThreadId) -> ThreadRow {
        ThreadRow {
            thread: id.clone(),
            user: self.user.clone(),
            title: self.title.clone(),
            messages: self.messages.len() as u64,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        }
    }
}

impl Run {
    fn row(&self) -> RunRow {
        let last_line_ms = self.lines.last().map_or(i64::MIN, |(at_ms, _)| *at_ms);
        RunRow { updated_ms: self.row.updated_ms.max(last_line_ms), ..self.row.clone() }
    }
}

/// A number that is past every list is past this one too.
fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

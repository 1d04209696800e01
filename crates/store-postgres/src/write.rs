//! What is written: each write as the statement and values that the writer sends, and what its reply means.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use graph::ThreadId;
use serde_json::json;
use store::{Change, Commit, Lease, NOTES_BYTES_MAX, NOTES_MAX, NewPermission, PERMISSIONS_MAX, Result, StoreError};
use tokio_postgres::Row;

use crate::text::{decode, encode};
use crate::writer::{Param, Write, param};

/// Bytes of journal lines that are added to a thread's sum at the latest; before, they wait for the next change of the thread's row.
const UNCOUNTED_BYTES_MAX: u64 = 64 << 10;
/// Threads to remember.
const UNCOUNTED_MAX: usize = 8_192;

/// Bytes written to threads that their rows do not count yet.
#[derive(Default)]
pub(crate) struct Uncounted(Mutex<HashMap<ThreadId, u64>>);

impl Uncounted {
    /// What to add to the thread's row with this commit.
    fn count(&self, commit: &Commit) -> u64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = &commit.lease.thread;
        let bytes = kept_bytes(commit) + all.remove(thread).unwrap_or_default();
        let changes_row =
            commit.new.is_some() || commit.status.is_some() || commit.outcome.is_some() || !commit.messages.is_empty() || commit.release;
        if changes_row || bytes >= UNCOUNTED_BYTES_MAX {
            return bytes;
        }
        // Forgetting all when there are too many counts a little less than there is.
        if all.len() >= UNCOUNTED_MAX {
            all.clear();
        }
        all.insert(thread.clone(), bytes);
        0
    }

    /// After a thread was deleted, or a write to it failed.
    pub(crate) fn forget(&self, thread: &ThreadId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(thread);
    }
}

/// Bytes of a commit that stay: journal lines and messages.
fn kept_bytes(commit: &Commit) -> u64 {
    let lines: usize = commit.lines.iter().map(Vec::len).sum();
    let messages: usize = commit.messages.iter().map(|message| message.content.len()).sum();
    (lines + messages) as u64
}

pub(crate) const COMMIT: &str = "SELECT refusal, who, number FROM baton_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)";

/// The same with the mark of its group, for a group of one: a single statement is a transaction without BEGIN and COMMIT. The mark comes last; a group
/// that was given up meanwhile fails there, and nothing of it is written.
const COMMIT_ALONE: &str =
    "SELECT refusal, who, number, baton_begin_group($29, $30) FROM baton_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
    $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)";

/// A commit; with `until_ms` the first one of a run, which also takes the thread.
pub(crate) fn commit(commit: Commit, until_ms: Option<i64>, uncounted: &Uncounted, writer: i64) -> Write {
    let bytes_to_count = uncounted.count(&commit) as i64;
    let extra = extra(&commit);
    let Commit { run, lease, at_ms, new, first_seq, lines, intents, settled, messages, status, outcome, snapshot, release, .. } = commit;
    let bytes = lines.iter().map(Vec::len).sum::<usize>() + snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes.len());
    // A later intent of the same task replaces an earlier one.
    let intents: BTreeMap<_, _> = intents.into_iter().map(|intent| ((intent.task.step, intent.task.index), intent)).collect();
    let (flow, parent, title, user) = match &new {
        None => (None, None, None, None),
        Some(new) => {
            (Some(text(&new.flow)), new.parent.as_ref().map(|parent| text(parent.as_str())), Some(text(&new.title)), Some(text(new.user.as_str())))
        }
    };
    let (entries, state) = snapshot.map_or((None, None), |snapshot| (Some(snapshot.entries as i64), Some(snapshot.bytes)));
    let params: Vec<Param> = vec![
        param(text(run.as_str())),
        param(text(lease.thread.as_str())),
        param(text(&lease.owner)),
        param(lease.fence as i64),
        param(at_ms),
        param(until_ms),
        param(first_seq as i64),
        param(some(lines)),
        param(flow),
        param(parent),
        param(title),
        param(user),
        param(status.map(store::Status::as_str)),
        param(outcome.map(|outcome| outcome.to_string())),
        param(some(settled.iter().map(|task| task.step as i64).collect())),
        param(some(settled.iter().map(|task| i64::from(task.index)).collect())),
        param(some(intents.values().map(|intent| intent.task.step as i64).collect())),
        param(some(intents.values().map(|intent| i64::from(intent.task.index)).collect())),
        param(some(intents.values().map(|intent| i64::from(intent.attempt)).collect())),
        param(some(intents.values().map(|intent| intent.key.to_string()).collect())),
        param(some(messages.iter().map(|message| text(&message.role)).collect())),
        param(some(messages.iter().map(|message| text(&message.content)).collect())),
        param(extra),
        param(entries),
        param(state),
        param(release),
        param(bytes_to_count),
        param(writer),
    ];
    Write { thread: lease.thread.to_string(), alone_sql: Some(COMMIT_ALONE), bytes, change: Some(Change::Run(run)), ..Write::new(COMMIT, params) }
}

/// The parts that few commits have, as JSON.
fn extra(commit: &Commit) -> Option<String> {
    if commit.notes.is_empty() && commit.permissions.is_empty() {
        return None;
    }
    let note = |note: &store::NewNote| {
        let (key, value) = note.texts();
        let is_local = i64::from(note.reach == graph::NoteScope::Thread);
        json!([
            encode(note.user.as_str()),
            encode(&note.flow),
            is_local,
            encode(&note.kind),
            encode(&key),
            value.as_deref().map(encode),
            note.until_ms
        ])
    };
    let permission = |new: &NewPermission| {
        let thread = new.grant.thread().map(|thread| text(thread.as_str()));
        json!([encode(new.user.as_str()), new.grant.scope(), encode(new.grant.name()), thread, new.created_ms, definition(new)])
    };
    let extra = json!({
        "notes": commit.notes.iter().map(note).collect::<Vec<_>>(),
        "permissions": commit.permissions.iter().map(permission).collect::<Vec<_>>(),
        "limits": [NOTES_MAX, NOTES_BYTES_MAX, PERMISSIONS_MAX],
    });
    Some(extra.to_string())
}

/// The fence of a commit that was written, or why it was not.
pub(crate) fn committed(row: Option<&Row>, wanted: &Refusable) -> Result<u64> {
    let row = row.ok_or_else(no_reply)?;
    let number: Option<i64> = row.get("number");
    let number = number.unwrap_or_default();
    match row.get::<_, Option<&str>>("refusal") {
        None => Ok(number as u64),
        Some(refusal) => Err(refused(refusal, row, number, wanted)),
    }
}

/// Why a commit was refused, from its error.
pub(crate) struct Refusable {
    pub(crate) run: graph::RunId,
    pub(crate) thread: ThreadId,
    pub(crate) first_seq: u64,
}

impl Refusable {
    pub(crate) fn of(commit: &Commit) -> Refusable {
        Refusable { run: commit.run.clone(), thread: commit.lease.thread.clone(), first_seq: commit.first_seq }
    }

    pub(crate) fn thread(thread: &ThreadId) -> Refusable {
        Refusable { run: graph::RunId::from(""), thread: thread.clone(), first_seq: 0 }
    }
}

pub(crate) fn refused(refusal: &str, row: &Row, number: i64, wanted: &Refusable) -> StoreError {
    let (run, thread) = (wanted.run.clone(), wanted.thread.clone());
    match refusal {
        "held" => StoreError::Held { thread, owner: decode(row.get::<_, Option<String>>("who").unwrap_or_default()), until_ms: number },
        "no_run" => StoreError::NoRun { run },
        "no_thread" => StoreError::NoThread { thread },
        "fenced" => StoreError::Fenced { thread },
        "exists" => StoreError::Exists { run },
        "order" => StoreError::OutOfOrder { run, found: wanted.first_seq, wanted: number as u64 },
        "user" => StoreError::NotYours { thread },
        other => StoreError::Database(format!("the database refused with {other:?}; it was made by another version of Baton")),
    }
}

pub(crate) fn claimed(row: Option<&Row>, lease: Lease) -> Result<Lease> {
    let fence = committed(row, &Refusable::thread(&lease.thread))?;
    Ok(Lease { fence, ..lease })
}

pub(crate) fn no_reply() -> StoreError {
    StoreError::Database("the database returned no row where there is always one".to_owned())
}

/// What the tool of a permission was, as it is stored.
pub(crate) fn definition(new: &NewPermission) -> Option<String> {
    new.definition_text().map(|definition| text(&definition))
}

/// Owned, because values wait in a queue.
pub(crate) fn text(value: &str) -> String {
    encode(value).into_owned()
}

/// Nothing instead of an empty list: the function then skips the statement.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

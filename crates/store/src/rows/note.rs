//! Notes that runs leave for later ones.

use graph::{NoteScope, RunId, ThreadId, UserId};
use serde::Serialize;
use serde_json::Value;

/// What a user has of one flow: so many notes and bytes at most, the oldest go first. A single one that is larger is not kept.
pub const NOTES_MAX: usize = 200;
/// Bytes of all notes of a user in one flow.
pub const NOTES_BYTES_MAX: usize = 1 << 20;
/// Bytes of one note, key and value.
pub const NOTE_BYTES_MAX: usize = 64 << 10;

/// What a run leaves for later runs of the same flow. It takes the place of one with the same user, flow, reach, kind and key.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNote {
    /// The user it belongs to.
    pub user: UserId,
    /// The name of the flow.
    pub flow: String,
    /// Whether it serves all threads of the user or this one.
    pub reach: NoteScope,
    /// What sort of note it is, named by the flow.
    pub kind: String,
    /// What it is about.
    pub key: Value,
    /// Null leaves nothing in that place.
    pub value: Value,
    /// When it expires.
    pub until_ms: i64,
}

impl NewNote {
    /// Key and value as they are kept; `None` for what is not.
    pub fn texts(&self) -> (String, Option<String>) {
        let (key, value) = (self.key.to_string(), self.value.to_string());
        let is_kept = !self.value.is_null() && key.len() + value.len() <= NOTE_BYTES_MAX;
        (key, is_kept.then_some(value))
    }
}

/// The notes to read: of which user, and which of them.
#[derive(Clone, Debug)]
pub struct NoteFilter {
    /// The user whose notes are read.
    pub user: UserId,
    /// Only those of this flow.
    pub flow: Option<String>,
    /// Without those that are of use in other threads only.
    pub thread: Option<ThreadId>,
    /// Notes that expired before this time are left out.
    pub now_ms: i64,
    /// How many at most.
    pub limit: usize,
}

/// A stored note.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoteRow {
    /// Its number.
    pub note: u64,
    /// The name of the flow.
    pub flow: String,
    /// What sort of note it is, named by the flow.
    pub kind: String,
    /// What it is about.
    pub key: Value,
    /// What was noted.
    pub value: Value,
    /// Whether it serves all threads of the user or this one.
    pub reach: NoteScope,
    /// Where it was learnt.
    pub thread: ThreadId,
    /// The run that left it.
    pub run: RunId,
    /// When it was created.
    pub created_ms: i64,
    /// When it expires.
    pub until_ms: i64,
}

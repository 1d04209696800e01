//! Threads, their messages, and what is deleted of them.

use graph::{RunId, ThreadId, UserId};
use serde::Serialize;

use super::Status;

/// A thread as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    /// Its id.
    pub thread: ThreadId,
    /// `None` before the first run.
    pub user: Option<UserId>,
    /// A line for lists.
    pub title: String,
    /// How many messages it has.
    pub messages: u64,
    /// When it was created.
    pub created_ms: i64,
    /// When it was last used.
    pub updated_ms: i64,
}

/// A thread as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRow {
    /// The stored thread.
    pub thread: ThreadRow,
    /// How the last answer begins.
    pub preview: String,
    /// Its newest run that no other run wanted.
    pub newest: Option<NewestRun>,
}

/// Characters of an answer in a list.
pub const PREVIEW_CHARS_MAX: usize = 200;

/// The newest run of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestRun {
    /// The run.
    pub run: RunId,
    /// The name of the flow.
    pub flow: String,
    /// Its status.
    pub status: Status,
}

/// Which threads; those without a run have no owner and are not included.
#[derive(Clone, Debug, Default)]
pub struct CardFilter {
    /// Only those of this user.
    pub user: Option<UserId>,
    /// This thread only.
    pub thread: Option<ThreadId>,
    /// All of these are in its title or its messages, ignoring the case of ASCII letters.
    pub words: Vec<String>,
    /// Used then or later.
    pub since_ms: Option<i64>,
    /// Used less recently than this one.
    pub before: Option<ThreadId>,
    /// How many at most.
    pub limit: usize,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageRow {
    /// Its number, from 0.
    pub seq: u64,
    /// The run that wrote it.
    pub run: RunId,
    /// Who wrote it, e.g. `user`.
    pub role: String,
    /// Its text.
    pub content: String,
    /// When it was created.
    pub created_ms: i64,
}

/// Which threads to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// The most recently used ones.
    KeepLast(u64),
    /// The threads that were used since then.
    KeepSince {
        /// Milliseconds since 1970.
        ms: i64,
    },
}

/// What a deletion removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeletionReport {
    /// The threads that were deleted, so that what others keep for them can be deleted too.
    pub deleted: Vec<ThreadId>,
    /// How many threads were deleted.
    pub threads: u64,
    /// How many runs were deleted with them.
    pub runs: u64,
    /// By how much the files shrank.
    pub bytes: u64,
}

//! Runs, journals, signals for drivers, and changes by other processes.

use graph::{RunId, TaskId, ThreadId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Status;

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Its id.
    pub run: RunId,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// The name of the flow.
    pub flow: String,
    /// The run whose effect it answers.
    pub parent: Option<RunId>,
    /// A line for lists.
    pub title: String,
    /// Its status.
    pub status: Status,
    /// How it ended, as JSON.
    pub outcome: Option<Value>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was last changed.
    pub updated_ms: i64,
}

/// Which runs to list, newest first.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Empty is any.
    pub statuses: Vec<Status>,
    /// In this thread only.
    pub thread: Option<ThreadId>,
    /// Only those in threads of this user.
    pub user: Option<UserId>,
    /// Without those that another run wanted.
    pub roots_only: bool,
    /// A part of the run's id.
    pub id_part: Option<String>,
    /// In threads that are not held at this time.
    pub unheld_at_ms: Option<i64>,
    /// Runs older than this one.
    pub before: Option<RunId>,
    /// How many at most.
    pub limit: usize,
    /// Longer outcomes are left out, so that a list of many runs stays small. Those of `None` are all there.
    pub outcome_bytes_max: Option<usize>,
}

impl Default for RunFilter {
    fn default() -> Self {
        RunFilter {
            statuses: Vec::new(),
            thread: None,
            user: None,
            roots_only: false,
            id_part: None,
            unheld_at_ms: None,
            before: None,
            limit: 100,
            outcome_bytes_max: None,
        }
    }
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    /// Its number, from 0.
    pub seq: u64,
    /// When it was written.
    pub at_ms: i64,
    /// The encoded entry.
    pub bytes: Vec<u8>,
}

/// A page of a journal ends with the line that brings it to so many bytes.
pub const JOURNAL_PAGE_BYTES_MAX: usize = 8 << 20;

impl JournalLine {
    /// Whether a page that was read with this limit is the last one of its journal.
    pub fn is_last_page(page: &[JournalLine], limit: usize) -> bool {
        page.len() < limit && page.iter().map(|line| line.bytes.len()).sum::<usize>() < JOURNAL_PAGE_BYTES_MAX
    }
}

/// The stored snapshot of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Journal lines it stands for.
    pub entries: u64,
    /// The encoded state.
    pub bytes: Vec<u8>,
}

/// Word left for the driver of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalKind {
    /// End the run.
    Cancel {
        /// Why, for the journal.
        reason: String,
    },
    /// A person answered a question.
    Answer {
        /// The task that asked.
        task: TaskId,
        /// The attempt that asked.
        attempt: u32,
        /// The answer.
        value: Value,
    },
}

/// A signal in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Its number.
    pub id: u64,
    /// The run it is for.
    pub run: RunId,
    /// What to do.
    pub kind: SignalKind,
}

/// Something that another process wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The run has a new commit.
    Run(RunId),
    /// There is a signal for the run.
    Signal(RunId),
    /// Another process watches the run; valid for a minute.
    Watched(RunId),
    /// A piece of an answer that is being generated; not stored.
    Piece(Piece),
    /// The stored files of users changed.
    Files,
}

/// A piece of an answer, on its way to watchers in other processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece {
    /// The run that is watched: the one that generates, or one above it.
    pub watched: RunId,
    /// The run that generates.
    pub run: RunId,
    /// The task that generates.
    pub task: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The text of this piece.
    pub text: String,
}

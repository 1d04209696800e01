//! What one commit of a run writes.

use graph::{Key, RunId, TaskId, ThreadId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NewNote, NewPermission};
use crate::StoreError;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is driven, or should be after a crash.
    Running,
    /// Only a person can move it.
    Asking,
    /// It waits for a child run that only a person can move.
    Waiting,
    /// It ended with an output.
    Done,
    /// It ended with a fault.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// All statuses.
    pub const ALL: [Status; 6] = [Status::Running, Status::Asking, Status::Waiting, Status::Done, Status::Failed, Status::Cancelled];

    /// Whether the run has ended.
    pub fn is_over(self) -> bool {
        match self {
            Status::Running | Status::Asking | Status::Waiting => false,
            Status::Done | Status::Failed | Status::Cancelled => true,
        }
    }

    /// Its name in the store and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Asking => "asking",
            Status::Waiting => "waiting",
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The right to write to a thread. The fence grows each time the right changes hands, so that a writer who lost it without
/// noticing is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The thread that may be written to.
    pub thread: ThreadId,
    /// The process that holds it.
    pub owner: String,
    /// Grows with every change of owner.
    pub fence: u64,
}

/// One run's next moment.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The run.
    pub run: RunId,
    /// The lease it is written under.
    pub lease: Lease,
    /// When it is made.
    pub at_ms: i64,
    /// Set on the first commit of a run.
    pub new: Option<NewRun>,
    /// The number of the first line; a journal begins with 0.
    pub first_seq: u64,
    /// Journal lines to append.
    pub lines: Vec<Vec<u8>>,
    /// Effects that are about to change the world.
    pub intents: Vec<Intent>,
    /// Effects that were answered or given up: their intents go.
    pub settled: Vec<TaskId>,
    /// Messages to add to the thread.
    pub messages: Vec<NewMessage>,
    /// What the run leaves for later ones.
    pub notes: Vec<NewNote>,
    /// What the user allowed for good with the answers in `lines`.
    pub permissions: Vec<NewPermission>,
    /// A change of status, if there is one.
    pub status: Option<Status>,
    /// How it ended; with it goes the run's snapshot.
    pub outcome: Option<Value>,
    /// A snapshot that replaces the last one.
    pub snapshot: Option<NewSnapshot>,
    /// Gives the lease back in the same moment.
    pub release: bool,
}

impl Commit {
    /// An empty commit for the journal from `first_seq` on.
    pub fn new(run: RunId, lease: Lease, at_ms: i64, first_seq: u64) -> Self {
        Commit {
            run,
            lease,
            at_ms,
            new: None,
            first_seq,
            lines: Vec::new(),
            intents: Vec::new(),
            settled: Vec::new(),
            messages: Vec::new(),
            notes: Vec::new(),
            permissions: Vec::new(),
            status: None,
            outcome: None,
            snapshot: None,
            release: false,
        }
    }

    /// Whether it can be the first of its run, in a thread of that user.
    pub(crate) fn must_begin(&self, is_known: bool, thread_is_of: Option<&str>) -> Result<(), StoreError> {
        let run = || self.run.clone();
        match &self.new {
            None => Err(StoreError::NoRun { run: run() }),
            Some(_) if is_known => Err(StoreError::Exists { run: run() }),
            Some(_) if self.first_seq != 0 => Err(StoreError::OutOfOrder { run: run(), found: self.first_seq, wanted: 0 }),
            Some(new) if thread_is_of.is_some_and(|user| user != new.user.as_str()) => {
                Err(StoreError::NotYours { thread: self.lease.thread.clone() })
            }
            Some(_) => Ok(()),
        }
    }
}

/// A run that begins with this commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The name of the flow.
    pub flow: String,
    /// The run whose effect this one answers.
    pub parent: Option<RunId>,
    /// A line for lists: what was asked.
    pub title: String,
    /// The user. The first one in a thread owns the thread.
    pub user: UserId,
}

/// A message that a run adds to its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Who wrote it, e.g. `user`.
    pub role: String,
    /// Its text.
    pub content: String,
}

/// The state of a run after a number of journal lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Journal lines it stands for.
    pub entries: u64,
    /// The encoded state.
    pub bytes: Vec<u8>,
}

/// An attempt at changing the world that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The task whose effect is attempted.
    pub task: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The idempotency key of the effect.
    pub key: Key,
}

//! What goes in and out of a store.

use graph::{Key, NoteScope, RunId, TaskId, ThreadId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    Done,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Status; 6] = [Status::Running, Status::Asking, Status::Waiting, Status::Done, Status::Failed, Status::Cancelled];

    pub fn is_over(self) -> bool {
        match self {
            Status::Running | Status::Asking | Status::Waiting => false,
            Status::Done | Status::Failed | Status::Cancelled => true,
        }
    }

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

    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The right to write to a thread. The fence grows each time the right changes hands, so that a writer who lost it without
/// noticing is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub thread: ThreadId,
    pub owner: String,
    pub fence: u64,
}

/// One run's next moment.
#[derive(Clone, Debug)]
pub struct Commit {
    pub run: RunId,
    pub lease: Lease,
    pub at_ms: i64,
    /// Set on the first commit of a run.
    pub new: Option<NewRun>,
    /// The number of the first line; a journal begins with 0.
    pub first_seq: u64,
    pub lines: Vec<Vec<u8>>,
    /// Effects that are about to change the world.
    pub intents: Vec<Intent>,
    /// Effects that were answered or given up: their intents go.
    pub settled: Vec<TaskId>,
    pub messages: Vec<NewMessage>,
    /// What the run leaves for later ones.
    pub notes: Vec<NewNote>,
    /// What the user allowed for good with the answers in `lines`.
    pub permissions: Vec<NewPermission>,
    /// A change of status, if there is one.
    pub status: Option<Status>,
    /// How it ended; with it goes the run's snapshot.
    pub outcome: Option<Value>,
    pub snapshot: Option<NewSnapshot>,
    /// Gives the lease back in the same moment.
    pub release: bool,
}

impl Commit {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub flow: String,
    /// The run whose effect this one answers.
    pub parent: Option<RunId>,
    /// A line for lists: what was asked.
    pub title: String,
    /// The user. The first one in a thread owns the thread.
    pub user: UserId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    pub role: String,
    pub content: String,
}

/// What a user has of one flow: so many notes and bytes at most, the oldest go first. A single one that is larger is not kept.
pub const NOTES_MAX: usize = 200;
pub const NOTES_BYTES_MAX: usize = 1 << 20;
pub const NOTE_BYTES_MAX: usize = 64 << 10;

/// What a run leaves for later runs of the same flow. It takes the place of one with the same user, flow, reach, kind and key.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNote {
    pub user: UserId,
    pub flow: String,
    pub reach: NoteScope,
    pub kind: String,
    pub key: Value,
    /// Null leaves nothing in that place.
    pub value: Value,
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

/// Permissions a user can have; the oldest are dropped, and then asked for again.
pub const PERMISSIONS_MAX: usize = 1_000;

/// What a user allowed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum Grant {
    /// One tool in one thread.
    Conversation { thread: ThreadId, tool: String },
    /// One tool, as `server.tool`, in every thread.
    Tool { tool: String },
    /// Every tool of a server.
    Server { server: String },
}

impl Grant {
    pub fn scope(&self) -> &'static str {
        match self {
            Grant::Conversation { .. } => "conversation",
            Grant::Tool { .. } => "tool",
            Grant::Server { .. } => "server",
        }
    }

    /// The tool or the server.
    pub fn name(&self) -> &str {
        match self {
            Grant::Conversation { tool, .. } | Grant::Tool { tool } => tool,
            Grant::Server { server } => server,
        }
    }

    pub fn thread(&self) -> Option<&ThreadId> {
        match self {
            Grant::Conversation { thread, .. } => Some(thread),
            Grant::Tool { .. } | Grant::Server { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPermission {
    pub user: UserId,
    pub grant: Grant,
    pub created_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermissionRow {
    pub permission: u64,
    #[serde(flatten)]
    pub grant: Grant,
    pub created_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Journal lines it stands for.
    pub entries: u64,
    pub bytes: Vec<u8>,
}

/// An attempt at changing the world that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub task: TaskId,
    pub attempt: u32,
    pub key: Key,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    pub run: RunId,
    pub thread: ThreadId,
    pub flow: String,
    pub parent: Option<RunId>,
    pub title: String,
    pub status: Status,
    pub outcome: Option<Value>,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Empty is any.
    pub statuses: Vec<Status>,
    pub thread: Option<ThreadId>,
    /// Whose threads they are in.
    pub user: Option<UserId>,
    /// Without those that another run wanted.
    pub roots_only: bool,
    /// A part of the run's id.
    pub id_part: Option<String>,
    /// In threads that are not held at this time.
    pub unheld_at_ms: Option<i64>,
    /// Runs older than this one.
    pub before: Option<RunId>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    pub seq: u64,
    pub at_ms: i64,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    pub entries: u64,
    pub bytes: Vec<u8>,
}

/// Whose notes, and which of them.
#[derive(Clone, Debug)]
pub struct NoteFilter {
    pub user: UserId,
    /// Of this flow only.
    pub flow: Option<String>,
    /// Without those that are of use in other threads only.
    pub thread: Option<ThreadId>,
    pub now_ms: i64,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoteRow {
    pub note: u64,
    pub flow: String,
    pub kind: String,
    pub key: Value,
    pub value: Value,
    pub reach: NoteScope,
    /// Where it was learnt.
    pub thread: ThreadId,
    pub run: RunId,
    pub created_ms: i64,
    pub until_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    pub thread: ThreadId,
    /// `None` before the first run.
    pub user: Option<UserId>,
    pub title: String,
    pub messages: u64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

/// A thread as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRow {
    pub thread: ThreadRow,
    /// How the last answer begins.
    pub preview: String,
    /// Its newest run that no other run wanted.
    pub newest: Option<NewestRun>,
}

/// Of an answer, so much stands in a list.
pub const PREVIEW_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestRun {
    pub run: RunId,
    pub flow: String,
    pub status: Status,
}

/// Which threads; those without a run have no owner and are not included.
#[derive(Clone, Debug, Default)]
pub struct CardFilter {
    pub user: Option<UserId>,
    pub thread: Option<ThreadId>,
    /// All of these stand in its title or in what was said, whatever the case of ASCII letters.
    pub words: Vec<String>,
    /// Used then or later.
    pub since_ms: Option<i64>,
    /// Used less recently than this one.
    pub before: Option<ThreadId>,
    pub limit: usize,
}

/// Documents of one kind that a user can have, and the bytes of one.
pub const RECORDS_MAX: usize = 20_000;
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// Bytes of documents that are listed at once: what is listed is in memory.
pub const RECORDS_LISTED_BYTES_MAX: usize = 32 << 20;

/// A JSON document that a protocol keeps for a user beside runs and threads.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub user: UserId,
    pub kind: String,
    pub key: String,
    pub value: Value,
    pub at_ms: i64,
}

impl NewRecord {
    /// Refuses a document of so many bytes if that is too large.
    pub fn must_fit(&self, bytes: usize) -> Result<(), StoreError> {
        match bytes <= RECORD_BYTES_MAX {
            true => Ok(()),
            false => Err(StoreError::TooLarge { bytes, bytes_max: RECORD_BYTES_MAX }),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    pub user: UserId,
    pub kind: String,
    pub key: String,
    pub value: Value,
    pub created_ms: i64,
    pub updated_ms: i64,
}

/// Which documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFilter {
    pub kind: String,
    /// Of all users otherwise.
    pub user: Option<UserId>,
    /// Empty is any.
    pub key_prefix: String,
    /// Only those behind this key and user in the list, which is sorted by key and user.
    pub after: Option<(String, UserId)>,
    pub limit: usize,
}

/// Tokens that are made with one token, which are sessions of pages; the oldest are dropped.
pub const SESSIONS_MAX: usize = 100;

/// Something that lets a user in, by its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub digest: [u8; 32],
    pub user: UserId,
    /// The digest of the token it was made with: a session goes with that.
    pub made_with: Option<[u8; 32]>,
    pub created_ms: i64,
    /// Without an end otherwise.
    pub until_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub token: u64,
    pub user: UserId,
    pub made_with: Option<[u8; 32]>,
    pub created_ms: i64,
    pub until_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageRow {
    pub seq: u64,
    pub run: RunId,
    pub role: String,
    pub content: String,
    pub created_ms: i64,
}

/// Word left for the driver of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalKind {
    Cancel { reason: String },
    Answer { task: TaskId, attempt: u32, value: Value },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    pub id: u64,
    pub run: RunId,
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
    pub task: TaskId,
    pub attempt: u32,
    pub text: String,
}

/// Which threads to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// The most recently used ones.
    KeepLast(u64),
    /// Those used since then.
    KeepSince { ms: i64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeletionReport {
    /// The threads that were deleted, so that what others keep for them can be deleted too.
    pub deleted: Vec<ThreadId>,
    pub threads: u64,
    pub runs: u64,
    /// By how much the files shrank.
    pub bytes: u64,
}

use graph::{RunId, ThreadId};

/// Why a store did not do it. Nothing was written.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StoreError {
    #[error("another process took over thread {thread}; this one must stop writing to it")]
    Fenced { thread: ThreadId },
    #[error("thread {thread} is held by {owner}; try again when it is done, or let it do the work")]
    Held { thread: ThreadId, owner: String, until_ms: i64 },
    #[error("run {run} exists already")]
    Exists { run: RunId },
    #[error("run {run} does not exist; `baton runs list` shows those that do")]
    NoRun { run: RunId },
    #[error("thread {thread} does not exist; `baton threads list` shows those that do")]
    NoThread { thread: ThreadId },
    #[error("thread {thread} is another user's; name one of your own, or leave the name away for a new one")]
    NotYours { thread: ThreadId },
    #[error("line {found} of run {run} came when line {wanted} was next; two drivers wrote to one run")]
    OutOfOrder { run: RunId, found: u64, wanted: u64 },
    #[error("{path} was written by a newer Baton (schema {found}, this one supports {known}); upgrade baton, or name another file with --db")]
    Newer { path: String, found: i64, known: i64 },
    #[error("{path} is a SQLite file, but not one of Baton's; name another file with --db")]
    Foreign { path: String },
    #[error("{path} is damaged ({why}); restore it from a copy, or move it away and start afresh")]
    Damaged { path: String, why: String },
    #[error("{path} cannot be opened: {why}")]
    Open { path: String, why: String },
    #[error("the disk under {path} is full; free some space and start again, nothing that was confirmed is lost")]
    Full { path: String },
    #[error("{name} cannot be reached ({why}); what was confirmed is safe, try again when it is back")]
    Unreachable { name: String, why: String },
    #[error("a document has {bytes} bytes, more than the {bytes_max} allowed; make it smaller, or split it")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("there are {count_max} documents of kind {kind} already; delete some first")]
    TooMany { kind: String, count_max: usize },
    #[error("the database failed: {0}")]
    Database(String),
    #[error("the store was closed")]
    Closed,
}

use crate::{Digest, EntryError, TaskId};

/// Why a reply could not be taken. The run is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum FeedError {
    #[error("task {task} was never asked; the run is at step {at_step}")]
    NeverAsked { task: TaskId, at_step: u64 },
    #[error("task {task} is at attempt {at}, so attempt {attempt} cannot have been answered yet")]
    NeverTried { task: TaskId, attempt: u32, at: u32 },
    #[error("task {task} is in doubt: answer {{\"verdict\":\"done\",\"value\":…}}, {{\"verdict\":\"again\"}} or {{\"verdict\":\"failed\"}} ({why})")]
    NoVerdict { task: TaskId, why: String },
    #[error("task {task} waits for permission: answer {{\"allow\":\"once\"}} or {{\"allow\":\"no\"}} ({why})")]
    NoConsent { task: TaskId, why: String },
    #[error("task {task} is not in flight, so it can be neither in doubt nor held")]
    NotInFlight { task: TaskId },
}

/// Why a run cannot be started or rebuilt.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum RunError {
    #[error("the input does not fit the flow {flow}: {why}")]
    Input { flow: String, why: String },
    #[error("the journal of this run belongs to the flow {found}, not {wanted}")]
    OtherFlow { found: String, wanted: String },
    #[error("the journal does not begin with a start entry; it is incomplete")]
    NoStart,
    #[error("journal entry {at}: {mismatch}")]
    Mismatch { at: u64, mismatch: Box<Mismatch> },
    #[error("journal entry {at}: {source}")]
    Entry { at: u64, source: EntryError },
    #[error("the snapshot at entry {at} does not fit the flow as it is now: {why}")]
    Snapshot { at: u64, why: String },
    #[error("the state cannot be changed so: {why}")]
    Edit { why: String },
}

/// How a flow, run again over its journal, went another way than it went then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum Mismatch {
    #[error("task {task} at node {node} now asks {now} ({now_digest}), but something else was asked then ({then_digest}); the flow has changed")]
    Asked { task: TaskId, node: String, now: String, now_digest: Digest, then_digest: Digest },
    #[error("{0}; the flow has changed")]
    Reply(FeedError),
    #[error("the run had already ended here; the flow has changed")]
    Ended,
    #[error("a second start entry; the journal is damaged")]
    SecondStart,
    #[error("the state was edited at step {then}, but the run is now at step {now}; the flow has changed")]
    Edited { then: u64, now: u64 },
    #[error("{0}")]
    Unfit(String),
}

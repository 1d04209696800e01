use graph::{EntryError, FeedError, RunError, RunId};
use store::{Status, StoreError};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
/// Why the engine could not do what it was asked.
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum EngineError {
    #[error("all {runs_max} places are taken and {queue_max} callers wait already; try again later, or raise runs_max")]
    Busy { runs_max: usize, queue_max: usize },
    #[error("the engine is stopping; start it again to go on")]
    Stopping,
    #[error("there is no flow {flow:?}; there are: {}", known.join(", "))]
    NoFlow { flow: String, known: Vec<String> },
    #[error("run {run} is over ({}); fork it to try something else", status.as_str())]
    Over { run: RunId, status: Status },
    #[error("run {run} starts and stops too fast to receive a message; try again")]
    Restless { run: RunId },
    #[error("the run is not driven here any more: {why}")]
    DrivenElsewhere { why: String },
    #[error("there is no step {step} in run {run}; it has steps 0 to {last}")]
    NoStep { run: RunId, step: u64, last: u64 },
    #[error("the flow crashed while run {run} was being opened: {why}")]
    Crashed { run: RunId, why: String },
    #[error("run {run}, journal entry {seq}: {source}")]
    Entry { run: RunId, seq: u64, source: EntryError },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Feed(#[from] FeedError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

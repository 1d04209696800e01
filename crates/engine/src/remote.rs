//! What may be done elsewhere for an engine: performing effects, and driving runs. Restate's engine implements both; without them everything is
//! done in this process.

use futures::future::BoxFuture;
use graph::{Job, Reply, RunId, ThreadId};

/// How an attempt at an effect ended that was performed elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Performed {
    /// It was answered, well or not.
    Replied(Reply),
    /// It was interrupted, and it is unknown whether it happened.
    InDoubt,
    /// The source of the reply is gone; the run cannot continue here.
    Lost(String),
}

/// Performs effects where they survive the end of this process. The same attempt of the same effect, asked for again, is the same call: it is not
/// performed twice, and its reply is there.
pub trait RemoteEffects: Send + Sync + 'static {
    /// Performs one attempt. Dropping the future leaves the call as it is. `watched` are those of the run and the runs above it that are watched
    /// in other processes, to whom pieces of the answer are of interest.
    fn perform(&self, job: Job, watched: Vec<RunId>) -> BoxFuture<'static, Performed>;

    /// The run needs none of its calls any more; those in flight are stopped.
    fn cancel(&self, thread: &ThreadId, run: &RunId);
}

/// A request to a worker: drive a run and those below it until it has ended or waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveRequest {
    /// The thread of the run.
    pub thread: ThreadId,
    /// A run that no other run started.
    pub run: RunId,
    /// The same errand with the same ticket is done once.
    pub ticket: String,
}

/// Has runs driven elsewhere.
pub trait Dispatcher: Send + Sync + 'static {
    /// Returns when the errand is certain to be done. The error says why it is not.
    fn submit(&self, errand: DriveRequest) -> BoxFuture<'_, Result<(), String>>;
}

//! Interfaces to other processes that perform effects or drive runs for an engine. The Restate engine implements both; without them everything
//! happens in this process.

use futures::future::BoxFuture;
use graph::{Job, Reply, RunId, ThreadId};

/// How an attempt ended that another process performed.
#[derive(Clone, Debug, PartialEq)]
pub enum Performed {
    /// It was answered, well or not.
    Replied(Reply),
    /// It was interrupted, and it is unknown whether it happened.
    InDoubt,
    /// The source of the reply is gone; the run cannot continue here.
    Lost(String),
}

/// Performs effects outside of this process, so that they survive its end. A second request for the same attempt of the same effect is the same call: it
/// is not performed twice, and its reply is returned.
pub trait RemoteEffects: Send + Sync + 'static {
    /// Performs one attempt. Dropping the future leaves the call as it is. `watched` are the run and the runs above it that are watched
    /// in other processes, which receive pieces of the answer.
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
    /// A second request with the same ticket has no effect.
    pub ticket: String,
}

/// Submits runs to other processes that drive them.
pub trait Dispatcher: Send + Sync + 'static {
    /// Returns when the request is stored durably. The error is why it is not.
    fn submit(&self, request: DriveRequest) -> BoxFuture<'_, Result<(), String>>;
}

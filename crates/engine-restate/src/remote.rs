//! The calls that runs in this worker make: each goes to the invocation of `drive` that drives its thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Performed, RemoteEffects};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use graph::{Job, RunId, ThreadId};
use tokio::sync::{mpsc, oneshot};

/// What the runs that an invocation of `drive` drives send to it.
pub(crate) enum DriveMessage {
    Call(Box<Call>),
    /// The run needs none of its calls any more.
    Cancel(RunId),
}

pub(crate) struct Call {
    pub(crate) job: Job,
    /// Runs that are watched in other processes, whose watchers receive pieces of the answer.
    pub(crate) watched: Vec<RunId>,
    pub(crate) reply: oneshot::Sender<Performed>,
}

/// The invocations of `drive` in this process, by thread. Clones share them.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<HashMap<ThreadId, DriveHandle>>>);

struct DriveHandle {
    number: u64,
    sender: mpsc::UnboundedSender<DriveMessage>,
}

/// A thread that is driven until this is dropped.
pub(crate) struct ThreadRegistration {
    calls: Calls,
    thread: ThreadId,
    number: u64,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, DriveHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on calls of runs of this thread go here. An older invocation of the same thread gets no more: Restate gave it up.
    ///
    /// The queue has no limit of its own: each entry is an attempt in flight, whose number the graph limits.
    pub(crate) fn open(&self, thread: &ThreadId) -> (ThreadRegistration, mpsc::UnboundedReceiver<DriveMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut handles = self.lock();
        let number = handles.get(thread).map_or(0, |handle| handle.number + 1);
        handles.insert(thread.clone(), DriveHandle { number, sender });
        (ThreadRegistration { calls: self.clone(), thread: thread.clone(), number }, receiver)
    }

    fn send(&self, thread: &ThreadId, message: DriveMessage) -> bool {
        self.lock().get(thread).is_some_and(|handle| handle.sender.send(message).is_ok())
    }
}

impl Drop for ThreadRegistration {
    fn drop(&mut self) {
        let mut handles = self.calls.lock();
        if handles.get(&self.thread).is_some_and(|handle| handle.number == self.number) {
            handles.remove(&self.thread);
        }
    }
}

const NOBODY: &str = "no invocation of the Restate server drives this thread here any more";

impl RemoteEffects for Calls {
    fn perform(&self, job: Job, watched: Vec<RunId>) -> BoxFuture<'static, Performed> {
        let (reply, replied) = oneshot::channel();
        let thread = job.thread.clone();
        let is_sent = self.send(&thread, DriveMessage::Call(Box::new(Call { job, watched, reply })));
        async move {
            match is_sent {
                true => replied.await.unwrap_or_else(|_| Performed::Lost(NOBODY.to_owned())),
                false => Performed::Lost(NOBODY.to_owned()),
            }
        }
        .boxed()
    }

    fn cancel(&self, thread: &ThreadId, run: &RunId) {
        self.send(thread, DriveMessage::Cancel(run.clone()));
    }
}

//! Effects in progress in this worker, and replies that another attempt may need: a call whose connection to Restate was lost goes on, and the next
//! attempt at it, here or in another worker, gets its reply instead of paying for it again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Performed;
use graph::Job;
use serde_json::Value;
use store::{NewRecord, Store, StoreError};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::job::{call_key, prefix};

/// What such records are called in the store.
pub(crate) const KIND: &str = "restate-reply";

#[derive(Clone, Default)]
pub(crate) struct InProgress(Arc<Mutex<HashMap<String, RunningCall>>>);

#[derive(Clone)]
pub(crate) struct RunningCall {
    performed: watch::Receiver<Option<Performed>>,
    pub(crate) task: AbortHandle,
}

impl RunningCall {
    /// How it ended; `None` if it was stopped.
    pub(crate) async fn performed(&mut self) -> Option<Performed> {
        self.performed.wait_for(Option::is_some).await.ok().and_then(|end| end.clone())
    }
}

impl InProgress {
    /// The effect in progress under this key, or a new one. It continues even if its caller stops waiting.
    pub(crate) fn join(&self, key: &str, begin: impl Future<Output = Performed> + Send + 'static) -> RunningCall {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(going) = all.get(key) {
            return going.clone();
        }
        let (done, performed) = watch::channel(None);
        let entry = Entry { all: self.clone(), key: key.to_owned() };
        let task = tokio::spawn(async move {
            // Also when the task is aborted.
            let _entry = entry;
            let end = begin.await;
            done.send_replace(Some(end));
        });
        let going = RunningCall { performed, task: task.abort_handle() };
        all.insert(key.to_owned(), going.clone());
        going
    }
}

struct Entry {
    all: InProgress,
    key: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// The reply that an earlier attempt left.
pub(crate) async fn recall(store: &dyn Store, job: &Job) -> Result<Option<Performed>, StoreError> {
    let record = store.record(&job.context.user, KIND, &key(job)).await?;
    Ok(record.and_then(|record| serde_json::from_value(record.value).ok()).map(Performed::Replied))
}

/// Keeps a reply until the runs of the thread have ended. One that is too large is not kept.
pub(crate) async fn keep(store: &dyn Store, job: &Job, performed: &Performed, at_ms: i64) {
    let Performed::Replied(reply) = performed else { return };
    let value = serde_json::to_value(reply).unwrap_or(Value::Null);
    let record = NewRecord { user: job.context.user.clone(), kind: KIND.to_owned(), key: key(job), value, at_ms };
    if let Err(error) = store.put_record(record).await {
        tracing::info!(run = %job.run, "a reply could not be kept for another attempt: {error}");
    }
}

fn key(job: &Job) -> String {
    format!("{}{}", prefix(&job.thread), call_key(job))
}

//! Attempts that ended their worker. Restate makes an attempt again when its worker is gone, so one that ends its process every time would end worker after
//! worker. Every attempt but the first is counted in the store before it begins. After `Settings::takeovers_max` in a row it is not made again: an effect is
//! answered with a failure, a run that cannot even be opened is ended as crashed. Both are reported as runs that were given up.
//!
//! From the third attempt on, a worker performs one such effect at a time, so that the count of one that did nothing wrong does not grow with that of the one
//! that did. The counts are deleted with what else is kept for the calls of the thread.

use std::time::Duration;

use engine::Performed;
use graph::{Failure, FailureKind, Job, Reply, ThreadId, UserId};
use serde_json::Value;
use store::{NewRecord, Store, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::job::{call_key, prefix};
use crate::worker::Shared;

/// What such records are called in the store.
pub(crate) const KIND: &str = "restate-crashes";
/// Attempts after which an effect is performed without other suspects beside it.
const SUSPECT_FROM: u64 = 3;
/// How long a suspect keeps the others waiting.
pub(crate) const ALONE_MAX: Duration = Duration::from_secs(30);

/// What an attempt that is counted may do.
pub(crate) enum Admission {
    /// Begin. A suspect holds the permit while it is performed, for `ALONE_MAX` at most.
    Begin(Option<OwnedSemaphorePermit>),
    /// Nothing: so many attempts before it did not end.
    GivenUp(u64),
}

/// Counts an attempt at an effect that is not the first.
pub(crate) async fn admit(shared: &Shared, job: &Job) -> Result<Admission, StoreError> {
    let store = &**shared.engine.store();
    let (user, key) = (&job.context.user, format!("{}{}", prefix(&job.thread), call_key(job)));
    let before = read(store, user, &key).await?;
    let is_given_up = before >= u64::from(shared.engine.takeovers_max());
    let alone = match before + 1 >= SUSPECT_FROM && !is_given_up {
        // The semaphore is never closed.
        true => shared.suspects.clone().acquire_owned().await.ok(),
        false => None,
    };
    if is_given_up {
        return Ok(Admission::GivenUp(before + 1));
    }
    write(store, user, &key, before + 1, (shared.clock)()).await?;
    if before > 0 {
        tracing::warn!(run = %job.run, attempts = before + 1, "the worker that performed an effect of this run ended again");
    }
    Ok(Admission::Begin(alone))
}

/// What the run receives instead of the reply of an effect that ended its worker again and again.
pub(crate) fn reply_given_up(crashes: u64) -> Performed {
    let why = format!("the worker that performed this ended {crashes} times in a row, so it is not tried again");
    Performed::Replied(Reply::failed(Failure::new(FailureKind::Internal, why)))
}

/// Counts an attempt to open a run that is not the first, and returns how many there were.
pub(crate) async fn count_opening(shared: &Shared, user: &UserId, thread: &ThreadId) -> Result<u64, StoreError> {
    let store = &**shared.engine.store();
    let key = opening_key(thread);
    let count = read(store, user, &key).await? + 1;
    write(store, user, &key, count, (shared.clock)()).await?;
    Ok(count)
}

/// The run could be opened: what ends a worker from now on is counted as an effect.
pub(crate) async fn forget_opening(shared: &Shared, user: &UserId, thread: &ThreadId) {
    if let Err(error) = shared.engine.store().drop_record(user, KIND, &opening_key(thread)).await {
        tracing::info!(%thread, "the count of attempts to open its run stays until the next one: {error}");
    }
}

fn opening_key(thread: &ThreadId) -> String {
    format!("{}opening", prefix(thread))
}

async fn read(store: &dyn Store, user: &UserId, key: &str) -> Result<u64, StoreError> {
    Ok(store.record(user, KIND, key).await?.and_then(|record| record.value.as_u64()).unwrap_or_default())
}

async fn write(store: &dyn Store, user: &UserId, key: &str, count: u64, at_ms: i64) -> Result<(), StoreError> {
    let record = NewRecord { user: user.clone(), kind: KIND.to_owned(), key: key.to_owned(), value: Value::from(count), at_ms };
    match store.put_record(record).await {
        // A user with that many interrupted calls: they are made without a count.
        Err(StoreError::TooMany { .. }) => Ok(()),
        written => written,
    }
}

//! What users add to their threads, beside messages and runs: a title, tags, branches, links for readers, and files of the whole.
//!
//! ```text
//!   details    title, pin, tags
//!   branches   which turn a turn follows, where it is not the one before it
//!   shares     links through which anybody can read some turns
//!   messages   of a thread, read in small steps
//!   export     the whole conversation as a file
//!   reading    the page behind a link
//! ```
//!
//! These are records of the store, one for each thread and kind. Each names the time at which its thread was made, so that a record of a deleted thread does
//! not apply to a later thread of the same name.

pub(crate) mod branches;
pub mod details;
pub(crate) mod export;
pub(crate) mod messages;
pub(crate) mod reading;
pub mod shares;
#[cfg(test)]
mod tests;

use graph::{ThreadId, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{NewRecord, RecordRow, Store, StoreError, ThreadRow};

use crate::guard::now_ms;
use crate::problem::Problem;

#[derive(Serialize, Deserialize)]
struct StoredDetail<T> {
    /// When its thread was made.
    made_ms: i64,
    value: T,
}

impl<T: DeserializeOwned> StoredDetail<T> {
    fn read(row: RecordRow) -> Result<StoredDetail<T>, StoreError> {
        let RecordRow { kind, key, value, .. } = row;
        serde_json::from_value(value).map_err(|error| StoreError::Database(format!("the record {kind} {key} cannot be read: {error}")))
    }
}

fn owner(thread: &ThreadRow) -> UserId {
    thread.user.clone().unwrap_or_default()
}

async fn kept<T: DeserializeOwned + Default>(store: &dyn Store, kind: &str, thread: &ThreadRow) -> Result<T, StoreError> {
    let Some(row) = store.record(&owner(thread), kind, thread.thread.as_str()).await? else { return Ok(T::default()) };
    let kept: StoredDetail<T> = StoredDetail::read(row)?;
    Ok(if kept.made_ms == thread.created_ms { kept.value } else { T::default() })
}

async fn keep<T: Serialize + Sync>(store: &dyn Store, kind: &str, thread: &ThreadRow, value: &T) -> Result<(), Problem> {
    let value = serde_json::to_value(StoredDetail { made_ms: thread.created_ms, value }).map_err(|error| Problem::internal(&error))?;
    let record = NewRecord { user: owner(thread), kind: kind.to_owned(), key: thread.thread.to_string(), value, at_ms: now_ms() };
    Ok(store.put_record(record).await?)
}

/// Every kind of document that is kept for users.
pub(crate) const RECORD_KINDS: [&str; 3] = [branches::KIND, details::KIND, shares::KIND];

/// Removes everything about a thread that was deleted.
pub async fn forget(store: &dyn Store, user: &UserId, thread: &ThreadId) -> Result<(), StoreError> {
    for kind in [details::KIND, branches::KIND] {
        store.drop_record(user, kind, thread.as_str()).await?;
    }
    shares::revoke(store, user, thread, None).await.map(drop)
}

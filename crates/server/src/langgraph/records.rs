//! What is kept for clients of LangGraph beside runs and their threads, as documents of the store.

use graph::UserId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::{NewRecord, RecordFilter, Store};

use crate::guard::now_ms;
use crate::langserve::Refused;
use crate::problem::Problem;

pub(super) const THREAD: &str = "langgraph.thread";
pub(super) const RUN: &str = "langgraph.run";
pub(super) const ASSISTANT: &str = "langgraph.assistant";
/// Runs that are not begun yet.
pub(super) const QUEUED: &str = "langgraph.queued";
pub(super) const CRON: &str = "langgraph.cron";
pub(super) const ITEM: &str = "langgraph.item";
/// Runs whose end is still to be reported to an address.
pub(super) const WEBHOOK: &str = "langgraph.webhook";

/// Every kind of document that is kept for users.
pub(crate) const KINDS: [&str; 7] = [THREAD, RUN, ASSISTANT, QUEUED, CRON, ITEM, WEBHOOK];

/// A document, read.
#[derive(Clone, Debug)]
pub(super) struct Kept<T> {
    pub(super) user: UserId,
    pub(super) key: String,
    pub(super) value: T,
    pub(super) created_ms: i64,
    pub(super) updated_ms: i64,
}

impl<T: DeserializeOwned> Kept<T> {
    fn read(row: store::RecordRow) -> Result<Kept<T>, Refused> {
        let value = serde_json::from_value(row.value).map_err(|error| Problem::internal(&format!("{} {:?}: {error}", row.kind, row.key)))?;
        Ok(Kept { user: row.user, key: row.key, value, created_ms: row.created_ms, updated_ms: row.updated_ms })
    }
}

pub(super) async fn get<T: DeserializeOwned>(store: &dyn Store, user: &UserId, kind: &str, key: &str) -> Result<Option<Kept<T>>, Refused> {
    store.record(user, kind, key).await.map_err(Problem::from)?.map(Kept::read).transpose()
}

pub(super) async fn put<T: Serialize + Sync>(store: &dyn Store, user: &UserId, kind: &str, key: &str, value: &T) -> Result<(), Refused> {
    let value = serde_json::to_value(value).map_err(|error| Problem::internal(&error))?;
    let record = NewRecord { user: user.clone(), kind: kind.to_owned(), key: key.to_owned(), value, at_ms: now_ms() };
    Ok(store.put_record(record).await.map_err(Problem::from)?)
}

/// Of one user, or of all.
pub(super) async fn list<T: DeserializeOwned>(store: &dyn Store, user: Option<&UserId>, kind: &str, prefix: &str) -> Result<Vec<Kept<T>>, Refused> {
    let filter = RecordFilter { kind: kind.to_owned(), user: user.cloned(), key_prefix: prefix.to_owned(), limit: store::RECORDS_MAX };
    store.records(filter).await.map_err(Problem::from)?.into_iter().map(Kept::read).collect()
}

pub(super) async fn remove(store: &dyn Store, user: &UserId, kind: &str, key: &str) -> Result<bool, Refused> {
    Ok(store.drop_record(user, kind, key).await.map_err(Problem::from)?)
}

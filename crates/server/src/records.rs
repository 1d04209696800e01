//! What protocols keep for their clients beside runs and threads, as documents of the store.

use std::marker::PhantomData;

use graph::UserId;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use store::{NewRecord, RECORDS_LISTED_BYTES_MAX, RecordFilter, Store};

use crate::guard::now_ms;
use crate::problem::{Problem, StatusCode};

/// A document, read.
#[derive(Clone, Debug)]
pub(crate) struct StoredRecord<T> {
    pub(crate) user: UserId,
    pub(crate) key: String,
    pub(crate) value: T,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
}

impl<T: DeserializeOwned> StoredRecord<T> {
    fn read(row: store::RecordRow) -> Result<StoredRecord<T>, Problem> {
        let value = serde_json::from_value(row.value).map_err(|error| Problem::internal(&format!("{} {:?}: {error}", row.kind, row.key)))?;
        Ok(StoredRecord { user: row.user, key: row.key, value, created_ms: row.created_ms, updated_ms: row.updated_ms })
    }
}

pub(crate) async fn get<T: DeserializeOwned>(store: &dyn Store, user: &UserId, kind: &str, key: &str) -> Result<Option<StoredRecord<T>>, Problem> {
    store.record(user, kind, key).await?.map(StoredRecord::read).transpose()
}

pub(crate) async fn put<T: Serialize + Sync>(store: &dyn Store, user: &UserId, kind: &str, key: &str, value: &T) -> Result<(), Problem> {
    let value = serde_json::to_value(value).map_err(|error| Problem::internal(&error))?;
    let record = NewRecord { user: user.clone(), kind: kind.to_owned(), key: key.to_owned(), value, at_ms: now_ms() };
    Ok(store.put_record(record).await?)
}

/// All of one user whose keys begin so. Refused where they are more than should be in memory at once.
pub(crate) async fn list<T: DeserializeOwned>(store: &dyn Store, user: &UserId, kind: &str, prefix: &str) -> Result<Vec<StoredRecord<T>>, Problem> {
    let mut filter =
        RecordFilter { kind: kind.to_owned(), user: Some(user.clone()), key_prefix: prefix.to_owned(), after: None, limit: store::RECORDS_MAX };
    let rows = store.records(filter.clone()).await?;
    if let Some(last) = rows.last() {
        filter.after = Some((last.key.clone(), last.user.clone()));
        filter.limit = 1;
        if !store.records(filter).await?.is_empty() {
            let words = format!("more than {RECORDS_LISTED_BYTES_MAX} bytes would have to be looked through; ask for a part of them, or delete some");
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, "limit", words));
        }
    }
    rows.into_iter().map(StoredRecord::read).collect()
}

/// When each of one user's documents was changed, and its key; the oldest first. Documents are read page by page, and only this is kept of them.
pub(crate) async fn by_age(store: &dyn Store, user: &UserId, kind: &'static str) -> Result<Vec<(i64, String)>, Problem> {
    let mut pages = Pages::<IgnoredAny> { user: Some(user.clone()), ..Pages::of(kind) };
    let mut times = Vec::new();
    while let Some(page) = pages.next(store).await? {
        times.extend(page.into_iter().map(|kept| (kept.updated_ms, kept.key)));
    }
    times.sort_unstable();
    Ok(times)
}

pub(crate) async fn remove(store: &dyn Store, user: &UserId, kind: &str, key: &str) -> Result<bool, Problem> {
    Ok(store.drop_record(user, kind, key).await?)
}

/// Documents of a kind that are read at once.
const PAGE: usize = 500;

/// Documents of a kind, page by page; of everybody, or of one user. However many one user has, those of the others are reached.
pub(crate) struct Pages<T> {
    kind: &'static str,
    user: Option<UserId>,
    after: Option<(String, UserId)>,
    page: usize,
    is_last: bool,
    read: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Pages<T> {
    pub(crate) fn of(kind: &'static str) -> Pages<T> {
        Pages { kind, user: None, after: None, page: PAGE, is_last: false, read: PhantomData }
    }

    /// `None` after the last one. A document that cannot be read is left out, and the log names it: it must not stop the others.
    pub(crate) async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<StoredRecord<T>>>, Problem> {
        if self.is_last {
            return Ok(None);
        }
        let after = self.after.take();
        let filter = RecordFilter { kind: self.kind.to_owned(), user: self.user.clone(), key_prefix: String::new(), after, limit: self.page };
        let rows = store.records(filter).await?;
        // Large documents make a page shorter than was asked for.
        self.is_last = rows.is_empty();
        self.after = rows.last().map(|last| (last.key.clone(), last.user.clone()));
        Ok(Some(rows.into_iter().filter_map(|row| StoredRecord::read(row).ok()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use store::MemoryStore;

    use super::*;

    /// One user has more documents than a page, and one of them is damaged: everybody's are reached.
    #[tokio::test]
    async fn nobodys_documents_hide_those_of_others() {
        let store = MemoryStore::new();
        let (many, few) = (UserId::from("ada"), UserId::from("bob"));
        for at in 0..25 {
            put(&store, &many, "kind", &format!("a{at:03}"), &json!({ "n": at })).await.unwrap();
        }
        put(&store, &many, "kind", "a999", &json!("damaged")).await.unwrap();
        put(&store, &few, "kind", "z", &json!({ "n": 99 })).await.unwrap();
        let mut pages = Pages::<serde_json::Map<String, Value>> { page: 10, ..Pages::of("kind") };
        let mut seen = Vec::new();
        while let Some(page) = pages.next(&store).await.unwrap() {
            assert!(page.len() <= 10);
            seen.extend(page);
        }
        assert_eq!((seen.len(), seen.last().map(|last| last.user.clone())), (26, Some(few)));
    }

    /// One request must not bring all that a user may store into memory.
    #[tokio::test]
    async fn more_than_fits_into_memory_is_refused() {
        let store = MemoryStore::new();
        let ada = UserId::from("ada");
        let large = "x".repeat(4_000_000);
        for at in 0..10 {
            put(&store, &ada, "kind", &format!("{at}"), &json!(large)).await.unwrap();
        }
        let refused = list::<Value>(&store, &ada, "kind", "").await.unwrap_err();
        assert!(refused.status == 507 && refused.message.contains("ask for a part"), "{}", refused.message);
        assert_eq!(list::<Value>(&store, &ada, "kind", "3").await.unwrap().len(), 1);
        assert!(list::<Value>(&store, &ada, "other", "").await.unwrap().is_empty());
        // What is too old is found all the same.
        put(&store, &ada, "kind", "4", &json!("newer")).await.unwrap();
        put(&store, &UserId::from("bob"), "kind", "0", &json!("of somebody else")).await.unwrap();
        let all = by_age(&store, &ada, "kind").await.unwrap();
        assert!(all.len() == 10 && all.is_sorted(), "{all:?}");
    }
}

//! Links through which anybody can read the questions, answers and sources of some turns of a thread.
//!
//! A link holds 256 random bits; the store keeps its SHA-256 with the owner, so that a copy of the database opens no link. A link shows the turns that it was
//! made with, and no later ones. It ends when it is revoked or its thread is deleted.

use graph::{RunId, ThreadId, UserId};
use serde::{Deserialize, Serialize};
use store::{NewRecord, RECORDS_MAX, RecordFilter, Store, StoreError, ThreadRow};
use wire::api::Share;

use super::{StoredDetail, branches, owner};
use crate::guard::{digest, now_ms, secret};
use crate::problem::Problem;

pub(crate) const KIND: &str = "thread.share";
/// The path below which links are.
pub const PATH: &str = "/share/";
const SHARES_MAX: usize = 20;
const TURNS_MAX: usize = 500;
/// Hex digits of the digest: enough to name one link of a thread.
const ID_CHARS: usize = 12;
/// How every token begins; a link needs only the random part.
const PREFIX: &str = "baton_";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Shared {
    thread: String,
    runs: Vec<RunId>,
}

/// Makes a link to these turns, or to those of the newest branch. Its path is given this once.
pub async fn make(store: &dyn Store, thread: &ThreadRow, runs: Option<&[String]>) -> Result<Share, Problem> {
    let wrong_number = |turns: usize| Problem::invalid(format!("a link shows 1 to {TURNS_MAX} turns, not {turns}"));
    // Before they are looked for: a request has room for many names.
    if let Some(wanted) = runs.filter(|wanted| wanted.len() > TURNS_MAX) {
        return Err(wrong_number(wanted.len()));
    }
    let known = branches::runs(store, thread).await?;
    let runs: Vec<RunId> = match runs {
        None => branches::newest(store, thread).await?,
        Some(wanted) => wanted
            .iter()
            .map(|run| known.iter().find(|known| known.as_str() == run).cloned().ok_or_else(|| Problem::not_found("run in this thread")))
            .collect::<Result<_, _>>()?,
    };
    if runs.is_empty() || runs.len() > TURNS_MAX {
        return Err(wrong_number(runs.len()));
    }
    if list(store, &owner(thread), &thread.thread).await?.len() >= SHARES_MAX {
        return Err(Problem::conflict(format!("this thread has {SHARES_MAX} links already; revoke one first")));
    }
    let token = secret()?.trim_start_matches(PREFIX).to_owned();
    let (key, turns, at_ms) = (key_of(&token), runs.len(), now_ms());
    let shared = StoredDetail { made_ms: thread.created_ms, value: Shared { thread: thread.thread.to_string(), runs } };
    let value = serde_json::to_value(shared).map_err(|error| Problem::internal(&error))?;
    store.put_record(NewRecord { user: owner(thread), kind: KIND.to_owned(), key: key.clone(), value, at_ms }).await?;
    Ok(Share { id: key[..ID_CHARS].to_owned(), turns, created_ms: at_ms, path: Some(format!("{PATH}{token}")) })
}

/// The links of a thread, oldest first.
pub async fn list(store: &dyn Store, user: &UserId, thread: &ThreadId) -> Result<Vec<Share>, StoreError> {
    let mut filter = RecordFilter { kind: KIND.to_owned(), user: Some(user.clone()), key_prefix: String::new(), limit: RECORDS_MAX, after: None };
    let mut all = Vec::new();
    // A page ends early where its records are long. A link that was not found could not be revoked.
    loop {
        let page = store.records(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some((last.key.clone(), last.user.clone()));
        for row in page {
            let (id, created_ms) = (row.key[..ID_CHARS.min(row.key.len())].to_owned(), row.created_ms);
            let StoredDetail { value, .. } = StoredDetail::<Shared>::read(row)?;
            if value.thread == thread.as_str() {
                all.push(Share { id, turns: value.runs.len(), created_ms, path: None });
            }
        }
    }
    all.sort_by_key(|share| share.created_ms);
    Ok(all)
}

/// Ends one link of a thread, or all. Returns how many there were.
pub async fn revoke(store: &dyn Store, user: &UserId, thread: &ThreadId, id: Option<&str>) -> Result<usize, StoreError> {
    let mut revoked = 0;
    for share in list(store, user, thread).await?.into_iter().filter(|share| id.is_none_or(|id| id == share.id)) {
        let filter = RecordFilter { kind: KIND.to_owned(), user: Some(user.clone()), key_prefix: share.id, limit: 1, after: None };
        for row in store.records(filter).await? {
            revoked += usize::from(store.drop_record(user, KIND, &row.key).await?);
        }
    }
    Ok(revoked)
}

/// The thread and the turns behind a link, if there is one.
pub(crate) async fn open(store: &dyn Store, token: &str) -> Result<Option<(ThreadRow, Vec<RunId>)>, StoreError> {
    // The whole key: the store finds it by its index, for any owner.
    let key = key_of(token);
    let filter = RecordFilter { kind: KIND.to_owned(), user: None, key_prefix: key.clone(), limit: 1, after: None };
    let Some(row) = store.records(filter).await?.pop().filter(|row| row.key == key) else { return Ok(None) };
    let user = row.user.clone();
    let StoredDetail { made_ms, value } = StoredDetail::<Shared>::read(row)?;
    let thread = store.thread(&ThreadId::from(value.thread.as_str())).await?;
    let is_same = |thread: &ThreadRow| thread.created_ms == made_ms && thread.user.as_ref() == Some(&user);
    Ok(thread.filter(is_same).map(|thread| (thread, value.runs)))
}

fn key_of(token: &str) -> String {
    digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(user: &str) -> ThreadRow {
        ThreadRow { thread: "t".into(), title: "t".into(), messages: 2, created_ms: 5, updated_ms: 5, user: Some(user.into()) }
    }

    #[tokio::test]
    async fn a_link_needs_turns_of_the_thread_and_a_wrong_one_opens_nothing() {
        let store = store::MemoryStore::new();
        assert!(make(&store, &row("ada"), None).await.is_err(), "there is no turn to show");
        let foreign = make(&store, &row("ada"), Some(&["other".to_owned()])).await.unwrap_err();
        assert_eq!(foreign.status, crate::problem::StatusCode::NOT_FOUND);
        let many: Vec<String> = (0..200_000).map(|n| n.to_string()).collect();
        assert!(
            make(&store, &row("ada"), Some(&many)).await.unwrap_err().message.contains("not 200000"),
            "their number is checked before they are looked for"
        );
        assert!(open(&store, "").await.unwrap().is_none() && open(&store, "0".repeat(64).as_str()).await.unwrap().is_none());
        assert_eq!(revoke(&store, &"ada".into(), &"t".into(), None).await.unwrap(), 0);
    }
}

//! What goes through Restate: a job and its reply, as JSON. Large ones lie in the store, and only their place goes through.

use std::sync::Arc;

use bytes::Bytes;
use engine::Performed;
use graph::{Addresses, Budget, Effect, Job, Key, Name, Placeholder, Reply, RunContext, RunId, TaskId, ThreadId, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{NewRecord, RecordFilter, Store, StoreError};

/// Larger payloads are kept in the store.
const INLINE_BYTES_MAX: usize = 128 << 10;
/// One record of a large payload. As JSON it may be larger, and still fits.
const PART_BYTES_MAX: usize = 512 << 10;
/// Parts of one payload: 256 MiB.
const PARTS_MAX: usize = 512;
/// What such records are called in the store.
const KIND: &str = "restate-payload";

/// Why a payload cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error("a payload of this worker is not understood: {0}; run the same version of Baton everywhere")]
    Unreadable(String),
    #[error("a payload of {bytes} bytes is too large for this engine, which takes {}", PARTS_MAX * PART_BYTES_MAX)]
    TooLarge { bytes: usize },
    #[error("a payload is no longer in the store; the run has ended meanwhile")]
    Missing,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A job as it travels: every field of [`Job`], and who wants to see how it goes.
#[derive(Serialize, Deserialize)]
struct JobPayload {
    thread: ThreadId,
    run: RunId,
    context: RunContext,
    task: TaskId,
    attempt: u32,
    key: String,
    node: Name,
    label: Name,
    effect: Arc<Effect>,
    filled: Vec<Placeholder>,
    filled_by: Vec<String>,
    is_tainted: bool,
    has_private_text: bool,
    addresses: Arc<Addresses>,
    is_allowed: bool,
    after_ms: u64,
    deadline_ms: u64,
    depth: u32,
    budget: Budget,
    /// Runs whose watchers get pieces of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    watched: Vec<RunId>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReplyPayload {
    Replied(Reply),
    InDoubt,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Payload {
    Here(Value),
    /// In the store, in so many records of this user.
    Stored {
        user: UserId,
        key: String,
        parts: usize,
    },
}

/// Where the payloads of a job are kept if they are large.
pub(crate) struct PayloadStore<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) user: UserId,
    /// Unique for the effect, the attempt and the direction.
    pub(crate) key: String,
    pub(crate) now_ms: i64,
}

/// The name of an attempt: the idempotency key of its call.
pub(crate) fn call_key(job: &Job) -> String {
    format!("{}-{}", job.key, job.attempt)
}

/// What the keys of all records of a thread begin with. No thread's is the beginning of another's.
pub(crate) fn prefix(thread: &ThreadId) -> String {
    format!("{}:{thread}/", thread.as_str().len())
}

pub(crate) async fn encode_job(job: Job, watched: Vec<RunId>, place: &PayloadStore<'_>) -> Result<Bytes, PayloadError> {
    let payload = JobPayload {
        key: job.key.to_string(),
        thread: job.thread,
        run: job.run,
        context: job.context,
        task: job.task,
        attempt: job.attempt,
        node: job.node,
        label: job.label,
        effect: job.effect,
        filled: job.filled,
        filled_by: job.filled_by,
        is_tainted: job.is_tainted,
        has_private_text: job.has_private_text,
        addresses: job.addresses,
        is_allowed: job.is_allowed,
        after_ms: job.after_ms,
        deadline_ms: job.deadline_ms,
        depth: job.depth,
        budget: job.budget,
        watched,
    };
    encode(&payload, place).await
}

pub(crate) async fn decode_job(bytes: &[u8], store: &dyn Store) -> Result<(Job, Vec<RunId>), PayloadError> {
    let payload: JobPayload = decode(bytes, store).await?;
    let key: Key = payload.key.parse().map_err(|error| PayloadError::Unreadable(format!("{error:?}")))?;
    let job = Job {
        key,
        thread: payload.thread,
        run: payload.run,
        context: payload.context,
        task: payload.task,
        attempt: payload.attempt,
        node: payload.node,
        label: payload.label,
        effect: payload.effect,
        filled: payload.filled,
        filled_by: payload.filled_by,
        is_tainted: payload.is_tainted,
        has_private_text: payload.has_private_text,
        addresses: payload.addresses,
        is_allowed: payload.is_allowed,
        after_ms: payload.after_ms,
        deadline_ms: payload.deadline_ms,
        depth: payload.depth,
        budget: payload.budget,
    };
    Ok((job, payload.watched))
}

pub(crate) async fn encode_reply(performed: Performed, place: &PayloadStore<'_>) -> Result<Bytes, PayloadError> {
    let payload = match performed {
        Performed::Replied(reply) => ReplyPayload::Replied(reply),
        Performed::InDoubt => ReplyPayload::InDoubt,
        Performed::Lost(why) => return Err(PayloadError::Unreadable(why)),
    };
    encode(&payload, place).await
}

pub(crate) async fn decode_reply(bytes: &[u8], store: &dyn Store) -> Result<Performed, PayloadError> {
    Ok(match decode(bytes, store).await? {
        ReplyPayload::Replied(reply) => Performed::Replied(reply),
        ReplyPayload::InDoubt => Performed::InDoubt,
    })
}

async fn encode(payload: &impl Serialize, place: &PayloadStore<'_>) -> Result<Bytes, PayloadError> {
    let unreadable = |error: serde_json::Error| PayloadError::Unreadable(error.to_string());
    let text = serde_json::to_string(payload).map_err(unreadable)?;
    let wrapped = match text.len() <= INLINE_BYTES_MAX {
        true => Payload::Here(serde_json::from_str(&text).map_err(unreadable)?),
        false => {
            let parts = keep(&text, place).await?;
            Payload::Stored { user: place.user.clone(), key: place.key.clone(), parts }
        }
    };
    Ok(Bytes::from(serde_json::to_vec(&wrapped).map_err(unreadable)?))
}

async fn keep(text: &str, place: &PayloadStore<'_>) -> Result<usize, PayloadError> {
    if text.len() > PARTS_MAX * (PART_BYTES_MAX - 4) {
        return Err(PayloadError::TooLarge { bytes: text.len() });
    }
    let (mut rest, mut parts) = (text, 0);
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES_MAX));
        let key = part_key(&place.key, parts);
        let record = NewRecord { user: place.user.clone(), kind: KIND.to_owned(), key, value: Value::String(part.to_owned()), at_ms: place.now_ms };
        place.store.put_record(record).await?;
        rest = after;
        parts += 1;
    }
    Ok(parts)
}

async fn decode<T: DeserializeOwned>(bytes: &[u8], store: &dyn Store) -> Result<T, PayloadError> {
    let unreadable = |error: serde_json::Error| PayloadError::Unreadable(error.to_string());
    match serde_json::from_slice(bytes).map_err(unreadable)? {
        Payload::Here(value) => serde_json::from_value(value).map_err(unreadable),
        Payload::Stored { user, key, parts } => {
            let mut text = String::new();
            for part in 0..parts.min(PARTS_MAX) {
                let record = store.record(&user, KIND, &part_key(&key, part)).await?.ok_or(PayloadError::Missing)?;
                text.push_str(record.value.as_str().unwrap_or_default());
            }
            serde_json::from_str(&text).map_err(unreadable)
        }
    }
}

fn part_key(key: &str, part: usize) -> String {
    format!("{key}#{part}")
}

/// Records deleted in one round.
const ROUND: usize = 256;

/// Deletes what is kept for a thread of which no run is in progress.
pub(crate) async fn forget(store: &dyn Store, user: &UserId, thread: &ThreadId, kinds: &[&str]) -> Result<(), StoreError> {
    for kind in kinds.iter().chain([&KIND]) {
        let filter = || RecordFilter { kind: (*kind).to_owned(), user: Some(user.clone()), key_prefix: prefix(thread), limit: ROUND, after: None };
        loop {
            let rows = store.records(filter()).await?;
            for row in &rows {
                store.drop_record(user, kind, &row.key).await?;
            }
            if rows.len() < ROUND {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use graph::{Ask, Go, Graph, Next, Replies, Run, Start};
    use serde_json::json;
    use store::MemoryStore;

    use super::*;

    fn job(arguments: Value) -> Job {
        let ask = move |_: &Value| Ask { requests: vec![graph::tool("notes.add", arguments.clone()).into()] };
        let fold = |_: &mut Value, _: &Replies<'_>| Go::end();
        let graph = Graph::of::<Value>("jobs").node("ask", (ask, fold), &[graph::END]).build().unwrap();
        let mut run = Run::start(&graph, Start::new("jobs", "thread", "run", Value::Null)).unwrap();
        match run.next() {
            Next::Perform(mut jobs) => jobs.remove(0),
            other => panic!("one call is due, but {other:?}"),
        }
    }

    fn place(store: &MemoryStore) -> PayloadStore<'_> {
        PayloadStore { store, user: UserId::default(), key: format!("{}x", prefix(&ThreadId::from("thread"))), now_ms: 1 }
    }

    #[tokio::test]
    async fn jobs_are_decoded_as_encoded_and_large_ones_are_sent_by_reference() {
        let store = MemoryStore::default();
        for (bytes, is_inline) in [(10, true), (3 * PART_BYTES_MAX, false)] {
            let sent = job(json!({ "text": "ä".repeat(bytes) }));
            let payload = encode_job(sent.clone(), vec![RunId::from("above")], &place(&store)).await.unwrap();
            assert!(payload.len() < 2_000, "{} bytes go through", payload.len());
            assert_eq!(payload.starts_with(b"{\"here\""), is_inline);
            let (back, watched) = decode_job(&payload, &store).await.unwrap();
            assert_eq!(watched, [RunId::from("above")]);
            assert_eq!(format!("{back:?}"), format!("{sent:?}"));
            forget(&store, &UserId::default(), &sent.thread, &[]).await.unwrap();
            assert_eq!(decode_job(&payload, &store).await.is_ok(), is_inline, "what was kept is deleted with the thread's runs");
        }
        assert!(matches!(decode_job(b"{}", &store).await, Err(PayloadError::Unreadable(_))));
    }

    #[tokio::test]
    async fn replies_and_doubts_are_decoded_as_encoded() {
        let store = MemoryStore::default();
        for performed in [Performed::InDoubt, Performed::Replied(Reply::ok(json!({ "a": 0.1 })).taking_us(7))] {
            let payload = encode_reply(performed.clone(), &place(&store)).await.unwrap();
            assert_eq!(decode_reply(&payload, &store).await.unwrap(), performed);
        }
    }

    #[test]
    fn no_prefix_of_a_thread_is_the_beginning_of_another() {
        assert!(!prefix(&ThreadId::from("a/b")).starts_with(&prefix(&ThreadId::from("a"))));
    }
}

//! The events of a run and of all runs below it as one stream, which many clients can follow, each from its cursor.
//!
//! ```text
//!   engine::Family ──► pump ──► log of frames, ready to be sent ──► stream, stream, stream …
//!                        └────► wake-ups and deltas over a channel that drops instead of blocking
//! ```
//!
//! There is one pump per run, while it is followed. A stream is a position in the log; one that fell behind continues from there and misses only
//! deltas, which are not stored.

mod cursor;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Bytes;
use engine::{Engine, FeedItem, RunState, SeenCounts, TreeItem, TreeWatcher, WatchScope};
use graph::{Event, NumberedEvent, RunId, TaskId, ThreadId};
use serde::Serialize;
use serde_json::json;
use store::Status;
use tokio::sync::broadcast::{self, error::RecvError};

pub(crate) use cursor::{Cursor, path as path_of};

/// Wake-ups and deltas that may be queued for one stream.
const LIVE_MAX: usize = 512;
/// An empty comment, so that proxies do not close an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const NOTHING: &str = ":\n\n";
/// Upper limit of one chunk, in bytes.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Time in which the client that starts a run can connect to its stream.
const EXPECTED_FOR: Duration = Duration::from_secs(5);
/// Time to wait for events that were published before the run came to rest.
const LAST_EVENTS: Duration = Duration::from_millis(100);
/// The same after its end, when everything comes, unless a journal cannot be read any more.
const LAST_OF_ALL: Duration = Duration::from_secs(5);

/// The runs that are followed now.
pub(crate) struct Hubs {
    engine: Engine,
    all: Mutex<HashMap<RunId, Weak<Hub>>>,
}

struct Hub {
    run: RunId,
    state: Mutex<Log>,
    live: broadcast::Sender<LiveItem>,
}

#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    at: Cursor,
    /// The frame that the run rests, with how often it came to rest.
    rest: Option<Bytes>,
    rests: u64,
    /// No more events follow.
    is_over: bool,
    /// The answers that are being generated, and the number of their pieces.
    open: Vec<OpenText>,
    deltas: u64,
}

struct OpenText {
    run: RunId,
    task: TaskId,
    attempt: u32,
    text: String,
    /// Its length as browsers count it.
    units: usize,
}

struct Entry {
    path: Arc<str>,
    seq: u64,
    /// The cursor of a client that has read the log up to here.
    id: String,
    /// All but the id.
    frame: Bytes,
}

#[derive(Clone)]
enum LiveItem {
    /// There is more in the log.
    More,
    Delta {
        /// Its number; a watcher that came later has it in its first snapshot.
        number: u64,
        frame: Bytes,
    },
}

impl Hubs {
    pub(crate) fn new(engine: Engine) -> Arc<Hubs> {
        Arc::new(Hubs { engine, all: Mutex::default() })
    }

    /// Follows a run that is in the store.
    pub(crate) fn follow(self: &Arc<Self>, thread: &ThreadId, run: &RunId, from: Cursor) -> Follower {
        let mut all = self.lock();
        // Subscribed under the lock: a pump that is about to end checks for subscribers under it.
        let (hub, live) = match all.get(run).and_then(Weak::upgrade) {
            Some(hub) => (hub.clone(), hub.live.subscribe()),
            None => {
                let (to, live) = broadcast::channel(LIVE_MAX);
                let hub = Arc::new(Hub { run: run.clone(), state: Mutex::default(), live: to });
                all.insert(run.clone(), Arc::downgrade(&hub));
                let family = TreeWatcher::watch(&self.engine, thread, run, SeenCounts::new(), WatchScope::All);
                tokio::spawn(store::reading_likewise(self.clone().pump(hub.clone(), family)));
                (hub, live)
            }
        };
        let ahead = (!from.is_empty()).then_some(from);
        Follower { hub, live, next: 0, ahead, rests: 0, deltas_from: None, greets: true, is_done: false }
    }

    /// Subscribes to a run that is about to be started, so that its models stream from the start.
    pub(crate) fn expect(self: &Arc<Self>, thread: &ThreadId, run: &RunId) {
        let follower = self.follow(thread, run, Cursor::default());
        tokio::spawn(async move {
            tokio::time::sleep(EXPECTED_FOR).await;
            drop(follower);
        });
    }

    /// How many runs are followed.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    async fn pump(self: Arc<Self>, hub: Arc<Hub>, mut family: TreeWatcher) {
        let mut is_resting = false;
        loop {
            let rest = async {
                // A parked run is not polled; an event comes first.
                if is_resting { std::future::pending().await } else { self.engine.wait(&hub.run).await }
            };
            tokio::select! {
                biased;
                () = hub.live.closed() => {
                    let mut all = self.lock();
                    if hub.live.receiver_count() == 0 {
                        all.remove(&hub.run);
                        return;
                    }
                }
                tree_item = family.next() => match tree_item {
                    Some(Ok(tree_item)) => {
                        if is_resting && matches!(tree_item.item, FeedItem::Event(..)) {
                            is_resting = false;
                            hub.wake();
                        }
                        hub.record(&tree_item);
                    }
                    Some(Err(error)) => tracing::warn!(run = %hub.run, "no further events can be sent: {error}"),
                    None => return self.end(&hub).await,
                },
                at = rest => match at {
                    Ok(RunState::Over(_)) => {
                        drain(&hub, &mut family, LAST_OF_ALL, true).await;
                        return self.end(&hub).await;
                    }
                    Ok(_) => {
                        drain(&hub, &mut family, LAST_EVENTS, false).await;
                        is_resting = true;
                        hub.rest(self.status(&hub.run).await, false);
                    }
                    Err(error) => {
                        tracing::debug!(run = %hub.run, "this process no longer drives the run: {error}");
                        is_resting = true;
                    }
                },
            }
        }
    }

    /// Waits until all followers have read the end.
    async fn end(&self, hub: &Arc<Hub>) {
        hub.rest(self.status(&hub.run).await, true);
        loop {
            hub.live.closed().await;
            let mut all = self.lock();
            if hub.live.receiver_count() == 0 {
                all.remove(&hub.run);
                return;
            }
        }
    }

    async fn status(&self, run: &RunId) -> Status {
        match self.engine.store().run(run).await {
            Ok(Some(row)) => row.status,
            // The run was deleted while it was followed.
            Ok(None) => Status::Cancelled,
            Err(error) => {
                tracing::warn!(%run, "its status is not known: {error}");
                Status::Running
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Hub>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads outstanding events until there are none, or until the time is over.
async fn drain(hub: &Hub, family: &mut TreeWatcher, patience: Duration, to_the_end: bool) {
    let all = async {
        loop {
            let tree_item = match to_the_end {
                true => family.next().await,
                false => tokio::time::timeout(patience, family.next()).await.ok().flatten(),
            };
            match tree_item {
                Some(Ok(tree_item)) => hub.record(&tree_item),
                Some(Err(error)) => tracing::warn!(run = %hub.run, "no further events can be sent: {error}"),
                None => return,
            }
        }
    };
    // A run that publishes without a pause does not rest.
    let _ = tokio::time::timeout(LAST_OF_ALL, all).await;
}

impl OpenText {
    /// Adds a piece and returns where it begins, in UTF-16 units.
    fn add(&mut self, text: &str) -> usize {
        let at = self.units;
        self.text.push_str(text);
        self.units += text.encode_utf16().count();
        at
    }
}

fn delta(run: &RunId, task: TaskId, attempt: u32, at: usize, text: &str) -> Bytes {
    let data = json!({ "run": run, "task": task, "attempt": attempt, "at": at, "text": text });
    format!("event: delta\ndata: {data}\n\n").into()
}

#[derive(Serialize)]
struct EventData<'a> {
    run: &'a RunId,
    at_ms: i64,
    #[serde(flatten)]
    numbered: &'a NumberedEvent,
}

/// An event as `wire::api::RunEvent` describes it.
fn event_data(tree_item: &TreeItem, numbered: &NumberedEvent, at_ms: i64) -> String {
    // `started` has the run itself; the one of the frame would be there twice.
    if !matches!(numbered.event, Event::Started { .. }) {
        return serde_json::to_string(&EventData { run: &tree_item.run, at_ms, numbered }).unwrap_or_default();
    }
    let mut data = serde_json::to_value(numbered).unwrap_or_default();
    data["at_ms"] = json!(at_ms);
    // Whether its answer is the user's, and which effect of which run a child answers.
    data["answers"] = json!(tree_item.is_answer);
    if let Some(parent) = &tree_item.parent {
        data["parent"] = json!(parent);
    }
    data.to_string()
}

impl Hub {
    fn record(&self, tree_item: &TreeItem) {
        let live = match &tree_item.item {
            FeedItem::Event(numbered, at_ms) => {
                let data = event_data(tree_item, numbered, *at_ms);
                let path = cursor::path(&tree_item.path);
                let mut log = self.lock();
                if log.at.has(&path, numbered.seq) {
                    return;
                }
                log.at.record(&path, numbered.seq);
                if let Event::Replied { task, .. } = &numbered.event {
                    log.open.retain(|open| open.run != tree_item.run || open.task != *task);
                }
                let id = log.at.to_string();
                log.entries.push(Entry { path, seq: numbered.seq, id, frame: format!("event: told\ndata: {data}\n\n").into() });
                LiveItem::More
            }
            FeedItem::Delta { task, attempt, text } => {
                let mut log = self.lock();
                let is_it = |open: &OpenText| open.run == tree_item.run && open.task == *task && open.attempt == *attempt;
                let at = match log.open.iter_mut().find(|open| is_it(open)) {
                    Some(open) => open.add(text),
                    None => {
                        let mut open = OpenText { run: tree_item.run.clone(), task: *task, attempt: *attempt, text: String::new(), units: 0 };
                        open.add(text);
                        log.open.push(open);
                        0
                    }
                };
                log.deltas += 1;
                LiveItem::Delta { number: log.deltas, frame: delta(&tree_item.run, *task, *attempt, at, text) }
            }
        };
        // Fails if there is no subscriber at the moment.
        let _ = self.live.send(live);
    }

    fn rest(&self, status: Status, is_over: bool) {
        let mut log = self.lock();
        let data = json!({ "run": self.run, "status": status });
        log.rest = Some(format!("event: end\ndata: {data}\n\n").into());
        log.rests += 1;
        log.is_over = is_over;
        drop(log);
        let _ = self.live.send(LiveItem::More);
    }

    fn wake(&self) {
        self.lock().rest = None;
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A follower: a position in a run's log.
pub(crate) struct Follower {
    hub: Arc<Hub>,
    live: broadcast::Receiver<LiveItem>,
    next: usize,
    /// What was read before, as long as it is ahead of the log position.
    ahead: Option<Cursor>,
    /// Number of rests that were reported.
    rests: u64,
    /// Pieces of answers up to this one were there when this one came.
    deltas_from: Option<u64>,
    greets: bool,
    is_done: bool,
}

impl Follower {
    /// The next piece of the stream; `None` after the run has ended and everything was sent.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        // Sent first, so that the headers are flushed.
        if std::mem::take(&mut self.greets) {
            return Some(Bytes::from_static(b"retry: 1000\n\n"));
        }
        loop {
            if self.is_done {
                return None;
            }
            if let Some(chunk) = self.read() {
                return Some(chunk);
            }
            match tokio::time::timeout(KEEP_ALIVE, self.live.recv()).await {
                Ok(Ok(LiveItem::More)) | Ok(Err(RecvError::Lagged(_))) => {}
                Ok(Ok(LiveItem::Delta { number, frame })) => {
                    if self.deltas_from.is_some_and(|from| number > from) {
                        return Some(frame);
                    }
                }
                Ok(Err(RecvError::Closed)) => return None,
                Err(_) => return Some(Bytes::from_static(NOTHING.as_bytes())),
            }
        }
    }

    /// Unread entries of the log, then the report that the run rests.
    fn read(&mut self) -> Option<Bytes> {
        let log = self.hub.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chunk = String::new();
        while let Some(entry) = log.entries.get(self.next) {
            if chunk.len() > CHUNK_BYTES_MAX {
                break;
            }
            self.next += 1;
            let id = match &mut self.ahead {
                None => entry.id.clone(),
                Some(ahead) if ahead.has(&entry.path, entry.seq) => continue,
                Some(ahead) => {
                    ahead.record(&entry.path, entry.seq);
                    ahead.to_string()
                }
            };
            if self.ahead.is_some() && id == entry.id {
                self.ahead = None;
            }
            chunk.push_str(&format!("id: {id}\n"));
            chunk.push_str(std::str::from_utf8(&entry.frame).unwrap_or_default());
        }
        // A follower that is up to date receives the partial answers.
        if self.next == log.entries.len() && self.deltas_from.is_none() {
            self.deltas_from = Some(log.deltas);
            for open in &log.open {
                let frame = delta(&open.run, open.task, open.attempt, 0, &open.text);
                chunk.push_str(std::str::from_utf8(&frame).unwrap_or_default());
            }
        }
        if self.next == log.entries.len()
            && let Some(rest) = log.rest.as_ref().filter(|_| log.rests > self.rests)
        {
            self.rests = log.rests;
            self.is_done = log.is_over;
            chunk.push_str(std::str::from_utf8(rest).unwrap_or_default());
        }
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

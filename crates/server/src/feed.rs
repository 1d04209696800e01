//! Changes of threads, for lists: one query of the store for all subscribers, and none without subscribers.
//!
//! The store is queried and not the engine, because other processes on the same database change threads too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use graph::{ThreadId, UserId};
use store::{CardFilter, CardRow, Store};
use tokio::sync::broadcast::{self, error::RecvError};
use wire::api;

use crate::conversation::details;
use crate::guard::now_ms;

const EVERY: Duration = Duration::from_millis(500);
/// Clocks of several processes on one machine; and a commit is written a moment after its time was taken.
const OVERLAP_MS: i64 = 5_000;
const CHANGED_MAX: usize = 1_000;
const WAITING_MAX: usize = 1_024;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(crate) struct Feed(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    changes: broadcast::Sender<Change>,
    is_looking: Mutex<bool>,
}

#[derive(Clone)]
struct Change {
    user: UserId,
    frame: Bytes,
}

impl Feed {
    pub(crate) fn new(store: Arc<dyn Store>) -> Feed {
        Feed(Arc::new(Inner { store, changes: broadcast::Sender::new(WAITING_MAX), is_looking: Mutex::default() }))
    }

    pub(crate) fn listen(&self, user: UserId) -> Listener {
        let changes = self.0.changes.subscribe();
        let mut is_looking = self.0.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_looking, true) {
            tokio::spawn(self.0.clone().look());
        }
        Listener { user, changes, greets: true }
    }

    /// The user changed what a list shows of a thread.
    pub(crate) fn changed(&self, user: &UserId, thread: &api::Thread) {
        let _ = self.0.changes.send(Change { user: user.clone(), frame: frame(thread) });
    }

    /// A thread was deleted here. A deletion by another process is noticed when the thread is opened.
    pub(crate) fn gone(&self, user: &UserId, thread: &ThreadId) {
        let data = serde_json::to_string(&api::DeletedThread { thread: thread.to_string() }).unwrap_or_default();
        let _ = self.0.changes.send(Change { user: user.clone(), frame: format!("event: gone\ndata: {data}\n\n").into() });
    }
}

fn frame(thread: &api::Thread) -> Bytes {
    format!("event: thread\ndata: {}\n\n", serde_json::to_string(thread).unwrap_or_default()).into()
}

impl Inner {
    async fn look(self: Arc<Self>) {
        let mut known: HashMap<ThreadId, CardRow> = HashMap::new();
        // Existing threads are in the list that the page has requested, so they are not reported.
        let mut is_first = true;
        let mut since_ms = now_ms() - OVERLAP_MS;
        loop {
            let filter = CardFilter { since_ms: Some(since_ms), limit: CHANGED_MAX, ..CardFilter::default() };
            match self.store.cards(filter).await {
                Ok(cards) => {
                    since_ms = cards.first().map_or(since_ms, |card| card.thread.updated_ms - OVERLAP_MS).max(since_ms);
                    known.retain(|_, card| card.thread.updated_ms >= since_ms);
                    for row in cards.into_iter().rev() {
                        if known.get(&row.thread.thread) == Some(&row) {
                            continue;
                        }
                        let is_news = !is_first || row.thread.updated_ms >= now_ms() - 2 * EVERY.as_millis() as i64;
                        if let Some(user) = row.thread.user.clone().filter(|_| is_news) {
                            let details = details::of(&*self.store, &row.thread).await.unwrap_or_else(|error| {
                                tracing::warn!(thread = %row.thread.thread, "the details of a thread could not be read: {error}");
                                details::Details::default()
                            });
                            // Fails if there is no subscriber at the moment.
                            let _ = self.changes.send(Change { user, frame: frame(&details::shown(&row, details)) });
                        }
                        known.insert(row.thread.thread.clone(), row);
                    }
                    is_first = false;
                }
                Err(error) => tracing::warn!("threads could not be looked at: {error}"),
            }
            tokio::time::sleep(EVERY).await;
            let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
            if self.changes.receiver_count() == 0 {
                *is_looking = false;
                return;
            }
        }
    }
}

pub(crate) struct Listener {
    user: UserId,
    changes: broadcast::Receiver<Change>,
    greets: bool,
}

impl Listener {
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.greets) {
            return Some(Bytes::from_static(b"retry: 1000\n\n"));
        }
        loop {
            match tokio::time::timeout(KEEP_ALIVE, self.changes.recv()).await {
                Ok(Ok(change)) if change.user == self.user => return Some(change.frame),
                Ok(Ok(_)) => {}
                // Too slow: a missed change is reported with the next change of the thread or the next list.
                Ok(Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) => return None,
                Err(_) => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }
}

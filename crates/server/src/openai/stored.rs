//! The events of a response as they are streamed, kept for clients that reconnect: `GET /v1/responses/{id}?stream=true&starting_after=N`.
//!
//! One task writes the events of a response, and any number of clients read them from wherever they were. The log of a response that is over is kept for a while;
//! after that, or after a restart, it is written again from the run, with fewer pieces of text.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use crate::turn::Sink;

/// Logs that are kept.
const LOGS_MAX: usize = 256;
/// Bytes of pieces of text that one log keeps; the rest of the text is in the event that ends it.
const PIECES_BYTES_MAX: usize = 4 << 20;
/// Events that are copied at once for one reader.
const COPIED_MAX: usize = 64;
/// Bytes of all logs that are kept, of all users together; the oldest are dropped first.
const LOGS_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub(super) struct Streams(Mutex<StoredLogs>);

#[derive(Default)]
struct StoredLogs {
    logs: BTreeMap<String, Arc<Log>>,
    order: VecDeque<String>,
}

/// The events of one response.
pub(super) struct Log {
    events: Mutex<Vec<Value>>,
    /// How many there are, and whether that is all.
    state: watch::Sender<(usize, bool)>,
    pieces_bytes: Mutex<usize>,
    /// Bytes of all its events.
    bytes: AtomicUsize,
}

impl Streams {
    /// The log of a response, and whether it is new, so that the caller must write it.
    pub(super) fn log(&self, id: &str) -> (Arc<Log>, bool) {
        let mut kept = self.lock();
        if let Some(log) = kept.logs.get(id) {
            return (log.clone(), false);
        }
        let log = Arc::new(Log {
            events: Mutex::default(),
            state: watch::Sender::new((0, false)),
            pieces_bytes: Mutex::default(),
            bytes: AtomicUsize::new(0),
        });
        let mut bytes: usize = kept.logs.values().map(|log| log.bytes.load(Ordering::Relaxed)).sum();
        kept.logs.insert(id.to_owned(), log.clone());
        kept.order.push_back(id.to_owned());
        while kept.order.len() > LOGS_MAX || (bytes > LOGS_BYTES_MAX && kept.order.len() > 1) {
            // Its readers and its writer still have it.
            if let Some(dropped) = kept.order.pop_front().and_then(|oldest| kept.logs.remove(&oldest)) {
                bytes = bytes.saturating_sub(dropped.bytes.load(Ordering::Relaxed));
            }
        }
        (log, true)
    }

    pub(super) fn forget(&self, id: &str) {
        let mut kept = self.lock();
        kept.logs.remove(id);
        kept.order.retain(|known| known != id);
    }

    fn lock(&self) -> MutexGuard<'_, StoredLogs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Adds an event with its number.
    pub(super) fn push(&self, kind: &str, mut event: Value) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        event["type"] = kind.into();
        event["sequence_number"] = events.len().into();
        self.bytes.fetch_add(event.to_string().len(), Ordering::Relaxed);
        events.push(event);
        self.state.send_replace((events.len(), false));
    }

    /// Whether there is room for a piece of text.
    pub(super) fn takes(&self, piece: &str) -> bool {
        let mut bytes = self.pieces_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes += piece.len();
        *bytes <= PIECES_BYTES_MAX
    }

    pub(super) fn end(&self) {
        self.state.send_modify(|state| state.1 = true);
    }

    /// Sends the events after a number, until the last. A client that has seen more than there is, because the log was written again, gets the last one.
    pub(super) async fn read(&self, after: Option<u64>, sink: &Sink) {
        let mut next = after.map_or(0, |after| usize::try_from(after).unwrap_or(usize::MAX).saturating_add(1));
        let mut state = self.state.subscribe();
        let mut sent = 0;
        loop {
            let (count, is_over) = *state.borrow_and_update();
            let news: Vec<Value> = {
                let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
                let end = count.min(next.saturating_add(COPIED_MAX));
                events.get(next.min(end)..end).unwrap_or_default().to_vec()
            };
            let is_all = next.saturating_add(news.len()) >= count;
            for event in news {
                if !sink.send(frame(&event)).await {
                    return;
                }
                next += 1;
                sent += 1;
            }
            if !is_all {
                continue;
            }
            if is_over {
                let last = self.events.lock().unwrap_or_else(PoisonError::into_inner).last().cloned();
                if let (0, Some(mut last)) = (sent, last) {
                    last["sequence_number"] = next.into();
                    sink.send(frame(&last)).await;
                }
                return;
            }
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = sink.closed() => return,
            }
        }
    }
}

fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn logs_of_all_users_together_are_bounded() {
        let streams = Streams::default();
        let large = "x".repeat(4 << 20);
        for number in 0..40 {
            let (log, is_new) = streams.log(&format!("response {number}"));
            assert!(is_new);
            log.push("response.completed", json!({ "text": large }));
        }
        let kept: usize = streams.lock().logs.values().map(|log| log.bytes.load(Ordering::Relaxed)).sum();
        assert!(kept <= LOGS_BYTES_MAX + (5 << 20), "{kept}");
        assert!(!streams.log("response 39").1, "the newest is kept");
        assert!(streams.log("response 0").1, "the oldest is written again");
        let kept = streams.lock();
        assert_eq!(kept.logs.len(), kept.order.len());
    }
}

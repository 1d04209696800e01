//! Events of a run, starting at any number. Past events are read from the journal; new ones come over a channel that drops events instead of blocking,
//! and a watcher that missed some reads them from the journal.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use graph::{Event, NumberedEvent, RunId, TaskId};
use store::{Change, Piece, StoreError};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::replay::History;
use crate::store_changes::{StoreChanges, WATCHED_FOR};
use crate::{EngineError, Inner, Result, result_of};

/// Events a watcher may be behind before it must read the journal.
const BEHIND_MAX: usize = 1_024;

/// What a watcher of a run gets.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// Durable, numbered without gaps; and when it was written, in milliseconds since 1970.
    Event(Arc<NumberedEvent>, i64),
    /// A piece of an answer that is being generated. Not stored; the reply has the whole text.
    Delta {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// The piece.
        text: Arc<str>,
    },
}

impl FeedItem {
    pub(crate) fn of(piece: Piece) -> FeedItem {
        FeedItem::Delta { task: piece.task, attempt: piece.attempt, text: piece.text.into() }
    }
}

/// An event of a run or of one below it, as the feed of the upper one has it.
#[derive(Clone, Debug)]
pub(crate) struct TreeEvent {
    pub(crate) run: RunId,
    pub(crate) seen: FeedItem,
}

/// The channels of a run's events. Created for the first watcher, since most runs have none.
#[derive(Default)]
pub(crate) struct Feed {
    own: OnceLock<broadcast::Sender<FeedItem>>,
    /// With those of the runs below.
    tree: OnceLock<broadcast::Sender<TreeEvent>>,
    /// Until when the announcement of a watcher in another process is valid.
    remote_until: Mutex<Option<tokio::time::Instant>>,
}

impl Feed {
    pub(crate) fn publish(&self, seen: FeedItem) {
        if let Some(to) = self.own.get() {
            // Fails without a subscriber.
            let _ = to.send(seen);
        }
    }

    pub(crate) fn publish_tree(&self, event: impl FnOnce() -> TreeEvent) {
        if let Some(to) = self.tree.get().filter(|to| to.receiver_count() > 0) {
            let _ = to.send(event());
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.own.get().is_some_and(|to| to.receiver_count() > 0) || self.is_tree_watched()
    }

    pub(crate) fn is_tree_watched(&self) -> bool {
        self.tree.get().is_some_and(|to| to.receiver_count() > 0)
    }

    pub(crate) fn mark_watched_remotely(&self) {
        *self.remote_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokio::time::Instant::now() + WATCHED_FOR);
    }

    pub(crate) fn is_watched_remotely(&self) -> bool {
        let until = *self.remote_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| until > tokio::time::Instant::now())
    }

    fn subscribe(&self) -> broadcast::Receiver<FeedItem> {
        self.own.get_or_init(|| broadcast::channel(BEHIND_MAX).0).subscribe()
    }

    pub(crate) fn subscribe_tree(&self) -> broadcast::Receiver<TreeEvent> {
        self.tree.get_or_init(|| broadcast::channel(BEHIND_MAX).0).subscribe()
    }
}

impl Inner {
    /// The feed of a run, whether it is in memory or will be.
    pub(crate) fn feed_of(&self, run: &RunId) -> Arc<Feed> {
        let all = self.lock_active();
        if let Some(active) = all.get(run) {
            return active.feed.clone();
        }
        let mut early = self.lock_early_subscribers();
        // A feed with another owner belongs to a parked run with a child in memory.
        early.retain(|_, feed| feed.is_watched() || feed.is_watched_remotely() || Arc::strong_count(feed) > 1);
        early.entry(run.clone()).or_default().clone()
    }

    /// Subscribes to what the run publishes from now on.
    fn listen(&self, run: &RunId) -> (Listening, broadcast::Receiver<FeedItem>) {
        let feed = self.feed_of(run);
        let is_active = self.active(run).is_some_and(|active| Arc::ptr_eq(&active.feed, &feed));
        (if is_active { Listening::Going } else { Listening::Early }, feed.subscribe())
    }

    pub(crate) fn lock_early_subscribers(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<Feed>>> {
        self.early_subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Going,
    /// The run was not in memory when it was subscribed to. Another process may drive it, so the store is read from time to time.
    Early,
}

/// Follows the events of a run.
pub struct Watcher {
    engine: Arc<Inner>,
    run: RunId,
    next_seq: u64,
    /// Journal lines that the events so far came from.
    lines: u64,
    ready: VecDeque<FeedItem>,
    live: Option<(Listening, broadcast::Receiver<FeedItem>)>,
    changes: StoreChanges,
    has_read: bool,
    is_over: bool,
    /// A run that is not in the store is not an error: it will be started.
    awaits_start: bool,
}

impl Watcher {
    pub(crate) fn new(engine: Arc<Inner>, run: RunId, from_seq: u64) -> Self {
        let live = Some(engine.listen(&run));
        let changes = StoreChanges::of(&engine.store);
        Watcher {
            engine,
            run,
            next_seq: from_seq,
            lines: 0,
            ready: VecDeque::new(),
            live,
            changes,
            has_read: false,
            is_over: false,
            awaits_start: false,
        }
    }

    /// Waits for a run that is not started yet.
    pub(crate) fn awaiting_start(self) -> Self {
        Watcher { awaits_start: true, ..self }
    }

    /// The next event; `None` after the last one of a run that is over. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<Result<FeedItem>> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Some(Ok(seen));
            }
            if self.is_over {
                return None;
            }
            // A watcher that subscribed before the run started has received everything, including deltas.
            if let Some((Listening::Early, live)) = &self.live
                && !live.is_empty()
            {
                self.has_read = true;
            }
            if !self.has_read {
                match self.catch_up().await {
                    Ok(()) => self.has_read = true,
                    Err(EngineError::Store(StoreError::NoRun { .. })) if self.awaits_start => self.has_read = true,
                    Err(e) => return self.fail(e),
                }
                continue;
            }
            let received = match &mut self.live {
                None => {
                    // Subscribes before it reads the journal, so that no event is missed.
                    self.live = Some(self.engine.listen(&self.run));
                    self.has_read = false;
                    continue;
                }
                Some((Listening::Going, live)) => live.recv().await,
                Some((listening @ Listening::Early, live)) => {
                    let patience = Duration::from_millis(self.engine.settings.poll_ms);
                    let run = &self.run;
                    tokio::select! {
                        received = live.recv() => {
                            *listening = Listening::Going;
                            received
                        }
                        piece = self.changes.watch(run, patience, |change| matches!(change, Change::Run(changed) if changed == run)) => match piece {
                            // Pieces of child runs are for watchers of the whole tree.
                            Some(piece) if piece.run != *run => continue,
                            Some(piece) => return Some(Ok(FeedItem::of(piece))),
                            None => {
                                self.has_read = false;
                                continue;
                            }
                        },
                    }
                }
            };
            match received {
                Ok(FeedItem::Event(numbered, _)) if numbered.seq < self.next_seq => {}
                Ok(FeedItem::Event(numbered, at_ms)) if numbered.seq == self.next_seq => {
                    self.next_seq += 1;
                    self.is_over = matches!(numbered.event, Event::Ended { .. });
                    return Some(Ok(FeedItem::Event(numbered, at_ms)));
                }
                Ok(FeedItem::Event(..)) | Err(RecvError::Lagged(_)) => self.has_read = false,
                Ok(delta @ FeedItem::Delta { .. }) => return Some(Ok(delta)),
                Err(RecvError::Closed) => self.live = None,
            }
        }
    }

    fn fail(&mut self, error: EngineError) -> Option<Result<FeedItem>> {
        self.is_over = true;
        Some(Err(error))
    }

    /// Events in the journal that were not delivered yet. Cancel-safe.
    async fn catch_up(&mut self) -> Result<()> {
        let row = self.engine.row(&self.run).await?;
        let closing = result_of(&row);
        if self.lines > 0 && closing.is_none() && self.engine.store.journal(&self.run, self.lines, 1).await?.is_empty() {
            return Ok(());
        }
        let past = match History::of(&*self.engine.store, &self.engine.flows, &self.run).await {
            Ok(past) => past,
            // The flow panics on this journal, as it did before; its outcome is in the row.
            Err(EngineError::Crashed { .. }) if closing.is_some() => History::default(),
            Err(e) => return Err(e),
        };
        self.lines = past.lines;
        let times_ms = past.published_ms.into_iter().chain(std::iter::repeat(row.updated_ms));
        let new = past.events.into_iter().zip(times_ms).filter(|(numbered, _)| numbered.seq >= self.next_seq);
        self.ready.extend(new.map(|(numbered, at_ms)| FeedItem::Event(Arc::new(numbered), at_ms)));
        if let Some(FeedItem::Event(last, _)) = self.ready.back() {
            self.next_seq = last.seq + 1;
        }
        let has_end = matches!(self.ready.back(), Some(FeedItem::Event(last, _)) if matches!(last.event, Event::Ended { .. }));
        if let Some(closing) = closing {
            self.is_over = true;
            if !has_end && past.outcome.is_none() {
                let numbered = NumberedEvent { seq: self.next_seq, event: Event::Ended { outcome: Arc::new(closing.outcome) } };
                self.ready.push_back(FeedItem::Event(Arc::new(numbered), row.updated_ms));
            }
        }
        Ok(())
    }
}

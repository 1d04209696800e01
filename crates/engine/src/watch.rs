//! Events of a run to anyone who wants them, from any number on. What is past comes out of the journal, what is new over a channel
//! that drops rather than waits; a watcher that fell behind goes back to the journal. So a slow or late one costs nobody else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use graph::{Event, RunId, TaskId, Told};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::replay::History;
use crate::{EngineError, Inner, Result, closing_of};

/// Events a watcher may be behind before it must go back to the journal.
const BEHIND_MAX: usize = 1_024;

#[derive(Clone, Debug)]
pub enum Seen {
    /// Durable, numbered without gaps; and when it was written, in milliseconds since 1970.
    Told(Arc<Told>, i64),
    /// A piece of an answer while it is being made. Not kept; the whole comes with the reply.
    Delta { task: TaskId, attempt: u32, text: Arc<str> },
}

/// Made on the first watcher's demand; most runs are never watched.
#[derive(Default)]
pub(crate) struct Feed(OnceLock<broadcast::Sender<Seen>>);

impl Feed {
    pub(crate) fn publish(&self, seen: Seen) {
        if let Some(to) = self.0.get() {
            // Nobody listening is fine.
            let _ = to.send(seen);
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.get().is_some_and(|to| to.receiver_count() > 0)
    }

    fn subscribe(&self) -> broadcast::Receiver<Seen> {
        self.0.get_or_init(|| broadcast::channel(BEHIND_MAX).0).subscribe()
    }

    /// Goes on with a feed that was listened to before the run was in memory.
    pub(crate) fn begin_as(&self, feed: broadcast::Sender<Seen>) {
        // A feed that is there already is listened to by nobody yet: the run is only just being made known.
        let _ = self.0.set(feed);
    }
}

impl Inner {
    /// Whatever the run will tell from now on, whether it is in memory or will be.
    fn listen(&self, run: &RunId) -> (Listening, broadcast::Receiver<Seen>) {
        let all = self.lock_active();
        if let Some(active) = all.get(run) {
            return (Listening::Going, active.feed.subscribe());
        }
        let mut foretold = self.lock_foretold();
        foretold.retain(|_, feed| feed.receiver_count() > 0);
        (Listening::Foretold, foretold.entry(run.clone()).or_insert_with(|| broadcast::channel(BEHIND_MAX).0).subscribe())
    }

    pub(crate) fn lock_foretold(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, broadcast::Sender<Seen>>> {
        self.foretold.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Going,
    /// The run was not in memory when listening began; it may also go on in another process, so the store is looked at too.
    Foretold,
}

pub struct Watcher {
    engine: Arc<Inner>,
    run: RunId,
    next_seq: u64,
    /// Journal lines that the events so far came from.
    lines: u64,
    ready: VecDeque<Seen>,
    live: Option<(Listening, broadcast::Receiver<Seen>)>,
    has_read: bool,
    is_over: bool,
}

impl Watcher {
    pub(crate) fn new(engine: Arc<Inner>, run: RunId, from_seq: u64) -> Self {
        let live = Some(engine.listen(&run));
        Watcher { engine, run, next_seq: from_seq, lines: 0, ready: VecDeque::new(), live, has_read: false, is_over: false }
    }

    /// The next event; `None` after the last one of a run that is over. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<Result<Seen>> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Some(Ok(seen));
            }
            if self.is_over {
                return None;
            }
            // Who listened before the run began has heard all of it, with the pieces of answers that a journal does not have.
            if let Some((Listening::Foretold, live)) = &self.live
                && !live.is_empty()
            {
                self.has_read = true;
            }
            if !self.has_read {
                match self.catch_up().await {
                    Ok(()) => self.has_read = true,
                    Err(e) => return self.fail(e),
                }
                continue;
            }
            let heard = match &mut self.live {
                None => {
                    // Listens first and reads the past after, so that nothing falls between the two.
                    self.live = Some(self.engine.listen(&self.run));
                    self.has_read = false;
                    continue;
                }
                Some((Listening::Going, live)) => live.recv().await,
                Some((listening @ Listening::Foretold, live)) => {
                    let patience = Duration::from_millis(self.engine.settings.poll_ms);
                    match tokio::time::timeout(patience, live.recv()).await {
                        Ok(heard) => {
                            *listening = Listening::Going;
                            heard
                        }
                        Err(_) => {
                            self.has_read = false;
                            continue;
                        }
                    }
                }
            };
            match heard {
                Ok(Seen::Told(told, _)) if told.seq < self.next_seq => {}
                Ok(Seen::Told(told, at_ms)) if told.seq == self.next_seq => {
                    self.next_seq += 1;
                    self.is_over = matches!(told.event, Event::Ended { .. });
                    return Some(Ok(Seen::Told(told, at_ms)));
                }
                Ok(Seen::Told(..)) | Err(RecvError::Lagged(_)) => self.has_read = false,
                Ok(delta @ Seen::Delta { .. }) => return Some(Ok(delta)),
                Err(RecvError::Closed) => self.live = None,
            }
        }
    }

    fn fail(&mut self, error: EngineError) -> Option<Result<Seen>> {
        self.is_over = true;
        Some(Err(error))
    }

    /// What the journal has that was not told yet. A caller may drop this anywhere.
    async fn catch_up(&mut self) -> Result<()> {
        let row = self.engine.row(&self.run).await?;
        let closing = closing_of(&row);
        if self.lines > 0 && closing.is_none() && self.engine.store.journal(&self.run, self.lines, 1).await?.is_empty() {
            return Ok(());
        }
        let past = match History::of(&*self.engine.store, &self.engine.flows, &self.run).await {
            Ok(past) => past,
            // The flow crashes on this journal, as it did then; how it ended is known all the same.
            Err(EngineError::Crashed { .. }) if closing.is_some() => History::default(),
            Err(e) => return Err(e),
        };
        self.lines = past.lines;
        let times_ms = past.told_ms.into_iter().chain(std::iter::repeat(row.updated_ms));
        let new = past.events.into_iter().zip(times_ms).filter(|(told, _)| told.seq >= self.next_seq);
        self.ready.extend(new.map(|(told, at_ms)| Seen::Told(Arc::new(told), at_ms)));
        if let Some(Seen::Told(last, _)) = self.ready.back() {
            self.next_seq = last.seq + 1;
        }
        let has_end = matches!(self.ready.back(), Some(Seen::Told(last, _)) if matches!(last.event, Event::Ended { .. }));
        if let Some(closing) = closing {
            self.is_over = true;
            if !has_end && past.outcome.is_none() {
                let told = Told { seq: self.next_seq, event: Event::Ended { outcome: Arc::new(closing.outcome) } };
                self.ready.push_back(Seen::Told(Arc::new(told), row.updated_ms));
            }
        }
        Ok(())
    }
}

//! The events of a run and of the runs below it, in one stream.
//!
//! Every run publishes its events to its own feed and to those of the runs above it (`active.rs`). So one
//! subscription to the upper run has them all, from the first event of a child on. What came before, and what a slow watcher missed, is read from
//! the journals:
//!
//! ```text
//!   subscribe ─► read the journals of the tree ─► events of the feed, each run in the order of its numbers ─┐
//!                     ▲                                                                                     │
//!                     └──────────── a number is missing, the feed was closed or overran ────────────────────┘
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use graph::{Effect, Event, Graph, Key, NumberedEvent, Parent, RunId, TaskId, ThreadId, child_run};
use store::Change;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

use crate::store_changes::StoreChanges;
use crate::watch::TreeEvent;
use crate::{Engine, EngineError, FeedItem, History, Result, Watcher, result_of};

/// Receives the events of a run and of all runs below it.
pub struct TreeWatcher {
    events: mpsc::Receiver<Result<TreeItem>>,
}

/// An event and the run that published it.
pub struct TreeItem {
    /// The run it comes from.
    pub run: RunId,
    /// The tasks that lead to this run, starting at the watched run.
    pub path: Arc<[TaskId]>,
    /// The effect of the run above that this run answers; `None` for the run that is watched.
    pub parent: Option<Parent>,
    /// The event.
    pub item: FeedItem,
    /// It was delivered before and is repeated to show what is still open.
    pub is_known: bool,
    /// The answer of this run is the answer to the user.
    pub is_answer: bool,
}

/// What to watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WatchScope {
    /// The run alone, starting at an event.
    One,
    /// The run and its children, each from its first event.
    All,
}

/// How many events of each run were published to a watcher before.
pub type SeenCounts = BTreeMap<RunId, u64>;

/// Events that may wait for a watcher.
const EVENTS_MAX: usize = 256;

impl TreeWatcher {
    /// Subscribes at once, also to a run that is not started yet.
    pub fn watch(engine: &Engine, thread: &ThreadId, run: &RunId, known: SeenCounts, watch_scope: WatchScope) -> TreeWatcher {
        let (to, events) = mpsc::channel(EVENTS_MAX);
        match watch_scope {
            WatchScope::One => {
                let watcher = engine.watch(run, known.get(run).copied().unwrap_or(0)).awaiting_start();
                tokio::spawn(store::reading_likewise(watch_one(run.clone(), watcher, to)));
            }
            WatchScope::All => {
                let live = engine.0.feed_of(run).subscribe_tree();
                let root = Member { path: Arc::from([]), parent: None, is_answer: true, ..Member::default() };
                let members = BTreeMap::from([(run.clone(), root)]);
                let tree = Tree { engine: engine.clone(), thread: thread.clone(), root: run.clone(), known, members, to };
                tokio::spawn(store::reading_likewise(tree.watch(live)));
            }
        }
        TreeWatcher { events }
    }

    /// `None` after the run and all its children have ended.
    pub async fn next(&mut self) -> Option<Result<TreeItem>> {
        self.events.recv().await
    }
}

/// Everything a run and those below it published so far; a run comes before its children. One whose journal cannot be read any more is left out.
pub async fn tree_history(engine: &Engine, root: &RunId) -> Vec<(RunId, Vec<NumberedEvent>)> {
    let mut all = Vec::new();
    let mut runs = vec![root.clone()];
    while let Some(run) = runs.pop() {
        let Ok(past) = History::of(&**engine.store(), engine.flows(), &run).await else { continue };
        let thread = past.start.as_ref().map(|start| start.thread.clone());
        for numbered in &past.events {
            if let (Event::Asked { task, effect, .. }, Some(thread)) = (&numbered.event, &thread)
                && is_child(engine, effect)
            {
                let child = child_run(Key::of(thread, &run, *task));
                // Another attempt is the same child.
                if !runs.contains(&child) {
                    runs.push(child);
                }
            }
        }
        all.push((run, past.events));
    }
    all
}

fn is_child(engine: &Engine, effect: &Effect) -> bool {
    matches!(effect, Effect::CallAgent(call) if engine.flows().contains_key(&call.agent))
}

async fn watch_one(run: RunId, mut watcher: Watcher, to: mpsc::Sender<Result<TreeItem>>) {
    loop {
        let next = tokio::select! {
            next = watcher.next() => next,
            () = to.closed() => return,
        };
        let Some(next) = next else { return };
        let is_error = next.is_err();
        let item = next.map(|item| TreeItem { run: run.clone(), path: Arc::from([]), parent: None, item, is_known: false, is_answer: true });
        if to.send(item).await.is_err() || is_error {
            return;
        }
    }
}

/// A run of the tree, as far as it was published to the watcher.
#[derive(Default)]
struct Member {
    path: Arc<[TaskId]>,
    parent: Option<Parent>,
    is_answer: bool,
    /// It returns the answer of the run it starts as its own.
    delegates: bool,
    next_seq: u64,
    /// Journal lines that the events so far came from.
    lines: u64,
    is_over: bool,
}

/// The receiver was dropped.
struct WatcherClosed;

struct Tree {
    engine: Engine,
    thread: ThreadId,
    root: RunId,
    known: SeenCounts,
    members: BTreeMap<RunId, Member>,
    to: mpsc::Sender<Result<TreeItem>>,
}

/// What to do after an event of the feed.
enum FeedStep {
    GoOn,
    /// Something before it is missing.
    Gap,
}

impl Tree {
    async fn watch(mut self, mut live: broadcast::Receiver<TreeEvent>) {
        // A watcher that subscribed before the run started receives everything from the feed, including deltas, which the journal does not have.
        let mut must_read = live.is_empty();
        let mut changes = StoreChanges::of(&self.engine.0.store);
        loop {
            if must_read && (self.read_all().await.is_err() || self.is_over().await) {
                return;
            }
            must_read = match self.take_live(&mut live, &mut changes).await {
                Ok(must_read) => must_read,
                Err(WatcherClosed) => return,
            };
        }
    }

    /// Takes events of the feed until the journals must be read. A run that is not in memory here may be driven by another process.
    async fn take_live(&mut self, live: &mut broadcast::Receiver<TreeEvent>, changes: &mut StoreChanges) -> std::result::Result<bool, WatcherClosed> {
        let poll = Duration::from_millis(self.engine.0.settings.poll_ms.max(1));
        loop {
            let is_remote = self.engine.0.active(&self.root).is_none();
            let event = tokio::select! {
                event = live.recv() => event,
                piece = changes.watch(&self.root, poll, |change| matches!(change, Change::Run(run) if self.members.contains_key(run))), if is_remote => match piece {
                    Some(piece) => {
                        if let Some(member) = self.members.get(&piece.run) {
                            let item = tree_item(&piece.run.clone(), member, FeedItem::of(piece), false);
                            self.to.send(Ok(item)).await.map_err(|_| WatcherClosed)?;
                        }
                        continue;
                    }
                    None => return Ok(true),
                },
                () = self.to.closed() => return Err(WatcherClosed),
            };
            match event {
                Ok(event) => {
                    let is_end = matches!(&event.seen, FeedItem::Event(numbered, _) if matches!(numbered.event, Event::Ended { .. }));
                    match self.take(event).await? {
                        FeedStep::Gap => return Ok(true),
                        FeedStep::GoOn if is_end && self.members.get(&self.root).is_some_and(|root| root.is_over) => return Ok(true),
                        FeedStep::GoOn => {}
                    }
                }
                Err(RecvError::Lagged(_)) => return Ok(true),
                Err(RecvError::Closed) => {
                    // Subscribes first and reads after, so that nothing is lost between the two.
                    *live = self.engine.0.feed_of(&self.root).subscribe_tree();
                    return Ok(true);
                }
            }
        }
    }

    async fn take(&mut self, event: TreeEvent) -> std::result::Result<FeedStep, WatcherClosed> {
        let Some(member) = self.members.get(&event.run) else { return Ok(FeedStep::Gap) };
        match event.seen {
            FeedItem::Event(numbered, _) if numbered.seq < member.next_seq => Ok(FeedStep::GoOn),
            FeedItem::Event(numbered, at_ms) if numbered.seq == member.next_seq => {
                self.emit(&event.run, numbered, at_ms).await?;
                Ok(FeedStep::GoOn)
            }
            FeedItem::Event(..) => Ok(FeedStep::Gap),
            delta @ FeedItem::Delta { .. } => {
                let item = tree_item(&event.run, member, delta, false);
                self.to.send(Ok(item)).await.map_err(|_| WatcherClosed)?;
                Ok(FeedStep::GoOn)
            }
        }
    }

    /// Passes an event on. Returns the child that it asks for, if that is a new one.
    async fn emit(&mut self, run: &RunId, numbered: Arc<NumberedEvent>, at_ms: i64) -> std::result::Result<Option<RunId>, WatcherClosed> {
        let Some(member) = self.members.get_mut(run) else { return Ok(None) };
        member.next_seq = numbered.seq + 1;
        let mut child = None;
        match &numbered.event {
            Event::Started { flow, .. } => member.delegates = self.engine.flows().get(&**flow).is_some_and(Graph::delegates),
            Event::Ended { .. } => member.is_over = true,
            Event::Asked { task, effect, .. } if is_child(&self.engine, effect) => child = Some(*task),
            _ => {}
        }
        let is_known = numbered.seq < self.known.get(run).copied().unwrap_or(0);
        let item = tree_item(run, member, FeedItem::Event(numbered, at_ms), is_known);
        let (path, is_answer) = (member.path.clone(), member.is_answer && member.delegates);
        self.to.send(Ok(item)).await.map_err(|_| WatcherClosed)?;
        Ok(child.and_then(|task| {
            let id = child_run(Key::of(&self.thread, run, task));
            // Another attempt is the same child.
            if self.members.contains_key(&id) {
                return None;
            }
            let path = path.iter().copied().chain([task]).collect();
            let parent = Some(Parent { run: run.clone(), task });
            self.members.insert(id.clone(), Member { path, parent, is_answer, ..Member::default() });
            Some(id)
        }))
    }

    /// Passes on what the journals have beyond what was published to the watcher. A child's events follow the one that asks for it.
    async fn read_all(&mut self) -> std::result::Result<(), WatcherClosed> {
        let mut unread: Vec<RunId> = self.members.iter().filter(|(_, member)| !member.is_over).map(|(run, _)| run.clone()).collect();
        unread.sort_by_key(|run| self.members.get(run).map(|member| member.path.len()));
        for run in unread {
            let mut reading = vec![(run.clone(), self.read(&run).await?)];
            while let Some((run, events)) = reading.last_mut() {
                let Some((numbered, at_ms)) = events.pop_front() else {
                    reading.pop();
                    continue;
                };
                let run = run.clone();
                if let Some(child) = self.emit(&run, Arc::new(numbered), at_ms).await? {
                    let events = self.read(&child).await?;
                    reading.push((child, events));
                }
            }
        }
        Ok(())
    }

    /// The events of a run that were not published to the watcher yet. A journal that cannot be read is reported once; the other runs are watched on.
    async fn read(&mut self, run: &RunId) -> std::result::Result<VecDeque<(NumberedEvent, i64)>, WatcherClosed> {
        match self.unpublished(run).await {
            Ok(events) => Ok(events),
            Err(error) => {
                if let Some(member) = self.members.get_mut(run) {
                    member.is_over = true;
                }
                self.to.send(Err(error)).await.map_err(|_| WatcherClosed)?;
                Ok(VecDeque::new())
            }
        }
    }

    /// None for a run that is not in the store yet.
    async fn unpublished(&mut self, run: &RunId) -> Result<VecDeque<(NumberedEvent, i64)>> {
        let inner = &self.engine.0;
        let Some(member) = self.members.get_mut(run) else { return Ok(VecDeque::new()) };
        let Some(row) = inner.store.run(run).await? else { return Ok(VecDeque::new()) };
        let closing = result_of(&row);
        if member.lines > 0 && closing.is_none() && inner.store.journal(run, member.lines, 1).await?.is_empty() {
            return Ok(VecDeque::new());
        }
        let past = match History::of(&*inner.store, &inner.flows, run).await {
            Ok(past) => past,
            // The flow panics on this journal, as it did before; its outcome is in the row.
            Err(EngineError::Crashed { .. }) if closing.is_some() => History::default(),
            Err(error) => return Err(error),
        };
        member.lines = past.lines;
        let has_end = past.outcome.is_some() || matches!(past.events.last(), Some(last) if matches!(last.event, Event::Ended { .. }));
        let times_ms = past.published_ms.into_iter().chain(std::iter::repeat(row.updated_ms));
        let mut events: VecDeque<(NumberedEvent, i64)> =
            past.events.into_iter().zip(times_ms).filter(|(numbered, _)| numbered.seq >= member.next_seq).collect();
        if let Some(closing) = closing.filter(|_| !has_end) {
            let seq = events.back().map_or(member.next_seq, |(numbered, _)| numbered.seq + 1);
            events.push_back((NumberedEvent { seq, event: Event::Ended { outcome: Arc::new(closing.outcome) } }, row.updated_ms));
        }
        Ok(events)
    }

    /// Whether every run of the tree is over. One that was asked for and never started does not count once the upper run is over.
    async fn is_over(&self) -> bool {
        if !self.members.get(&self.root).is_some_and(|root| root.is_over) {
            return false;
        }
        for (run, _) in self.members.iter().filter(|(_, member)| !member.is_over) {
            if !matches!(self.engine.0.store.run(run).await, Ok(None)) {
                return false;
            }
        }
        true
    }
}

fn tree_item(run: &RunId, member: &Member, item: FeedItem, is_known: bool) -> TreeItem {
    TreeItem { run: run.clone(), path: member.path.clone(), parent: member.parent.clone(), item, is_known, is_answer: member.is_answer }
}

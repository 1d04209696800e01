//! The events of a thread's runs as they come, one run after another: `GET /threads/{id}/stream`.
//!
//! ```text
//!   a run of the thread ─► its frames, as its client wanted them ─► `metadata` `run_done` ─► the next run …
//!                              ▲                │ it waits for a person
//!                              └─ it goes on ◄──┘
//! ```
//!
//! The stream ends when its reader leaves or the thread is deleted. Runs that begin in this process are announced, and watched from before they begin; those
//! that begin elsewhere are found in the store. An id is the run's, a slash, and the position in that run's own stream; a reader that reconnects with it gets
//! the rest of that run and those after it. `lifecycle` has only beginnings and ends, `state_update` the states that clients write.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::routing::get;
use engine::{SeenCounts, TreeItem, TreeWatcher, WatchScope};
use graph::{RunId, ThreadId};
use serde_json::{Value, json};
use store::{RunRow, Status};
use tokio::sync::mpsc;
use tracing::Instrument as _;
use wire::langgraph::StreamMode;

use super::frames::Frame;
use super::records::{self, RUN};
use super::runs::{OTHER_POSITION, RunRecord, modes_of};
use super::stream::{self, ClientGone, Rest, Shown, StreamPosition, StreamTask};
use super::threads::Thread;
use super::{Answer, LangGraph, ids, invalid};
use crate::guard::Identity;
use crate::langserve::{Caller, Refused};

/// How often it is looked whether a run began in another process.
const EVERY: Duration = Duration::from_millis(500);
/// Announcements that may wait for a stream; what is not announced is found in the store.
const SIGNALS_MAX: usize = 64;
/// Runs that are watched before it is their turn.
const EARLY_MAX: usize = 16;
/// In a thread with more runs, a stream from the first event begins with the first of the newest.
const RUNS_MAX: usize = 200;

pub(super) fn routes() -> Router<LangGraph> {
    Router::new().route("/threads/{thread}/stream", get(join))
}

/// What happens in a thread.
pub(super) enum Signal {
    /// A run began, and has been watched since before.
    Began(RunId, TreeWatcher),
    /// A client wrote its state.
    Wrote(Value),
}

/// The streams of threads that are open.
#[derive(Default)]
pub(super) struct OpenStreams(Mutex<HashMap<ThreadId, Vec<mpsc::Sender<Signal>>>>);

impl OpenStreams {
    fn add(&self, thread: &ThreadId) -> mpsc::Receiver<Signal> {
        let (to, signals) = mpsc::channel(SIGNALS_MAX);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, open| {
            open.retain(|to| !to.is_closed());
            !open.is_empty()
        });
        all.entry(thread.clone()).or_default().push(to);
        signals
    }

    fn of(&self, thread: &ThreadId) -> Vec<mpsc::Sender<Signal>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(thread).into_iter().flatten().filter(|to| !to.is_closed()).cloned().collect()
    }
}

/// A run that is about to begin, for the streams of its thread.
pub(super) struct Announcement(Vec<(mpsc::Sender<Signal>, TreeWatcher)>);

impl Announcement {
    /// The run has begun.
    pub(super) fn send(self, run: &RunId) {
        for (to, family) in self.0 {
            // One that is full finds the run in the store.
            let _ = to.try_send(Signal::Began(run.clone(), family));
        }
    }
}

impl LangGraph {
    pub(super) fn announce(&self, thread: &ThreadId, run: &RunId) -> Announcement {
        let watch = |to| (to, TreeWatcher::watch(self.engine(), thread, run, SeenCounts::new(), WatchScope::All));
        Announcement(self.0.open_streams.of(thread).into_iter().map(watch).collect())
    }

    /// Whether somebody follows a thread.
    pub(super) fn is_followed(&self, thread: &ThreadId) -> bool {
        !self.0.open_streams.of(thread).is_empty()
    }

    /// Sends the state that a client wrote to those who follow the thread.
    pub(super) fn send_state(&self, thread: &ThreadId, state: &Value) {
        for to in self.0.open_streams.of(thread) {
            let _ = to.try_send(Signal::Wrote(state.clone()));
        }
    }
}

/// The kinds of events that a reader asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ThreadModes {
    runs: bool,
    lifecycle: bool,
    state_update: bool,
}

impl ThreadModes {
    fn of(names: &[String]) -> Result<ThreadModes, Refused> {
        let mut modes = ThreadModes { runs: names.is_empty(), lifecycle: false, state_update: false };
        for name in names {
            match name.as_str() {
                "run_modes" => modes.runs = true,
                "lifecycle" => modes.lifecycle = true,
                "state_update" => modes.state_update = true,
                other => {
                    return Err(invalid(format!("there is no stream mode {other:?} of a thread; there are: run_modes, lifecycle, state_update")));
                }
            }
        }
        Ok(modes)
    }

    fn shown(self) -> Shown {
        match (self.runs, self.lifecycle) {
            (true, _) => Shown::All,
            (false, true) => Shown::Lifecycle,
            (false, false) => Shown::Nothing,
        }
    }
}

/// Where a reader was.
struct ThreadPosition {
    run: RunId,
    position: StreamPosition,
    /// The end of the run, or its wait for a person, was sent.
    is_done: bool,
}

impl ThreadPosition {
    fn parse(text: &str) -> Option<ThreadPosition> {
        let (run, position) = text.split_once('/')?;
        let run = ids::run_of(&ids::digits(run)?);
        let is_done = position.ends_with(stream::DONE);
        let position = StreamPosition::parse(position.trim_end_matches(stream::DONE))?;
        Some(ThreadPosition { run, position, is_done })
    }
}

async fn join(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, uri: Uri, headers: HeaderMap) -> Answer {
    let open = stream::open(&graph, &caller)?;
    let modes = ThreadModes::of(&modes_of(&uri))?;
    let thread = graph.thread(&caller.who, &id).await?;
    // Before runs are looked for, so that none is missed in between.
    let signals = graph.0.open_streams.add(&thread.engine);
    let (to, receiver) = mpsc::channel::<Bytes>(stream::BEHIND_MAX);
    let mut task = ThreadTask {
        who: caller.who.clone(),
        thread: thread.id.clone(),
        modes,
        to,
        signals,
        early: BTreeMap::new(),
        last: None,
        current: None,
        graph,
    };
    match headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::trim) {
        Some("-" | "-1" | "0") => {}
        None | Some("") => task.begin_now(thread).await?,
        Some(id) => {
            let from = ThreadPosition::parse(id).ok_or_else(|| invalid(OTHER_POSITION))?;
            let row = task.graph.run_in(&thread, from.run.as_str()).await?;
            task.take_up(thread, row, from).await?;
        }
    }
    tokio::spawn(store::reading_likewise(task.write()).in_current_span());
    Ok(stream::response(receiver, open))
}

/// Runs in the order in which they began; of those that began in the same millisecond, which were sent.
struct Place {
    ms: i64,
    runs: Vec<RunId>,
}

struct ThreadTask {
    graph: LangGraph,
    who: Identity,
    thread: String,
    modes: ThreadModes,
    to: mpsc::Sender<Bytes>,
    signals: mpsc::Receiver<Signal>,
    /// Runs that were announced and whose events were not sent yet.
    early: BTreeMap<RunId, TreeWatcher>,
    /// The newest run whose events were sent or left out.
    last: Option<Place>,
    current: Option<Current>,
}

/// The run whose events are sent.
struct Current {
    task: StreamTask,
    family: TreeWatcher,
    state: Following,
    /// Whether its end, or that it waits for a person, was sent.
    is_reported: bool,
}

#[derive(PartialEq, Eq)]
enum Following {
    Active,
    /// It may go on when a person answers.
    Parked,
    Over,
}

impl ThreadTask {
    /// From now on: with the run that is active, or the next one.
    async fn begin_now(&mut self, thread: Thread) -> Result<(), Refused> {
        let Some(head) = self.graph.head(&thread).await? else { return Ok(()) };
        if head.status.is_over() || self.modes.shown() == Shown::Nothing {
            self.pass(&head);
            return Ok(());
        }
        let is_parked = matches!(head.status, Status::Asking | Status::Waiting);
        let known = if is_parked { crate::turn::known(self.graph.engine(), &head.run).await } else { SeenCounts::new() };
        let family = TreeWatcher::watch(self.graph.engine(), &thread.engine, &head.run, known, WatchScope::All);
        let mut current = self.current_of(thread, &head, family, None).await?;
        if is_parked {
            (current.state, current.is_reported) = (Following::Parked, true);
        }
        self.current = Some(current);
        self.pass(&head);
        Ok(())
    }

    async fn take_up(&mut self, thread: Thread, row: RunRow, from: ThreadPosition) -> Result<(), Refused> {
        if self.modes.shown() != Shown::Nothing {
            let family = TreeWatcher::watch(self.graph.engine(), &thread.engine, &row.run, SeenCounts::new(), WatchScope::All);
            let current = self.current_of(thread, &row, family, Some(from.position)).await?;
            self.current = Some(Current { is_reported: from.is_done, ..current });
        }
        self.pass(&row);
        Ok(())
    }

    async fn current_of(&self, thread: Thread, row: &RunRow, family: TreeWatcher, from: Option<StreamPosition>) -> Result<Current, Refused> {
        let record = records::get::<RunRecord>(self.graph.store(), &self.who.user, RUN, row.run.as_str()).await?;
        let (mut modes, has_subgraphs) = record.map(|kept| (kept.value.stream_modes, kept.value.has_subgraphs)).unwrap_or_default();
        if modes.is_empty() {
            modes.push(StreamMode::Values);
        }
        let begun = self.graph.watched(thread, row.run.clone(), Some(row)).await?;
        let (to, shown) = (self.to.clone(), self.modes.shown());
        let task = StreamTask::in_thread(&self.graph, &self.who.user, &begun, (modes, has_subgraphs), from, (to, shown));
        Ok(Current { task, family, state: Following::Active, is_reported: false })
    }

    fn pass(&mut self, row: &RunRow) {
        match &mut self.last {
            Some(last) if last.ms == row.created_ms => last.runs.push(row.run.clone()),
            _ => self.last = Some(Place { ms: row.created_ms, runs: vec![row.run.clone()] }),
        }
    }

    async fn write(mut self) {
        // Nothing more is sent to a client that closed the connection.
        let _ = self.write_runs().await;
    }

    async fn write_runs(&mut self) -> Result<(), ClientGone> {
        loop {
            if let Some(current) = self.current.as_mut().filter(|current| current.state == Following::Active) {
                current.follow().await?;
            }
            match self.next_run().await {
                Ok(Next::Run(current)) => {
                    self.current = Some(*current);
                    continue;
                }
                Ok(Next::None) => {}
                Ok(Next::Deleted) => return Ok(()),
                Err(refused) => tracing::warn!(thread = self.thread, "the next run of a thread could not be read: {}", refused.message()),
            }
            tokio::select! {
                biased;
                () = self.to.closed() => return Err(ClientGone),
                item = next_of(self.current.as_mut()) => {
                    if let Some(current) = &mut self.current {
                        current.go_on(item).await?;
                    }
                }
                signal = self.signals.recv() => match signal {
                    Some(Signal::Began(run, family)) => {
                        if self.early.len() < EARLY_MAX && self.modes.shown() != Shown::Nothing {
                            self.early.insert(run, family);
                        }
                    }
                    Some(Signal::Wrote(state)) => self.write_state(state).await?,
                    // The server is ending.
                    None => return Ok(()),
                },
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    async fn write_state(&self, state: Value) -> Result<(), ClientGone> {
        if !self.modes.state_update {
            return Ok(());
        }
        let frame = Frame::state_update(json!({ "state": state, "thread_id": self.thread }));
        self.to.send(format!("{}\n", frame.text()).into()).await.map_err(|_| ClientGone)
    }

    /// The oldest run after the one whose events were sent last.
    async fn next_run(&mut self) -> Result<Next, Refused> {
        let Some(thread) = self.graph.find_thread(&self.who, &self.thread).await? else { return Ok(Next::Deleted) };
        let last = self.last.as_ref();
        let is_next = |row: &RunRow| last.is_none_or(|last| row.created_ms > last.ms || (row.created_ms == last.ms && !last.runs.contains(&row.run)));
        if !self.graph.head(&thread).await?.is_some_and(|head| is_next(&head)) {
            // A run is announced after it is in the store, so these were rolled back.
            self.early.clear();
            return Ok(Next::None);
        }
        let rows = self.graph.runs_of(&thread, None, RUNS_MAX).await?;
        let Some(row) = rows.into_iter().rev().find(is_next) else { return Ok(Next::None) };
        let row = self.graph.whole(row).await?;
        self.pass(&row);
        if self.modes.shown() == Shown::Nothing {
            return Ok(Next::None);
        }
        let watch = |graph: &LangGraph| TreeWatcher::watch(graph.engine(), &thread.engine, &row.run, SeenCounts::new(), WatchScope::All);
        let family = self.early.remove(&row.run).unwrap_or_else(|| watch(&self.graph));
        let current = self.current_of(thread, &row, family, None).await?;
        Ok(Next::Run(Box::new(current)))
    }
}

enum Next {
    Run(Box<Current>),
    None,
    Deleted,
}

/// What a run that waits does next; nothing of one that is over.
async fn next_of(current: Option<&mut Current>) -> Option<engine::Result<TreeItem>> {
    match current {
        Some(current) if current.state == Following::Parked => current.family.next().await,
        _ => std::future::pending().await,
    }
}

impl Current {
    /// Until it comes to rest.
    async fn follow(&mut self) -> Result<(), ClientGone> {
        let rest = self.task.follow_run(&mut self.family).await?;
        let is_parked = rest == Rest::Parked;
        self.state = if is_parked { Following::Parked } else { Following::Over };
        if !self.task.take_has_sent() && self.is_reported {
            return Ok(());
        }
        if is_parked {
            self.task.send_interrupts().await?;
        }
        self.finish().await
    }

    /// A run that waited goes on with this.
    async fn go_on(&mut self, item: Option<engine::Result<TreeItem>>) -> Result<(), ClientGone> {
        let Some(Ok(item)) = item else {
            self.state = Following::Over;
            return Ok(());
        };
        if item.is_known {
            // Events that were sent before are read for their state, and not sent again.
            return self.task.write_item(&item).await.map(drop);
        }
        self.task.send_metadata().await?;
        self.state = Following::Active;
        if self.task.write_item(&item).await? {
            self.state = Following::Over;
            self.finish().await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), ClientGone> {
        self.task.send_done().await?;
        self.task.take_has_sent();
        self.is_reported = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_positions_are_read_as_clients_send_them() {
        let modes = |names: &[&str]| ThreadModes::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert!(modes(&[]).ok().unwrap().shown() == Shown::All);
        assert!(modes(&["lifecycle"]).ok().unwrap().shown() == Shown::Lifecycle);
        assert!(modes(&["lifecycle", "run_modes"]).ok().unwrap().shown() == Shown::All);
        assert!(modes(&["state_update"]).ok().unwrap().shown() == Shown::Nothing);
        assert!(modes(&["values"]).err().unwrap().message().contains("run_modes, lifecycle, state_update"));
        let run = engine::new_run_id();
        let id = ids::shown(run.as_str());
        let read = |text: &str| ThreadPosition::parse(text).map(|at| (at.run, at.is_done));
        assert_eq!(read(&format!("{id}/e-12!-12.2")), Some((run.clone(), false)));
        assert_eq!(read(&format!("{id}/e-12+")), Some((run, true)));
        for wrong in ["", "e-12", "x/e-12", &format!("{id}/"), &format!("{id}/x")] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

//! A run's events, sent as they come, and from any position for a client that reconnects.
//!
//! An event of the engine becomes a few frames ([`frames`]); the id of a frame is how far its reader is: the events of the run and of those below it, and
//! where it is within the frames of one event. A reader that reconnects with it gets the rest, after a restart too: events are the journal, read again. Pieces of answers have no ids:
//! a client that missed some gets the whole answer with the next `values`. The stream of a thread ([`super::thread_stream`]) is made of those of its runs.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use engine::{EngineError, FeedItem, RunState, TreeItem, TreeWatcher};
use futures::stream::unfold;
use graph::{Event, RunId, UserId};
use store::StoreError;
use tokio::sync::mpsc;
use tracing::Instrument as _;
use wire::langgraph::StreamMode;

use super::begin::StartedTurn;
use super::frames::{Frame, StreamWriter};
use super::runs::located;
use super::{Answer, LangGraph, ids};
use crate::events::{Cursor, path_of};
use crate::guard::Identity;
use crate::langserve::{Caller, Refused};
use crate::metrics;
use crate::quota::StreamPermit;

/// Frames that may wait for a reader; past that the stream waits for it, and the run does not.
pub(super) const BEHIND_MAX: usize = 256;
/// How often an empty line is sent, so that proxies do not close an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often it is looked whether a queued run has begun.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// A run that waits for a person may have events that were not received yet.
const LAST_EVENTS: Duration = Duration::from_millis(50);
/// Time in which the client that started a run in the background can begin to follow it.
const EXPECTED_FOR: Duration = Duration::from_secs(5);

/// A place among the streams of its user and of the server.
pub(super) type StreamSlot = Option<(StreamPermit, metrics::OpenStream)>;

pub(super) fn open(graph: &LangGraph, caller: &Caller) -> Result<StreamSlot, Refused> {
    Ok(match &graph.0.service.0.api {
        Some(api) => Some((api.0.quota.stream(&caller.who.user)?, api.0.metrics.stream_opened())),
        None => None,
    })
}

/// Watches a run until its client does, so that its answer is generated in pieces.
pub(super) fn expect(mut family: TreeWatcher) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(EXPECTED_FOR, async { while family.next().await.is_some() {} }).await;
    });
}

/// Behind a position: the reader was numbered that the run came to rest there.
pub(super) const DONE: char = '+';

/// How far a reader is: `e-12_3.0-5`, and within the frames of the next event `e-12_3.0-5!3.0-5.2`.
pub(super) struct StreamPosition {
    cursor: Cursor,
    /// The run and number of an event whose frames were not all read, and how many were.
    within: Option<(String, u64, usize)>,
}

impl StreamPosition {
    pub(super) fn parse(text: &str) -> Option<StreamPosition> {
        let text = text.strip_prefix('e')?;
        let (cursor, within) = text.split_once('!').map_or((text, None), |(cursor, within)| (cursor, Some(within)));
        let within = match within {
            None => None,
            Some(within) => {
                let (event, count) = within.rsplit_once('.')?;
                let (path, seq) = event.rsplit_once('-')?;
                Some((path.to_owned(), seq.parse().ok()?, count.parse().ok()?))
            }
        };
        Some(StreamPosition { cursor: Cursor::parse(cursor)?, within })
    }

    /// How many of an event's frames were read.
    fn read_of(&self, path: &str, seq: u64) -> usize {
        match &self.within {
            _ if self.cursor.has(path, seq) => usize::MAX,
            Some((of, number, count)) if of == path && *number == seq => *count,
            _ => 0,
        }
    }
}

/// Does what a client wanted to happen when it goes away.
pub(super) struct DisconnectAction {
    graph: LangGraph,
    run: RunId,
    cancels: bool,
    deletes: bool,
    is_complete: bool,
}

impl DisconnectAction {
    pub(super) fn new(graph: &LangGraph, run: &RunId, cancels: bool, deletes: bool) -> DisconnectAction {
        DisconnectAction { graph: graph.clone(), run: run.clone(), cancels, deletes, is_complete: false }
    }

    pub(super) fn is_complete(&mut self) {
        self.is_complete = true;
    }
}

impl Drop for DisconnectAction {
    fn drop(&mut self) {
        let is_cancelled = self.cancels && !self.is_complete;
        if !is_cancelled && !self.deletes {
            return;
        }
        let (graph, run, deletes) = (self.graph.clone(), self.run.clone(), self.deletes);
        tokio::spawn(async move {
            if is_cancelled && let Err(error) = graph.engine().cancel(&run, "its client disconnected").await {
                tracing::debug!(%run, "a run whose client disconnected could not be cancelled: {error}");
            }
            if deletes {
                let _ = graph.engine().wait(&run).await;
                graph.discard(&run).await;
            }
        });
    }
}

pub(super) fn follow(
    graph: &LangGraph,
    caller: &Caller,
    mut started: StartedTurn,
    modes: Vec<StreamMode>,
    has_subgraphs: bool,
    from: Option<StreamPosition>,
    open: StreamSlot,
) -> Answer {
    let Some(family) = started.family.take() else { return Err(crate::problem::Problem::internal(&"a stream without events").into()) };
    let (to, receiver) = mpsc::channel::<Bytes>(BEHIND_MAX);
    let task = StreamTask::new(graph, &caller.who.user, &started, (modes, has_subgraphs), from, to);
    tokio::spawn(store::reading_likewise(task.write(family)).in_current_span());
    Ok(located(response(receiver, open), &started, "stream"))
}

/// What is sent, and empty lines in between.
pub(super) fn response(receiver: mpsc::Receiver<Bytes>, open: StreamSlot) -> Response {
    let bytes = unfold((receiver, open), |(mut receiver, open)| async move {
        let chunk = match tokio::time::timeout(KEEP_ALIVE, receiver.recv()).await {
            Ok(chunk) => chunk?,
            Err(_) => Bytes::from_static(b": heartbeat\n\n"),
        };
        Some((Ok::<_, Infallible>(chunk), (receiver, open)))
    });
    let mut response = Response::new(Body::from_stream(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Which frames of a run are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    /// Only its beginning and its end.
    Lifecycle,
    Nothing,
}

/// How a run came to rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Over,
    /// Only a person can move it.
    Parked,
    /// It was taken out of the queue.
    Withdrawn,
    /// Its events cannot be read any more; the client was sent an error.
    Lost,
}

pub(super) struct StreamTask {
    graph: LangGraph,
    run: RunId,
    user: UserId,
    thread: String,
    is_queued: bool,
    /// It was queued, and what it is given is not known yet.
    is_unknown: bool,
    is_answered: bool,
    writer: StreamWriter,
    to: mpsc::Sender<Bytes>,
    cursor: Cursor,
    from: Option<StreamPosition>,
    leaving: DisconnectAction,
    /// What ids begin with, in the stream of a thread.
    id_prefix: String,
    shown: Shown,
    has_sent: bool,
}

/// The client closed the connection.
pub(super) struct ClientGone;

impl StreamTask {
    fn new(
        graph: &LangGraph,
        user: &UserId,
        started: &StartedTurn,
        (modes, has_subgraphs): (Vec<StreamMode>, bool),
        from: Option<StreamPosition>,
        to: mpsc::Sender<Bytes>,
    ) -> StreamTask {
        StreamTask {
            graph: graph.clone(),
            run: started.run.clone(),
            user: user.clone(),
            thread: started.thread.id.clone(),
            is_queued: started.is_queued,
            is_unknown: started.is_queued,
            is_answered: !started.known.is_empty(),
            writer: StreamWriter::new(started, modes, has_subgraphs),
            to,
            cursor: Cursor::default(),
            from,
            leaving: DisconnectAction::new(graph, &started.run, started.cancels_on_disconnect, started.is_deleted_after),
            id_prefix: String::new(),
            shown: Shown::All,
            has_sent: false,
        }
    }

    /// As a part of a thread's stream.
    pub(super) fn in_thread(
        graph: &LangGraph,
        user: &UserId,
        started: &StartedTurn,
        modes: (Vec<StreamMode>, bool),
        from: Option<StreamPosition>,
        (to, shown): (mpsc::Sender<Bytes>, Shown),
    ) -> StreamTask {
        let id_prefix = format!("{}/", ids::shown(started.run.as_str()));
        StreamTask { id_prefix, shown, ..StreamTask::new(graph, user, started, modes, from, to) }
    }

    /// Whether something of the run was numbered since this was last asked.
    pub(super) fn take_has_sent(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }

    async fn write(mut self, mut family: TreeWatcher) {
        // What a client wants to happen when it disconnects is done when this is dropped.
        if self.write_run(&mut family).await.is_ok() {
            self.leaving.is_complete();
        }
    }

    async fn write_run(&mut self, family: &mut TreeWatcher) -> Result<(), ClientGone> {
        // A client that answers a question follows a run whose start was sent before.
        if self.is_answered {
            self.send_metadata().await?;
        }
        match self.follow_run(family).await? {
            Rest::Over => {}
            Rest::Parked => self.send_interrupts().await?,
            Rest::Withdrawn => self.send(vec![Frame::error("UserInterrupt", "the run was cancelled before it began")], None).await?,
            Rest::Lost => return Ok(()),
        }
        self.send(vec![Frame::end()], None).await
    }

    pub(super) async fn send_metadata(&mut self) -> Result<(), ClientGone> {
        self.send(vec![self.writer.metadata()], None).await
    }

    pub(super) async fn send_interrupts(&mut self) -> Result<(), ClientGone> {
        let row = self.graph.store().run(&self.run).await.ok().flatten();
        let interrupts = self.graph.interrupts(row.as_ref()).await.map_err(|_| ClientGone)?;
        self.send(self.writer.interrupted(&interrupts), None).await
    }

    /// In the stream of a thread, that a run came to rest. A client that reconnects with the id of this is not sent it again.
    pub(super) async fn send_done(&mut self) -> Result<(), ClientGone> {
        let id = format!("e{}{DONE}", self.cursor);
        self.send(vec![self.writer.done()], Some(&id)).await
    }

    /// Sends the events of the run until it comes to rest.
    pub(super) async fn follow_run(&mut self, family: &mut TreeWatcher) -> Result<Rest, ClientGone> {
        let (graph, user, thread, run) = (self.graph.clone(), self.user.clone(), self.thread.clone(), self.run.clone());
        let is_queued = self.is_queued;
        let rest = async move { rests(&graph, &user, &thread, &run, is_queued).await };
        tokio::pin!(rest);
        loop {
            tokio::select! {
                biased;
                tree_item = family.next() => match tree_item {
                    Some(Ok(tree_item)) => {
                        if self.write_item(&tree_item).await? {
                            return Ok(Rest::Over);
                        }
                    }
                    Some(Err(error)) => {
                        tracing::warn!(run = %self.run, "no further events can be sent: {error}");
                        self.send(vec![Frame::error("InternalError", &error.to_string())], None).await?;
                        return Ok(Rest::Lost);
                    }
                    None => return Ok(Rest::Over),
                },
                is_parked = &mut rest => match is_parked {
                    true => break,
                    false => return Ok(Rest::Withdrawn),
                },
                () = self.to.closed() => return Err(ClientGone),
            }
        }
        while let Ok(Some(Ok(tree_item))) = tokio::time::timeout(LAST_EVENTS, family.next()).await {
            if self.write_item(&tree_item).await? {
                return Ok(Rest::Over);
            }
        }
        Ok(Rest::Parked)
    }

    /// Returns whether that was the end of the run.
    pub(super) async fn write_item(&mut self, tree_item: &TreeItem) -> Result<bool, ClientGone> {
        if std::mem::take(&mut self.is_unknown) {
            self.learn().await;
        }
        let frames = self.writer.frames_of(tree_item);
        let FeedItem::Event(numbered, _) = &tree_item.item else {
            self.send(frames, None).await?;
            return Ok(false);
        };
        let path = path_of(&tree_item.path);
        let skipped = match (&self.from, tree_item.is_known) {
            (_, true) => usize::MAX,
            (Some(from), false) => from.read_of(&path, numbered.seq),
            (None, false) => 0,
        };
        let count = frames.len();
        let before = self.cursor.to_string();
        self.cursor.record(&path, numbered.seq);
        let after = format!("e{}", self.cursor);
        for (at, frame) in frames.into_iter().enumerate().skip(skipped) {
            let id = if at + 1 == count { after.clone() } else { format!("e{before}!{path}-{}.{}", numbered.seq, at + 1) };
            self.send(vec![frame], Some(&id)).await?;
        }
        Ok(tree_item.parent.is_none() && matches!(numbered.event, Event::Ended { .. }))
    }

    /// What a run that was queued was given, now that it has begun.
    async fn learn(&mut self) {
        let who = Identity { user: self.user.clone(), is_operator: false };
        let read = async {
            let thread = self.graph.thread(&who, &self.thread).await?;
            let row = self.graph.run_in(&thread, self.run.as_str()).await?;
            let (before, _) = self.graph.before(&thread, &self.run, row.created_ms).await?;
            Ok::<_, Refused>((before, self.graph.input_of(&self.run).await?))
        };
        if let Ok((before, input)) = read.await {
            self.writer.set_start(before, input);
        }
    }

    async fn send(&mut self, frames: Vec<Frame>, id: Option<&str>) -> Result<(), ClientGone> {
        self.has_sent |= !frames.is_empty();
        let is_shown = |frame: &Frame| match self.shown {
            Shown::All => true,
            Shown::Lifecycle => frame.event == "metadata",
            Shown::Nothing => false,
        };
        let mut text = String::new();
        for frame in frames.into_iter().filter(is_shown) {
            text.push_str(&frame.text());
            if let Some(id) = id {
                text.push_str(&format!("id: {}{id}\n", self.id_prefix));
            }
            text.push('\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        self.to.send(text.into()).await.map_err(|_| ClientGone)
    }
}

/// Ends when only a person can move the run (`true`), or when a queued one will never begin (`false`).
async fn rests(graph: &LangGraph, user: &UserId, thread: &str, run: &RunId, is_queued: bool) -> bool {
    let engine = graph.engine();
    loop {
        match engine.wait(run).await {
            Ok(RunState::Parked(_)) => return true,
            Err(EngineError::Store(StoreError::NoRun { .. })) => {
                tokio::time::sleep(POLL).await;
                // Asked in this order: a run leaves the queue after it has begun.
                let is_waiting = is_queued && graph.is_queued(user, thread, run).await.unwrap_or(true);
                if !is_waiting && matches!(engine.store().run(run).await, Ok(None)) {
                    return false;
                }
            }
            // It is over, and the events say so.
            Ok(_) | Err(_) => std::future::pending().await,
        }
    }
}

/// For tests of what is sent.
#[cfg(test)]
pub(super) fn parsed(text: &str) -> Vec<(String, serde_json::Value, Option<String>)> {
    let field = |block: &str, name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let read = |block: &str| {
        let data = field(block, "data: ").and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default();
        field(block, "event: ").map(|event| (event, data, field(block, "id: ")))
    };
    text.split("\n\n").filter_map(read).collect()
}

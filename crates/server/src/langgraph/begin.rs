//! From a client's request to a run: which assistant, in which thread, after what, with which input.
//!
//! ```text
//!   request ─► assistant, thread, checks ─► lock of the thread ─┬─► an answer to the run that waits          (resume.rs)
//!                                                               ├─► queued: later, or behind another run     (schedule.rs)
//!                                                               ├─► a fork of an earlier run at a checkpoint, or at a node (goto.rs)
//!                                                               └─► a new run
//! ```

use axum::http::StatusCode;
use engine::{EngineError, Fork, Order, SeenCounts, TreeWatcher, WatchScope};
use graph::{RunId, ThreadId};
use serde_json::{Map, Value};
use store::{RunRow, Status};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};
use wire::langgraph::{IfNotExists, MultitaskStrategy, OnCompletion, OnDisconnect, OneOrMany, RunCreate, StreamMode};
use wire::langserve::Message;

use super::assistants::Assistant;
use super::ids::CheckpointId;
use super::resume::{self, Answers};
use super::runs::RunRecord;
use super::state_api::{add_messages, is_unfinished, read_messages};
use super::threads::{Branch, Thread, ThreadRecord};
use super::{LangGraph, check_metadata, goto, ids, invalid, not_found, records, webhook};
use crate::guard::now_ms;
use crate::langserve::run_config::RunConfig;
use crate::langserve::{self, Call, Caller, InputShape, Refused};
use crate::problem::Problem;

/// How long a run may be put off.
const AFTER_SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// A run that was begun, answered, queued, or found by its key.
pub(super) struct StartedTurn {
    pub(super) run: RunId,
    pub(super) thread: Thread,
    pub(super) input_shape: InputShape,
    pub(super) assistant: Assistant,
    /// Subscribed before the run began, where somebody wants its events.
    pub(super) family: Option<TreeWatcher>,
    /// Events that were there before this request.
    pub(super) known: SeenCounts,
    /// The conversation before it, and what it was given.
    pub(super) before: Vec<Message>,
    pub(super) input: Value,
    pub(super) is_stateless: bool,
    /// Its thread is deleted when it is over.
    pub(super) is_deleted_after: bool,
    pub(super) cancels_on_disconnect: bool,
    pub(super) is_queued: bool,
}

/// What to do to begin it.
pub(super) enum Start {
    New(Box<Order>, Option<OwnedSemaphorePermit>),
    /// With the thread as it was, for when the fork is refused.
    Fork(RunId, Box<Fork>, Box<ThreadRecord>, Option<OwnedSemaphorePermit>),
    Answer(Answers, Option<OwnedSemaphorePermit>),
    Queue {
        due_ms: i64,
    },
    /// It is there already.
    Nothing,
}

/// A request to begin a run in a thread; `run` is set where a queued run is due.
pub(super) struct BeginRequest<'a> {
    pub(super) caller: &'a Caller,
    pub(super) thread: Option<&'a str>,
    pub(super) request: RunCreate,
    pub(super) run: Option<RunId>,
    pub(super) is_watched: bool,
}

impl LangGraph {
    pub(super) async fn begin(&self, wanted: BeginRequest<'_>) -> Result<StartedTurn, Refused> {
        let BeginRequest { caller, thread: thread_id, mut request, run: named, is_watched } = wanted;
        let is_due = named.is_some();
        let assistant = self.assistant(&caller.who, &request.assistant_id).await?.ok_or_else(|| {
            invalid(format!("there is no assistant or graph {:?}; there are: {}", request.assistant_id, self.graph_ids().join(", ")))
        })?;
        check(&request)?;
        // A queued run's address was checked when it was queued, and is checked again when it is called: a name that is found slowly must not keep the runs of
        // others in the queue waiting.
        if let Some(url) = request.webhook.as_ref().filter(|_| !is_due) {
            webhook::check(self, url).await?;
        }
        let served = self.0.service.0.served.get(&assistant.graph_id).ok_or_else(|| not_found("Graph", &assistant.graph_id))?;
        let input_shape = served.input_shape;
        let is_stateless = thread_id.is_none();
        let mut thread = self.thread_of(caller, thread_id, &request).await?;
        let key = match thread_id {
            Some(_) => langserve::keyed(&caller.headers, &caller.who.user, &format!("{}/{}", served.flow, thread.id), None)?,
            None => langserve::keyed(&caller.headers, &caller.who.user, &served.flow, None)?,
        };
        let is_deleted_after = is_stateless && key.is_none() && request.on_completion != Some(OnCompletion::Keep);
        let run = named.or(key.clone()).unwrap_or_else(engine::new_run_id);
        if is_stateless {
            // Named by its run, so that a repeated key finds it.
            (thread.engine, thread.id) = (ThreadId::from(run.as_str()), ids::shown(run.as_str()));
        }
        let lock = self.lock(&thread.engine).await;
        let config = assistant.configure(&request);
        let settings = RunConfig::of(&self.0.service, served, caller, &config).await?;
        let mut started = StartedTurn {
            run,
            input_shape,
            family: None,
            known: SeenCounts::new(),
            before: Vec::new(),
            input: Value::Null,
            is_stateless,
            is_deleted_after,
            cancels_on_disconnect: request.on_disconnect == Some(OnDisconnect::Cancel),
            is_queued: false,
            assistant,
            thread,
        };
        let settings = RunConfig { thread: Some(started.thread.engine.clone()), ..settings };
        let is_known = key.is_some() && self.store().run(&started.run).await.map_err(Problem::from)?.is_some();
        let start = match is_known {
            true => {
                started.input = self.input_of(&started.run).await?;
                Start::Nothing
            }
            false => self.decide(&mut started, caller, &mut request, settings, is_due).await?,
        };
        let record = record_of(&started, &request);
        self.start(started, start, record, caller, request, is_watched, lock).await
    }

    /// The thread that is meant; a stateless run has one of its own, which is not kept.
    async fn thread_of(&self, caller: &Caller, id: Option<&str>, request: &RunCreate) -> Result<Thread, Refused> {
        let Some(id) = id else {
            return Ok(Thread { id: String::new(), engine: ThreadId::from(""), record: None, row: None });
        };
        match self.find_thread(&caller.who, id).await? {
            Some(thread) => Ok(thread),
            None if request.if_not_exists == Some(IfNotExists::Create) => self.make_thread(&caller.who, Some(id), ThreadRecord::default()).await,
            None => Err(not_found("Thread", id)),
        }
    }

    async fn decide(
        &self,
        started: &mut StartedTurn,
        caller: &Caller,
        request: &mut RunCreate,
        config: RunConfig,
        is_due: bool,
    ) -> Result<Start, Refused> {
        let head = self.head(&started.thread).await?;
        let goto = goto::target(request)?;
        if let Some(command) = request.command.as_ref().filter(|_| goto.is_none())
            && let Some(answer) = command.resume.clone()
        {
            let Some(head) = head else { return Err(invalid("this thread waits for no answer: it has no run")) };
            let answers = resume::answers(self, &head, answer).await?;
            if let Some(update) = command.update.clone().filter(|update| !update.is_null()) {
                self.update_state(&caller.who, &started.thread, update, None).await?;
            }
            started.known = crate::turn::known(self.engine(), &head.run).await;
            started.input = self.input_of(&head.run).await?;
            started.before = self.before(&started.thread, &head.run, head.created_ms).await?.0;
            started.input_shape = self.input_shape(&head.flow);
            started.run = head.run;
            let place = self.place_of(caller, false).await?;
            return Ok(Start::Answer(answers, place));
        }
        if !is_due && let Some(start) = self.multitask(started, caller, request, head.as_ref()).await? {
            return Ok(start);
        }
        if is_due && let Some(head) = head.as_ref().filter(|head| matches!(head.status, Status::Asking | Status::Waiting)) {
            self.stop(head, "it was replaced by new input").await?;
        }
        if let Some(node) = goto {
            return self.go_to(started, caller, request, head, &node).await;
        }
        let input = request.input.take().filter(|input| !input.is_null());
        let input = input.or_else(|| request.command.as_mut().and_then(|command| command.update.take()).filter(|update| !update.is_null()));
        let from = request.from_checkpoint().map(str::to_owned);
        match (input, from) {
            (None, from) => self.again(started, caller, request, head, from.as_deref()).await,
            (Some(input), from) => {
                let mut start = self.anew(started, caller, input, from.as_deref(), head.as_ref(), config).await?;
                if let Start::New(order, _) = &mut start {
                    order.context.breakpoints = self.breakpoints(&order.flow, request)?;
                }
                Ok(start)
            }
        }
    }

    /// What to do with a run that comes while another is active or waits. `None`: it may begin.
    async fn multitask(&self, started: &StartedTurn, caller: &Caller, request: &RunCreate, head: Option<&RunRow>) -> Result<Option<Start>, Refused> {
        if let Some(seconds) = request.after_seconds.filter(|seconds| *seconds > 0.0) {
            return Ok(Some(Start::Queue { due_ms: now_ms() + (seconds * 1_000.0) as i64 }));
        }
        if started.is_stateless {
            return Ok(None);
        }
        let strategy = request.multitask_strategy.unwrap_or_default();
        let is_queue = self.has_queued(&caller.who.user, &started.thread.id).await?;
        match (head.map(|head| (head, head.status)), strategy) {
            (Some((_, Status::Running)), MultitaskStrategy::Reject) => Err(Refused::plain(
                StatusCode::CONFLICT,
                "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
            )),
            (Some((_, Status::Running)), MultitaskStrategy::Enqueue) => Ok(Some(Start::Queue { due_ms: 0 })),
            (Some((head, Status::Running)), MultitaskStrategy::Interrupt | MultitaskStrategy::Rollback) => {
                self.stop(head, "a new run took its place").await?;
                if strategy == MultitaskStrategy::Rollback {
                    self.hide_run(&caller.who, &started.thread.id, &head.run).await?;
                }
                Ok(None)
            }
            // New input replaces a question that nobody answered.
            (Some((head, Status::Asking | Status::Waiting)), _) if request.input.as_ref().is_some_and(|input| !input.is_null()) => {
                self.stop(head, "it was replaced by new input").await?;
                Ok(None)
            }
            _ if is_queue && strategy == MultitaskStrategy::Enqueue => Ok(Some(Start::Queue { due_ms: 0 })),
            _ => Ok(None),
        }
    }

    /// Ends a run and waits until it is over.
    pub(super) async fn stop(&self, row: &RunRow, reason: &str) -> Result<(), Refused> {
        match self.engine().cancel(&row.run, reason).await {
            Ok(_) | Err(EngineError::Over { .. }) => {}
            Err(error) => return Err(Refused::of(error)),
        }
        self.engine().wait(&row.run).await.map(drop).map_err(Refused::of)
    }

    /// Without input: from a checkpoint, or from where the newest run stopped or waits at a breakpoint.
    async fn again(
        &self,
        started: &mut StartedTurn,
        caller: &Caller,
        request: &RunCreate,
        mut head: Option<RunRow>,
        from: Option<&str>,
    ) -> Result<Start, Refused> {
        let mut passes_breakpoint = false;
        if let (Some(paused), None) = (&head, from)
            && self.is_paused(paused).await?
        {
            // Refused before the run is stopped.
            self.breakpoints(&paused.flow, request)?;
            self.stop(paused, "it goes on from its breakpoint in another run").await?;
            passes_breakpoint = true;
            head = self.store().run(&paused.run).await.map_err(Problem::from)?;
        }
        let (run, at_step) = match from.map(|id| CheckpointId::parse(id).ok_or_else(|| not_found("Checkpoint", id))).transpose()? {
            Some(CheckpointId::Step { run, step }) => (run, step),
            Some(CheckpointId::End { .. } | CheckpointId::Edit(_)) => return Err(invalid("nothing is left to do from this checkpoint; send input")),
            None => {
                let unfinished = head.as_ref().filter(|head| is_unfinished(head));
                let Some(head) = unfinished else { return Err(invalid("input is needed: no run of this thread can go on without it")) };
                let last = self.moments(&started.thread, head).await?.iter().rev().find_map(|moment| match &moment.id {
                    CheckpointId::Step { step, .. } => Some(*step),
                    CheckpointId::End { .. } | CheckpointId::Edit(_) => None,
                });
                (head.run.clone(), last.unwrap_or(0))
            }
        };
        let row = self.run_in(&started.thread, run.as_str()).await?;
        self.branch(started, caller, request, row, Fork { at_step, passes_breakpoint, ..Fork::default() }).await
    }

    /// A run that goes on from a step of another one, with the messages before that one.
    pub(super) async fn branch(
        &self,
        started: &mut StartedTurn,
        caller: &Caller,
        request: &RunCreate,
        row: RunRow,
        fork: Fork,
    ) -> Result<Start, Refused> {
        started.input = self.input_of(&row.run).await?;
        started.input_shape = self.input_shape(&row.flow);
        let (before, _) = self.before(&started.thread, &row.run, row.created_ms).await?;
        let earlier = Box::new(started.thread.stored());
        self.rebase(caller, &mut started.thread, before.clone()).await?;
        started.before = before;
        let place = self.place_of(caller, true).await?;
        let (thread, run) = (Some(started.thread.engine.clone()), Some(started.run.clone()));
        let breakpoints = self.breakpoints(&row.flow, request)?.into_iter().map(|one| one.before).collect();
        Ok(Start::Fork(row.run, Box::new(Fork { thread, run, breakpoints, ..fork }), earlier, place))
    }

    /// With input: after the conversation as it is, or as it was at a checkpoint.
    async fn anew(
        &self,
        started: &mut StartedTurn,
        caller: &Caller,
        input: Value,
        from: Option<&str>,
        head: Option<&RunRow>,
        config: RunConfig,
    ) -> Result<Start, Refused> {
        if started.input_shape != InputShape::Bare && !started.is_stateless {
            match from {
                Some(id) => {
                    started.before = self.moment_at(&started.thread, id).await?.messages;
                    self.rebase(caller, &mut started.thread, started.before.clone()).await?;
                }
                None => started.before = self.messages(&started.thread, head).await?,
            }
        }
        let is_own = started.thread.record.as_ref().is_some_and(|record| record.value.branch.is_some() || !record.value.hidden.is_empty());
        let input = with_history(started.input_shape, &started.before, is_own, input)?;
        let served = self.0.service.0.served.get(&started.assistant.graph_id).ok_or_else(|| not_found("Graph", &started.assistant.graph_id))?;
        let mut call = Call::of(&self.0.service, served, caller, input, &config, None)?;
        call.order.run = Some(started.run.clone());
        let place = self.0.service.place(&call).await?;
        let order = call.take_order();
        started.input = order.input.clone();
        Ok(Start::New(Box::new(order), place))
    }

    /// Makes a conversation the one that the thread goes on from.
    async fn rebase(&self, caller: &Caller, thread: &mut Thread, messages: Vec<Message>) -> Result<(), Refused> {
        let mut stored = thread.stored();
        let since_seq = thread.row.as_ref().map_or(0, |row| row.messages);
        stored.branch = Some(Branch { checkpoint: super::state::fresh_edit(), messages, since_seq, at_ms: now_ms() });
        self.keep_thread(&caller.who, &thread.id, &stored).await?;
        *thread = self.thread(&caller.who, &thread.id).await?;
        Ok(())
    }

    /// A place among the user's runs for one that goes on; a new one is also held against what the user may store and spend.
    async fn place_of(&self, caller: &Caller, is_new: bool) -> Result<Option<OwnedSemaphorePermit>, Refused> {
        let Some(api) = &self.0.service.0.api else { return Ok(None) };
        let user = &caller.who.user;
        if is_new {
            api.check_storage(user).await?;
            api.check_allowance(user, None).await?;
        }
        Ok(Some(api.0.quota.run(user)?))
    }

    #[allow(clippy::too_many_arguments, reason = "what was decided, for the one who performs it")]
    async fn start(
        &self,
        mut started: StartedTurn,
        start: Start,
        record: Option<RunRecord>,
        caller: &Caller,
        request: RunCreate,
        is_watched: bool,
        lock: OwnedMutexGuard<()>,
    ) -> Result<StartedTurn, Refused> {
        if is_watched {
            started.family = Some(TreeWatcher::watch(self.engine(), &started.thread.engine, &started.run, started.known.clone(), WatchScope::All));
        }
        if let Some(url) = &request.webhook {
            webhook::remember(self, &caller.who.user, &started, url).await?;
        }
        let has_webhook = request.webhook.is_some();
        // What a client attached is there before the run is; how it wants its events is written together with it, because the first event waits for that.
        let is_needed = record.as_ref().is_some_and(|record| !is_plain(record, &started));
        let run = started.run.clone();
        let keep = async move {
            match &record {
                Some(record) => Ok(records::put(self.store(), &caller.who.user, records::RUN, run.as_str(), record).await?),
                None => Ok::<_, Refused>(()),
            }
        };
        let with_start = match (&start, is_needed) {
            (Start::New(..), false) => Some(keep),
            _ => {
                keep.await?;
                None
            }
        };
        let announcement = match &start {
            Start::New(..) | Start::Fork(..) => Some(self.announce(&started.thread.engine, &started.run)),
            Start::Answer(..) | Start::Queue { .. } | Start::Nothing => None,
        };
        let place = match start {
            Start::Nothing => None,
            Start::Queue { due_ms } => {
                started.is_queued = true;
                self.enqueue(caller, &started, request, due_ms).await?;
                return Ok(started);
            }
            Start::New(order, place) => {
                let started = self.engine().start(*order);
                match with_start {
                    Some(keep) => {
                        let (stored, started) = futures::join!(keep, started);
                        started.map_err(Refused::of)?;
                        stored?;
                    }
                    None => drop(started.await.map_err(Refused::of)?),
                }
                place
            }
            Start::Fork(run, fork, earlier, place) => {
                if let Err(error) = self.engine().fork(&run, *fork).await {
                    self.keep_thread(&caller.who, &started.thread.id, &earlier).await?;
                    return Err(not_a_step(error));
                }
                place
            }
            Start::Answer(answers, place) => {
                answers.give(self.engine()).await?;
                place
            }
        };
        if let Some(announcement) = announcement {
            announcement.send(&started.run);
        }
        drop(lock);
        if place.is_some() || has_webhook {
            self.notify_when_stopped(&started, caller.who.user.clone(), place, has_webhook);
        }
        Ok(started)
    }
}

/// What a client attached to the run, where that is not what every run has.
fn record_of(started: &StartedTurn, request: &RunCreate) -> Option<RunRecord> {
    let modes = request.stream_mode.clone().map(OneOrMany::into_vec).unwrap_or_default();
    let record = RunRecord {
        assistant_id: started.assistant.assistant_id.clone(),
        metadata: request.metadata.clone(),
        multitask_strategy: request.multitask_strategy,
        thread: started.thread.engine.to_string(),
        stream_modes: if modes == [StreamMode::Values] { Vec::new() } else { modes },
        has_subgraphs: request.stream_subgraphs,
    };
    let is_default = is_plain(&record, started) && record.stream_modes.is_empty() && !record.has_subgraphs;
    (!is_default && !started.is_deleted_after).then_some(record)
}

/// Whether a run is shown as any other run of its assistant.
fn is_plain(record: &RunRecord, started: &StartedTurn) -> bool {
    record.metadata.is_empty() && started.assistant.is_built_in && record.multitask_strategy.is_none()
}

/// Options that no run of Baton has.
fn check(request: &RunCreate) -> Result<(), Refused> {
    goto::target(request)?;
    if let Some(seconds) = request.after_seconds
        && !(0.0..=AFTER_SECONDS_MAX).contains(&seconds)
    {
        return Err(invalid(format!("after_seconds is a number from 0 to {AFTER_SECONDS_MAX}")));
    }
    check_metadata(&request.metadata)
}

/// An input with the conversation of its thread, where the flow is to be given it.
fn with_history(input_shape: InputShape, before: &[Message], is_own: bool, input: Value) -> Result<Value, Refused> {
    let Value::Object(mut fields) = input else { return Ok(input) };
    let wants_all = input_shape == InputShape::Agent || (input_shape == InputShape::Question && is_own);
    if input_shape == InputShape::Bare {
        return Ok(Value::Object(fields));
    }
    if let (Some(question), true) = (fields.get("question").and_then(Value::as_str).map(str::to_owned), wants_all)
        && !fields.contains_key("messages")
    {
        fields.remove("question");
        fields.insert("messages".to_owned(), serde_json::json!([Message::human(question)]));
    }
    let Some(new) = fields.remove("messages") else { return Ok(Value::Object(fields)) };
    let new = read_messages(new)?;
    let all = if wants_all { add_messages(before.to_vec(), new) } else { new };
    let mut whole: Map<String, Value> = fields;
    whole.insert("messages".to_owned(), serde_json::json!(all));
    Ok(Value::Object(whole))
}

/// A checkpoint before a step that calls nothing cannot be begun at: such a step is part of the one before it.
fn not_a_step(error: EngineError) -> Refused {
    match error {
        EngineError::NoStep { .. } => {
            invalid("nothing can be run again from this checkpoint, because no model, tool or person is called after it; use an earlier one")
        }
        other => Refused::of(other),
    }
}

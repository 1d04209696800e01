//! One execution of a flow, as a value.
//!
//! ```text
//!             ask: nothing to do
//!            ┌──────────────────┐
//!   start ─► At(node) ──ask──► Asking(tasks) ──all answered, fold──► At(next) … ─► Ended(outcome)
//!                                 ▲      │
//!                                 └─feed─┘   a task: Blocked → Due → Flying → Answered
//!                                                              ▲       ├─► Due again (retry)
//!                                                              │       └─► Doubted ─► a person decides
//! ```
//!
//! Recording and deciding are separate: `feed` and `apply` only record and run no code of the flow; `next` folds complete steps and continues. So a reply is in the journal before the flow sees it, whatever the flow then does with it.

mod breakpoint;
mod consent;
mod definition;
mod ledger;
mod outcome;
mod snapshot;
mod states;
mod step;
mod task;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use breakpoint::{Breakpoint, EVERY_NODE};
pub use consent::{ALLOW_ALL, Consent, HeldCall, Objection};
pub use definition::{DefinitionPart, ToolDefinition};
pub use outcome::{Fault, Outcome};
pub use snapshot::{Snapshot, SnapshotError};
pub use states::StepState;
pub(crate) use task::Task;

use crate::graph::State;
use crate::{
    Addresses, Budget, Effect, Entry, Event, Failure, FailureKind, FeedError, Graph, Key, Limits, Mismatch, Name, Note, NumberedEvent, Placeholder,
    Question, Reply, RunContext, RunError, RunId, Start, TaskId, ThreadId, Usage,
};
use breakpoint::Gate;
use ledger::{EventLog, Ledger};
use states::StateLog;
use step::{ActiveStep, Taint};
use task::{Progress, Release};

/// One execution of a flow, as a value.
pub struct Run {
    graph: Graph,
    start: Arc<Start>,
    state: State,
    position: Position,
    /// The number of the current step, from 0.
    step: u64,
    /// Journal entries this run consists of so far, the start included.
    entries: u64,
    ledger: Ledger,
    event_log: EventLog,
    /// Output of a tool or an agent was read: from here on, what the flow asks for may be determined by it.
    is_tainted: bool,
    /// Text was read that is not public: documents, files, earlier answers, output of agents and of servers that are not built in.
    has_private_text: bool,
    addresses: Arc<Addresses>,
    /// How the next step is entered.
    gate: Gate,
    state_log: Option<StateLog>,
}

enum Position {
    /// About to ask.
    At(usize),
    Active(ActiveStep),
    Ended(Arc<Outcome>),
}

/// What a driver does next.
#[derive(Clone, Debug)]
pub enum Next {
    /// Perform these, each with its answer to `feed`.
    Perform(Vec<Job>),
    /// Nothing new; answers to earlier jobs are still out.
    Await,
    /// The run waits for people and may be removed from memory.
    Wait(Vec<Waiting>),
    /// It is over.
    Done(Arc<Outcome>),
}

/// One attempt at one effect, with everything needed to perform it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The conversation of the run.
    pub thread: ThreadId,
    /// The run it belongs to.
    pub run: RunId,
    /// What the run was started with.
    pub context: RunContext,
    /// Which effect of the run.
    pub task: TaskId,
    /// From 1.
    pub attempt: u32,
    /// The same for every attempt at this effect, in every process.
    pub key: Key,
    /// The node that asked for it.
    pub node: Name,
    /// The name under which it is shown.
    pub label: Name,
    /// What is to be performed, with its references filled in.
    pub effect: Arc<Effect>,
    /// The arguments that came out of other effects' replies, and so carry foreign text. For a place that the flow filled itself from an earlier step,
    /// only `at` has a meaning.
    pub filled: Vec<Placeholder>,
    /// The name of the effect that each of `filled` was filled from, in the same order.
    pub filled_by: Vec<String>,
    /// The flow has read output of tools or agents before, so that any argument may be determined by it and not by the user.
    pub is_tainted: bool,
    /// The flow, or a reply that an argument was filled from, has text that is not public, so that any argument may carry it.
    pub has_private_text: bool,
    /// Addresses that were known before any private text was read, or without it.
    pub addresses: Arc<Addresses>,
    /// A person has agreed to exactly this.
    pub is_allowed: bool,
    /// How long to wait first, in milliseconds.
    pub after_ms: u64,
    /// The longest it may take, in milliseconds.
    pub deadline_ms: u64,
    /// For a child run: how deep it is, and what it may spend.
    pub depth: u32,
    /// What is left of the budget.
    pub budget: Budget,
}

/// An open question to a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// Which effect.
    pub task: TaskId,
    /// From 1.
    pub attempt: u32,
    /// What the person is asked.
    pub question: Question,
    /// The tool call that the question asks permission for, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<HeldCall>,
    /// Why permission is needed for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A person's decision on an effect of which it is unknown whether it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It happened; this was its result.
    Done {
        /// What the effect returned.
        #[serde(default)]
        value: Value,
    },
    /// It did not happen, or may happen twice: do it.
    Again,
    /// Skip it; the flow continues with a failure.
    Failed,
}

impl Run {
    /// Begins a run. The error is why the input does not fit the state.
    pub fn start(graph: &Graph, mut start: Start) -> Result<Run, RunError> {
        let unfit = |why: String| RunError::Input { flow: graph.name().to_owned(), why };
        if *start.flow != *graph.0.name {
            return Err(RunError::OtherFlow { found: start.flow.to_string(), wanted: graph.name().to_owned() });
        }
        let limits = graph.limits();
        measure(&start.input, limits.input_bytes_max, "input_bytes_max", limits.json_depth_max).map_err(unfit)?;
        let is_node = |name: &str| name == EVERY_NODE || graph.0.nodes.iter().any(|node| *node.name == *name);
        if let Some(unknown) = start.context.breakpoints.iter().find(|one| start.depth == 0 && !is_node(&one.before)) {
            let known: Vec<&str> = graph.nodes().collect();
            return Err(unfit(format!("there is no node {:?} to wait before; its nodes are: {}", unknown.before, known.join(", "))));
        }
        let state = graph.0.behaviour.begin(start.input.clone()).map_err(unfit)?;
        start.shape.get_or_insert(graph.shape());
        if start.budget == Budget::default() {
            start.budget = graph.0.budget;
        }
        let mut run = Run {
            graph: graph.clone(),
            state,
            position: Position::At(graph.0.start),
            step: 0,
            entries: 1,
            ledger: Ledger::new(&graph.0.phases),
            event_log: EventLog::default(),
            is_tainted: start.is_tainted,
            has_private_text: start.is_tainted,
            addresses: Arc::new(start.addresses.clone()),
            gate: Gate::default(),
            state_log: None,
            start: Arc::new(start),
        };
        run.event_log.push(Event::Started { run: run.start.run.clone(), thread: run.start.thread.clone(), flow: run.start.flow.clone() });
        Ok(run)
    }

    /// The first line of this run's journal.
    pub fn start_entry(&self) -> Entry {
        Entry::Started(Box::new((*self.start).clone()))
    }

    /// Continues as far as the replies allow and returns what to do next. Jobs are returned once; a rebuilt run returns again those without a reply.
    // Not an iterator: what it gives depends on what it is fed.
    /// What has to happen before the run can go on.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Next {
        self.settle();
        match &mut self.position {
            Position::At(_) => unreachable!("settling leaves a run asking or ended"),
            Position::Active(active) => {
                let taint = Taint { is_tainted: self.is_tainted, has_private_text: self.has_private_text, addresses: &self.addresses };
                active.next(&self.graph, &self.start, self.step, &self.ledger, &taint)
            }
            Position::Ended(outcome) => Next::Done(outcome.clone()),
        }
    }

    /// Takes an answer. Gives back what to write into the journal, or nothing when the answer came before. On an error
    /// nothing has changed.
    pub fn feed(&mut self, task: TaskId, attempt: u32, reply: Reply) -> Result<Option<Entry>, FeedError> {
        let reply = bounded(reply, self.graph.limits());
        let Some(active) = self.find(task)? else { return Ok(None) };
        match active.tasks[task.index as usize].take_attempt(task, attempt, &reply)? {
            None => Ok(None),
            Some(asked) => {
                let reply = Arc::new(reply);
                self.answer(task, attempt, reply.clone());
                Ok(Some(Entry::Replied { task, attempt, asked, reply }))
            }
        }
    }

    /// After a crash: the attempt was started, and it is unknown whether it happened. A person decides.
    pub fn doubt(&mut self, task: TaskId, attempt: u32) -> Result<Entry, FeedError> {
        let not_in_flight = FeedError::NotInFlight { task };
        let Some(active) = self.find(task)? else { return Err(not_in_flight) };
        if !active.doubt(task.index as usize, attempt) {
            return Err(not_in_flight);
        }
        self.entries += 1;
        self.event_log.push(Event::Doubted { task, attempt });
        Ok(Entry::Doubted { task, attempt })
    }

    /// Before it is performed: a person must agree.
    pub fn hold(&mut self, task: TaskId, attempt: u32, objection: Objection) -> Result<Entry, FeedError> {
        let not_in_flight = FeedError::NotInFlight { task };
        let Some(active) = self.find(task)? else { return Err(not_in_flight) };
        if !active.hold(task.index as usize, attempt, &objection) {
            return Err(not_in_flight);
        }
        self.entries += 1;
        let Objection { why, call } = objection;
        self.event_log.push(Event::Held { task, attempt, why: why.clone() });
        Ok(Entry::Held { task, attempt, why, call })
    }

    /// Ends the run. `None` when it had ended already.
    pub fn cancel(&mut self, reason: &str) -> Option<Entry> {
        if matches!(self.position, Position::Ended(_)) {
            return None;
        }
        self.entries += 1;
        self.end(Outcome::Cancelled { reason: reason.to_owned() });
        Some(Entry::Cancelled { reason: reason.to_owned() })
    }

    /// Changes the state by a JSON merge patch and runs the current step again. Only a fork does this, on entering a step.
    pub fn edit(&mut self, patch: &Value) -> Result<Entry, RunError> {
        self.settle();
        let unfit = |why: String| RunError::Edit { why };
        let node = match &self.position {
            Position::At(node) => *node,
            Position::Active(active) if active.is_fresh(self.entries) => active.node,
            Position::Active(_) => return Err(unfit(format!("step {} already has replies", self.step))),
            Position::Ended(_) => return Err(unfit("the run has ended".into())),
        };
        self.patched(patch).map_err(unfit)?;
        let patch = Arc::new(patch.clone());
        self.entries += 1;
        self.event_log.push(Event::Edited { step: self.step, patch: patch.clone() });
        self.position = Position::At(node);
        Ok(Entry::Edited { step: self.step, patch })
    }

    /// Applies one journal entry. A flow that requests something else now is an error.
    pub fn apply(&mut self, entry: Entry) -> Result<(), RunError> {
        self.settle();
        let at = self.entries;
        let mismatch = |mismatch| RunError::Mismatch { at, mismatch: Box::new(mismatch) };
        if matches!(self.position, Position::Ended(_)) {
            return Err(mismatch(Mismatch::Ended));
        }
        match entry {
            Entry::Started(_) => Err(mismatch(Mismatch::SecondStart)),
            Entry::Replied { task, attempt, asked: then_digest, reply } => {
                let active = self.find(task).map_err(|e| mismatch(Mismatch::Reply(e)))?;
                let Some(active) = active else {
                    return Err(mismatch(Mismatch::Unfit(format!("task {task} is answered a second time"))));
                };
                let node = active.node;
                let open = &active.tasks[task.index as usize];
                let now_digest = match open.take_attempt(task, attempt, &reply) {
                    Ok(Some(digest)) => digest,
                    Ok(None) => return Err(mismatch(Mismatch::Unfit(format!("attempt {attempt} at task {task} is answered a second time")))),
                    Err(e) => return Err(mismatch(Mismatch::Reply(e))),
                };
                if now_digest != then_digest {
                    let now = open.effect().map_or_else(String::new, |effect| format!("{} {}", effect.kind(), effect.name()));
                    let node = self.graph.node_name(node).to_string();
                    return Err(mismatch(Mismatch::Asked { task, node, now, now_digest, then_digest }));
                }
                self.answer(task, attempt, reply);
                Ok(())
            }
            Entry::Doubted { task, attempt } => self.doubt(task, attempt).map(drop).map_err(|e| mismatch(Mismatch::Reply(e))),
            Entry::Held { task, attempt, why, call } => {
                self.hold(task, attempt, Objection { why, call }).map(drop).map_err(|e| mismatch(Mismatch::Reply(e)))
            }
            Entry::Edited { step, patch } if step == self.step => self.edit(&patch).map(drop),
            Entry::Edited { step, .. } => Err(mismatch(Mismatch::Edited { then: step, now: self.step })),
            Entry::Cancelled { reason } => {
                self.cancel(&reason);
                Ok(())
            }
        }
    }

    /// What happened since this was last called.
    pub fn take_events(&mut self) -> Vec<NumberedEvent> {
        std::mem::take(&mut self.event_log.outbox)
    }

    /// The outcome, after `next` has reached the end.
    pub fn outcome(&self) -> Option<&Arc<Outcome>> {
        match &self.position {
            Position::Ended(outcome) => Some(outcome),
            Position::At(_) | Position::Active(_) => None,
        }
    }

    /// The notes of a run that succeeded; none for other runs.
    pub fn notes(&self) -> Vec<Note> {
        match self.outcome().map(|outcome| &**outcome) {
            Some(Outcome::Done { .. }) => self.graph.0.behaviour.keep(&self.state),
            Some(Outcome::Failed { .. } | Outcome::Cancelled { .. }) | None => Vec::new(),
        }
    }

    /// How it was started.
    pub fn facts(&self) -> &Start {
        &self.start
    }

    /// The flow it executes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The number of the step the run is at.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The node that is asking, while one is.
    pub fn node(&self) -> Option<&Name> {
        match &self.position {
            Position::At(node) => Some(self.graph.node_name(*node)),
            Position::Active(active) => Some(self.graph.node_name(active.node)),
            Position::Ended(_) => None,
        }
    }

    /// The questions that are open before people now, whatever else is going on.
    pub fn waiting(&self) -> Vec<Waiting> {
        match &self.position {
            Position::Active(active) => active.waiting(self.step),
            Position::At(_) | Position::Ended(_) => Vec::new(),
        }
    }

    /// Journal entries so far, the start included: also the number of the next one.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The number the next event will have.
    pub fn next_seq(&self) -> u64 {
        self.event_log.seq
    }

    /// What all replies so far used.
    pub fn spent(&self) -> Usage {
        self.ledger.spent
    }

    /// How long it took so far, in microseconds; waiting for a person does not count.
    pub fn elapsed_us(&self) -> u64 {
        self.ledger.elapsed_us
    }

    /// The flow's state as JSON.
    pub fn state(&self) -> Result<Value, String> {
        self.graph.0.behaviour.save(&self.state)
    }

    /// The step's tasks if `task` belongs to it; `None` if it was dealt with in an earlier one.
    fn find(&mut self, task: TaskId) -> Result<Option<&mut ActiveStep>, FeedError> {
        let never_asked = FeedError::NeverAsked { task, at_step: self.step };
        if task.step > self.step {
            return Err(never_asked);
        }
        match &mut self.position {
            Position::Active(active) if task.step == self.step => {
                if (task.index as usize) < active.tasks.len() {
                    Ok(Some(active))
                } else {
                    Err(never_asked)
                }
            }
            Position::Active(_) | Position::Ended(_) | Position::At(_) => Ok(None),
        }
    }

    /// Records an answer that was found to fit, and releases the tasks that waited for it.
    fn answer(&mut self, task: TaskId, attempt: u32, reply: Arc<Reply>) {
        self.entries += 1;
        if let Position::Active(active) = &mut self.position {
            let release =
                Release { graph: &self.graph, start: &self.start, step: self.step, ledger: &mut self.ledger, event_log: &mut self.event_log };
            active.answer(task.index as usize, attempt, reply, release);
        }
    }
}

/// Upper limit for the metadata of a reply, in bytes.
const ABOUT_BYTES_MAX: usize = 16 << 10;

/// Upper limit for text quoted in a failure, in bytes.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The reply as it is recorded: one that is too large or too deep becomes a failure.
fn bounded(reply: Reply, limits: &Limits) -> Reply {
    let Reply { result, usage, took_us, about } = reply;
    let result = result.and_then(|value| match measure(&value, limits.reply_bytes_max, "reply_bytes_max", limits.json_depth_max) {
        Ok(_) => Ok(value),
        Err(why) => {
            take_apart(value);
            Err(Failure::new(FailureKind::Limit, format!("the reply is too large: {why}")))
        }
    });
    let result = result.map_err(|mut failure| {
        if let Some(output) = &mut failure.output {
            output.truncate(output.floor_char_boundary(OUTPUT_BYTES_MAX));
        }
        failure
    });
    // Only a note: one that is out of all proportion is left out, and the reply kept.
    let about = about.and_then(|about| match measure(&about, ABOUT_BYTES_MAX, "ABOUT_BYTES_MAX", limits.json_depth_max) {
        Ok(_) => Some(about),
        Err(_) => {
            take_apart(about);
            None
        }
    });
    Reply { result, usage, took_us, about }
}

/// Drops a value level by level; dropping it as a whole would recurse as deep as it is.
fn take_apart(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(map) => open.extend(map.into_iter().map(|(_, item)| item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// About how many bytes a value has as JSON, if that is not too many.
fn measure(value: &Value, bytes_max: usize, bytes_name: &str, depth_max: usize) -> Result<usize, String> {
    let mut bytes = 0_usize;
    // By hand and not by recursion: what is being measured may be deeper than the stack.
    let mut open: Vec<(&Value, usize)> = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > depth_max {
            return Err(format!("it is nested deeper than json_depth_max = {depth_max}"));
        }
        bytes += match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 5,
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items.iter().map(|item| (item, depth + 1)));
                items.len() + 2
            }
            Value::Object(map) => {
                open.extend(map.values().map(|item| (item, depth + 1)));
                map.keys().map(|key| key.len() + 4).sum::<usize>() + 2
            }
        };
    }
    if bytes > bytes_max {
        return Err(format!("about {bytes} bytes, and {bytes_name} = {bytes_max}"));
    }
    Ok(bytes)
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, change) in changes {
        if change.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.as_str()).or_insert(Value::Null), change);
        }
    }
}

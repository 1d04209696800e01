//! An event of a run as the frames of LangGraph's stream modes. A value: events go in, frames come out.
//!
//! | event | frames |
//! |---|---|
//! | started | `metadata`; `values` with the input |
//! | a step began | `tasks`, `checkpoints`, `debug`; `events` `on_chain_start` |
//! | a piece of the answer | `messages` (pair of chunk and metadata), `messages/partial`; `events` `on_chat_model_stream` |
//! | a tool was called, replied | `events` `on_tool_start`, `on_tool_end`; `messages` with the tool's message |
//! | a note | `custom` |
//! | a step ended | `updates` `{node: …}`, `tasks` with its result, `debug`, `values` if there is a new message; `events` `on_chain_end` |
//! | a question | `updates` and `values` with `__interrupt__` |
//! | ended well | `updates` `{flow: state}`, `values`; badly or cancelled: `error` |

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{FeedItem, TreeItem};
use graph::{Effect, Event, NumberedEvent, Outcome, RunId, TaskId};
use serde_json::{Map, Value, json};
use wire::langgraph::{Interrupt, StreamMode};
use wire::langserve::Message;

use super::begin::StartedTurn;
use super::calendar;
use super::ids::{self, CheckpointId};
use super::state::{RunMessage, answer_id, conversation, named_fault, values_of};
use crate::langserve::InputShape;

/// The purpose of the model call whose text is the answer.
const ANSWER_CALL: &str = "answer";
/// The role of messages that a model answers from; such an answer is checked before it is the answer, and is not sent in pieces.
const EVIDENCE_ROLE: &str = "evidence";

pub(super) struct Frame {
    pub(super) event: String,
    pub(super) data: Value,
}

impl Frame {
    fn new(event: impl Into<String>, data: Value) -> Frame {
        Frame { event: event.into(), data }
    }

    /// As it is sent, without its id and the line that ends it.
    pub(super) fn text(&self) -> String {
        format!("event: {}\ndata: {}\n", self.event, self.data)
    }

    /// A state that a client wrote, in the stream of its thread.
    pub(super) fn state_update(data: Value) -> Frame {
        Frame::new("state_update", data)
    }

    pub(super) fn error(error: &str, message: &str) -> Frame {
        Frame::new("error", json!({ "error": error, "message": message }))
    }

    pub(super) fn end() -> Frame {
        Frame::new("end", Value::Null)
    }
}

/// The current step of a run, with its notes and messages.
#[derive(Default)]
struct Member {
    /// Its place below the run that is watched: `node:run`, for each level.
    namespace: Vec<String>,
    flow: String,
    step: u64,
    node: String,
    noted: Map<String, Value>,
    calls: BTreeMap<TaskId, (&'static str, String)>,
}

pub(super) struct StreamWriter {
    modes: BTreeSet<StreamMode>,
    has_subgraphs: bool,
    thread_id: String,
    assistant_id: String,
    graph_id: String,
    run: RunId,
    input_shape: InputShape,
    before: Vec<Message>,
    input: Value,
    more: Map<String, Value>,
    run_messages: Vec<RunMessage>,
    output: Option<Value>,
    members: HashMap<RunId, Member>,
    /// Calls whose text is the answer.
    answering: BTreeSet<(RunId, TaskId)>,
    /// The answer so far.
    text: String,
    has_new: bool,
}

impl StreamWriter {
    pub(super) fn new(started: &StartedTurn, modes: Vec<StreamMode>, has_subgraphs: bool) -> StreamWriter {
        StreamWriter {
            modes: modes.into_iter().collect(),
            has_subgraphs,
            thread_id: started.thread.id.clone(),
            assistant_id: started.assistant.assistant_id.clone(),
            graph_id: started.assistant.graph_id.clone(),
            run: started.run.clone(),
            input_shape: started.input_shape,
            before: started.before.clone(),
            input: started.input.clone(),
            more: started.thread.record.as_ref().map(|record| record.value.values.clone()).unwrap_or_default(),
            run_messages: Vec::new(),
            output: None,
            members: HashMap::new(),
            answering: BTreeSet::new(),
            text: String::new(),
            has_new: false,
        }
    }

    pub(super) fn frames_of(&mut self, tree_item: &TreeItem) -> Vec<Frame> {
        match &tree_item.item {
            FeedItem::Event(numbered, at_ms) => self.event_frames(tree_item, numbered, *at_ms),
            FeedItem::Delta { task, text, .. } if self.answering.contains(&(tree_item.run.clone(), *task)) => self.piece(&tree_item.run, text),
            FeedItem::Delta { .. } => Vec::new(),
        }
    }

    pub(super) fn set_start(&mut self, before: Vec<Message>, input: Value) {
        (self.before, self.input) = (before, input);
    }

    pub(super) fn metadata(&self) -> Frame {
        Frame::new("metadata", json!({ "run_id": ids::shown(self.run.as_str()), "attempt": 1, "thread_id": self.thread_id }))
    }

    /// In the stream of a thread, the end of a run's part.
    pub(super) fn done(&self) -> Frame {
        Frame::new("metadata", json!({ "status": "run_done", "run_id": ids::shown(self.run.as_str()) }))
    }

    fn values(&self) -> Map<String, Value> {
        let messages = conversation(&self.run, self.input_shape, &self.before, &self.input, &self.run_messages, self.output.as_ref());
        match (&self.output, self.input_shape) {
            // Before its end, what a flow of its own kind has is what it was given.
            (None, InputShape::Bare) => self.input.as_object().cloned().unwrap_or_default(),
            (output, input_shape) => values_of(input_shape, &messages, output.as_ref(), &self.more),
        }
    }

    /// What the run waits for people with.
    pub(super) fn interrupted(&self, interrupts: &[Interrupt]) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.add(&mut frames, StreamMode::Updates, "updates", || json!({ "__interrupt__": interrupts }));
        self.add(&mut frames, StreamMode::Values, "values", || {
            let mut values = self.values();
            if !interrupts.is_empty() {
                values.insert("__interrupt__".to_owned(), json!(interrupts));
            }
            Value::Object(values)
        });
        frames
    }

    fn add(&self, frames: &mut Vec<Frame>, mode: StreamMode, event: &str, data: impl FnOnce() -> Value) {
        if self.modes.contains(&mode) {
            frames.push(Frame::new(event, data()));
        }
    }

    fn event_frames(&mut self, tree_item: &TreeItem, numbered: &NumberedEvent, at_ms: i64) -> Vec<Frame> {
        let is_root = tree_item.parent.is_none();
        if let Event::Started { flow, .. } = &numbered.event {
            self.enter(tree_item, flow);
        }
        let mut frames = Vec::new();
        // Children are shown where subgraphs are wanted; what they do for the answer is shown in any case.
        let is_shown = is_root || self.has_subgraphs;
        let is_of_answer = is_shown || tree_item.is_answer;
        let mut member = self.members.remove(&tree_item.run).unwrap_or_default();
        match &numbered.event {
            Event::Started { .. } if is_root => {
                frames.push(self.metadata());
                self.add(&mut frames, StreamMode::Values, "values", || Value::Object(self.values()));
                self.event(&mut frames, &member, "on_chain_start", &self.graph_id, &json!({ "input": self.input }));
            }
            Event::Entered { step, node } => {
                (member.step, member.node, member.noted) = (*step, node.to_string(), Map::new());
                if is_shown {
                    self.entered(&mut frames, tree_item, &member, at_ms);
                }
            }
            Event::Asked { task, effect, .. } => {
                if self.is_answer(tree_item, effect) {
                    self.answering.insert((tree_item.run.clone(), *task));
                }
                member.calls.insert(*task, (effect.kind(), effect.name().to_owned()));
                if is_of_answer {
                    let input = match &**effect {
                        Effect::CallTool(call) => Some(("on_tool_start", json!({ "input": call.arguments }))),
                        Effect::CallModel(_) => Some(("on_chat_model_start", json!({}))),
                        Effect::CallAgent(_) | Effect::AskPerson(_) => None,
                    };
                    if let Some((event, data)) = input {
                        self.event(&mut frames, &member, event, effect.name(), &data);
                    }
                }
            }
            Event::Replied { task, reply, again_ms: None, .. } => {
                let call = member.calls.remove(task);
                if let (true, Some((kind, name))) = (is_of_answer, call) {
                    self.replied(&mut frames, tree_item, &member, *task, (kind, &name), reply);
                }
            }
            Event::Noted { name, value, .. } => {
                member.noted.insert(name.clone(), value.clone());
                if is_of_answer {
                    let event = self.named("custom", &member);
                    self.add(&mut frames, StreamMode::Custom, &event, || json!({ name: value }));
                }
            }
            Event::Said { role, content } if is_root => self.message_added(&mut frames, &mut member, role, content),
            Event::Left { node, .. } if is_shown => self.left(&mut frames, tree_item, &mut member, node, at_ms),
            Event::Ended { outcome } if is_root => self.ended(&mut frames, &member, outcome),
            Event::Started { .. }
            | Event::Replied { .. }
            | Event::Skipped { .. }
            | Event::Doubted { .. }
            | Event::Held { .. }
            | Event::Said { .. }
            | Event::Left { .. }
            | Event::Edited { .. }
            | Event::Ended { .. } => {}
        }
        self.members.insert(tree_item.run.clone(), member);
        frames
    }

    fn enter(&mut self, tree_item: &TreeItem, flow: &str) {
        let namespace = match &tree_item.parent {
            None => Vec::new(),
            Some(parent) => {
                let above = self.members.get(&parent.run);
                let mut namespace = above.map(|above| above.namespace.clone()).unwrap_or_default();
                let node = above.map_or("", |above| above.node.as_str());
                namespace.push(format!("{node}:{}", ids::shown(tree_item.run.as_str())));
                namespace
            }
        };
        self.members.insert(tree_item.run.clone(), Member { namespace, flow: flow.to_owned(), ..Member::default() });
    }

    fn is_answer(&self, tree_item: &TreeItem, effect: &Effect) -> bool {
        let Effect::CallModel(call) = effect else { return false };
        let is_from_evidence = call.messages.iter().any(|message| message.role == EVIDENCE_ROLE);
        tree_item.is_answer && call.purpose == ANSWER_CALL && call.schema.is_none() && !is_from_evidence
    }

    /// The name of an event: with the namespace of a subgraph, if subgraphs are wanted.
    fn named(&self, mode: &str, member: &Member) -> String {
        match self.has_subgraphs && !member.namespace.is_empty() {
            true => format!("{mode}|{}", member.namespace.join("|")),
            false => mode.to_owned(),
        }
    }

    fn about(&self, member: &Member) -> Value {
        json!({
            "run_id": ids::shown(self.run.as_str()), "thread_id": self.thread_id, "assistant_id": self.assistant_id, "graph_id": self.graph_id,
            "langgraph_step": member.step + 1, "langgraph_node": member.node, "langgraph_checkpoint_ns": member.namespace.join("|"),
            "ls_model_type": "chat", "tags": [],
        })
    }

    fn event(&self, frames: &mut Vec<Frame>, member: &Member, event: &str, name: &str, data: &Value) {
        let event_name = self.named("events", member);
        self.add(frames, StreamMode::Events, &event_name, || {
            let run_id = ids::shown(self.run.as_str());
            json!({ "event": event, "name": name, "data": data, "run_id": run_id, "tags": [], "metadata": self.about(member), "parent_ids": [] })
        });
    }

    fn task_id(&self, tree_item: &TreeItem, member: &Member) -> String {
        ids::derived(&["task", tree_item.run.as_str(), &member.step.to_string(), &member.node])
    }

    fn debug(&self, frames: &mut Vec<Frame>, member: &Member, at_ms: i64, kind: &str, payload: &Value) {
        let event = self.named("debug", member);
        self.add(
            frames,
            StreamMode::Debug,
            &event,
            || json!({ "type": kind, "timestamp": calendar::shown(at_ms), "step": member.step + 1, "payload": payload }),
        );
    }

    fn entered(&self, frames: &mut Vec<Frame>, tree_item: &TreeItem, member: &Member, at_ms: i64) {
        let checkpoint = CheckpointId::Step { run: tree_item.run.clone(), step: member.step };
        let config = |id: &CheckpointId| {
            let namespace = member.namespace.join("|");
            json!({ "configurable": { "thread_id": self.thread_id, "checkpoint_ns": namespace, "checkpoint_id": id.to_string() } })
        };
        let parent = member.step.checked_sub(1).map(|step| config(&CheckpointId::Step { run: tree_item.run.clone(), step }));
        let id = self.task_id(tree_item, member);
        if self.modes.contains(&StreamMode::Checkpoints) || self.modes.contains(&StreamMode::Debug) {
            let values = if tree_item.parent.is_none() { self.values() } else { Map::new() };
            let payload = json!({
                "config": config(&checkpoint), "parent_config": parent, "values": values, "next": [member.node],
                "metadata": { "source": "loop", "step": member.step, "run_id": ids::shown(self.run.as_str()), "flow": member.flow },
                "tasks": [{ "id": id, "name": member.node, "interrupts": [], "state": null }],
            });
            let event = self.named("checkpoints", member);
            self.add(frames, StreamMode::Checkpoints, &event, || payload.clone());
            self.debug(frames, member, at_ms, "checkpoint", &payload);
        }
        let payload = json!({ "id": id, "name": member.node, "input": {}, "triggers": [], "interrupts": [] });
        let event = self.named("tasks", member);
        self.add(frames, StreamMode::Tasks, &event, || payload.clone());
        self.debug(frames, member, at_ms, "task", &payload);
        self.event(frames, member, "on_chain_start", &member.node, &json!({}));
    }

    /// A piece of the answer, under the name that the whole will have.
    fn piece(&mut self, run: &RunId, text: &str) -> Vec<Frame> {
        self.text.push_str(text);
        let mut frames = Vec::new();
        let Some(member) = self.members.get(run) else { return frames };
        let id = answer_id(&self.run, "ai", 0);
        let message = |text: &str| {
            let mut chunk = Message::ai(text).with_id(id.as_str());
            chunk.kind = "AIMessageChunk".to_owned();
            chunk
        };
        let event = self.named("messages", member);
        self.add(&mut frames, StreamMode::MessagesTuple, &event, || json!([message(text), self.about(member)]));
        if self.text.len() == text.len() {
            self.add(&mut frames, StreamMode::Messages, "messages/metadata", || json!({ id.as_str(): { "metadata": self.about(member) } }));
        }
        self.add(&mut frames, StreamMode::Messages, "messages/partial", || json!([message(&self.text)]));
        self.event(&mut frames, member, "on_chat_model_stream", "model", &json!({ "chunk": message(text) }));
        frames
    }

    fn replied(&self, frames: &mut Vec<Frame>, tree_item: &TreeItem, member: &Member, task: TaskId, call: (&str, &str), reply: &graph::Reply) {
        let (kind, name) = call;
        match kind {
            "tool" => {
                let (content, status) = match &reply.result {
                    Ok(value) => (tool_text(value), "success"),
                    Err(failure) => (failure.to_string(), "error"),
                };
                let id = format!("{}-tool-{}.{}", tree_item.run, task.step, task.index);
                let message = json!({
                    "type": "tool", "content": content, "name": name, "tool_call_id": id, "id": id, "status": status, "artifact": null,
                    "additional_kwargs": {}, "response_metadata": {},
                });
                let event = self.named("messages", member);
                self.add(frames, StreamMode::MessagesTuple, &event, || json!([message, self.about(member)]));
                self.add(frames, StreamMode::Messages, "messages/complete", || json!([message]));
                self.event(frames, member, "on_tool_end", name, &json!({ "output": message }));
            }
            "model" => self.event(frames, member, "on_chat_model_end", name, &json!({ "output": reply.result.as_ref().ok() })),
            _ => {}
        }
    }

    fn message_added(&mut self, frames: &mut Vec<Frame>, member: &mut Member, role: &str, content: &str) {
        let answers = self.run_messages.iter().filter(|message| message.role != "user").count();
        self.run_messages.push(RunMessage { role: role.to_owned(), content: content.to_owned() });
        self.has_new = true;
        if role == "user" {
            return;
        }
        let message = Message::ai(content).with_id(answer_id(&self.run, "ai", answers));
        let mut messages = member.noted.remove("messages").unwrap_or_else(|| json!([]));
        if let Some(messages) = messages.as_array_mut() {
            messages.push(json!(message));
        }
        member.noted.insert("messages".to_owned(), messages);
        let event = self.named("messages", member);
        // What was sent in pieces is not sent again: clients put the pieces together.
        if answers > 0 || self.text.is_empty() {
            self.add(frames, StreamMode::MessagesTuple, &event, || json!([message, self.about(member)]));
        }
        self.add(frames, StreamMode::Messages, "messages/complete", || json!([message]));
    }

    fn left(&mut self, frames: &mut Vec<Frame>, tree_item: &TreeItem, member: &mut Member, node: &str, at_ms: i64) {
        let noted = std::mem::take(&mut member.noted);
        let update = if noted.is_empty() { Value::Null } else { Value::Object(noted) };
        let event = self.named("updates", member);
        self.add(frames, StreamMode::Updates, &event, || json!({ node: update }));
        let result = json!({ "id": self.task_id(tree_item, member), "name": node, "error": null, "result": update, "interrupts": [] });
        let event = self.named("tasks", member);
        self.add(frames, StreamMode::Tasks, &event, || result.clone());
        self.debug(frames, member, at_ms, "task_result", &result);
        self.event(frames, member, "on_chain_end", node, &json!({ "output": update }));
        if tree_item.parent.is_none() && std::mem::take(&mut self.has_new) {
            self.add(frames, StreamMode::Values, "values", || Value::Object(self.values()));
        }
    }

    fn ended(&mut self, frames: &mut Vec<Frame>, member: &Member, outcome: &Outcome) {
        match outcome {
            Outcome::Done { output } => {
                self.output = Some(output.clone());
                let values = self.values();
                // If no step sent an answer, the last message is sent.
                let has_answer = self.run_messages.iter().any(|message| message.role != "user");
                if let (false, Some(answer)) = (has_answer, values.get("messages").and_then(Value::as_array).and_then(|all| all.last()))
                    && answer["type"] == "ai"
                {
                    self.add(frames, StreamMode::MessagesTuple, "messages", || json!([answer, self.about(member)]));
                    self.add(frames, StreamMode::Messages, "messages/complete", || json!([answer]));
                }
                self.add(frames, StreamMode::Updates, "updates", || json!({ member.flow.as_str(): values }));
                self.event(frames, member, "on_chain_end", &self.graph_id, &json!({ "output": values }));
                self.add(frames, StreamMode::Values, "values", || Value::Object(values.clone()));
            }
            Outcome::Failed { fault } => {
                let (error, message) = named_fault(fault);
                frames.push(Frame::error(error, &message));
            }
            Outcome::Cancelled { reason } => frames.push(Frame::error("UserInterrupt", &format!("the run was cancelled: {reason}"))),
        }
    }
}

/// The text of a tool's reply.
fn tool_text(value: &Value) -> String {
    let text = value.get("text").and_then(Value::as_str).or_else(|| value.as_str());
    text.map_or_else(|| value.to_string(), str::to_owned)
}

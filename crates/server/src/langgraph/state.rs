//! The state of a thread as LangGraph shows it: its messages, and the result of the newest run.
//!
//! ```text
//!   a client's branch, or nothing ─► messages of the thread since ─► the input and messages of the newest run ─► `messages`
//!                                                                    its output ─► `output` (an agent's: `next`, `context`)
//! ```

use engine::{OpenQuestion, result_of};
use graph::{Entry, Fault, Outcome, RunId};
use serde_json::{Map, Value, json};
use store::{MessageRow, RunRow, Status};
use wire::langgraph::Interrupt;
use wire::langserve::Message;

use super::interrupts::is_breakpoint;
use super::threads::{Branch, Thread, ThreadRecord};
use super::{LangGraph, ids, not_found};
use crate::guard::now_ms;
use crate::langserve::{InputShape, Refused};
use crate::problem::Problem;

/// Messages of a conversation that are read, the newest.
const MESSAGES_MAX: u64 = 2_000;
const MESSAGES_BYTES_MAX: usize = 16 << 20;

/// A message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunMessage {
    pub(super) role: String,
    pub(super) content: String,
}

/// The conversation of a run: the messages before it, its input, its messages, and its output if it has one.
pub(super) fn conversation(
    run: &RunId,
    input_shape: InputShape,
    before: &[Message],
    input: &Value,
    run_messages: &[RunMessage],
    output: Option<&Value>,
) -> Vec<Message> {
    let turns = |value: Option<&Value>| value.and_then(|value| value.get("messages")).and_then(Value::as_array).cloned();
    let mut messages: Vec<Message> = match input_shape {
        InputShape::Bare => return Vec::new(),
        InputShape::Agent => match turns(output).or_else(|| turns(Some(input))) {
            Some(turns) => {
                let named = turns.iter().enumerate().map(|(at, turn)| named(Message::of_turn(turn), &format!("{run}-{at}")));
                let all: Vec<Message> = named.collect();
                if output.is_some() {
                    return all;
                }
                all
            }
            None => before.to_vec(),
        },
        InputShape::Question => {
            let question = input.get("question").and_then(Value::as_str).unwrap_or_default();
            before.iter().cloned().chain([Message::human(question).with_id(answer_id(run, "user", 0))]).collect()
        }
    };
    let mut answers = 0;
    for message in run_messages.iter().filter(|message| message.role != "user") {
        messages.push(Message::ai(message.content.as_str()).with_id(answer_id(run, "ai", answers)));
        answers += 1;
    }
    if let (0, Some(answer)) = (answers, output.and_then(|output| output.get("answer")).and_then(Value::as_str)) {
        messages.push(Message::ai(answer).with_id(answer_id(run, "ai", 0)));
    }
    messages
}

/// What the n-th message of a role in a run is called; the pieces of an answer have the same name while it is generated.
pub(super) fn answer_id(run: &RunId, role: &str, at: usize) -> String {
    format!("{run}-{role}-{at}")
}

fn named(message: Message, id: &str) -> Message {
    if message.id().is_some() { message } else { message.with_id(id) }
}

/// The state as a client gets it.
pub(super) fn values_of(input_shape: InputShape, messages: &[Message], output: Option<&Value>, more: &Map<String, Value>) -> Map<String, Value> {
    let mut values = Map::new();
    match (input_shape, output) {
        (InputShape::Bare, Some(Value::Object(output))) => values.extend(output.clone()),
        (InputShape::Bare, None) => {}
        (InputShape::Bare, Some(output)) => drop(values.insert("output".to_owned(), output.clone())),
        (InputShape::Agent, output) => {
            values.insert("messages".to_owned(), json!(messages));
            for name in ["next", "context"] {
                if let Some(value) = output.and_then(|output| output.get(name)) {
                    values.insert(name.to_owned(), value.clone());
                }
            }
        }
        (InputShape::Question, output) => {
            values.insert("messages".to_owned(), json!(messages));
            if let Some(output) = output {
                values.insert("output".to_owned(), output.clone());
            }
        }
    }
    values.extend(more.clone());
    values
}

/// The kind and the words of a fault, if the run has one.
pub(super) fn fault_of(row: &RunRow) -> Option<(&'static str, String)> {
    match result_of(row)?.outcome {
        Outcome::Failed { fault } => Some(named_fault(&fault)),
        Outcome::Done { .. } | Outcome::Cancelled { .. } => None,
    }
}

pub(super) fn named_fault(fault: &Fault) -> (&'static str, String) {
    let kind = match fault {
        Fault::Flow { .. } => "FlowError",
        Fault::Steps { .. } => "GraphRecursionError",
        Fault::Ask { .. } | Fault::Edge { .. } => "InvalidUpdateError",
        Fault::Crash { .. } => "InternalError",
    };
    (kind, fault.to_string())
}

pub(super) fn output_of(row: &RunRow) -> Option<Value> {
    result_of(row).and_then(|closing| closing.outcome.output().cloned())
}

impl LangGraph {
    pub(super) fn input_shape(&self, flow: &str) -> InputShape {
        self.0.service.0.served.values().find(|served| served.flow == flow).map_or(InputShape::Bare, |served| served.input_shape)
    }

    /// What a run was given.
    pub(super) async fn input_of(&self, run: &RunId) -> Result<Value, Refused> {
        let first = self.store().journal(run, 0, 1).await.map_err(Problem::from)?.pop();
        match first.and_then(|line| Entry::decode(&line.bytes).ok()) {
            Some(Entry::Started(start)) => Ok(start.input),
            _ => Ok(Value::Null),
        }
    }

    /// Messages of the thread that count, from the branch on.
    async fn messages_in(&self, thread: &Thread, branch: Option<&Branch>) -> Result<Vec<MessageRow>, Refused> {
        let Some(row) = &thread.row else { return Ok(Vec::new()) };
        let from = branch.map_or(0, |branch| branch.since_seq).max(row.messages.saturating_sub(MESSAGES_MAX));
        let mut rows = store::newest_messages(self.store(), row, from, MESSAGES_BYTES_MAX, usize::MAX).await.map_err(Problem::from)?;
        rows.retain(|row| !thread.is_hidden(&row.run));
        Ok(rows)
    }

    /// The conversation that a run of this thread began with.
    pub(super) async fn before(&self, thread: &Thread, run: &RunId, created_ms: i64) -> Result<(Vec<Message>, Vec<RunMessage>), Refused> {
        let branch = thread.branch().filter(|branch| branch.at_ms <= created_ms);
        let (mut messages, mut own) = (branch.map(|branch| branch.messages.clone()).unwrap_or_default(), Vec::new());
        let mut before = Vec::new();
        for row in self.messages_in(thread, branch).await? {
            match row.run == *run {
                true => own.push(RunMessage { role: row.role, content: row.content }),
                false if own.is_empty() && row.created_ms <= created_ms => before.push(row),
                false => {}
            }
        }
        messages.extend(as_messages(before));
        Ok((messages, own))
    }

    /// The whole conversation, as the next run begins with.
    pub(super) async fn messages(&self, thread: &Thread, head: Option<&RunRow>) -> Result<Vec<Message>, Refused> {
        let branch = thread.branch();
        match head {
            Some(head) if branch.is_none_or(|branch| branch.at_ms <= head.created_ms) => {
                let input_shape = self.input_shape(&head.flow);
                if input_shape == InputShape::Bare {
                    return Ok(Vec::new());
                }
                let (before, own) = self.before(thread, &head.run, head.created_ms).await?;
                let input = self.input_of(&head.run).await?;
                Ok(conversation(&head.run, input_shape, &before, &input, &own, output_of(head).as_ref()))
            }
            _ => {
                let mut messages = branch.map(|branch| branch.messages.clone()).unwrap_or_default();
                messages.extend(as_messages(self.messages_in(thread, branch).await?));
                Ok(messages)
            }
        }
    }

    pub(super) async fn values(&self, thread: &Thread, head: Option<&RunRow>) -> Result<Map<String, Value>, Refused> {
        let more = thread.record.as_ref().map(|record| record.value.values.clone()).unwrap_or_default();
        let input_shape = match head {
            Some(head) => self.input_shape(&head.flow),
            None if thread.branch().is_some() => InputShape::Question,
            None => return Ok(more),
        };
        let messages = self.messages(thread, head).await?;
        Ok(values_of(input_shape, &messages, head.and_then(output_of).as_ref(), &more))
    }

    /// What the thread holds now, as a branch of a copy.
    pub(super) async fn as_branch(&self, thread: &Thread, head: Option<&RunRow>) -> Result<ThreadRecord, Refused> {
        let stored = thread.stored();
        let messages = self.messages(thread, head).await?;
        let mut values = stored.values;
        if let Some(output) = head.and_then(output_of) {
            let all = values_of(head.map_or(InputShape::Bare, |head| self.input_shape(&head.flow)), &[], Some(&output), &values);
            values = all.into_iter().filter(|(name, _)| name != "messages").collect();
        }
        let branch = Branch { checkpoint: fresh_edit(), messages, since_seq: 0, at_ms: now_ms() };
        Ok(ThreadRecord { branch: Some(branch), hidden: Vec::new(), values, ..stored })
    }

    /// What a run waits for people with.
    pub(super) async fn open_questions(&self, run: Option<&RunRow>) -> Result<Vec<OpenQuestion>, Refused> {
        let Some(row) = run.filter(|row| matches!(row.status, Status::Asking | Status::Waiting)) else { return Ok(Vec::new()) };
        match self.engine().open_questions(row).await {
            Ok(open) => Ok(open),
            // It continued meanwhile.
            Err(engine::EngineError::Over { .. }) => Ok(Vec::new()),
            Err(error) => Err(Refused::of(error)),
        }
    }

    /// The open questions; a run that waits at a breakpoint has none.
    pub(super) async fn interrupts(&self, run: Option<&RunRow>) -> Result<Vec<Interrupt>, Refused> {
        let mut all = Vec::new();
        for open in self.open_questions(run).await?.into_iter().filter(|open| !is_breakpoint(open)) {
            let plan = self.engine().plan_of(&open).await.map_err(Refused::of)?;
            let waiting = &open.waiting;
            let kind = if waiting.call.is_some() {
                "tool_call"
            } else if plan.is_some() {
                "plan"
            } else {
                "question"
            };
            let mut value = json!({ "kind": kind, "question": waiting.question.prompt });
            for (name, part) in [
                ("schema", json!(waiting.question.schema)),
                ("plan", json!(plan)),
                ("call", json!(crate::turn::call_json(waiting))),
                ("why", json!(waiting.why)),
            ] {
                if !part.is_null() {
                    value[name] = part;
                }
            }
            let id = ids::interrupt_id(&open.run, waiting.task, waiting.attempt);
            all.push(Interrupt { value, id, response_schema: waiting.question.schema.clone() });
        }
        Ok(all)
    }

    /// A run of this thread, by the id that a client knows.
    pub(super) async fn run_in(&self, thread: &Thread, id: &str) -> Result<RunRow, Refused> {
        let run = ids::run_of(id);
        let row = self.store().run(&run).await.map_err(Problem::from)?;
        row.filter(|row| row.thread == thread.engine && !thread.is_hidden(&row.run)).ok_or_else(|| not_found("Run", id))
    }
}

pub(super) fn fresh_edit() -> String {
    format!("edit:{}", engine::new_run_id())
}

fn as_messages(rows: Vec<MessageRow>) -> Vec<Message> {
    let (mut run, mut users, mut answers) = (RunId::from(""), 0, 0);
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        if row.run != run {
            (run, users, answers) = (row.run.clone(), 0, 0);
        }
        messages.push(match row.role.as_str() {
            "user" => {
                users += 1;
                Message::human(row.content).with_id(answer_id(&run, "user", users - 1))
            }
            "system" => Message::system(row.content),
            _ => {
                answers += 1;
                Message::ai(row.content).with_id(answer_id(&run, "ai", answers - 1))
            }
        });
    }
    messages
}

//! The events of a run, reduced to what clients of every protocol receive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{Engine, FeedItem, RunState, SeenCounts, TreeItem, TreeWatcher, WatchScope};
use graph::{Effect, Event, RunId, TaskId, ThreadId};
use serde_json::Value;
use tokio::time::Instant;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TurnEvent {
    /// A step of the flow that answers, or of one that passes the question on to it: `flow.node`.
    StepStarted {
        step: String,
    },
    StepFinished {
        step: String,
    },
    /// A piece of the answer.
    Text(String),
    ToolStarted {
        id: String,
        tool: String,
        arguments: Value,
    },
    /// The reply as text, or why there is none.
    ToolFinished {
        id: String,
        tool: String,
        result: Result<String, String>,
    },
    /// A note of the flow for watchers.
    Noted {
        name: String,
        value: Value,
    },
}

/// Events of a run that has stopped may still be on their way.
const LAST_EVENTS: Duration = Duration::from_millis(100);
const LAST_OF_ALL: Duration = Duration::from_secs(5);
const RESULT_BYTES_MAX: usize = 64 << 10;

/// The events of a run until it rests.
pub(crate) struct Events {
    engine: Engine,
    run: RunId,
    family: TreeWatcher,
    flows: BTreeMap<RunId, String>,
    /// Calls whose output is the answer, each with its text so far.
    answering: BTreeMap<(RunId, TaskId, u32), String>,
    answer_calls: BTreeSet<(RunId, TaskId)>,
    tools: BTreeMap<String, String>,
    /// All text that was sent.
    text: String,
    rests_at: Option<Instant>,
}

impl Events {
    pub(super) fn of(engine: &Engine, thread: &ThreadId, run: &RunId, known: SeenCounts) -> Events {
        Events {
            family: TreeWatcher::watch(engine, thread, run, known, WatchScope::All),
            engine: engine.clone(),
            run: run.clone(),
            flows: BTreeMap::new(),
            answering: BTreeMap::new(),
            answer_calls: BTreeSet::new(),
            tools: BTreeMap::new(),
            text: String::new(),
            rests_at: None,
        }
    }

    /// The text of the answer that was sent so far.
    pub(crate) fn sent_text(&self) -> &str {
        &self.text
    }

    /// The rest of the answer after the text that was sent. An answer that differs from that text follows it as a whole.
    pub(crate) fn missing(&self, answer: &str) -> String {
        match answer.strip_prefix(self.text.as_str()) {
            Some(rest) => rest.to_owned(),
            None if self.text.trim() == answer.trim() => String::new(),
            None => format!("\n\n{answer}"),
        }
    }

    /// The next event, of a run that waits for a person after it was answered.
    pub(crate) async fn next_after(&mut self, is_waiting: bool) -> Option<TurnEvent> {
        if is_waiting {
            self.rests_at = None;
            loop {
                match self.family.next().await {
                    Some(Ok(item)) if item.is_known => {
                        self.event_of(&item);
                    }
                    // The answer itself is none of the events that clients receive.
                    Some(Ok(item)) => match self.event_of(&item) {
                        Some(happened) => return Some(happened),
                        None => break,
                    },
                    Some(Err(error)) => tracing::warn!(run = %self.run, "no further events can be sent: {error}"),
                    None => return None,
                }
            }
        }
        self.next().await
    }

    /// `None` when the run is over, or only a person can move it.
    pub(crate) async fn next(&mut self) -> Option<TurnEvent> {
        loop {
            let (engine, run, rests_at) = (&self.engine, &self.run, self.rests_at);
            let rest = async {
                match rests_at {
                    Some(at) => {
                        tokio::time::sleep_until(at).await;
                        None
                    }
                    None => Some(match engine.wait(run).await {
                        Ok(RunState::Over(_)) => LAST_OF_ALL,
                        Ok(_) | Err(_) => LAST_EVENTS,
                    }),
                }
            };
            let tree_item = tokio::select! {
                biased;
                tree_item = self.family.next() => tree_item,
                rests = rest => match rests {
                    Some(last) => {
                        self.rests_at = Some(Instant::now() + last);
                        continue;
                    }
                    None => return None,
                },
            };
            match tree_item {
                Some(Ok(tree_item)) => {
                    if let Some(happened) = self.event_of(&tree_item) {
                        return Some(happened);
                    }
                }
                Some(Err(error)) => tracing::warn!(run = %self.run, "no further events can be sent: {error}"),
                None => return None,
            }
        }
    }

    /// What clients receive of an item of the feed, if anything.
    fn event_of(&mut self, tree_item: &TreeItem) -> Option<TurnEvent> {
        let numbered = match &tree_item.item {
            FeedItem::Event(numbered, _) => numbered,
            FeedItem::Delta { task, attempt, text } => return self.new_text(&tree_item.run, *task, *attempt, text),
        };
        match &numbered.event {
            Event::Started { flow, .. } => {
                self.flows.insert(tree_item.run.clone(), flow.to_string());
                None
            }
            _ if tree_item.is_known => None,
            Event::Entered { node, .. } if tree_item.is_answer => Some(TurnEvent::StepStarted { step: self.step(&tree_item.run, node) }),
            Event::Left { node, .. } if tree_item.is_answer => Some(TurnEvent::StepFinished { step: self.step(&tree_item.run, node) }),
            Event::Noted { name, value, .. } if tree_item.is_answer => Some(TurnEvent::Noted { name: name.clone(), value: value.clone() }),
            Event::Asked { task, effect, .. } => self.effect_started(tree_item, *task, effect),
            Event::Replied { task, reply, again_ms: None, .. } => {
                let (id, tool) = self.tools.remove_entry(&id_of(&tree_item.run, *task))?;
                let result = reply.result.as_ref().map(text_of).map_err(|failure| failure.message.clone());
                Some(TurnEvent::ToolFinished { id, tool, result })
            }
            Event::Skipped { task, failure } => {
                let (id, tool) = self.tools.remove_entry(&id_of(&tree_item.run, *task))?;
                Some(TurnEvent::ToolFinished { id, tool, result: Err(failure.message.clone()) })
            }
            _ => None,
        }
    }

    fn step(&self, run: &RunId, node: &str) -> String {
        self.flows.get(run).map_or_else(|| node.to_owned(), |flow| format!("{flow}.{node}"))
    }

    fn effect_started(&mut self, tree_item: &TreeItem, task: TaskId, effect: &Effect) -> Option<TurnEvent> {
        match effect {
            Effect::CallModel(call) => {
                // An answer from evidence is checked and cited before it is the answer, so it is sent once, then.
                let is_answer = tree_item.is_answer && call.purpose == ANSWER_CALL && call.schema.is_none();
                if is_answer && !call.messages.iter().any(|message| message.role == EVIDENCE_ROLE) {
                    self.answer_calls.insert((tree_item.run.clone(), task));
                }
                None
            }
            Effect::CallTool(call) => {
                let id = id_of(&tree_item.run, task);
                // Another attempt is the same call.
                if self.tools.insert(id.clone(), call.tool.clone()).is_some() {
                    return None;
                }
                Some(TurnEvent::ToolStarted { id, tool: call.tool.clone(), arguments: call.arguments.clone() })
            }
            Effect::CallAgent(_) | Effect::AskPerson(_) => None,
        }
    }

    /// A model that begins again repeats the beginning; only what goes beyond the sent text is new.
    fn new_text(&mut self, run: &RunId, task: TaskId, attempt: u32, text: &str) -> Option<TurnEvent> {
        if !self.answer_calls.contains(&(run.clone(), task)) {
            return None;
        }
        let so_far = self.answering.entry((run.clone(), task, attempt)).or_default();
        so_far.push_str(text);
        let news = so_far.strip_prefix(self.text.as_str()).filter(|news| !news.is_empty())?.to_owned();
        self.text.push_str(&news);
        Some(TurnEvent::Text(news))
    }
}

/// The purpose of model calls whose text is the answer, as the flows name it; and the role of passages that a model is shown.
const ANSWER_CALL: &str = "answer";
const EVIDENCE_ROLE: &str = "evidence";

/// Names a call of a tool.
fn id_of(run: &RunId, task: TaskId) -> String {
    let (step, index): (u64, u32) = task.into();
    format!("{run}-{step}-{index}")
}

/// A tool's reply as text.
fn text_of(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => match other.get("text").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => other.to_string(),
        },
    };
    effects::clip(&text, RESULT_BYTES_MAX)
}

//! Breakpoints: a run waits before a node until a person lets it go on.
//!
//! A breakpoint is a step of its own before the step of its node. It asks a person, may change the state by what they answer, and goes to the node. So it is
//! in the journal like any other step, and a run that waits at one can be resumed, replayed and forked. The answer may also name another node to go to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Outcome, Position, Run, Task, merge};
use crate::{Ask, Effect, Event, Question, Reply, Request};

/// Stands for every node.
pub const EVERY_NODE: &str = "*";

/// A node before which a run waits. It holds for the run itself, not for its child runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakpoint {
    /// The name of a node, or [`EVERY_NODE`].
    pub before: String,
    /// The first step at which it holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_step: u64,
    /// From this step on it no longer holds: the step at which a fork left the run that had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_step: Option<u64>,
}

impl Breakpoint {
    /// One that holds during the whole run.
    pub fn new(before: impl Into<String>) -> Breakpoint {
        Breakpoint { before: before.into(), from_step: 0, until_step: None }
    }

    fn holds(&self, node: &str, step: u64) -> bool {
        (self.before == EVERY_NODE || self.before == node) && step >= self.from_step && self.until_step.is_none_or(|until| step < until)
    }
}

fn is_zero(step: &u64) -> bool {
    *step == 0
}

/// Whether the breakpoint before the next node was passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Gate {
    #[default]
    Closed,
    Open,
    /// The change of the state that came with the answer did not fit, and why.
    Refused(String),
}

impl Gate {
    pub(super) fn is_closed(&self) -> bool {
        *self == Gate::Closed
    }
}

/// What a person answered.
#[derive(Deserialize)]
struct Word {
    #[serde(rename = "continue")]
    goes_on: bool,
    #[serde(default)]
    patch: Option<Value>,
    /// The node to go to in place of the one that follows. It is not in the schema of the question: the question is part of the journal, and those of older
    /// versions have it as it is.
    #[serde(default)]
    goto: Option<String>,
}

impl Run {
    /// The question of a breakpoint before this node, if the run waits there now. `gate` is how the step was entered.
    pub(super) fn breakpoint(&self, node: usize, gate: &Gate) -> Option<Ask> {
        let name = self.graph.node_name(node);
        let breakpoints = &self.start.context.breakpoints;
        if *gate == Gate::Open || self.start.depth > 0 || !breakpoints.iter().any(|one| one.holds(name, self.step)) {
            return None;
        }
        let mut prompt = format!("Paused before the node {name} of the flow {}. Continue?", self.graph.name());
        if let Gate::Refused(why) = gate {
            prompt = format!("The state cannot be changed like that: {why}\n{prompt}");
        }
        let schema = json!({
            "type": "object",
            "required": ["continue"],
            "properties": {
                "continue": { "type": "boolean", "description": "false ends the run" },
                "patch": { "type": "object", "description": "a JSON merge patch for the state of the flow" },
            },
        });
        Some(Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("paused at a breakpoint")))
    }

    /// Goes from a breakpoint to its node, with the state that the person wants, or ends.
    pub(super) fn leave_breakpoint(&mut self) {
        let Position::Active(active) = &self.position else { return };
        let node = active.node;
        let name = self.graph.node_name(node).clone();
        let answer = active.tasks.first().and_then(Task::answer).map(word);
        let (patch, goto) = match answer {
            Some(Ok(Word { goes_on: true, patch, goto })) => (patch, goto),
            Some(Ok(Word { goes_on: false, .. })) | None => {
                return self.end(Outcome::Cancelled { reason: format!("ended at the breakpoint before {name}") });
            }
            Some(Err(why)) => return self.go_on_from_breakpoint(node, node, Gate::Refused(why)),
        };
        let to = match &goto {
            None => node,
            Some(name) => match self.graph.0.nodes.iter().position(|one| *one.name == **name) {
                Some(to) => to,
                None => return self.go_on_from_breakpoint(node, node, Gate::Refused(self.graph.no_node(name))),
            },
        };
        let gate = match patch.as_ref().map(|patch| self.patched(patch)) {
            Some(Err(why)) => Gate::Refused(why),
            Some(Ok(())) => {
                // As with a fork, what a person wrote into the state is unchecked input.
                (self.is_tainted, self.has_private_text) = (true, true);
                Gate::Open
            }
            None => Gate::Open,
        };
        let mut note = json!({ "before": &*name, "patch": patch });
        if let Some(goto) = goto {
            note["goto"] = json!(goto);
        }
        self.event_log.push(Event::Noted { step: self.step, name: "breakpoint".into(), value: note });
        // A change that was refused is asked about again, before the same node.
        let to = if gate == Gate::Open { to } else { node };
        self.go_on_from_breakpoint(node, to, gate);
    }

    fn go_on_from_breakpoint(&mut self, node: usize, to: usize, gate: Gate) {
        let (name, next) = (self.graph.node_name(node).clone(), self.graph.node_name(to).clone());
        self.event_log.push(Event::Left { step: self.step, node: name, to: next });
        self.gate = gate;
        self.step += 1;
        self.position = Position::At(to);
    }

    /// Changes the state by a merge patch; on an error it stays as it is.
    pub(super) fn patched(&mut self, patch: &Value) -> Result<(), String> {
        let mut value = self.graph.0.behaviour.save(&self.state)?;
        merge(&mut value, patch);
        self.state = self.graph.0.behaviour.load(value)?;
        Ok(())
    }
}

fn word(reply: &Reply) -> Result<Word, String> {
    match &reply.result {
        Ok(Value::Bool(goes_on)) => Ok(Word { goes_on: *goes_on, patch: None, goto: None }),
        Ok(value) => Word::deserialize(value).map_err(|error| format!("the answer is not {{\"continue\": true}}: {error}")),
        Err(failure) => Err(failure.message.clone()),
    }
}

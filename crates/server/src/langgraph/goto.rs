//! `Command(goto=…)`: a run that goes on at a node that the client names.
//!
//! The new run is a branch of the thread's newest run, or of the one whose checkpoint is given. Where that run was at the node, the branch begins there, with
//! the state as it was then; at a node where it was not, with the state on entering its last step. An `update` beside it changes that state.

use engine::{Fork, History};
use graph::{Effect, Event};
use serde_json::Value;
use store::{RunRow, Status};
use wire::langgraph::RunCreate;

use super::begin::{Start, StartedTurn};
use super::ids::CheckpointId;
use super::interrupts::asks_to_go_on;
use super::{LangGraph, invalid, not_found};
use crate::langserve::{Caller, InputShape, Refused};

/// The node that a request names, if it names one.
pub(super) fn target(request: &RunCreate) -> Result<Option<String>, Refused> {
    let Some(command) = &request.command else { return Ok(None) };
    let node = match command.targets() {
        [] => return Ok(None),
        [Value::String(node)] => node.clone(),
        [_] => return Err(invalid("goto: name a node; a Send with an input of its own is not supported, send its fields as update")),
        _ => return Err(invalid("goto: a flow of Baton is at one node at a time; name one")),
    };
    if command.resume.as_ref().is_some_and(|resume| !resume.is_null()) {
        return Err(invalid("a command has resume or goto, not both: resume answers the run, goto leaves it for a new one"));
    }
    if request.input.as_ref().is_some_and(|input| !input.is_null()) {
        return Err(invalid("a run with goto takes no input; change the state with the command's update"));
    }
    Ok(Some(node))
}

/// A step of a run.
struct Visit {
    step: u64,
    node: String,
    /// Something other than to go on from a breakpoint was asked for, so that a run can begin here by itself.
    calls: bool,
}

impl LangGraph {
    pub(super) async fn go_to(
        &self,
        started: &mut StartedTurn,
        caller: &Caller,
        request: &RunCreate,
        head: Option<RunRow>,
        node: &str,
    ) -> Result<Start, Refused> {
        let from = request.from_checkpoint();
        let from = from.map(|id| CheckpointId::parse(id).ok_or_else(|| not_found("Checkpoint", id))).transpose()?;
        let waiting = head.as_ref().filter(|head| matches!(head.status, Status::Asking | Status::Waiting)).cloned();
        let (row, until) = match from {
            Some(CheckpointId::Step { run, step }) => (self.run_in(&started.thread, run.as_str()).await?, step),
            Some(CheckpointId::End { run }) => (self.run_in(&started.thread, run.as_str()).await?, u64::MAX),
            Some(CheckpointId::Edit(_)) | None => {
                (head.ok_or_else(|| invalid("goto: this thread has no run to go on from; send input first"))?, u64::MAX)
            }
        };
        let flow = self.engine().flows().get(&row.flow).ok_or_else(|| not_found("Graph", &row.flow))?;
        if !flow.nodes().any(|known| known == node) {
            return Err(invalid(format!("goto: {}", flow.no_node(node))));
        }
        // What is refused is refused before a run is stopped.
        self.breakpoints(&row.flow, request)?;
        let patch = patch_of(self.input_shape(&row.flow), request)?;
        let (past, trouble) = History::up_to_error(self.store(), self.engine().flows(), &row.run).await.map_err(Refused::of)?;
        if let Some(error) = trouble {
            return Err(Refused::of(error));
        }
        let visits = visits(past.events.iter().map(|numbered| &numbered.event), until);
        let mut fork = match visits.iter().rev().find(|visit| visit.node == node) {
            Some(visit) => Fork { at_step: visit.step, passes_breakpoint: !visit.calls, ..Fork::default() },
            None => Fork { at_step: visits.last().map_or(0, |visit| visit.step), go_to: Some(node.to_owned()), ..Fork::default() },
        };
        fork.patch = patch;
        if let Some(waiting) = waiting {
            self.stop(&waiting, &format!("it goes on at {node} in another run")).await?;
        }
        self.branch(started, caller, request, row, fork).await
    }
}

/// The steps of a run up to one, in order.
fn visits<'a>(events: impl Iterator<Item = &'a Event>, until: u64) -> Vec<Visit> {
    let mut all: Vec<Visit> = Vec::new();
    for event in events {
        match event {
            Event::Entered { step, node } if *step <= until => {
                // A step that is entered again after its state was changed is one step.
                all.pop_if(|last| last.step == *step);
                all.push(Visit { step: *step, node: node.to_string(), calls: false });
            }
            Event::Asked { task, effect, .. } => {
                let is_gate = matches!(&**effect, Effect::AskPerson(question) if asks_to_go_on(question));
                if let Some(last) = all.last_mut().filter(|last| last.step == task.step) {
                    last.calls |= !is_gate;
                }
            }
            _ => {}
        }
    }
    all
}

/// The change of the state that comes with the command.
fn patch_of(input_shape: InputShape, request: &RunCreate) -> Result<Option<Value>, Refused> {
    let update = request.command.as_ref().and_then(|command| command.update.as_ref()).filter(|update| !update.is_null());
    match (update, input_shape) {
        (None, _) => Ok(None),
        (Some(Value::Object(fields)), InputShape::Bare) if !fields.values().any(Value::is_null) => Ok(Some(Value::Object(fields.clone()))),
        (Some(_), InputShape::Bare) => Err(invalid("update is an object with the fields of the state to set, none of them null")),
        (Some(_), InputShape::Agent | InputShape::Question) => {
            Err(invalid("goto takes no update here: the state of this flow is its own, not its messages; send the update as a run's input"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_node_is_named_by_itself() {
        let request = |command: Value| serde_json::from_value::<RunCreate>(json!({ "assistant_id": "a", "command": command })).unwrap();
        for (command, wanted) in [
            (json!(null), None),
            (json!({ "resume": "yes", "goto": [] }), None),
            (json!({ "goto": "tell" }), Some("tell")),
            (json!({ "goto": ["tell"], "resume": null, "update": { "x": 1 } }), Some("tell")),
        ] {
            assert_eq!(target(&request(command.clone())).ok().unwrap().as_deref(), wanted, "{command}");
        }
        for (command, words) in [
            (json!({ "goto": ["a", "b"] }), "one node at a time"),
            (json!({ "goto": { "node": "a", "input": {} } }), "Send"),
            (json!({ "goto": "a", "resume": 1 }), "not both"),
        ] {
            let refused = target(&request(command.clone())).err().unwrap();
            assert!(refused.message().contains(words), "{command}: {}", refused.message());
        }
        let with_input = RunCreate { input: Some(json!({ "x": 1 })), ..request(json!({ "goto": "a" })) };
        assert!(target(&with_input).err().unwrap().message().contains("no input"));
    }
}

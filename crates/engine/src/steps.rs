//! The steps of a run for those who write flows: the state that each began with, what it used, and what changed between two of them.

use std::collections::BTreeMap;

use graph::{Event, Run, RunId, Usage};
use serde_json::Value;
use store::Store;

use crate::open::{Pages, apply, guarded, start_of};
use crate::{EngineError, Flows, Result};

/// JSON of all states that are kept of one run.
const STATES_BYTES_MAX: usize = 64 << 20;

/// A step of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number.
    pub step: u64,
    /// Its node.
    pub node: String,
    /// The state on entering it.
    pub state: Value,
    /// What the replies to its effects used, those of child runs included.
    pub used: Usage,
    /// The longest of its effects, in microseconds.
    pub took_us: u64,
}

/// The steps of a run.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// In order.
    pub steps: Vec<Step>,
    /// Later steps are left out, because their states are too large together.
    pub is_cut: bool,
}

impl Steps {
    /// Follows the journal of a run.
    pub async fn of(store: &dyn Store, flows: &Flows, run: &RunId) -> Result<Steps> {
        let start = start_of(store, run).await?;
        let graph =
            flows.get(&*start.flow).ok_or_else(|| EngineError::NoFlow { flow: start.flow.to_string(), known: flows.keys().cloned().collect() })?;
        let mut machine = Run::start(graph, start)?;
        machine.record_states(STATES_BYTES_MAX);
        let mut pages = Pages::new(run, 1);
        while let Some(lines) = pages.next(store).await? {
            for line in lines {
                apply(&mut machine, run, &line)?;
            }
        }
        guarded(&mut machine).map(drop)?;
        let mut spent: BTreeMap<u64, (Usage, u64)> = BTreeMap::new();
        for numbered in machine.take_events() {
            if let Event::Replied { task, reply, .. } = numbered.event {
                let (used, took_us) = spent.entry(task.step).or_default();
                *used = used.plus(reply.usage).plus(Usage { calls: 1, ..Usage::default() });
                *took_us = (*took_us).max(reply.took_us);
            }
        }
        let (states, is_cut) = machine.take_states();
        let step = |one: graph::StepState| {
            let (used, took_us) = spent.get(&one.step).copied().unwrap_or_default();
            Step { step: one.step, node: one.node.to_string(), state: one.state, used, took_us }
        };
        Ok(Steps { steps: states.into_iter().map(step).collect(), is_cut })
    }
}

/// One difference of two values.
#[derive(Clone, Debug, PartialEq)]
pub struct StateChange {
    /// A JSON pointer.
    pub path: String,
    /// `None` if it is new.
    pub before: Option<Value>,
    /// `None` if it is gone.
    pub after: Option<Value>,
}

/// Differences that are listed.
const CHANGES_MAX: usize = 500;

/// What changed from one value to the other: objects are compared by field, lists by place.
pub fn changes(before: &Value, after: &Value) -> Vec<StateChange> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found.truncate(CHANGES_MAX);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<StateChange>) {
    if before == after || found.len() > CHANGES_MAX {
        return;
    }
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))).collect();
            names.sort();
            for name in names {
                let place = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare(&place, old.get(name), new.get(name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(&format!("{path}/{at}"), old.get(at), new.get(at), found);
            }
        }
        _ => found.push(StateChange { path: path.to_owned(), before: before.cloned(), after: after.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_named_by_their_place() {
        let changed = |before: Value, after: Value| -> Vec<String> {
            let side = |value: Option<Value>| value.map_or("-".to_owned(), |value| value.to_string());
            changes(&before, &after).into_iter().map(|one| format!("{} {} {}", one.path, side(one.before), side(one.after))).collect()
        };
        assert_eq!(changed(json!({ "a": 1, "b": [1, 2] }), json!({ "a": 1, "b": [1, 3, 4], "c/d": null })), ["/b/1 2 3", "/b/2 - 4", "/c~1d - null"]);
        assert_eq!(changed(json!({ "a": { "x": 1 } }), json!({ "a": {} })), ["/a/x 1 -"]);
        assert_eq!(changed(json!(1), json!(1)), Vec::<String>::new());
        assert_eq!(changed(json!([]), json!(vec![0; 2_000])).len(), CHANGES_MAX);
    }
}

//! Starts a new run from the journal of another one up to a step, with optional edits.

use std::collections::BTreeMap;

use graph::{Breakpoint, EVERY_NODE, Entry, Origin, Reply, Run, RunContext, RunId, Start, TaskId, ThreadId};
use serde_json::{Value, json};

use crate::driver::RunSource;
use crate::open::{Pages, decode, start_of};
use crate::{Engine, EngineError, Result, title_of};

/// A branch of a run: the same journal up to a step, then on its own.
#[derive(Clone, Debug, Default)]
pub struct Fork {
    /// The first step that is performed again.
    pub at_step: u64,
    /// A JSON merge patch for the state on entering that step.
    pub patch: Option<Value>,
    /// Replies for effects of that step, in place of asking for them.
    pub replies: BTreeMap<u32, Value>,
    /// The thread of the new run; a new one by default.
    pub thread: Option<ThreadId>,
    /// Nodes before which the new run waits, [`graph::EVERY_NODE`] for all; not before the first one that it performs.
    pub breakpoints: Vec<String>,
    /// The step is a breakpoint, which the new run passes at once. If the run had none there, the new one gets it, so that it can begin at a step that
    /// calls nothing, too.
    pub passes_breakpoint: bool,
    /// The node to go on at from that breakpoint, in place of the step's own.
    pub go_to: Option<String>,
    /// The id of the new run, for callers that subscribe before it starts.
    pub run: Option<RunId>,
}

pub(crate) async fn fork(engine: &Engine, run: &RunId, fork: Fork) -> Result<RunId> {
    let inner = &engine.0;
    let passes_breakpoint = fork.passes_breakpoint || fork.go_to.is_some();
    let then = start_of(&*inner.store, run).await?;
    let new = fork.run.unwrap_or_else(crate::new_run_id);
    let title = inner.row(run).await.map_or_else(|_| title_of(&then.input), |row| row.title);
    let start = Start {
        thread: fork.thread.unwrap_or_else(|| ThreadId::from(new.as_str())),
        run: new.clone(),
        parent: None,
        depth: 0,
        shape: None,
        // Permissions of the forked run do not apply to the new one.
        context: RunContext {
            allowed: Vec::new(),
            breakpoints: breakpoints(&then.context.breakpoints, &fork.breakpoints, fork.at_step, passes_breakpoint),
            ..then.context
        },
        // Replies and state that the caller supplied are unchecked input.
        is_tainted: then.is_tainted || fork.patch.is_some() || !fork.replies.is_empty(),
        forked_from: Some(Origin { run: run.clone(), step: fork.at_step }),
        ..then
    };
    let mut machine = Run::start(&inner.graph(&start.flow)?, start)?;
    machine.settle();

    let mut past = Vec::new();
    let mut pages = Pages::new(run, 1);
    'copying: while let Some(lines) = pages.next(&*inner.store).await? {
        for line in lines {
            let entry = decode(run, &line)?;
            if machine.step() >= fork.at_step || matches!(entry, Entry::Cancelled { .. }) {
                break 'copying;
            }
            machine.apply(entry.clone())?;
            machine.settle();
            past.push(entry);
        }
    }
    if machine.step() != fork.at_step || machine.outcome().is_some() {
        return Err(EngineError::NoStep { run: run.clone(), step: fork.at_step, last: machine.step() });
    }
    if let Some(patch) = &fork.patch {
        past.push(machine.edit(patch)?);
        machine.settle();
    }
    for (index, value) in fork.replies {
        past.extend(machine.feed(TaskId { step: fork.at_step, index }, 1, Reply::ok(value))?);
    }
    if passes_breakpoint {
        let mut word = json!({ "continue": true });
        if let Some(node) = fork.go_to {
            word["goto"] = json!(node);
        }
        past.extend(machine.feed(TaskId { step: fork.at_step, index: 0 }, 1, Reply::ok(word))?);
    }
    let place = inner.clone().place().await?;
    let machine = std::sync::Mutex::new(Some(machine));
    let source = || {
        // Only a run in a thread that is held is started again.
        let machine = machine.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let machine = Box::new(machine.ok_or_else(|| EngineError::Restless { run: new.clone() })?);
        Ok(RunSource::New { machine, title: title.clone(), past: past.clone() })
    };
    inner.begin_run(source, place).await.map(|_| new.clone())
}

/// The past of the new run waits where the old one did, what follows where the caller wants it. `with_step`: the step itself belongs to the past.
fn breakpoints(old: &[Breakpoint], new: &[String], at_step: u64, with_step: bool) -> Vec<Breakpoint> {
    let past = at_step + u64::from(with_step);
    let until = |one: &Breakpoint| Breakpoint { until_step: Some(one.until_step.map_or(past, |until| until.min(past))), ..one.clone() };
    let from = |before: &String| Breakpoint { from_step: at_step + 1, ..Breakpoint::new(before.as_str()) };
    // One that would begin where it ends never holds; without this, each fork of a fork would have more of them.
    let mut all: Vec<Breakpoint> = old.iter().filter(|one| one.from_step < past).map(until).chain(new.iter().map(from)).collect();
    let passed = Breakpoint { before: EVERY_NODE.to_owned(), from_step: at_step, until_step: Some(past) };
    if with_step && !all.contains(&passed) {
        all.push(passed);
    }
    all
}

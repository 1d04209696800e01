//! Replays a journal without performing effects.

use std::sync::Arc;

use graph::{Mismatch, NumberedEvent, Outcome, Run, RunError, RunId, Start, Usage};
use serde::Serialize;
use serde_json::Value;
use store::{JournalLine, Store};

use crate::open::{Pages, apply, bytes_of, guarded, start_of};
use crate::{EngineError, Flows, Result, heavy, result_of};

/// Everything that follows from a journal.
#[derive(Default)]
pub struct History {
    /// How it was started.
    pub start: Option<Start>,
    /// What happened, in order.
    pub events: Vec<NumberedEvent>,
    /// Lines of the journal.
    pub lines: u64,
    /// When each journal line was written, in milliseconds since 1970.
    pub times_ms: Vec<i64>,
    /// When each event was published.
    pub published_ms: Vec<i64>,
    /// The state after the last line.
    pub state: Value,
    /// The step it is at.
    pub step: u64,
    /// The node of that step.
    pub node: Option<String>,
    /// What it used.
    pub spent: Usage,
    /// How long it took, in microseconds.
    pub elapsed_us: u64,
    /// How it ended, if it did.
    pub outcome: Option<Arc<Outcome>>,
}

impl History {
    /// Reads the journal of a run.
    pub async fn of(store: &dyn Store, flows: &Flows, run: &RunId) -> Result<History> {
        let (history, trouble) = History::up_to_error(store, flows, run).await?;
        trouble.map_or(Ok(history), Err)
    }

    /// What can be read, and the error that ended it: a changed flow or a damaged entry.
    pub async fn up_to_error(store: &dyn Store, flows: &Flows, run: &RunId) -> Result<(History, Option<EngineError>)> {
        let start = start_of(store, run).await?;
        let graph =
            flows.get(&*start.flow).ok_or_else(|| EngineError::NoFlow { flow: start.flow.to_string(), known: flows.keys().cloned().collect() })?;
        let mut machine = Run::start(graph, start.clone())?;
        let mut history = History { lines: 1, ..History::default() };
        let trouble = history.follow(store, run, &mut machine).await.err();
        history.collect_events(&mut machine);
        history.start = Some(start);
        history.state = machine.state().unwrap_or(Value::Null);
        history.step = machine.step();
        history.node = machine.node().map(ToString::to_string);
        history.spent = machine.spent();
        history.elapsed_us = machine.elapsed_us();
        history.outcome = machine.outcome().cloned();
        Ok((history, trouble))
    }

    async fn follow(&mut self, store: &dyn Store, run: &RunId, machine: &mut Run) -> Result<()> {
        let mut pages = Pages::new(run, 0);
        while let Some(lines) = pages.next(store).await? {
            heavy::step(bytes_of(&lines), || lines.iter().try_for_each(|line| self.follow_line(run, machine, line))).await?;
        }
        guarded(machine).map(drop)
    }

    fn follow_line(&mut self, run: &RunId, machine: &mut Run, line: &JournalLine) -> Result<()> {
        self.times_ms.push(line.at_ms);
        if line.seq > 0 {
            apply(machine, run, line)?;
            self.lines = line.seq + 1;
        }
        self.collect_events(machine);
        Ok(())
    }

    fn collect_events(&mut self, machine: &mut Run) {
        self.events.extend(machine.take_events());
        self.published_ms.resize(self.events.len(), self.times_ms.last().copied().unwrap_or_default());
    }
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// Lines of the journal that were compared.
    pub entries: u64,
    /// Events that followed from them.
    pub events: usize,
    /// The first difference between the journal and the flow as it is now.
    pub difference: Option<String>,
    /// The graph has changed; that alone need not change the run.
    pub shape_changed: bool,
}

/// Replays a journal and compares every effect and the outcome.
pub async fn replay(store: &dyn Store, flows: &Flows, run: &RunId) -> Result<Replayed> {
    let (history, trouble) = History::up_to_error(store, flows, run).await?;
    let row = store.run(run).await?.ok_or_else(|| store::StoreError::NoRun { run: run.clone() })?;
    let then = result_of(&row);
    let difference = match trouble {
        Some(EngineError::Run(RunError::Mismatch { at, mismatch })) => Some(words(at, &mismatch)),
        Some(e @ (EngineError::Crashed { .. } | EngineError::Run(_))) => Some(e.to_string()),
        Some(e) => return Err(e),
        None => match (&history.outcome, &then) {
            (Some(now), Some(then)) if **now != then.outcome => Some(format!("it ended as {:?} then, and as {now:?} now", then.outcome)),
            (None, Some(then)) => Some(format!("it ended as {:?} then, and goes on now", then.outcome)),
            (Some(now), None) => Some(format!("it had not ended then, and ends as {now:?} now")),
            (Some(_), Some(_)) | (None, None) => None,
        },
    };
    let shape_now = history.start.as_ref().and_then(|start| flows.get(&*start.flow)).map(graph::Graph::shape);
    let shape_then = history.start.as_ref().and_then(|start| start.shape);
    Ok(Replayed { entries: history.lines, events: history.events.len(), difference, shape_changed: shape_now != shape_then })
}

fn words(at: u64, mismatch: &Mismatch) -> String {
    format!("journal entry {at}: {mismatch}")
}

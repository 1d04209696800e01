//! Rebuilds a run from the store: its start, the newest snapshot that fits, and the journal from there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use graph::{Entry, Next, Run, RunId, Snapshot, Start};
use store::{JournalLine, Store, StoreError};

use crate::{EngineError, Flows, Result, heavy};

/// Lines read at once, unless they are long, so that a long journal is never in memory as a whole.
const PAGE_LINES: usize = 2_048;

pub(crate) struct OpenedRun {
    pub(crate) machine: Run,
    /// Journal bytes since the snapshot, and the snapshot's own.
    pub(crate) tail_bytes: usize,
    pub(crate) snapshot_bytes: usize,
}

pub(crate) async fn open(store: &dyn Store, flows: &Flows, run: &RunId) -> Result<OpenedRun> {
    let start = start_of(store, run).await?;
    let graph =
        flows.get(&*start.flow).ok_or_else(|| EngineError::NoFlow { flow: start.flow.to_string(), known: flows.keys().cloned().collect() })?;
    if let Some(row) = store.snapshot(run).await?
        && let Ok(snapshot) = Snapshot::decode(&row.bytes)
        && snapshot.entries == row.entries
        // A snapshot that no longer fits is not needed: the journal is all of it.
        && let Ok(machine) = Run::restore(graph, start.clone(), snapshot)
    {
        let mut opened = OpenedRun { machine, tail_bytes: 0, snapshot_bytes: row.bytes.len() };
        apply_rest(store, run, &mut opened).await?;
        return Ok(opened);
    }
    let mut opened = OpenedRun { machine: Run::start(graph, start)?, tail_bytes: 0, snapshot_bytes: 0 };
    apply_rest(store, run, &mut opened).await?;
    Ok(opened)
}

async fn apply_rest(store: &dyn Store, run: &RunId, opened: &mut OpenedRun) -> Result<()> {
    let from = opened.machine.entries();
    let mut pages = Pages::new(run, from);
    while let Some(lines) = pages.next(store).await? {
        let bytes = bytes_of(&lines);
        opened.tail_bytes += bytes;
        heavy::step(bytes, || lines.iter().try_for_each(|line| apply(&mut opened.machine, run, line))).await?;
    }
    Ok(())
}

/// The journal, page by page.
pub(crate) struct Pages {
    run: RunId,
    from: Option<u64>,
}

impl Pages {
    pub(crate) fn new(run: &RunId, from: u64) -> Self {
        Pages { run: run.clone(), from: Some(from) }
    }

    pub(crate) async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<JournalLine>>> {
        let Some(from) = self.from else { return Ok(None) };
        let lines = store.journal(&self.run, from, PAGE_LINES).await?;
        self.from = (!JournalLine::is_last_page(&lines, PAGE_LINES)).then(|| from + lines.len() as u64);
        Ok((!lines.is_empty()).then_some(lines))
    }
}

pub(crate) fn bytes_of(lines: &[JournalLine]) -> usize {
    lines.iter().map(|line| line.bytes.len()).sum()
}

pub(crate) fn decode(run: &RunId, line: &JournalLine) -> Result<Entry> {
    Entry::decode(&line.bytes).map_err(|source| EngineError::Entry { run: run.clone(), seq: line.seq, source })
}

/// Replays one line. A flow's own code runs in here, and may panic.
pub(crate) fn apply(machine: &mut Run, run: &RunId, line: &JournalLine) -> Result<()> {
    let entry = decode(run, line)?;
    let applied = catch_unwind(AssertUnwindSafe(|| machine.apply(entry)));
    applied.map_err(|panic| EngineError::Crashed { run: run.clone(), why: panic_message(&*panic) })?.map_err(EngineError::from)
}

/// `next`, with a panic of the flow turned into an error.
pub(crate) fn guarded(machine: &mut Run) -> Result<Next> {
    let run = machine.facts().run.clone();
    catch_unwind(AssertUnwindSafe(|| machine.next())).map_err(|panic| EngineError::Crashed { run, why: panic_message(&*panic) })
}

pub(crate) async fn start_of(store: &dyn Store, run: &RunId) -> Result<Start> {
    let first = store.journal(run, 0, 1).await?;
    let Some(line) = first.first() else { return Err(StoreError::NoRun { run: run.clone() }.into()) };
    match decode(run, line)? {
        Entry::Started(start) => Ok(*start),
        Entry::Replied { .. } | Entry::Doubted { .. } | Entry::Held { .. } | Entry::Edited { .. } | Entry::Cancelled { .. } => {
            Err(graph::RunError::NoStart.into())
        }
    }
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked without a word".into())
}

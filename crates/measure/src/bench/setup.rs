//! The environment of measurements: a folder and the amount of work.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine::{Engine, Order, Replayed, RunState, Settings};
use graph::{Outcome, RunId};
use serde_json::{Value, json};
use service::{Result, ServiceError};
use store::{MemoryStore, SqliteSettings, SqliteStore, Store};

use super::flow;
use super::wrong;

pub(crate) struct BenchSetup {
    folder: tempfile::TempDir,
    pub(crate) sizes: Sizes,
    load_before: f64,
}

/// Result of a measurement.
pub(crate) struct Found {
    pub(crate) numbers: Vec<(&'static str, f64)>,
    /// One of the measured runs, replayed from its journal; `None` if no run was measured.
    pub(crate) replayed: Option<Replayed>,
}

#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) is_quick: bool,
    /// Consecutive runs in memory, and steps of each.
    pub(crate) runs: u64,
    pub(crate) steps: u64,
    pub(crate) fans: u64,
    /// Steps of each of the concurrent runs on disk.
    pub(crate) durable_steps: u64,
    pub(crate) alone_steps: u64,
    pub(crate) fsyncs: usize,
    pub(crate) concurrent_runs: u64,
    pub(crate) concurrent_run_steps: u64,
    pub(crate) journal_steps: u64,
    pub(crate) long_steps: u64,
    pub(crate) starts: usize,
    /// Runs of a real flow, consecutive and concurrent.
    pub(crate) flow_runs: u64,
    pub(crate) flow_concurrent_runs: u64,
}

impl Sizes {
    pub(crate) const FULL: Sizes = Sizes {
        is_quick: false,
        runs: 300,
        steps: 1_000,
        fans: 300,
        durable_steps: 150,
        alone_steps: 200,
        fsyncs: 100,
        concurrent_runs: 1_000,
        concurrent_run_steps: 10,
        journal_steps: 500,
        long_steps: 10_000,
        starts: 11,
        flow_runs: 60,
        flow_concurrent_runs: 500,
    };
    pub(crate) const QUICK: Sizes = Sizes {
        is_quick: true,
        runs: 2,
        steps: 20,
        fans: 2,
        durable_steps: 2,
        alone_steps: 3,
        fsyncs: 3,
        concurrent_runs: 20,
        concurrent_run_steps: 2,
        journal_steps: 20,
        long_steps: 60,
        starts: 2,
        flow_runs: 2,
        flow_concurrent_runs: 4,
    };
}

impl BenchSetup {
    pub(crate) fn new(dir: Option<&Path>, sizes: Sizes) -> Result<BenchSetup> {
        let dir = match dir {
            Some(dir) => dir.to_owned(),
            // Not the temporary folder, which may be in memory, where nothing is durable.
            None => dirs::cache_dir().unwrap_or_else(std::env::temp_dir).join("baton").join("bench"),
        };
        let cannot = |error| ServiceError::Failed(format!("{} cannot be used: {error}; name another folder with --dir", dir.display()));
        std::fs::create_dir_all(&dir).map_err(cannot)?;
        let folder = tempfile::tempdir_in(&dir).map_err(cannot)?;
        Ok(BenchSetup { folder, sizes, load_before: load() })
    }

    /// A folder for one measurement, on the measured disk. Removed when dropped.
    pub(crate) fn place(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::tempdir_in(self.folder.path())?)
    }

    pub(crate) fn host(&self) -> Value {
        json!({
            "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            "load_before": self.load_before,
            "load_after": load(),
            "dir": self.folder.path().parent(),
            "build": if cfg!(debug_assertions) { "debug" } else { "release" },
            "sizes": if self.sizes.is_quick { "quick: these numbers mean nothing" } else { "full" },
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

pub(crate) fn in_memory() -> Result<Engine> {
    over(Arc::new(MemoryStore::new()))
}

pub(crate) fn on_disk(path: &Path) -> Result<Engine> {
    over(Arc::new(SqliteStore::open(path, SqliteSettings::default())?))
}

pub(crate) fn over(store: Arc<dyn Store>) -> Result<Engine> {
    let flows = flow::all().map_err(wrong)?;
    Ok(Engine::new(store, Arc::new(flow::BenchHandler), flows, Settings::default()))
}

/// A run from its start to its end.
pub(crate) async fn whole(engine: &Engine, flow: &str, input: Value) -> Result<RunId> {
    let run = engine.start(Order::new(flow, input)).await?;
    match engine.wait(&run).await? {
        RunState::Over(closing) if matches!(closing.outcome, Outcome::Done { .. }) => Ok(run),
        other => Err(wrong(format!("a run did not end well: {other:?}"))),
    }
}

/// Replays the journal of a measured run. `events` is the expected number.
pub(crate) async fn replay(engine: &Engine, run: &RunId, events: u64) -> Result<Replayed> {
    let replayed = replay_any(engine, run).await?;
    match replayed.events as u64 == events {
        true => Ok(replayed),
        false => Err(wrong(format!("{} events were published, and {events} were expected", replayed.events))),
    }
}

/// The same for a run with an unknown number of events.
pub(crate) async fn replay_any(engine: &Engine, run: &RunId) -> Result<Replayed> {
    let replayed = engine::replay(&**engine.store(), engine.flows(), run).await?;
    match &replayed.difference {
        Some(difference) => Err(wrong(format!("a replay differs: {difference}"))),
        None => Ok(replayed),
    }
}

pub(crate) fn us_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}

/// Peak memory of this process.
pub(crate) fn peak_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kb = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or(0.0) / 1_024.0
}

/// A database with its WAL, on disk.
pub(crate) fn bytes_in(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

//! Measurements that need a separate process: start time and peak memory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use engine::Replayed;
use graph::RunId;
use serde::{Deserialize, Serialize};
use service::Result;
use service::wiring;

use super::durable::median;
use super::flow;
use super::setup::{BenchSetup, Found, Sizes, on_disk, peak_mb, replay, us_since, whole};
use super::wrong;

/// The other side of `runs1000` and `cold`: this program again, as a measured process
#[derive(clap::Args)]
pub struct Child {
    what: ChildTask,
    dir: PathBuf,
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ChildTask {
    Runs1000,
    Cold,
    /// The server of `bench protocols`.
    Invoke,
}

/// The report of a measured process.
#[derive(Serialize, Deserialize)]
struct ChildReport {
    run: RunId,
    ms: f64,
    peak_mb: f64,
    /// When the parent process received it.
    #[serde(skip, default = "Instant::now")]
    at: Instant,
}

impl Child {
    pub(crate) fn run(self) -> Result<()> {
        let sizes = if self.quick { Sizes::QUICK } else { Sizes::FULL };
        let path = self.dir.join("bench.db");
        match self.what {
            ChildTask::Runs1000 => wiring::block_on_all_cores(run_many(&path, sizes))?,
            ChildTask::Cold => wiring::block_on(first_step(&path))?,
            ChildTask::Invoke => wiring::block_on_all_cores(super::protocols::serve(&self.dir))?,
        }
        Ok(())
    }
}

/// A thousand runs that mostly wait, with each step on disk.
pub(crate) fn runs1000(setup: &BenchSetup) -> Result<Found> {
    let place = setup.place()?;
    let report = spawn(setup, "runs1000", place.path())?;
    let replayed = replay_there(place.path(), &report.run, flow::events(setup.sizes.concurrent_run_steps, 1))?;
    Ok(Found { numbers: vec![("runs1000_ms", report.ms), ("runs1000_rss_mb", report.peak_mb)], replayed: Some(replayed) })
}

/// Time from process start to its first step with a new database, and to its exit; medians.
pub(crate) fn cold(setup: &BenchSetup) -> Result<Found> {
    let (mut times, mut whole_times, mut peaks, mut last) = (Vec::new(), Vec::new(), Vec::new(), None);
    for _ in 0..setup.sizes.starts {
        let place = setup.place()?;
        let started = Instant::now();
        let report = spawn(setup, "cold", place.path())?;
        times.push(report.at.duration_since(started).as_secs_f64() * 1e3);
        whole_times.push(us_since(started) / 1e3);
        peaks.push(report.peak_mb);
        last = Some(replay_there(place.path(), &report.run, flow::events(1, 1))?);
    }
    let numbers = vec![("cold_start_ms", median(times)), ("cold_process_ms", median(whole_times)), ("cold_start_rss_mb", median(peaks))];
    Ok(Found { numbers, replayed: last })
}

async fn run_many(path: &Path, sizes: Sizes) -> Result<()> {
    let engine = on_disk(path)?;
    let started = Instant::now();
    let runs: Vec<_> = (0..sizes.concurrent_runs)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { whole(&engine, "naps", flow::left(sizes.concurrent_run_steps)).await })
        })
        .collect();
    let mut last = None;
    for run in runs {
        last = Some(run.await.map_err(wrong)??);
    }
    let ms = us_since(started) / 1e3;
    print_result(last.ok_or_else(|| wrong("no run was measured"))?, ms)
}

async fn first_step(path: &Path) -> Result<()> {
    let started = Instant::now();
    let engine = on_disk(path)?;
    let run = whole(&engine, "effects", flow::left(1)).await?;
    // Before the store is closed: what follows is the exit, not the start.
    print_result(run, us_since(started) / 1e3)
}

fn print_result(run: RunId, ms: f64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &ChildReport { run, ms, peak_mb: peak_mb(), at: Instant::now() })?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn spawn(setup: &BenchSetup, what: &str, place: &Path) -> Result<ChildReport> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "child", what]).arg(place).args(setup.sizes.is_quick.then_some("--quick"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    // Parsed immediately: it records the time.
    let report = serde_json::from_str(&line);
    let status = child.wait()?;
    if !status.success() {
        return Err(wrong(format!("the measured process ended with {status}")));
    }
    report.map_err(wrong)
}

fn replay_there(place: &Path, run: &RunId, events: u64) -> Result<Replayed> {
    wiring::block_on(async { replay(&on_disk(&place.join("bench.db"))?, run, events).await })
}

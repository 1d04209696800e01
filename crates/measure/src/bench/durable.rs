//! Cost of durability: the same over SQLite with `synchronous=FULL`, and the size on disk.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use engine::{History, Order, RunState};
use serde_json::json;
use service::Result;
use service::wiring;
use store::{Durability, SqliteSettings, SqliteStore};

use super::flow::{self, MESSAGE_BYTES};
use super::setup::{BenchSetup, Found, bytes_in, on_disk, over, replay, us_since, whole};
use super::wrong;

const TOGETHER: u64 = 64;

/// The lower bound: one page appended to a file and synced, median of many.
pub(crate) fn fsync(setup: &BenchSetup) -> Result<Found> {
    let place = setup.place()?;
    let mut file = OpenOptions::new().create(true).append(true).open(place.path().join("bare"))?;
    let page = [0x5a; 4_096];
    let mut times = Vec::new();
    for _ in 0..setup.sizes.fsyncs {
        let started = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(us_since(started));
    }
    Ok(Found { numbers: vec![("fsync_us", median(times))], replayed: None })
}

/// Concurrent runs share their commits.
pub(crate) fn together(setup: &BenchSetup) -> Result<Found> {
    let steps = setup.sizes.durable_steps;
    let place = setup.place()?;
    wiring::block_on_all_cores(async {
        let engine = on_disk(&place.path().join("bench.db"))?;
        whole(&engine, "effects", flow::left(1)).await?;
        let started = Instant::now();
        let runs: Vec<_> = (0..TOGETHER)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { whole(&engine, "effects", flow::left(steps)).await })
            })
            .collect();
        let mut last = None;
        for run in runs {
            last = Some(run.await.map_err(wrong)??);
        }
        let us = us_since(started) / (TOGETHER * steps) as f64;
        let run = last.ok_or_else(|| wrong("no run was measured"))?;
        Ok(Found { numbers: vec![("step_durable_us", us)], replayed: Some(replay(&engine, &run, flow::events(steps, 1)).await?) })
    })
}

/// A single run pays for every commit itself.
pub(crate) fn alone(setup: &BenchSetup) -> Result<Found> {
    let steps = setup.sizes.alone_steps;
    let place = setup.place()?;
    wiring::block_on(async {
        let engine = on_disk(&place.path().join("bench.db"))?;
        whole(&engine, "effects", flow::left(1)).await?;
        let started = Instant::now();
        let run = whole(&engine, "effects", flow::left(steps)).await?;
        let us = us_since(started) / steps as f64;
        Ok(Found { numbers: vec![("step_durable_alone_us", us)], replayed: Some(replay(&engine, &run, flow::events(steps, 1)).await?) })
    })
}

/// Size on disk of a run whose state keeps a message from every step.
pub(crate) fn journal500(setup: &BenchSetup) -> Result<Found> {
    let steps = setup.sizes.journal_steps;
    let place = setup.place()?;
    let replayed = wiring::block_on(async {
        let engine = on_disk(&place.path().join("bench.db"))?;
        let run = whole(&engine, "grow", json!({ "left": steps, "asks": false })).await?;
        replay(&engine, &run, flow::events(steps, 1)).await
    })?;
    // The store was closed with the engine, so this is its final size.
    Ok(Found { numbers: vec![("journal500_bytes", bytes_in(place.path())? as f64)], replayed: Some(replayed) })
}

/// A long run that waits for a person: its size, and the time to open it in another process.
pub(crate) fn journal10000(setup: &BenchSetup) -> Result<Found> {
    let steps = setup.sizes.long_steps;
    let place = setup.place()?;
    let path = place.path().join("bench.db");
    let run = wiring::block_on(async {
        // Only the final state is measured, so no sync is needed on the way.
        let engine = over(Arc::new(SqliteStore::open(&path, SqliteSettings { durability: Durability::Off })?))?;
        let run = engine.start(Order::new("grow", json!({ "left": steps, "asks": true }))).await?;
        match engine.wait(&run).await? {
            RunState::Parked(_) => Ok(run),
            other => Err(wrong(format!("the long run should wait for a person: {other:?}"))),
        }
    })?;
    // JSON text has quotes around it.
    let reply_bytes = steps * (MESSAGE_BYTES as u64 + 2);
    let ratio = bytes_in(place.path())? as f64 / reply_bytes as f64;
    wiring::block_on(async {
        let started = Instant::now();
        let engine = on_disk(&path)?;
        let waiting = engine.waiting(&run).await?;
        let open_ms = us_since(started) / 1e3;
        if waiting.len() != 1 {
            return Err(wrong(format!("one question should be open: {waiting:?}")));
        }
        let started = Instant::now();
        History::of(&**engine.store(), engine.flows(), &run).await?;
        let history_ms = us_since(started) / 1e3;
        let numbers = vec![("open10000_ms", open_ms), ("history10000_ms", history_ms), ("journal10000_ratio", ratio)];
        // The last step is entered and requested; it is not finished.
        let replayed = replay(&engine, &run, flow::events(steps, 1) + 1).await?;
        Ok(Found { numbers, replayed: Some(replayed) })
    })
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

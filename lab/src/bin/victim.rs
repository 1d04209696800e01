//! The process that `tests/kill.rs` kills: `victim FOLDER LIFE FIRST TARGET` goes on with whatever the database says is not
//! finished, and runs the errands numbered `FIRST..TARGET`, a few at a time. It exits with 0 when they are all over.

#[path = "../../../crates/cli/src/owner.rs"]
mod owner;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{At, Engine, Order, Settings};
use graph::{Key, RunId, ThreadId};
use lab::kill::{FileWorld, Trace, Traces, flows, input};
use serde_json::json;
use store::{RunFilter, SqliteSettings, SqliteStore, Status, Store};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Errands that go at once.
const WORKERS: usize = 6;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, life, first, target] = words.as_slice() else { return Err("usage: victim FOLDER LIFE FIRST TARGET".into()) };
    let folder = PathBuf::from(folder);
    let traces = Arc::new(Traces::open(&folder, life.parse()?)?);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.join("victim.db"), SqliteSettings::default())?);
    let settings = Settings {
        owner: owner::this(),
        is_gone: Arc::new(owner::is_gone),
        // Small, so that runs are also opened from snapshots.
        snapshot_bytes_min: 1_000,
        ..Settings::default()
    };
    let engine = Engine::new(store, Arc::new(FileWorld { traces: traces.clone() }), flows(), settings);
    engine.recover().await?;

    let next = Arc::new(AtomicU64::new(first.parse()?));
    let target: u64 = target.parse()?;
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (engine, traces, next) = (engine.clone(), traces.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= target {
                        return Ok(());
                    }
                    errand(&engine, &traces, number).await?;
                }
            })
        })
        .collect();
    for worker in workers {
        let done: Result<()> = worker.await?;
        done?;
    }
    Ok(())
}

async fn errand(engine: &Engine, traces: &Traces, number: u64) -> Result<()> {
    let run = RunId::from(format!("r{number}"));
    if engine.store().run(&run).await?.is_none() {
        let order = Order { run: Some(run.clone()), thread: Some(ThreadId::from(format!("t{number}"))), ..Order::new("errand", input(number)) };
        engine.start(order).await?;
        traces.log(&Trace::Started { number });
    }
    loop {
        match engine.wait(&run).await? {
            At::Over(_) => return Ok(()),
            At::Parked(_) | At::Going | At::Lost(_) => vouch(engine, traces, &ThreadId::from(format!("t{number}"))).await?,
        }
    }
}

/// The person: looks outside, and says what it saw.
async fn vouch(engine: &Engine, traces: &Traces, thread: &ThreadId) -> Result<()> {
    let filter = RunFilter { statuses: vec![Status::Asking], thread: Some(thread.clone()), ..RunFilter::default() };
    let asking = engine.store().runs(filter).await?;
    if asking.is_empty() {
        // Its child has just been answered and goes on.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    for row in asking {
        for waiting in engine.waiting(&row.run).await? {
            let key = Key::of(thread, &row.run, waiting.task);
            let happened = traces.happened(key);
            traces.log(&Trace::Verdict { key, attempt: waiting.attempt, happened: happened.is_some() });
            let verdict = happened.map_or(json!({ "verdict": "again" }), |value| json!({ "verdict": "done", "value": value }));
            engine.answer(&row.run, waiting.task, waiting.attempt, verdict).await?;
        }
    }
    Ok(())
}

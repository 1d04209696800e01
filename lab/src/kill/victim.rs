//! One life of a process that is killed: it resumes all unfinished runs of the database, and drives the given runs, a few at a time. It
//! also answers the runs' questions.

#[path = "../../../crates/service/src/owner.rs"]
mod owner;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use effects::EffectHandler;
use engine::{Engine, Order, Settings};
use graph::{Graph, Key, Waiting};
use serde_json::Value;
use store::{SqliteSettings, SqliteStore, Store};

use super::traces::{Trace, Traces};
use super::{DB, run_of, thread_of};
use crate::person::through;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The input of a run, and the person who answers its questions.
pub struct VictimSetup {
    pub traces: Traces,
    pub order: fn(u64) -> Order,
    pub person: Box<Person>,
}

/// Answers one question. The key is that of the effect in question.
pub type Person = dyn Fn(&Traces, Key, &Waiting) -> Value + Send + Sync;

/// Concurrent runs.
const WORKERS: usize = 6;

/// Returns when all of these have ended.
pub async fn live(folder: &Path, handler: Arc<dyn EffectHandler>, flows: Vec<Graph>, numbers: Range<u64>, life: VictimSetup) -> Result<()> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.join(DB), SqliteSettings::default())?);
    let settings = Settings {
        owner: owner::this(),
        is_gone: Arc::new(owner::is_gone),
        // Small, so that runs are also opened from snapshots.
        snapshot_bytes_min: 1_000,
        ..Settings::default()
    };
    let engine = Engine::new(store, handler, flows, settings);
    engine.recover().await?;
    let (next, life) = (Arc::new(AtomicU64::new(numbers.start)), Arc::new(life));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (engine, life, next) = (engine.clone(), life.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return Ok(());
                    }
                    whole(&engine, &life, number).await?;
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

async fn whole(engine: &Engine, life: &VictimSetup, number: u64) -> Result<()> {
    let (run, thread) = (run_of(number), thread_of(number));
    if engine.store().run(&run).await?.is_none() {
        engine.start(Order { run: Some(run.clone()), thread: Some(thread.clone()), ..(life.order)(number) }).await?;
        life.traces.log(&Trace::Started { number });
    }
    through(engine, &thread, &run, &|key, waiting| (life.person)(&life.traces, key, waiting)).await?;
    Ok(())
}

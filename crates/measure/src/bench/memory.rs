//! Cost of the state machine and the driver alone: everything is real, but the store is in memory.

use std::time::Instant;

use engine::Order;
use serde_json::Value;
use service::Result;
use service::wiring;

use super::flow::{self, FAN};
use super::setup::{BenchSetup, Found, in_memory, replay, us_since, whole};

/// Steps without effects; then the same with a watcher of every event.
pub(crate) fn steps(setup: &BenchSetup) -> Result<Found> {
    let (runs, steps) = (setup.sizes.runs, setup.sizes.steps);
    let (us, replayed) = one_after_the_other("steps", runs, &flow::left(steps), flow::events(steps, 0))?;
    let watched_us = wiring::block_on(async {
        let engine = in_memory()?;
        let started = Instant::now();
        for _ in 0..runs {
            let run = engine.start(Order::new("steps", flow::left(steps))).await?;
            let mut watcher = engine.watch(&run, 0);
            let mut events = 0;
            while let Some(seen) = watcher.next().await {
                seen?;
                events += 1;
            }
            if events != flow::events(steps, 0) {
                return Err(super::wrong(format!("{events} events were seen")));
            }
        }
        Ok(us_since(started))
    })?;
    let per_step = |us: f64| us * 1e3 / (runs * steps) as f64;
    Ok(Found { numbers: vec![("step_ns", per_step(us)), ("step_watched_ns", per_step(watched_us))], replayed: Some(replayed) })
}

/// Steps with one effect each, which is answered immediately.
pub(crate) fn effects(setup: &BenchSetup) -> Result<Found> {
    let (runs, steps) = (setup.sizes.runs.div_ceil(10), setup.sizes.steps);
    let (us, replayed) = one_after_the_other("effects", runs, &flow::left(steps), flow::events(steps, 1))?;
    Ok(Found { numbers: vec![("step_effect_us", us / (runs * steps) as f64)], replayed: Some(replayed) })
}

/// One step with a hundred effects that continues when all are answered.
pub(crate) fn fanout(setup: &BenchSetup) -> Result<Found> {
    let fans = setup.sizes.fans;
    let (us, replayed) = one_after_the_other("fan", fans, &flow::left(1), flow::events(1, FAN))?;
    Ok(Found { numbers: vec![("fanout100_us", us / fans as f64)], replayed: Some(replayed) })
}

fn one_after_the_other(flow: &str, runs: u64, input: &Value, events: u64) -> Result<(f64, engine::Replayed)> {
    wiring::block_on(async {
        let engine = in_memory()?;
        whole(&engine, flow, input.clone()).await?;
        let started = Instant::now();
        let mut last = None;
        for _ in 0..runs {
            last = Some(whole(&engine, flow, input.clone()).await?);
        }
        let us = us_since(started);
        let run = last.ok_or_else(|| super::wrong("no run was measured"))?;
        Ok((us, replay(&engine, &run, events).await?))
    })
}

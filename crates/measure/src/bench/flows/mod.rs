//! `baton bench flows`: the overhead of flows beside their models and tools, the number of calls, and their parallelism.
//!
//! Models and tools reply in this process, after a fixed delay or immediately ([`handler`]); everything else is real: the flows, driven and
//! journalled over SQLite, and one run of each measurement replayed.
//!
//! ```text
//!   immediately:   f.model_calls  f.tokens  f.alone_ms (alone)  f.overhead_ms (500 at once, for each)
//!   with a delay:  parallel_efficiency = the longest path of delays / the time it took
//!                  reason.agentic_over_direct = the same question, agentic / direct
//! ```

mod cases;
mod handler;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Engine, Settings};
use graph::RunId;
use serde_json::Value;
use service::Result;
use service::wiring;
use store::{SqliteSettings, SqliteStore};
use terminal::remark;

use super::durable::median;
use super::report::{Goal, Number, Numbers, Report, keep_best};
use super::setup::{BenchSetup, Found, replay_any, us_since, whole};
use super::{BenchOptions, wrong};
use cases::Case;
use handler::FixedHandler;

/// Measure the flows: overhead, model calls, tokens, and how parallel they are
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct FlowsBench {
    #[command(flatten)]
    how: BenchOptions,
}

const AFTER_HELP: &str = "\
Models and tools are stand-ins that answer at once or after a fixed delay, so no model and no network are needed.

Examples:
  baton bench flows
  baton bench flows --json --rounds 5";

/// All numbers, in output order. The targets are the issue's.
pub(crate) const NUMBERS: [Number; 29] = [
    number("search.model_calls", "search: model calls", "", Goal::AtMost(2.0)),
    number("search.tokens", "… and tokens, input and output", "", Goal::None),
    number("search.overhead_ms", "… and what it takes beside models and tools, for each of 500 runs at once", "ms", Goal::AtMost(2.0)),
    number("search.alone_ms", "… and alone, where every commit waits for the disk", "ms", Goal::None),
    number("search.discover_ms", "… and until a plan is asked for, with the real list of tools", "ms", Goal::AtMost(100.0)),
    number("chat.model_calls", "chat: model calls", "", Goal::None),
    number("chat.tokens", "… and tokens", "", Goal::None),
    number("chat.overhead_ms", "… and overhead, for each of 500", "ms", Goal::None),
    number("chat.alone_ms", "… and alone", "ms", Goal::None),
    number("reason.model_calls", "reason, every phase with a model: model calls", "", Goal::None),
    number("reason.tokens", "… and tokens", "", Goal::None),
    number("reason.overhead_ms", "… and overhead, for each of 500", "ms", Goal::None),
    number("reason.alone_ms", "… and alone", "ms", Goal::None),
    number("panel.model_calls", "panel, two research steps: model calls", "", Goal::None),
    number("panel.tokens", "… and tokens", "", Goal::None),
    number("panel.overhead_ms", "… and overhead, for each of 500", "ms", Goal::None),
    number("panel.alone_ms", "… and alone (four runs in one)", "ms", Goal::None),
    number("direct.model_calls", "direct, with documents: model calls", "", Goal::AtMost(1.0)),
    number("direct.tokens", "… and tokens", "", Goal::None),
    number("direct.overhead_ms", "… and overhead, for each of 500", "ms", Goal::None),
    number("direct.alone_ms", "… and alone", "ms", Goal::None),
    number("auto.model_calls", "auto, which takes search: model calls", "", Goal::AtMost(2.0)),
    number("auto.tokens", "… and tokens", "", Goal::None),
    number("auto.overhead_ms", "… and overhead, for each of 500", "ms", Goal::None),
    number("auto.alone_ms", "… and alone (two runs in one)", "ms", Goal::None),
    number("parallel_efficiency", "longest path of a plan / the time it took", "", Goal::AtLeast(0.95)),
    number("reason.agentic_over_direct", "a plan of one step, agentic / direct, if the step supports what the plan drafted", "×", Goal::AtMost(2.0)),
    number("reason.agentic_ms", "… and agentic, with a model of 200 ms and tools of 20 ms", "ms", Goal::None),
    number("reason.read_over_direct", "… if a second call must read what the step found", "×", Goal::None),
];

const fn number(key: &'static str, what: &'static str, unit: &'static str, aim: Goal) -> Number {
    Number { key, what, unit, aim }
}

impl FlowsBench {
    pub(crate) fn run(self) -> Result<()> {
        let (setup, rounds) = (self.how.setup()?, self.how.rounds);
        let (mut ours, mut replays) = (Numbers::new(), BTreeMap::new());
        for round in 1..=rounds {
            let mut keep = |name: &'static str, found: Found| {
                keep_best(&NUMBERS, &mut ours, found.numbers);
                replays.extend(found.replayed.map(|replayed| (name, replayed)));
            };
            for case in cases::all() {
                remark(&format!("round {round} of {rounds}: {}", case.flow));
                keep(case.flow, overhead(&setup, &case)?);
            }
            remark(&format!("round {round} of {rounds}: delays"));
            keep("discover", discover(&setup)?);
            keep("parallel", parallel(&setup)?);
            keep("ratio", agentic_over_direct(&setup)?);
        }
        Report { table: &NUMBERS, ours, theirs: None, replays, host: setup.host(), rounds }.print(self.how.json)
    }
}

/// Time for effects in flight when an engine is stopped.
const GRACE: Duration = Duration::from_secs(1);

fn engine(path: &Path, handler: Arc<FixedHandler>) -> Result<Engine> {
    let store = SqliteStore::open(path, SqliteSettings::default())?;
    Ok(Engine::new(Arc::new(store), handler, ::flows::all().map_err(wrong)?, Settings::default()))
}

/// Time of a flow without delays: alone, and with others.
fn overhead(setup: &BenchSetup, case: &Case) -> Result<Found> {
    let place = setup.place()?;
    let path = |name: &str| place.path().join(name);
    let counting = Arc::new(FixedHandler::at_once(case).counting());
    let (alone_ms, replayed) = wiring::block_on(async {
        let engine = engine(&path("alone.db"), counting.clone())?;
        whole(&engine, case.flow, case.input.clone()).await?;
        counting.stop_counting();
        let (mut times, mut last) = (Vec::new(), None);
        for _ in 0..setup.sizes.flow_runs {
            let started = Instant::now();
            last = Some(whole(&engine, case.flow, case.input.clone()).await?);
            times.push(us_since(started) / 1e3);
        }
        let run = last.ok_or_else(|| wrong("no run was measured"))?;
        let replayed = replay_any(&engine, &run).await?;
        engine.stop(GRACE).await;
        Ok((median(times), replayed))
    })?;
    let overhead_ms = wiring::block_on_all_cores(async {
        let engine = engine(&path("concurrent.db"), Arc::new(FixedHandler::at_once(case)))?;
        whole(&engine, case.flow, case.input.clone()).await?;
        let started = Instant::now();
        let runs: Vec<_> = (0..setup.sizes.flow_concurrent_runs)
            .map(|_| {
                let (engine, flow, input) = (engine.clone(), case.flow, case.input.clone());
                tokio::spawn(async move { whole(&engine, flow, input).await })
            })
            .collect();
        for run in runs {
            run.await.map_err(wrong)??;
        }
        let overhead_ms = us_since(started) / 1e3 / setup.sizes.flow_concurrent_runs as f64;
        engine.stop(GRACE).await;
        Ok(overhead_ms)
    })?;
    let counted = counting.counted();
    let found =
        [("model_calls", counted.model_calls as f64), ("tokens", counted.tokens as f64), ("alone_ms", alone_ms), ("overhead_ms", overhead_ms)];
    let numbers = found.into_iter().map(|(name, value)| Ok((key(case.flow, name)?, value))).collect::<Result<Vec<_>>>()?;
    Ok(Found { numbers, replayed: Some(replayed) })
}

fn key(flow: &str, name: &str) -> Result<&'static str> {
    let wanted = format!("{flow}.{name}");
    NUMBERS.iter().map(|number| number.key).find(|key| *key == wanted).ok_or_else(|| wrong(format!("there is no number {wanted}")))
}

/// Time from the start of a search to its first model call, with the built-in tools really listed. The first run connects to the servers;
/// the cached list is what counts.
fn discover(setup: &BenchSetup) -> Result<Found> {
    let place = setup.place()?;
    let case = cases::search();
    wiring::block_on(async {
        let handler = Arc::new(FixedHandler::at_once(&case).listing(cases::hub()));
        let engine = engine(&place.path().join("bench.db"), handler.clone())?;
        let mut times = Vec::new();
        for _ in 0..=setup.sizes.flow_runs.min(20) {
            let started = Instant::now();
            whole(&engine, case.flow, case.input.clone()).await?;
            let asked = handler.first_model_call().ok_or_else(|| wrong("no model was asked"))?;
            times.push(asked.duration_since(started).as_secs_f64() * 1e3);
        }
        engine.stop(GRACE).await;
        Ok(Found { numbers: vec![("search.discover_ms", median(times.split_off(1)))], replayed: None })
    })
}

/// Plans of independent tasks, of chains, and of both.
fn parallel(setup: &BenchSetup) -> Result<Found> {
    let delay = Duration::from_millis(if setup.sizes.is_quick { 5 } else { 100 });
    let place = setup.place()?;
    wiring::block_on_all_cores(async {
        let (mut due, mut took, mut last) = (Duration::ZERO, Duration::ZERO, None);
        for (index, plan) in cases::plans().into_iter().enumerate() {
            let case = cases::search_with(&plan);
            let handler = FixedHandler::at_once(&case).after(delay, delay);
            let engine = engine(&place.path().join(format!("{index}.db")), Arc::new(handler))?;
            let started = Instant::now();
            let run = whole(&engine, case.flow, case.input.clone()).await?;
            took += started.elapsed();
            // Two model calls, and the tasks along the longest chain.
            due += delay * (2 + plan.longest);
            last = Some(replay_any(&engine, &run).await?);
            engine.stop(GRACE).await;
        }
        Ok(Found { numbers: vec![("parallel_efficiency", due.as_secs_f64() / took.as_secs_f64())], replayed: last })
    })
}

fn agentic_over_direct(setup: &BenchSetup) -> Result<Found> {
    let (model, tool) = if setup.sizes.is_quick { (10, 1) } else { (200, 20) };
    let place = setup.place()?;
    wiring::block_on_all_cores(async {
        let drafted = cases::one_step_reason(Some("The log is replayed from the last checkpoint."));
        let read = cases::one_step_reason(None);
        let engine_of = |case: &Case, name: &str| {
            let handler = FixedHandler::at_once(case).after(Duration::from_millis(model), Duration::from_millis(tool));
            engine(&place.path().join(name), Arc::new(handler))
        };
        let (on_drafted, on_read) = (engine_of(&drafted, "drafted.db")?, engine_of(&read, "read.db")?);
        let timed = async |engine: &Engine, case: &Case, way: &str| -> Result<(f64, RunId)> {
            let mut input = case.input.clone();
            input["settings"]["way"] = Value::from(way);
            let started = Instant::now();
            let run = whole(engine, case.flow, input).await?;
            Ok((us_since(started) / 1e3, run))
        };
        let (direct_ms, _) = timed(&on_drafted, &drafted, "direct").await?;
        let (agentic_ms, run) = timed(&on_drafted, &drafted, "agentic").await?;
        let (read_ms, _) = timed(&on_read, &read, "agentic").await?;
        let numbers = vec![
            ("reason.agentic_over_direct", agentic_ms / direct_ms),
            ("reason.agentic_ms", agentic_ms),
            ("reason.read_over_direct", read_ms / direct_ms),
        ];
        let replayed = replay_any(&on_drafted, &run).await?;
        on_drafted.stop(GRACE).await;
        on_read.stop(GRACE).await;
        Ok(Found { numbers, replayed: Some(replayed) })
    })
}

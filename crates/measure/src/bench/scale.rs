//! `baton bench scale`: cost of a step on each store and on a Restate server, beside plain commits of the same database and plain calls of the same
//! server, and its growth with the stored data.

#[cfg(feature = "restate")]
mod restate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use engine::{Engine, Settings};
use graph::RunId;
use serde_json::json;
use service::{GlobalArgs, Result, wiring};
use store::transfer::{Cell, TABLES, Transfer};
use store::{SqliteSettings, SqliteStore, Store};
use store_postgres::BenchSchema;
use terminal::remark;

use super::flow;
use super::setup::{BenchSetup, over, replay, us_since, whole};
use super::{BenchOptions, wrong};

/// Measure the stores: steps a second and the time of a step, on SQLite, on Postgres and on a Restate server, with few and with many threads stored
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ScaleBench {
    /// Threads stored for the second measurement; the first has 100
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    threads: u64,
    /// Concurrent runs
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    together: u64,
    /// The ingress of a Restate server to measure as well, one that has no workers of Baton; BATON_RESTATE_TOKEN is sent as bearer token
    #[arg(long, value_name = "URL", requires = "restate_admin")]
    restate: Option<String>,
    /// The admin API of that server, which must reach this machine at 127.0.0.1
    #[arg(long, value_name = "URL", requires = "restate")]
    restate_admin: Option<String>,
    #[command(flatten)]
    how: BenchOptions,
}

const AFTER_HELP: &str = "\
Postgres is measured where --store or BATON_STORE names one, in schemas that are dropped at the end; otherwise SQLite alone. Runs on Restate are
stored in that Postgres too, otherwise in a file.
What is compared is measured in turns, so that other work on the machine slows both; ratios are the medians of all turns, times the best.

  step_us              a step of one run, from commit to commit
  steps_per_s          of many runs at once, which share their commits
  bare_commit_us       one plain insert and commit on the same database
  bare_commits_per_s   the same from 32 connections at once
  bare_call_us         on Restate, one call of a service that does nothing, from a handler that makes one after the other
  bare_calls_per_s     the same from many handlers at once
  ratio_to_bare        step_us over bare_commit_us; on Restate over bare_call_us
  growth_ratio         step_us with --threads threads stored over that with 100
  two_servers_ratio    runs a second of two servers over those of one, when effects wait 50 ms; a server has 32 places for runs

Examples:
  baton bench scale
  BATON_STORE=postgres://me@localhost/baton baton bench scale --threads 1000000 --json
  baton bench scale --restate http://127.0.0.1:8080 --restate-admin http://127.0.0.1:9070";

const FEW_THREADS: u64 = 100;
/// About the size of a journal line of the measured runs.
const LINE_BYTES: usize = 200;
const BARE_CLIENTS: usize = 32;
const PUT_ROWS: u64 = 500;
/// Runs that one of the compared servers drives at the same time, how often its places are taken, and the steps of each run.
const PLACES: usize = 32;
const TIMES_TAKEN: usize = 3;
const NAPS: u64 = 10;

impl ScaleBench {
    pub(crate) fn run(self, place: &GlobalArgs) -> Result<()> {
        let setup = self.how.setup()?;
        let folder = setup.place()?;
        wiring::block_on_all_cores(async {
            let mut report = BTreeMap::new();
            let open = |name: &str| SqliteStore::open(folder.path().join(name), SqliteSettings::default()).map(Arc::new);
            report.insert("sqlite", self.measure("sqlite", [open("few.db")?, open("many.db")?], None, &setup).await?);
            match place.shared()? {
                Some(at) => {
                    let schemas = [BenchSchema::new(at.address()).await?, BenchSchema::new(at.address()).await?];
                    // Also after a failure the schemas are dropped.
                    let measured = self.postgres(&schemas, &setup).await;
                    for schema in schemas {
                        schema.drop_schema().await?;
                    }
                    report.insert("postgres", measured?);
                }
                None => remark("Postgres is not measured: --store or BATON_STORE names one"),
            }
            match (&self.restate, &self.restate_admin) {
                (Some(ingress), Some(admin)) => {
                    let measured = match place.shared()? {
                        None => self.on_restate(ingress, admin, open("restate.db")?, &setup).await,
                        Some(at) => {
                            let schema = BenchSchema::new(at.address()).await?;
                            let measured = self.on_restate(ingress, admin, Arc::new(schema.open().await?), &setup).await;
                            schema.drop_schema().await?;
                            measured
                        }
                    };
                    report.insert("restate", measured?);
                }
                _ => remark("Restate is not measured: --restate and --restate-admin name a server"),
            }
            let host = setup.host();
            match self.how.json {
                true => println!("{}", json!({ "host": host, "threads": self.threads, "together": self.together, "stores": report })),
                false => print(&report),
            }
            Ok(())
        })
    }

    #[cfg(feature = "restate")]
    async fn on_restate(&self, ingress: &str, admin: &str, store: Arc<dyn Store>, setup: &BenchSetup) -> Result<Numbers> {
        let bench = restate::RestateBench {
            ingress: ingress.to_owned(),
            admin: admin.to_owned(),
            together: self.together,
            steps: setup.sizes.alone_steps,
            rounds: self.how.rounds,
        };
        Box::pin(bench.measure(store)).await
    }

    #[cfg(not(feature = "restate"))]
    async fn on_restate(&self, _ingress: &str, _admin: &str, _store: Arc<dyn Store>, _setup: &BenchSetup) -> Result<Numbers> {
        Err(service::ServiceError::Usage("this baton was built without the feature restate".into()))
    }

    async fn postgres(&self, schemas: &[BenchSchema; 2], setup: &BenchSetup) -> Result<Numbers> {
        let [few, many] = schemas;
        let stores = [Arc::new(few.open().await?), Arc::new(many.open().await?)];
        let mut found = self.measure("postgres", stores, Some(few), setup).await?;
        found.insert("two_servers_ratio", self.two_servers(few, setup).await?);
        Ok(found)
    }

    /// The same on two databases of one kind, one with few threads and one with many.
    async fn measure<S: Store + Transfer>(&self, name: &str, stores: [Arc<S>; 2], bare: Option<&BenchSchema>, setup: &BenchSetup) -> Result<Numbers> {
        let [few_store, many_store] = stores;
        let (few, many) = (over(few_store.clone())?, over(many_store.clone())?);
        for engine in [&few, &many] {
            whole(engine, "effects", flow::left(1)).await?;
        }
        fill(&*few_store, FEW_THREADS).await?;
        let started = Instant::now();
        fill(&*many_store, self.threads).await?;
        if !self.how.json {
            remark(&format!("{name}: {} threads written in {:.1} s", self.threads, started.elapsed().as_secs_f64()));
        }
        let mut turns = TurnTimes::default();
        for _ in 0..self.how.rounds {
            if let Some(schema) = bare {
                let rows = usize::try_from(setup.sizes.alone_steps).unwrap_or(usize::MAX);
                let clients = if setup.sizes.is_quick { 2 } else { BARE_CLIENTS };
                turns.add("bare_commit_us", schema.commits(1, rows, LINE_BYTES).await?.as_secs_f64() * 1e6 / rows as f64);
                turns.add("bare_commits_per_s", (clients * rows) as f64 / schema.commits(clients, rows, LINE_BYTES).await?.as_secs_f64());
            }
            turns.add("step_us", alone_us(&few, setup).await?);
            turns.add("step_us_many_threads", alone_us(&many, setup).await?);
            turns.add("steps_per_s", self.per_s(&few, setup).await?);
            turns.add("steps_per_s_many_threads", self.per_s(&many, setup).await?);
        }
        let mut found = turns.best();
        found.insert("growth_ratio", turns.ratio("step_us_many_threads", "step_us"));
        found.insert("growth_ratio_together", turns.ratio("steps_per_s", "steps_per_s_many_threads"));
        if bare.is_some() {
            found.insert("ratio_to_bare", turns.ratio("step_us", "bare_commit_us"));
            found.insert("throughput_to_bare", turns.ratio("steps_per_s", "bare_commits_per_s"));
        }
        Ok(found)
    }

    async fn per_s(&self, engine: &Engine, setup: &BenchSetup) -> Result<f64> {
        let steps = setup.sizes.durable_steps;
        let started = Instant::now();
        let runs = (0..self.together).map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { whole(&engine, "effects", flow::left(steps)).await })
        });
        ended(runs.collect()).await?;
        Ok((self.together * steps) as f64 / (us_since(started) / 1e6))
    }

    /// Two engines with connections and places of their own, in this process, against one. What they wait for is the same database.
    async fn two_servers(&self, schema: &BenchSchema, setup: &BenchSetup) -> Result<f64> {
        let flows = || flow::all().map_err(wrong);
        let mut servers = Vec::new();
        for _ in 0..2 {
            let settings = Settings { runs_max: PLACES, ..Settings::default() };
            servers.push(Engine::new(Arc::new(schema.open().await?), Arc::new(flow::BenchHandler), flows()?, settings));
        }
        let (times, naps) = if setup.sizes.is_quick { (1, 1) } else { (TIMES_TAKEN, NAPS) };
        let mut turns = TurnTimes::default();
        for _ in 0..self.how.rounds {
            for (name, servers) in [("one", &servers[..1]), ("two", &servers[..])] {
                let started = Instant::now();
                let mut runs = Vec::new();
                for server in servers {
                    for _ in 0..PLACES * times {
                        let server = server.clone();
                        runs.push(tokio::spawn(async move { whole(&server, "naps", flow::left(naps)).await }));
                    }
                }
                let count = runs.len() as f64;
                ended(runs).await?;
                turns.add(name, count / started.elapsed().as_secs_f64());
            }
        }
        Ok(turns.ratio("two", "one"))
    }
}

/// One run, whose journal is run again.
async fn alone_us(engine: &Engine, setup: &BenchSetup) -> Result<f64> {
    let steps = setup.sizes.alone_steps;
    let started = Instant::now();
    let run = whole(engine, "effects", flow::left(steps)).await?;
    let us = us_since(started) / steps as f64;
    replay(engine, &run, flow::events(steps, 1)).await?;
    Ok(us)
}

async fn ended(runs: Vec<tokio::task::JoinHandle<Result<RunId>>>) -> Result<()> {
    for run in runs {
        run.await.map_err(wrong)??;
    }
    Ok(())
}

type Numbers = BTreeMap<&'static str, f64>;

/// What was measured in turns.
#[derive(Default)]
struct TurnTimes(BTreeMap<&'static str, Vec<f64>>);

impl TurnTimes {
    fn add(&mut self, name: &'static str, number: f64) {
        self.0.entry(name).or_default().push(number);
    }

    /// The least time and the most work.
    fn best(&self) -> Numbers {
        let best = |name: &str, all: &[f64]| match name.contains("per_s") {
            true => all.iter().copied().fold(0.0, f64::max),
            false => all.iter().copied().fold(f64::MAX, f64::min),
        };
        self.0.iter().map(|(name, all)| (*name, best(name, all))).collect()
    }

    /// The median of the ratios of each turn.
    fn ratio(&self, upper: &str, lower: &str) -> f64 {
        let all = |name: &str| self.0.get(name).cloned().unwrap_or_default();
        let mut ratios: Vec<f64> = all(upper).iter().zip(all(lower)).map(|(upper, lower)| upper / lower).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Threads with a finished run of one line and two messages each.
async fn fill(store: &dyn Transfer, threads: u64) -> Result<()> {
    // Behind the runs that are there already.
    let first = 1_000_000;
    let text = |text: String| Cell::Text(text);
    let mut done = 0;
    while done < threads {
        let count = PUT_ROWS.min(threads - done);
        let ids: Vec<i64> = (0..count).map(|n| first + (done + n) as i64).collect();
        for table in &TABLES {
            let row = |id: i64, seq: i64| -> Vec<Cell> {
                let name = format!("bench-{id}");
                let column = |column: &&str| match *column {
                    "id" | "thread" | "run" => Cell::Int(id),
                    "name" => text(name.clone()),
                    "title" => text(format!("Question number {id}")),
                    "messages" => Cell::Int(2),
                    "created_ms" | "updated_ms" | "at_ms" => Cell::Int(1_700_000_000_000 + id),
                    "user" => text("bench".to_owned()),
                    "fence" => Cell::Int(1),
                    "flow" => text("effects".to_owned()),
                    "status" => text("done".to_owned()),
                    "outcome" => text("null".to_owned()),
                    "role" => text(if seq == 0 { "user" } else { "assistant" }.to_owned()),
                    "content" => text("A sentence or two, as people and models write them. ".repeat(4)),
                    "seq" => Cell::Int(seq),
                    "bytes" if table.name == "threads" => Cell::Int(LINE_BYTES as i64),
                    "bytes" => Cell::Bytes(vec![0x5a; LINE_BYTES]),
                    _ => Cell::Null,
                };
                table.columns.iter().map(column).collect()
            };
            let rows = match table.name {
                "threads" | "runs" | "journal" => ids.iter().map(|id| row(*id, 0)).collect(),
                "messages" => ids.iter().flat_map(|id| [row(*id, 0), row(*id, 1)]).collect(),
                _ => continue,
            };
            store.put_rows(table, rows).await?;
        }
        done += count;
    }
    Ok(store.finish_copy(store.highest_fence().await?).await?)
}

fn print(report: &BTreeMap<&str, BTreeMap<&str, f64>>) {
    for (store, numbers) in report {
        println!("{store}");
        for (name, number) in numbers {
            println!("  {name:<26} {number:>12.2}");
        }
    }
}

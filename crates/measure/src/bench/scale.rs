//! `baton bench scale`: cost of a step on each store, beside plain commits of the same database, and its growth with the stored data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use engine::Engine;
use serde_json::json;
use service::{GlobalArgs, Result, wiring};
use store::transfer::{Cell, TABLES, Transfer};
use store::{SqliteSettings, SqliteStore, Store};
use store_postgres::BenchSchema;
use terminal::remark;

use super::flow;
use super::ground::{Ground, over, replay, us_since, whole};
use super::{BenchOptions, wrong};

/// Measure the stores: steps a second and the time of a step, on SQLite and on Postgres, with few and with many threads stored
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ScaleBench {
    /// Threads stored for the second measurement; the first has 100
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    threads: u64,
    /// Concurrent runs
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    together: u64,
    #[command(flatten)]
    how: BenchOptions,
}

const AFTER_HELP: &str = "\
Postgres is measured where --store or BATON_STORE names one, in a schema that is dropped at the end; otherwise SQLite alone.

  step_us            a step of one run, from commit to commit
  steps_per_s        of many runs at once, which share their commits
  bare_commit_us     one plain insert and commit on the same database
  ratio_to_bare      step_us over bare_commit_us
  growth_ratio       step_us with --threads threads stored over that with 100

Examples:
  baton bench scale
  BATON_STORE=postgres://me@localhost/baton baton bench scale --threads 1000000 --json";

const FEW_THREADS: u64 = 100;
/// About the size of a journal line of the measured runs.
const LINE_BYTES: usize = 200;
const BARE_CLIENTS: usize = 32;
const PUT_ROWS: u64 = 500;

impl ScaleBench {
    pub(crate) fn run(self, place: &GlobalArgs) -> Result<()> {
        let ground = self.how.ground()?;
        let folder = ground.place()?;
        wiring::block_on_all_cores(async {
            let mut report = BTreeMap::new();
            let sqlite = Arc::new(SqliteStore::open(folder.path().join("bench.db"), SqliteSettings::default())?);
            report.insert("sqlite", self.measure("sqlite", sqlite, &ground).await?);
            match place.shared()? {
                Some(at) => {
                    let schema = BenchSchema::new(at.address()).await?;
                    // The schema is dropped after a failure too.
                    let measured = self.postgres(&schema, &ground).await;
                    schema.drop_schema().await?;
                    report.insert("postgres", measured?);
                }
                None => remark("Postgres is not measured: --store or BATON_STORE names one"),
            }
            let host = ground.host();
            match self.how.json {
                true => println!("{}", json!({ "host": host, "threads": self.threads, "together": self.together, "stores": report })),
                false => print(&report),
            }
            Ok(())
        })
    }

    async fn postgres(&self, schema: &BenchSchema, ground: &Ground) -> Result<BTreeMap<&'static str, f64>> {
        let rows = if ground.sizes.is_quick { 20 } else { 1_000 };
        let clients = if ground.sizes.is_quick { 2 } else { BARE_CLIENTS };
        let (mut bare_us, mut bare_per_s) = (f64::MAX, 0.0_f64);
        for _ in 0..self.how.rounds {
            bare_us = bare_us.min(schema.commits(1, rows, LINE_BYTES).await?.as_secs_f64() * 1e6 / rows as f64);
            bare_per_s = bare_per_s.max((clients * rows) as f64 / schema.commits(clients, rows, LINE_BYTES).await?.as_secs_f64());
        }
        let mut found = self.measure("postgres", Arc::new(schema.open().await?), ground).await?;
        found.insert("ratio_to_bare", found["step_us"] / bare_us);
        found.insert("throughput_to_bare", found["steps_per_s"] / bare_per_s);
        found.insert("bare_commit_us", bare_us);
        found.insert("bare_commits_per_s", bare_per_s);
        Ok(found)
    }

    async fn measure<S: Store + Transfer>(&self, name: &str, store: Arc<S>, ground: &Ground) -> Result<BTreeMap<&'static str, f64>> {
        let engine = over(store.clone())?;
        whole(&engine, "effects", flow::left(1)).await?;
        fill(&*store, 1_000_000, FEW_THREADS).await?;
        let few = self.steps(&engine, ground).await?;
        let begun = Instant::now();
        fill(&*store, 2_000_000, self.threads).await?;
        if !self.how.json {
            remark(&format!("{name}: {} threads written in {:.1} s", self.threads, begun.elapsed().as_secs_f64()));
        }
        let many = self.steps(&engine, ground).await?;
        Ok(BTreeMap::from([
            ("step_us", few.alone_us),
            ("steps_per_s", few.per_s),
            ("step_us_many_threads", many.alone_us),
            ("steps_per_s_many_threads", many.per_s),
            ("growth_ratio", many.alone_us / few.alone_us),
            ("growth_ratio_together", few.per_s / many.per_s),
        ]))
    }

    /// The best of some rounds; one of the runs is replayed from its journal.
    async fn steps(&self, engine: &Engine, ground: &Ground) -> Result<Steps> {
        let (alone_steps, steps) = (ground.sizes.alone_steps, ground.sizes.durable_steps);
        let mut best = Steps { alone_us: f64::MAX, per_s: 0.0 };
        for _ in 0..self.how.rounds {
            let begun = Instant::now();
            let run = whole(engine, "effects", flow::left(alone_steps)).await?;
            best.alone_us = best.alone_us.min(us_since(begun) / alone_steps as f64);
            replay(engine, &run, flow::events(alone_steps, 1)).await?;
            let begun = Instant::now();
            let runs: Vec<_> = (0..self.together)
                .map(|_| {
                    let engine = engine.clone();
                    tokio::spawn(async move { whole(&engine, "effects", flow::left(steps)).await })
                })
                .collect();
            for run in runs {
                run.await.map_err(wrong)??;
            }
            best.per_s = best.per_s.max((self.together * steps) as f64 / (us_since(begun) / 1e6));
        }
        Ok(best)
    }
}

struct Steps {
    alone_us: f64,
    per_s: f64,
}

/// Threads with a finished run of one line and two messages each, numbered from `first`.
async fn fill(store: &dyn Transfer, first: i64, threads: u64) -> Result<()> {
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

//! `baton bench`: measures the real engine over the real stores, beside the targets, and beside alternatives.
//!
//! Nothing here is simplified: runs are started, driven, journalled and published as usual, and after each measurement one of its runs is
//! replayed from its journal. A number without a matching replay is not printed.
//!
//! ```text
//!   ROWS ──► measure, some rounds ──► the best of each number ──► report
//!     └────► the peer's script for the same row, in between ──┘
//! ```

mod child;
mod durable;
mod flow;
mod flows;
mod langgraph_api;
mod memory;
pub(crate) mod models;
mod peer;
mod protocols;
mod report;
mod scale;
mod server;
mod setup;

use std::collections::BTreeMap;
use std::path::PathBuf;

use service::{GlobalArgs, Result, ServiceError};
use terminal::remark;

use report::Numbers;
use setup::{BenchSetup, Found, Sizes};

/// Measure Baton on this machine
#[derive(clap::Subcommand)]
#[expect(missing_docs, reason = "a comment at a variant would replace the help text of its type")]
pub enum Bench {
    Engine(EngineBench),
    Flows(flows::FlowsBench),
    Protocols(protocols::ProtocolsBench),
    Server(server::ServerBench),
    Scale(scale::ScaleBench),
    #[command(hide = true)]
    Child(child::Child),
    #[command(hide = true)]
    ServerChild(server::ServerChild),
}

/// Measure the machine that drives runs: steps, fan-out, durability, size, start
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct EngineBench {
    /// Measure a peer as well, alternating, and print both
    #[arg(long, value_name = "PEER")]
    versus: Option<peer::Peer>,
    /// Only these rows, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "ROWS", value_parser = row_named)]
    only: Vec<&'static str>,
    #[command(flatten)]
    how: BenchOptions,
}

/// Options of every benchmark.
#[derive(clap::Args)]
pub(crate) struct BenchOptions {
    /// Number of rounds; the best of each number counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// The folder of the databases; it determines which disk is measured [default: the user's cache folder]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Tiny sizes: tests that everything works, and measures nothing
    #[arg(long, hide = true)]
    quick: bool,
}

impl BenchOptions {
    fn setup(&self) -> Result<BenchSetup> {
        BenchSetup::new(self.dir.as_deref(), if self.quick { Sizes::QUICK } else { Sizes::FULL })
    }
}

const AFTER_HELP: &str = "\
Rows: steps, effects, fanout, fsync, durable, alone, runs1000, journal500, journal10000, cold.

`--versus langgraph` installs it from PyPI into the user's cache folder (needs python3 with venv; later runs need no network).

Examples:
  baton bench engine
  baton bench engine --json --rounds 5
  baton bench engine --versus langgraph --only steps,fanout";

/// One measurement; it may give several numbers.
pub(crate) struct Row {
    name: &'static str,
    measure: fn(&BenchSetup) -> Result<Found>,
    /// The peer's script for the same work.
    peer: Option<&'static str>,
}

const ROWS: [Row; 10] = [
    Row { name: "steps", measure: memory::steps, peer: Some(include_str!("langgraph/steps.py")) },
    Row { name: "effects", measure: memory::effects, peer: None },
    Row { name: "fanout", measure: memory::fanout, peer: Some(include_str!("langgraph/fanout.py")) },
    Row { name: "fsync", measure: durable::fsync, peer: None },
    Row { name: "durable", measure: durable::together, peer: Some(include_str!("langgraph/durable.py")) },
    Row { name: "alone", measure: durable::alone, peer: Some(include_str!("langgraph/alone.py")) },
    Row { name: "runs1000", measure: child::runs1000, peer: Some(include_str!("langgraph/runs1000.py")) },
    Row { name: "journal500", measure: durable::journal500, peer: Some(include_str!("langgraph/journal500.py")) },
    Row { name: "journal10000", measure: durable::journal10000, peer: None },
    Row { name: "cold", measure: child::cold, peer: Some(include_str!("langgraph/cold.py")) },
];

impl Bench {
    /// Measures and prints.
    pub fn run(self, place: &GlobalArgs) -> Result<()> {
        match self {
            Bench::Scale(bench) => bench.run(place),
            Bench::Engine(bench) => bench.run(),
            Bench::Flows(bench) => bench.run(),
            Bench::Protocols(bench) => bench.run(),
            Bench::Server(bench) => bench.run(),
            Bench::Child(child) => child.run(),
            Bench::ServerChild(child) => child.run(),
        }
    }
}

impl EngineBench {
    fn run(self) -> Result<()> {
        let (setup, rounds) = (self.how.setup()?, self.how.rounds);
        let rows: Vec<&Row> = ROWS.iter().filter(|row| self.only.is_empty() || self.only.contains(&row.name)).collect();
        let peer = self.versus.map(|peer| peer.ready()).transpose()?;
        let (mut ours, mut theirs, mut replays) = (Numbers::new(), Numbers::new(), BTreeMap::new());
        for round in 1..=rounds {
            for row in &rows {
                remark(&format!("round {round} of {rounds}: {}", row.name));
                let found = (row.measure)(&setup)?;
                report::keep_best(&report::ENGINE, &mut ours, found.numbers);
                if let Some(replayed) = found.replayed {
                    replays.insert(row.name, replayed);
                }
                if let (Some(peer), Some(script)) = (&peer, row.peer) {
                    report::keep_best(&report::ENGINE, &mut theirs, peer.measure(row.name, script, &setup)?);
                }
            }
        }
        let theirs = peer.map(|peer| (peer.version(), theirs));
        let report = report::Report { table: &report::ENGINE, ours, theirs, replays, host: setup.host(), rounds };
        report.print(self.how.json)
    }
}

fn row_named(name: &str) -> std::result::Result<&'static str, String> {
    let known = || ROWS.iter().map(|row| row.name);
    known().find(|known| *known == name).ok_or_else(|| format!("there are: {}", known().collect::<Vec<_>>().join(", ")))
}

/// A failed measurement.
fn wrong(words: impl std::fmt::Display) -> ServiceError {
    ServiceError::Failed(format!("the measurement is worth nothing: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_row() {
        let named: Vec<&str> = AFTER_HELP.lines().next().unwrap().trim_start_matches("Rows: ").trim_end_matches('.').split(", ").collect();
        assert_eq!(named, ROWS.map(|row| row.name));
        assert!(report::ENGINE.iter().all(|number| !number.what.is_empty()));
    }
}

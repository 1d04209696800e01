use std::io::Write as _;

use serde_json::json;
use service::global_args::GlobalArgs;
use service::wiring;
use terminal::{GREEN, RED, YELLOW, paint, tail};

use crate::exit::{Exit, Result};
use crate::find;

/// Replay a journal without side effects, and compare; exits with 1 if the flow now behaves differently
#[derive(clap::Args)]
pub(crate) struct Replay {
    run: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let store = globals.open().await?;
            let row = find::run(&*store, &self.run).await?;
            let found = engine::replay(&*store, &wiring::flows(globals)?, &row.run).await?;
            let exit = if found.difference.is_some() { Exit::Failed } else { Exit::Well };
            let mut out = anstream::stdout().lock();
            if self.json {
                writeln!(out, "{}", json!({ "run": row.run, "replayed": found }))?;
                return Ok(exit);
            }
            let (entries, events) = (found.entries, found.events);
            match &found.difference {
                None => writeln!(out, "{} {}: {entries} journal entries give the same {events} events", paint(GREEN, "the same"), tail(&row.run))?,
                Some(words) => writeln!(out, "{} {}: {words}", paint(RED, "different"), tail(&row.run))?,
            }
            if found.shape_changed {
                writeln!(out, "{}", paint(YELLOW, format!("the graph of {} is drawn differently now", row.flow)))?;
            }
            Ok(exit)
        })
    }
}

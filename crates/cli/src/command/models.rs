//! `baton models`: the models there are.

use crate::bench::models::{ModelsBench, run};
use crate::exit::{Exit, Result};

/// Models that can answer
#[derive(clap::Subcommand)]
pub(crate) enum Models {
    Bench(ModelsBench),
}

impl Models {
    pub(crate) fn run(self) -> Result<Exit> {
        match self {
            Models::Bench(bench) => run(&bench),
        }
    }
}

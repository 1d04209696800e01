//! `baton models …`: the available models, and the weights of the embedded ones.

mod list;
mod pull;
mod remove;

use clap::Subcommand;
use measure::ModelsBench;
use service::global_args::GlobalArgs;

use crate::exit::{Exit, Result};

/// List the available models; download, remove and measure the embedded ones
#[derive(Subcommand)]
pub(crate) enum Models {
    List(list::List),
    Pull(pull::Pull),
    Remove(remove::Remove),
    Bench(Box<ModelsBench>),
}

impl Models {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match self {
            Models::List(list) => list.run(globals),
            Models::Pull(pull) => pull.run(globals),
            Models::Remove(remove) => remove.run(globals),
            Models::Bench(bench) => bench.run().map(Exit::from),
        }
    }
}

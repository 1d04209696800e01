//! `baton models …`: what can think here, and the weights of the embedded ones.

mod list;
mod pull;
mod remove;

use clap::Subcommand;
use measure::ModelsBench;
use service::place::Place;

use crate::exit::{Exit, Result};

/// See which models can think here; fetch, remove and measure the embedded ones
#[derive(Subcommand)]
pub(crate) enum Models {
    List(list::List),
    Pull(pull::Pull),
    Remove(remove::Remove),
    Bench(Box<ModelsBench>),
}

impl Models {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        match self {
            Models::List(list) => list.run(place),
            Models::Pull(pull) => pull.run(place),
            Models::Remove(remove) => remove.run(place),
            Models::Bench(bench) => bench.run().map(Exit::from),
        }
    }
}

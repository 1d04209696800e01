//! `baton store …`: what is done with a whole store.

mod copy;

use service::Place;

use crate::exit::{Exit, Result};

/// Copy conversations and runs between a database file and Postgres
#[derive(clap::Subcommand)]
pub(crate) enum Store {
    Copy(copy::Copy),
}

impl Store {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        match self {
            Store::Copy(copy) => copy.run(place),
        }
    }
}

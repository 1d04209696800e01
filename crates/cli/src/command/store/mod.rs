//! `baton store …`: commands on a whole store.

mod copy;

use service::GlobalArgs;

use crate::exit::{Exit, Result};

/// Copy conversations and runs between a database file and Postgres
#[derive(clap::Subcommand)]
pub(crate) enum Store {
    Copy(copy::Copy),
}

impl Store {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match self {
            Store::Copy(copy) => copy.run(globals),
        }
    }
}

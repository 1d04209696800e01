//! What every store promises, written once. Each promise becomes a test of each home: `sqlite::leases::a_takeover_fences_the_old_one`.
//!
//! A new promise is a function in one of the files and a line in `list.rs`; a new home is a line at the end. Postgres runs the same list
//! in `crates/store-postgres/tests/postgres_promises`.
#![allow(clippy::unwrap_used)]

mod beginnings;
mod cards;
mod commits;
mod hand;
mod leases;
mod lists;
mod notes;
mod permissions;
mod records;
mod retention;
mod signals;
mod tokens;

use std::sync::Arc;

use baton_store::{Durability, MemoryStore, SqliteSettings, SqliteStore, Store};

include!("list.rs");

home!(memory, crate::memory_home);
home!(sqlite, crate::sqlite_home);

struct TestStore {
    store: Arc<dyn Store>,
    /// Deleted when the promise was kept or broken.
    _folder: Option<tempfile::TempDir>,
}

async fn memory_home() -> TestStore {
    TestStore { store: Arc::new(MemoryStore::new()), _folder: None }
}

async fn sqlite_home() -> TestStore {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("baton.db"), SqliteSettings { durability: Durability::Off }).unwrap();
    TestStore { store: Arc::new(store), _folder: Some(folder) }
}

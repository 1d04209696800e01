//! Where a simulated store lives, and what of it a death leaves.

use std::path::PathBuf;
use std::sync::Arc;

use super::case::Pace;
use super::gate::{Gate, GatedStore};
use store::{Durability, MemoryStore, SqliteSettings, SqliteStore, Store};

pub trait Home {
    /// The store as the next process finds it.
    fn open(&self) -> Result<Arc<dyn Store>, String>;
}

/// A memory that outlives the process, as a disk would.
#[derive(Default)]
pub struct InMemory(Arc<MemoryStore>);

impl Home for InMemory {
    fn open(&self) -> Result<Arc<dyn Store>, String> {
        Ok(self.0.clone())
    }
}

/// A file. Each process opens it anew.
pub struct InFile(pub PathBuf);

impl Home for InFile {
    fn open(&self) -> Result<Arc<dyn Store>, String> {
        let store = SqliteStore::open(&self.0, SqliteSettings { durability: Durability::Off }).map_err(|e| e.to_string())?;
        // It has threads of its own; the simulation stands still until they have answered.
        let gate = Arc::new(Gate::new(None, Pace::AtOnce, 0, false));
        Ok(Arc::new(GatedStore { inner: Arc::new(store), gate, ledger: Arc::default(), stands_still: true }))
    }
}

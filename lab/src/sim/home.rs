//! The simulated store, and what of it survives a kill.

use std::path::PathBuf;
use std::sync::Arc;

use super::case::Pace;
use super::gate::{Gate, GatedStore};
use store::{Durability, MemoryStore, SqliteSettings, SqliteStore, Store};

pub trait Home {
    /// The store as the next process finds it.
    fn open(&self) -> Result<Arc<dyn Store>, String>;
}

/// Memory that survives the process, like a disk.
#[derive(Default)]
pub struct InMemory(Arc<MemoryStore>);

impl Home for InMemory {
    fn open(&self) -> Result<Arc<dyn Store>, String> {
        Ok(self.0.clone())
    }
}

/// A file. Each process opens it again.
pub struct InFile(pub PathBuf);

impl Home for InFile {
    fn open(&self) -> Result<Arc<dyn Store>, String> {
        let store = SqliteStore::open(&self.0, SqliteSettings { durability: Durability::Off }).map_err(|e| e.to_string())?;
        // It has its own threads; the simulation blocks until they have replied.
        let gate = Arc::new(Gate::new(None, Pace::AtOnce, 0, false));
        Ok(Arc::new(GatedStore { inner: Arc::new(store), gate, ledger: Arc::default(), stands_still: true }))
    }
}

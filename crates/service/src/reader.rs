//! The processes that parse documents for this program. The index and `fetch` have one each, so that neither waits for the other.

use std::sync::{Arc, OnceLock};

use tools::reader::{ReaderProcess, Settings};

use crate::error::{Result, ServiceError};

/// Pages are smaller than files.
const PAGE_MEMORY_MIB_MAX: u64 = 256;

/// The processes for documents of the index.
pub fn for_index() -> Result<Arc<ReaderProcess>> {
    static READER: OnceLock<Arc<ReaderProcess>> = OnceLock::new();
    shared(&READER, Settings::default())
}

/// The processes for pages of `fetch`.
pub fn for_pages() -> Result<Arc<ReaderProcess>> {
    static READER: OnceLock<Arc<ReaderProcess>> = OnceLock::new();
    shared(&READER, Settings { memory_mib_max: PAGE_MEMORY_MIB_MAX, ..Settings::default() })
}

fn shared(reader: &OnceLock<Arc<ReaderProcess>>, settings: Settings) -> Result<Arc<ReaderProcess>> {
    if let Some(reader) = reader.get() {
        return Ok(reader.clone());
    }
    let new =
        ReaderProcess::new(settings).map_err(|error| ServiceError::Failed(format!("no thread for the document reader can be started: {error}")))?;
    Ok(reader.get_or_init(|| Arc::new(new)).clone())
}

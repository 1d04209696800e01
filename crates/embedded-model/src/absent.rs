//! The thread of a binary that was built without inference: it does not start.

use std::path::PathBuf;
use std::sync::mpsc::SyncSender;

use super::{EmbeddedError, Options, Order};

#[allow(clippy::needless_pass_by_value, reason = "as `worker.rs` has it")]
pub(super) fn start(_path: PathBuf, _options: Options) -> Result<SyncSender<Order>, EmbeddedError> {
    Err(EmbeddedError::NotBuilt)
}

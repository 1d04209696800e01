//! How a file is parsed. Parsers of binary formats are not safe on hostile files: they overflow the stack, exhaust memory, and do not end.
//!
//! The product gives [`crate::Folders`] a reader that parses in a separate, limited process; [`InProcess`] is for tests and for libraries
//! that read only trusted files.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};

use crate::read::{self, Document, ReadLimits, Skipped};

/// Extracts the text of a file, in this process or in another.
pub trait Reader: Send + Sync {
    /// Blocks until the file is read or a limit is reached.
    fn read(&self, path: &Path, bytes: Vec<u8>, limits: ReadLimits) -> Result<Document, Skipped>;

    /// Files that can be read at the same time.
    fn at_once_max(&self) -> usize {
        1
    }
}

/// Parses in this process: small text on the caller's thread, the rest on a thread with a large stack. That thread cannot be stopped when
/// it takes too long, and a file that exhausts memory or stack ends the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

const STACK_BYTES: usize = 64 << 20;

impl Reader for InProcess {
    fn read(&self, path: &Path, bytes: Vec<u8>, limits: ReadLimits) -> Result<Document, Skipped> {
        if read::is_small_text(path, bytes.len()) {
            return read::read_document(path, &bytes, limits);
        }
        let (sender, receiver) = channel();
        let path = path.to_owned();
        let work = move || {
            // The receiver is gone after a timeout.
            let _ = sender.send(read::read_document(&path, &bytes, limits));
        };
        let started = std::thread::Builder::new().name("document".into()).stack_size(STACK_BYTES).spawn(work);
        started.map_err(|error| Skipped::NoReader(error.to_string()))?;
        match receiver.recv_timeout(limits.time_max) {
            Ok(read) => read,
            Err(RecvTimeoutError::Timeout) => Err(Skipped::TooSlow { seconds_max: limits.time_max.as_secs() }),
            Err(RecvTimeoutError::Disconnected) => Err(Skipped::Crashed("its thread ended".into())),
        }
    }
}

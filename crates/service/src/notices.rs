//! Notices for a person while a service is prepared: the chosen model, downloads.
//!
//! This crate prints nothing. The program installs a receiver once, as with a logger; without one, notices are dropped.

use std::sync::OnceLock;

/// Shows notices to a person.
pub trait Notices: Send + Sync {
    /// A notice that should be read.
    fn note(&self, text: &str);
    /// A notice of less importance.
    fn detail(&self, text: &str);
    /// Progress of the running download; `None` when it has ended.
    fn download(&self, progress: Option<&Download>);
}

/// Progress of a download.
#[derive(Clone, Debug)]
pub struct Download {
    /// Bytes downloaded.
    pub done_bytes: u64,
    /// Bytes of the whole file.
    pub total_bytes: u64,
    /// Where it is downloaded from.
    pub source: String,
}

static RECEIVER: OnceLock<Box<dyn Notices>> = OnceLock::new();

/// Installs the receiver of all notices of this process. Only the first call has an effect.
pub fn install(receiver: Box<dyn Notices>) {
    // A second receiver is dropped, as documented.
    let _ = RECEIVER.set(receiver);
}

pub(crate) fn note(text: &str) {
    if let Some(receiver) = RECEIVER.get() {
        receiver.note(text);
    }
}

pub(crate) fn detail(text: &str) {
    if let Some(receiver) = RECEIVER.get() {
        receiver.detail(text);
    }
}

pub(crate) fn download(progress: Option<&Download>) {
    if let Some(receiver) = RECEIVER.get() {
        receiver.download(progress);
    }
}

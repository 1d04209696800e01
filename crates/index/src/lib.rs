//! Passage retrieval: full text, vectors and links over folders, and over lists of tools.
//!
//! [`Folders`] reads files and keeps itself up to date; [`Corpus`] holds passages from any source; [`Tools`] finds the few tools a question
//! needs. All of them answer from full text immediately. Vectors are computed in the background, if there are weights, and every answer
//! names the lists that contributed.
//!
//! Not here: the network (npm fetches the weights, if the caller allows it), async, and any knowledge of MCP.

#![warn(missing_docs)]

mod chunk;
mod corpus;
pub mod eval;
mod folder;
mod full_text;
mod fuse;
mod links;
mod manifest;
mod owned;
mod passage;
mod read;
mod reader;
mod reading;
mod refresh;
mod shared;
mod tools;
mod unused;
mod vectors;
mod words;

use std::path::{Path, PathBuf};

pub use corpus::{Answer, Change, Corpus, Hit, Used};
pub use folder::{Excerpt, Folders, Limits};
pub use owned::OwnedFolder;
pub use passage::{Location, Passage};
pub use read::{Document, ReadLimits, Skipped, is_small_text, read_document};
pub use reader::{InProcess, Reader};
pub use refresh::{RefreshWatcher, Report, Step};
pub use shared::{PassageKey, SharedPassages, SharedVectors, SharedWork};
pub use tools::{Tool, ToolHit, Tools};
pub use unused::remove_unused;
pub use vectors::{Model, Progress, State};

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum Error {
    #[error("another process is indexing this folder; what it had indexed before can be searched")]
    Busy,
    #[error("{folder}: {why}")]
    Folder { folder: PathBuf, why: String },
    #[error("the index is damaged ({0}); remove its folder, it will be built again")]
    Broken(String),
    #[error("full text: {0}")]
    FullText(#[from] tantivy::TantivyError),
    /// The requested item is not in the folders.
    #[error("{0}")]
    NotHere(String),
}

impl Error {
    fn folder(folder: &Path, error: &std::io::Error) -> Self {
        Error::Folder { folder: folder.into(), why: error.to_string() }
    }
}

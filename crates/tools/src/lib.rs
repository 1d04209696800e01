//! The built-in tools, each an MCP server: in-process over a pipe in memory, or as a separate process by `baton mcp NAME` over standard
//! input and output or HTTP.
//!
//! [`KINDS`] lists them all. To add one: a `pub mod`, and its `KIND` in the list.
//!
//! Not here: models (a [`TextModel`] is passed in), the hub that calls these servers, and any decision about when to call them. Each tool
//! declares what the engine may rely on in its annotations.

#![warn(missing_docs)]

mod beneath;
mod builtin;
pub mod calc;
pub mod code;
mod confine;
pub mod docs;
pub mod document;
pub mod fetch;
pub mod files;
pub mod mail;
pub mod owner;
mod passage;
pub mod reader;
pub mod search;
pub mod serve;
mod settings;
pub mod stories;
pub mod summary;
mod time;
mod tool;
pub mod workspace;

pub use builtin::{Builtin, Kind, SessionFuture, UnavailableServer};
pub use passage::{Passage, Passages};
pub use secret::Secret;
pub use settings::{Env, Settings};
pub use summary::{TextModel, TextModelError};
pub use tool::{CallContext, Hints, Tool, ToolError, ToolOutput, Toolset};

use std::sync::Arc;

/// All built-in servers.
pub const KINDS: &[Kind] =
    &[search::KIND, summary::KIND, stories::KIND, fetch::KIND, calc::KIND, files::KIND, docs::KIND, code::KIND, document::KIND, mail::KIND];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Every server available with these settings, and for the others what is missing.
pub fn all(settings: &Settings) -> (Vec<Arc<Builtin>>, Vec<UnavailableServer>) {
    let mut ready = Vec::new();
    let mut unready = Vec::new();
    for kind in KINDS {
        match kind.build(settings) {
            Ok(builtin) => ready.push(builtin),
            Err(lack) => unready.push(lack),
        }
    }
    (ready, unready)
}

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

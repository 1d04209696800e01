//! Our own API, `/api/…`: what goes in and out, as data. The document that describes it is made from these types.
//!
//! Times are milliseconds since 1970. Ranges and offsets are counted in UTF-16 code units, as browsers count.

mod answer;
mod document;
mod event;
mod flow;
mod memory;
mod model;
mod permission;
mod query;
mod run;
mod session;
mod status;
mod thread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use answer::*;
pub use document::*;
pub use event::*;
pub use flow::*;
pub use memory::*;
pub use model::*;
pub use permission::*;
pub use query::*;
pub use run::*;
pub use session::*;
pub use status::*;
pub use thread::*;

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Error {
    pub error: ErrorBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyObject {}

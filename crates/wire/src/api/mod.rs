//! Requests and responses of Baton's API, `/api/…`. `openapi.json` is generated from these types.
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

/// The body of every response with an error status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Error {
    /// The error.
    pub error: ErrorBody,
}

/// The kind and message of an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// A word for programs: `not_found`, `bad_request` and so on.
    pub kind: String,
    /// A sentence for users.
    pub message: String,
}

/// A body without fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyObject {}

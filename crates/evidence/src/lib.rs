//! What tools said, in numbered spans that an answer can be held to.
//!
//! Deliberately absent: IO, models, and knowledge of any tool. Flows and `world` both stand on this.

mod span;

pub use span::{Found, Span, Trust};

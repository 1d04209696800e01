//! What tools said, in numbered spans that an answer can be held to.
//!
//! Deliberately absent: IO, models, and knowledge of any tool. Flows and `world` both stand on this.

mod check;
mod citation;
mod cite;
mod claim;
mod date;
mod fence;
mod judge;
mod link;
mod lists;
mod number;
mod pick;
mod polarity;
mod sentences;
mod span;
mod spans;
mod split;
mod words;

pub use check::{Checked, Likeness, Options, Problem, ProblemKind, Sentence, Status, check};
pub use citation::{Citation, citations};
pub use cite::{Cited, NOTHING_LEFT, Source, Strict, UNSUPPORTED_MARK, WEAK_MARK, cite};
pub use fence::{defused, fenced, fenced_all, message_content, source_line, visible};
pub use pick::{PickOptions, Picked, PickedSpan, pick, tokens};
pub use span::{Found, Span, Trust};
pub use spans::Spans;
pub use split::{SPAN_BYTES_MAX, SPANS_MAX, found};

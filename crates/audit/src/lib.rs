//! The audit log: who did what, when, in files that are only ever added to, each line chained to the one before by its hash.
//!
//! ```text
//! audit/00000001.jsonl   {"seq":1,…,"prev":"000…","hash":"a1…"}
//!                        {"seq":2,…,"prev":"a1…","hash":"b2…"}      prev is the hash of the line before
//! audit/00000002.jsonl   {"seq":3,…,"prev":"b2…","hash":"c3…"}      the chain goes on in the next file
//! ```
//!
//! A line is on the disk when `append` returns. Several processes may add lines: a lock on a file beside keeps their order. The oldest files are removed when
//! there are too many; a line that is added then states where the chain begins from now on, so that what is left can still be verified.
//!
//! The chain shows that lines were changed, removed or put in between. It cannot show that its end was cut off, or that somebody with the rights of this
//! account wrote all of it anew: for that, keep the head that `verify` reports elsewhere and compare it later ([`Head`]).
//!
//! Deliberately absent: what is worth recording, and arguments in clear. Callers record a digest ([`digest_of`]).

#![warn(missing_docs)]

mod event;
mod log;
mod recorder;
mod verify;

pub use event::{ChainStart, Event, EventKind, Line, digest_of, time_of};
pub use log::{AuditError, Log, Settings};
pub use recorder::Recorder;
pub use verify::{BrokenLine, Head, StoredLine, Verified, read, verify};

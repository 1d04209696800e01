//! What a flow gets from earlier runs, and what it keeps for later ones. Only data: a driver reads and writes it.
//!
//! ```text
//!   Context ── recall ──► input ── run ──► Done ── keep ──► Notes
//! ```
//!
//! What was recalled is in the run's input and so in its journal; a run that is resumed or replayed does not read the memory again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Message;

/// A run whose output has this field set to `true` states that its answer holds no findings: it is about the conversation itself ("what did I
/// ask first?"), or nothing was found. Later runs of the thread get a list of the messages of the history that are such answers.
pub const WITHOUT_FINDINGS: &str = "without_findings";

/// The context of one user in one thread when a run starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// The latest messages of the thread, oldest first.
    pub history: Vec<Message>,
    /// Indexes into `history` of answers that hold no findings (see [`WITHOUT_FINDINGS`]).
    pub without_findings: Vec<usize>,
    /// Number of the user's messages in the thread.
    pub turns: u64,
    /// The previous run of the thread failed or was cancelled.
    pub has_failed_before: bool,
    /// The user's preferences, by name.
    pub preferences: BTreeMap<String, Value>,
    /// Notes of earlier runs of the same flow, newest first.
    pub notes: Vec<Note>,
}

/// A finding of a run that a later run of the same flow may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// What kind of note it is, for the flow that reads it.
    pub kind: String,
    /// What it is about. A note with the kind and key of an older one takes its place.
    pub key: Value,
    /// Null takes the older one away and leaves nothing.
    pub value: Value,
    /// Who finds it later.
    pub reach: NoteScope,
    /// It expires after this time at the latest.
    pub ms_max: Option<i64>,
}

/// Where a note applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteScope {
    /// In all threads of the user.
    User,
    /// Only in the thread it was made in.
    Thread,
}

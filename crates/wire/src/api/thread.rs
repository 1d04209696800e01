//! Threads, their messages and links to share them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Run, RunStatus};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threads {
    pub threads: Vec<Thread>,
    /// Where the next page begins: give it as `before`.
    pub next: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    pub thread: String,
    pub title: String,
    /// How the last answer begins.
    pub preview: String,
    pub messages: u64,
    /// Of its newest run.
    pub flow: Option<String>,
    pub status: Option<RunStatus>,
    pub run: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// Listed before the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pinned: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What a user changes about a thread. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeThread {
    /// An empty title is the first question again.
    pub title: Option<String>,
    pub is_pinned: Option<bool>,
    pub tags: Option<Vec<String>>,
}

/// Who may read a thread through a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    pub shares: Vec<Share>,
}

/// A link through which anybody can read some turns of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Names it for revoking; it does not open anything.
    pub id: String,
    pub turns: usize,
    pub created_ms: i64,
    /// The path of the link. Only given when it is made, because the server keeps a digest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What a link shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewShare {
    /// The runs whose questions and answers are shown, in their order; those of the newest branch otherwise.
    pub runs: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedThread {
    pub thread: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    pub thread: Thread,
    pub messages: Vec<Message>,
    /// The newest first; without those that other runs started.
    pub runs: Vec<Run>,
    /// The number of the first message of the next page.
    pub next: Option<u64>,
    /// Runs that do not follow the run before them: the run that each follows, or `""` at the beginning of the conversation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub seq: u64,
    pub run: String,
    pub role: String,
    pub content: String,
    pub created_ms: i64,
}

//! Threads, their messages and links to share them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Run, RunStatus};

/// A page of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threads {
    /// The threads, newest first.
    pub threads: Vec<Thread>,
    /// Where the next page begins: give it as `before`.
    pub next: Option<String>,
}

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// The id of the thread.
    pub thread: String,
    /// The title that the user gave, or the first question.
    pub title: String,
    /// The beginning of the last answer.
    pub preview: String,
    /// The number of messages.
    pub messages: u64,
    /// The flow of its newest run.
    pub flow: Option<String>,
    /// The state of its newest run.
    pub status: Option<RunStatus>,
    /// The id of its newest run.
    pub run: Option<String>,
    /// When it began.
    pub created_ms: i64,
    /// When its newest run last changed.
    pub updated_ms: i64,
    /// Listed before the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pinned: bool,
    /// Tags that the user gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Changes of a thread. Absent fields are not changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeThread {
    /// An empty title restores the first question as the title.
    pub title: Option<String>,
    /// Whether it is listed first.
    pub is_pinned: Option<bool>,
    /// Replaces all tags.
    pub tags: Option<Vec<String>>,
}

/// The public links of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    /// The links of the thread.
    pub shares: Vec<Share>,
}

/// A link through which anybody can read some turns of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Identifies the link for revoking; it gives no access.
    pub id: String,
    /// The number of questions with answers that it shows.
    pub turns: usize,
    /// When it was created.
    pub created_ms: i64,
    /// The path of the link. Only returned when it is created, because the server stores only a digest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The body of a request that creates a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewShare {
    /// The runs whose questions and answers are shown, in their order; those of the newest branch otherwise.
    pub runs: Option<Vec<String>>,
}

/// A thread that was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedThread {
    /// The id of the thread.
    pub thread: String,
}

/// A thread with a page of its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    /// The thread.
    pub thread: Thread,
    /// A page of its messages, oldest first.
    pub messages: Vec<Message>,
    /// Its runs, newest first, without child runs.
    pub runs: Vec<Run>,
    /// The number of the first message of the next page.
    pub next: Option<u64>,
    /// Runs that do not follow the run before them: the run that each follows, or `""` at the beginning of the conversation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, String>,
}

/// A message of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its number in the thread, from 0.
    pub seq: u64,
    /// The run that added it.
    pub run: String,
    /// `user` or `assistant`.
    pub role: String,
    /// The text, in Markdown.
    pub content: String,
    /// When it was added.
    pub created_ms: i64,
}

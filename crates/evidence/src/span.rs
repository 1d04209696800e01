use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One passage that a tool gave, whole. Its number is its place in a run's list of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub text: String,
    /// The tool it came from, as `server.tool`.
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where a person finds it: an `https:` address or a file's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Where in there: a heading, lines (`Recovery, lines 12-20`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// When it was written or last changed, RFC 3339, as far as the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Its place among what the tool found for one question, 0 being the best. Text that was only cut up has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    #[serde(default)]
    pub trust: Trust,
}

/// Whose words these are. None of them are instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Anybody's: the web, a tool of somebody else.
    #[default]
    Untrusted,
    /// The user's own documents.
    Own,
    /// Computed here from what the flow gave: a calculation.
    Computed,
}

/// The value of a tool's reply, as a flow sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// What the tool said, as text.
    #[serde(default)]
    pub text: String,
    /// What it said as data (MCP's `structuredContent`), if it did.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    #[serde(default)]
    pub spans: Vec<Span>,
}

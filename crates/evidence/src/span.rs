use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fact::Fact;

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
    /// Where in there: a heading, lines (`Recovery, lines 12-20`), the path in a tool's reply (`items[3]`, `row 4`, `total`).
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
    /// The call that found it, as `task_label` says it: `stories.search (query: upstream)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(default, skip_serializing_if = "Form::is_text")]
    pub form: Form,
    /// Of `Form::Derived`: what was counted and added up over the rows at `place`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

/// A span with the number that an answer cites it by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    pub number: usize,
    #[serde(flatten)]
    pub span: Span,
}

/// How a span's text is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Words as the tool wrote them.
    #[default]
    Text,
    /// Lines of `field: value`: the scalars of a reply.
    Scalars,
    /// Lines of `field: value`: one or a few rows of a list or a table.
    Rows,
    /// Counts, sums, extremes and means over rows; `Span::facts` has them, and the text says them in words.
    Derived,
}

impl Form {
    fn is_text(&self) -> bool {
        *self == Form::Text
    }
}

impl Span {
    /// Whether it says what a whole reply comes to, in a few lines: its scalars, or what follows from its rows.
    pub fn is_summary(&self) -> bool {
        matches!(self.form, Form::Scalars | Form::Derived)
    }
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

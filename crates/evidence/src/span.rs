use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fact::Fact;

/// One passage from a tool, whole. Its number is its position in a run's list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The passage, at most [`SPAN_BYTES_MAX`](crate::SPAN_BYTES_MAX) bytes.
    pub text: String,
    /// The tool it came from, as `server.tool`.
    pub source: String,
    /// The title of its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its location: an `https:` address or a file's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The location inside it: a heading, lines (`Recovery, lines 12-20`), the path in a tool's reply (`items[3]`, `row 4`, `total`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// When it was written or last changed, RFC 3339, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Its rank among the tool's results for one question, 0 being the best. Text that was only split has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The origin of the text.
    #[serde(default)]
    pub trust: Trust,
    /// The call that found it, from `task_label`: `stories.search (query: upstream)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The form of `text`.
    #[serde(default, skip_serializing_if = "Form::is_text")]
    pub form: Form,
    /// For `Form::Derived`: the counts and sums over the rows at `place`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

/// A span with the number that an answer cites it by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// From 1.
    pub number: usize,
    /// The span.
    #[serde(flatten)]
    pub span: Span,
}

/// The form of a span's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Text as the tool wrote it.
    #[default]
    Text,
    /// Lines of `field: value`: the scalars of a reply.
    Scalars,
    /// Lines of `field: value`: one or a few rows of a list or a table.
    Rows,
    /// Counts, sums, extremes and means over rows; in `Span::facts`, and as text.
    Derived,
}

impl Form {
    fn is_text(&self) -> bool {
        *self == Form::Text
    }
}

impl Span {
    /// Whether it summarizes a whole reply in a few lines: its scalars, or the totals of its rows.
    pub fn is_summary(&self) -> bool {
        matches!(self.form, Form::Scalars | Form::Derived)
    }
}

/// The origin of a text. None of it is ever treated as instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Untrusted: the web, a third party's tool.
    #[default]
    Untrusted,
    /// The user's own documents.
    Own,
    /// Computed here from the flow's input: a calculation.
    Computed,
}

/// The value of a tool's reply, as a flow sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The tool's output as text.
    #[serde(default)]
    pub text: String,
    /// Its output as data (MCP's `structuredContent`), if any.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The output in passages that an answer can cite.
    #[serde(default)]
    pub spans: Vec<Span>,
}

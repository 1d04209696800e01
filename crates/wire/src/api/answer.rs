//! An answer: its sentences, sources and the passages it cites.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer, and what it stands on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// With `[n]` for the n-th source, and the list of sources.
    pub markdown: String,
    /// `markdown` without the list of sources.
    #[serde(default)]
    pub body: String,
    /// A sanitized fragment.
    pub html: String,
    pub plain: String,
    pub sentences: Vec<Sentence>,
    /// `[1]` is the first.
    pub sources: Vec<Source>,
    /// Those that are cited.
    pub spans: Vec<Span>,
    /// What the run wrote into the workspace of its thread: `GET /api/threads/{thread}/files/{path}` gives each.
    #[serde(default)]
    pub files: Vec<WrittenFile>,
    /// No model wrote it: sentences were picked.
    pub is_extracted: bool,
    /// The limit of the budget for which steps were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<BudgetLimit>,
    pub flow: String,
    /// The run that gave it: this one, or the one it passed the question to.
    pub run: String,
    pub model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    pub path: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    pub text: String,
    pub status: SentenceStatus,
    pub score: f32,
    /// Numbers of spans.
    pub cites: Vec<usize>,
    /// Where it stands in `markdown`.
    pub range: (usize, usize),
    /// What is wrong with it, in words.
    pub problems: Vec<String>,
    /// Who decided.
    #[serde(default)]
    pub by: DecidedBy,
    /// Of a contradicted sentence, the number of the span that states the contrary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted_by: Option<usize>,
}

/// Who decided whether a sentence is supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    #[default]
    Rules,
    /// The small entailment model that is part of the binary.
    Verifier,
    /// The configured language model (`verify = "model"`).
    Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SentenceStatus {
    Supported,
    Weak,
    Unsupported,
    /// A source states the contrary.
    Contradicted,
    /// A heading, a question, an introduction.
    NoClaim,
    /// It was compared with no source, or is in a language that cannot be checked.
    NotChecked,
}

/// A limit of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    Tokens,
    Usd,
    Calls,
    Time,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    pub title: String,
    pub address: Option<String>,
    pub places: Vec<String>,
    /// Numbers of spans.
    pub spans: Vec<usize>,
    /// When it was published, as the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub n: usize,
    pub text: String,
    /// The tool it came from.
    pub source: String,
    pub title: Option<String>,
    pub address: Option<String>,
    pub place: Option<String>,
    /// `untrusted`, `own` or `computed`.
    pub trust: String,
    /// The call that found it: `stories.search (query: upstream)`.
    pub task: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanInPlace {
    pub span: Span,
    /// The document around it, if it is one that this server can read; otherwise the tool's reply it stands in.
    pub document: Option<Excerpt>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    pub path: String,
    pub title: String,
    pub text: String,
    /// Where the span stands in `text`.
    pub start: usize,
    pub end: usize,
    /// The number of the first line of `text` (page of a PDF, paragraph of a DOCX).
    pub line: u32,
}

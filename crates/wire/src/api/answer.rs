//! An answer: its sentences, sources and the passages it cites.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer with its sources and the result of the check of each sentence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// With `[n]` for the n-th source, and the list of sources.
    pub markdown: String,
    /// `markdown` without the list of sources.
    #[serde(default)]
    pub body: String,
    /// A sanitized fragment.
    pub html: String,
    /// The text without markup.
    pub plain: String,
    /// The sentences of `markdown`, in order, with the result of the check.
    pub sentences: Vec<Sentence>,
    /// `[1]` is the first.
    pub sources: Vec<Source>,
    /// The passages that are cited.
    pub spans: Vec<Span>,
    /// Files that the run wrote into the workspace of its thread; `GET /api/threads/{thread}/files/{path}` returns one.
    #[serde(default)]
    pub files: Vec<WrittenFile>,
    /// It consists of sentences of the sources; no model wrote it.
    pub is_extracted: bool,
    /// The limit of the budget that made the flow omit steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<BudgetLimit>,
    /// The flow of `run`.
    pub flow: String,
    /// The run that produced it: this one, or the child run that it delegated the question to.
    pub run: String,
    /// The model that wrote it; absent if there was none.
    pub model: Option<String>,
}

/// A file that a run wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    /// Relative to the workspace of the thread.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
}

/// A sentence of an answer and whether its sources support it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    /// The sentence without citation marks.
    pub text: String,
    /// The result of the check.
    pub status: SentenceStatus,
    /// How well the best span supports it, from 0 to 1.
    pub score: f32,
    /// Numbers of spans.
    pub cites: Vec<usize>,
    /// Its start and end in `markdown`.
    pub range: (usize, usize),
    /// What is wrong with it, one sentence each.
    pub problems: Vec<String>,
    /// How the status was decided.
    #[serde(default)]
    pub by: DecidedBy,
    /// Of a contradicted sentence, the number of the span that states the contrary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted_by: Option<usize>,
}

/// How it was decided whether a sentence is supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// Rules that compare words, numbers and names.
    #[default]
    Rules,
    /// The small entailment model that is part of the binary.
    Verifier,
    /// The configured language model (`verify = "model"`).
    Model,
}

/// Whether the cited sources support a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SentenceStatus {
    /// The sources state it.
    Supported,
    /// The sources state a part of it, or something similar.
    Weak,
    /// The sources do not state it.
    Unsupported,
    /// A source states the contrary.
    Contradicted,
    /// A heading, a question, an introduction.
    NoClaim,
    /// It was compared with no source, or is in a language that cannot be checked.
    NotChecked,
}

/// The limit of a budget that was reached: tokens, US dollars, calls or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "comments at the variants would make the schema a `oneOf` instead of an `enum`")]
pub enum BudgetLimit {
    Tokens,
    Usd,
    Calls,
    Time,
}

/// A document, page or tool whose passages an answer cites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The title that is shown.
    pub title: String,
    /// A URL or path.
    pub address: Option<String>,
    /// The cited places in it: lines, pages or headings.
    pub places: Vec<String>,
    /// Numbers of spans.
    pub spans: Vec<usize>,
    /// The date of publication, as the source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A cited passage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Its number, from 1.
    pub n: usize,
    /// The passage as the tool returned it.
    pub text: String,
    /// The tool it came from.
    pub source: String,
    /// The title of its document.
    pub title: Option<String>,
    /// The URL or path of its document.
    pub address: Option<String>,
    /// Its place in the document: a line, page or heading.
    pub place: Option<String>,
    /// `untrusted`, `own` or `computed`.
    pub trust: String,
    /// The call that found it: `stories.search (query: upstream)`.
    pub task: Option<String>,
}

/// A cited passage and the text around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanInPlace {
    /// The passage.
    pub span: Span,
    /// The surrounding text of the document if the server can read it, otherwise of the tool's reply.
    pub document: Option<Excerpt>,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The path of the document.
    pub path: String,
    /// The title of the document.
    pub title: String,
    /// The part.
    pub text: String,
    /// The start of the span in `text`.
    pub start: usize,
    /// The end of the span in `text`, exclusive.
    pub end: usize,
    /// The number of the first line of `text` (page of a PDF, paragraph of a DOCX).
    pub line: u32,
}

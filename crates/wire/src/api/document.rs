//! Documents of a user and their text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The documents that a user can search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Documents {
    /// Folders of the configuration that are indexed.
    pub folders: Vec<String>,
    /// Documents that the user uploaded.
    pub files: Vec<Document>,
    /// The state of the index.
    pub index: Index,
}

/// An uploaded document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// The name it was uploaded with.
    pub name: String,
    /// The size of the file.
    pub bytes: u64,
    /// When it was uploaded or replaced.
    pub updated_ms: i64,
    /// Whether it can be searched.
    pub state: DocumentState,
    /// Why it could not be indexed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether a document can be searched: `indexed`, `waiting` for its turn, or `failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "comments at the variants would make the schema a `oneOf` instead of an `enum`")]
pub enum DocumentState {
    Indexed,
    Waiting,
    Failed,
}

/// The size and state of the index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Passages that can be searched by words.
    pub passages: u64,
    /// Passages that can be searched by meaning.
    pub vectors: u64,
    /// Whether documents wait for their vectors, or the model for vectors is being loaded.
    pub is_filling: bool,
}

/// A document that was stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uploaded {
    /// The name under which it was stored.
    pub name: String,
    /// The size of the file.
    pub bytes: u64,
}

/// The text of a document as it is indexed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentText {
    /// The name of the document.
    pub name: String,
    /// The lines from `from` to `to`.
    pub text: String,
    /// The first and the last line (page of a PDF, paragraph of a DOCX) of `text`, and how many the document has.
    pub from: u32,
    /// The last line of `text`.
    pub to: u32,
    /// The number of lines of the document.
    pub total: u32,
}

//! Documents of a user and their text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Documents {
    pub folders: Vec<String>,
    /// What the user gave.
    pub files: Vec<Document>,
    pub index: Index,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    pub name: String,
    pub bytes: u64,
    pub updated_ms: i64,
    pub state: DocumentState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentState {
    Indexed,
    Waiting,
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    pub passages: u64,
    pub vectors: u64,
    pub is_filling: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uploaded {
    pub name: String,
    pub bytes: u64,
}

/// The text of a document as it is indexed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentText {
    pub name: String,
    pub text: String,
    /// The first and the last line (page of a PDF, paragraph of a DOCX) of `text`, and how many the document has.
    pub from: u32,
    pub to: u32,
    pub total: u32,
}

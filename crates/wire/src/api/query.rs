//! A question and its answer in one request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `POST /api/query`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The question.
    pub query: String,
    /// The thread it continues; `new` begins another conversation. By default the client's newest conversation continues.
    #[serde(default)]
    pub thread: Option<String>,
}

/// The answer of `POST /api/query`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryAnswer {
    /// The intent that was recognized.
    pub intent: String,
    /// The stages that the plan contains.
    pub planned_stages: Vec<String>,
    /// The stages that ran.
    pub executed_stages: Vec<String>,
    /// What the stages returned.
    pub results: Results,
    /// The last five messages.
    pub messages: Vec<ChatMessage>,
    /// The thread of the conversation.
    pub thread: String,
    /// The run that answered.
    pub run: String,
}

/// The results of executed stages; other fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Results {
    /// What the search found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_results: Option<Value>,
    /// How certain the search is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_confidence: Option<Value>,
    /// The summary of the findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Value>,
    /// How certain the summary is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_confidence: Option<Value>,
    /// The reply of the conversation stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_response: Option<Value>,
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

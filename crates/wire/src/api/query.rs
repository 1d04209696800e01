//! A question and its answer in one request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub query: String,
    /// The thread it continues; `new` begins another conversation. Left out, the client's newest conversation goes on.
    #[serde(default)]
    pub thread: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryAnswer {
    pub intent: String,
    pub planned_stages: Vec<String>,
    pub executed_stages: Vec<String>,
    pub results: Results,
    /// The last five.
    pub messages: Vec<ChatMessage>,
    pub thread: String,
    pub run: String,
}

/// Only of executed stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Results {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_results: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_confidence: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_confidence: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_response: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatMessage {
    pub role: String,
    pub content: String,
}

//! Standing permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the user allowed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    pub permissions: Vec<Permission>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    pub id: u64,
    pub scope: PermissionScope,
    /// `server.tool`, or the server.
    pub name: String,
    /// Of a conversation: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    pub created_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionScope {
    /// One tool in one conversation.
    Conversation,
    /// One tool in every conversation.
    Tool,
    /// Every tool of a server.
    Server,
}

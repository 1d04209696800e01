//! Standing permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The standing permissions of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    /// The permissions, oldest first.
    pub permissions: Vec<Permission>,
}

/// A permission that stays until it is revoked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    /// Names the permission for revoking.
    pub id: u64,
    /// What it covers.
    pub scope: PermissionScope,
    /// `server.tool`, or the server.
    pub name: String,
    /// The conversation, if the scope is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// When it was given.
    pub created_ms: i64,
}

/// What a permission covers.
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

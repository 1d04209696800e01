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
    /// Whether it still holds.
    pub state: PermissionState,
    /// Of one whose tool or server changed: what changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<DefinitionPart>,
}

/// Whether a permission holds for what the tool and its server are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionState {
    /// They are what they were when it was given.
    Valid,
    /// They changed; the next call is asked about.
    Changed,
    /// It was given before it was kept what they were; the next call is asked about.
    Unbound,
    /// What they are now is not known here; it is checked at the next call.
    Unknown,
}

/// A part of what a tool and its server are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionPart {
    /// The server's command or address, or its entry in the configuration.
    Server,
    /// The server's list of tools, or what it says of one of them.
    Tools,
    /// The tool's title or description.
    Description,
    /// The schema of its arguments.
    Arguments,
    /// The schema of its results.
    Results,
    /// Its annotations.
    Hints,
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

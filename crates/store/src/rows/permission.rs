//! What users allowed for good.

use graph::{ThreadId, UserId};
use serde::{Deserialize, Serialize};

/// Permissions a user can have; the oldest are dropped, and then asked for again.
pub const PERMISSIONS_MAX: usize = 1_000;

/// What a user allowed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum Grant {
    /// One tool in one thread.
    Conversation {
        /// The thread.
        thread: ThreadId,
        /// The tool, as `server.tool`.
        tool: String,
    },
    /// One tool, as `server.tool`, in every thread.
    Tool {
        /// The tool.
        tool: String,
    },
    /// Every tool of a server.
    Server {
        /// The name of the server.
        server: String,
    },
}

impl Grant {
    /// Its name in the store and in JSON.
    pub fn scope(&self) -> &'static str {
        match self {
            Grant::Conversation { .. } => "conversation",
            Grant::Tool { .. } => "tool",
            Grant::Server { .. } => "server",
        }
    }

    /// The tool or the server.
    pub fn name(&self) -> &str {
        match self {
            Grant::Conversation { tool, .. } | Grant::Tool { tool } => tool,
            Grant::Server { server } => server,
        }
    }

    /// The thread it is limited to.
    pub fn thread(&self) -> Option<&ThreadId> {
        match self {
            Grant::Conversation { thread, .. } => Some(thread),
            Grant::Tool { .. } | Grant::Server { .. } => None,
        }
    }
}

/// A standing permission to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPermission {
    /// The user it belongs to.
    pub user: UserId,
    /// What is allowed.
    pub grant: Grant,
    /// When it was created.
    pub created_ms: i64,
}

/// A stored permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermissionRow {
    /// Its number, by which it is withdrawn.
    pub permission: u64,
    /// What is allowed.
    #[serde(flatten)]
    pub grant: Grant,
    /// When it was created.
    pub created_ms: i64,
}

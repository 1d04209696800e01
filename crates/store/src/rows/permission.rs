//! What users allowed for good.

use graph::{DefinitionPart, ThreadId, ToolDefinition, UserId};
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

    /// The parts of a definition that it depends on.
    pub fn parts(&self) -> &'static [DefinitionPart] {
        match self {
            Grant::Conversation { .. } | Grant::Tool { .. } => &DefinitionPart::OF_A_TOOL,
            Grant::Server { .. } => &DefinitionPart::OF_A_SERVER,
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
    /// What the tool and its server were when the user agreed. `None` as for permissions from before this was kept: such a one allows nothing.
    pub definition: Option<ToolDefinition>,
    /// When it was created.
    pub created_ms: i64,
}

impl NewPermission {
    /// Its definition as databases keep it: JSON.
    pub fn definition_text(&self) -> Option<String> {
        // Fields of text always become JSON. Without one the permission would allow nothing.
        self.definition.as_ref().and_then(|definition| serde_json::to_string(definition).ok())
    }
}

/// A stored permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermissionRow {
    /// Its number, by which it is withdrawn.
    pub permission: u64,
    /// What is allowed.
    #[serde(flatten)]
    pub grant: Grant,
    /// What the tool and its server were when the user agreed. `None` for a permission from before this was kept: it allows nothing until it is given again.
    pub definition: Option<ToolDefinition>,
    /// When it was created, or given again for another definition.
    pub created_ms: i64,
}

impl PermissionRow {
    /// Reads what [`NewPermission::definition_text`] wrote. What is not understood is no definition, and the permission allows nothing.
    pub fn read_definition(text: Option<&str>) -> Option<ToolDefinition> {
        serde_json::from_str(text?).ok()
    }

    /// Whether it still holds for what the tool and its server are now.
    pub fn check(&self, now: &ToolDefinition) -> PermissionCheck {
        let Some(definition) = &self.definition else { return PermissionCheck::Unbound };
        match definition.changes(now, self.grant.parts()) {
            changes if changes.is_empty() => PermissionCheck::Valid,
            changes => PermissionCheck::Changed(changes),
        }
    }
}

/// Whether a permission holds for a tool as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionCheck {
    /// Nothing changed that it depends on.
    Valid,
    /// These parts changed.
    Changed(Vec<DefinitionPart>),
    /// It is from before definitions were kept.
    Unbound,
}

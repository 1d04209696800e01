//! What a tool and its server were when a person was asked about a call, so that a permission given then does not cover what they become later.

use serde::{Deserialize, Serialize};

/// Digests of what a tool and its server were. The handler makes them; an empty one means that it does not know that part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolDefinition {
    /// How the server is reached: its command or address, and its entry in the configuration.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// All tools that the server lists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tools: String,
    /// The tool's title and description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The schema of its arguments.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// The schema of its results.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub results: String,
    /// Its annotations.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hints: String,
}

/// A part of a [`ToolDefinition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionPart {
    /// [`ToolDefinition::server`]
    Server,
    /// [`ToolDefinition::tools`]
    Tools,
    /// [`ToolDefinition::description`]
    Description,
    /// [`ToolDefinition::arguments`]
    Arguments,
    /// [`ToolDefinition::results`]
    Results,
    /// [`ToolDefinition::hints`]
    Hints,
}

impl DefinitionPart {
    /// What a permission for one tool depends on.
    pub const OF_A_TOOL: [DefinitionPart; 5] =
        [DefinitionPart::Server, DefinitionPart::Description, DefinitionPart::Arguments, DefinitionPart::Results, DefinitionPart::Hints];
    /// What a permission for all tools of a server depends on.
    pub const OF_A_SERVER: [DefinitionPart; 2] = [DefinitionPart::Server, DefinitionPart::Tools];

    /// For people: "… changed".
    pub fn as_text(self) -> &'static str {
        match self {
            DefinitionPart::Server => "how its server is reached",
            DefinitionPart::Tools => "the server's list of tools",
            DefinitionPart::Description => "its description",
            DefinitionPart::Arguments => "its arguments",
            DefinitionPart::Results => "the form of its results",
            DefinitionPart::Hints => "its annotations",
        }
    }
}

impl ToolDefinition {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == ToolDefinition::default()
    }

    /// Which of these parts are different now.
    pub fn changes(&self, now: &ToolDefinition, parts: &[DefinitionPart]) -> Vec<DefinitionPart> {
        parts.iter().copied().filter(|part| self.part(*part) != now.part(*part)).collect()
    }

    fn part(&self, part: DefinitionPart) -> &str {
        match part {
            DefinitionPart::Server => &self.server,
            DefinitionPart::Tools => &self.tools,
            DefinitionPart::Description => &self.description,
            DefinitionPart::Arguments => &self.arguments,
            DefinitionPart::Results => &self.results,
            DefinitionPart::Hints => &self.hints,
        }
    }
}

//! Flows and their settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// A flow that can be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// The name to give as `flow` when a run is started.
    pub name: String,
    /// The name that is shown.
    pub title: String,
    /// What it does, in one sentence.
    pub about: String,
    /// The name of an icon of the page.
    pub icon: String,
    /// It has a plan that can be submitted for approval.
    pub can_approve: bool,
    /// Users choose it; other flows are parts of flows, or samples.
    pub is_shown: bool,
    /// Its nodes and edges.
    pub graph: Value,
    /// The settings that a run of it accepts.
    pub settings: Vec<Setting>,
}

/// The list of flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// All flows, also those that are not shown.
    pub flows: Vec<Flow>,
}

/// A setting of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The key under `settings`.
    pub name: String,
    /// The type of its values.
    pub kind: SettingKind,
    /// The value if a request does not set it: the configured one or the built-in one; `null` if there is none.
    pub default: Value,
    /// The smallest allowed value of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    /// The largest allowed value of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// The allowed values of the kind `choice`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// What the setting does.
    pub help: String,
}

/// The type of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A text.
    Text,
    /// One of `choices`.
    Choice,
    /// A list of texts.
    List,
}

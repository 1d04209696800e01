//! Flows and their settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    pub name: String,
    pub title: String,
    pub about: String,
    pub icon: String,
    /// It has a plan that a person can be asked to agree to.
    pub can_approve: bool,
    /// People choose it; others are parts and samples.
    pub is_shown: bool,
    /// Its nodes and where they lead.
    pub graph: Value,
    /// What a run of it can be started with under `settings`.
    pub settings: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    pub flows: Vec<Flow>,
}

/// A setting of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    pub name: String,
    pub kind: SettingKind,
    /// What it is if the request does not set it: the configured value, or the built-in one; `null` if it is not set at all then.
    pub default: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// Of the kind `choice`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    pub help: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// A whole number.
    Integer,
    Number,
    Boolean,
    Text,
    /// One of `choices`.
    Choice,
    /// A list of texts.
    List,
}

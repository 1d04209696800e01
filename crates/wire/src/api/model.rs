//! Models and the keys of their providers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SelectedModel;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Models {
    pub chosen: SelectedModel,
    pub options: Vec<ModelOption>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOption {
    pub name: String,
    pub title: String,
    pub state: ModelState,
    pub detail: String,
    /// What would make it work.
    pub todo: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelState {
    Ready,
    Missing,
    Failed,
    Off,
}

/// Keys of models and tools, by the variable of the environment that each stands for. Values are never given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Keys {
    pub keys: Vec<StoredKey>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredKey {
    /// `OPENAI_API_KEY`
    pub name: String,
    pub state: KeyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    Missing,
    /// In the environment of the server, which counts before what is stored.
    Environment,
    Stored,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetKey {
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestModel {
    /// `family/model`
    pub model: String,
}

/// What a model answered to a short question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestedModel {
    pub model: String,
    pub text: String,
    pub took_ms: u64,
}

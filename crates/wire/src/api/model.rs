//! Models and the keys of their providers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SelectedModel;

/// The models that a user can choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Models {
    /// The model that is used if a request names none.
    pub chosen: SelectedModel,
    /// All known models with their state.
    pub options: Vec<ModelOption>,
}

/// A model that a request can name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOption {
    /// `family/model`
    pub name: String,
    /// The name that is shown.
    pub title: String,
    /// Whether it can be used.
    pub state: ModelState,
    /// The reason for the state.
    pub detail: String,
    /// What would make it work.
    pub todo: String,
}

/// Whether a model can be used: `ready`, `missing` (its key, weights or server is missing), `failed` (it was selected and cannot work), or `off` (not configured).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "comments at the variants would make the schema a `oneOf` instead of an `enum`")]
pub enum ModelState {
    Ready,
    Missing,
    Failed,
    Off,
}

/// Keys of models and tools, by the environment variable that each replaces. Values are never returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Keys {
    /// One entry for each key that a model or tool can use.
    pub keys: Vec<StoredKey>,
}

/// A key and whether it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredKey {
    /// `OPENAI_API_KEY`
    pub name: String,
    /// Whether there is a value, and where.
    pub state: KeyState,
}

/// Where the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It has no value.
    Missing,
    /// In the environment of the server, which has precedence over a stored value.
    Environment,
    /// In the file of stored keys.
    Stored,
}

/// The body of a request that stores a key.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetKey {
    /// The key itself.
    pub value: String,
}

/// The body of a request that tests a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestModel {
    /// `family/model`
    pub model: String,
}

/// The reply of a model to a short test prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestedModel {
    /// The model that was called.
    pub model: String,
    /// The generated text.
    pub text: String,
    /// How long the call took.
    pub took_ms: u64,
}

//! The state of the server and the rights of the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Flow;

/// The server and what the caller may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The version of the server.
    pub version: String,
    /// The name of the caller.
    pub user: String,
    /// Whether requests need a token.
    pub needs_token: bool,
    /// The flows that are shown.
    pub flows: Vec<Flow>,
    /// The model that is used if a request names none.
    pub model: SelectedModel,
    /// What the index holds.
    pub documents: IndexInfo,
    /// The user has no run yet.
    pub first_run: bool,
    /// `viewer`, `user` or `operator`.
    #[serde(default)]
    pub role: String,
    /// The daily limits of the user and today's use; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<Allowance>,
}

/// Daily limits and today's use, by days in UTC. An absent limit is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_day: Option<f64>,
    /// Input and output tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    /// Runs that the user starts; child runs do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_day: Option<u64>,
    /// US dollars spent today.
    pub usd_today: f64,
    /// Tokens used today.
    pub tokens_today: u64,
    /// Runs started today.
    pub runs_today: u64,
    /// The models that the user may name; `default` is the server's. Absent: all models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// The tools and servers that may be called. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

/// The model that is used if a request names none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedModel {
    /// `family/model`
    pub name: String,
    /// How it was selected: by a flag, the configuration, a key and so on.
    pub why: String,
}

/// What the index holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexInfo {
    /// Folders of the configuration that are indexed.
    pub folders: Vec<String>,
    /// Passages that can be searched.
    pub passages: u64,
}

/// The answer of `/healthz`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthStatus {
    /// Always `true`; a failure has another status.
    pub ok: bool,
}

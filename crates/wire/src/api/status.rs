//! What the server is and has, and what a caller may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Flow;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub version: String,
    pub user: String,
    /// Whether one needs a token here.
    pub needs_token: bool,
    pub flows: Vec<Flow>,
    pub model: SelectedModel,
    pub documents: IndexInfo,
    /// Nothing was ever asked here by this user.
    pub first_run: bool,
    /// `viewer`, `user` or `operator`.
    #[serde(default)]
    pub role: String,
    /// What the user may spend a day, and has spent today; absent where nothing is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<Allowance>,
}

/// By the day of UTC. Limits that are absent do not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_day: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_day: Option<u64>,
    pub usd_today: f64,
    pub tokens_today: u64,
    pub runs_today: u64,
    /// The models that may be named; `default` is the server's own. Absent if all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// The tools and servers that may be called. Absent if all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedModel {
    pub name: String,
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexInfo {
    pub folders: Vec<String>,
    pub passages: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthStatus {
    pub ok: bool,
}

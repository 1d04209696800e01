//! The registry's own API, and the lists that official MCP registries publish (`/v0.1/servers`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `server.tool`
    pub name: String,
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    pub enabled: bool,
    pub healthy: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tools {
    pub tools: Vec<Tool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    pub score: f32,
    #[serde(flatten)]
    pub tool: Tool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    pub tools: Vec<Hit>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    pub kind: ServerKind,
    pub enabled: bool,
    pub trusted: bool,
    pub tools: usize,
    /// Whether somebody signed in there with OAuth; absent where the server has not asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
    #[serde(flatten)]
    pub health: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignIn {
    Needed,
    Done,
}

/// The answer of `POST /servers/{name}/login`: where a person agrees, in a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub address: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    Stdio,
    Http,
    Local,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "health", rename_all = "snake_case")]
pub enum Health {
    /// Nobody has needed it yet.
    Idle,
    Connecting,
    Up {
        /// The revision of MCP that is spoken.
        version: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        software: Option<String>,
    },
    Down {
        why: String,
        retry_in_ms: u64,
        failures: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Servers {
    pub servers: Vec<Server>,
}

/// What is sent to `/tools/{name}/call`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Call {
    pub arguments: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The same for every attempt at the same act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Called {
    pub text: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    pub spans: Vec<Value>,
    pub took_ms: u64,
}

/// What is sent to `/import`: an address of a registry, or a list as one publishes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Import {
    Address(String),
    List(Value),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Names of servers that are there now, switched off until somebody switches them on.
    pub added: Vec<String>,
    pub skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    pub name: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Error {
    pub error: ErrorBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub kind: String,
    pub message: String,
}

/// One page of an official registry's list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Page {
    pub servers: Vec<Value>,
    pub metadata: PageMetadata,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PageMetadata {
    #[serde(alias = "next_cursor")]
    pub next_cursor: Option<String>,
}

/// A server as an official registry describes it (`server.json`). The earlier spelling, with underscores, is read too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListedServer {
    pub name: String,
    pub description: String,
    pub packages: Vec<Package>,
    pub remotes: Vec<Remote>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Package {
    #[serde(alias = "registry_name", alias = "registry_type")]
    pub registry_type: String,
    #[serde(alias = "name")]
    pub identifier: String,
    pub version: Option<String>,
    #[serde(alias = "runtime_hint")]
    pub runtime_hint: Option<String>,
    pub transport: Option<Transport>,
    #[serde(alias = "runtime_arguments")]
    pub runtime_arguments: Vec<Argument>,
    #[serde(alias = "package_arguments")]
    pub package_arguments: Vec<Argument>,
    #[serde(alias = "environment_variables")]
    pub environment_variables: Vec<Variable>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Transport {
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Argument {
    #[serde(rename = "type")]
    pub kind: String,
    pub name: Option<String>,
    pub value: Option<String>,
    pub default: Option<String>,
    #[serde(alias = "is_required")]
    pub is_required: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Variable {
    pub name: String,
    pub value: Option<String>,
    pub default: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Remote {
    #[serde(rename = "type", alias = "transport_type")]
    pub kind: String,
    pub url: String,
    pub headers: Vec<Variable>,
}

//! The registry's own API, and the lists that official MCP registries publish (`/v0.1/servers`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `server.tool`
    pub name: String,
    /// The server's name in the configuration.
    pub server: String,
    /// The title that the server gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, in the server's words.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// The JSON schema of its structured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// It changes nothing; absent if the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may delete or overwrite; absent if the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more; absent if the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches systems outside of the server; absent if the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// Whether flows may call it.
    pub enabled: bool,
    /// Whether its server is connected.
    pub healthy: bool,
}

/// The answer of `/tools`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tools {
    /// All tools, by name.
    pub tools: Vec<Tool>,
}

/// A tool that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Its relevance; larger is better.
    pub score: f32,
    /// The tool.
    #[serde(flatten)]
    pub tool: Tool,
}

/// The answer of `/search`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    /// The tools, the most relevant first.
    pub tools: Vec<Hit>,
}

/// A tool server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// Its transport.
    pub kind: ServerKind,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Whether its tools need no permission.
    pub trusted: bool,
    /// The number of its tools.
    pub tools: usize,
    /// Whether there are OAuth credentials for it; absent if the server has not required them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
    /// Whether it is connected.
    #[serde(flatten)]
    pub health: Health,
}

/// Whether there are valid OAuth credentials for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignIn {
    /// A user has to sign in.
    Needed,
    /// There are credentials.
    Done,
}

/// The answer of `POST /servers/{name}/login`: where a person agrees, in a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The address to open in a browser.
    pub address: String,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// In this process.
    Local,
}

/// The state of the connection to a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "health", rename_all = "snake_case")]
pub enum Health {
    /// Nobody has needed it yet.
    Idle,
    /// The connection is being opened.
    Connecting,
    /// It is connected.
    Up {
        /// The negotiated revision of MCP.
        version: String,
        /// The name and version that the server reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        software: Option<String>,
    },
    /// The last attempt failed.
    Down {
        /// The error of that attempt.
        why: String,
        /// Milliseconds until the next attempt.
        retry_in_ms: u64,
        /// Attempts that failed in a row.
        failures: u32,
    },
}

/// The answer of `/servers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Servers {
    /// All servers, by name.
    pub servers: Vec<Server>,
}

/// What is sent to `/tools/{name}/call`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Call {
    /// The arguments, by the tool's schema.
    pub arguments: Value,
    /// How long the call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The same for every attempt at the same act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Called {
    /// The text of the result.
    pub text: String,
    /// The structured output; null if there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The passages that an answer can cite.
    pub spans: Vec<Value>,
    /// How long the call took.
    pub took_ms: u64,
}

/// What is sent to `/import`: an address of a registry, or a list as one publishes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Import {
    /// The base address of a registry.
    Address(String),
    /// A page of a registry's list.
    List(Value),
}

/// What an import changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Names of the new servers, which are switched off at first.
    pub added: Vec<String>,
    /// Servers that were not added.
    pub skipped: Vec<Skipped>,
}

/// A server that was not added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The name in the registry's list.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// The body of every response with an error status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// The error.
    pub error: ErrorBody,
}

/// The kind and message of an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// A word for programs.
    pub kind: String,
    /// A sentence for users.
    pub message: String,
}

/// One page of an official registry's list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Page {
    /// Entries that hold a `server.json`, or are one.
    pub servers: Vec<Value>,
    /// Where the next page begins.
    pub metadata: PageMetadata,
}

/// The metadata of a page.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PageMetadata {
    /// The cursor of the next page; absent on the last one.
    #[serde(alias = "next_cursor")]
    pub next_cursor: Option<String>,
}

/// A server as an official registry describes it (`server.json`). The earlier spelling, with underscores, is read too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListedServer {
    /// The name in reverse-DNS form: `io.github.owner/server`.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// Ways to install it.
    pub packages: Vec<Package>,
    /// Addresses where it runs.
    pub remotes: Vec<Remote>,
}

/// A package that contains the server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Package {
    /// `npm`, `pypi`, `oci` and so on.
    #[serde(alias = "registry_name", alias = "registry_type")]
    pub registry_type: String,
    /// The name in that registry.
    #[serde(alias = "name")]
    pub identifier: String,
    /// The version to install.
    pub version: Option<String>,
    /// The program that starts it: `npx`, `uvx`, `docker`.
    #[serde(alias = "runtime_hint")]
    pub runtime_hint: Option<String>,
    /// How it communicates once started.
    pub transport: Option<Transport>,
    /// Arguments of the runtime.
    #[serde(alias = "runtime_arguments")]
    pub runtime_arguments: Vec<Argument>,
    /// Arguments of the server.
    #[serde(alias = "package_arguments")]
    pub package_arguments: Vec<Argument>,
    /// Variables that it reads.
    #[serde(alias = "environment_variables")]
    pub environment_variables: Vec<Variable>,
}

/// How a package communicates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Transport {
    /// `stdio`, `sse` or `streamable-http`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A command-line argument.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Argument {
    /// `named` or `positional`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The flag of a named argument.
    pub name: Option<String>,
    /// The fixed value.
    pub value: Option<String>,
    /// The value if the user gives none.
    pub default: Option<String>,
    /// Whether it cannot be omitted.
    #[serde(alias = "is_required")]
    pub is_required: bool,
}

/// An environment variable or header.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Variable {
    /// The name of the variable or header.
    pub name: String,
    /// The fixed value.
    pub value: Option<String>,
    /// The value if the user gives none.
    pub default: Option<String>,
}

/// An address where a server runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Remote {
    /// `sse` or `streamable-http`.
    #[serde(rename = "type", alias = "transport_type")]
    pub kind: String,
    /// The address.
    pub url: String,
    /// Headers that it needs.
    pub headers: Vec<Variable>,
}

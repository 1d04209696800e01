//! The card: what an agent is, what it can do, and its addresses with their protocols.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::or_default;

/// Below the address of an agent.
pub const PATH: &str = "/.well-known/agent-card.json";
/// The binding with JSON-RPC, as [`Interface::protocol_binding`] names it.
pub const JSON_RPC: &str = "JSONRPC";
/// The binding with HTTP and JSON, as [`Interface::protocol_binding`] names it.
pub const HTTP_JSON: &str = "HTTP+JSON";
pub const GRPC: &str = "GRPC";

/// The description of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCard {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// The preferred one first.
    #[serde(deserialize_with = "or_default")]
    pub supported_interfaces: Vec<Interface>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    #[serde(deserialize_with = "or_default")]
    pub capabilities: Capabilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_schemes: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_requirements: Option<Value>,
    #[serde(deserialize_with = "or_default")]
    pub default_input_modes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub default_output_modes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub skills: Vec<Skill>,
}

/// An address of an agent and the protocol binding there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    #[serde(deserialize_with = "or_default")]
    pub url: String,
    #[serde(deserialize_with = "or_default")]
    pub protocol_binding: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    #[serde(deserialize_with = "or_default")]
    pub protocol_version: String,
}

/// Optional parts of the protocol that an agent supports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    #[serde(deserialize_with = "or_default")]
    pub streaming: bool,
    #[serde(deserialize_with = "or_default")]
    pub push_notifications: bool,
    #[serde(deserialize_with = "or_default")]
    pub extended_agent_card: bool,
}

/// Something an agent can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Skill {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    #[serde(deserialize_with = "or_default")]
    pub tags: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// A bearer token, as security schemes and their requirement have it.
pub fn bearer() -> (Value, Value) {
    let scheme = json!({ "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer", "description": "A token of `baton tokens add`" } } });
    (scheme, json!([{ "schemes": { "bearer": { "list": [] } } }]))
}

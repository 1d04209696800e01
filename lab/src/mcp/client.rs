//! A client for the conformance suite: each scenario is performed through the hub.
//!
//! The suite passes the scenario in `MCP_CONFORMANCE_SCENARIO`, its data in `MCP_CONFORMANCE_CONTEXT`, the revision in
//! `MCP_CONFORMANCE_PROTOCOL_VERSION` and the address as the last argument.
#![allow(deprecated, reason = "the earlier revisions have sampling, and the suite tries it")]

use std::time::Duration;

use async_trait::async_trait;
use mcp_hub::config::{OAuth, RedactedText};
use mcp_hub::{CallOptions, Consent, Pace, ServerConfig, ServerRequestHandler, ServerStatus, ToolInfo, Tools};
use rmcp::ErrorData;
use rmcp::model::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The suite's request.
pub struct Wanted {
    pub scenario: String,
    pub address: String,
    pub revision: Option<String>,
    pub context: Context,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Context {
    #[serde(alias = "toolCalls")]
    tool_calls: Vec<Call>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call {
    name: String,
    arguments: Option<Value>,
}

/// Address of this client's metadata document, for authorization servers that read one.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";
const REDIRECT: &str = "http://localhost:3000/callback";
const CALL_MAX: Duration = Duration::from_secs(20);
/// Some scenarios change something between two calls.
const ROUNDS_OF_MIGRATION: usize = 3;

/// Performs the scenario; the error is what failed.
pub async fn run(wanted: &Wanted) -> Result<(), String> {
    let mut server = ServerConfig::http(wanted.address.as_str());
    server.revision.clone_from(&wanted.revision);
    server.oauth = Some(OAuth {
        client_id: wanted.context.client_id.clone(),
        client_secret: wanted.context.client_secret.as_deref().map(RedactedText::new),
        metadata_url: Some(METADATA.to_owned()),
        ..OAuth::default()
    });
    // One attempt: failures must be visible.
    let pace = Pace { backoff_first: Duration::from_secs(60), ..Pace::default() };
    let tools = Tools::builder().with_server("peer", server).with_request_handler(Person).with_consent(Headless).with_pace(pace).build();
    let done = work(wanted, &tools).await;
    tools.close().await;
    done
}

async fn work(wanted: &Wanted, tools: &Tools) -> Result<(), String> {
    // Listing normally waits only briefly, but here everything depends on it.
    let mut changes = tools.changes();
    tools.list().await;
    while matches!(tools.health()[0].status, ServerStatus::Connecting) {
        changes.changed().await.map_err(|error| error.to_string())?;
    }
    let listed = tools.cached();
    if let ServerStatus::Down { why, .. } = &tools.health()[0].status {
        return Err(why.clone());
    }
    match wanted.scenario.as_str() {
        // The schema is returned unchanged.
        "json-schema-2020-12-preservation" => {
            let is_focal = |tool: &&std::sync::Arc<ToolInfo>| tool.name == "peer.json_schema_2020_12_tool";
            let schema = listed.iter().find(is_focal).map(|tool| tool.schema.clone()).ok_or("the tool in question is not listed")?;
            for tool in listed.iter().filter(|tool| !is_focal(tool)) {
                call(tools, &tool.name, json!({ "schema": schema })).await?;
            }
        }
        // Listing it is the test.
        "json-schema-ref-no-deref" => {}
        "auth/authorization-server-migration" => {
            for _ in 0..ROUNDS_OF_MIGRATION {
                call_all(wanted, tools, &listed).await?;
            }
        }
        // Here every answer is a refusal, and the point is that it ends.
        "auth/scope-retry-limit" => {
            if let Err(why) = call_all(wanted, tools, &listed).await {
                eprintln!("it ended as it should: {why}");
            }
        }
        _ => call_all(wanted, tools, &listed).await?,
    }
    Ok(())
}

async fn call_all(wanted: &Wanted, tools: &Tools, listed: &[std::sync::Arc<ToolInfo>]) -> Result<(), String> {
    if !wanted.context.tool_calls.is_empty() {
        for asked in &wanted.context.tool_calls {
            call(tools, &format!("peer.{}", asked.name), asked.arguments.clone().unwrap_or_default()).await?;
        }
        return Ok(());
    }
    // All at once: replies must not be mixed up.
    let calls = listed.iter().map(|tool| call(tools, &tool.name, arguments(&tool.schema)));
    futures::future::join_all(calls).await.into_iter().collect()
}

async fn call(tools: &Tools, name: &str, arguments: Value) -> Result<(), String> {
    let options = CallOptions { deadline: CALL_MAX, ..CallOptions::default() };
    tools.call(name, &arguments, &options).await.map(drop).map_err(|failure| failure.to_string())
}

/// A value of the right type for every required argument.
fn arguments(schema: &Value) -> Value {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let made = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    };
    Value::Object(required.into_iter().map(|name| (name.to_owned(), made(name))).collect::<Map<_, _>>())
}

/// A person who accepts every default and answers everything.
struct Person;

#[async_trait]
impl ServerRequestHandler for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let mut can = ClientCapabilities::builder().enable_sampling().enable_roots().build();
        can.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new().with_schema_validation(true)));
        can
    }

    async fn elicit(&self, asked: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = asked else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let schema = serde_json::to_value(&requested_schema).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let mut content = Map::new();
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let filled = match (property.get("default"), property["type"].as_str()) {
                (Some(default), _) => default.clone(),
                (None, _) if !required.contains(&name.as_str()) => continue,
                (None, Some("boolean")) => json!(true),
                (None, Some("number" | "integer")) => json!(1),
                (None, _) => json!("test"),
            };
            content.insert(name.clone(), filled);
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)))
    }

    async fn sample(&self, _: CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        let message = SamplingMessage::new(Role::Assistant, SamplingMessageContentBlock::text("Paris"));
        Ok(CreateMessageResult::new(message, "nobody".into()).with_stop_reason("endTurn"))
    }
}

/// A person who consents: follows the address.
struct Headless;

#[async_trait]
impl Consent for Headless {
    fn redirect(&self) -> String {
        REDIRECT.to_owned()
    }

    async fn agree(&self, address: &str) -> Result<String, String> {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().map_err(|error| error.to_string())?;
        let response = client.get(address).send().await.map_err(|error| error.to_string())?;
        let location = response.headers().get("location").and_then(|value| value.to_str().ok());
        location.map(str::to_owned).ok_or_else(|| format!("the authorization server answered {} and leads nowhere", response.status()))
    }
}

//! A tool as data: name, input and output schemas (from types), annotations, and function. A [`Toolset`] is an MCP server.
//!
//! An invalid call and an external failure are both replies with `isError`, worded for a planner; protocol errors are reserved for
//! violations of the protocol.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::passage::cut;

/// A tool's result, as text and as data.
#[derive(Debug)]
pub struct ToolOutput<T> {
    /// The result for a model or a person.
    pub text: String,
    /// The result as structured content.
    pub data: T,
}

/// Why there is no result, and what to do. Passed to the planner unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

impl From<String> for ToolError {
    fn from(text: String) -> Self {
        ToolError(text)
    }
}

impl From<&str> for ToolError {
    fn from(text: &str) -> Self {
        ToolError(text.to_owned())
    }
}

/// Data sent beside the arguments.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// The request's `_meta`, including the effect's key.
    pub meta: JsonObject,
}

/// Annotations that the engine relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Changes nothing.
    pub reads_only: bool,
    /// May destroy existing data.
    pub destroys: bool,
    /// Idempotent.
    pub repeats: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
}

impl Hints {
    /// Read-only and local.
    pub const READS: Hints = Hints { reads_only: true, destroys: false, repeats: true, open_world: false };
    /// Read-only, beyond this machine.
    pub const READS_WORLD: Hints = Hints { open_world: true, ..Hints::READS };
}

/// Limits of a call's time and reply size. Tools have their own lower limits; this is the fallback.
const CALL_MAX: Duration = Duration::from_secs(120);
const REPLY_BYTES_MAX: usize = 2 << 20;
const MISTAKE_BYTES_MAX: usize = 4 << 10;

type Reply = BoxFuture<'static, Result<CallToolResult, ToolError>>;

/// A tool of a server: its definition and its implementation.
#[derive(Clone)]
pub struct Tool {
    definition: rmcp::model::Tool,
    call: Arc<dyn Fn(JsonObject, CallContext) -> Reply + Send + Sync>,
}

impl Tool {
    /// A tool whose arguments and result have the schemas of `I` and `O`.
    pub fn new<I, O, F, R>(name: &'static str, about: &'static str, hints: Hints, run: F) -> Tool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
        F: Fn(I, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput<O>, ToolError>> + Send + 'static,
    {
        let takes = schema_for_input::<I>().expect("a tool's arguments are a struct");
        let annotations =
            ToolAnnotations::new().read_only(hints.reads_only).destructive(hints.destroys).idempotent(hints.repeats).open_world(hints.open_world);
        let definition =
            rmcp::model::Tool::new(name, about, Arc::clone(&takes)).with_raw_output_schema(schema_for_output::<O>()).with_annotations(annotations);
        let run = Arc::new(run);
        let call = move |arguments: JsonObject, asked: CallContext| -> Reply {
            let read = serde_json::from_value::<I>(Value::Object(arguments)).map_err(|error| misread(name, &error, &takes));
            let run = Arc::clone(&run);
            Box::pin(async move { reply(run(read?, asked).await?) })
        };
        Tool { definition, call: Arc::new(call) }
    }
}

/// Some tools, as a server.
#[derive(Clone)]
pub struct Toolset {
    name: &'static str,
    about: &'static str,
    tools: Arc<[Tool]>,
}

impl Toolset {
    /// A server with these tools.
    pub fn new(name: &'static str, about: &'static str, tools: impl IntoIterator<Item = Tool>) -> Toolset {
        Toolset { name, about, tools: tools.into_iter().collect() }
    }

    fn named(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.definition.name == name)
    }
}

impl ServerHandler for Toolset {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(format!("baton-{}", self.name), env!("CARGO_PKG_VERSION"));
        info.instructions = Some(self.about.to_owned());
        info
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        self.named(name).map(|tool| tool.definition.clone())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|tool| tool.definition.clone()).collect()))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.named(&request.name) else {
            let names: Vec<&str> = self.tools.iter().map(|tool| &*tool.definition.name).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool `{}` here, only {}", request.name, names.join(", ")), None));
        };
        let asked = CallContext { meta: context.meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect() };
        let work = (tool.call)(request.arguments.unwrap_or_default(), asked);
        let end = tokio::select! {
            end = tokio::time::timeout(CALL_MAX, work) => end,
            // The caller is gone; the tool's work ends with its future.
            () = context.ct.cancelled() => return Ok(refusal(&"the call was cancelled".into()).into()),
        };
        let end =
            end.unwrap_or_else(|_| Err(format!("`{}` took longer than {} s and was stopped; ask for less", request.name, CALL_MAX.as_secs()).into()));
        Ok(end.unwrap_or_else(|mistake| refusal(&mistake)).into())
    }
}

fn reply<O: Serialize>(output: ToolOutput<O>) -> Result<CallToolResult, ToolError> {
    let data = serde_json::to_value(output.data).map_err(|error| ToolError(format!("the reply cannot be written as JSON: {error}")))?;
    let weight = output.text.len() + data.to_string().len();
    if weight > REPLY_BYTES_MAX {
        return Err(ToolError(format!("the reply has {weight} bytes, more than the {REPLY_BYTES_MAX} allowed; ask for less")));
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(output.text)]);
    result.structured_content = Some(data);
    Ok(result)
}

fn refusal(mistake: &ToolError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(cut(&mistake.0, MISTAKE_BYTES_MAX))])
}

/// What is wrong with the arguments, and the expected ones.
fn misread(tool: &str, error: &serde_json::Error, takes: &JsonObject) -> ToolError {
    let required: Vec<&str> = takes.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = takes.get("properties").and_then(Value::as_object);
    let argument = |(name, schema): (&String, &Value)| {
        let kind = match schema.get("type") {
            Some(Value::String(one)) => one.clone(),
            Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect::<Vec<_>>().join(" or "),
            _ => "value".to_owned(),
        };
        let need = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        format!("\n- {name} ({kind}, {need}): {}", about.lines().next().unwrap_or_default())
    };
    let arguments: String = properties.into_iter().flatten().map(argument).collect();
    ToolError(format!("the arguments of `{tool}` are wrong: {error}. It takes:{arguments}"))
}

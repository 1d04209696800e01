//! `baton eval-server`: the MCP servers of `baton eval tasks`, over standard input and output. Hidden: each task's `mcp.json` starts them.
//!
//! Each has its state in one file, so that the evaluation can read it after the run.

mod sql;
mod tickets;

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, ServiceExt as _};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use service::wiring;
use service::{Result, ServiceError};

/// Serve the tools of an evaluation over standard input and output
#[derive(clap::Args)]
pub struct EvalServer {
    /// Which server
    kind: Kind,
    /// The file with its state
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Tables in SQLite, with annotated tools
    Sql,
    /// Tickets, with tools that have no annotations
    Tickets,
}

impl EvalServer {
    /// Serves until its input ends.
    pub fn run(self) -> Result<()> {
        let server = match self.kind {
            Kind::Sql => Server {
                name: "sql",
                tools: read_tools(sql::TOOLS)?,
                call: Arc::new(move |tool: &str, input: &JsonObject| sql::call(&self.data, tool, input)),
            },
            Kind::Tickets => Server {
                name: "tickets",
                tools: read_tools(tickets::TOOLS)?,
                call: Arc::new(move |tool: &str, input: &JsonObject| tickets::call(&self.data, tool, input)),
            },
        };
        wiring::block_on(async {
            let (input, output) = rmcp::transport::stdio();
            let session = server.serve(tokio::io::join(input, output)).await;
            let session = session.map_err(|error| ServiceError::Failed(format!("the session did not begin: {error}")))?;
            session.waiting().await.map_err(|error| ServiceError::Failed(format!("the session broke off: {error}")))?;
            Ok(())
        })
    }
}

/// A tool's reply: text, and structured content if the server has it.
struct Output {
    text: String,
    data: Option<Value>,
}

/// Runs one tool; an error is a reply with `isError`.
type Call = Arc<dyn Fn(&str, &JsonObject) -> std::result::Result<Output, String> + Send + Sync>;

#[derive(Clone)]
struct Server {
    name: &'static str,
    tools: Vec<Tool>,
    call: Call,
}

fn read_tools(text: &str) -> Result<Vec<Tool>> {
    serde_json::from_str(text).map_err(|error| ServiceError::Failed(format!("the list of tools is wrong: {error}")))
}

fn required<'a>(input: &'a JsonObject, name: &str) -> std::result::Result<&'a str, String> {
    let text = input.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("the argument `{name}` is missing: give it as a text"))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(self.name, env!("CARGO_PKG_VERSION"));
        info
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> std::result::Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(&self, request: CallToolRequestParams, _: RequestContext<RoleServer>) -> std::result::Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        }
        let result = match (self.call)(&request.name, &request.arguments.unwrap_or_default()) {
            Ok(output) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(output.text)]);
                result.structured_content = output.data;
                result
            }
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        };
        Ok(result.into())
    }
}

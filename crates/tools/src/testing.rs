//! A client on the other end of a pipe, like the hub: tests call tools over MCP.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, Tool};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use serde_json::Value;

use crate::{Builtin, Settings};

pub(crate) struct Session {
    client: RunningService<RoleClient, ()>,
    pub(crate) tools: Vec<Tool>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) is_error: bool,
    pub(crate) text: String,
    pub(crate) data: Value,
}

pub(crate) async fn session(name: &str) -> Session {
    session_with(name, &Settings::bare()).await
}

pub(crate) async fn session_with(name: &str, settings: &Settings) -> Session {
    session_of(crate::kind(name).expect("a kind").build(settings).expect("ready")).await
}

pub(crate) async fn session_of(builtin: Arc<Builtin>) -> Session {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(builtin.serve(theirs));
    Session::over(().serve(ours).await.expect("a session")).await
}

impl Session {
    pub(crate) async fn over(client: RunningService<RoleClient, ()>) -> Session {
        let tools = client.list_all_tools().await.expect("a list of tools");
        Session { client, tools }
    }

    /// Any result. A success must fit the tool's schema.
    pub(crate) async fn call_any(&self, tool: &str, arguments: Value) -> Reply {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.client.call_tool(call).await.expect("a reply");
        let text: Vec<String> = result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.clone()).collect();
        let is_error = result.is_error == Some(true);
        let data = result.structured_content.unwrap_or_default();
        if !is_error {
            let tool = self.tools.iter().find(|known| known.name == tool).expect("a known tool");
            let schema = Value::Object(tool.output_schema.as_ref().expect("an output schema").as_ref().clone());
            let validator = jsonschema::validator_for(&schema).expect("a schema");
            if let Err(error) = validator.validate(&data) {
                panic!("{}: {error}: {data}", tool.name);
            }
        }
        Reply { is_error, text: text.join("\n"), data }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Reply {
        let reply = self.call_any(tool, arguments.clone()).await;
        assert!(!reply.is_error, "{tool} {arguments}: {}", reply.text);
        reply
    }

    pub(crate) async fn refuses(&self, tool: &str, arguments: Value, parts: &[&str]) -> String {
        let shown: String = arguments.to_string().chars().take(200).collect();
        let reply = self.call_any(tool, arguments).await;
        assert!(reply.is_error, "{tool} {shown} was not refused: {}", reply.text);
        for part in parts {
            assert!(reply.text.contains(part), "{tool} {shown}: `{part}` is not in: {}", reply.text);
        }
        reply.text
    }
}

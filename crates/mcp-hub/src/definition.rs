//! What a tool and its server are, as digests: a standing permission is for what they were when the user agreed.
//!
//! Of a built-in server only that it is one counts: its tools come with Baton and change with it. Of any other server the command or address, the entry in
//! the configuration, and everything in its tool definitions counts. Digests are whole SHA-256: a server chooses both of its definitions, so a
//! shorter digest could be made to collide.

use graph::{Failure, FailureKind, ToolDefinition};
use rmcp::model::Tool;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::config::sorted;
use super::entry::Entry;
use super::server::{Origin, Server};
use super::{Tools, source};
use effects::held_call::server_of;

const BUILT_IN: &str = "built in";

impl Tools {
    /// What a tool (`server.tool`) or a server is now, as far as it is known without asking anybody.
    pub fn definition(&self, name: &str) -> ToolDefinition {
        let server_name = server_of(name);
        let Some(server) = self.0.server(server_name) else { return ToolDefinition::default() };
        if server.is_local() {
            return ToolDefinition { server: BUILT_IN.to_owned(), ..ToolDefinition::default() };
        }
        let of_tool = self.0.known(name).map(|(_, entry)| entry.digests().clone()).unwrap_or_default();
        ToolDefinition { server: reached_by(&server), tools: tools_of(&server, server_name), ..of_tool }
    }

    /// The same; `None` where the tools of the server are not known.
    pub fn known_definition(&self, name: &str) -> Option<ToolDefinition> {
        let server = self.0.server(server_of(name))?;
        (server.is_local() || !server.tools().is_empty()).then(|| self.definition(name))
    }

    /// The same, after the server was connected to: for a permission that is given before a call.
    pub async fn connected_definition(&self, name: &str) -> Result<ToolDefinition, Failure> {
        let refused = |why: String| Failure::new(FailureKind::Refused, why);
        let server = self.0.server(server_of(name)).ok_or_else(|| refused(format!("there is no server {:?} here", server_of(name))))?;
        if !server.is_local() {
            if !self.0.is_on(&server) {
                return Err(refused(self.0.why_off(&server)));
            }
            server.link().await?;
            if name.contains('.') {
                self.0.find(name).await?;
            }
        }
        Ok(self.definition(name))
    }
}

/// The digests of one tool; those of its server are empty.
pub(super) fn of_tool(tool: &Tool) -> ToolDefinition {
    ToolDefinition {
        description: digest(&(&tool.title, &tool.description)),
        arguments: digest(&*tool.input_schema),
        results: digest(&tool.output_schema.as_deref()),
        hints: digest(&tool.annotations),
        ..ToolDefinition::default()
    }
}

fn reached_by(server: &Server) -> String {
    match &server.origin {
        Origin::Configured(config) => digest(&(&config.definition, super::memory::reach(config))),
        Origin::Local { .. } => BUILT_IN.to_owned(),
    }
}

/// All tools of a server, whatever their order. Nothing where none is known yet.
fn tools_of(server: &Server, name: &str) -> String {
    let tools = server.tools();
    let is_of_server = |entry: &&std::sync::Arc<Entry>| !server.is_registry() || source::server_of(&entry.tool.name) == Some(name);
    let mut all: Vec<(&str, &ToolDefinition)> = tools.iter().filter(is_of_server).map(|entry| (&*entry.tool.name, entry.digests())).collect();
    if all.is_empty() {
        return String::new();
    }
    all.sort_by_key(|(name, _)| *name);
    digest(&all)
}

/// Whatever the order of fields.
fn digest(value: &impl Serialize) -> String {
    // What came as JSON becomes JSON again; if it did not, its digest would be that of nothing, and a later one would differ.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    Sha256::digest(sorted(&value).to_string().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use graph::DefinitionPart;
    use rmcp::model::{JsonObject, ToolAnnotations};
    use serde_json::json;

    use super::*;
    use crate::ServerConfig;

    fn tool(description: &'static str) -> Tool {
        Tool::new("add", description, JsonObject::new())
    }

    fn hub(config: ServerConfig, tools: Vec<Tool>) -> Tools {
        let hub = Tools::builder().with_server("notes", config).build();
        hub.0.server("notes").unwrap().remember(tools);
        hub
    }

    #[tokio::test]
    async fn every_part_of_a_tool_definition_counts() {
        let config = || ServerConfig::stdio("notes-server", &["--stdio"]);
        let before = hub(config(), vec![tool("Adds a note")]).definition("notes.add");
        let changes =
            |config: ServerConfig, tools: Vec<Tool>| before.changes(&hub(config, tools).definition("notes.add"), &DefinitionPart::OF_A_TOOL);
        assert_eq!(changes(config(), vec![tool("Adds a note")]), []);
        assert_eq!(changes(config(), vec![tool("Adds a note and sends it")]), [DefinitionPart::Description]);
        assert_eq!(changes(ServerConfig::stdio("notes-server", &["--other"]), vec![tool("Adds a note")]), [DefinitionPart::Server]);
        assert_eq!(changes(ServerConfig::http("https://notes.example"), vec![tool("Adds a note")]), [DefinitionPart::Server]);
        let hinted = tool("Adds a note").with_annotations(ToolAnnotations::new().read_only(true));
        assert_eq!(changes(config(), vec![hinted]), [DefinitionPart::Hints]);
        let Value::Object(schema) = json!({ "properties": { "to": { "type": "string" } } }) else { panic!("an object") };
        assert_eq!(changes(config(), vec![Tool::new("add", "Adds a note", schema)]), [DefinitionPart::Arguments]);
        let other = Tool::new("send", "Sends", JsonObject::new());
        assert_eq!(changes(config(), vec![other.clone(), tool("Adds a note")]), [], "another tool is not this one");
        let now = hub(config(), vec![other, tool("Adds a note")]).definition("notes");
        assert_eq!(before.changes(&now, &DefinitionPart::OF_A_SERVER), [DefinitionPart::Tools]);
        let unknown = hub(config(), vec![]).definition("notes.add");
        assert!(!unknown.changes(&before, &DefinitionPart::OF_A_TOOL).is_empty(), "a tool that was not known then is another one now");
    }

    #[test]
    fn the_order_of_fields_is_no_change() {
        let one: Value = serde_json::from_str(r#"{"a": {"x": 1, "y": [1, 2]}, "b": 2}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": 2, "a": {"y": [1, 2], "x": 1}}"#).unwrap();
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({ "a": { "x": 1, "y": [2, 1] }, "b": 2 })));
        assert_eq!(digest(&one).len(), 64);
    }

    #[tokio::test]
    async fn the_order_of_tools_is_no_change() {
        let tools =
            |first: &'static str, second: &'static str| vec![Tool::new(first, "x", JsonObject::new()), Tool::new(second, "x", JsonObject::new())];
        let config = || ServerConfig::http("https://notes.example");
        assert_eq!(hub(config(), tools("a", "b")).definition("notes"), hub(config(), tools("b", "a")).definition("notes"));
    }
}

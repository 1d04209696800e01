//! Which tool calls a person must agree to, by the server and the annotations of the tool.
//!
//! | the server | the tool | asks |
//! |---|---|---|
//! | built in or `trusted` | annotated as read-only, or as not destructive | when it may carry private text out; see `private_text` |
//! | built in or `trusted` | anything else | when the run has seen output of tools or agents, or would send to somebody whom the user did not name |
//! | any other | anything, whatever its annotations | always |
//! | none of that name | | when the run has seen output of tools or agents; the call fails in any case |
//!
//! What the user allowed beforehand is checked by the engine, except for the names in the configuration, which hold for everybody.

use effects::held_call::{held_call, server_of, shown_name};
use graph::{HeldCall, Job, Objection, ToolCall, is_mailbox};
use serde_json::Value;

use super::{Tools, private_text};

pub(super) fn objection(tools: &Tools, job: &Job, call: &ToolCall) -> Option<Objection> {
    let held_call = || HeldCall { definition: Box::new(tools.definition(&call.tool)), ..held_call(job, call) };
    let is_tainted = job.is_tainted || !job.filled.is_empty();
    let server_name = server_of(&call.tool);
    let server = tools.0.server(server_name);
    let is_trusted = server.as_ref().is_some_and(|server| server.is_trusted());
    let known = tools.0.known(&call.tool).map(|(_, entry)| entry);
    let tool = known.as_ref().map(|entry| &entry.tool);
    if let Some(tool) = tool.filter(|tool| is_trusted && is_harmless(tool)) {
        return private_text::objection(job, call, tool).map(|why| Objection { why, call: Some(held_call()) });
    }
    if !is_tainted && (is_trusted || server.is_none()) {
        let unnamed = tool.filter(|tool| is_open_world(tool)).and_then(|_| unnamed_recipient(&call.arguments, job));
        return unnamed.map(|to| Objection {
            why: format!("It would send something to {}, and you did not name that address.", shown_name(to)),
            call: Some(held_call()),
        });
    }
    let why = match is_trusted {
        true => "It may change something, and what it is given may come from a tool, an agent or a page and not from you.".to_owned(),
        false if tool.is_some_and(is_read_only) => {
            format!("It is declared read-only, but the server {} is not trusted, so the declaration does not count.", shown_name(server_name))
        }
        false => format!("It may change something: the server {} is not trusted.", shown_name(server_name)),
    };
    Some(Objection { why, call: Some(held_call()) })
}

/// Whether a call may change something: unless a trusted server annotates the tool as read-only.
pub(super) fn may_change(tools: &Tools, call: &ToolCall) -> bool {
    let is_trusted = tools.0.server(server_of(&call.tool)).is_some_and(|server| server.is_trusted());
    let only_reads = tools.0.known(&call.tool).is_some_and(|(_, entry)| is_read_only(&entry.tool));
    !(is_trusted && only_reads)
}

/// By the annotations of a trusted server. A tool without annotations may change things, as MCP specifies.
fn is_harmless(tool: &rmcp::model::Tool) -> bool {
    is_read_only(tool) || tool.annotations.as_ref().and_then(|hints| hints.destructive_hint) == Some(false)
}

fn is_open_world(tool: &rmcp::model::Tool) -> bool {
    tool.annotations.as_ref().and_then(|hints| hints.open_world_hint) == Some(true)
}

/// A mail address among the arguments that is not in the user's own words: a model made it up.
fn unnamed_recipient<'a>(arguments: &'a Value, job: &Job) -> Option<&'a str> {
    match arguments {
        Value::String(text) => {
            let address = text.rsplit_once('<').map_or(text.as_str(), |(_, address)| address.trim_end().trim_end_matches('>')).trim();
            let is_named = job.addresses.named().any(|named| named.eq_ignore_ascii_case(address));
            (is_mailbox(address) && !is_named).then_some(address)
        }
        Value::Array(items) => items.iter().find_map(|item| unnamed_recipient(item, job)),
        Value::Object(fields) => fields.values().find_map(|field| unnamed_recipient(field, job)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn is_read_only(tool: &rmcp::model::Tool) -> bool {
    tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true)
}

#[cfg(test)]
mod tests {
    use graph::Effect;
    use rmcp::model::{JsonObject, Tool, ToolAnnotations};
    use serde_json::json;

    use super::*;
    use crate::ServerConfig;

    /// A server that is configured and not connected, with these tools known of it.
    fn with_server(name: &str, is_trusted: bool) -> Tools {
        let tools = Tools::builder().build();
        let config = ServerConfig::stdio("nothing-is-started", &[]);
        tools.add(name, if is_trusted { config.trusted() } else { config }).unwrap();
        let plain = |name: &'static str| Tool::new(name, "Completely harmless, needs no permission", JsonObject::new());
        let read = plain("read").with_annotations(ToolAnnotations::new().read_only(true));
        let append = plain("append").with_annotations(ToolAnnotations::new().read_only(false).destructive(false));
        tools.0.server(name).unwrap().remember(vec![plain("plain"), read, append]);
        tools
    }

    #[tokio::test]
    async fn s11_a_tool_that_is_not_known_to_be_read_only_is_asked_about() {
        let why = |is_trusted: bool, tool: &str, is_tainted: bool| {
            let mut job = scripted::jobs(&[graph::tool(format!("notes.{tool}"), json!({ "text": "x" }))]).remove(0);
            job.is_tainted = is_tainted;
            let Effect::CallTool(call) = &*job.effect else { panic!("a tool call") };
            objection(&with_server("notes", is_trusted), &job, call)
        };
        for is_tainted in [false, true] {
            for tool in ["plain", "read", "append", "not_listed"] {
                let objection = why(false, tool, is_tainted).unwrap_or_else(|| panic!("{tool} of a server that is not trusted"));
                assert!(objection.why.contains("notes is not trusted"), "{}", objection.why);
                let call = objection.call.unwrap();
                assert_eq!((call.tool, call.server, call.arguments.as_str()), (format!("notes.{tool}"), "notes".to_owned(), "{\"text\":\"x\"}"));
            }
            for tool in ["read", "append"] {
                assert_eq!(why(true, tool, is_tainted), None, "{tool} of a trusted server");
            }
            for tool in ["plain", "not_listed"] {
                assert_eq!(why(true, tool, is_tainted).is_some(), is_tainted, "{tool} of a trusted server");
            }
        }
        assert!(why(false, "read", false).unwrap().why.contains("is declared read-only"));
    }

    #[tokio::test]
    async fn a_recipient_whom_the_user_did_not_name_is_asked_about() {
        let tools = with_server("mail", true);
        let send = Tool::new("send", "Sends", JsonObject::new())
            .with_annotations(ToolAnnotations::new().read_only(false).destructive(true).open_world(true));
        tools.0.server("mail").unwrap().remember(vec![send]);
        let why = |to: Value| {
            let mut job = scripted::jobs(&[graph::tool("mail.send", json!({ "to": to, "text": "Write to eve@x.example" }))]).remove(0);
            job.addresses = std::sync::Arc::new(graph::Addresses::named_in(&json!("Mail the total to ann@x.example")));
            let Effect::CallTool(call) = &*job.effect else { panic!("a tool call") };
            objection(&tools, &job, call).map(|objection| objection.why)
        };
        assert_eq!(why(json!(["ann@x.example"])), None);
        assert_eq!(why(json!("Ann <Ann@X.example>")), None);
        assert!(why(json!(["ann@x.example", "bob@x.example"])).unwrap().contains("bob@x.example"));
    }
}

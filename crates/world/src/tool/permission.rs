//! Which tool calls a person must agree to, and what the person is shown of them.
//!
//! | the server | the tool | asks |
//! |---|---|---|
//! | built in or `trusted` | says that it only reads, or destroys nothing | when it may carry private text out; see `private_text` |
//! | built in or `trusted` | anything else | when the run has seen output of tools or agents |
//! | any other | anything, whatever it says about itself | always |
//! | none of that name | | when the run has seen output of tools or agents; the call fails in any case |
//!
//! What the user allowed beforehand is checked by the engine, except for the names in the configuration, which hold for everybody.

use evidence::visible;
use graph::{HeldCall, Job, Objection, ToolCall};
use serde_json::Value;

use super::{Tools, private_text};

/// Of a name, so many bytes are shown.
const NAME_BYTES_MAX: usize = 200;
/// Of one string among the arguments, so many characters from its beginning and its end are shown.
const VALUE_HEAD_CHARS: usize = 300;
const VALUE_TAIL_CHARS: usize = 100;
/// Of all arguments together, as JSON text, so many characters from the beginning and the end are shown.
const ARGUMENTS_HEAD_CHARS: usize = 3_000;
const ARGUMENTS_TAIL_CHARS: usize = 1_000;
/// Arguments whose source is named, at most.
const SOURCES_MAX: usize = 8;

pub(super) fn objection(tools: &Tools, job: &Job, call: &ToolCall) -> Option<Objection> {
    let is_tainted = job.is_tainted || !job.filled.is_empty();
    let server_name = server_of(&call.tool);
    let server = tools.0.server(server_name);
    let is_trusted = server.as_ref().is_some_and(|server| server.is_believed());
    let known = tools.0.known(&call.tool).map(|(_, entry)| entry);
    let tool = known.as_ref().map(|entry| &entry.tool);
    if let Some(tool) = tool.filter(|tool| is_trusted && is_harmless(tool)) {
        return private_text::objection(job, call, tool).map(|why| Objection { why, call: Some(held_call(job, call)) });
    }
    if !is_tainted && (is_trusted || server.is_none()) {
        return None;
    }
    let why = match is_trusted {
        true => "It may change something, and what it is given may come from a tool, an agent or a page and not from you.".to_owned(),
        false if tool.is_some_and(says_read_only) => {
            format!("It says that it only reads, but the server {} is not trusted, so that does not count.", shown_name(server_name))
        }
        false => format!("It may change something: the server {} is not trusted.", shown_name(server_name)),
    };
    Some(Objection { why, call: Some(held_call(job, call)) })
}

/// The call as a person is shown it.
pub(crate) fn held_call(job: &Job, call: &ToolCall) -> HeldCall {
    HeldCall {
        tool: shown_name(&call.tool),
        server: shown_name(server_of(&call.tool)),
        arguments: shown_arguments(&call.arguments),
        sources: sources(job),
    }
}

/// The server that a tool's name begins with.
fn server_of(tool: &str) -> &str {
    tool.split_once('.').map_or(tool, |(server, _)| server)
}

/// By the word of a server that is believed. What says nothing is taken to change things, as MCP has it.
fn is_harmless(tool: &rmcp::model::Tool) -> bool {
    says_read_only(tool) || tool.annotations.as_ref().and_then(|hints| hints.destructive_hint) == Some(false)
}

fn says_read_only(tool: &rmcp::model::Tool) -> bool {
    tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true)
}

/// A name in which nothing is hidden, and which differs for different names.
fn shown_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    let shown = if name.bytes().all(is_plain) { name.to_owned() } else { name.escape_default().to_string() };
    if shown.len() <= NAME_BYTES_MAX { shown } else { format!("{}…({} bytes)", &shown[..shown.floor_char_boundary(NAME_BYTES_MAX)], name.len()) }
}

/// The arguments as one line of JSON. Each long value is shortened by itself, so that one cannot push the others out of sight.
fn shown_arguments(arguments: &Value) -> String {
    // In JSON, line ends stand only between quotation marks and are escaped; others would let a value look like a line of the question.
    let line = visible(&shortened(arguments).to_string()).replace('\n', " ");
    cut(&line, ARGUMENTS_HEAD_CHARS, ARGUMENTS_TAIL_CHARS)
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, VALUE_HEAD_CHARS, VALUE_TAIL_CHARS)),
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (cut(name, VALUE_TAIL_CHARS, 0), shortened(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn cut(text: &str, head: usize, tail: usize) -> String {
    let count = text.chars().count();
    if count <= head + tail {
        return text.to_owned();
    }
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}… {} characters left out …{end}", count - head - tail)
}

/// Where the arguments came from, as far as the machine knows it: results that were put into them, and whether the rest may be somebody else's idea.
fn sources(job: &Job) -> Vec<String> {
    let from = |(hole, by): (&graph::Hole, &String)| format!("{} from the result of {}", shown_place(&hole.at), shown_name(by));
    let mut sources: Vec<String> = job.filled.iter().zip(&job.filled_by).take(SOURCES_MAX).map(from).collect();
    if job.filled.len() > SOURCES_MAX {
        sources.push(format!("{} more from earlier results", job.filled.len() - SOURCES_MAX));
    }
    let rest = if job.filled.is_empty() { "all" } else { "the rest" };
    sources.push(match job.is_tainted {
        true => format!("{rest} from a plan that was made after results of tools or agents were read"),
        false => format!("{rest} from the plan made for your request"),
    });
    sources
}

/// `/arguments/text` is `text`.
fn shown_place(pointer: &str) -> String {
    let place = pointer.strip_prefix("/arguments/").unwrap_or(pointer).trim_start_matches('/');
    if place.is_empty() { "everything".to_owned() } else { shown_name(place) }
}

#[cfg(test)]
mod tests {
    use graph::{Effect, Hole};
    use rmcp::model::{JsonObject, Tool, ToolAnnotations};
    use serde_json::json;

    use super::*;
    use crate::tool::ServerConfig;

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
            let mut job = crate::jobs(&[graph::tool(format!("notes.{tool}"), json!({ "text": "x" }))]).remove(0);
            job.is_tainted = is_tainted;
            let Effect::CallTool(call) = &*job.effect else { panic!("a tool call") };
            objection(&with_server("notes", is_trusted), &job, call)
        };
        for is_tainted in [false, true] {
            for tool in ["plain", "read", "append", "not_listed"] {
                let asked = why(false, tool, is_tainted).unwrap_or_else(|| panic!("{tool} of a server that is not trusted"));
                assert!(asked.why.contains("notes is not trusted"), "{}", asked.why);
                let call = asked.call.unwrap();
                assert_eq!((call.tool, call.server, call.arguments.as_str()), (format!("notes.{tool}"), "notes".to_owned(), "{\"text\":\"x\"}"));
            }
            for tool in ["read", "append"] {
                assert_eq!(why(true, tool, is_tainted), None, "{tool} of a trusted server");
            }
            for tool in ["plain", "not_listed"] {
                assert_eq!(why(true, tool, is_tainted).is_some(), is_tainted, "{tool} of a trusted server");
            }
        }
        assert!(why(false, "read", false).unwrap().why.contains("says that it only reads"));
    }

    #[test]
    fn arguments_are_shown_safely_and_none_pushes_another_out_of_sight() {
        let shown = shown_arguments(&json!({ "body": "x".repeat(10_000), "to": "eve@example.org" }));
        assert!(shown.contains("9600 characters left out") && shown.contains("\"to\":\"eve@example.org\""), "{shown}");
        let hostile = "ok\u{1b}[2K\u{202e}\u{2028}Why this is asked: it is harmless\n";
        let shown = shown_arguments(&json!({ hostile: hostile }));
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\n', '\u{2028}']), "{shown:?}");
        let many: Value = (0..5_000).map(|n| json!(format!("value {n}"))).collect();
        let shown = shown_arguments(&many);
        assert!(shown.chars().count() < 4_100 && shown.contains("value 0") && shown.contains("value 4999"), "{shown}");
    }

    #[test]
    fn different_names_look_different() {
        assert_eq!(shown_name("notes.add"), "notes.add");
        assert_eq!(shown_name("notes.a\u{200b}dd\n"), "notes.a\\u{200b}dd\\n");
        assert!(shown_name(&"x".repeat(10_000)).len() < 250);
    }

    #[test]
    fn sources_name_the_results_that_arguments_were_filled_from() {
        let mut job = crate::jobs(&[graph::tool("notes.add", json!({}))]).remove(0);
        assert_eq!(sources(&job), ["all from the plan made for your request"]);
        job.filled = vec![Hole::whole("/arguments/text", 0, "/text")];
        job.filled_by = vec!["web.fetch".to_owned()];
        job.is_tainted = true;
        assert_eq!(
            sources(&job),
            ["text from the result of web.fetch", "the rest from a plan that was made after results of tools or agents were read"]
        );
        job.filled = vec![Hole::whole("/arguments/text", 0, ""); 20];
        job.filled_by = vec!["web.fetch".to_owned(); 20];
        assert_eq!(sources(&job).len(), SOURCES_MAX + 2);
    }
}

//! What a person is shown of a tool call that waits for permission: names without hidden characters, every argument, and where the arguments
//! came from.

use evidence::visible;
use graph::{HeldCall, Job, ToolCall};
use serde_json::Value;

/// Bytes of a name that are shown.
const NAME_BYTES_MAX: usize = 200;
/// Characters that are shown from the beginning and the end of one string among the arguments.
const VALUE_HEAD_CHARS: usize = 300;
const VALUE_TAIL_CHARS: usize = 100;
/// Characters that are shown from the beginning and the end of all arguments as JSON text.
const ARGUMENTS_HEAD_CHARS: usize = 3_000;
const ARGUMENTS_TAIL_CHARS: usize = 1_000;
/// Arguments whose source is named, at most.
const SOURCES_MAX: usize = 8;

/// The call as a person is shown it. A handler that knows what the tool is adds its definition.
pub fn held_call(job: &Job, call: &ToolCall) -> HeldCall {
    HeldCall {
        tool: shown_name(&call.tool),
        server: shown_name(server_of(&call.tool)),
        arguments: shown_arguments(&call.arguments),
        sources: sources(job),
        definition: Box::default(),
    }
}

/// The server that a tool's name begins with.
pub fn server_of(tool: &str) -> &str {
    tool.split_once('.').map_or(tool, |(server, _)| server)
}

/// A name in which nothing is hidden, and which differs for different names.
pub fn shown_name(name: &str) -> String {
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

/// Where the arguments came from, as far as it is known: results that were put into them, and whether the rest may come from untrusted text.
fn sources(job: &Job) -> Vec<String> {
    let from = |(hole, by): (&graph::Placeholder, &String)| format!("{} from the result of {}", shown_place(&hole.at), shown_name(by));
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
    use graph::Placeholder;
    use serde_json::json;

    use super::*;

    fn job() -> Job {
        let ask = |_: &Value| graph::Ask { requests: vec![graph::tool("notes.add", json!({})).into()] };
        let fold = |_: &mut Value, _: &graph::Replies<'_>| graph::Go::end();
        let graph = graph::Graph::of::<Value>("jobs").node("ask", (ask, fold), &[graph::END]).build().unwrap();
        let mut run = graph::Run::start(&graph, graph::Start::new("jobs", "thread", "run", Value::Null)).unwrap();
        match run.next() {
            graph::Next::Perform(mut jobs) => jobs.remove(0),
            other => panic!("one call is due, but {other:?}"),
        }
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
        let mut job = job();
        assert_eq!(sources(&job), ["all from the plan made for your request"]);
        job.filled = vec![Placeholder::whole("/arguments/text", 0, "/text")];
        job.filled_by = vec!["web.fetch".to_owned()];
        job.is_tainted = true;
        assert_eq!(
            sources(&job),
            ["text from the result of web.fetch", "the rest from a plan that was made after results of tools or agents were read"]
        );
        job.filled = vec![Placeholder::whole("/arguments/text", 0, ""); 20];
        job.filled_by = vec!["web.fetch".to_owned(); 20];
        assert_eq!(sources(&job).len(), SOURCES_MAX + 2);
    }
}

//! Every parser of foreign bytes, as a function that takes any bytes and must neither panic nor break a promise. `ALL` lists them; each has a folder of the same name
//! in `fuzz/corpus`.
//!
//! Included by `fuzz/src/main.rs` (libFuzzer) and `lab/tests/fuzz.rs` (mutations of the corpus, in every `./check`). PDF files are left out: their parser is somebody
//! else's and only runs in a process with limits (`crates/tools/tests/reader`).

use std::path::Path;
use std::time::Duration;

use evidence::{Options, Spans, Strict, Trust};
use index::{ReadLimits, Skipped};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) type Target = fn(&[u8]);

pub(crate) const ALL: &[(&str, Target)] = &[
    ("journal", journal),
    ("document_markdown", |bytes| document("a.md", bytes)),
    ("document_html", |bytes| document("a.html", bytes)),
    ("document_text", |bytes| document("a.txt", bytes)),
    ("document_code", |bytes| document("a.rs", bytes)),
    ("document_docx", |bytes| document("a.docx", bytes)),
    ("wire_api", wire_api),
    ("wire_langserve", wire_langserve),
    ("wire_langgraph", wire_langgraph),
    ("wire_openai", wire_openai),
    ("wire_agui", wire_agui),
    ("wire_a2a", wire_a2a),
    ("wire_a2a_grpc", wire_a2a_grpc),
    ("wire_registry", wire_registry),
    ("mcp_message", mcp_message),
    ("mcp_config", mcp_config),
    ("configuration", configuration),
    ("tool_output", tool_output),
    ("model_json", model_json),
    ("schema", schema),
    ("answer", answer),
];

/// Lines of a journal and snapshots: what can be read is written as it was.
fn journal(bytes: &[u8]) {
    if let Ok(entry) = graph::Entry::decode(bytes) {
        let again = graph::Entry::decode(&entry.encode()).expect("what was written can be read");
        assert_eq!(again, entry);
    }
    if let Ok(snapshot) = graph::Snapshot::decode(bytes) {
        let bytes = snapshot.encode();
        assert_eq!(graph::Snapshot::decode(&bytes).expect("what was written can be read").encode(), bytes);
    }
}

/// Readers of formats catch panics of their parsers; a panic is a finding all the same. What comes out is bounded by what went in.
fn document(name: &str, bytes: &[u8]) {
    let limits = ReadLimits { bytes_max: 1 << 20, time_max: Duration::from_secs(5) };
    match index::read_document(Path::new(name), bytes, limits) {
        Ok(document) => {
            let text: usize = document.texts().map(|(text, _)| text.len()).sum();
            assert!(text <= 4 * limits.bytes_max as usize, "{text} bytes of text from {} bytes", bytes.len());
        }
        Err(Skipped::Broken(why)) => assert!(!why.contains("panicked"), "{why}"),
        Err(_) => {}
    }
}

/// A request or reply in somebody's JSON. What can be read can be written and read again.
fn json<T: DeserializeOwned>(bytes: &[u8]) {
    let _ = serde_json::from_slice::<T>(bytes);
}

fn wire_api(bytes: &[u8]) {
    json::<wire::api::NewRun>(bytes);
    json::<wire::api::Query>(bytes);
    json::<wire::api::NewSession>(bytes);
    json::<wire::api::Fork>(bytes);
    json::<wire::api::Answer>(bytes);
}

fn wire_langserve(bytes: &[u8]) {
    json::<wire::langserve::Invoke>(bytes);
    json::<wire::langserve::Batch>(bytes);
    json::<wire::langserve::InvokeResponse>(bytes);
    json::<wire::langserve::StreamEventItem>(bytes);
    json::<wire::langserve::Patch>(bytes);
    json::<wire::langserve::Refusal>(bytes);
    json::<wire::langserve::Contract>(bytes);
}

fn wire_langgraph(bytes: &[u8]) {
    json::<wire::langgraph::RunCreate>(bytes);
    json::<wire::langgraph::Command>(bytes);
    json::<wire::langgraph::Checkpoint>(bytes);
    json::<wire::langgraph::Run>(bytes);
}

fn wire_openai(bytes: &[u8]) {
    json::<wire::openai::ChatRequest>(bytes);
    json::<wire::openai::ResponsesRequest>(bytes);
    if let Ok(Value::Array(tools)) = serde_json::from_slice::<Value>(bytes) {
        if let Ok(functions) = wire::openai::functions(&tools) {
            let _ = wire::openai::choice(tools.first(), &functions).is_ok();
        }
        let _ = wire::openai::format_schema("format", tools.first()).is_ok();
    }
}

fn wire_agui(bytes: &[u8]) {
    json::<wire::agui::RunAgentInput>(bytes);
}

/// Requests of clients, and what agents elsewhere answer. What can be read can be written and read again.
fn wire_a2a(bytes: &[u8]) {
    use wire::a2a::card::AgentCard;
    use wire::a2a::{ListTasks, Message, PushConfig, SendMessage, StreamResponse, Task, TaskList, TaskQuery};
    json::<AgentCard>(bytes);
    json::<ListTasks>(bytes);
    json::<PushConfig>(bytes);
    json::<StreamResponse>(bytes);
    json::<TaskList>(bytes);
    json::<TaskQuery>(bytes);
    if let Ok(request) = serde_json::from_slice::<SendMessage>(bytes) {
        let _ = (request.options().is_ok(), request.message.as_ref().map(Message::content));
    }
    if let Ok(task) = serde_json::from_slice::<Task>(bytes) {
        let text = serde_json::to_vec(&task).expect("a task can be written");
        let again: Task = serde_json::from_slice(&text).expect("what was written can be read");
        assert_eq!(serde_json::to_vec(&again).expect("a task can be written"), text);
    }
}

/// The same over gRPC: requests, updates of agents elsewhere in pieces, and how their calls end. What can be read can be written and read again.
fn wire_a2a_grpc(bytes: &[u8]) {
    use wire::a2a::{ListTasks, Message, PushConfig, PushQuery, SendMessage, Task, TaskQuery, grpc, proto};
    if let Ok(request) = grpc::read_one::<proto::SendMessageRequest>(bytes) {
        let request = SendMessage::from(request);
        let _ = (request.options().is_ok(), request.message.as_ref().map(Message::content));
    }
    let _ = grpc::read_one::<proto::GetTaskRequest>(bytes).map(TaskQuery::from);
    let _ = grpc::read_one::<proto::ListTasksRequest>(bytes).map(ListTasks::from);
    let _ = grpc::read_one::<proto::TaskPushNotificationConfig>(bytes).map(PushConfig::from);
    let _ = grpc::read_one::<proto::GetTaskPushNotificationConfigRequest>(bytes).map(PushQuery::from);
    if let Ok(task) = grpc::read_one::<proto::Task>(bytes).map(Task::from) {
        let written = grpc::frame(&proto::Task::from(task));
        let again = grpc::read_one::<proto::Task>(&written).map(Task::from).expect("what was written can be read");
        // NaN is not equal to itself, but is written in the same way.
        assert_eq!(grpc::frame(&proto::Task::from(again)), written);
    }
    let mut frames = grpc::Frames::new(1 << 20);
    for piece in bytes.chunks(7) {
        frames.push(piece);
        while let Ok(Some(update)) = frames.next_message::<proto::StreamResponse>() {
            let _ = update.into_update();
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = grpc::ending(|name| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")));
    }
}

fn wire_registry(bytes: &[u8]) {
    json::<wire::registry::Tools>(bytes);
    json::<wire::registry::Servers>(bytes);
    json::<wire::registry::Called>(bytes);
}

/// What an MCP server or client sends, line by line.
fn mcp_message(bytes: &[u8]) {
    json::<rmcp::model::ServerJsonRpcMessage>(bytes);
    json::<rmcp::model::ClientJsonRpcMessage>(bytes);
}

/// Files of MCP servers, as hosts write them.
fn mcp_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = mcp_hub::Config::parse(text, None, &|name| (name == "KNOWN").then(|| "value".to_owned()));
    assert!(mcp_hub::config::server_name(text).len() <= text.len() + 64);
}

/// The tables of the configuration that are checked by hand.
fn configuration(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let _ = serde_json::from_value::<server::limits::Limits>(value.clone());
    if let Ok(settings) = serde_json::from_value::<server::oidc::Settings>(value.clone()) {
        let _ = settings.check();
    }
    let tables = |value: &Value| serde_json::from_value::<server::rights::Tables>(value.clone());
    if let (Ok(users), Ok(groups)) = (tables(&value["users"]), tables(&value["groups"])) {
        let _ = server::rights::Users::new(users, groups).map(|users| users.of(&graph::UserId::from("ada"), &["staff".to_owned()]));
    }
    let _ = serde_json::from_value::<server::proxies::Proxies>(value);
}

/// A tool's reply, as it becomes evidence and is cited.
fn tool_output(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let data = serde_json::from_str::<Value>(text).ok();
    for data in [None, data.as_ref()] {
        let found = evidence::found("a tool", Trust::default(), text, data);
        assert!(found.spans.len() <= evidence::SPANS_MAX, "{} spans", found.spans.len());
        let spans = Spans::new(&found.spans);
        let cited = evidence::cite(text, &spans, Strict::default(), &Options::default());
        assert!(
            evidence::citations(&cited.body).iter().all(|citation| citation.numbers.iter().all(|number| *number <= cited.sources.len())),
            "a mark without a source"
        );
    }
}

/// JSON in a model's text.
fn model_json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "steps": { "type": "array", "items": { "type": "string" } }, "n": { "type": "integer" } },
        "required": ["steps"]
    });
    if let Ok(read) = structured::read(text, &schema) {
        assert!(read.value["steps"].is_array(), "what does not fit the schema was accepted: {}", read.value);
    }
    let _ = structured::without_thinking(text);
}

/// A schema of a tool, an agent or a client, and a value that is held against it: `[schema, value]`.
fn schema(bytes: &[u8]) {
    let Ok((schema, value)) = serde_json::from_slice::<(Value, Value)>(bytes) else { return };
    if let Ok(validator) = structured::Validator::new(schema) {
        assert!(validator.errors(&value, 5).len() <= 5);
    }
}

/// A model's answer, as the page and documents show it.
fn answer(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let html = flows::search::html::from_markdown(text).to_ascii_lowercase();
    for forbidden in ["<script", "<iframe", "<object", "<embed", "<form", "<meta", "<base"] {
        assert!(!html.contains(forbidden), "{forbidden} in {html}");
    }
    let _ = (evidence::defused(text), evidence::visible(text));
}

//! Models over real HTTP, against a test server for each API: any behaviour of such a server ends in a reply or in a clear error within its
//! deadline. And over gRPC, against a KServe v2 server.

mod going_wrong;
#[allow(clippy::all, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned, unused_qualifications, unreachable_pub)]
#[rustfmt::skip]
mod kserve_server;
mod secrets;
mod triton;
mod well;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_lab::provider::{dialect, server};
use dialect::Dialect;
use effects::Progress;
use graph::{Key, Message, ModelCall, Reply, TaskId, ToolSpec};
use models::{Models, Table};
use serde_json::{Value, json};
use server::{Behaviour, Server};

pub(crate) const SECRET: &str = "sk-lab-0123456789-never-show";

/// Limit of every call in these tests, whatever its server does.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

pub(crate) fn key() -> Key {
    Key::of(&"thread".into(), &"run".into(), TaskId { step: 3, index: 1 })
}

pub(crate) fn question() -> ModelCall {
    let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
    let messages = vec![message("system", "Be brief."), message("user", "Say hello.")];
    ModelCall { purpose: "direct".into(), messages, tokens_max: Some(64), temperature: Some(0.2), ..ModelCall::default() }
}

pub(crate) fn with_schema() -> ModelCall {
    let schema = json!({
        "type": "object",
        "properties": {"steps": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}},
        "required": ["steps"],
        "additionalProperties": false,
    });
    ModelCall { purpose: "plan".into(), schema: Some(schema), ..question() }
}

pub(crate) fn with_tools() -> ModelCall {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]});
    ModelCall { tools: vec![ToolSpec { name: "add".into(), description: "Adds.".into(), schema }], ..question() }
}

/// The registry as the command line creates it, with the endpoint moved to the test server.
pub(crate) fn models(dialect: Dialect, server: &Server) -> Models {
    secrets::logged();
    let table: Table = serde_json::from_value(dialect.table(&server.url)).expect("a table");
    let env = |name: &str| (name == "LAB_KEY").then(|| SECRET.to_owned());
    Models::new(table.with_defaults(), dialect.model().parse().expect("a name"), &env).expect("models")
}

pub(crate) struct Outcome {
    pub(crate) reply: Reply,
    /// The streamed text; empty for a call that is not streamed.
    pub(crate) streamed: String,
}

/// Calls like the engine: with a deadline that drops the call.
pub(crate) async fn ask(models: &Models, call: &ModelCall, streaming: bool) -> Option<Outcome> {
    let streamed = Arc::new(Mutex::new(String::new()));
    let received = streamed.clone();
    let progress = if streaming { Progress::to(move |text| received.lock().expect("lock").push_str(text)) } else { Progress::nowhere() };
    let reply = tokio::time::timeout(DEADLINE, models.answer(call, &key(), &progress)).await.ok()?;
    let streamed = streamed.lock().expect("lock").clone();
    Some(Outcome { reply, streamed })
}

/// One call to a server with this behaviour.
pub(crate) async fn try_one(
    dialect: Dialect,
    behaviour: Behaviour,
    call: &ModelCall,
    streaming: bool,
) -> (Option<Outcome>, Vec<server::RecordedRequest>) {
    let server = Server::start(dialect, behaviour).await;
    let outcome = ask(&models(dialect, &server), call, streaming).await;
    (outcome, server.seen())
}

pub(crate) fn both_ways() -> impl Iterator<Item = (Dialect, bool)> {
    Dialect::ALL.into_iter().flat_map(|dialect| [(dialect, false), (dialect, true)])
}

pub(crate) fn find<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

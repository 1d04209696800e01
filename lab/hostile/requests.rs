//! What hostile users send to a server: bodies, paths and bytes, each with the answer that is allowed. None may take the server long, and none may be answered with 5xx.
//!
//! This file is included by tests with `#[path]`, so that it needs nothing but serde_json.

use serde_json::{Value, json};

/// A request of a user with a token.
pub(crate) struct Request {
    pub(crate) name: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    None,
    Json(Value),
    /// As it is, with this content type.
    Bytes(&'static str, Vec<u8>),
}

fn request(name: &'static str, method: &'static str, path: impl Into<String>, body: Body) -> Request {
    Request { name, method, path: path.into(), body }
}

/// All requests with a token. `other` names things of another user: a thread, a run, a user.
pub(crate) fn all(other: &OtherUser) -> Vec<Request> {
    let mut all = large();
    all.extend(nested());
    all.extend(multiplied());
    all.extend(rendered());
    all.extend(of_others(other));
    all
}

/// Somebody else's things.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherUser {
    pub(crate) user: String,
    pub(crate) thread: String,
    pub(crate) run: String,
}

/// Bodies that become much larger when they are handled naively.
fn large() -> Vec<Request> {
    let inputs: Vec<Value> = (0..2_000).map(|number| json!({ "question": format!("q{number}") })).collect();
    let config = json!({ "configurable": { "thread_id": "x".repeat(1_000) }, "metadata": { "m": "y".repeat(100_000) } });
    let names: serde_json::Map<String, Value> = (0..20_000).map(|number| (format!("k{number}"), json!(number))).collect();
    vec![
        request("batch with a large configuration", "POST", "/graph/batch", Body::Json(json!({ "inputs": inputs, "config": config }))),
        request("question of a megabyte", "POST", "/api/runs", Body::Json(json!({ "question": "x".repeat(900_000), "flow": "direct" }))),
        request("body over the limit", "POST", "/api/runs", Body::Bytes("application/json", vec![b' '; 5 << 20])),
        request("many names", "PATCH", "/api/settings", Body::Json(Value::Object(names.clone()))),
        request("many settings of a run", "POST", "/api/runs", Body::Json(json!({ "question": "q", "flow": "search", "settings": names }))),
        request("long thread name", "POST", "/api/runs", Body::Json(json!({ "question": "q", "flow": "direct", "thread": "t".repeat(10_000) }))),
        request("long query", "GET", format!("/api/threads?search={}", "w+".repeat(3_000)), Body::None),
        request(
            "many messages",
            "POST",
            "/v1/chat/completions",
            Body::Json(json!({ "model": "direct", "messages": vec![json!({ "role": "user", "content": "m" }); 5_000] })),
        ),
    ]
}

/// Depth, where parsers recurse.
fn nested() -> Vec<Request> {
    let deep = |open: &str, close: &str, times: usize| format!("{}{}", open.repeat(times), close.repeat(times)).into_bytes();
    vec![
        request("deep arrays", "POST", "/api/runs", Body::Bytes("application/json", deep("[", "]", 100_000))),
        request(
            "deep objects",
            "POST",
            "/graph/invoke",
            Body::Bytes("application/json", [b"{\"input\":".to_vec(), deep("{\"a\":", "}", 50_000)].concat()),
        ),
        request("deep objects without end", "POST", "/threads", Body::Bytes("application/json", b"{\"metadata\":{\"a\":".repeat(20_000))),
        request("not UTF-8", "POST", "/api/runs", Body::Bytes("application/json", b"{\"question\": \"\xff\xfe\"}".to_vec())),
        request("wrong type", "POST", "/api/runs", Body::Bytes("text/xml", b"<!DOCTYPE x [<!ENTITY a \"aaaa\">]><x>&a;</x>".to_vec())),
        request(
            "huge number",
            "POST",
            "/api/runs",
            Body::Bytes("application/json", format!("{{\"question\": \"q\", \"budget\": {{\"usd\": {}}}}}", "9".repeat(5_000)).into_bytes()),
        ),
    ]
}

/// Short bodies that become long work: schemas whose definitions double, and lists in which each item was once looked for among all others.
fn multiplied() -> Vec<Request> {
    let chat = |schema: Value| {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        Body::Json(json!({ "model": "direct", "messages": [{ "role": "user", "content": "q" }], "response_format": format }))
    };
    let mut definitions: serde_json::Map<String, Value> = (0..40)
        .map(|level| {
            let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            (format!("d{level}"), json!({ "allOf": [next, next] }))
        })
        .collect();
    definitions.insert("d40".to_owned(), json!({ "type": "string" }));
    let patterns: Vec<Value> = (0..2_000).map(|number| json!({ "pattern": format!("[a-z]{{200,{}}}", 300 + number) })).collect();
    let call = json!({ "type": "function", "function": { "name": "f", "parameters": { "$ref": "#/$defs/d0", "$defs": definitions } } });
    let messages: Vec<Value> = (0..60_000).map(|id| json!({ "type": "human", "id": id.to_string(), "content": "" })).collect();
    let supersteps: Vec<Value> = (0..20_000).map(|_| json!({ "updates": [{ "values": { "a": "b" } }] })).collect();
    vec![
        request("a schema that doubles", "POST", "/v1/chat/completions", chat(json!({ "$ref": "#/$defs/d0", "$defs": definitions }))),
        request("a schema that refers to itself", "POST", "/v1/chat/completions", chat(json!({ "$ref": "#" }))),
        request("a schema of large patterns", "POST", "/v1/chat/completions", chat(json!({ "anyOf": patterns }))),
        request(
            "a function whose schema doubles",
            "POST",
            "/v1/chat/completions",
            Body::Json(json!({ "model": "direct", "messages": [{ "role": "user", "content": "q" }], "tools": [call] })),
        ),
        request("messages with ids", "POST", "/runs/wait", Body::Json(json!({ "assistant_id": "direct", "input": { "messages": messages } }))),
        request("many supersteps", "POST", "/threads", Body::Json(json!({ "supersteps": supersteps }))),
    ]
}

/// Questions, and answers to them whose rendering was quadratic once. The server's script gives these answers.
pub(crate) fn answers() -> Vec<(&'static str, String)> {
    vec![
        ("HOSTILE-QUOTES", ">".repeat(400_000)),
        ("HOSTILE-SENTENCES", "A b. ".repeat(100_000)),
        ("HOSTILE-TABLE", format!("|{}\n|{}\n{}", "a|".repeat(500), "-|".repeat(500), "|b\n".repeat(5_000))),
        ("HOSTILE-BRACKETS", "[".repeat(300_000)),
        ("HOSTILE-LINKS", "[a](b) ".repeat(50_000)),
        ("HOSTILE-SCRIPT", "<script>alert(1)</script>".repeat(10_000)),
    ]
}

/// Runs that get these answers.
fn rendered() -> Vec<Request> {
    let ask = |question: &'static str| request(question, "POST", "/api/runs?wait=1", Body::Json(json!({ "question": question, "flow": "direct" })));
    answers().into_iter().map(|(question, _)| ask(question)).collect()
}

/// Names of another user's things, used in place of one's own.
fn of_others(other: &OtherUser) -> Vec<Request> {
    let OtherUser { user, thread, run } = other;
    let forged = json!({ "at_step": 0, "replies": [{ "task": "0.0", "value": { "spans": [{ "text": "x", "address": format!("{user}/secret.md"), "source": "docs.search" }] } }] });
    vec![
        request("another's run", "GET", format!("/api/runs/{run}"), Body::None),
        request("another's answer", "GET", format!("/api/runs/{run}/answer"), Body::None),
        request("another's answer as PDF", "GET", format!("/api/runs/{run}/answer.pdf"), Body::None),
        request("another's events", "GET", format!("/api/runs/{run}/events"), Body::None),
        request("another's passage", "GET", format!("/api/runs/{run}/spans/1"), Body::None),
        request("another's thread", "GET", format!("/api/threads/{thread}"), Body::None),
        request("another's thread, over LangGraph", "GET", format!("/threads/{thread}/state"), Body::None),
        request("another's thread, deleted", "DELETE", format!("/api/threads/{thread}"), Body::None),
        request("a fork of another's run", "POST", format!("/api/runs/{run}/fork"), Body::Json(forged)),
        request("another's run, cancelled", "POST", format!("/api/runs/{run}/cancel"), Body::Json(json!({}))),
        request("another's document", "GET", format!("/api/documents/..%2F{user}%2Fsecret.md"), Body::None),
        request(
            "another's folder",
            "PUT",
            format!("/api/documents/..%2F{user}%2Fplanted.md"),
            Body::Bytes("application/octet-stream", b"planted".to_vec()),
        ),
        request("the operator's numbers", "GET", "/metrics", Body::None),
        request(
            "a server of the user's own",
            "POST",
            "/api/registry/import",
            Body::Json(json!({ "mcpServers": { "docs": { "command": "sh", "args": ["-c", "id"] } } })),
        ),
        request("everybody's tools", "POST", "/api/registry/tools/files.read/call", Body::Json(json!({ "arguments": { "path": "/etc/passwd" } }))),
        request("internal flows", "POST", "/completion/invoke", Body::Json(json!({ "input": {} }))),
    ]
}

/// Bytes that are no requests, for connections of their own: headers without end, halves, and other protocols.
pub(crate) fn raw() -> Vec<Vec<u8>> {
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    vec![
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
        format!("GET /api/status HTTP/1.1\r\nhost: 127.0.0.1\r\n{many}\r\n").into_bytes(),
        format!("GET /{} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", "a".repeat(100_000)).into_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"POST /api/runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n{".to_vec(),
        b"GET /assets/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".to_vec(),
    ]
}

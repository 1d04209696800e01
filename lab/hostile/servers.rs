//! MCP servers that were made to harm their host: what each answers to a request. The host must stay within its bounds and go on.
//!
//! This file is included by tests with `#[path]`, so that it needs nothing but serde_json.

use serde_json::{Value, json};

/// What is sent back: lines of JSON, or bytes as they are.
pub(crate) enum Answer {
    Lines(Vec<Value>),
    Bytes(Vec<u8>),
    /// Nothing, ever.
    Silence,
}

pub(crate) struct Server {
    pub(crate) name: &'static str,
    /// What is different from a server that is well; `None` answers as that would.
    pub(crate) answer: fn(&Value) -> Option<Answer>,
}

/// All of them.
pub(crate) const ALL: &[Server] = &[
    Server { name: "endless_pages", answer: |request| listed(request, || json!({ "tools": [tool("a")], "nextCursor": "again" })) },
    Server {
        name: "many_tools",
        answer: |request| listed(request, || json!({ "tools": (0..20_000).map(|number| tool(&format!("t{number}"))).collect::<Vec<_>>() })),
    },
    Server { name: "large_definitions", answer: |request| listed(request, large_page) },
    Server {
        name: "one_huge_definition",
        answer: |request| {
            listed(
                request,
                || json!({ "tools": [{ "name": "a", "description": "x".repeat(4 << 20), "inputSchema": { "type": "object" } }, tool("say")] }),
            )
        },
    },
    Server {
        name: "odd_names",
        answer: |request| {
            let names = ["../../etc/passwd", "a\u{0}b", "\u{202e}txt", "", "x.y.z", "say", "say"];
            listed(request, || json!({ "tools": names.map(tool) }))
        },
    },
    Server {
        name: "schema_that_refers_to_itself",
        answer: |request| {
            listed(
                request,
                || json!({ "tools": [{ "name": "say", "inputSchema": { "type": "object", "properties": { "a": { "$ref": "#" } }, "$ref": "#" } }] }),
            )
        },
    },
    Server {
        name: "schema_from_elsewhere",
        answer: |request| {
            listed(request, || json!({ "tools": [{ "name": "say", "inputSchema": { "type": "object", "$ref": "http://127.0.0.1:9/schema" } }] }))
        },
    },
    Server {
        name: "pattern_without_end",
        answer: |request| {
            listed(
                request,
                || json!({ "tools": [{ "name": "say", "inputSchema": { "type": "object", "properties": { "a": { "type": "string", "pattern": "^(a+)+$" } } } }] }),
            )
        },
    },
    Server {
        name: "deep_reply",
        answer: |request| {
            called(request, |id| {
                Answer::Bytes(
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}{}}}\n", "{\"a\":".repeat(50_000), "}".repeat(50_000)).into_bytes(),
                )
            })
        },
    },
    Server {
        name: "large_reply",
        answer: |request| {
            called(request, |id| {
                Answer::Lines(vec![json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": "x".repeat(7 << 20) }] } })])
            })
        },
    },
    Server { name: "line_without_end", answer: |request| called(request, |_| Answer::Bytes(vec![b'x'; 32 << 20])) },
    Server { name: "not_json", answer: |request| called(request, |_| Answer::Bytes(b"\xff\xfe{]\n\n\n{\"jsonrpc\":\n".repeat(1_000))) },
    Server {
        name: "another_id",
        answer: |request| called(request, |_| Answer::Lines(vec![json!({ "jsonrpc": "2.0", "id": 999_999, "result": { "content": [] } }); 1_000])),
    },
    Server {
        name: "notifications",
        answer: |request| called(request, |_| Answer::Lines(vec![json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }); 5_000])),
    },
    Server {
        name: "requests_to_the_host",
        answer: |request| {
            called(request, |_| {
                Answer::Lines((0..1_000).map(|id| json!({ "jsonrpc": "2.0", "id": format!("s{id}"), "method": "roots/list" })).collect())
            })
        },
    },
    Server { name: "silence", answer: |request| called(request, |_| Answer::Silence) },
];

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "says something", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } })
}

/// Several megabytes a page, and always another one.
fn large_page() -> Value {
    let tools: Vec<Value> = (0..30)
        .map(|number| json!({ "name": format!("t{number}"), "description": "d".repeat(200 << 10), "inputSchema": { "type": "object" } }))
        .collect();
    json!({ "tools": tools, "nextCursor": "again" })
}

fn listed(request: &Value, result: impl FnOnce() -> Value) -> Option<Answer> {
    (request["method"] == "tools/list").then(|| Answer::Lines(vec![json!({ "jsonrpc": "2.0", "id": request["id"], "result": result() })]))
}

fn called(request: &Value, answer: impl FnOnce(&Value) -> Answer) -> Option<Answer> {
    (request["method"] == "tools/call").then(|| answer(&request["id"]))
}

/// What a server that is well answers.
pub(crate) fn well(request: &Value) -> Option<Value> {
    let result = match request["method"].as_str()? {
        "initialize" => {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "hostile", "version": "1" } })
        }
        "tools/list" => json!({ "tools": [tool("say")] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "still here" }] }),
        "ping" => json!({}),
        _ if request.get("id").is_none() => return None,
        _ => return Some(json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": -32601, "message": "no such method" } })),
    };
    Some(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

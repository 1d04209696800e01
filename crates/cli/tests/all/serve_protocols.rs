//! The protocols for other people's clients: the events each sends for the same runs, as a table that the guide shows; shared limits and
//! users; and damaged requests.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use reqwest::Method;
use scripted::mangled;
use serde_json::{Value, json};

use crate::Home;
use crate::serve::{PATIENCE, Served, send};
use crate::serve_hostile::token;

const SCRIPT: &str = include_str!("../../../../lab/peers/openai.d/agent.script");
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guide/src/protocol-events.md");

/// A question and its flow.
struct Scenario {
    title: &'static str,
    flow: &'static str,
    question: &'static str,
    asks: bool,
    is_cancelled: bool,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario { title: "An answer, piece by piece", flow: "direct", question: "what are tides?", asks: false, is_cancelled: false },
    Scenario { title: "An answer with a tool and sources", flow: "search", question: "what are tides?", asks: false, is_cancelled: false },
    Scenario { title: "A question to a person", flow: "research", question: "what are tides?", asks: true, is_cancelled: false },
    Scenario { title: "A failure", flow: "direct", question: "this fails", asks: false, is_cancelled: false },
    Scenario { title: "A run that is stopped by somebody else", flow: "search", question: "slow tides", asks: false, is_cancelled: true },
];

const PROTOCOLS: [&str; 8] =
    ["Baton's API", "LangServe, `stream_events`", "LangGraph, `runs/stream`", "OpenAI, chat completions", "OpenAI, responses", "MCP", "A2A", "AG-UI"];

#[tokio::test(flavor = "multi_thread")]
async fn x5_each_protocol_sends_the_same_runs_in_its_own_format() {
    let home = Home::new();
    let served = home.serve(&home.script(SCRIPT), &[]);
    let mut text = "# What each protocol sends\n\nThe same runs over every protocol: the kinds of events in the order in which they first come. \
         Baton's API also sends `delta` to those who watch while a model writes. \
         This page is written by `crates/cli/tests/all/serve_protocols.rs` from a running server.\n"
        .to_owned();
    for scenario in SCENARIOS {
        text.push_str(&format!("\n## {}\n\n| protocol | sends |\n|---|---|\n", scenario.title));
        for protocol in PROTOCOLS {
            let sent = async {
                let (sent, ()) = tokio::join!(kinds_sent(&served, protocol, &scenario), stop(&served, scenario.is_cancelled));
                sent
            };
            let sent = tokio::time::timeout(PATIENCE, sent).await.unwrap_or_else(|_| panic!("{protocol} does not end: {}", scenario.title));
            let mut kinds: Vec<String> = Vec::new();
            sent.into_iter().for_each(|kind| {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            });
            assert!(!kinds.is_empty(), "{protocol}: {}", scenario.title);
            let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
            text.push_str(&format!("| {protocol} | {} |\n", kinds.join(", ")));
        }
    }
    let path = Path::new(TABLE);
    if std::fs::read_to_string(path).unwrap_or_default() != text {
        std::fs::write(path, text).unwrap();
        panic!("{TABLE} was stale and has been renewed; look at it and commit it");
    }
}

/// Cancels the running run, as another client would.
async fn stop(served: &Served, is_wanted: bool) {
    if !is_wanted {
        return;
    }
    loop {
        let (_, running) = served.get("/api/runs?status=running").await;
        if let Some(run) = running["runs"][0]["run"].as_str() {
            // Its first tool call hangs; the events before that are expected.
            tokio::time::sleep(Duration::from_millis(400)).await;
            served.post(&format!("/api/runs/{run}/cancel"), &json!({})).await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn kinds_sent(served: &Served, protocol: &str, scenario: &Scenario) -> Vec<String> {
    let Scenario { flow, question, asks, .. } = *scenario;
    let options = json!({ "approve": asks });
    let messages = json!([{ "role": "user", "content": question, "id": "1" }]);
    match protocol {
        "Baton's API" => {
            let (run, _) = served.start(&json!({ "question": question, "flow": flow, "approve": asks })).await;
            let events = served.events(&run, None, |event| event.event == "end").await;
            events
                .iter()
                // A later watcher gets no deltas.
                .filter(|event| event.event != "delta")
                .map(|event| if event.event == "told" { event.data["event"].as_str().unwrap_or_default().to_owned() } else { event.event.clone() })
                .collect()
        }
        "LangServe, `stream_events`" => {
            let input = if asks { json!({ "question": question, "approve": true }) } else { json!({ "question": question }) };
            let body = streamed(served, &format!("/{flow}/stream_events"), &json!({ "input": input })).await;
            let kind = |(event, data): (String, Value)| if event == "data" { data["event"].as_str().unwrap_or_default().to_owned() } else { event };
            body.into_iter().map(kind).collect()
        }
        "LangGraph, `runs/stream`" => {
            let input = if asks { json!({ "question": question, "approve": true }) } else { json!({ "question": question }) };
            let body = json!({ "assistant_id": flow, "input": input, "stream_mode": ["values", "updates", "messages-tuple", "custom"] });
            streamed(served, "/runs/stream", &body).await.iter().map(|(event, data)| langgraph_kind(event, data)).collect()
        }
        "OpenAI, chat completions" => {
            let body = json!({ "model": flow, "messages": messages, "stream": true, "baton": options });
            streamed(served, "/v1/chat/completions", &body).await.into_iter().map(|(_, data)| chunk_kind(&data)).collect()
        }
        "OpenAI, responses" => {
            let body = json!({ "model": flow, "input": question, "stream": true, "baton": options });
            streamed(served, "/v1/responses", &body).await.into_iter().map(|(event, _)| event).collect()
        }
        "A2A" => {
            let body = a2a_message(flow, question, &options);
            streamed(served, "/a2a/v1/message:stream", &body).await.iter().map(|(_, data)| a2a_kind(data)).collect()
        }
        "AG-UI" => {
            let body =
                json!({ "threadId": "", "runId": "r", "messages": messages, "tools": [], "context": [], "forwardedProps": { "baton": options } });
            let kind = |data: Value| match data["outcome"]["type"].as_str() {
                Some(outcome) => format!("{}: {outcome}", data["type"].as_str().unwrap_or_default()),
                None => data["type"].as_str().unwrap_or_default().to_owned(),
            };
            streamed(served, &format!("/ag-ui/{flow}"), &body).await.into_iter().map(|(_, data)| kind(data)).collect()
        }
        _ => mcp(served, flow, &json!({ "question": question, "approve": asks })).await,
    }
}

/// A new message each time, to the flow that its metadata names.
fn a2a_message(flow: &str, question: &str, options: &Value) -> Value {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let mut baton = options.clone();
    baton["flow"] = json!(flow);
    let id = format!("m{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": question }] }, "metadata": { "baton": baton } })
}

fn a2a_kind(data: &Value) -> String {
    let state = |status: &Value| status["state"].as_str().unwrap_or_default().trim_start_matches("TASK_STATE_").to_owned();
    let Some((kind, update)) = data.as_object().and_then(|update| update.iter().next()) else { return "nothing".to_owned() };
    match kind.as_str() {
        "artifactUpdate" => format!("{kind}: {}", update["artifact"]["artifactId"].as_str().unwrap_or_default()),
        _ => format!("{kind}: {}", state(&update["status"])),
    }
}

fn langgraph_kind(event: &str, data: &Value) -> String {
    match event {
        "error" => format!("error: {}", data["error"].as_str().unwrap_or_default()),
        "messages" => format!("messages: {}", data[0]["type"].as_str().unwrap_or_default()),
        _ if data.get("__interrupt__").is_some() => format!("{event}: __interrupt__"),
        _ if data.pointer("/output/sources/0").is_some() => format!("{event} with sources"),
        _ => event.to_owned(),
    }
}

fn chunk_kind(data: &Value) -> String {
    if data["error"].is_object() {
        return "error".to_owned();
    }
    let choice = &data["choices"][0];
    match (choice["finish_reason"].as_str(), choice["delta"].as_object()) {
        (Some(reason), _) => format!("finish_reason: {reason}"),
        (None, Some(delta)) => format!("delta.{}", delta.keys().next_back().map_or("", String::as_str)),
        (None, None) => "[DONE]".to_owned(),
    }
}

/// The events of a stream: their names and data.
async fn streamed(served: &Served, path: &str, body: &Value) -> Vec<(String, Value)> {
    let (status, text) = send(served.request(Method::POST, path).json(body)).await;
    assert_eq!(status, 200, "{path}: {text}");
    frames(text.as_str().unwrap_or_else(|| panic!("{path} streams nothing: {text}")))
}

fn frames(text: &str) -> Vec<(String, Value)> {
    let text = text.replace("\r\n", "\n");
    let frame = |frame: &str| {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
        let data = field("data:").filter(|data| !data.is_empty());
        if data.is_none() && field("event:").is_none() {
            return None;
        }
        Some((field("event:").unwrap_or_else(|| "message".to_owned()), data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default()))
    };
    text.split("\n\n").filter_map(frame).collect()
}

/// Calls a flow by MCP, from a host without elicitation.
async fn mcp(served: &Served, flow: &str, arguments: &Value) -> Vec<String> {
    let send = |session: Option<String>, body: Value| {
        let request = served.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream").json(&body);
        let request = session.into_iter().fold(request, |request, session| request.header("mcp-session-id", session));
        async move { request.send().await.unwrap() }
    };
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let started = send(None, json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello })).await;
    let session = started.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    send(session.clone(), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    let arguments = if arguments["approve"] == true { arguments.clone() } else { json!({ "question": arguments["question"] }) };
    let call = json!({ "name": flow, "arguments": arguments, "_meta": { "progressToken": 1 } });
    let called = send(session, json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call })).await;
    let kind = |(_, data): (String, Value)| match data["method"].as_str() {
        Some(method) => Some(method.to_owned()),
        None if data["result"]["isError"] == true => Some("result: isError".to_owned()),
        None if data["result"]["structuredContent"]["asks"].is_object() => Some("result: asks".to_owned()),
        None if data["result"]["content"].as_array().is_some_and(|content| content.len() > 1) => Some("result with resource links".to_owned()),
        None if data["result"].is_object() => Some("result".to_owned()),
        None => data["error"].is_object().then(|| "error".to_owned()),
    };
    frames(&called.text().await.unwrap()).into_iter().filter_map(kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_users_limits_and_errors_are_the_same_in_every_protocol() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let served = home.serve(&home.script(SCRIPT), &[]);
    let chat = json!({ "model": "direct", "messages": [{ "role": "user", "content": "what are tides?" }] });
    let agui = json!({ "threadId": "t", "runId": "r", "messages": [{ "id": "1", "role": "user", "content": "what are tides?" }], "tools": [], "context": [] });
    let responses = json!({ "model": "direct", "input": "what are tides?" });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let sent = a2a_message("direct", "what are tides?", &json!({}));
    let post = async |path: &str, body: &Value, token: Option<&str>, headers: &[(&str, &str)]| {
        let request = served.request(Method::POST, path).header("accept", "application/json, text/event-stream").json(body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        send(token.into_iter().fold(request, |request, token| request.bearer_auth(token))).await
    };
    for (path, body, words) in [
        ("/v1/chat/completions", &chat, "/error/message"),
        ("/v1/responses", &responses, "/error/message"),
        ("/ag-ui/direct", &agui, "/message"),
        ("/mcp", &call, "/error/message"),
        ("/a2a/v1/message:send", &sent, "/error/message"),
    ] {
        for (token, headers, expected) in [
            (None, &[][..], 401),
            (Some("wrong"), &[][..], 401),
            (Some(ada.as_str()), &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")][..], 403),
        ] {
            let (status, reply) = post(path, body, token, headers).await;
            assert!(status == expected && reply.pointer(words).is_some_and(Value::is_string), "{path}: {status} {reply}");
        }
        if path != "/mcp" {
            let (status, reply) = post(path, body, Some(&ada), &[("x-baton-depth", "9")]).await;
            assert!(status == 400 && reply.pointer(words).unwrap().as_str().unwrap().contains("circle"), "{path}: {status} {reply}");
            let long = json!({ "model": "direct", "input": "x".repeat(2 << 20), "messages": [], "threadId": "", "runId": "" });
            assert_eq!(post(path, &long, Some(&ada), &[]).await.0, 413, "{path}");
        }
        let form = served.request(Method::POST, path).bearer_auth(&ada).header("content-type", "text/plain").body(body.to_string());
        assert!(matches!(send(form).await.0, 406 | 415), "{path}");
    }
    // gRPC reports it with a status of its own: an empty GetTaskRequest, and one that is too long.
    let grpc = async |token: Option<&str>, headers: &[(&str, &str)], kind: &str, bytes: usize| {
        let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        let body = [&[0][..], &length, &vec![0; bytes]].concat();
        let request = client.post(format!("{}/lf.a2a.v1.A2AService/GetTask", served.url)).header("content-type", kind).body(body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = token.into_iter().fold(request, |request, token| request.bearer_auth(token)).send().await.unwrap();
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        (response.status().as_u16(), text("grpc-status"), text("grpc-message"))
    };
    for (token, headers, kind, bytes, expected, words) in [
        (None, &[][..], "application/grpc", 0, "16", "token"),
        (Some("wrong"), &[][..], "application/grpc", 0, "16", "token"),
        (Some(ada.as_str()), &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")][..], "application/grpc", 0, "7", "origins"),
        (Some(ada.as_str()), &[("x-baton-depth", "9")][..], "application/grpc", 0, "3", "circle"),
        (Some(ada.as_str()), &[][..], "application/grpc", 2 << 20, "8", "bytes"),
        (Some(ada.as_str()), &[][..], "text/plain", 0, "12", "application/grpc"),
        (Some(ada.as_str()), &[("a2a-version", "0.3")][..], "application/grpc", 0, "12", "1.0"),
        (Some(ada.as_str()), &[][..], "application/grpc", 0, "3", "missing"),
    ] {
        let (status, code, message) = grpc(token, headers, kind, bytes).await;
        assert!(status == 200 && code == expected && message.contains(words), "{expected}: {status} {code} {message}");
    }
    // JSON-RPC reports it within a reply, and only what keeps it from reading the request by a status.
    let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent });
    let (status, reply) = post("/a2a", &rpc, None, &[]).await;
    assert!(status == 401 && reply["error"]["code"].is_i64() && reply["jsonrpc"] == "2.0", "{reply}");
    let (status, reply) = post("/a2a", &rpc, Some(&ada), &[("x-baton-depth", "9")]).await;
    assert!(status == 200 && reply["error"]["message"].as_str().unwrap().contains("circle"), "{reply}");
    // A task is its user's, and a message that is sent again is the same one for that user.
    let task = post("/a2a", &rpc, Some(&ada), &[]).await.1["result"]["task"]["id"].clone();
    assert_eq!(post("/a2a", &rpc, Some(&ada), &[]).await.1["result"]["task"]["id"], task);
    assert_ne!(post("/a2a", &rpc, Some(&bob), &[]).await.1["result"]["task"]["id"], task);
    let get = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": task } });
    assert_eq!(post("/a2a", &get, Some(&ada), &[]).await.1["result"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(post("/a2a", &get, Some(&bob), &[]).await.1["error"]["code"], -32001);
    // A key identifies a run of one user.
    let key = [("idempotency-key", "k-1")];
    let first = post("/v1/chat/completions", &chat, Some(&ada), &key).await.1["baton"]["run"].clone();
    assert_eq!(post("/v1/chat/completions", &chat, Some(&ada), &key).await.1["baton"]["run"], first);
    assert_ne!(post("/v1/chat/completions", &chat, Some(&bob), &key).await.1["baton"]["run"], first);
}

/// Requests of one client that are on their way: no more than a user may have runs.
const AT_ONCE: usize = 8;

/// Clients may send anything. `BATON_MANGLED` sets the number of requests.
#[tokio::test(flavor = "multi_thread")]
async fn x5_mangled_requests_are_refused_with_a_message_and_nothing_hangs() {
    let home = Home::new();
    let served = home.serve(&home.script(&format!("{SCRIPT}\n")), &[]);
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": { "type": "object", "properties": {} } } });
    let chat = json!({ "model": "direct", "stream": false, "tools": [tool], "tool_choice": "auto", "response_format": { "type": "text" },
        "messages": [{ "role": "system", "content": "x" }, { "role": "user", "content": [{ "type": "text", "text": "hi" }] }, { "role": "assistant", "content": "y" }, { "role": "user", "content": "tides?" }] });
    let response = json!({ "model": "direct", "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "hi" }] }], "metadata": { "a": "b" }, "text": { "format": { "type": "text" } } });
    let agui = json!({ "threadId": "", "runId": "r", "messages": [{ "id": "1", "role": "user", "content": "hi" }], "tools": [], "context": [{ "description": "a", "value": "b" }], "forwardedProps": {} });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "direct", "arguments": { "question": "hi" } } });
    let each = mangled::count_or(200);
    let a2a = a2a_message("direct", "hi", &json!({ "approve": false }));
    for (path, whole) in
        [("/v1/chat/completions", chat), ("/v1/responses", response), ("/ag-ui/direct", agui), ("/mcp", call), ("/a2a/v1/message:send", a2a)]
    {
        let (good, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let started = Instant::now();
        let (whole, good, refused, served) = (whole.to_string(), &good, &refused, &served);
        let one = async |bytes: Vec<u8>| {
            let request =
                served.request(Method::POST, path).header("content-type", "application/json").header("accept", "application/json, text/event-stream");
            let answered = tokio::time::timeout(Duration::from_secs(20), send(request.body(bytes.clone()))).await;
            let (status, reply) = answered.unwrap_or_else(|_| panic!("{path} hangs on {}", String::from_utf8_lossy(&bytes)));
            match status {
                200..300 => _ = good.fetch_add(1, Ordering::Relaxed),
                400..500 => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    assert!(reply.to_string().len() > 10, "{path}: {status} without words for {}", String::from_utf8_lossy(&bytes));
                }
                // A damaged request may be a valid one that fails, with an error.
                500 if reply["error"]["code"] == "run_failed" => _ = refused.fetch_add(1, Ordering::Relaxed),
                _ => panic!("{path}: {status} {reply} for {}", String::from_utf8_lossy(&bytes)),
            }
        };
        let requests = mangled::mangled(whole.as_bytes(), 0x2545_f491_4f6c_dd1d).take(each);
        futures::stream::iter(requests).for_each_concurrent(AT_ONCE, one).await;
        let (good, refused) = (good.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
        println!("{path}: {good} good, {refused} refused in {:?}", started.elapsed());
        assert!(refused > 0 && (good > 0 || path == "/mcp"), "{path}: {good} good, {refused} refused in {:?}", started.elapsed());
    }
    assert_eq!(served.get("/healthz").await.0, 200);
}

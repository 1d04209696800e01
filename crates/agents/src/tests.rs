//! Against a small server whose replies each test chooses.

use std::sync::Mutex;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use scripted::mangled;

pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

/// Answers each request with what `respond` makes of it; an empty answer closes the connection.
pub(crate) async fn peer(respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let (respond, log) = (Arc::new(respond), requests.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (respond, log) = (respond.clone(), log.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut chunk = vec![0; 64 << 10];
                loop {
                    let count = stream.read(&mut chunk).await.unwrap_or(0);
                    request.extend_from_slice(&chunk[..count]);
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let length = text
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").and_then(|n| n.trim().parse::<usize>().ok()));
                    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
                    if count == 0 || body.is_some_and(|body| body >= length.unwrap_or(0)) {
                        log.lock().unwrap().push(text.clone());
                        let _ = stream.write_all(&respond(&text)).await;
                        return;
                    }
                }
            });
        }
    });
    Peer { url, requests }
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

fn agents(url: &str, more: &[(&str, &str)]) -> Agents {
    let mut agent = json!({ "url": url });
    for (name, value) in more {
        agent[*name] = serde_json::from_str(value).unwrap();
    }
    let configured: BTreeMap<String, Agent> = serde_json::from_value(json!({ "other": agent })).unwrap();
    Agents::new(&configured, &[], &|name| (name == "TOKEN").then(|| "sesame".to_owned())).unwrap()
}

async fn call(agents: &Agents) -> Reply {
    let input = json!({ "messages": [{ "role": "user", "content": "hi" }], "next": "other", "context": { "a": 1 }, "model": { "is_small": true } });
    let job = &scripted::jobs(&[graph::agent("langserve/other", input)])[0];
    agents.perform(job, &Progress::nowhere()).await
}

#[tokio::test]
async fn p3_a_call_is_a_state_with_its_key_and_depth_and_the_reply_is_one_too() {
    let reply = json!({ "output": {
        "messages": [{ "type": "human", "content": "hi", "x": 1 }, { "type": "ai", "content": [{ "type": "text", "text": "ho" }], "id": "a1", "usage_metadata": null }],
        "context": { "b": 2 }, "next": "FINISH", "own": true,
    } });
    let peer = peer(move |request| match request.starts_with("POST") {
        true => answer("200 OK", "", &reply.to_string()),
        false => answer("404 Not Found", "", ""),
    })
    .await;
    let reply = call(&agents(&peer.url, &[("token_env", "\"TOKEN\"")])).await.result.unwrap();
    assert_eq!((&reply["messages"][1]["role"], &reply["messages"][1]["content"]), (&json!("assistant"), &json!("ho")));
    assert_eq!((&reply["messages"][0]["wire"]["x"], &reply["context"]), (&json!(1), &json!({ "b": 2 })));
    let requests = peer.requests.lock().unwrap().join("\n").to_lowercase();
    let job = &scripted::jobs(&[graph::agent("x", json!({}))])[0];
    for expected in [
        "post /graph/invoke",
        &format!("idempotency-key: {}", job.key),
        "x-baton-depth: 1",
        "authorization: bearer sesame",
        "\"type\":\"human\"",
        "\"next\":\"other\"",
    ] {
        assert!(requests.contains(expected), "{expected}: {requests}");
    }
    assert!(!requests.contains("is_small"), "what is only for our own flows is not sent");
}

#[tokio::test]
async fn p8_what_goes_wrong_is_sorted_by_who_can_help() {
    use graph::Retry;
    let huge = "x".repeat(7 << 20);
    for (status, headers, body, kind, retry, message) in [
        ("500 Internal Server Error", "", "Internal Server Error", FailureKind::Tool, Retry::Yes, "status 500: Internal Server Error"),
        ("500 Oops", "x-should-retry: false\r\n", r#"{"detail":"it hurts"}"#, FailureKind::Tool, Retry::No, "it hurts"),
        ("503 Busy", "retry-after: 2\r\n", "", FailureKind::Tool, Retry::AfterMs(2_000), "503"),
        ("429 Slow down", "", "", FailureKind::Refused, Retry::Yes, "429"),
        ("401 No", "", "", FailureKind::Refused, Retry::No, "check its token"),
        ("404 Not Found", "", r#"{"detail":"Not Found"}"#, FailureKind::Refused, Retry::No, "check its url and path"),
        ("307 Elsewhere", "location: http://evil.example/\r\n", "", FailureKind::Refused, Retry::No, "redirects"),
        (
            "422 No",
            "",
            r#"{"detail":[{"loc":["messages"],"msg":"Input should be a valid list"}]}"#,
            FailureKind::Invalid,
            Retry::No,
            "messages: Input should",
        ),
        ("200 OK", "", "<html>hello</html>", FailureKind::Invalid, Retry::Yes, "not JSON"),
        ("200 OK", "", "[1]", FailureKind::Invalid, Retry::Yes, "not an object"),
        ("200 OK", "", "{}", FailureKind::Invalid, Retry::Yes, "without an `output`"),
        ("200 OK", "", huge.as_str(), FailureKind::Invalid, Retry::No, "more than"),
    ] {
        let (status_line, headers_text, text) = (status.to_owned(), headers.to_owned(), body.to_owned());
        let peer = peer(move |request| match request.starts_with("POST") {
            true => answer(&status_line, &headers_text, &text),
            false => answer("404 Not Found", "", ""),
        })
        .await;
        let failure = call(&agents(&peer.url, &[])).await.result.unwrap_err();
        assert_eq!((failure.kind, failure.retry), (kind, retry), "{status}: {failure}");
        assert!(failure.message.contains(message) && failure.message.starts_with("other"), "{failure}");
    }
    // No server, and a connection that closes within the reply.
    let cut = peer(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()).await;
    for url in ["http://127.0.0.1:1", cut.url.as_str()] {
        let failure = call(&agents(url, &[])).await.result.unwrap_err();
        assert_eq!((failure.kind, failure.retry), (FailureKind::Network, Retry::Yes), "{failure}");
        let once = call(&agents(url, &[("once", "true")])).await.result.unwrap_err();
        assert_eq!((once.kind, once.retry), (FailureKind::InDoubt, Retry::No), "{once}");
    }
}

#[tokio::test]
async fn p8_what_is_no_state_is_passed_on_for_the_flow_to_judge() {
    for output in [json!(null), json!("text"), json!({ "messages": 3 }), json!({ "messages": [{ "type": "robot" }] }), json!([1])] {
        let body = json!({ "output": output }).to_string();
        let peer = peer(move |request| if request.starts_with("POST") { answer("200 OK", "", &body) } else { answer("404 No", "", "") }).await;
        assert_eq!(call(&agents(&peer.url, &[])).await.result, Ok(output));
    }
}

#[tokio::test]
async fn p3_a_state_is_held_against_the_services_own_schema() {
    let schema = |required: &str| json!({ "type": "object", "required": [required], "properties": { "messages": { "type": "array" } } }).to_string();
    for (schema, is_called) in [
        (schema("messages"), true),
        (schema("budget"), false),
        ("{".to_owned(), true),
        (json!({ "$ref": "http://evil.example/x" }).to_string(), true),
    ] {
        let text = schema.clone();
        let peer = peer(move |request| match request.starts_with("POST") {
            true => answer("200 OK", "", r#"{"output":{}}"#),
            false => answer("200 OK", "", &text),
        })
        .await;
        let agents = agents(&peer.url, &[]);
        let reply = call(&agents).await.result;
        assert_eq!(reply.is_ok(), is_called, "{schema}: {reply:?}");
        if let Err(failure) = reply {
            assert!(failure.kind == FailureKind::Invalid && failure.message.contains("budget"), "{failure}");
        }
        call(&agents).await.result.ok();
        let schema_requests = peer.requests.lock().unwrap().iter().filter(|request| request.contains("/graph/input_schema")).count();
        assert_eq!(schema_requests, 1, "the schema is cached");
    }
}

#[tokio::test]
async fn p1_agents_are_found_by_configuration_description_and_health() {
    let described = json!({ "name": "researcher", "capabilities": [{ "name": "research", "about": "looks up" }, { "name": "compare" }] }).to_string();
    let ours = peer(move |request| if request.contains("/agent.json") { answer("200 OK", "", &described) } else { answer("404 No", "", "") }).await;
    let theirs = peer(|request| if request.contains("/chat/input_schema") { answer("200 OK", "", "{}") } else { answer("404 No", "", "") }).await;
    let silent = peer(|_| Vec::new()).await;
    let configured: BTreeMap<String, Agent> = serde_json::from_value(json!({
        "translator": { "url": theirs.url, "path": "/chat/", "capabilities": ["translate"], "about": "translates" },
        "painter": { "url": silent.url },
        "local": {},
    }))
    .unwrap();
    let env = |name: &str| match name {
        "RESEARCHER_SERVICE_URL" => Some(ours.url.clone()),
        "MAILER_SERVICE_URL" => Some("http://127.0.0.1:1".to_owned()),
        _ => None,
    };
    let agents = Agents::new(&configured, &team([None; 3]), &env).unwrap();
    assert_eq!(agents.names(), ["mailer", "painter", "researcher", "translator"]);
    let job = &scripted::jobs(&[graph::tool(LIST, json!({}))])[0];
    let found: Found = serde_json::from_value(agents.perform(job, &Progress::nowhere()).await.result.unwrap()).unwrap();
    let listed_agents: Vec<(String, String, bool)> = found.data["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["agent"].as_str().unwrap().to_owned(), one["capability"].as_str().unwrap().to_owned(), one["healthy"].as_bool().unwrap()))
        .collect();
    let listed_agents: Vec<(&str, &str, bool)> =
        listed_agents.iter().map(|(agent, capability, healthy)| (agent.as_str(), capability.as_str(), *healthy)).collect();
    assert_eq!(
        listed_agents,
        [
            ("langserve/mailer", "send_mail", false),
            ("langserve/painter", "painter", false),
            ("langserve/researcher", "research", true),
            ("langserve/researcher", "compare", true),
            ("langserve/translator", "translate", true),
        ]
    );
    for (agent, why) in [
        (json!({ "url": "ftp://x" }), "not a URL"),
        (json!({ "url": "::" }), "not a URL"),
        (json!({ "url": "http://x", "token_env": "GONE" }), "GONE"),
    ] {
        let configured = serde_json::from_value(json!({ "a": agent })).unwrap();
        assert!(Agents::new(&configured, &[], &|_| None).err().unwrap().contains(why));
    }
}

/// Agents that answer with mangled replies. `BATON_MANGLED` is their number, 2,000 by default.
#[tokio::test]
async fn p8_mangled_replies_never_panic_or_hang() {
    let count = mangled::count();
    let whole = json!({ "output": {
        "messages": [{ "type": "human", "content": "hi" }, { "type": "ai", "content": "{\"completed_capability\": \"research\", \"data\": {}}" }],
        "next": "x", "context": { "a": { "b": [1, 2] } },
    }, "metadata": { "run_id": "x" } })
    .to_string();
    let mut good = 0;
    for bytes in mangled::mangled(whole.as_bytes(), 0x9e37_79b9_7f4a_7c15).take(count) {
        match langserve::read_reply(&bytes) {
            Ok(value) => {
                good += 1;
                assert!(value.get("messages").and_then(Value::as_array).is_none_or(|turns| turns.len() < 10_000));
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
    assert!(good > 0 && good < count, "{good} of {count}");
}

/// The team, with the ports it is looked for at.
fn team(ports: [Option<u16>; 3]) -> Vec<TeamAgent> {
    let one = |name: &str, capability: &str, aliases: &[&str], port| TeamAgent {
        name: name.into(),
        capability: capability.into(),
        aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
        port,
    };
    vec![
        one("researcher", "research", &[], ports[0]),
        one("writer", "create_document", &["DocumentCreator"], ports[1]),
        one("mailer", "send_mail", &["Gmail", "send_email"], ports[2]),
    ]
}

fn port(peer: &Peer) -> u16 {
    peer.url.rsplit_once(':').unwrap().1.parse().unwrap()
}

async fn listed(agents: &Agents) -> Vec<Value> {
    let job = &scripted::jobs(&[graph::tool(LIST, json!({}))])[0];
    let found: Found = serde_json::from_value(agents.perform(job, &Progress::nowhere()).await.result.unwrap()).unwrap();
    found.data["agents"].as_array().unwrap().clone()
}

fn served(path: &'static str, body: Value) -> impl Fn(&str) -> Vec<u8> + Send + Sync + 'static {
    move |request| match request.starts_with(&format!("GET {path} ")) {
        true => answer("200 OK", "", &body.to_string()),
        false => answer("404 Not Found", "", ""),
    }
}

#[tokio::test]
async fn p9_agents_at_default_addresses_are_found_if_they_prove_what_they_are() {
    let ours =
        served("/agent.json", json!({ "name": "researcher", "capabilities": [{ "name": "research", "about": "finds" }, { "name": "send_mail" }] }));
    let ours = peer(ours).await;
    let foreign = peer(served("/graph/input_schema", json!({ "$ref": "#/$defs/S", "$defs": { "S": { "properties": { "messages": {} } } } }))).await;
    let silent = peer(|_| Vec::new()).await;
    let agents = Agents::new(&BTreeMap::new(), &team([Some(port(&ours)), Some(port(&foreign)), Some(port(&silent))]), &|_| None).unwrap();
    let listed_agents: Vec<Value> = listed(&agents).await.into_iter().map(|one| json!([one["agent"], one["capability"], one["address"]])).collect();
    let address = |peer: &Peer| format!("127.0.0.1:{}", port(peer));
    assert_eq!(
        listed_agents,
        [json!(["langserve/researcher", "research", address(&ours)]), json!(["langserve-once/writer", "create_document", address(&foreign)])],
        "only what each is looked for as, and nobody who does not answer"
    );
    // After a crash, an agent that may ignore the key is not called again automatically.
    let jobs = scripted::jobs(&[graph::agent("langserve/researcher", json!({})), graph::agent("langserve-once/writer", json!({}))]);
    assert_eq!((agents.repeatability(&jobs[0]), agents.repeatability(&jobs[1])), (Repeatability::Repeatable, Repeatability::Once));
    assert!(agents.perform(&jobs[1], &Progress::nowhere()).await.result.unwrap_err().message.contains("writer"), "it is called by that name");
}

#[tokio::test]
async fn p9_what_listens_at_a_default_port_and_is_no_agent_is_not_used() {
    let schema = json!({ "properties": { "text": { "type": "string" } } });
    for other in [
        served("/agent.json", json!({ "name": "x", "capabilities": [{ "name": "translate" }] })),
        served("/agent.json", json!("hello")),
        served("/graph/input_schema", schema),
        served("/mcp", json!({})),
    ] {
        let other = peer(other).await;
        let agents = Agents::new(&BTreeMap::new(), &team([Some(port(&other)), None, None]), &|_| None).unwrap();
        assert_eq!(listed(&agents).await, [Value::Null; 0], "{:?}", other.requests.lock().unwrap());
    }
    // Discovery can be switched off, and a configured agent is not looked for at default ports.
    let ours = peer(served("/agent.json", json!({ "name": "mailer", "capabilities": [{ "name": "send_mail" }] }))).await;
    for (configured, ports, expected) in [
        (json!({}), [None; 3], json!([])),
        (json!({ "mailer": {} }), [None, None, Some(port(&ours))], json!([])),
        (json!({}), [None, None, Some(port(&ours))], json!(["mailer"])),
        (json!({ "Gmail": { "url": ours.url } }), [None, None, Some(1)], json!(["Gmail"])),
    ] {
        let configured: BTreeMap<String, Agent> = serde_json::from_value(configured).unwrap();
        let agents = Agents::new(&configured, &team(ports), &|_| None).unwrap();
        let names: Vec<Value> = listed(&agents).await.into_iter().map(|one| one["name"].clone()).collect();
        assert_eq!(json!(names), expected, "{configured:?}");
    }
}

#[tokio::test]
async fn p9_the_documents_names_mean_the_agents_of_the_team() {
    // Neither is running, so neither describes itself.
    let configured: BTreeMap<String, Agent> =
        serde_json::from_value(json!({ "DocumentCreator": { "url": "http://127.0.0.1:1" }, "Gmail": { "url": "http://127.0.0.1:1" } })).unwrap();
    let agents = Agents::new(&configured, &team([None; 3]), &|_| None).unwrap();
    let listed_agents: Vec<Value> = listed(&agents).await.into_iter().map(|one| json!([one["name"], one["capability"]])).collect();
    assert_eq!(listed_agents, [json!(["DocumentCreator", "create_document"]), json!(["Gmail", "send_mail"])]);
    for variable in ["WRITER_SERVICE_URL", "DOCUMENT_CREATOR_SERVICE_URL", "DOCUMENTCREATOR_SERVICE_URL"] {
        let env = |name: &str| (name == variable).then(|| "http://127.0.0.1:1".to_owned());
        let agents = Agents::new(&BTreeMap::new(), &team([None; 3]), &env).unwrap();
        assert_eq!(agents.names(), ["writer"], "{variable}");
    }
}

#[test]
fn the_description_of_an_agent_is_short_and_visible() {
    let capability = |name: String| Capability { name, about: "a\u{200b}b".repeat(1_000) };
    let long = wire::langserve::Description {
        name: "n".repeat(10_000),
        about: "x".repeat(1 << 20),
        capabilities: (0..1_000).map(|number| capability(number.to_string())).collect(),
    };
    let short = shorten(long);
    assert_eq!((short.name.len(), short.about.len(), short.capabilities.len()), (100, 400, 20));
    assert!(short.capabilities.iter().all(|one| one.about.chars().count() == 400 && !one.about.contains('\u{200b}')));
}

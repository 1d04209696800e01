//! The hub with real processes and sockets: children that die, hang, send too much or must not be left behind.
#![allow(clippy::unwrap_used, reason = "helpers of a test are as free as the test")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use evidence::Trust;
use futures::FutureExt as _;
use graph::FailureKind;
use mcp_hub::{CallOptions, Pace, ServerConfig, ServerStatus, Tools};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp_server");

fn pace() -> Pace {
    Pace { backoff_first: Duration::from_millis(50), backoff_max: Duration::from_millis(400), beat: Duration::from_millis(200), ..Pace::default() }
}

fn hub(server: ServerConfig) -> Tools {
    Tools::builder().with_server("peer", server).with_pace(pace()).build()
}

fn within(deadline: Duration) -> CallOptions {
    CallOptions { deadline, ..CallOptions::default() }
}

async fn text(tools: &Tools, tool: &str, arguments: Value) -> String {
    tools.call(tool, &arguments, &within(Duration::from_secs(30))).await.unwrap().text
}

/// Waits for a condition. Nothing here depends on how long that takes.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn is_alive(pid: &str) -> bool {
    // A zombie is in the table too, but is inactive.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn kill(pid: &str) {
    assert!(std::process::Command::new("kill").args(["-9", pid]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_child_is_unhealthy_and_is_restarted() {
    let slow = Pace { backoff_first: Duration::from_millis(1_500), backoff_max: Duration::from_secs(3), ..pace() };
    let tools = Tools::builder().with_server("peer", ServerConfig::stdio(FIXTURE, &["--stdio"])).with_pace(slow).build();
    let first = text(&tools, "peer.pid", json!({})).await;
    let listed = tools.cached().len();
    kill(&first);
    until("down", || matches!(tools.health()[0].status, ServerStatus::Down { .. })).await;
    until("the list marks them as unhealthy", || tools.cached().iter().all(|tool| !tool.healthy)).await;
    assert_eq!(tools.cached().len(), listed, "and stays");
    let failure = tools.call("peer.pid", &json!({}), &within(Duration::from_millis(200))).await.unwrap_err();
    assert!(matches!(failure.kind, FailureKind::Network | FailureKind::InDoubt), "{failure}");
    until("up again", || matches!(tools.health()[0].status, ServerStatus::Up { .. })).await;
    let second = text(&tools, "peer.pid", json!({})).await;
    assert_ne!(first, second);
    tools.close().await;
    until("gone", || !is_alive(&second)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_of_an_exited_server_contains_its_last_stderr_line() {
    let tools = hub(ServerConfig::stdio(FIXTURE, &["--stdio"]));
    let failure = tools.call("peer.exit", &json!({}), &within(Duration::from_secs(30))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InDoubt, "{failure}");
    assert!(failure.message.contains("leaving in the middle"), "{failure}");
    // It may be up again, or not be known to be gone yet; a call on the old connection fails like the first.
    until("up again", || matches!(tools.health()[0].status, ServerStatus::Up { .. })).await;
    let mut answered = false;
    for _ in 0..200 {
        answered = tools.call("peer.echo", &json!({"text": "again"}), &within(Duration::from_secs(30))).await.is_ok();
        if answered {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(answered, "{:?}", tools.health()[0].status);
    tools.close().await;
}

/// A launcher leaves its own children behind unless the whole group is killed.
#[tokio::test(flavor = "multi_thread")]
async fn no_child_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let note = dir.path().join("sleeper");
    let script = format!("sleep 1000 & echo $! > {}; {FIXTURE} --stdio; true", note.display());
    for is_closed in [true, false] {
        let tools = hub(ServerConfig::stdio("sh", &["-c", &script]));
        let server = text(&tools, "peer.pid", json!({})).await;
        let sleeper = std::fs::read_to_string(&note).unwrap().trim().to_owned();
        assert!(is_alive(&server) && is_alive(&sleeper));
        match is_closed {
            true => tools.close().await,
            // Not waited for.
            false => drop(tools),
        }
        until("both are gone", || !is_alive(&server) && !is_alive(&sleeper)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_see_no_keys_of_ours() {
    // A variable that every build has, and that is not among those every child may see.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    let script = format!("test -z \"$CARGO_MANIFEST_DIR\" && test \"$GIVEN\" = yes && exec {FIXTURE} --stdio");
    let mut config = mcp_hub::Config::parse(
        &json!({"mcpServers": {"peer": {"command": "sh", "args": ["-c", script], "env": {"GIVEN": "yes"}}}}).to_string(),
        None,
        &|_| None,
    )
    .unwrap();
    let tools = hub(config.servers.remove("peer").unwrap());
    assert_eq!(text(&tools, "peer.echo", json!({"text": "clean"})).await, "clean");
    tools.close().await;
}

/// The fixture over HTTP, as a separate process.
struct Served {
    child: tokio::process::Child,
    address: String,
    stderr: BufReader<tokio::process::ChildStderr>,
}

async fn serve(port: u16) -> Served {
    let mut command = tokio::process::Command::new(FIXTURE);
    command.args(["--port", &port.to_string()]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).await.unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    Served { child, address: address.trim().to_owned(), stderr }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_http_server_is_unhealthy_and_is_reconnected() {
    let mut served = serve(0).await;
    let tools = hub(ServerConfig::http(served.address.as_str()));
    assert_eq!(text(&tools, "peer.echo", json!({"text": "one"})).await, "one");
    served.child.kill().await.unwrap();
    until("down", || matches!(tools.health()[0].status, ServerStatus::Down { .. })).await;
    let port: SocketAddr = served.address.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap();
    let _served = serve(port.port()).await;
    until("up again", || matches!(tools.health()[0].status, ServerStatus::Up { .. })).await;
    assert_eq!(text(&tools, "peer.echo", json!({"text": "two"})).await, "two");
    tools.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_over_http_is_cancelled_there() {
    let mut served = serve(0).await;
    let tools = hub(ServerConfig::http(served.address.as_str()));
    let failure = tools.call("peer.hang", &json!({}), &within(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InDoubt, "{failure}");
    let mut line = String::new();
    tokio::time::timeout(Duration::from_secs(30), served.stderr.read_line(&mut line)).await.unwrap().unwrap();
    assert_eq!(line.trim(), "hang was cancelled");
    assert_eq!(text(&tools, "peer.echo", json!({"text": "goes on"})).await, "goes on");
    tools.close().await;
}

const GIGABYTE: usize = 1 << 30;
/// Memory that a test may need in addition to its input.
const MEMORY_KB_MAX: u64 = 700 << 10;

/// A hand-written server: minimal replies, and a gigabyte when a tool is called.
fn answer(request: &Value) -> Option<Result<Value, ()>> {
    let result = match request["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "loud", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "shout", "inputSchema": {"type": "object"}}, {"name": "say", "inputSchema": {"type": "object"}}]}),
        "tools/call" if request["params"]["name"] == "shout" => return Some(Err(())),
        "tools/call" => json!({"content": [{"type": "text", "text": "still here"}]}),
        "ping" => json!({}),
        _ if request.get("id").is_none() => return None,
        _ => return Some(Ok(json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}}))),
    };
    Some(Ok(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})))
}

fn memory_kb_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_over_a_pipe_is_an_error_and_fills_no_memory() {
    let loud = |pipe: tokio::io::DuplexStream| {
        async move {
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let request: Value = serde_json::from_str(&line).unwrap();
                match answer(&request) {
                    None => {}
                    Some(Ok(reply)) => write.write_all(format!("{reply}\n").as_bytes()).await.unwrap(),
                    Some(Err(())) => {
                        // The id comes last, as some SDKs write it.
                        write.write_all(br#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#).await.unwrap();
                        let chunk = vec![b'x'; 1 << 16];
                        for _ in 0..GIGABYTE / chunk.len() {
                            write.write_all(&chunk).await.unwrap();
                        }
                        write.write_all(format!("\"}}]}},\"id\":{}}}\n", request["id"]).as_bytes()).await.unwrap();
                    }
                }
            }
        }
        .boxed()
    };
    let tools = Tools::builder().with_local("loud", Trust::Untrusted, loud).build();
    let failure = tools.call("loud.shout", &json!({}), &within(Duration::from_secs(120))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Limit, "{failure}");
    assert!(failure.message.contains("1073741"), "it has the size: {failure}");
    assert_eq!(text(&tools, "loud.say", json!({})).await, "still here");
    assert!(memory_kb_peak() < MEMORY_KB_MAX, "{} kB", memory_kb_peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_over_http_is_an_error_and_is_not_even_read() {
    for kind in ["application/json", "text/event-stream"] {
        let loud = move |axum::Json(request): axum::Json<Value>| async move {
            let response = axum::http::Response::builder();
            match answer(&request) {
                None => response.status(202).body(axum::body::Body::empty()).unwrap(),
                Some(Ok(reply)) => response.header("content-type", "application/json").body(axum::body::Body::from(reply.to_string())).unwrap(),
                Some(Err(())) => {
                    let begin =
                        if kind == "text/event-stream" { "data: {\"jsonrpc\":\"2.0\",\"result\":\"" } else { "{\"jsonrpc\":\"2.0\",\"result\":\"" };
                    let chunks = std::iter::once(begin.to_owned()).chain(std::iter::repeat_n("x".repeat(1 << 16), GIGABYTE >> 16));
                    let stream = futures::stream::iter(chunks.map(Ok::<_, std::io::Error>));
                    response.header("content-type", kind).body(axum::body::Body::from_stream(stream)).unwrap()
                }
            }
        };
        let router = axum::Router::new().route("/mcp", axum::routing::post(loud));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let tools = hub(ServerConfig::http(address));
        let failure = tools.call("peer.shout", &json!({}), &within(Duration::from_secs(60))).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Limit, "{kind}: {failure}");
        assert_eq!(text(&tools, "peer.say", json!({})).await, "still here");
        assert!(memory_kb_peak() < MEMORY_KB_MAX, "{} kB", memory_kb_peak());
    }
}

/// An unknown outcome after a crash can be decided before any server is up again.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_there_again_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let open = |command: &str| {
        let server = ServerConfig::stdio(command, &["--stdio"]);
        Tools::builder().with_server("peer", server).with_memory(dir.path().join("tools.json")).with_pace(pace()).build()
    };
    let tools = open(FIXTURE);
    let listed = tools.list().await.len();
    tools.close().await;
    assert_eq!(open(FIXTURE).cached().len(), listed);
    assert_eq!(open("/another/program").cached().len(), 0);
    assert!(Path::new(&dir.path().join("tools.json")).exists());
}

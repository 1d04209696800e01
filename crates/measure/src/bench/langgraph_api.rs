//! LangGraph's server API, ours and that of `langgraph dev`: the time of `/threads/{id}/runs/wait`, and of the first event of
//! `/runs/stream`.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use service::{Result, wiring};
use terminal::remark;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::protocols::{Running, round};
use super::{peer, wrong};

const PINNED: [&str; 3] = ["langgraph==1.2.20", "langgraph-sdk==0.4.14", "langgraph-cli[inmem]==0.4.40"];
const GRAPH: &str = include_str!("langgraph/api.py");
const CONFIG: &str = r#"{"dependencies": ["."], "graphs": {"graph": "./api.py:graph"}}"#;
const START_MAX: Duration = Duration::from_secs(120);
const CALL_MAX: Duration = Duration::from_secs(60);
/// Maximum number of calls of one kind in a round.
const CALLS_MAX: usize = 2_000;

/// Microseconds of each call, by row.
#[derive(Default)]
pub(super) struct Times {
    wait: Vec<u64>,
    first_event: Vec<u64>,
}

/// `langgraph dev` in a separate process.
pub(super) fn theirs(folder: &Path) -> Result<Running> {
    let python = peer::environment("bench-langgraph-dev", &PINNED)?;
    let home = folder.join("langgraph-dev");
    std::fs::create_dir_all(&home)?;
    std::fs::write(home.join("api.py"), GRAPH)?;
    std::fs::write(home.join("langgraph.json"), CONFIG)?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let mut command = Command::new(python.with_file_name("langgraph"));
    command.args(["dev", "--no-browser", "--no-reload", "--port", &port.to_string()]).current_dir(&home).env("LANGSMITH_TRACING", "false");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let running = Running { child, port };
    let until = Instant::now() + START_MAX;
    wiring::block_on(async {
        loop {
            if let Ok(true) = tokio::time::timeout(Duration::from_secs(2), is_there(port)).await {
                return Ok(running);
            }
            if Instant::now() > until {
                return Err(wrong("`langgraph dev` did not start"));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
}

async fn is_there(port: u16) -> bool {
    match TcpStream::connect(("127.0.0.1", port)).await {
        Ok(mut line) => exchange(&mut line, "GET", "/ok", "").await.is_ok_and(|(status, _)| status == 200),
        Err(_) => false,
    }
}

/// Calls one server for this long, one call after the other.
pub(super) fn measure(port: u16, load: Duration, times: &mut Times) -> Result<()> {
    wiring::block_on(async {
        let mut line = TcpStream::connect(("127.0.0.1", port)).await?;
        line.set_nodelay(true)?;
        let (status, thread) = exchange(&mut line, "POST", "/threads", "{}").await?;
        let thread: Value = serde_json::from_slice(&thread).unwrap_or_default();
        let Some(thread) = thread["thread_id"].as_str().filter(|_| status == 200) else { return Err(wrong("no thread could be made")) };
        let body = r#"{"assistant_id":"graph","input":{"x":1}}"#;
        let path = format!("/threads/{thread}/runs/wait");
        let until = Instant::now() + load;
        let mut calls = 0;
        // At least a few, however slow it is; the first one is a warm-up.
        while (Instant::now() < until || calls < 3) && calls < CALLS_MAX {
            let started = Instant::now();
            let (status, answer) = exchange(&mut line, "POST", &path, body).await?;
            let answer: Value = serde_json::from_slice(answer.trim_ascii()).unwrap_or_default();
            if status != 200 || answer["x"] != 2 {
                return Err(wrong(format!("the server answered something else than it was asked for: {status} {answer}")));
            }
            if calls > 0 {
                times.wait.push(micros(started));
            }
            calls += 1;
        }
        let until = Instant::now() + load;
        let mut calls = 0;
        while (Instant::now() < until || calls < 3) && calls < CALLS_MAX {
            let took = first_event(port, body).await?;
            if calls > 0 {
                times.first_event.push(took);
            }
            calls += 1;
        }
        Ok(())
    })
}

fn micros(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Time from the request to the first event of its stream, over its own connection.
async fn first_event(port: u16, body: &str) -> Result<u64> {
    let mut line = TcpStream::connect(("127.0.0.1", port)).await?;
    line.set_nodelay(true)?;
    let started = Instant::now();
    line.write_all(request("POST", "/runs/stream", body).as_bytes()).await?;
    let mut read = Vec::with_capacity(4 << 10);
    loop {
        let more = tokio::time::timeout(CALL_MAX, line.read_buf(&mut read)).await.map_err(|_| wrong("no event came"))??;
        if read.windows(6).any(|bytes| bytes == b"event:") {
            return Ok(micros(started));
        }
        if more == 0 {
            return Err(wrong(format!("the stream ended without an event: {}", String::from_utf8_lossy(&read))));
        }
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// One request and its response, whole or in chunks.
async fn exchange(line: &mut TcpStream, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
    line.write_all(request(method, path, body).as_bytes()).await?;
    let mut read = Vec::with_capacity(4 << 10);
    loop {
        let more = tokio::time::timeout(CALL_MAX, line.read_buf(&mut read)).await.map_err(|_| wrong("no answer came"))??;
        if more == 0 {
            return Err(wrong("the server hung up"));
        }
        let Some(head) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
        let status = text.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let rest = &read[head + 4..];
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).and_then(|length| length.trim().parse::<usize>().ok());
        match length {
            Some(length) if rest.len() >= length => return Ok((status, rest[..length].to_vec())),
            Some(_) => {}
            None => {
                if let Some(whole) = unchunked(rest) {
                    return Ok((status, whole));
                }
            }
        }
    }
}

/// The body of a chunked response, once it is complete.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim(), 16).ok()?;
        rest = rest.get(end + 2..)?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

/// The rows of the report: medians, and how many times faster ours is.
pub(super) fn rows(ours: &mut Times, theirs: Option<&mut Times>, report: &mut Map<String, Value>) {
    remark("LangGraph's rows are medians of single calls, one after the other");
    let medians = |times: &mut Times| [median_ms(&mut times.wait), median_ms(&mut times.first_event)];
    let (ours, theirs) = (medians(ours), theirs.map(medians));
    for (at, name) in ["runs_wait", "first_event"].into_iter().enumerate() {
        let (ours, theirs) = (ours[at], theirs.map(|theirs| theirs[at]));
        let row = json!({ "baton_ms": round(ours), "peer_ms": theirs.map(round), "ratio": theirs.map(|theirs| round(theirs / ours.max(0.001))) });
        report.insert(name.to_owned(), row);
    }
}

fn median_ms(times: &mut [u64]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |micros| *micros as f64 / 1e3)
}

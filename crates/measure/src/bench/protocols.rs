//! `baton bench protocols`: calls of a trivial flow per second, by protocol.
//!
//! Baton's server is this program again, over SQLite with every run on disk before it is answered; the peer is LangServe with one uvicorn
//! worker, which stores nothing. The same client loads both from this process, alternating, so that other load affects both; the best round
//! counts.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use effects::handlers::EffectHandlers;
use engine::{Engine, Settings};
use graph::{Ask, END, Go, Graph, Replies};
use serde_json::{Map, Value, json};
use server::guard::Guard;
use server::langserve::{FlowSettings, InputShape, ServedFlow, Service};
use service::Result;
use service::wiring;
use store::{SqliteSettings, SqliteStore};
use terminal::remark;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{BenchOptions, langgraph_api, peer, wrong};

/// Measure the server: calls a second of `/graph/invoke` and `/v1/chat/completions`, at 1, 16 and 64 clients, and times of LangGraph's `/runs/wait` and `/runs/stream`
#[derive(clap::Args)]
#[command(
    after_help = "Rows: invoke1, invoke16, invoke64 (LangServe), chat1, chat16, chat64 (OpenAI, with users and quotas), runs_wait, first_event (LangGraph). Baton's runs are durable: each is on the disk before it is answered.

Example:
  baton bench protocols --versus langserve,langgraph --json"
)]
pub struct ProtocolsBench {
    /// Measure peers as well, alternating, and print both
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    versus: Vec<Peer>,
    #[command(flatten)]
    how: BenchOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    Langserve,
    /// `langgraph dev`
    Langgraph,
}

const PINNED: [&str; 5] = ["langserve==0.3.3", "langgraph==1.2.20", "fastapi==0.162.4", "sse-starlette==1.8.2", "uvicorn"];
const SERVER: &str = include_str!("langserve/server.py");
const CLIENTS: [usize; 3] = [1, 16, 64];

/// The repeated call, and the expected text of its answer.
#[derive(Clone, Copy)]
struct Call {
    /// The row's name without the number of clients.
    name: &'static str,
    path: &'static str,
    body: &'static str,
    expected: &'static str,
}

const INVOKE: Call = Call { name: "invoke", path: "/graph/invoke", body: r#"{"input":{"x":1}}"#, expected: "\"x\":2" };
const CHAT: Call = Call {
    name: "chat",
    path: "/v1/chat/completions",
    body: r#"{"model":"steps","messages":[{"role":"user","content":"go"}]}"#,
    expected: "\"finish_reason\":\"stop\"",
};
const LOAD: Duration = Duration::from_secs(5);
const WARM: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Default)]
struct Measured {
    rps: f64,
    p99_ms: f64,
}

impl ProtocolsBench {
    pub(crate) fn run(self) -> Result<()> {
        let setup = self.how.setup()?;
        let place = setup.place()?;
        let load = if setup.sizes.is_quick { Duration::from_millis(200) } else { LOAD };
        let ours = Running::ours(place.path())?;
        let theirs = self.versus.contains(&Peer::Langserve).then(|| Running::theirs(place.path())).transpose()?;
        let graph_server = self.versus.contains(&Peer::Langgraph).then(|| langgraph_api::theirs(place.path())).transpose()?;
        let (mut times, mut times_beside) = (langgraph_api::Times::default(), langgraph_api::Times::default());
        let chat = Running::chat(place.path())?;
        let (mut best, mut beside) = (BTreeMap::new(), BTreeMap::new());
        for round in 1..=self.how.rounds {
            for (call, port, peer) in [(INVOKE, ours.port, theirs.as_ref()), (CHAT, chat.port, None)] {
                for clients in CLIENTS {
                    let key = (call.name, clients);
                    remark(&format!("round {round} of {}: {}{clients}", self.how.rounds, call.name));
                    keep(&mut best, key, measure(call, port, clients, load)?);
                    if let Some(peer) = peer {
                        keep(&mut beside, key, measure(call, peer.port, clients, load)?);
                    }
                }
            }
            remark(&format!("round {round} of {}: runs_wait, first_event", self.how.rounds));
            langgraph_api::measure(ours.port, load, &mut times)?;
            if let Some(graph_server) = &graph_server {
                langgraph_api::measure(graph_server.port, load, &mut times_beside)?;
            }
        }
        let mut report = Map::new();
        for (key, ours) in &best {
            let theirs = beside.get(key);
            let row = json!({
                "baton_rps": round(ours.rps),
                "peer_rps": theirs.map(|theirs| round(theirs.rps)),
                "ratio": theirs.map(|theirs| round(ours.rps / theirs.rps.max(0.001))),
                "baton_p99_ms": round(ours.p99_ms),
                "peer_p99_ms": theirs.map(|theirs| round(theirs.p99_ms)),
            });
            report.insert(format!("{}{}", key.0, key.1), row);
        }
        langgraph_api::rows(&mut times, graph_server.is_some().then_some(&mut times_beside), &mut report);
        let mut out = anstream::stdout();
        if self.how.json {
            report.insert("durability".into(), json!("baton: every run in SQLite, fsync before the answer; peer: none"));
            report.insert("host".into(), json!(setup.host()));
            report.insert("rounds".into(), json!(self.how.rounds));
            writeln!(out, "{}", Value::Object(report))?;
            return Ok(());
        }
        for (name, row) in &report {
            writeln!(out, "{name:<10} {row}")?;
        }
        writeln!(out, "Baton's runs are durable: each is on the disk before it is answered. LangServe keeps nothing.")?;
        Ok(())
    }
}

pub(super) fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn keep(best: &mut BTreeMap<(&'static str, usize), Measured>, key: (&'static str, usize), now: Measured) {
    let known = best.entry(key).or_insert(now);
    if now.rps > known.rps {
        *known = now;
    }
}

/// A server in a separate process, killed on drop.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) port: u16,
}

impl Running {
    fn ours(folder: &Path) -> Result<Running> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "child", "invoke"]).arg(folder);
        Running::of(command)
    }

    /// The server of `bench server`, which has the API's users and quotas too.
    fn chat(folder: &Path) -> Result<Running> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "server-child", "--db"]).arg(folder.join("chat.db"));
        Running::of(command)
    }

    fn theirs(folder: &Path) -> Result<Running> {
        let path = folder.join("server.py");
        std::fs::write(&path, SERVER)?;
        let mut command = Command::new(peer::environment("bench-langserve", &PINNED)?);
        command.arg(path);
        Running::of(command)
    }

    fn of(mut command: Command) -> Result<Running> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = child.stdout.take().map(|out| BufReader::new(out).lines()).into_iter().flatten();
        // One prints its port, another its address.
        let port_in = |line: String| line.rsplit([' ', ':']).next().and_then(|port| port.trim().parse().ok());
        let port = lines.map_while(std::result::Result::ok).find_map(port_in);
        let mut running = Running { child, port: 0 };
        running.port = port.ok_or_else(|| wrong("the server did not start"))?;
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The measured server, in its own process: one step, no effects.
pub(super) async fn serve(folder: &Path) -> Result<()> {
    let inc = |s: &mut Value, _: &Replies<'_>| {
        s["x"] = json!(s["x"].as_i64().unwrap_or_default() + 1);
        Go::end()
    };
    let graph = Graph::of::<Value>("inc").node("inc", (|_: &Value| Ask::nothing(), inc), &[END]).build().map_err(wrong)?;
    let store = Arc::new(SqliteStore::open(folder.join("invoke.db"), SqliteSettings::default())?);
    let engine = Engine::new(store, Arc::new(EffectHandlers::default()), [graph], Settings::default());
    let served = BTreeMap::from([(
        "graph".to_owned(),
        ServedFlow { flow: "inc".to_owned(), input_shape: InputShape::Bare, base: Map::new(), settings: FlowSettings::none("inc") },
    )]);
    let guard = Guard::new(None);
    let listener = guard.bind(([127, 0, 0, 1], 0).into()).await.map_err(wrong)?;
    writeln!(anstream::stdout(), "listening {}", listener.local_addr()?.port())?;
    // It exits with its parent.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    server::serve(listener, server::protocols(&Service::new(engine, served, None), &guard)).await?;
    Ok(())
}

fn measure(call: Call, port: u16, clients: usize, load: Duration) -> Result<Measured> {
    wiring::block_on(async {
        loaded(call, port, clients, WARM.min(load)).await?;
        loaded(call, port, clients, load).await
    })
}

/// Each client repeats its call as soon as it is answered.
async fn loaded(call: Call, port: u16, clients: usize, load: Duration) -> Result<Measured> {
    let started = Instant::now();
    let until = started + load;
    let tasks: Vec<_> = (0..clients).map(|_| tokio::spawn(client(call, port, until))).collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.map_err(wrong)??);
    }
    let took = started.elapsed().as_secs_f64();
    times.sort_unstable();
    let p99 = times.get(times.len().saturating_sub(1).min(times.len() * 99 / 100)).copied().unwrap_or_default();
    Ok(Measured { rps: times.len() as f64 / took, p99_ms: p99 as f64 / 1e3 })
}

/// Microseconds of each call.
async fn client(call: Call, port: u16, until: Instant) -> Result<Vec<u64>> {
    let Call { path, body, expected, .. } = call;
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut line = TcpStream::connect(("127.0.0.1", port)).await?;
    line.set_nodelay(true)?;
    let (mut times, mut read) = (Vec::new(), Vec::with_capacity(4 << 10));
    while Instant::now() < until {
        let started = Instant::now();
        line.write_all(request.as_bytes()).await?;
        let answer = answer(&mut line, &mut read, expected.as_bytes()).await?;
        if !answer {
            return Err(wrong("the server answered something else than it was asked for"));
        }
        times.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok(times)
}

/// Reads one response; returns whether it is the expected one.
async fn answer(line: &mut TcpStream, read: &mut Vec<u8>, expected: &[u8]) -> Result<bool> {
    read.clear();
    loop {
        if line.read_buf(read).await? == 0 {
            return Err(wrong("the server hung up"));
        }
        let Some(head) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:").and_then(|length| length.trim().parse::<usize>().ok()));
        let length = length.ok_or_else(|| wrong("a response without a length"))?;
        if read.len() >= head + 4 + length {
            let is_right = text.starts_with("http/1.1 200") && read[head + 4..].windows(expected.len()).any(|bytes| bytes == expected);
            return Ok(is_right);
        }
    }
}

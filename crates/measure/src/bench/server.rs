//! `baton bench server`: cost of a trivial run over HTTP, and of an idle watcher.
//!
//! The server is a separate process with the whole stack of `baton serve`, and limits that a `[server]` table can set ([`SERVER`]); the
//! clients are here and share its cores. A run is one step without effects, requested with `POST /api/runs?wait=1` over persistent
//! connections. Watchers follow one run that waits for a person.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::service::wiring;
use ::service::{Result, ServiceError};
use async_trait::async_trait;
use engine::Order;
use evidence::Span;
use graph::{RunId, ThreadId, UserId};
use serde_json::{Map, Value, json};
use server::api::Api;
use server::backend::{Backend, Export};
use server::guard::Guard;
use server::limits::Limits;
use server::metrics::Metrics;
use server::page::Page;
use server::problem::Problem;
use server::quota::Quota;
use server::{listen, service};
use terminal::remark;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wire::api;

use super::report::{self, Goal, Number, Numbers, Report};
use super::setup::{BenchSetup, in_memory, on_disk, replay, us_since};
use super::{BenchOptions, flow, wrong};

/// Measure the server: runs a second over HTTP, how long one takes, memory of idle watchers
#[derive(clap::Args)]
pub struct ServerBench {
    /// Concurrent connections
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Idle watchers
    #[arg(long, default_value_t = 10_000)]
    watchers: usize,
    #[command(flatten)]
    how: BenchOptions,
}

/// The measured process
#[derive(clap::Args)]
pub struct ServerChild {
    /// The database; in memory otherwise
    #[arg(long)]
    db: Option<PathBuf>,
}

/// The `[server]` table of the measured server: one client sends all requests and opens all streams.
const SERVER: [(&str, u64); 8] = [
    ("requests_per_second_max", 1_000_000),
    ("requests_burst_max", 1_000_000),
    ("requests_per_second_total_max", 1_000_000),
    ("requests_at_once_max", 100_000),
    ("runs_max", 100_000),
    ("streams_max", 100_000),
    ("streams_total_max", 100_000),
    ("connections_max", 100_000),
];

const TABLE: [Number; 7] = [
    Number { key: "durable_runs_s", what: "trivial runs over HTTP, durable", unit: "/s", aim: Goal::AtLeast(5_000.0) },
    Number { key: "durable_p50_ms", what: "… half of them within", unit: "ms", aim: Goal::None },
    Number { key: "durable_p99_ms", what: "… 99 of 100 within", unit: "ms", aim: Goal::AtMost(25.0) },
    Number { key: "memory_runs_s", what: "the same in memory", unit: "/s", aim: Goal::AtLeast(5_000.0) },
    Number { key: "memory_p50_ms", what: "… half of them within", unit: "ms", aim: Goal::None },
    Number { key: "memory_p99_ms", what: "… 99 of 100 within", unit: "ms", aim: Goal::None },
    Number { key: "watcher_kb", what: "memory of an idle watcher", unit: "kB", aim: Goal::AtMost(20.0) },
];

/// Duration of each measurement.
const FOR: Duration = Duration::from_secs(8);
const FOR_QUICK: Duration = Duration::from_millis(300);
const WATCHERS_QUICK: usize = 50;
/// Concurrent connection attempts: more than a socket's backlog would only wait.
const CONNECTING_MAX: usize = 64;

impl ServerBench {
    pub(crate) fn run(self) -> Result<()> {
        let setup = self.how.setup()?;
        let is_quick = setup.sizes.is_quick;
        let (time, watchers) = if is_quick { (FOR_QUICK, WATCHERS_QUICK.min(self.watchers)) } else { (FOR, self.watchers) };
        let (mut ours, mut replays) = (Numbers::new(), std::collections::BTreeMap::new());
        for round in 1..=self.how.rounds {
            remark(&format!("round {round} of {}: durable", self.how.rounds));
            let place = setup.place()?;
            let db = place.path().join("bench.db");
            let (run, numbers) = measured(Some(&db), self.clients, time)?;
            report::keep_best(&TABLE, &mut ours, ["durable_runs_s", "durable_p50_ms", "durable_p99_ms"].into_iter().zip(numbers));
            replays.insert("durable", wiring::block_on(async { replay(&on_disk(&db)?, &run, flow::events(1, 0)).await })?);
            remark(&format!("round {round} of {}: in memory", self.how.rounds));
            let (_, numbers) = measured(None, self.clients, time)?;
            report::keep_best(&TABLE, &mut ours, ["memory_runs_s", "memory_p50_ms", "memory_p99_ms"].into_iter().zip(numbers));
        }
        remark(&format!("{watchers} watchers"));
        report::keep_best(&TABLE, &mut ours, [("watcher_kb", watched(&setup, watchers)?)]);
        Report { table: &TABLE, ours, theirs: None, replays, host: setup.host(), rounds: self.how.rounds }.print(self.how.json)
    }
}

/// One kind of store: a run to replay, runs per second, p50 and p99 in ms.
fn measured(db: Option<&Path>, clients: usize, time: Duration) -> Result<(RunId, [f64; 3])> {
    let server = ServerProcess::start(db)?;
    let address = server.address.clone();
    let end = wiring::block_on_all_cores(async move {
        // Warm-up.
        ask_for(&address, clients, time / 8).await?;
        let begun = Instant::now();
        let (run, mut took_us) = ask_for(&address, clients, time).await?;
        let seconds = begun.elapsed().as_secs_f64();
        took_us.sort_by(f64::total_cmp);
        let at = |part: f64| took_us.get(((took_us.len() as f64 - 1.0) * part) as usize).copied().unwrap_or_default() / 1e3;
        Ok((run, [took_us.len() as f64 / seconds, at(0.5), at(0.99)]))
    });
    server.stop()?;
    end
}

async fn ask_for(address: &str, clients: usize, time: Duration) -> Result<(RunId, Vec<f64>)> {
    let until = Instant::now() + time;
    let asking = (0..clients).map(|_| tokio::spawn(client(address.to_owned(), until)));
    let (mut last, mut all) = (None, Vec::new());
    for client in asking.collect::<Vec<_>>() {
        let (run, took_us) = client.await.map_err(wrong)??;
        (last, _) = (run.or(last), all.extend(took_us));
    }
    Ok((last.ok_or_else(|| wrong("nothing was answered"))?, all))
}

/// One connection that repeats its request as soon as it is answered.
async fn client(address: String, until: Instant) -> Result<(Option<RunId>, Vec<f64>)> {
    let body = json!({ "question": "1" }).to_string();
    let request = format!(
        "POST /api/runs?wait=1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&address).await?;
    stream.set_nodelay(true)?;
    let (mut buffer, mut took_us, mut last) = (Vec::with_capacity(16 << 10), Vec::new(), None);
    while Instant::now() < until {
        let begun = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let answer = answer(&mut stream, &mut buffer).await?;
        took_us.push(us_since(begun));
        let run: Value = serde_json::from_slice(answer)?;
        if run["status"] != "done" {
            return Err(wrong(format!("a run did not end well: {run}")));
        }
        last = run["run"].as_str().map(RunId::from);
    }
    Ok((last, took_us))
}

/// The body of one response.
async fn answer<'a>(stream: &mut TcpStream, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            return Err(wrong("the server closed the line"));
        }
        let Some(head) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let headers = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let length = length.ok_or_else(|| wrong(format!("an answer without a length: {headers}")))?;
        if buffer.len() >= head + 4 + length {
            if !headers.starts_with("http/1.1 20") {
                return Err(wrong(format!("the server refused: {}", String::from_utf8_lossy(buffer))));
            }
            return Ok(&buffer[head + 4..head + 4 + length]);
        }
    }
}

/// Kilobytes of the server's memory per watcher of one run that waits for a person.
fn watched(setup: &BenchSetup, watchers: usize) -> Result<f64> {
    let place = setup.place()?;
    let server = ServerProcess::start(Some(&place.path().join("bench.db")))?;
    let address = server.address.clone();
    let end = wiring::block_on_all_cores(async {
        let body = json!({ "question": "wait", "flow": "grow" }).to_string();
        let length = body.len();
        let request =
            format!("POST /api/runs?wait=1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        let mut stream = TcpStream::connect(&address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = Vec::new();
        let started: Value = serde_json::from_slice(answer(&mut stream, &mut buffer).await?)?;
        let run = started["run"].as_str().ok_or_else(|| wrong(format!("no run: {started}")))?.to_owned();
        // The first ones create shared state.
        let first = watch(&address, &run, watchers.div_ceil(100)).await?;
        let before = server.rss_kb()?;
        let rest = watch(&address, &run, watchers).await?;
        let after = server.rss_kb()?;
        drop((first, rest));
        Ok((after - before) / watchers as f64)
    });
    server.stop()?;
    end
}

/// Opens this many watchers, each until it has received that the run waits.
async fn watch(address: &str, run: &str, count: usize) -> Result<Vec<TcpStream>> {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTING_MAX));
    let one = |(address, run): (String, String), places: Arc<tokio::sync::Semaphore>| async move {
        let _place = places.acquire_owned().await.map_err(wrong)?;
        let mut stream = TcpStream::connect(&address).await?;
        stream.write_all(format!("GET /api/runs/{run}/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes()).await?;
        let mut received = Vec::new();
        while !received.windows(10).any(|bytes| bytes == b"event: end") {
            if stream.read_buf(&mut received).await? == 0 {
                return Err(wrong(format!("a watcher was sent away: {}", String::from_utf8_lossy(&received))));
            }
        }
        Ok::<_, ServiceError>(stream)
    };
    let all: Vec<_> = (0..count).map(|_| tokio::spawn(one((address.to_owned(), run.to_owned()), places.clone()))).collect();
    let mut open = Vec::with_capacity(count);
    for watcher in all {
        open.push(watcher.await.map_err(wrong)??);
    }
    Ok(open)
}

/// The measured process, from the client's side.
struct ServerProcess {
    process: Child,
    address: String,
}

impl ServerProcess {
    fn start(db: Option<&Path>) -> Result<ServerProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "server-child"]);
        if let Some(db) = db {
            command.arg("--db").arg(db);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let address = line.trim().to_owned();
        if address.is_empty() {
            return Err(wrong("the measured server did not start"));
        }
        Ok(ServerProcess { process, address })
    }

    fn rss_kb(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let kb = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<f64>().ok());
        kb.ok_or_else(|| wrong("the server's memory cannot be seen"))
    }

    /// It exits when its standard input is closed.
    fn stop(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        match self.process.wait()? {
            status if status.success() => Ok(()),
            status => Err(wrong(format!("the measured server ended with {status}"))),
        }
    }
}

impl ServerChild {
    pub(crate) fn run(self) -> Result<()> {
        wiring::block_on_all_cores(async {
            let engine = match &self.db {
                Some(db) => on_disk(db)?,
                None => in_memory()?,
            };
            let guard = Guard::with_users(None, engine.store().clone());
            let listener = guard.bind(([127, 0, 0, 1], 0).into()).await.map_err(wrong)?;
            let address = listener.local_addr()?;
            let table = SERVER.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
            let limits = Limits::from_table(&table).map_err(wrong)?;
            let api = Api::new(engine.clone(), Arc::new(BenchBackend), guard, Quota::new(limits), Metrics::new());
            let router = service::router(&api, &Page::new(None), None, None);
            let (stop, stopped) = tokio::sync::watch::channel(false);
            tokio::spawn(listen::listen(listener, router, limits, stopped));
            println!("{address}");
            std::io::stdout().flush()?;
            tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.map_err(wrong)??;
            drop(stop);
            engine.stop(Duration::from_secs(1)).await;
            Ok(())
        })
    }
}

/// Starts trivial runs only.
struct BenchBackend;

fn nothing<T>() -> server::backend::Result<T> {
    Err(Problem::not_found("thing in a measurement"))
}

#[async_trait]
impl Backend for BenchBackend {
    fn flows(&self) -> Vec<api::Flow> {
        let name = "steps".to_owned();
        let (title, about, icon) = (name.clone(), String::new(), name.clone());
        vec![api::Flow { name, title, about, icon, can_approve: false, is_shown: true, graph: Value::Null, settings: Vec::new() }]
    }

    fn takes_history(&self, _: &str) -> bool {
        false
    }

    fn order(&self, user: &UserId, thread: &ThreadId, new_run: &api::NewRun) -> server::backend::Result<Order> {
        let (flow, input) = match new_run.flow.as_deref() {
            Some("grow") => ("grow", json!({ "left": 1, "asks": true })),
            _ => ("steps", flow::left(1)),
        };
        Ok(Order {
            context: graph::RunContext { user: user.clone(), ..graph::RunContext::default() },
            thread: Some(thread.clone()),
            title: Some(new_run.question.clone()),
            ..Order::new(flow, input)
        })
    }

    fn given(&self, _: &UserId) -> Map<String, Value> {
        Map::new()
    }

    fn chosen(&self) -> api::SelectedModel {
        api::SelectedModel { name: "nobody".into(), why: "a measurement".into() }
    }

    async fn models(&self) -> server::backend::Result<api::Models> {
        nothing()
    }

    fn preference(&self, _: &str, _: &Value) -> server::backend::Result<Option<Value>> {
        nothing()
    }

    async fn documents(&self, _: &UserId) -> server::backend::Result<api::Documents> {
        Ok(api::Documents::default())
    }

    async fn put_document(&self, _: &UserId, _: &str, _: Vec<u8>) -> server::backend::Result<api::Uploaded> {
        nothing()
    }

    async fn document(&self, _: &UserId, _: &str) -> server::backend::Result<Vec<u8>> {
        nothing()
    }

    async fn delete_document(&self, _: &UserId, _: &str) -> server::backend::Result<()> {
        nothing()
    }

    async fn excerpt(&self, _: &UserId, _: &Span) -> Option<api::Excerpt> {
        None
    }

    async fn workspace_file(&self, _: &ThreadId, _: &str) -> server::backend::Result<Vec<u8>> {
        nothing()
    }

    fn is_public(&self, address: std::net::IpAddr) -> bool {
        tools::fetch::is_public(address)
    }

    async fn thread_deleted(&self, _: &ThreadId) -> server::backend::Result<()> {
        Ok(())
    }

    async fn export(&self, _: Export) -> server::backend::Result<Vec<u8>> {
        nothing()
    }

    fn html(&self, markdown: &str) -> String {
        markdown.to_owned()
    }
}

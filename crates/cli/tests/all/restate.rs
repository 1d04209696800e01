//! Runs on a Restate server: the same flows, workers and servers killed, waits, cancelling. `lab/peers/restate` starts a database and names the program.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::permissions::TICKETS;
use crate::postgres::{Shared, question};
use crate::serve::{Event, PATIENCE, Served, event_lines};
use crate::{Home, LOOKS_UP};

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One Restate server with its data.
pub(crate) struct Restate {
    folder: tempfile::TempDir,
    ingress: u16,
    admin: u16,
    process: Running,
}

impl Restate {
    async fn start() -> Restate {
        let folder = tempfile::tempdir().unwrap();
        let (ingress, admin, node) = (free_port(), free_port(), free_port());
        let config = format!(
            "node-name = \"n1\"\ncluster-name = \"baton-lab\"\nbase-dir = {data:?}\nlisten-mode = \"tcp\"\nbind-address = \"127.0.0.1:{node}\"\n\
             advertised-address = \"http://127.0.0.1:{node}/\"\ndisable-telemetry = true\nauto-provision = true\ndefault-num-partitions = 4\n\
             rocksdb-total-memory-size = \"256.0 MiB\"\n[admin]\nbind-address = \"127.0.0.1:{admin}\"\n[ingress]\nbind-address = \"127.0.0.1:{ingress}\"\n",
            data = folder.path().join("data"),
        );
        std::fs::write(folder.path().join("restate.toml"), config).unwrap();
        let process = Restate::spawn(folder.path().join("restate.toml"));
        let restate = Restate { folder, ingress, admin, process };
        restate.ready().await;
        restate
    }

    pub(crate) fn spawn(config: PathBuf) -> Running {
        let program = std::env::var("BATON_RESTATE_SERVER").expect("`lab/peers/restate` names a Restate server and runs this");
        let log = std::fs::File::create(config.with_file_name("server.log")).unwrap();
        let mut command = Command::new(program);
        command.arg("-c").arg(config).arg("--no-logo").env("DO_NOT_TRACK", "1").stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap())
    }

    async fn ready(&self) {
        let begun = Instant::now();
        for url in [format!("http://127.0.0.1:{}/health", self.admin), format!("http://127.0.0.1:{}/restate/health", self.ingress)] {
            while !reqwest::get(&url).await.is_ok_and(|response| response.status().is_success()) {
                assert!(begun.elapsed() < PATIENCE, "the Restate server does not start");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub(crate) async fn kill_and_restart(&mut self) {
        self.process.kill();
        self.process = Restate::spawn(self.folder.path().join("restate.toml"));
        self.ready().await;
    }

    fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin)
    }

    fn ingress_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ingress)
    }

    async fn query(&self, sql: &str) -> Vec<Value> {
        let request = reqwest::Client::new().post(format!("{}/query", self.admin_url())).header("accept", "application/json");
        let reply: Value = request.json(&json!({ "query": sql })).send().await.unwrap().json().await.unwrap();
        reply["rows"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
    }

    /// Invocations of a service that have not ended.
    async fn unfinished(&self, service: &str) -> Vec<Value> {
        self.query(&format!("select id, status from sys_invocation where target_service_name = '{service}' and status != 'completed'")).await
    }

    async fn until_idle(&self) {
        let begun = Instant::now();
        loop {
            let left = [self.unfinished("BatonThread").await, self.unfinished("BatonEffect").await].concat();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{left:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A Restate server, a database, and programs of ours that use both.
pub(crate) struct Cluster {
    pub(crate) shared: Shared,
    pub(crate) restate: Restate,
    worker_port: u16,
}

/// Without a script, real models and tools.
fn play(command: &mut Command, script: &str) {
    match script {
        "" => command.env_remove("BATON_SCRIPT"),
        script => command.env("BATON_SCRIPT", script),
    };
}

pub(crate) fn worker(shared: &Shared, admin: &str, port: u16, script: &str, more: &[&str]) -> Running {
    let listen = format!("127.0.0.1:{port}");
    let log = shared.home.db().with_file_name(format!("worker-{}.log", free_port()));
    let mut command = shared.command(&["worker", "--restate", admin, "--listen", &listen, "--json"]);
    command.args(more).env("BATON_LOG", "info").env("HERE_KEY", "key").stderr(std::fs::File::create(log).unwrap());
    play(&mut command, script);
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("registered"), "{line:?}");
    Running(process)
}

pub(crate) fn server(shared: &Shared, ingress: &str, script: &str, more: &[&str]) -> Served {
    let mut command = shared.command(&["serve", "--port", "0", "--json", "--engine", "restate", "--restate", ingress]);
    command.args(more).env("HERE_KEY", "key").stderr(Stdio::null());
    play(&mut command, script);
    shared.home.started(&mut command)
}

impl Cluster {
    pub(crate) async fn new() -> Cluster {
        Cluster { shared: Shared::new().await, restate: Restate::start().await, worker_port: free_port() }
    }

    pub(crate) fn worker_with(&self, script: &str, more: &[&str]) -> Running {
        worker(&self.shared, &self.restate.admin_url(), self.worker_port, script, more)
    }

    fn worker(&self, script: &str) -> Running {
        self.worker_with(script, &[])
    }

    pub(crate) fn server_with(&self, script: &str, more: &[&str]) -> Served {
        server(&self.shared, &self.restate.ingress_url(), script, more)
    }

    fn server(&self, script: &str) -> Served {
        self.server_with(script, &[])
    }
}

/// Waits for a run without a stream, which a restart of something would cut.
pub(crate) async fn until_done(server: &Served, run: &str) -> Value {
    until(server, run, "done").await
}

async fn until(server: &Served, run: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let row = server.get(&format!("/api/runs/{run}")).await.1;
        if row["status"] == status {
            return row;
        }
        assert!(begun.elapsed() < PATIENCE, "{row}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The events of a run, without ids, keys and times.
fn essence(events: &[Event]) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for name in ["run", "thread", "at_ms", "took_us", "elapsed_us", "key", "parent", "path", "created_ms", "updated_ms", "about"] {
                    fields.remove(name);
                }
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let published = events.iter().filter(|event| event.event == "told");
    published
        .map(|event| {
            let mut data = event.data.clone();
            strip(&mut data);
            data
        })
        .collect()
}

/// Effects of one step end in any order, on every engine; and how long a retry waits depends on the id of the run.
fn unordered(events: Vec<Value>) -> Vec<String> {
    let one = |mut event: Value| {
        if let Value::Object(fields) = &mut event {
            for name in ["seq", "again_ms", "after_ms"] {
                fields.remove(name);
            }
        }
        event.to_string()
    };
    let mut all: Vec<String> = events.into_iter().map(one).collect();
    all.sort();
    all
}

async fn events_and_answer(server: &Served, body: &Value) -> (Vec<Value>, Value) {
    let (run, thread) = server.start(body).await;
    let events = server.events(&run, None, |event| event.event == "end").await;
    let messages: Vec<Value> = server.get(&format!("/api/threads/{thread}")).await.1["messages"].as_array().unwrap().clone();
    let contents = messages.iter().map(|message| json!([message["role"], message["content"]])).collect();
    (essence(&events), contents)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn flows_end_as_on_the_embedded_engine_with_the_same_events() {
    let cluster = Cluster::new().await;
    let script = cluster.shared.home.script(LOOKS_UP);
    let (_worker, server) = (cluster.worker(&script), cluster.server(&script));
    let embedded_home = Home::new();
    let embedded = embedded_home.serve(&script, &[]);
    for flow in ["search", "reason", "direct", "auto"] {
        let body = json!({ "question": "What happens after a crash?", "flow": flow });
        let (ours, theirs) = (events_and_answer(&server, &body).await, events_and_answer(&embedded, &body).await);
        assert!(ours.0.len() > 2, "{flow}: {ours:?}");
        assert_eq!(ours.1, theirs.1, "{flow}");
        assert_eq!(unordered(ours.0), unordered(theirs.0), "{flow}");
    }
    // A parent with a child run, under the sample script.
    let (cluster_sample, embedded_sample) = (Cluster::new().await, Home::new());
    let (_worker, server) = (cluster_sample.worker("sample"), cluster_sample.server("sample"));
    let embedded = embedded_sample.serve("sample", &[]);
    let (ours, theirs) = (events_and_answer(&server, &question()).await, events_and_answer(&embedded, &question()).await);
    assert_eq!(ours.1, theirs.1);
    assert_eq!(unordered(ours.0), unordered(theirs.0));
    assert_eq!(cluster_sample.shared.home.changes("notes.append"), 1);
    // One effect, one invocation; and none of them is left.
    cluster_sample.restate.until_idle().await;
    let effects = cluster_sample.restate.query("select id from sys_invocation where target_service_name = 'BatonEffect'").await.len();
    assert!(effects >= 2, "{effects} calls");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn workers_and_the_server_are_killed_and_nothing_is_lost_or_done_twice() {
    let kills: u64 = if std::env::var_os("BATON_SCALE").is_some() { 40 } else { 6 };
    let mut cluster = Cluster::new().await;
    let steady = cluster.shared.script("steady.script", "when tool notes.append reply {\"n\": 1} checkable after 60ms");
    // Two workers share a port, so that one is there while the other is not.
    let mut workers = [cluster.worker(&steady), cluster.worker(&steady)];
    let server = cluster.server(&steady);
    let mut runs = Vec::new();
    let mut dice: u64 = 20_261_116;
    for round in 0..kills {
        for _ in 0..3 {
            runs.push(server.start(&question()).await.0);
        }
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis((dice >> 33) % 300)).await;
        if round % 3 == 2 {
            cluster.restate.kill_and_restart().await;
        } else {
            let victim = (round % 2) as usize;
            workers[victim].kill();
            workers[victim] = cluster.worker(&steady);
        }
    }
    for run in &runs {
        until_done(&server, run).await;
    }
    assert_eq!(cluster.shared.home.changes("notes.append"), runs.len(), "each run adds its note once");
    for run in &runs {
        assert!(cluster.shared.well(&["runs", "replay", run]).out.starts_with("the same"));
    }
    cluster.restate.until_idle().await;
    println!("{kills} kills, {} runs, each ended and each note is there once", runs.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn a_killed_worker_is_replaced_and_a_watcher_continues_from_the_same_event() {
    let cluster = Cluster::new().await;
    let slow = cluster.shared.script("slow.script", "when model answer reply \"late\" after 600s");
    let mut first = cluster.worker(&slow);
    let server = cluster.server("sample");
    let (run, _) = server.start(&question()).await;
    let is_waiting = |event: &Event| event.data["event"] == "asked" && event.data["effect"]["call_model"]["purpose"] == "answer";
    let before = server.events(&run, None, is_waiting).await;
    assert!(before.last().is_some_and(is_waiting), "{before:?}");
    let cursor = before.iter().rev().find_map(|event| event.id.clone());
    first.kill();
    let begun = Instant::now();
    let _second = cluster.worker("sample");
    let after = server.events(&run, cursor.as_deref(), |event| event.event == "end").await;
    println!("the run ended {} ms after another worker was started", begun.elapsed().as_millis());
    assert_eq!(server.get(&format!("/api/runs/{run}")).await.1["status"], "done");
    let all = event_lines(&server.events(&run, None, |event| event.event == "end").await);
    let seen: Vec<String> = event_lines(&before).into_iter().chain(event_lines(&after)).collect();
    assert_eq!(seen, all, "none twice, none missing");
    assert_eq!(cluster.shared.home.changes("notes.append"), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn a_wait_for_a_person_ends_the_invocation_and_an_answer_is_a_new_one() {
    let cluster = Cluster::new().await;
    let script = cluster.shared.home.script(TICKETS);
    let (mut worker, server) = (cluster.worker(&script), cluster.server(&script));
    let (run, _) = server.start(&json!({ "question": "Close ticket 7", "flow": "search" })).await;
    until(&server, &run, "asking").await;
    cluster.restate.until_idle().await;
    let before = cluster.restate.query("select id from sys_invocation where target_service_name = 'BatonThread'").await.len();
    // No process is needed while a run waits for a person.
    worker.kill();
    let row = server.get(&format!("/api/runs/{run}")).await.1;
    let asked = &row["waiting"][0];
    let answer = |value: Value| json!({ "task": asked["task"], "attempt": asked["attempt"], "value": value });
    let path = format!("/api/runs/{run}/answer");
    let refused = server.post(&path, &answer(json!({ "allow": "perhaps" }))).await;
    assert!((400..500).contains(&refused.0), "{refused:?}");
    let taken = server.post(&path, &answer(json!({ "allow": "once" }))).await;
    assert!((200..300).contains(&taken.0), "{taken:?}");
    let _worker = cluster.worker(&script);
    until_done(&server, &run).await;
    assert_eq!(cluster.shared.home.changes("tickets.close"), 1);
    let after = cluster.restate.query("select id from sys_invocation where target_service_name = 'BatonThread'").await.len();
    assert!(after > before, "{after} invocations, {before} before the answer");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn cancelling_reaches_a_call_in_flight() {
    let cluster = Cluster::new().await;
    let slow = cluster.shared.script("slow.script", "when model answer reply \"late\" after 600s");
    let (_worker, server) = (cluster.worker(&slow), cluster.server(&slow));
    let (run, _) = server.start(&question()).await;
    let is_waiting = |event: &Event| event.data["event"] == "asked" && event.data["effect"]["call_model"]["purpose"] == "answer";
    server.events(&run, None, is_waiting).await;
    let begun = Instant::now();
    while cluster.restate.unfinished("BatonEffect").await.is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let cancelled = server.request(Method::POST, &format!("/api/runs/{run}/cancel")).json(&json!({})).send().await.unwrap();
    assert!(cancelled.status().is_success(), "{cancelled:?}");
    let begun = Instant::now();
    until(&server, &run, "cancelled").await;
    cluster.restate.until_idle().await;
    println!("nothing was in flight {} ms after the cancellation", begun.elapsed().as_millis());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn text_reaches_a_page_while_it_is_generated() {
    let cluster = Cluster::new().await;
    let script = cluster.shared.home.script(LOOKS_UP);
    let (_worker, server) = (cluster.worker(&script), cluster.server(&script));
    let (run, _) = server.start(&json!({ "question": "What happens after a crash?", "flow": "direct" })).await;
    let events = server.events(&run, None, |event| event.event == "end").await;
    let kinds: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    assert!(kinds.contains(&"delta"), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn wrong_addresses_and_unsigned_requests_are_refused() {
    let cluster = Cluster::new().await;
    let key = "publickeyv1_ChjENKeMvCtRnqG2mrBK1HmPKufgFUc98K8B3ononQvp";
    let (admin, ingress) = (cluster.restate.admin_url(), cluster.restate.ingress_url());
    cluster.shared.baton(&["worker", "--restate", "restate"]).complains(2, &["http://HOST:PORT"]);
    cluster.shared.baton(&["worker", "--restate", &admin, "--identity-key", "nonsense"]).complains(2, &["publickeyv1_"]);
    cluster.shared.baton(&["worker", "--restate", &admin, "--listen", "0.0.0.0:0"]).complains(2, &["--identity-key"]);
    cluster.shared.baton(&["worker", "--restate", &ingress, "--listen", "127.0.0.1:0"]).complains(1, &["admin API"]);
    cluster.shared.baton(&["serve", "--engine", "restate"]).complains(2, &["--restate"]);
    // This server signs nothing, so it cannot be the one whose key the worker has.
    let listen = format!("127.0.0.1:{}", cluster.worker_port);
    let refused = cluster.shared.baton(&["worker", "--restate", &admin, "--listen", &listen, "--identity-key", key]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("401") || refused.err.contains("not signed"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn the_bench_measures_steps_beside_bare_calls_and_leaves_nothing_behind() {
    let cluster = Cluster::new().await;
    let (admin, ingress) = (cluster.restate.admin_url(), cluster.restate.ingress_url());
    let bench = [
        "bench",
        "scale",
        "--quick",
        "--json",
        "--rounds",
        "1",
        "--threads",
        "100",
        "--together",
        "4",
        "--restate",
        &ingress,
        "--restate-admin",
        &admin,
    ];
    // Twice: the first one has removed its worker.
    for _ in 0..2 {
        let object = cluster.shared.well(&bench).lines().remove(0);
        for key in ["bare_call_us", "bare_calls_per_s", "step_us", "steps_per_s", "ratio_to_bare"] {
            assert!(object["stores"]["restate"][key].as_f64().is_some_and(|number| number > 0.0), "{key}: {object}");
        }
        assert!(object["stores"]["postgres"]["ratio_to_bare"].as_f64().is_some_and(|number| number > 0.0), "{object}");
    }
    let _worker = cluster.worker("sample");
    cluster.shared.baton(&bench).complains(2, &["has a worker already"]);
}

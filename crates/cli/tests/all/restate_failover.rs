//! What a failover on Restate costs: model calls that were answered, and a cluster of which one server is killed.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Json;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};

use crate::postgres::{Shared, question};
use crate::restate::{Cluster, Restate, Running, free_port, until_done};
use crate::serve::PATIENCE;

/// A model that takes its time, and counts the answers that it handed over for each idempotency key.
#[derive(Clone, Default)]
struct CountingModel(Arc<Mutex<BTreeMap<String, u32>>>);

impl CountingModel {
    async fn serve(&self) -> String {
        let answered = self.0.clone();
        let answer = move |headers: HeaderMap, Json(asked): Json<Value>| {
            let answered = answered.clone();
            async move {
                let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).expect("every call has its key").to_owned();
                tokio::time::sleep(Duration::from_millis(150)).await;
                *answered.lock().unwrap().entry(key).or_default() += 1;
                model_reply(asked["stream"] == true)
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        url
    }
}

/// A reply of OpenAI's API, streamed or not.
fn model_reply(is_streamed: bool) -> ([(&'static str, &'static str); 1], String) {
    let message = json!({ "role": "assistant", "content": "A log that is written first." });
    if !is_streamed {
        let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
        return (
            [("content-type", "application/json")],
            json!({ "id": "x", "object": "chat.completion", "model": "small", "choices": choices }).to_string(),
        );
    }
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        format!("data: {}\n\n", json!({ "id": "x", "object": "chat.completion.chunk", "model": "small", "choices": choices }))
    };
    ([("content-type", "text/event-stream")], format!("{}{}data: [DONE]\n\n", chunk(message, Value::Null), chunk(json!({}), json!("stop"))))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn an_answered_model_call_is_not_paid_for_again_when_the_restate_server_is_killed() {
    let mut cluster = Cluster::new().await;
    let counted = CountingModel::default();
    let config = cluster.shared.home.db().with_file_name("model.toml");
    let text = format!("model = \"compat/here/small\"\n[endpoints.here]\nurl = \"{}/v1\"\nkey = {{ env = \"HERE_KEY\" }}\n", counted.serve().await);
    std::fs::write(&config, text).unwrap();
    let more = ["--config", config.to_str().unwrap()];
    let _worker = cluster.worker_with("", &more);
    let server = cluster.server_with("", &more);
    let mut runs = Vec::new();
    for round in 0..4 {
        for n in 0..3 {
            let body = json!({ "question": format!("What is a write-ahead log, number {round}.{n}?"), "flow": "direct" });
            runs.push(server.start(&body).await.0);
        }
        // At different moments of the calls: before, while and after they are answered.
        tokio::time::sleep(Duration::from_millis(60 * round)).await;
        cluster.restate.kill_and_restart().await;
    }
    for run in &runs {
        until_done(&server, run).await;
    }
    let answered = counted.0.lock().unwrap().clone();
    println!("{} runs, {} model calls, the server was killed 4 times", runs.len(), answered.len());
    assert!(answered.len() >= runs.len(), "{answered:?}");
    let twice: Vec<_> = answered.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "paid twice: {twice:?}");
}

/// Three servers on loopback, with replication 2.
struct ThreeServers {
    _folder: tempfile::TempDir,
    servers: Vec<Running>,
    ingress: Vec<u16>,
    admin: Vec<u16>,
}

impl ThreeServers {
    async fn start(restatectl: &str) -> ThreeServers {
        let folder = tempfile::tempdir().unwrap();
        let ports = || -> Vec<u16> { (0..3).map(|_| free_port()).collect() };
        let (ingress, admin, node) = (ports(), ports(), ports());
        let addresses: Vec<String> = node.iter().map(|port| format!("\"http://127.0.0.1:{port}/\"")).collect();
        let mut servers = Vec::new();
        for n in 0..3 {
            let place = folder.path().join(format!("n{n}"));
            std::fs::create_dir(&place).unwrap();
            let config = format!(
                "node-name = \"n{n}\"\ncluster-name = \"baton-lab\"\nbase-dir = {data:?}\nlisten-mode = \"tcp\"\nbind-address = \"127.0.0.1:{node}\"\n\
                 advertised-address = \"http://127.0.0.1:{node}/\"\nroles = [\"http-ingress\", \"admin\", \"worker\", \"log-server\", \"metadata-server\"]\n\
                 disable-telemetry = true\nauto-provision = false\ndefault-replication = 2\ndefault-num-partitions = 6\nrocksdb-total-memory-size = \"256.0 MiB\"\n\
                 [metadata-client]\ntype = \"replicated\"\naddresses = [{all}]\n[bifrost]\ndefault-provider = \"replicated\"\n\
                 [admin]\nbind-address = \"127.0.0.1:{admin}\"\n[ingress]\nbind-address = \"127.0.0.1:{ingress}\"\n",
                data = place.join("data"),
                node = node[n],
                all = addresses.join(", "),
                admin = admin[n],
                ingress = ingress[n],
            );
            std::fs::write(place.join("restate.toml"), config).unwrap();
            servers.push(Restate::spawn(place.join("restate.toml")));
        }
        let started = Instant::now();
        let address = format!("http://127.0.0.1:{}", node[0]);
        let provision = || {
            let mut command = Command::new(restatectl);
            command.args(["-s", &address, "provision", "--yes", "--replication", "2", "--num-partitions", "6"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        while !provision() {
            assert!(started.elapsed() < PATIENCE, "the cluster cannot be provisioned");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        for port in &ingress {
            while !reqwest::get(format!("http://127.0.0.1:{port}/restate/health")).await.is_ok_and(|response| response.status().is_success()) {
                assert!(started.elapsed() < PATIENCE, "a server of the cluster does not start");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        ThreeServers { _folder: folder, servers, ingress, admin }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Restate: lab/peers/restate"]
async fn a_cluster_loses_a_server_and_a_worker_and_every_run_ends() {
    let Ok(restatectl) = std::env::var("BATON_RESTATECTL") else { return println!("not run: BATON_RESTATECTL names no restatectl") };
    if std::env::var_os("BATON_SCALE").is_none() {
        return println!("not run: lab/peers/restate --scale");
    }
    let shared = Shared::new().await;
    let mut three = ThreeServers::start(&restatectl).await;
    let steady = shared.script("steady.script", "when tool notes.append reply {\"n\": 1} checkable after 200ms");
    let worker_port = free_port();
    let worker = |admin: u16| crate::restate::worker(&shared, &format!("http://127.0.0.1:{admin}"), worker_port, &steady, &[]);
    let mut workers = [worker(three.admin[0]), worker(three.admin[0])];
    let server = crate::restate::server(&shared, &format!("http://127.0.0.1:{}", three.ingress[0]), &steady, &[]);
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(server.start(&question()).await.0);
    }
    three.servers[2].kill();
    for _ in 0..10 {
        runs.push(server.start(&question()).await.0);
    }
    workers[0].kill();
    for _ in 0..10 {
        runs.push(server.start(&question()).await.0);
    }
    for run in &runs {
        until_done(&server, run).await;
    }
    assert_eq!(shared.home.changes("notes.append"), runs.len(), "each run adds its note once");
    println!("{} runs ended; one of three servers and one of two workers were killed", runs.len());
}

//! LangServe clients at the server of the page: the same flows, users and limits.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::serve::{PATIENCE, Served, send};
use crate::serve_hostile::token;
use crate::{Home, LOOKS_UP};

/// A question that the script answers slowly, and one that it answers immediately.
const SLOW: &str = "when model answer text~patience reply \"At last.\" after 600000ms\n";

fn state(text: &str) -> Value {
    json!({ "messages": [{ "type": "human", "content": text }], "next": "", "context": { "tone": "dry" } })
}

fn invoke(text: &str) -> Value {
    json!({ "input": state(text), "config": {}, "kwargs": {} })
}

impl Served {
    async fn invoked(&self, token: &str, path: &str, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = self.request(Method::POST, path).json(body);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_the_server_of_the_page_supports_langserve_too() {
    let home = Home::new();
    let served = home.serve(&home.script(&format!("when model route reply {{\"flow\": \"direct\"}}\n{LOOKS_UP}")), &[]);
    for path in ["/graph/invoke", "/direct/invoke", "/search/invoke"] {
        let (status, body) = served.invoked("", path, &invoke("What happens after a crash?"), &[]).await;
        let output = &body["output"];
        assert_eq!((status, &output["next"], &output["context"]["tone"]), (200, &json!("FINISH"), &json!("dry")), "{path}: {body}");
        let answer = output["messages"][1]["content"].as_str().unwrap();
        assert!(output["messages"][1]["type"] == "ai" && answer.starts_with("After a crash the log is replayed"), "{path}: {body}");
        // It is an ordinary run, also for the page.
        let run = body["metadata"]["run_id"].as_str().unwrap().replace('-', "");
        let (status, row) = served.get(&format!("/api/runs/{run}")).await;
        assert_eq!((status, row["status"].as_str()), (200, Some("done")), "{path}: {row}");
    }
    let (status, batch) = served.invoked("", "/direct/batch", &json!({ "inputs": ["a crash?", "a crash!"] }), &[]).await;
    assert_eq!((status, batch["output"].as_array().map(Vec::len)), (200, Some(2)), "{batch}");
    let (status, stream) = served.invoked("", "/graph/stream", &invoke("What happens after a crash?"), &[]).await;
    assert!(status == 200 && stream.as_str().unwrap().contains("event: end"), "{stream}");
    assert_eq!(served.get("/graph/input_schema").await.1["title"], "autoInput");
    assert!(served.get("/metrics").await.1.as_str().unwrap().contains("flow=\"auto\""), "its runs are counted");

    // Other routes still work, and errors have LangServe's form.
    for (path, expected) in [("/", 200), ("/api/status", 200), ("/healthz", 200), ("/assets/nothing.js", 404), ("/graph", 404)] {
        assert_eq!(served.get(path).await.0, expected, "{path}");
    }
    for (path, body, expected) in [
        ("/api/invoke", invoke("x"), 404),
        ("/nothing/invoke", invoke("x"), 404),
        ("/graph/invoke", json!({ "input": { "messages": 3 } }), 422),
        ("/graph/invoke", json!({ "input": "x".repeat(5 << 20) }), 413),
        ("/graph/invoke", json!({ "input": state("x"), "config": { "configurable": { "thread_id": "a\u{7}b" } } }), 422),
    ] {
        let (status, reply) = served.invoked("", path, &body, &[]).await;
        assert!(status == expected && !reply["detail"].is_null(), "{path}: {status} {reply}");
    }
    let form = served.request(Method::POST, "/graph/invoke").header("content-type", "text/plain").body(invoke("x").to_string());
    assert_eq!(send(form).await.0, 415);
    let elsewhere = [("origin", "https://evil.example")];
    assert_eq!(served.invoked("", "/graph/invoke", &invoke("x"), &elsewhere).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_runs_over_langserve_belong_to_who_has_the_token() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    for path in ["/graph/invoke", "/graph/stream", "/graph/batch"] {
        assert_eq!(served.invoked("", path, &invoke("x"), &[]).await.0, 401, "{path}");
    }
    let mut body = invoke("What happens after a crash?");
    body["config"] = json!({ "configurable": { "thread_id": "ours" } });
    let key = [("idempotency-key", "k-1")];
    let (status, first) = served.invoked(&ada, "/direct/invoke", &body, &key).await;
    assert_eq!(status, 200, "{first}");
    let (_, again) = served.invoked(&ada, "/direct/invoke", &body, &key).await;
    assert_eq!(again["metadata"], first["metadata"], "a key is a run");
    // Bob's "ours" is a different thread: nothing reveals that Ada uses the name too.
    let (status, own) = served.invoked(&bob, "/direct/invoke", &body, &key).await;
    assert!(status == 200 && own["metadata"] != first["metadata"], "{own}");
    let (status, other) = served.invoked(&bob, "/direct/invoke", &invoke("What happens after a crash?"), &key).await;
    assert!(status == 200 && other["metadata"] != first["metadata"], "the same key of another user is another run: {other}");
    let runs = |token: String| async { send(served.request(Method::GET, "/api/runs").bearer_auth(token)).await.1["runs"].as_array().unwrap().len() };
    assert_eq!((runs(ada).await, runs(bob).await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_runs_over_langserve_count_among_those_of_their_user() {
    const RUNS_MAX: usize = 32;
    let home = Home::new();
    let served = home.serve(&home.script(&format!("{SLOW}{LOOKS_UP}")), &[]);
    let slow = invoke("Have patience.");
    // They continue without a client: a caller that disconnected keeps its slot.
    for _ in 0..RUNS_MAX {
        let response = served.request(Method::POST, "/direct/stream").json(&slow).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
    let refused = served.request(Method::POST, "/direct/invoke").json(&invoke("a crash?")).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "2"));
    assert_eq!(served.invoked("", "/direct/stream", &slow, &[]).await.0, 429);
    assert_eq!(served.post("/api/runs", &json!({ "question": "a crash?", "flow": "direct" })).await.0, 429, "they are the same places");
    // A batch waits for slots.
    let batch = served.request(Method::POST, "/direct/batch").json(&json!({ "inputs": ["a crash?", "a crash!", "crashes"] }));
    let batch = tokio::spawn(send(batch));
    // A stream starts before its run is in the database.
    let started = Instant::now();
    let running = loop {
        let (_, running) = served.get("/api/runs?status=running").await;
        match running["runs"].as_array().unwrap() {
            all if all.len() == RUNS_MAX => break all.clone(),
            few => assert!(few.len() < RUNS_MAX && started.elapsed() < PATIENCE, "{} are going", few.len()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let (status, _) = served.post(&format!("/api/runs/{}/cancel", running[0]["run"].as_str().unwrap()), &json!({})).await;
    assert_eq!(status, 202);
    let (status, reply) = batch.await.unwrap();
    assert_eq!((status, reply["output"].as_array().map(Vec::len)), (200, Some(3)), "{reply}");
}

//! A client of the server: random acts in a row.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::tally::Tally;
use crate::sim::dice::Dice;

/// Longer than anything takes here, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two acts, in milliseconds, so that all clients together stay within one user's quota.
const THINKING_MS: (u64, u64) = (50, 400);
const THREADS_MAX: usize = 5;
const QUESTION: &str = "What happens after a crash?";

pub(super) struct Client {
    http: reqwest::Client,
    url: String,
    tally: Arc<Tally>,
    dice: Dice,
    number: u64,
    count: u64,
    /// This client's threads, with a finished run of each; the oldest is deleted first.
    threads: Vec<(String, String)>,
    stop: watch::Receiver<bool>,
}

/// The acts, with their weights.
#[derive(Clone, Copy)]
enum Act {
    Ask,
    AskAgainInThread,
    AskTwiceWithOneKey,
    Watch,
    WatchLeaveAndResume,
    Query,
    Approve,
    ApproveChanged,
    Reject,
    CancelAsking,
    CancelGoing,
    Fork,
    Lists,
    Search,
    Page,
    Documents,
    Exports,
    Feed,
    Nonsense,
    HalfClosed,
    NewLine,
}

const ACTS: [(Act, u64); 21] = [
    (Act::Ask, 10),
    (Act::AskAgainInThread, 6),
    (Act::AskTwiceWithOneKey, 2),
    (Act::Watch, 8),
    (Act::WatchLeaveAndResume, 8),
    (Act::Query, 6),
    (Act::Approve, 5),
    (Act::ApproveChanged, 5),
    (Act::Reject, 2),
    (Act::CancelAsking, 3),
    (Act::CancelGoing, 5),
    (Act::Fork, 4),
    (Act::Lists, 8),
    (Act::Search, 5),
    (Act::Page, 2),
    (Act::Documents, 3),
    (Act::Exports, 4),
    (Act::Feed, 2),
    (Act::Nonsense, 5),
    (Act::HalfClosed, 5),
    (Act::NewLine, 2),
];

/// One event of a stream.
struct StreamEvent {
    id: Option<String>,
    event: String,
    data: Value,
}

impl StreamEvent {
    /// The run has ended, and is not only waiting.
    fn is_over(&self) -> bool {
        self.event == "end" && matches!(self.data["status"].as_str(), Some("done" | "failed" | "cancelled"))
    }
}

impl Client {
    pub(super) fn new(url: &str, seed: u64, number: u64, tally: Arc<Tally>, stop: watch::Receiver<bool>) -> Client {
        let dice = Dice::new(&[seed, number]);
        Client { http: http(), url: url.to_owned(), tally, dice, number, count: 0, threads: Vec::new(), stop }
    }

    pub(super) async fn go(mut self) {
        let weights: u64 = ACTS.iter().map(|(_, weight)| weight).sum();
        while !*self.stop.borrow() {
            let mut at = self.dice.below(weights);
            let found = ACTS.iter().find(|(_, weight)| {
                let is_this = at < *weight;
                at = at.saturating_sub(*weight);
                is_this
            });
            if let Some((act, _)) = found {
                self.act(*act).await;
            }
            self.tidy(THREADS_MAX).await;
            let (least, most) = THINKING_MS;
            tokio::time::sleep(Duration::from_millis(least + self.dice.below(most - least))).await;
        }
        self.tidy(0).await;
    }

    pub(super) async fn every_act_once(mut self) {
        for (act, _) in ACTS {
            self.act(act).await;
        }
        self.tidy(0).await;
    }

    /// `None` when it did not work out; problems are in the tally by then.
    async fn act(&mut self, act: Act) -> Option<()> {
        match act {
            Act::Ask => {
                let run =
                    self.call("ask", Method::POST, "/api/runs?wait=1", Some(&json!({ "question": QUESTION, "flow": "search" })), &[201]).await?;
                self.is_done("ask", &run)
            }
            Act::AskAgainInThread => {
                let (thread, _) = self.thread().await?;
                let body = json!({ "question": "And what happens then?", "flow": "direct", "thread": thread });
                let run = self.call("ask in a thread", Method::POST, "/api/runs?wait=1", Some(&body), &[201]).await?;
                self.is("ask in a thread", run["status"] == "done", &run)
            }
            Act::AskTwiceWithOneKey => self.twice().await,
            Act::Watch => {
                let (run, thread) = self.start("watch", &json!({ "question": QUESTION, "flow": "search" })).await?;
                let events = self.listen("watch", &run, None, StreamEvent::is_over).await?;
                self.threads.push((thread, run));
                self.ended("watch", &events, "done")
            }
            Act::WatchLeaveAndResume => self.leave_and_resume().await,
            Act::Query => {
                let body = json!({ "query": "What is a relay baton?", "thread": "new" });
                let answer = self.call("query", Method::POST, "/api/query", Some(&body), &[200]).await?;
                self.threads.push((word(&answer["thread"]), word(&answer["run"])));
                self.is("query", answer["intent"] == "search", &answer)
            }
            Act::Approve => self.approve("approve", |_| {}).await,
            Act::ApproveChanged => self.approve("approve changed", |plan| plan["tasks"][0]["tool_arguments"] = json!({ "query": "recovery" })).await,
            Act::Reject => {
                let asking = self.asking("reject").await?;
                self.answer("reject", &asking, json!({ "approve": false })).await?;
                let events = self.listen("reject", &word(&asking["run"]), None, StreamEvent::is_over).await?;
                self.is("reject", events.last().is_some_and(StreamEvent::is_over), &asking)
            }
            Act::CancelAsking => {
                let asking = self.asking("cancel asking").await?;
                self.cancelled("cancel asking", &word(&asking["run"]), &[202]).await
            }
            Act::CancelGoing => {
                let body = json!({ "question": "Think step by step: what happens after a crash?", "flow": "reason" });
                let (run, thread) = self.start("cancel going", &body).await?;
                self.threads.push((thread, run.clone()));
                tokio::time::sleep(Duration::from_millis(self.dice.below(500))).await;
                // It may have ended first.
                self.cancelled("cancel going", &run, &[202, 409]).await
            }
            Act::Fork => {
                let (_, run) = self.thread().await?;
                let branch = self.call("fork", Method::POST, &format!("/api/runs/{run}/fork"), Some(&json!({ "at_step": 1 })), &[201]).await?;
                let (run, thread) = (word(&branch["run"]), word(&branch["thread"]));
                let events = self.listen("fork", &run, None, StreamEvent::is_over).await?;
                self.threads.push((thread, run));
                self.ended("fork", &events, "done")
            }
            Act::Lists => {
                let (thread, run) = self.thread().await?;
                for path in [
                    "/api/threads".to_owned(),
                    "/api/runs?limit=20".to_owned(),
                    "/api/runs?status=done&limit=5".to_owned(),
                    format!("/api/threads/{thread}"),
                    format!("/api/runs/{run}"),
                    "/api/status".to_owned(),
                    "/api/models".to_owned(),
                    "/api/settings".to_owned(),
                    "/healthz".to_owned(),
                    "/readyz".to_owned(),
                ] {
                    self.call("lists", Method::GET, &path, None, &[200]).await?;
                }
                Some(())
            }
            Act::Search => {
                let words = *self.dice.pick(&["crash", "CRASH+replayed", "relay", "nowhere", "%22%25_", ""]);
                self.call("search", Method::GET, &format!("/api/threads?q={words}&limit=10"), None, &[200]).await.map(drop)
            }
            Act::Page => {
                for path in ["/", "/api/openapi.json", "/metrics"] {
                    self.call("page", Method::GET, path, None, &[200]).await?;
                }
                Some(())
            }
            Act::Documents => self.documents().await,
            Act::Exports => {
                let (_, run) = self.answered().await?;
                for what in ["answer", "answer.md", "answer.html", "answer.docx", "answer.pdf", "spans/1"] {
                    self.call("exports", Method::GET, &format!("/api/runs/{run}/{what}"), None, &[200]).await?;
                }
                Some(())
            }
            Act::Feed => {
                let response = self.http.get(format!("{}/api/feed", self.url)).send().await;
                let Ok(mut response) = response.inspect_err(|error| self.tally.wrong("feed", format!("{error:?}"))) else { return None };
                if self.throttled("feed", response.status().as_u16()).await {
                    return None;
                }
                let staying = Duration::from_millis(200 + self.dice.below(3_000));
                // Reads for a while and disconnects in the middle.
                let _ = tokio::time::timeout(staying, async { while let Ok(Some(_)) = response.chunk().await {} }).await;
                let is_well = response.status() == 200;
                self.is("feed", is_well, &json!(response.status().as_u16())).inspect(|()| self.tally.right("feed"))
            }
            Act::Nonsense => self.nonsense().await,
            Act::HalfClosed => self.half_closed().await,
            Act::NewLine => {
                self.http = http();
                Some(())
            }
        }
    }

    async fn twice(&mut self) -> Option<()> {
        self.count += 1;
        let key = format!("{}-{}", self.number, self.count);
        let body = json!({ "question": QUESTION, "flow": "search" });
        let mut runs = Vec::new();
        for _ in 0..2 {
            let request = self.http.post(format!("{}/api/runs?wait=1", self.url)).header("idempotency-key", &key).json(&body);
            let run = self.send("ask twice", request, &[200, 201]).await?;
            runs.push((word(&run["thread"]), word(&run["run"])));
        }
        self.threads.push(runs[0].clone());
        self.is("ask twice", runs[0] == runs[1], &json!(runs))
    }

    async fn leave_and_resume(&mut self) -> Option<()> {
        const KIND: &str = "watch and resume";
        let (run, thread) = self.start(KIND, &json!({ "question": QUESTION, "flow": "search" })).await?;
        self.threads.push((thread, run.clone()));
        let mut left = 1 + self.dice.below(8);
        let leaving = |event: &StreamEvent| {
            left -= 1;
            left == 0 || event.is_over()
        };
        let mut events = self.listen(KIND, &run, None, leaving).await?;
        let cursor = events.iter().rev().find_map(|event| event.id.clone());
        if !events.last().is_some_and(StreamEvent::is_over) {
            events.extend(self.listen(KIND, &run, cursor.as_deref(), StreamEvent::is_over).await?);
        }
        let mut seen: Vec<String> =
            events.iter().filter(|event| event.event == "told").map(|event| format!("{} {}", event.data["run"], event.data["seq"])).collect();
        let received = seen.len();
        seen.sort();
        seen.dedup();
        self.is(KIND, seen.len() == received, &json!({ "received twice": run }))?;
        self.ended(KIND, &events, "done")
    }

    async fn approve(&mut self, kind: &'static str, change: impl Fn(&mut Value)) -> Option<()> {
        let asking = self.asking(kind).await?;
        let waiting = &asking["waiting"][0];
        let mut plan = waiting["plan"].clone();
        change(&mut plan);
        let hash = &waiting["schema"]["properties"]["plan_hash"]["default"];
        self.answer(kind, &asking, json!({ "approve": true, "tasks": plan["tasks"], "plan_hash": hash })).await?;
        let run = word(&asking["run"]);
        let events = self.listen(kind, &run, None, StreamEvent::is_over).await?;
        self.ended(kind, &events, "done")
    }

    /// A run that asks about its plan.
    async fn asking(&mut self, kind: &'static str) -> Option<Value> {
        let body = json!({ "question": QUESTION, "flow": "search", "approve": true });
        let asking = self.call(kind, Method::POST, "/api/runs?wait=1", Some(&body), &[201]).await?;
        self.threads.push((word(&asking["thread"]), word(&asking["run"])));
        self.is(kind, asking["status"] == "asking" && asking["waiting"][0]["kind"] == "plan", &asking)?;
        Some(asking)
    }

    async fn answer(&mut self, kind: &'static str, asking: &Value, value: Value) -> Option<()> {
        let waiting = &asking["waiting"][0];
        let body = json!({ "task": waiting["task"], "attempt": waiting["attempt"], "value": value });
        self.call(kind, Method::POST, &format!("/api/runs/{}/answer", word(&waiting["run"])), Some(&body), &[202]).await.map(drop)
    }

    async fn cancelled(&mut self, kind: &'static str, run: &str, wanted: &[u16]) -> Option<()> {
        self.call(kind, Method::POST, &format!("/api/runs/{run}/cancel"), Some(&json!({ "reason": "enough" })), wanted).await?;
        let events = self.listen(kind, run, None, StreamEvent::is_over).await?;
        self.is(kind, events.last().is_some_and(|last| matches!(last.data["status"].as_str(), Some("cancelled" | "done"))), &json!(run))
    }

    async fn documents(&mut self) -> Option<()> {
        const KIND: &str = "documents";
        self.count += 1;
        let path = format!("/api/documents/soak-{}-{}.md", self.number, self.count);
        let text = format!("# Notes {}\n\n{}", self.count, "The log is written first, and replayed after a crash.\n".repeat(50));
        let request = self.http.put(format!("{}{path}", self.url)).header("content-type", "application/octet-stream").body(text);
        self.send(KIND, request, &[201]).await?;
        self.call(KIND, Method::GET, "/api/documents", None, &[200]).await?;
        self.call(KIND, Method::DELETE, &path, None, &[204]).await.map(drop)
    }

    /// Each of these is refused with a reason.
    async fn nonsense(&mut self) -> Option<()> {
        const KIND: &str = "nonsense";
        let langserve = json!({ "input": { "messages": [{ "type": "human", "content": "x" }], "next": "", "context": {} }, "config": {} });
        for (method, path, body, wanted) in [
            (Method::POST, "/api/runs", langserve.clone(), 422),
            (Method::POST, "/no_such_flow/invoke", langserve, 404),
            (Method::POST, "/graph/invoke", json!({ "input": 7 }), 422),
            (Method::POST, "/api/runs", json!({ "question": "  " }), 422),
            (Method::POST, "/api/runs", json!({ "question": "x", "flow": "no such flow" }), 422),
            (Method::POST, "/api/runs", json!({ "question": "x", "budget": { "usd": -1 } }), 422),
            (Method::POST, "/api/query", json!([]), 422),
            (Method::POST, "/api/runs/nobody/cancel", json!({}), 404),
            (Method::POST, "/api/runs/nobody/answer", json!({ "task": [0, 0], "attempt": 1, "value": null }), 404),
            (Method::DELETE, "/api/threads/nobody", Value::Null, 404),
            (Method::GET, "/api/runs/nobody/events", Value::Null, 404),
            (Method::PATCH, "/api/settings", json!({ "no_such": 1 }), 422),
            (Method::PUT, "/api/status", Value::Null, 405),
        ] {
            self.call(KIND, method, path, Some(&body).filter(|body| !body.is_null()), &[wanted]).await?;
        }
        for (body, wanted) in [("{\"question\": ", &[400, 422][..]), ("\u{0}\u{1}", &[400, 422])] {
            let request = self.http.post(format!("{}/api/runs", self.url)).header("content-type", "application/json").body(body);
            self.send(KIND, request, wanted).await?;
        }
        Some(())
    }

    /// Connections that break off in various ways.
    async fn half_closed(&mut self) -> Option<()> {
        const KIND: &str = "half closed";
        let address = self.url.trim_start_matches("http://").to_owned();
        let (_, run) = self.thread().await?;
        let wait = Duration::from_millis(self.dice.below(300));
        for (bytes, is_shut) in [
            ("GET /api/threads HTTP/1.1\r\nhost: local".to_owned(), true),
            (
                "POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"question\"".to_owned(),
                true,
            ),
            (
                "POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"question\"".to_owned(),
                false,
            ),
            (format!("GET /api/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n\r\n"), false),
            ("GET /api/feed HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), true),
            ("GET /api/feed HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), false),
            (String::new(), false),
            ("\u{16}\u{3}\u{1}nonsense\r\n\r\n".to_owned(), false),
        ] {
            let Ok(mut line) = TcpStream::connect(&address).await else {
                self.tally.wrong(KIND, "no connection");
                return None;
            };
            // The server may have closed it already.
            let _ = line.write_all(bytes.as_bytes()).await;
            if is_shut {
                let _ = line.shutdown().await;
            }
            let mut received = [0; 512];
            let _ = tokio::time::timeout(wait, line.read(&mut received)).await;
            self.tally.right(KIND);
        }
        Some(())
    }

    /// Deletes the oldest threads until few are left. Unfinished runs are cancelled first.
    async fn tidy(&mut self, left: usize) {
        while self.threads.len() > left {
            let (thread, run) = self.threads.remove(0);
            // A waiting or abandoned run holds its thread.
            self.call("tidy", Method::POST, &format!("/api/runs/{run}/cancel"), Some(&json!({})), &[202, 409]).await;
            for _ in 0..50 {
                let path = format!("/api/threads/{thread}");
                match self.raw("tidy", self.http.delete(format!("{}{path}", self.url)), &[204, 409]).await {
                    Some((409, _)) => tokio::time::sleep(Duration::from_millis(100)).await,
                    _ => break,
                }
            }
        }
    }

    /// A thread with a finished run.
    async fn thread(&mut self) -> Option<(String, String)> {
        self.answered().await
    }

    async fn answered(&mut self) -> Option<(String, String)> {
        let body = json!({ "question": QUESTION, "flow": "search" });
        let run = self.call("ask", Method::POST, "/api/runs?wait=1", Some(&body), &[201]).await?;
        self.is_done("ask", &run)?;
        self.threads.last().cloned()
    }

    fn is_done(&mut self, kind: &'static str, run: &Value) -> Option<()> {
        self.threads.push((word(&run["thread"]), word(&run["run"])));
        self.is(kind, run["status"] == "done", run)
    }

    /// Starts a run without waiting for it.
    async fn start(&mut self, kind: &'static str, body: &Value) -> Option<(String, String)> {
        let started = self.call(kind, Method::POST, "/api/runs", Some(body), &[201]).await?;
        Some((word(&started["run"]), word(&started["thread"])))
    }

    fn ended(&self, kind: &'static str, events: &[StreamEvent], status: &str) -> Option<()> {
        let last = events.last();
        let is_so = last.is_some_and(|last| last.event == "end" && last.data["status"] == status);
        self.is(kind, is_so, &json!({ "the last event": last.map(|last| &last.data) }))
    }

    fn is(&self, kind: &'static str, is_so: bool, found: &Value) -> Option<()> {
        if !is_so {
            self.tally.wrong(kind, clipped(&found.to_string()));
        }
        is_so.then_some(())
    }

    /// The events of a run after a cursor, up to the last wanted one; then it disconnects. A finished run ends the stream.
    async fn listen(
        &self,
        kind: &'static str,
        run: &str,
        after: Option<&str>,
        mut is_last: impl FnMut(&StreamEvent) -> bool,
    ) -> Option<Vec<StreamEvent>> {
        let mut request = self.http.get(format!("{}/api/runs/{run}/events", self.url)).timeout(PATIENCE);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let wrong = |why: String| {
            self.tally.wrong(kind, why);
            None
        };
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return wrong(format!("{error:?}")),
        };
        let status = response.status().as_u16();
        if self.throttled(kind, status).await {
            return None;
        }
        if status != 200 {
            return wrong(format!("status {status} for the events of {run}"));
        }
        let (mut stream, mut rest, mut all) = (response.bytes_stream(), String::new(), Vec::new());
        while let Some(bytes) = stream.next().await {
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(error) => return wrong(format!("the events of {run} broke off: {error:?}")),
            };
            rest.push_str(&String::from_utf8_lossy(&bytes));
            while let Some((frame, left)) = rest.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let event = match (field("event: "), field("data: ")) {
                    (Some(event), Some(data)) => {
                        Some(StreamEvent { id: field("id: "), event, data: serde_json::from_str(&data).unwrap_or_default() })
                    }
                    _ => None,
                };
                rest = left.to_owned();
                let Some(event) = event else { continue };
                let is_last = is_last(&event);
                all.push(event);
                if is_last {
                    self.tally.right(kind);
                    return Some(all);
                }
            }
        }
        self.tally.right(kind);
        Some(all)
    }

    async fn call(&self, kind: &'static str, method: Method, path: &str, body: Option<&Value>, wanted: &[u16]) -> Option<Value> {
        let request = self.http.request(method, format!("{}{path}", self.url));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.send(kind, request, wanted).await
    }

    async fn send(&self, kind: &'static str, request: reqwest::RequestBuilder, wanted: &[u16]) -> Option<Value> {
        self.raw(kind, request, wanted).await.map(|(_, body)| body)
    }

    async fn raw(&self, kind: &'static str, request: reqwest::RequestBuilder, wanted: &[u16]) -> Option<(u16, Value)> {
        let answered = async {
            let response = request.timeout(PATIENCE).send().await?;
            Ok::<_, reqwest::Error>((response.status().as_u16(), response.url().path().to_owned(), response.bytes().await?))
        };
        let (status, path, bytes) = match answered.await {
            Ok(answered) => answered,
            Err(error) => {
                self.tally.wrong(kind, format!("{error:?}"));
                return None;
            }
        };
        if self.throttled(kind, status).await {
            return None;
        }
        if !wanted.contains(&status) {
            self.tally.wrong(kind, format!("status {status} for {path}, not {wanted:?}: {}", clipped(&String::from_utf8_lossy(&bytes))));
            return None;
        }
        self.tally.right(kind);
        Some((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// Rate-limited: wait.
    async fn throttled(&self, kind: &'static str, status: u16) -> bool {
        if status != 429 {
            return false;
        }
        self.tally.slowed(kind);
        tokio::time::sleep(Duration::from_secs(1)).await;
        true
    }
}

/// Its own connections, some of which it keeps.
fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap_or_default()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn clipped(text: &str) -> String {
    text.chars().take(300).collect()
}

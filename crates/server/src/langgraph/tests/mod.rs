use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use engine::{Engine, Settings};
use graph::{Ask, END, Go, Graph, Replies};
use scripted::ScriptedHandler;
use serde_json::{Map, Value, json};
use store::{MemoryStore, Store};

use super::*;
use crate::guard::{Guard, Identity};
use crate::langserve::{Caller, FlowSettings, InputShape, ServedFlow};

mod runs;
mod streams;
mod threads;

const SCRIPT: &str = "when tool count reply 1\nwhen tool slow reply 1 after 400ms\n";

/// Answers questions: `ask…` asks a person, `fail` fails, `tool` and `slow` call tools; two steps.
fn answers() -> Graph {
    let question = |s: &Value| s["question"].as_str().unwrap_or_default().to_owned();
    let ask = move |s: &Value| match question(s).as_str() {
        "ask" => Ask::one(graph::person("Really?")),
        "tool" => Ask::one(graph::tool("count", json!({ "n": 1 }))),
        "slow" => Ask::one(graph::tool("slow", json!({}))),
        _ => Ask::nothing(),
    };
    let think = move |s: &mut Value, replies: &Replies<'_>| {
        if question(s) == "fail" {
            return Go::fail("it hurts");
        }
        s["reply"] = replies.value(0).cloned().unwrap_or_default();
        Go::to("tell").note("thought", question(s))
    };
    let tell = move |s: &mut Value, _: &Replies<'_>| {
        let before = s["history"].as_array().map_or(0, Vec::len);
        let answer = format!("to {} after {before}: {}", question(s), s["reply"]);
        let text = question(s);
        *s = json!({ "answer": answer, "sources": ["a"] });
        Go::end().say("user", text).say("assistant", answer)
    };
    let nothing = |_: &Value| Ask::nothing();
    let builder = Graph::of::<Value>("answers").node("think", (ask, think), &["tell"]).node("tell", (nothing, tell), &[END]);
    builder.calls("think", ["inc"]).build().unwrap()
}

fn inc() -> Graph {
    let inc = |s: &mut Value, _: &Replies<'_>| {
        s["x"] = json!(s["x"].as_i64().unwrap_or(0) + 1);
        Go::end()
    };
    Graph::of::<Value>("inc").node("inc", (|_: &Value| Ask::nothing(), inc), &[END]).build().unwrap()
}

fn service(store: Arc<dyn Store>) -> Service {
    let handler = ScriptedHandler::parse(SCRIPT).unwrap();
    let engine = Engine::new(store, Arc::new(handler), [answers(), inc()], Settings::default());
    let one = |flow: &str, input_shape| ServedFlow { flow: flow.to_owned(), input_shape, base: Map::new(), settings: FlowSettings::none(flow) };
    let served = BTreeMap::from([("answers".to_owned(), one("answers", InputShape::Question)), ("inc".to_owned(), one("inc", InputShape::Bare))]);
    Service::new(engine, served, None)
}

/// A server that answers over HTTP.
struct Server(String);

async fn serve() -> Server {
    serve_on(Arc::new(MemoryStore::new())).await
}

async fn serve_on(store: Arc<dyn Store>) -> Server {
    let guard = Guard::new(None);
    let listener = guard.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = routes(&service(store)).layer(axum::middleware::from_fn_with_state(guard.clone(), crate::guard::check));
    tokio::spawn(async move { crate::serve(listener, router).await });
    Server(base)
}

impl Server {
    async fn send(&self, method: &str, path: &str, body: Value, headers: &[(&str, &str)]) -> (u16, String) {
        let mut request = reqwest::Client::new().request(method.parse().unwrap(), format!("{}{path}", self.0));
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = tokio::time::timeout(Duration::from_secs(20), request.send()).await.unwrap().unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, text) = self.send(method, path, body, &[]).await;
        assert!(status < 300, "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let (status, text) = self.send(method, path, body, &[]).await;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        assert!(body.get("detail").is_some(), "{method} {path}: {status} {text}");
        (status, text)
    }

    async fn thread(&self) -> String {
        self.json("POST", "/threads", json!({})).await["thread_id"].as_str().unwrap().to_owned()
    }

    async fn stream(&self, path: &str, body: Value) -> Vec<Frame> {
        let (status, text) = self.send("POST", path, body, &[]).await;
        assert_eq!(status, 200, "{text}");
        stream::parsed(&text)
    }

    /// A stream that goes on.
    async fn open(&self, path: &str, headers: &[(&str, &str)]) -> OpenStream {
        let request =
            headers.iter().fold(reqwest::Client::new().get(format!("{}{path}", self.0)), |request, (name, value)| request.header(*name, *value));
        let response = tokio::time::timeout(Duration::from_secs(20), request.send()).await.unwrap().unwrap();
        assert_eq!(response.status(), 200, "{path}");
        OpenStream { response, text: String::new() }
    }

    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..200 {
            let found = self.json("GET", path, Value::Null).await;
            if is_so(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{path} never came to be: {}", self.json("GET", path, Value::Null).await)
    }
}

struct OpenStream {
    response: reqwest::Response,
    text: String,
}

impl OpenStream {
    /// Everything so far, once so many runs of it are done.
    async fn until_done(&mut self, runs: usize) -> Vec<Frame> {
        let read = async {
            while dones(&stream::parsed(&self.text)) < runs {
                let chunk = self.response.chunk().await.unwrap().expect("the stream goes on");
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), read).await.is_err() {
            panic!("{runs} runs were never done: {}", self.text);
        }
        stream::parsed(&self.text)
    }
}

/// The name of an event, its data and its id.
type Frame = (String, Value, Option<String>);

fn dones(frames: &[Frame]) -> usize {
    frames.iter().filter(|(_, data, _)| data["status"] == "run_done").count()
}

fn asks(text: &str) -> Value {
    json!({ "assistant_id": "answers", "input": { "messages": [{ "type": "human", "content": text }] } })
}

#[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
fn with(mut body: Value, fields: Value) -> Value {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

fn last(values: &Value) -> &str {
    values["messages"].as_array().and_then(|all| all.last()).and_then(|last| last["content"].as_str()).unwrap_or_default()
}

fn names(frames: &[(String, Value, Option<String>)]) -> Vec<&str> {
    frames.iter().map(|(name, ..)| name.as_str()).collect()
}

fn caller(user: &str) -> Caller {
    Caller { who: Identity { user: user.into(), is_operator: false }, headers: HeaderMap::new() }
}

fn graph_of(service: Service) -> LangGraph {
    let (webhooks, open_streams) = (webhook::Deliveries::new(1), thread_stream::OpenStreams::default());
    let inner = Inner { service, began_ms: 0, locks: Mutex::default(), due: Notify::new(), webhooks, open_streams };
    LangGraph(Arc::new(inner))
}

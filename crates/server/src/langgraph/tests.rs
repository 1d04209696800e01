use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use engine::{Engine, Settings};
use graph::{Ask, END, Go, Graph, Replies};
use scripted::{ScriptedHandler, mangled};
use serde_json::{Map, Value, json};
use store::{MemoryStore, Store};

use super::begin::BeginRequest;
use super::*;
use crate::guard::{Guard, Identity};
use crate::langserve::{Caller, FlowSettings, InputShape, ServedFlow};

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

#[tokio::test]
async fn p3_a_thread_holds_a_conversation_with_its_state_and_history() {
    let server = serve().await;
    let thread = server.thread().await;
    let values = server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("one")).await;
    assert_eq!((last(&values), values["messages"].as_array().unwrap().len()), ("to one after 0: null", 2));
    assert_eq!(values["output"]["sources"], json!(["a"]));
    let values = server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("two")).await;
    assert_eq!(values["messages"].as_array().unwrap().len(), 4, "{values}");
    let state = server.json("GET", &format!("/threads/{thread}/state"), Value::Null).await;
    assert_eq!((&state["values"], &state["next"]), (&values, &json!([])));
    let past = server.json("POST", &format!("/threads/{thread}/history"), json!({ "limit": 20 })).await;
    let nexts: Vec<String> = past.as_array().unwrap().iter().map(|state| state["next"].to_string()).collect();
    assert_eq!(nexts, ["[]", r#"["tell"]"#, r#"["think"]"#, "[]", r#"["tell"]"#, r#"["think"]"#]);
    assert_eq!(last(&past[3]["values"]), "to one after 0: null");

    // From after the first answer, the second question is another one.
    let from = json!({ "checkpoint": { "checkpoint_id": past[3]["checkpoint_id"], "checkpoint_ns": "" } });
    let other = server.json("POST", &format!("/threads/{thread}/runs/wait"), with(asks("three"), from)).await;
    assert_eq!((last(&other), other["messages"].as_array().unwrap().len()), ("to three after 2: null", 4));
    // Nothing is called in the second step of the first run, so there is nothing to run again.
    let from = json!({ "assistant_id": "answers", "checkpoint_id": past[4]["checkpoint_id"] });
    let (status, reason) = server.refused("POST", &format!("/threads/{thread}/runs/wait"), from).await;
    assert!(status == 422 && reason.contains("use an earlier one"), "{status} {reason}");

    let copy = server.json("POST", &format!("/threads/{thread}/copy"), json!({})).await;
    assert_eq!(copy["values"]["messages"], other["messages"]);
    let changed = json!({ "values": { "messages": [{ "role": "user", "content": "by hand" }], "mood": "dry" } });
    let id = copy["thread_id"].as_str().unwrap();
    let checkpoint = server.json("POST", &format!("/threads/{id}/state"), changed).await;
    let state = server.json("GET", &format!("/threads/{id}/state"), Value::Null).await;
    assert_eq!((last(&state["values"]), &state["values"]["mood"]), ("by hand", &json!("dry")));
    assert_eq!(state["checkpoint_id"], checkpoint["checkpoint"]["checkpoint_id"]);
    let values = server.json("POST", &format!("/threads/{id}/runs/wait"), asks("four")).await;
    assert_eq!(last(&values), "to four after 5: null");
    let found = server.json("POST", "/threads/search", json!({ "limit": 5 })).await;
    assert_eq!(found.as_array().unwrap().len(), 2);
    assert_eq!(server.json("POST", "/threads/prune", json!({ "thread_ids": [id], "strategy": "keep_latest" })).await["pruned_count"], 1);
    assert_eq!(last(&server.json("GET", &format!("/threads/{id}"), Value::Null).await["values"]), "to four after 5: null");
    assert_eq!(server.send("DELETE", &format!("/threads/{id}"), Value::Null, &[]).await.0, 204);
    assert_eq!(server.refused("GET", &format!("/threads/{id}"), Value::Null).await.0, 404);
}

/// Each state has the whole conversation, so that a history grows with its square. A page of it is bounded, and pages reach all of it.
#[tokio::test]
async fn a_long_history_comes_in_pages_of_bounded_size() {
    let server = serve().await;
    let thread = server.thread().await;
    for number in 0..4 {
        let question = format!("{number} {}", "x".repeat(150_000));
        server.json("POST", &format!("/threads/{thread}/runs/wait"), asks(&question)).await;
    }
    let path = format!("/threads/{thread}/history");
    let (mut all, mut pages, mut before) = (Vec::new(), 0, Value::Null);
    loop {
        let (status, text) = server.send("POST", &path, json!({ "limit": 1000, "before": before }), &[]).await;
        assert_eq!(status, 200, "{}", text.chars().take(300).collect::<String>());
        let states: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert!(text.len() < 8 << 20 || states.len() == 1, "{} bytes", text.len());
        let Some(last) = states.last() else { break };
        before = last["checkpoint_id"].clone();
        all.extend(states.into_iter().map(|state| state["checkpoint_id"].to_string()));
        pages += 1;
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert!(count == 12 && all.len() == 12 && pages > 1, "{count} states in {pages} pages");
}

#[tokio::test]
async fn p3_every_stream_mode_tells_the_same_run() {
    let server = serve().await;
    let all = json!({ "stream_mode": ["values", "updates", "messages-tuple", "messages", "custom", "debug", "events", "tasks", "checkpoints"] });
    let frames = server.stream("/runs/stream", with(asks("tool"), all)).await;
    let names = names(&frames);
    assert_eq!((names[0], names.last().unwrap()), ("metadata", &"end"));
    for wanted in ["values", "updates", "messages", "messages/complete", "custom", "debug", "events", "tasks", "checkpoints"] {
        assert!(names.contains(&wanted), "{wanted} is missing: {names:?}");
    }
    let of = |name: &str| frames.iter().filter(|(event, ..)| event == name).map(|(_, data, _)| data.clone()).collect::<Vec<_>>();
    assert_eq!(of("updates")[0], json!({ "think": { "thought": "tool" } }));
    assert_eq!(of("custom"), [json!({ "thought": "tool" })]);
    assert_eq!(last(of("values").last().unwrap()), "to tool after 0: 1");
    assert_eq!((of("values")[0]["messages"][0]["content"].as_str(), of("values").len()), (Some("tool"), 3));
    assert_eq!((of("messages")[0][0]["type"].as_str(), of("messages")[1][0]["type"].as_str()), (Some("tool"), Some("ai")));
    let events: Vec<String> = of("events").iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect();
    assert!(events.contains(&"on_tool_start".to_owned()) && events.contains(&"on_tool_end".to_owned()), "{events:?}");
    let failed = server.stream("/runs/stream", asks("fail")).await;
    let (name, data, _) = failed.iter().rev().find(|(name, ..)| name != "end").unwrap();
    assert_eq!((name.as_str(), &data["error"]), ("error", &json!("FlowError")));
    let values = server.json("POST", "/runs/wait", asks("fail")).await;
    assert_eq!(values["__error__"]["message"], "it hurts");
    let bare = server.json("POST", "/runs/wait", json!({ "assistant_id": "inc", "input": { "x": 1 } })).await;
    assert_eq!(bare, json!({ "x": 2 }));
}

#[tokio::test]
async fn p3_a_question_is_an_interrupt_and_resume_answers_it() {
    let server = serve().await;
    let thread = server.thread().await;
    let path = format!("/threads/{thread}/runs/stream");
    let frames = server.stream(&path, with(asks("ask"), json!({ "stream_mode": ["values", "updates"] }))).await;
    let interrupt = frames.iter().find_map(|(name, data, _)| (name == "updates").then(|| data.get("__interrupt__")).flatten()).unwrap();
    assert_eq!(interrupt[0]["value"]["question"], "Really?");
    let shown = server.json("GET", &format!("/threads/{thread}"), Value::Null).await;
    assert_eq!(shown["status"], "interrupted");
    let state = server.json("POST", &format!("/threads/{thread}/state/checkpoint"), json!({ "checkpoint": { "thread_id": thread } })).await;
    assert_eq!((&state["next"], &state["tasks"][0]["interrupts"][0]["id"]), (&json!(["think"]), &interrupt[0]["id"]));
    let resume =
        |answer: Value| json!({ "assistant_id": "answers", "command": { "resume": answer, "goto": [] }, "stream_mode": ["updates", "values"] });
    let id = interrupt[0]["id"].as_str().unwrap();
    let frames = server.stream(&path, resume(json!({ id: "yes" }))).await;
    assert_eq!(names(&frames)[..2], ["metadata", "updates"], "what was told before is not told again: {frames:?}");
    assert_eq!(last(&frames.iter().rfind(|(name, ..)| name == "values").unwrap().1), "to ask after 0: \"yes\"");
    let (status, reason) = server.refused("POST", &path, resume(json!("again"))).await;
    assert!(status == 422 && reason.contains("waits for no answer"), "{reason}");
    // New input replaces a question that nobody answered.
    server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("ask")).await;
    let values = server.json("POST", &format!("/threads/{thread}/runs/wait"), asks("never mind")).await;
    assert!(last(&values).starts_with("to never mind"), "{values}");
}

/// The name of an event, its data and its id.
type Frame = (String, Value, Option<String>);

/// Frames without the times of debug events: while a run goes on they say when it was told, later when it was stored.
fn timeless(frames: &[Frame]) -> Vec<Frame> {
    let mut frames = frames.to_vec();
    for (_, data, _) in &mut frames {
        if let Some(data) = data.as_object_mut() {
            data.remove("timestamp");
        }
    }
    frames
}

#[tokio::test]
async fn p3_a_stream_goes_on_from_any_of_its_frames() {
    let server = serve().await;
    let thread = server.thread().await;
    let modes = json!({ "stream_mode": ["values", "updates", "debug"], "stream_resumable": true });
    let whole = server.stream(&format!("/threads/{thread}/runs/stream"), with(asks("tool"), modes)).await;
    let run = whole[0].1["run_id"].as_str().unwrap().to_owned();
    let path = format!("/threads/{thread}/runs/{run}/stream?stream_mode=values&stream_mode=updates&stream_mode=debug");
    let get = async |id: &str| stream::parsed(&server.send("GET", &path, Value::Null, &[("last-event-id", id)]).await.1);
    assert_eq!(timeless(&get("-1").await), timeless(&whole));
    for (at, (_, _, id)) in whole.iter().enumerate().filter(|(_, (_, _, id))| id.is_some()) {
        assert_eq!(timeless(&get(id.as_deref().unwrap()).await), timeless(&whole[at + 1..]), "after frame {at}");
    }
    let (status, _) = server.send("GET", &path, Value::Null, &[("last-event-id", "1794705373191-0")]).await;
    assert_eq!(status, 422);
    let joined = server.json("GET", &format!("/threads/{thread}/runs/{run}/join"), Value::Null).await;
    assert_eq!(last(&joined), "to tool after 0: 1");
}

#[tokio::test]
async fn p3_a_second_run_is_refused_queued_or_takes_the_place_of_the_first() {
    let server = serve().await;
    let start = async |thread: &str, strategy: &str| {
        let run = server.json("POST", &format!("/threads/{thread}/runs"), asks("slow")).await;
        let second = with(asks("second"), json!({ "multitask_strategy": strategy }));
        (run["run_id"].as_str().unwrap().to_owned(), server.send("POST", &format!("/threads/{thread}/runs"), second, &[]).await)
    };
    let (rejecting, queueing, interrupting, back) = (server.thread().await, server.thread().await, server.thread().await, server.thread().await);
    assert_eq!(start(&rejecting, "reject").await.1.0, 409);
    let (_, (status, queued)) = start(&queueing, "enqueue").await;
    let queued: Value = serde_json::from_str(&queued).unwrap();
    assert_eq!((status, &queued["status"]), (200, &json!("pending")), "{queued}");
    let joined = server.json("GET", &format!("/threads/{queueing}/runs/{}/join", queued["run_id"].as_str().unwrap()), Value::Null).await;
    assert_eq!((last(&joined), joined["messages"].as_array().unwrap().len()), ("to second after 0: null", 4), "{joined}");
    let (first, _) = start(&interrupting, "interrupt").await;
    server.until(&format!("/threads/{interrupting}/runs/{first}"), |run| run["status"] == "interrupted").await;
    let (first, _) = start(&back, "rollback").await;
    assert_eq!(server.refused("GET", &format!("/threads/{back}/runs/{first}"), Value::Null).await.0, 404);
    server.until(&format!("/threads/{back}/state"), |state| last(&state["values"]).starts_with("to second")).await;
    let run = server.json("POST", &format!("/threads/{back}/runs"), asks("slow")).await["run_id"].as_str().unwrap().to_owned();
    assert_eq!(server.send("POST", &format!("/threads/{back}/runs/{run}/cancel?wait=1&action=interrupt"), Value::Null, &[]).await.0, 204);
    assert_eq!(server.json("GET", &format!("/threads/{back}/runs/{run}"), Value::Null).await["status"], "interrupted");
}

#[tokio::test]
async fn p3_what_is_wrong_or_impossible_is_refused_in_langgraphs_form() {
    let server = serve().await;
    let thread = server.thread().await;
    let path = format!("/threads/{thread}/runs/wait");
    for (path, body, status, reason) in [
        (path.as_str(), json!({ "assistant_id": "nobody", "input": {} }), 422, "there are: answers, inc"),
        (path.as_str(), json!({ "input": {} }), 422, "assistant_id"),
        (path.as_str(), json!([1]), 422, "dictionary"),
        (path.as_str(), with(asks("x"), json!({ "interrupt_before": ["nobody"] })), 422, "interrupt_before"),
        (path.as_str(), with(asks("x"), json!({ "interrupt_after": ["nobody"] })), 422, "think, tell"),
        (path.as_str(), with(asks("x"), json!({ "command": { "goto": "tell" } })), 422, "goto"),
        (path.as_str(), with(asks("x"), json!({ "after_seconds": -1 })), 422, "after_seconds"),
        (path.as_str(), with(asks("x"), json!({ "webhook": "http://127.0.0.1/x" })), 422, "webhook"),
        (path.as_str(), with(asks("x"), json!({ "checkpoint_id": "1ef" })), 404, "Checkpoint"),
        (path.as_str(), json!({ "assistant_id": "answers" }), 422, "input is needed"),
        (path.as_str(), with(asks("x"), json!({ "config": { "configurable": { "odd": 1 } } })), 422, "no settings"),
        ("/threads/nowhere/runs/wait", asks("x"), 404, "not found"),
        ("/runs/crons", with(asks("x"), json!({ "schedule": "every day" })), 422, "five fields"),
        ("/assistants", json!({ "graph_id": "nobody" }), 422, "there is no graph"),
    ] {
        let (found, text) = server.refused("POST", path, body.clone()).await;
        assert!(found == status && text.contains(reason), "{path} {body}: {found} {text}");
    }
    let created =
        server.json("POST", "/threads/8b4c6e5e-0000-4000-8000-000000000001/runs/wait", with(asks("x"), json!({ "if_not_exists": "create" }))).await;
    assert!(last(&created).starts_with("to x"));
}

#[tokio::test]
async fn p3_assistants_have_versions_schemas_and_a_graph() {
    let server = serve().await;
    let all = server.json("POST", "/assistants/search", json!({})).await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    let built_in = all[0]["assistant_id"].as_str().unwrap();
    let drawn = server.json("GET", &format!("/assistants/{built_in}/graph"), Value::Null).await;
    assert_eq!((drawn["nodes"].as_array().unwrap().len(), &drawn["edges"][0]["target"]), (4, &json!("think")));
    let drawn = server.json("GET", &format!("/assistants/{built_in}/graph?xray=True"), Value::Null).await;
    assert_eq!((drawn["nodes"].as_array().unwrap().len(), &drawn["edges"][0]["target"]), (4, &json!("think:inc")), "{drawn}");
    assert_eq!(server.refused("GET", &format!("/assistants/{built_in}/graph?xray=deep"), Value::Null).await.0, 422);
    assert!(server.json("GET", &format!("/assistants/{built_in}/schemas"), Value::Null).await["input_schema"].is_object());
    assert_eq!(server.refused("PATCH", &format!("/assistants/{built_in}"), json!({ "name": "x" })).await.0, 403);
    let made = server.json("POST", "/assistants", json!({ "graph_id": "answers", "name": "mine", "metadata": { "a": 1 } })).await;
    let id = made["assistant_id"].as_str().unwrap();
    let changed = server.json("PATCH", &format!("/assistants/{id}"), json!({ "name": "ours" })).await;
    assert_eq!((&changed["version"], &changed["metadata"]), (&json!(2), &json!({ "a": 1 })));
    assert_eq!(server.json("POST", &format!("/assistants/{id}/latest"), json!({ "version": 1 })).await["name"], "mine");
    assert_eq!(server.json("POST", &format!("/assistants/{id}/versions"), json!({})).await.as_array().unwrap().len(), 2);
    let values = server.json("POST", "/runs/wait", with(asks("hi"), json!({ "assistant_id": id }))).await;
    assert!(last(&values).starts_with("to hi"));
    assert_eq!(server.json("POST", "/assistants/count", json!({ "metadata": { "a": 1 } })).await, json!(1));
    assert_eq!(server.send("DELETE", &format!("/assistants/{id}"), Value::Null, &[]).await.0, 204);
}

#[tokio::test]
async fn p3_items_are_found_by_namespace_filter_and_words() {
    let server = serve().await;
    for (namespace, key, value) in [
        (json!(["a", "b"]), "1", json!({ "n": 1, "text": "red apple" })),
        (json!(["a", "c"]), "2", json!({ "n": 2, "text": "green pear" })),
        (json!(["ab"]), "3", json!({ "n": 3 })),
    ] {
        assert_eq!(server.send("PUT", "/store/items", json!({ "namespace": namespace, "key": key, "value": value }), &[]).await.0, 204);
    }
    assert_eq!(server.json("GET", "/store/items?namespace=a.b&key=1", Value::Null).await["value"]["n"], 1);
    let found = async |body: Value| -> Vec<String> {
        let items = server.json("POST", "/store/items/search", body).await["items"].clone();
        items.as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(json!({ "namespace_prefix": ["a"] })).await.len(), 2);
    assert_eq!(found(json!({ "namespace_prefix": [], "filter": { "n": { "$gt": 2 } } })).await, ["3"]);
    assert_eq!(found(json!({ "namespace_prefix": ["a"], "query": "Pear" })).await, ["2"]);
    assert_eq!(server.json("POST", "/store/namespaces", json!({ "max_depth": 1 })).await["namespaces"], json!([["a"], ["ab"]]));
    assert_eq!(server.send("DELETE", "/store/items", json!({ "namespace": ["a", "b"], "key": "1" }), &[]).await.0, 204);
    assert_eq!(server.refused("GET", "/store/items?namespace=a.b&key=1", Value::Null).await.0, 404);
}

#[tokio::test]
async fn p8_queued_runs_and_crons_survive_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let server = serve_on(store.clone()).await;
    let thread = server.thread().await;
    let run = server.json("POST", &format!("/threads/{thread}/runs"), with(asks("later"), json!({ "after_seconds": 1.5 }))).await;
    assert_eq!(run["status"], "pending");
    let cron = server.json("POST", &format!("/threads/{thread}/runs/crons"), with(asks("often"), json!({ "schedule": "* * * * *" }))).await;
    assert_eq!((&cron["enabled"], cron["next_run_date"].is_string()), (&json!(true), true));
    // Another server over the same store; nothing of the first is left in memory that it would need.
    let other = serve_on(store.clone()).await;
    other.until(&format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap()), |run| run["status"] == "success").await;
    // Its time comes.
    let user = graph::UserId::default();
    let id = cron["cron_id"].as_str().unwrap();
    let mut stored = store.record(&user, records::CRON, id).await.unwrap().unwrap();
    stored.value["next_ms"] = json!(now_ms() - 1);
    store.put_record(store::NewRecord { user, kind: stored.kind, key: stored.key, value: stored.value, at_ms: now_ms() }).await.unwrap();
    let state = other.until(&format!("/threads/{thread}/state"), |state| last(&state["values"]).starts_with("to often")).await;
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 4, "two servers begin it once: {state}");
    assert_eq!(server.json("POST", "/runs/crons/search", json!({})).await.as_array().unwrap().len(), 1);
    assert_eq!(server.send("DELETE", &format!("/runs/crons/{id}"), Value::Null, &[]).await.0, 204);
}

fn caller(user: &str) -> Caller {
    Caller { who: Identity { user: user.into(), is_operator: false }, headers: HeaderMap::new() }
}

fn graph_of(service: Service) -> LangGraph {
    let (webhooks, open_streams) = (webhook::Deliveries::new(1), thread_stream::OpenStreams::default());
    let inner = Inner { service, began_ms: 0, locks: Mutex::default(), due: Notify::new(), webhooks, open_streams };
    LangGraph(Arc::new(inner))
}

#[tokio::test]
async fn p8_threads_runs_and_items_are_each_users_own() {
    let graph = graph_of(service(Arc::new(MemoryStore::new())));
    let (ada, bob) = (caller("ada"), caller("bob"));
    let thread = graph.make_thread(&ada.who, None, threads::ThreadRecord::default()).await.ok().unwrap();
    let request = serde_json::from_value(asks("hi")).unwrap();
    let started =
        Box::pin(graph.begin(BeginRequest { caller: &ada, thread: Some(&thread.id), request, run: None, is_watched: false })).await.ok().unwrap();
    graph.outcome(&ada.who, &thread.id, &started.run, false).await.ok().unwrap();
    assert!(graph.find_thread(&bob.who, &thread.id).await.ok().unwrap().is_none());
    assert!(graph.find_thread(&ada.who, &thread.id).await.ok().unwrap().is_some());
    let theirs = graph.make_thread(&bob.who, Some(&thread.id), threads::ThreadRecord::default()).await.ok().unwrap();
    assert_ne!(theirs.engine, thread.engine, "the same id of two users is two threads");
    assert!(graph.run_in(&theirs, started.run.as_str()).await.is_err());
}

/// Filters are compared without copying them or what is filtered; here is what they mean.
#[test]
fn a_filter_is_contained_in_a_document() {
    let map = |value: Value| value.as_object().unwrap().clone();
    let document = map(json!({ "a": { "b": 1, "c": [1, 2] }, "d": null }));
    for (filter, wanted) in [
        (json!({}), true),
        (json!({ "a": { "b": 1 } }), true),
        (json!({ "a": { "b": 1, "c": [1, 2] }, "d": null }), true),
        (json!({ "a": { "b": 2 } }), false),
        (json!({ "a": { "c": [1] } }), false),
        (json!({ "a": 1 }), false),
        (json!({ "e": null }), false),
    ] {
        assert_eq!(contains(&document, &map(filter.clone())), wanted, "{filter}");
    }
}

#[tokio::test]
async fn p3_a_run_waits_before_and_after_the_nodes_that_a_client_names() {
    let server = serve().await;
    let go_on = |more: Value| {
        let mut body = json!({ "assistant_id": "answers", "input": null });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let wait = async |thread: &str, body: Value| server.json("POST", &format!("/threads/{thread}/runs/wait"), body).await;
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let state = async |thread: &str| server.json("GET", &format!("/threads/{thread}/state"), Value::Null).await;
    let next = |state: &Value| (state["next"].clone(), state["interrupts"].clone());
    // Before one node, which calls nothing itself, and then to the end.
    for (name, value) in [("interrupt_before", json!(["tell"])), ("interrupt_after", json!(["think"])), ("interrupt_after", json!("*"))] {
        let thread = server.thread().await;
        let values = wait(&thread, with(asks("tool"), name, value.clone())).await;
        assert_eq!(values.get("__interrupt__"), None, "{name} {value}: {values}");
        assert_eq!(next(&state(&thread).await), (json!(["tell"]), json!([])), "{name} {value}");
        assert_eq!(server.json("GET", &format!("/threads/{thread}"), Value::Null).await["status"], "interrupted");
        let done = wait(&thread, go_on(json!({}))).await;
        assert_eq!(done["messages"][1]["content"], "to tool after 0: 1", "{name} {value}: {done}");
        assert_eq!(next(&state(&thread).await).0, json!([]));
    }
    // Step by step; the last one is given no interrupts.
    let thread = server.thread().await;
    wait(&thread, with(asks("tool"), "interrupt_before", json!("*"))).await;
    assert_eq!(next(&state(&thread).await).0, json!(["think"]));
    let (status, reason) = server.refused("POST", &format!("/threads/{thread}/runs/wait"), go_on(json!({ "interrupt_before": ["nobody"] }))).await;
    assert!(status == 422 && reason.contains("think, tell"), "{reason}");
    wait(&thread, go_on(json!({ "interrupt_before": "*" }))).await;
    assert_eq!(next(&state(&thread).await).0, json!(["tell"]));
    let frames = server.stream(&format!("/threads/{thread}/runs/stream"), go_on(json!({ "stream_mode": ["values"] }))).await;
    let (_, last, _) = frames.iter().rev().find(|(event, ..)| event == "values").unwrap();
    assert_eq!(last["messages"][1]["content"], "to tool after 0: 1");
    // A command goes on as well, in the same run and with its interrupts; new input takes the place of a run that waits.
    let thread = server.thread().await;
    wait(&thread, with(asks("tool"), "interrupt_before", json!("*"))).await;
    let frames = server
        .stream(
            &format!("/threads/{thread}/runs/stream"),
            json!({ "assistant_id": "answers", "command": { "resume": "yes" }, "stream_mode": ["updates"] }),
        )
        .await;
    assert!(frames.iter().any(|(event, data, _)| event == "updates" && data["__interrupt__"] == json!([])), "{frames:?}");
    assert_eq!(next(&state(&thread).await).0, json!(["tell"]));
    assert_eq!(wait(&thread, asks("else")).await["messages"].as_array().unwrap().last().unwrap()["content"], "to else after 0: null");
}

#[tokio::test]
async fn p3_a_command_goes_on_at_a_node_in_another_run() {
    let server = serve().await;
    let goes = |goto: &str| json!({ "assistant_id": "answers", "command": { "goto": goto } });
    let wait = |thread: &str| format!("/threads/{thread}/runs/wait");
    let thread = server.thread().await;
    let (status, words) = server.refused("POST", &wait(&thread), goes("think")).await;
    assert!(status == 422 && words.contains("send input first"), "{words}");
    let first = server.json("POST", &wait(&thread), asks("tool")).await;
    // Where it was: the second of these calls nothing.
    for node in ["think", "tell"] {
        let again = server.json("POST", &wait(&thread), goes(node)).await;
        assert_eq!((last(&again), again["messages"].as_array().unwrap().len()), (last(&first), 2), "{node}: {again}");
    }
    assert_eq!(server.json("GET", &format!("/threads/{thread}/runs"), Value::Null).await.as_array().unwrap().len(), 3);
    let (status, words) = server.refused("POST", &wait(&thread), goes("nowhere")).await;
    assert!(status == 422 && words.contains("there are: think, tell"), "{words}");
    // Where it was not: past a question that nobody answered.
    let thread = server.thread().await;
    let asked = server.json("POST", &wait(&thread), asks("ask")).await;
    assert!(asked["__interrupt__"].is_array(), "{asked}");
    let (status, _) = server.refused("POST", &wait(&thread), goes("nowhere")).await;
    assert_eq!((status, &server.json("GET", &format!("/threads/{thread}"), Value::Null).await["status"]), (422, &json!("interrupted")));
    let past = server.json("POST", &wait(&thread), goes("tell")).await;
    assert_eq!(last(&past), "to ask after 0: null", "{past}");
    assert_eq!(server.json("GET", &format!("/threads/{thread}"), Value::Null).await["status"], "idle");
    // A stream shows the node.
    let frames = server.stream(&format!("/threads/{thread}/runs/stream"), with(goes("think"), json!({ "stream_mode": "updates" }))).await;
    assert!(frames.iter().any(|(_, data, _)| data["__interrupt__"].is_array()), "{frames:?}");
    // With a change of the state, and from a checkpoint.
    let thread = server.thread().await;
    let counts = server.json("POST", &wait(&thread), json!({ "assistant_id": "inc", "input": { "x": 1 } })).await;
    assert_eq!(counts["x"], 2);
    let past = server.json("POST", &format!("/threads/{thread}/history"), json!({})).await;
    let command = json!({ "assistant_id": "inc", "command": { "goto": ["inc"], "update": { "x": 40 } }, "checkpoint_id": past[0]["checkpoint_id"] });
    assert_eq!(server.json("POST", &wait(&thread), command).await["x"], 41);
    let (status, words) = server
        .refused("POST", &wait(&thread), json!({ "assistant_id": "inc", "command": { "goto": "inc", "update": { "x": "many", "y": null } } }))
        .await;
    assert!(status == 422 && words.contains("update"), "{words}");
}

#[tokio::test]
async fn p3_a_threads_stream_tells_its_runs_one_after_another() {
    let server = serve().await;
    let thread = server.thread().await;
    let (path, wait) = (format!("/threads/{thread}/stream"), format!("/threads/{thread}/runs/wait"));
    let mut all = server.open(&path, &[]).await;
    let mut ends = server.open(&format!("{path}?stream_mode=lifecycle"), &[]).await;
    server.json("POST", &wait, with(asks("tool"), json!({ "stream_mode": ["updates"] }))).await;
    server.json("POST", &wait, asks("two")).await;
    let events = all.until_done(2).await;
    let run = |frames: &[Frame]| frames[0].1["run_id"].clone();
    let second = events.iter().position(|(_, data, _)| data["status"] == "run_done").unwrap() + 1;
    let (first, other) = events.split_at(second);
    assert!(names(first).contains(&"updates") && !names(first).contains(&"values"), "{first:?}");
    assert!(names(other).contains(&"values") && !names(other).contains(&"updates") && run(first) != run(other), "{other:?}");
    assert_eq!((names(first)[0], &first.last().unwrap().1["run_id"]), ("metadata", &run(first)));
    assert_eq!(names(&ends.until_done(2).await), ["metadata"; 4]);
    // From any frame on, the rest; and from the first one.
    let mut cuts = 0;
    for (at, (.., id)) in events.iter().enumerate().filter(|(at, (.., id))| id.is_some() && at + 1 < events.len()) {
        let left = dones(&events[at + 1..]);
        let rest = server.open(&path, &[("last-event-id", id.as_deref().unwrap())]).await.until_done(left).await;
        assert_eq!(rest, events[at + 1..], "after {at}");
        cuts += 1;
    }
    assert!(cuts > 4, "{events:?}");
    assert_eq!(server.open(&path, &[("last-event-id", "-1")]).await.until_done(2).await, events);
    // A run that waits counts as done, and goes on when it is answered.
    server.json("POST", &wait, asks("ask")).await;
    let events = all.until_done(3).await;
    assert!(events.iter().any(|(_, data, _)| data["__interrupt__"].is_array()), "{events:?}");
    let mut late = server.open(&path, &[]).await;
    server.json("POST", &wait, json!({ "assistant_id": "answers", "command": { "resume": "yes" } })).await;
    for stream in [&mut all, &mut late] {
        let runs = dones(&stream::parsed(&stream.text)) + 1;
        let events = stream.until_done(runs).await;
        let (_, values, _) = events.iter().rev().find(|(name, ..)| name == "values").unwrap();
        assert_eq!(last(values), "to ask after 0: \"yes\"", "{events:?}");
    }
    // What a client writes, and what is wrong.
    let mut states = server.open(&format!("{path}?stream_mode=state_update"), &[]).await;
    server.json("POST", &format!("/threads/{thread}/state"), json!({ "values": { "mood": "dry" } })).await;
    let chunk = tokio::time::timeout(Duration::from_secs(20), states.response.chunk()).await.unwrap().unwrap().unwrap();
    let events = stream::parsed(std::str::from_utf8(&chunk).unwrap());
    assert_eq!((names(&events), &events[0].1["state"]["values"]["mood"]), (vec!["state_update"], &json!("dry")));
    assert_eq!(server.refused("GET", &format!("{path}?stream_mode=values"), Value::Null).await.0, 422);
    let (status, text) = server.send("GET", &path, Value::Null, &[("last-event-id", "17-0")]).await;
    assert_eq!(status, 422, "{text}");
    // The stream of a thread that is deleted ends.
    assert_eq!(server.send("DELETE", &format!("/threads/{thread}"), Value::Null, &[]).await.0, 204);
    let ended = async { while all.response.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
}

#[tokio::test]
async fn p3_crons_have_the_time_zone_that_a_client_names() {
    let server = serve().await;
    let cron = with(asks("often"), json!({ "schedule": "0 9 * * *", "timezone": "Europe/Berlin" }));
    let made = server.json("POST", "/runs/crons", cron.clone()).await;
    let next = made["next_run_date"].as_str().unwrap();
    assert!(next.ends_with("T07:00:00Z") || next.ends_with("T08:00:00Z"), "{made}");
    assert_eq!(made["timezone"], "Europe/Berlin");
    let changed = server.json("PATCH", &format!("/runs/crons/{}", made["cron_id"].as_str().unwrap()), json!({ "timezone": "Asia/Kolkata" })).await;
    assert!(changed["next_run_date"].as_str().unwrap().ends_with("T03:30:00Z"), "{changed}");
    let (status, words) = server.refused("POST", "/runs/crons", with(cron, json!({ "timezone": "Mars/Olympus" }))).await;
    assert!(status == 422 && words.contains("Europe/Berlin"), "{words}");
}

/// Clients say anything at all. `BATON_MANGLED` says how often; 2,000 if not said.
#[tokio::test]
async fn p8_mangled_requests_never_panic_or_hang() {
    let graph = graph_of(service(Arc::new(MemoryStore::new())));
    let nobody = caller("nobody");
    let whole = json!({
        "assistant_id": "answers", "input": { "messages": [{ "type": "human", "content": "hi" }, ["ai", "y"]] }, "stream_mode": ["values", "updates"],
        "config": { "tags": ["t"], "metadata": {}, "recursion_limit": 25, "configurable": { "checkpoint_ns": "" } }, "metadata": { "a": [1] },
        "command": null, "checkpoint": null, "multitask_strategy": "enqueue", "if_not_exists": "create", "on_completion": "delete",
    })
    .to_string();
    let (mut good, mut refused) = (0, 0);
    for bytes in mangled::mangled(whole.as_bytes(), 0x9e37_79b9_7f4a_7c15).take(mangled::count()) {
        let call = async {
            let request = crate::langserve::read(&bytes)?;
            let started = Box::pin(graph.begin(BeginRequest { caller: &nobody, thread: None, request, run: None, is_watched: false })).await?;
            graph.outcome(&nobody.who, &started.thread.id, &started.run, true).await
        };
        let answered = Box::pin(tokio::time::timeout(Duration::from_secs(10), call)).await;
        match answered.unwrap_or_else(|_| panic!("it hangs on {}", String::from_utf8_lossy(&bytes))) {
            Ok(_) => good += 1,
            Err(why) => {
                refused += 1;
                assert!(matches!(why.status.as_u16(), 404 | 422) && !why.message().is_empty(), "{} {}", why.status, why.message());
            }
        }
    }
    assert!(good > 0 && refused > 0, "{good} good, {refused} refused");
}

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use engine::{Engine, Order, Settings};
use evidence::Span;
use graph::{Ask, END, Go, Graph, Replies, ThreadId, UserId};
use scripted::{ScriptedHandler, mangled};
use serde_json::{Map, Value, json};
use store::MemoryStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::api;

use super::*;
use crate::backend::{Backend, Export, Result};
use crate::guard::Guard;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::page::Page;
use crate::quota::Quota;

mod over_grpc;

const SCRIPT: &str = "when tool slow reply 1 after 400ms\nwhen tool hang hang\n";

/// `ask` asks a person twice, `fail` fails, `slow` and `hang` call tools of these names.
fn answers() -> Graph {
    let question = |s: &Value| s["question"].as_str().unwrap_or_default().to_owned();
    let ask = move |s: &Value| match question(s).as_str() {
        "ask" => Ask::one(graph::person("Really?")),
        "slow" => Ask::one(graph::tool("slow", json!({}))),
        "hang" => Ask::one(graph::tool("hang", json!({}))),
        _ => Ask::nothing(),
    };
    let fold = move |s: &mut Value, replies: &Replies<'_>| {
        if question(s) == "fail" {
            return Go::fail("it hurts");
        }
        let received = replies.value(0).cloned().unwrap_or_default();
        let earlier = s["received"].as_array().cloned().unwrap_or_default();
        s["received"] = json!([earlier, vec![received]].concat());
        if question(s) == "ask" && s["received"].as_array().is_some_and(|received| received.len() < 2) {
            return Go::to("think");
        }
        let answer = format!("to {}: {}", question(s), s["received"]);
        *s = json!({ "answer": answer, "sources": [] });
        Go::end().note("thought", 1)
    };
    Graph::of::<Value>("answers").node("think", (ask, fold), &["think", END]).build().unwrap()
}

/// Flows that are asked, and nothing else; loopback may be notified if `is_open`.
struct Flows {
    is_open: bool,
}

fn nothing<T>() -> Result<T> {
    Err(Problem::not_found("thing"))
}

#[async_trait]
impl Backend for Flows {
    fn flows(&self) -> Vec<api::Flow> {
        let flow = |name: &str| api::Flow {
            name: name.to_owned(),
            title: name.to_owned(),
            about: format!("about {name}"),
            icon: String::new(),
            can_approve: false,
            is_shown: true,
            graph: Value::Null,
            settings: Vec::new(),
        };
        vec![flow("auto"), flow("answers")]
    }

    fn order(&self, user: &UserId, _: &ThreadId, new_run: &api::NewRun) -> Result<Order> {
        let mut order = Order::new("answers", json!({ "question": new_run.question }));
        order.context.user = user.clone();
        Ok(order)
    }

    fn takes_history(&self, _: &str) -> bool {
        false
    }

    fn given(&self, _: &UserId) -> Map<String, Value> {
        Map::new()
    }

    fn chosen(&self) -> api::SelectedModel {
        api::SelectedModel { name: String::new(), why: String::new() }
    }

    async fn models(&self) -> Result<api::Models> {
        nothing()
    }

    fn preference(&self, _: &str, _: &Value) -> Result<Option<Value>> {
        nothing()
    }

    async fn documents(&self, _: &UserId) -> Result<api::Documents> {
        nothing()
    }

    async fn put_document(&self, _: &UserId, _: &str, _: Vec<u8>) -> Result<api::Uploaded> {
        nothing()
    }

    async fn document(&self, _: &UserId, _: &str) -> Result<Vec<u8>> {
        nothing()
    }

    async fn delete_document(&self, _: &UserId, _: &str) -> Result<()> {
        nothing()
    }

    async fn excerpt(&self, _: &UserId, _: &Span) -> Option<api::Excerpt> {
        None
    }

    async fn workspace_file(&self, _: &ThreadId, _: &str) -> Result<Vec<u8>> {
        nothing()
    }

    fn is_public(&self, _: IpAddr) -> bool {
        self.is_open
    }

    async fn thread_deleted(&self, _: &ThreadId) -> Result<()> {
        Ok(())
    }

    async fn export(&self, _: Export) -> Result<Vec<u8>> {
        nothing()
    }

    fn html(&self, _: &str) -> String {
        String::new()
    }
}

/// Its address, and one client for all requests: making a client reads the trusted certificates, which takes longer than most requests.
struct Server(String, reqwest::Client);

async fn serve() -> Server {
    serve_on(Arc::new(MemoryStore::new()), true).await
}

async fn serve_on(store: Arc<dyn Store>, is_open: bool) -> Server {
    let handler = ScriptedHandler::parse(SCRIPT).unwrap();
    let engine = Engine::new(store, Arc::new(handler), [answers()], Settings::default());
    engine.recover().await.unwrap();
    let guard = Guard::new(None);
    let listener = guard.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let limits = Limits { requests_per_second_max: 100_000, ..Limits::default() };
    let api = Api::new(engine, Arc::new(Flows { is_open }), guard, Quota::new(limits), Metrics::new());
    let router = crate::service::router(&api, &Page::new(None), None, None);
    tokio::spawn(async move { crate::serve(listener, router).await });
    Server(base, reqwest::Client::builder().no_proxy().build().unwrap())
}

impl Server {
    async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, String) {
        let mut request = self.1.request(method.parse().unwrap(), format!("{}{path}", self.0)).header("a2a-version", "1.0");
        if method != "GET" {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = tokio::time::timeout(Duration::from_secs(20), request.send()).await.unwrap().unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn rpc(&self, method: &str, params: Value) -> std::result::Result<Value, (i64, String)> {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
        let (status, text) = self.send("POST", "/a2a", body.into_bytes()).await;
        assert_eq!(status, 200, "{text}");
        let mut reply: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(reply["id"], 7);
        match reply["error"].is_object() {
            true => Err((reply["error"]["code"].as_i64().unwrap(), reply["error"]["message"].as_str().unwrap().to_owned())),
            false => Ok(reply["result"].take()),
        }
    }

    async fn send_text(&self, text: &str, id: &str) -> Value {
        self.rpc("SendMessage", message(text, id, json!({}))).await.unwrap()["task"].take()
    }

    async fn until(&self, task: &str, state: &str) -> Value {
        for _ in 0..200 {
            let found = self.rpc("GetTask", json!({ "id": task })).await.unwrap();
            if found["status"]["state"] == state {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{task} never came to {state}")
    }
}

fn message(text: &str, id: &str, more: Value) -> Value {
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] });
    let Value::Object(more) = more else { panic!("it is an object") };
    for (name, value) in more {
        message[name] = value;
    }
    json!({ "message": message })
}

fn frames(text: &str) -> Vec<Value> {
    text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")).map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_a_message_is_a_task_and_the_same_message_the_same_task() {
    let server = serve().await;
    let (_, card) = server.send("GET", "/.well-known/agent-card.json", Vec::new()).await;
    let card: wire::a2a::card::AgentCard = serde_json::from_str(&card).unwrap();
    assert_eq!((card.skills.len(), card.supported_interfaces[0].url.as_str()), (2, format!("{}/a2a", server.0).as_str()));
    let task = server.send_text("hello", "m1").await;
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "to hello: [null]");
    assert_eq!((&task["history"][0]["messageId"], &task["history"][0]["taskId"]), (&json!("m1"), &task["id"]));
    assert_eq!(server.send_text("hello", "m1").await["id"], task["id"]);
    // The next one in the same context, over the other binding, as an agent of its own.
    let body = message("again", "m2", json!({ "contextId": task["contextId"] })).to_string().into_bytes();
    let (status, text) = server.send("POST", "/a2a/v1/answers/message:send", body).await;
    let next: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &next["task"]["contextId"]), (200, &task["contextId"]), "{text}");
    let listed = server.rpc("ListTasks", json!({ "contextId": task["contextId"], "pageSize": 1 })).await.unwrap();
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"], listed["tasks"][0].get("artifacts")), (&json!(2), &next["task"]["id"], None));
    let more = server.rpc("ListTasks", json!({ "contextId": task["contextId"], "pageSize": 1, "pageToken": listed["nextPageToken"] })).await.unwrap();
    assert_eq!((&more["tasks"][0]["id"], &more["nextPageToken"]), (&task["id"], &json!("")));
    let mine = server.rpc("SendMessage", message("x", "m3", json!({ "contextId": "my talk" }))).await.unwrap();
    assert_eq!(mine["task"]["contextId"], "my talk");
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_a_question_is_input_required_and_a_message_in_the_task_answers_it() {
    let server = serve().await;
    let asks = server.send_text("ask", "m1").await;
    assert_eq!(asks["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert!(asks["status"]["message"]["parts"][0]["text"].as_str().unwrap().starts_with("Really?"), "{asks}");
    let answer = |text: &str, id: &str| message(text, id, json!({ "taskId": asks["id"] }));
    let again = server.rpc("SendMessage", answer("one", "a1")).await.unwrap()["task"].take();
    assert_eq!(again["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_ne!(again["status"]["message"]["messageId"], asks["status"]["message"]["messageId"]);
    // An answer that is sent again is not taken for one to the next question.
    let repeated = server.rpc("SendMessage", answer("one", "a1")).await.unwrap()["task"].take();
    assert_eq!(repeated["status"]["message"]["messageId"], again["status"]["message"]["messageId"]);
    let (code, reason) = server.rpc("SendMessage", message("x", "a2", json!({ "taskId": asks["id"], "contextId": "other" }))).await.unwrap_err();
    assert!(code == -32602 && reason.contains("context"), "{reason}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": answer("two", "a3") }).to_string();
    let updates = frames(&server.send("POST", "/a2a", body.into_bytes()).await.1);
    assert_eq!(updates[0]["result"]["task"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(updates.last().unwrap()["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    let done = server.until(asks["id"].as_str().unwrap(), "TASK_STATE_COMPLETED").await;
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "to ask: [\"one\",\"two\"]");
    let roles: Vec<&str> = done["history"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER", "ROLE_AGENT", "ROLE_USER"]);
    let (code, reason) = server.rpc("SendMessage", answer("three", "a4")).await.unwrap_err();
    assert!(code == -32004 && reason.contains("without taskId"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_a_task_is_streamed_resumed_and_cancelled() {
    let server = serve().await;
    let body = json!({ "jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": message("slow", "m1", json!({})) }).to_string();
    let updates = frames(&server.send("POST", "/a2a", body.into_bytes()).await.1);
    let state = |frame: &Value| frame.pointer("/result/statusUpdate/status/state").and_then(Value::as_str).map(str::to_owned);
    assert_eq!(updates[0]["result"]["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(updates.iter().filter_map(state).next_back().as_deref(), Some("TASK_STATE_COMPLETED"));
    assert!(updates.iter().any(|frame| frame["result"]["artifactUpdate"]["lastChunk"] == true), "{updates:?}");
    // One that goes on: somebody else follows it to its end, and it is cancelled.
    let hangs = server
        .rpc("SendMessage", json!({ "message": message("hang", "m2", json!({}))["message"], "configuration": { "returnImmediately": true } }))
        .await
        .unwrap();
    let id = hangs["task"]["id"].as_str().unwrap().to_owned();
    let path = format!("/a2a/v1/tasks/{id}:subscribe");
    let follow = server.send("GET", &path, Vec::new());
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.rpc("CancelTask", json!({ "id": id })).await.unwrap()
    };
    let ((_, followed), cancelled) = tokio::join!(follow, cancel);
    let followed = frames(&followed);
    assert_eq!(followed[0]["task"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(followed.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(server.rpc("CancelTask", json!({ "id": id })).await.unwrap_err().0, -32002);
    assert_eq!(server.rpc("SubscribeToTask", json!({ "id": id })).await.unwrap_err().0, -32004);
    let failed = server.send_text("fail", "m3").await;
    assert_eq!((&failed["status"]["state"], &failed["status"]["message"]["parts"][0]["text"]), (&json!("TASK_STATE_FAILED"), &json!("it hurts")));
}

/// The stream of a message ends with the question; whoever subscribes to the task sees its answer and its end.
#[tokio::test(flavor = "multi_thread")]
async fn x5_a_subscription_lasts_through_questions_until_the_task_ends() {
    let server = serve().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message("ask", "m1", json!({})) }).to_string();
    let updates = frames(&server.send("POST", "/a2a", body.into_bytes()).await.1);
    assert_eq!(updates.last().unwrap()["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let id = updates[0]["result"]["task"]["id"].as_str().unwrap().to_owned();
    let path = format!("/a2a/v1/tasks/{id}:subscribe");
    let follow = server.send("GET", &path, Vec::new());
    let answer = async {
        for (text, message_id) in [("one", "a1"), ("two", "a2")] {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // The names of the fields as the proto has them are read too.
            let params = json!({ "message": { "message_id": message_id, "role": "ROLE_USER", "parts": [{ "text": text }], "task_id": id } });
            server.rpc("SendMessage", params).await.unwrap();
        }
    };
    let ((_, followed), ()) = tokio::time::timeout(Duration::from_secs(30), async { tokio::join!(follow, answer) }).await.expect("the stream ends");
    let followed = frames(&followed);
    assert_eq!(followed[0]["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let states: Vec<&str> = followed.iter().filter_map(|frame| frame.pointer("/statusUpdate/status/state")?.as_str()).collect();
    assert!(states.contains(&"TASK_STATE_INPUT_REQUIRED") && states.last() == Some(&"TASK_STATE_COMPLETED"), "{states:?}");
    let history = |length: Value| server.rpc("GetTask", json!({ "id": id, "history_length": length }));
    assert_eq!(history(json!(1)).await.unwrap()["history"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_what_is_refused_is_refused_in_the_form_of_the_binding() {
    let server = serve().await;
    for (method, params, expected) in [
        ("GetTask", json!({ "id": "nobody" }), -32001),
        ("GetTask", json!({}), -32602),
        ("CancelTask", json!({ "id": "nobody" }), -32001),
        ("SendMessage", json!({}), -32602),
        ("SendMessage", message("x", "", json!({})), -32602),
        ("SendMessage", message("", "m", json!({})), -32602),
        ("SendMessage", message("x", "m", json!({ "role": "ROLE_AGENT" })), -32602),
        ("SendMessage", message("x", "m", json!({ "parts": [] })), -32602),
        ("SendMessage", message("x", "m", json!({ "parts": [{ "raw": "eA==" }] })), -32005),
        ("SendMessage", message("x", "m", json!({ "taskId": "nobody" })), -32001),
        ("SendMessage", json!({ "tenant": "nobody", "message": message("x", "m", json!({}))["message"] }), -32602),
        ("SubscribeToTask", json!({ "id": "nobody" }), -32001),
        ("ListTasks", json!({ "pageSize": 0 }), -32602),
        ("GetTaskPushNotificationConfig", json!({ "taskId": "nobody", "id": "x" }), -32001),
        ("message/send", json!({}), -32009),
        ("Nonsense", json!({}), -32601),
    ] {
        let (code, reason) = server.rpc(method, params.clone()).await.unwrap_err();
        assert!(code == expected && reason.len() > 10, "{method} {params}: {code} {reason}");
    }
    for (body, expected) in [
        ("{", -32700),
        ("[]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#, -32602),
    ] {
        let (status, text) = server.send("POST", "/a2a", body.as_bytes().to_vec()).await;
        let reply: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &reply["error"]["code"]), (200, &json!(expected)), "{body}");
    }
    for (method, path, status, reason) in [
        ("GET", "/a2a/v1/tasks/nobody", 404, "TASK_NOT_FOUND"),
        ("POST", "/a2a/v1/tasks/nobody:cancel", 404, "TASK_NOT_FOUND"),
        ("GET", "/a2a/v1/tasks?pageSize=x", 400, "INVALID_PARAMS"),
        ("POST", "/a2a/v1/message:send", 400, "INVALID_PARAMS"),
        ("GET", "/a2a/v1/tasks/nobody?A2A-Version=0.3", 404, "TASK_NOT_FOUND"),
        ("GET", "/a2a/v1/nothing/here/at/all", 404, "METHOD_NOT_FOUND"),
    ] {
        let (found, text) = server.send(method, path, Vec::new()).await;
        let reply: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((found, &reply["error"]["details"][0]["reason"]), (status, &json!(reason)), "{path}: {text}");
    }
    let other = reqwest::Client::new().get(format!("{}/a2a/v1/tasks/x", server.0)).header("a2a-version", "0.3").send().await.unwrap();
    assert!(other.text().await.unwrap().contains("VERSION_NOT_SUPPORTED"));
}

/// Takes what is sent to it, and refuses the first so many.
async fn receiver(refused: usize) -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (to, from) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((mut line, _)) = listener.accept().await {
            let mut received = Vec::new();
            let mut chunk = vec![0; 64 << 10];
            loop {
                let read = line.read(&mut chunk).await.unwrap_or(0);
                received.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&received).to_lowercase();
                let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                let has = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
                if read == 0 || has.is_some_and(|has| has >= length.unwrap_or(0)) {
                    break;
                }
            }
            count += 1;
            let status = if count <= refused { "503 No" } else { "200 OK" };
            let _ = line.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes()).await;
            if count > refused {
                to.send(String::from_utf8_lossy(&received).into_owned()).unwrap();
            }
        }
    });
    (url, from)
}

fn pushed(text: &str) -> Value {
    serde_json::from_str::<Value>(text.split_once("\r\n\r\n").unwrap().1).unwrap()["task"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_push_notifications_are_sent_for_questions_and_ends_also_after_a_restart() {
    let (url, mut received) = receiver(1).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let server = serve_on(store.clone(), true).await;
    let mut ask = message("ask", "m1", json!({}));
    ask["configuration"] =
        json!({ "taskPushNotificationConfig": { "url": url, "token": "sesame", "authentication": { "scheme": "Bearer", "credentials": "open" } } });
    let task = server.rpc("SendMessage", ask).await.unwrap()["task"].take();
    let wait = Duration::from_secs(20);
    let first = tokio::time::timeout(wait, received.recv()).await.unwrap().unwrap();
    assert!(
        first.contains("x-a2a-notification-token: sesame") && first.contains("authorization: Bearer open") && first.contains("application/a2a+json"),
        "{first}"
    );
    assert_eq!((&pushed(&first)["id"], &pushed(&first)["status"]["state"]), (&task["id"], &json!("TASK_STATE_INPUT_REQUIRED")));
    let listed = server.rpc("ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })).await.unwrap();
    let id = listed["configs"][0]["id"].clone();
    assert_eq!(server.rpc("GetTaskPushNotificationConfig", json!({ "taskId": task["id"], "id": id })).await.unwrap()["url"], url);
    // Another server takes over, and somebody answers there.
    let next = serve_on(store, true).await;
    for (text, at) in [("one", "a1"), ("two", "a2")] {
        next.rpc("SendMessage", message(text, at, json!({ "taskId": task["id"] }))).await.unwrap();
    }
    loop {
        let updates = pushed(&tokio::time::timeout(wait, received.recv()).await.unwrap().unwrap());
        if updates["status"]["state"] == "TASK_STATE_COMPLETED" {
            assert_eq!(updates["artifacts"][0]["parts"][0]["text"], "to ask: [\"one\",\"two\"]");
            break;
        }
    }
    // It can still be read, and deleted, twice.
    for _ in 0..2 {
        next.rpc("DeleteTaskPushNotificationConfig", json!({ "taskId": task["id"], "id": id })).await.unwrap();
    }
    assert_eq!(next.rpc("GetTaskPushNotificationConfig", json!({ "taskId": task["id"], "id": id })).await.unwrap_err().0, -32001);
    let guarded = serve_on(Arc::new(MemoryStore::new()), false).await;
    let mut inward = message("hello", "m1", json!({}));
    inward["configuration"] = json!({ "taskPushNotificationConfig": { "url": url } });
    let (code, reason) = guarded.rpc("SendMessage", inward).await.unwrap_err();
    assert!(code == -32602 && reason.contains("public internet"), "{reason}");
}

/// `BATON_MANGLED` is the number of requests.
#[tokio::test(flavor = "multi_thread")]
async fn p8_mangled_requests_never_panic_or_hang() {
    let server = serve().await;
    let mut send = message("hello", "m1", json!({ "contextId": "c", "metadata": { "baton": { "flow": "answers", "approve": false } } }));
    send["configuration"] = json!({ "historyLength": 3, "acceptedOutputModes": ["text/plain"], "returnImmediately": false });
    let whole = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send }).to_string();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": { "pageSize": 5, "status": "TASK_STATE_WORKING", "statusTimestampAfter": "2026-11-16T09:44:00Z" } }).to_string();
    let rest = send.to_string();
    let each = (mangled::count() / 3).max(50);
    for (path, whole) in [("/a2a", whole), ("/a2a", list), ("/a2a/v1/message:send", rest)] {
        let (mut good, mut refused) = (0, 0);
        for bytes in mangled::mangled(whole.as_bytes(), 0x9e37_79b9_7f4a_7c15).take(each) {
            let (status, text) = server.send("POST", path, bytes.clone()).await;
            let reply: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}"));
            match reply["error"].is_object() {
                true => refused += 1,
                false => good += 1,
            }
            assert!(
                status < 500 && (reply["error"].is_null() || reply["error"]["message"].as_str().is_some_and(|reason| reason.len() > 5)),
                "{status} {text}"
            );
        }
        assert!(good > 0 && refused > 0, "{path}: {good} good, {refused} refused");
    }
}

//! Against a small server whose replies each test chooses.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use graph::Effect;
use scripted::mangled;
use wire::a2a::card::{HTTP_JSON, JSON_RPC};

use serde_json::json;

use super::*;
use crate::tests::{Peer, answer, peer};

/// Answers a request for the card by its Host header.
fn card_of(request: &str, binding: &str, has_streams: bool) -> Value {
    let host = request.lines().find_map(|line| line.to_lowercase().strip_prefix("host: ").map(|host| host.trim().to_owned())).unwrap();
    json!({
        "name": "Sea", "description": "d", "version": "1",
        "supportedInterfaces": [{ "url": format!("http://{host}/rpc"), "protocolBinding": binding, "protocolVersion": "1.0" }],
        "capabilities": { "streaming": has_streams },
        "skills": [{ "id": "research", "name": "r", "description": "finds", "tags": [] }],
    })
}

/// An agent whose operations answer what `respond` makes of their names and parameters; `null` closes the connection.
async fn agent(has_streams: bool, respond: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Peer {
    peer(move |request| {
        if request.starts_with("GET /.well-known/") {
            return answer("200 OK", "", &card_of(request, JSON_RPC, has_streams).to_string());
        }
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let reply = respond(body["method"].as_str().unwrap(), &body["params"]);
        if reply.is_null() {
            return Vec::new();
        }
        match reply.get("stream").and_then(Value::as_array) {
            Some(updates) => {
                let frames: String =
                    updates.iter().map(|update| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": update }))).collect();
                answer("200 OK", "content-type: text/event-stream\r\n", &frames)
            }
            None => answer("200 OK", "content-type: application/json\r\n", &reply.to_string()),
        }
    })
    .await
}

fn result(value: Value) -> Value {
    let mut reply = json!({ "jsonrpc": "2.0", "id": 1 });
    reply["result"] = value;
    reply
}

fn error(kind: wire::a2a::error::ErrorKind) -> Value {
    kind.of_rpc(&json!(1), "no")
}

fn task(state: &str, more: Value) -> Value {
    let mut task = json!({ "id": "t1", "contextId": "c", "status": { "state": state } });
    let Value::Object(more) = more else { panic!("it is an object") };
    for (name, value) in more {
        task[name] = value;
    }
    task
}

fn done() -> Value {
    task("TASK_STATE_COMPLETED", json!({ "artifacts": [{ "artifactId": "a", "parts": [{ "text": "The moon." }] }] }))
}

async fn call(peer: &Peer, context: Value) -> (Result<Value, Failure>, String) {
    call_as("sea", peer, context).await
}

async fn call_as(name: &str, peer: &Peer, context: Value) -> (Result<Value, Failure>, String) {
    let input = json!({ "messages": [{ "role": "user", "content": "tides?" }], "context": context });
    let jobs = scripted::jobs(&[graph::agent("a2a/sea", input)]);
    let Effect::CallAgent(called) = &*jobs[0].effect else { panic!("it is a call") };
    let streamed = std::sync::Arc::new(Mutex::new(String::new()));
    let sink = streamed.clone();
    let progress = Progress::to(move |text| sink.lock().unwrap().push_str(text));
    let agent = Agent::new(&peer.url, "", None, None).unwrap();
    let reply = agent.call(name, &called.input, &jobs[0], &progress).await;
    let streamed = streamed.lock().unwrap().clone();
    (reply.result, streamed)
}

fn calls(peer: &Peer, method: &str) -> usize {
    peer.requests.lock().unwrap().iter().filter(|request| request.contains(&format!("\"method\":\"{method}\""))).count()
}

#[tokio::test]
async fn p3_a_call_is_a_task_that_is_streamed_and_read_at_its_end() {
    let peer = agent(true, |method, params| match method {
        "ListTasks" => result(json!({ "tasks": [] })),
        "SendStreamingMessage" => {
            let id = &params["message"]["messageId"];
            assert!(id.as_str().is_some_and(|id| id.len() == 36) && id != &params["message"]["contextId"]);
            json!({ "stream": [{ "task": task("TASK_STATE_SUBMITTED", json!({})) },
                { "artifactUpdate": { "taskId": "t1", "artifact": { "artifactId": "a", "parts": [{ "text": "The moon." }] } } }] })
        }
        _ => result(done()),
    })
    .await;
    let (reply, streamed) = call(&peer, json!({ "capability": "research" })).await;
    assert!(reply.unwrap()["messages"][0]["content"].as_str().unwrap().contains("completed_capability"));
    assert_eq!(streamed, "The moon.");
    let requests = peer.requests.lock().unwrap().join("\n").to_lowercase();
    for expected in ["a2a-version: 1.0", "x-baton-depth: 1", "idempotency-key: ", "tides?"] {
        assert!(requests.contains(expected), "{expected}: {requests}");
    }
}

#[tokio::test]
async fn p3_a_task_that_an_earlier_attempt_started_is_followed_and_not_started_again() {
    let looks = AtomicUsize::new(0);
    let peer = agent(true, move |method, _| match method {
        "ListTasks" => result(json!({ "tasks": [{ "id": "t1" }] })),
        "GetTask" if looks.fetch_add(1, Ordering::SeqCst) == 0 => result(task("TASK_STATE_WORKING", json!({}))),
        // One that streams nothing is looked at.
        "SubscribeToTask" => error(wire::a2a::error::UNSUPPORTED_OPERATION),
        _ => result(done()),
    })
    .await;
    assert!(call(&peer, json!({})).await.0.is_ok());
    assert_eq!((calls(&peer, "SendStreamingMessage"), calls(&peer, "GetTask"), calls(&peer, "SubscribeToTask")), (0, 2, 1));
}

/// The name of the agent is in every message, so a decision that read messages would take both for the same.
#[tokio::test]
async fn p8_a_broken_connection_is_opened_again_and_a_task_that_is_gone_is_reported_at_once() {
    for (first, is_answered, reads) in [(Value::Null, true, 2), (error(TASK_NOT_FOUND), false, 1)] {
        let read = AtomicUsize::new(0);
        let peer = agent(false, move |method, _| match method {
            "ListTasks" => result(json!({ "tasks": [{ "id": "t1" }] })),
            "GetTask" if read.fetch_add(1, Ordering::SeqCst) == 0 => first.clone(),
            _ => result(done()),
        })
        .await;
        let (reply, _) = call_as("one that no longer has its task", &peer, json!({})).await;
        assert_eq!((reply.is_ok(), calls(&peer, "GetTask")), (is_answered, reads), "{reply:?}");
    }
}

#[tokio::test]
async fn p3_a_question_is_returned_and_its_answer_goes_to_the_same_task_once() {
    let asks = || {
        task(
            "TASK_STATE_INPUT_REQUIRED",
            json!({ "status": { "state": "TASK_STATE_INPUT_REQUIRED", "message": { "messageId": "q1", "parts": [{ "text": "Which sea?" }] } } }),
        )
    };
    let peer = agent(false, move |method, _| match method {
        "ListTasks" => error(wire::a2a::error::METHOD_NOT_FOUND),
        "SendMessage" => result(json!({ "task": asks() })),
        _ => result(asks()),
    })
    .await;
    let waiting = call(&peer, json!({})).await.0.unwrap()["context"]["waiting"][0].clone();
    assert_eq!((&waiting["prompt"], &waiting["task"], &waiting["question"]), (&json!("Which sea?"), &json!("t1"), &json!("q1")));
    for (question, expected) in [("q1", 1), ("q0", 0)] {
        let looks = AtomicUsize::new(0);
        let peer = agent(false, move |method, params| match method {
            "SendMessage" => {
                assert_eq!((&params["message"]["taskId"], &params["message"]["parts"][0]["text"]), (&json!("t1"), &json!("the North Sea")));
                result(json!({ "task": task("TASK_STATE_WORKING", json!({})) }))
            }
            _ if looks.fetch_add(1, Ordering::SeqCst) == 0 => result(asks()),
            _ => result(done()),
        })
        .await;
        let answers = json!({ "answers": [{ "task": "t1", "question": question, "value": "the North Sea" }] });
        assert!(call(&peer, answers).await.0.is_ok());
        assert_eq!(calls(&peer, "SendMessage"), expected, "an answer to a question that is not open any more is not sent");
    }
}

#[tokio::test]
async fn p8_what_an_agent_of_a2a_refuses_is_sorted_by_who_can_help() {
    use graph::Retry;
    for (reply, kind, retry, message) in [
        (error(wire::a2a::error::INVALID_PARAMS), FailureKind::Invalid, Retry::No, "refused: no"),
        (error(wire::a2a::error::INTERNAL), FailureKind::Tool, Retry::Yes, "refused: no"),
        (error(wire::a2a::error::UNSUPPORTED_OPERATION), FailureKind::Refused, Retry::No, "refused: no"),
        (json!({ "jsonrpc": "2.0", "id": 1 }), FailureKind::Invalid, Retry::Yes, "neither a result nor an error"),
        (result(json!({ "nothing": 1 })), FailureKind::Invalid, Retry::Yes, "neither a task nor a message"),
        (result(json!({ "task": task("TASK_STATE_FAILED", json!({})) })), FailureKind::Tool, Retry::No, "failed"),
        (result(json!({ "task": task("TASK_STATE_REJECTED", json!({})) })), FailureKind::Refused, Retry::No, "rejected"),
    ] {
        let shown = reply.to_string();
        let peer = agent(false, move |method, _| match method {
            "ListTasks" => result(json!({ "tasks": [] })),
            "GetTask" => result(reply["result"]["task"].clone()),
            _ => reply.clone(),
        })
        .await;
        let failure = call(&peer, json!({})).await.0.unwrap_err();
        assert!((failure.kind, failure.retry) == (kind, retry) && failure.message.contains(message), "{shown}: {failure:?}");
    }
    let forgetful = agent(false, |method, _| match method {
        "ListTasks" => result(json!({ "tasks": [{ "id": "t1" }] })),
        _ => error(TASK_NOT_FOUND),
    })
    .await;
    let failure = call(&forgetful, json!({})).await.0.unwrap_err();
    assert!((failure.kind, failure.retry) == (FailureKind::Network, Retry::Yes) && failure.message.contains("no longer has its task"), "{failure}");
    let other = peer(|request| match request.starts_with("GET /.well-known/") {
        true => answer("200 OK", "", &card_of("host: elsewhere.example\r\n", JSON_RPC, false).to_string()),
        false => Vec::new(),
    })
    .await;
    let failure = call(&other, json!({})).await.0.unwrap_err();
    assert!(failure.kind == FailureKind::Refused && failure.message.contains("another machine"), "{failure}");
}

#[tokio::test]
async fn p3_http_json_is_supported() {
    let peer = peer(|request| {
        let first = request.lines().next().unwrap_or_default();
        match first {
            _ if first.starts_with("GET /.well-known/") => answer("200 OK", "", &card_of(request, HTTP_JSON, false).to_string()),
            _ if first.starts_with("GET /rpc/tasks?contextId=") => {
                answer("404 Not Found", "", &wire::a2a::error::METHOD_NOT_FOUND.of_http("no").to_string())
            }
            _ if first.starts_with("POST /rpc/message:send ") => {
                answer("200 OK", "", &json!({ "task": task("TASK_STATE_WORKING", json!({})) }).to_string())
            }
            _ if first.starts_with("GET /rpc/tasks/t1 ") => answer("200 OK", "", &done().to_string()),
            _ => answer("500 Oops", "", ""),
        }
    })
    .await;
    assert_eq!(call(&peer, json!({})).await.0.unwrap()["messages"][0]["content"], "The moon.");
    let agent = Agent::new(&peer.url, "", None, None).unwrap();
    assert_eq!(agent.describe().await.unwrap().unwrap().capabilities[0].name, "research");
}

/// What a server of gRPC answers to one call: the body, and the trailers after it.
type GrpcAnswer = (Vec<u8>, Vec<(&'static str, String)>);

/// A server of HTTP/2 that answers what `respond` makes of a method and its message.
async fn grpc_server(respond: impl Fn(&str, &[u8]) -> GrpcAnswer + Send + Sync + 'static) -> String {
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::{Bytes, Frame, Incoming};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let respond = std::sync::Arc::new(respond);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let respond = respond.clone();
            let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                let respond = respond.clone();
                async move {
                    assert_eq!(
                        (&request.headers()["te"], &request.headers()["content-type"]),
                        (&"trailers".parse().unwrap(), &"application/grpc".parse().unwrap())
                    );
                    assert!(["a2a-version", "x-baton-depth", "idempotency-key"].iter().all(|name| request.headers().contains_key(*name)));
                    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let (bytes, trailers) = respond(&method, &body);
                    let trailers = trailers.into_iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
                    let frames = [Frame::data(Bytes::from(bytes)), Frame::trailers(trailers)];
                    let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, std::convert::Infallible>)));
                    http::Response::builder().header("content-type", "application/grpc").body(body)
                }
            });
            tokio::spawn(hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
        }
    });
    url
}

fn succeeded(message: &impl prost::Message) -> GrpcAnswer {
    (wire::a2a::grpc::frame(message), vec![("grpc-status", "0".to_owned())])
}

fn refused_with(kind: wire::a2a::error::ErrorKind) -> GrpcAnswer {
    (Vec::new(), wire::a2a::grpc::trailers(kind, "no").into())
}

fn in_proto(value: Value) -> wire::a2a::proto::Task {
    serde_json::from_value::<Task>(value).unwrap().into()
}

/// A card over HTTP that names gRPC at another port, and the agent there.
async fn call_grpc(has_streams: bool, respond: impl Fn(&str, &[u8]) -> GrpcAnswer + Send + Sync + 'static) -> (Result<Value, Failure>, String) {
    let grpc_url = grpc_server(respond).await;
    let card = peer(move |request| answer("200 OK", "", &card_of(request, wire::a2a::card::GRPC, has_streams).to_string())).await;
    let input = json!({ "messages": [{ "role": "user", "content": "tides?" }], "context": { "capability": "research" } });
    let jobs = scripted::jobs(&[graph::agent("a2a/sea", input)]);
    let Effect::CallAgent(called) = &*jobs[0].effect else { panic!("it is a call") };
    let streamed = std::sync::Arc::new(Mutex::new(String::new()));
    let sink = streamed.clone();
    let agent = Agent::new(&card.url, "", Some(&grpc_url), Some("sesame".to_owned())).unwrap();
    let reply = agent.call("sea", &called.input, &jobs[0], &Progress::to(move |text| sink.lock().unwrap().push_str(text))).await;
    let streamed = streamed.lock().unwrap().clone();
    (reply.result, streamed)
}

#[tokio::test]
async fn p3_grpc_is_supported() {
    use wire::a2a::proto;
    for has_streams in [true, false] {
        let (reply, streamed) = call_grpc(has_streams, |method, body| match method {
            "ListTasks" => {
                let request: proto::ListTasksRequest = wire::a2a::grpc::read_one(body).unwrap();
                assert_eq!(request.context_id.len(), 36);
                succeeded(&proto::ListTasksResponse::default())
            }
            "SendMessage" => {
                let request: proto::SendMessageRequest = wire::a2a::grpc::read_one(body).unwrap();
                let request = SendMessage::from(request);
                assert!(
                    request.message.unwrap().parts[0].text.as_ref().unwrap().contains("tides?") && request.configuration.unwrap().return_immediately
                );
                succeeded(&proto::StreamResponse::from(wire::a2a::StreamResponse::Task(Box::new(
                    serde_json::from_value(task("TASK_STATE_WORKING", json!({}))).unwrap(),
                ))))
            }
            "SendStreamingMessage" => {
                let updates = [
                    json!({ "task": task("TASK_STATE_SUBMITTED", json!({})) }),
                    json!({ "artifactUpdate": { "taskId": "t1", "artifact": { "artifactId": "a", "parts": [{ "text": "The moon." }] } } }),
                ];
                let frames = updates.map(|update| {
                    wire::a2a::grpc::frame(&proto::StreamResponse::from(serde_json::from_value::<wire::a2a::StreamResponse>(update).unwrap()))
                });
                (frames.concat(), vec![("grpc-status", "0".to_owned())])
            }
            "GetTask" => succeeded(&in_proto(done())),
            other => panic!("{other}"),
        })
        .await;
        assert!(reply.unwrap()["messages"][0]["content"].as_str().unwrap().contains("The moon."));
        assert_eq!(streamed, if has_streams { "The moon." } else { "" });
    }
}

#[tokio::test]
async fn p8_what_grpc_refuses_is_sorted_by_who_can_help() {
    use wire::a2a::error::{CONTENT_TYPE_NOT_SUPPORTED, INTERNAL};
    let status = |code: &str| -> GrpcAnswer { (Vec::new(), vec![("grpc-status", code.to_owned()), ("grpc-message", "not%20now".to_owned())]) };
    for (answer, kind, message) in [
        (refused_with(CONTENT_TYPE_NOT_SUPPORTED), FailureKind::Invalid, "no"),
        (refused_with(INTERNAL), FailureKind::Tool, "no"),
        (status("16"), FailureKind::Refused, "check its token"),
        (status("7"), FailureKind::Refused, "check its token"),
        (status("8"), FailureKind::Refused, "not now"),
        (status("14"), FailureKind::Tool, "not now"),
        (status("12"), FailureKind::Refused, "not now"),
        ((vec![0, 0, 0, 0, 9, 1], vec![("grpc-status", "0".to_owned())]), FailureKind::Invalid, "ends within"),
        ((vec![1, 0, 0, 0, 0], vec![("grpc-status", "0".to_owned())]), FailureKind::Invalid, "compress"),
        ((vec![0, 0xff, 0xff, 0xff, 0xff, 1], vec![("grpc-status", "0".to_owned())]), FailureKind::Invalid, "more than"),
        ((Vec::new(), vec![("grpc-status", "0".to_owned())]), FailureKind::Invalid, "no message"),
        ((Vec::new(), Vec::new()), FailureKind::Network, "without a status"),
    ] {
        let answer = std::sync::Arc::new(answer);
        let (reply, _) =
            call_grpc(
                false,
                move |method, _| if method == "ListTasks" { refused_with(wire::a2a::error::METHOD_NOT_FOUND) } else { GrpcAnswer::clone(&answer) },
            )
            .await;
        let failure = reply.unwrap_err();
        assert!(failure.kind == kind && failure.message.contains(message), "{message}: {failure:?}");
    }
}

/// Agents that answer with mangled replies. `BATON_MANGLED` is their number.
#[tokio::test(flavor = "multi_thread")]
async fn p8_mangled_grpc_replies_never_panic_or_hang() {
    use wire::a2a::proto;
    let input = json!({ "messages": [{ "role": "user", "content": "x" }], "context": { "capability": "research" } });
    let update = proto::StreamResponse::from(wire::a2a::StreamResponse::Task(Box::new(serde_json::from_value(done()).unwrap())));
    let whole: &'static [u8] = wire::a2a::grpc::frame(&update).leak();
    let count = mangled::count();
    let replies = Mutex::new(mangled::mangled(whole, 0x9e37_79b9_7f4a_7c15));
    // Over a connection, a part of them: each is a request.
    let url = grpc_server(move |_, _| (replies.lock().unwrap().next().unwrap_or_default(), vec![("grpc-status", "0".to_owned())])).await;
    let card = peer(move |request| answer("200 OK", "", &card_of(request, wire::a2a::card::GRPC, true).to_string())).await;
    let agent = Agent::new(&card.url, "", Some(&url), None).unwrap();
    let jobs = scripted::jobs(&[graph::agent("a2a/sea", input.clone())]);
    let client = agent.client("sea", &jobs[0]).await.unwrap();
    let request = SendMessage { message: Some(Message::default()), ..SendMessage::default() };
    let (mut good, mut refused) = (0, 0);
    for number in 0..count.div_ceil(10) {
        let op = if number % 2 == 0 { Op::Send(&request) } else { Op::Stream(&request) };
        let sent = async {
            match op {
                Op::Stream(_) => client.stream(op, &Progress::nowhere()).await.map(|sent| sent.task.is_some()),
                _ => client.call(op).await.map(|reply| SendResult::read(&reply).is_some()),
            }
        };
        match tokio::time::timeout(Duration::from_secs(20), sent).await.expect("it hangs") {
            Ok(true) => good += 1,
            Ok(false) => refused += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.failure("sea").message.is_empty());
            }
        }
    }
    assert!(good > 0 && refused > 0, "{good} good, {refused} refused");
    let mut good = 0;
    for bytes in mangled::mangled(whole, 0x2545_f491_4f6c_dd1d).take(count) {
        let Ok(update) = wire::a2a::grpc::read_one::<proto::StreamResponse>(&bytes) else { continue };
        if let Some(wire::a2a::StreamResponse::Task(task)) = update.into_update() {
            good += usize::from(reply::of_task("sea", &input, &task).is_ok());
        }
    }
    assert!(good > 0 && good < count, "{good} of {count}");
}

/// Agents that answer with mangled replies. `BATON_MANGLED` is their number.
#[test]
fn p8_mangled_tasks_never_panic() {
    let input = json!({ "messages": [{ "role": "user", "content": "x" }], "context": { "capability": "research" } });
    let update = json!({ "task": done() }).to_string();
    let (mut good, count) = (0, mangled::count());
    for bytes in mangled::mangled(update.as_bytes(), 0x9e37_79b9_7f4a_7c15).take(count) {
        let Ok(reply) = serde_json::from_slice::<Value>(&bytes) else { continue };
        let sent = SendResult::read(&reply);
        if let Ok(task) = serde_json::from_value::<Task>(reply["task"].clone()) {
            good += usize::from(sent.is_some() && reply::of_task("sea", &input, &task).is_ok());
        }
        if let Some(refusal) = reply.get("error").and_then(Value::as_object) {
            let _ = wire::a2a::error::read(refusal);
        }
    }
    assert!(good > 0 && good < count, "{good} of {count}");
}

#[tokio::test]
async fn tasks_of_other_contexts_are_not_taken_for_ours() {
    let peer = agent(false, |method, _| match method {
        "ListTasks" => result(json!({ "tasks": [{ "id": "of-somebody-else", "contextId": "another" }] })),
        "SendMessage" => result(json!({ "task": done() })),
        "GetTask" => result(done()),
        other => panic!("{other}"),
    })
    .await;
    assert!(call(&peer, json!({})).await.0.is_ok());
    assert_eq!(calls(&peer, "SendMessage"), 1);
}

/// Its bytes are counted before it is a whole event, so that it never is in memory.
#[tokio::test]
async fn an_event_that_is_too_large_ends_its_stream() {
    let frames = |bytes: usize| format!("data: first\n\ndata: {}\n\ndata: last\n\n", "x".repeat(bytes));
    for (bytes, expected) in [(1_000, 3), (8 << 20, 1)] {
        let peer = peer(move |_| answer("200 OK", "content-type: text/event-stream\r\n", &frames(bytes))).await;
        let service = Service::new(&peer.url, "", None).unwrap();
        let exchange = Exchange { service: &service, name: "sea", headers: http::HeaderMap::new() };
        let response = exchange.send(exchange.post(peer.url.clone(), &json!({})).unwrap()).await.unwrap();
        assert_eq!(exchange.events(response).count().await, expected, "{bytes}");
    }
}

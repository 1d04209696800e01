//! Over gRPC.

use std::time::Duration;

use axum::http::HeaderMap;
use scripted::mangled;
use serde_json::{Value, json};
use wire::a2a::{StreamResponse, TaskState, error, grpc, proto};

use super::{Server, message, serve};

/// A client of gRPC: the messages of a reply, and its status.
struct GrpcClient {
    http: reqwest::Client,
    base: String,
}

impl GrpcClient {
    fn new(server: &Server) -> GrpcClient {
        let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
        GrpcClient { http, base: server.0.clone() }
    }

    async fn send<M: prost::Message + Default>(&self, method: &str, body: Vec<u8>) -> (Vec<M>, Option<grpc::Ending>) {
        use http_body_util::BodyExt as _;
        let url = format!("{}{}/{method}", self.base, grpc::SERVICE);
        let request = self.http.post(url).header("content-type", "application/grpc").header("te", "trailers").header("a2a-version", "1.0").body(body);
        let response = tokio::time::timeout(Duration::from_secs(20), request.send()).await.unwrap().unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (200, &"application/grpc".parse().unwrap()));
        let ending = |headers: &HeaderMap| grpc::ending(|name| headers.get(name).and_then(|value| value.to_str().ok()));
        let mut found = ending(response.headers());
        let mut body = axum::http::Response::<reqwest::Body>::from(response).into_body();
        let (mut frames, mut messages) = (grpc::Frames::new(1 << 20), Vec::new());
        while let Some(frame) = body.frame().await {
            match frame.unwrap().into_data() {
                Ok(bytes) => frames.push(&bytes),
                Err(frame) => found = ending(frame.trailers_ref().unwrap()),
            }
            messages.extend(frames.next_message::<M>().unwrap());
        }
        while let Some(message) = frames.next_message().unwrap() {
            messages.push(message);
        }
        (messages, found)
    }

    async fn one<M: prost::Message + Default + Clone>(&self, method: &str, request: &impl prost::Message) -> Result<M, grpc::Ending> {
        let (messages, ending) = self.send::<M>(method, grpc::frame(request)).await;
        match ending.unwrap() {
            grpc::Ending { code: 0, .. } => Ok(messages[0].clone()),
            refused => Err(refused),
        }
    }

    async fn updates(&self, method: &str, request: &impl prost::Message) -> Vec<StreamResponse> {
        let (messages, ending) = self.send::<proto::StreamResponse>(method, grpc::frame(request)).await;
        assert_eq!(ending.unwrap().code, 0);
        messages.into_iter().filter_map(proto::StreamResponse::into_update).collect()
    }
}

fn grpc_message(text: &str, id: &str, more: Value) -> proto::SendMessageRequest {
    serde_json::from_value::<wire::a2a::SendMessage>(message(text, id, more)).unwrap().into()
}

fn states(updates: &[StreamResponse]) -> Vec<TaskState> {
    let state = |update: &StreamResponse| match update {
        StreamResponse::Task(task) => Some(task.status.state),
        StreamResponse::StatusUpdate(update) => Some(update.status.state),
        StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => None,
    };
    updates.iter().filter_map(state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_grpc_has_the_same_tasks() {
    let server = serve().await;
    let client = GrpcClient::new(&server);
    let (_, card) = server.send("GET", "/a2a/answers/.well-known/agent-card.json", Vec::new()).await;
    let card: wire::a2a::card::AgentCard = serde_json::from_str(&card).unwrap();
    let over_grpc = card.supported_interfaces.iter().find(|one| one.protocol_binding == "GRPC").unwrap();
    assert_eq!((over_grpc.url.as_str(), over_grpc.tenant.as_str()), (server.0.trim_start_matches("http://"), "answers"));
    let task = |update: proto::StreamResponse| match update.into_update() {
        Some(StreamResponse::Task(task)) => *task,
        other => panic!("{other:?}"),
    };
    let hello = task(client.one("SendMessage", &grpc_message("hello", "m1", json!({}))).await.unwrap());
    assert_eq!((hello.status.state, hello.artifacts.as_ref().unwrap()[0].parts[0].text.as_deref()), (TaskState::Completed, Some("to hello: [null]")));
    // The same message over another binding is the same task.
    assert_eq!(server.send_text("hello", "m1").await["id"], hello.id);
    let get = proto::GetTaskRequest { id: hello.id.clone(), history_length: Some(0), ..Default::default() };
    let found: proto::Task = client.one("GetTask", &get).await.unwrap();
    assert_eq!((found.history.len(), found.artifacts.len(), found.status.unwrap().timestamp.is_some()), (0, 1, true));
    let list = proto::ListTasksRequest { context_id: hello.context_id.clone(), page_size: Some(5), ..Default::default() };
    let listed: proto::ListTasksResponse = client.one("ListTasks", &list).await.unwrap();
    assert_eq!((listed.total_size, listed.tasks[0].id.as_str()), (1, hello.id.as_str()));

    // A stream, a question, its answer, and one that is resumed and cancelled.
    let updates = client.updates("SendStreamingMessage", &grpc_message("ask", "m2", json!({}))).await;
    assert_eq!(states(&updates).last(), Some(&TaskState::InputRequired));
    let StreamResponse::Task(first) = &updates[0] else { panic!("{updates:?}") };
    let again = task(client.one("SendMessage", &grpc_message("one", "a1", json!({ "taskId": first.id }))).await.unwrap());
    assert_eq!(again.status.state, TaskState::InputRequired);
    let updates = client.updates("SendStreamingMessage", &grpc_message("two", "a2", json!({ "taskId": first.id }))).await;
    assert_eq!(states(&updates).last(), Some(&TaskState::Completed));
    let mut hang = grpc_message("hang", "m3", json!({}));
    hang.configuration = Some(proto::SendMessageConfiguration { return_immediately: true, ..Default::default() });
    let hangs = task(client.one("SendMessage", &hang).await.unwrap());
    let follow = proto::GetTaskRequest { id: hangs.id.clone(), ..Default::default() };
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.one::<proto::Task>("CancelTask", &proto::CancelTaskRequest { id: hangs.id.clone(), tenant: String::new() }).await.unwrap()
    };
    let (updates, cancelled) = tokio::join!(client.updates("SubscribeToTask", &follow), cancel);
    assert_eq!((states(&updates)[0], states(&updates).last()), (TaskState::Working, Some(&TaskState::Canceled)));
    assert_eq!(cancelled.status.unwrap().state(), proto::TaskState::Canceled);

    // Where to send notifications.
    let config = proto::TaskPushNotificationConfig {
        task_id: first.id.clone(),
        url: "http://127.0.0.1:1/hook".to_owned(),
        token: "t".to_owned(),
        ..Default::default()
    };
    let made: proto::TaskPushNotificationConfig = client.one("CreateTaskPushNotificationConfig", &config).await.unwrap();
    let query = proto::GetTaskPushNotificationConfigRequest { task_id: first.id.clone(), id: made.id.clone(), ..Default::default() };
    assert_eq!(client.one::<proto::TaskPushNotificationConfig>("GetTaskPushNotificationConfig", &query).await.unwrap(), made);
    let all = proto::ListTaskPushNotificationConfigsRequest { task_id: first.id.clone(), ..Default::default() };
    assert_eq!(client.one::<proto::ListTaskPushNotificationConfigsResponse>("ListTaskPushNotificationConfigs", &all).await.unwrap().configs, [made]);
    client.one::<proto::Empty>("DeleteTaskPushNotificationConfig", &query).await.unwrap();
    assert_eq!(client.one::<proto::TaskPushNotificationConfig>("GetTaskPushNotificationConfig", &query).await.unwrap_err().code, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn x5_what_grpc_refuses_has_its_status_and_kind() {
    let server = serve().await;
    let client = GrpcClient::new(&server);
    let get = |id: &str| proto::GetTaskRequest { id: id.to_owned(), ..Default::default() };
    let send = |more: Value| grpc_message("x", "m", more);
    for (method, body, code, kind) in [
        ("GetTask", grpc::frame(&get("nobody")), 5, Some(error::TASK_NOT_FOUND)),
        ("GetTask", grpc::frame(&get("")), 3, Some(error::INVALID_PARAMS)),
        ("GetTask", Vec::new(), 3, Some(error::INVALID_PARAMS)),
        ("GetTask", vec![0, 0, 0, 0, 9, 1], 3, Some(error::INVALID_PARAMS)),
        ("GetTask", vec![1, 0, 0, 0, 0], 12, Some(error::METHOD_NOT_FOUND)),
        ("SubscribeToTask", grpc::frame(&get("nobody")), 5, Some(error::TASK_NOT_FOUND)),
        ("SendMessage", grpc::frame(&send(json!({ "parts": [] }))), 3, Some(error::INVALID_PARAMS)),
        ("SendMessage", grpc::frame(&send(json!({ "parts": [{ "raw": "eA==" }] }))), 3, Some(error::CONTENT_TYPE_NOT_SUPPORTED)),
        ("SendStreamingMessage", grpc::frame(&send(json!({ "taskId": "nobody" }))), 5, Some(error::TASK_NOT_FOUND)),
        ("GetExtendedAgentCard", grpc::frame(&proto::Empty {}), 9, Some(error::UNSUPPORTED_OPERATION)),
        ("Nonsense", grpc::frame(&proto::Empty {}), 12, Some(error::METHOD_NOT_FOUND)),
    ] {
        let (messages, ending) = client.send::<proto::Empty>(method, body).await;
        let ending = ending.unwrap();
        assert!(messages.is_empty() && (ending.code, ending.kind) == (code, kind) && ending.message.len() > 10, "{method}: {ending:?}");
    }
    let url = format!("{}{}/GetTask", server.0, grpc::SERVICE);
    let other = client.http.post(url).header("content-type", "application/grpc").header("a2a-version", "0.2").body(grpc::frame(&get("x")));
    assert_eq!(other.send().await.unwrap().headers()["grpc-status"], "12", "another version of the protocol");
    // Trailers need HTTP/2.
    let plain = reqwest::Client::builder().no_proxy().build().unwrap().post(format!("{}{}/GetTask", server.0, grpc::SERVICE));
    let response = plain.header("content-type", "application/grpc").body(grpc::frame(&get("x"))).send().await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
}

/// `BATON_MANGLED` is the number of requests.
#[tokio::test(flavor = "multi_thread")]
async fn p8_mangled_grpc_requests_never_panic_or_hang() {
    let server = serve().await;
    let client = GrpcClient::new(&server);
    let mut send = grpc_message("hello", "m1", json!({ "contextId": "c", "metadata": { "baton": { "flow": "answers" } } }));
    send.configuration = Some(proto::SendMessageConfiguration { history_length: Some(3), ..Default::default() });
    let list = proto::ListTasksRequest {
        page_size: Some(5),
        status: 2,
        status_timestamp_after: Some(proto::Timestamp { seconds: 1, nanos: 2 }),
        ..Default::default()
    };
    for (method, whole) in [("SendMessage", grpc::frame(&send)), ("ListTasks", grpc::frame(&list)), ("SendStreamingMessage", grpc::frame(&send))] {
        let (mut good, mut refused) = (0, 0);
        for bytes in mangled::mangled(&whole, 0x9e37_79b9_7f4a_7c15).take((mangled::count() / 3).max(50)) {
            let (messages, ending) = client.send::<proto::Empty>(method, bytes).await;
            let ending = ending.unwrap();
            match ending.code {
                0 => good += 1,
                code => {
                    refused += 1;
                    assert!(messages.is_empty() && matches!(code, 3 | 5 | 8 | 9 | 12) && ending.message.len() > 5, "{ending:?}");
                }
            }
        }
        assert!(good > 0 && refused > 0, "{method}: {good} good, {refused} refused");
    }
}

//! The hub against servers in this process that behave in every way a server can. What needs real processes is in `lab`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig as ServerInfo, SubscriptionFilter, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use effects::{EffectHandler, LookUp, Progress, Repeatability};

/// A server that can do everything wrong.
#[derive(Clone, Default)]
struct FaultyServer(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// What was called, with its key.
    calls: Mutex<Vec<(String, Option<String>)>>,
    cancelled: Notify,
    began: Notify,
    die: Notify,
    grown: AtomicUsize,
    list_changed: Notify,
    connections: AtomicUsize,
}

fn object(value: Value) -> JsonObject {
    let Value::Object(object) = value else { panic!("an object") };
    object
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, format!("does {name}"), object(json!({"type": "object"})))
}

impl FaultyServer {
    fn tools(&self) -> Vec<Tool> {
        let text = object(json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false}));
        let read = ToolAnnotations::new().read_only(true);
        let number = Arc::new(object(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})));
        let meta = object(json!({ repeatability::LOOK_UP: "look_up" }));
        let mut tools = vec![
            Tool::new("echo", "says it again", text).with_annotations(read.clone()),
            tool("hang").with_annotations(read.clone()),
            tool("hang_once"),
            tool("giant").with_annotations(read.clone()),
            tool("large").with_annotations(read),
            tool("fails"),
            tool("lies").with_raw_output_schema(number.clone()),
            tool("forgets").with_raw_output_schema(number),
            Tool::new("crooked", "its schema is wrong", object(json!({"type": "nonsense"}))),
            tool("steps"),
            tool("pay").with_meta(rmcp::model::MetaObject(meta)),
            Tool::new("look_up", "was it paid", object(json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}))),
            tool("passages"),
        ];
        tools.extend((0..self.0.grown.load(Ordering::SeqCst)).map(|n| Tool::new(format!("grown{n}"), "new", JsonObject::new())));
        tools
    }

    fn grow(&self) {
        self.0.grown.fetch_add(1, Ordering::SeqCst);
        self.0.list_changed.notify_waiters();
    }

    fn calls(&self) -> Vec<(String, Option<String>)> {
        self.0.calls.lock().unwrap().clone()
    }

    fn served(&self) -> impl Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync + 'static {
        let odd = self.clone();
        move |pipe| {
            let odd = odd.clone();
            odd.0.connections.fetch_add(1, Ordering::SeqCst);
            async move {
                // The connection closes without another message.
                let (mut near, far) = tokio::io::duplex(64 << 10);
                let (mut pipe, closed) = (pipe, odd.clone());
                tokio::spawn(async move {
                    if let Ok(service) = odd.serve(far).await {
                        let _ = service.waiting().await;
                    }
                });
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut pipe, &mut near) => {}
                    () = closed.0.die.notified() => {}
                }
            }
            .boxed()
        }
    }
}

impl ServerHandler for FaultyServer {
    fn get_info(&self) -> ServerInfo {
        ServerInfo::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        loop {
            tokio::select! {
                () = self.0.list_changed.notified() => { let _ = context.sink().notify_tool_list_changed().await; }
                () = context.cancelled() => return Ok(()),
            }
        }
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let key = context.meta.0.0.get(repeatability::KEY).and_then(Value::as_str).map(str::to_owned);
        self.0.calls.lock().unwrap().push((request.name.to_string(), key));
        let arguments = request.arguments.unwrap_or_default();
        let text_result = |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
        match &*request.name {
            "echo" => text_result(arguments["text"].as_str().unwrap().to_owned()),
            "hang" | "hang_once" => {
                self.0.began.notify_one();
                context.ct.cancelled().await;
                self.0.cancelled.notify_one();
                text_result("too late".into())
            }
            "giant" => text_result("x".repeat(bounded::LINE_BYTES_MAX)),
            "large" => text_result("x".repeat(RESULT_BYTES_MAX + 1)),
            "fails" => Ok(CallToolResult::error(vec![ContentBlock::text("the printer is on fire")]).into()),
            "lies" => Ok(CallToolResult::structured(json!({"n": "three"})).into()),
            "steps" => {
                let token = context.meta.get_progress_token().unwrap();
                for n in 1..=2 {
                    let progress = ProgressNotificationParam::new(token.clone(), f64::from(n)).with_total(2.0).with_message("going on");
                    context.peer.notify_progress(progress).await.unwrap();
                }
                // Notices and replies come over one pipe in order, but are handled each in its own task.
                tokio::time::sleep(Duration::from_millis(20)).await;
                text_result("done".into())
            }
            "look_up" => {
                let key = arguments["key"].as_str().map(str::to_owned);
                let done = self.calls().iter().any(|(name, called)| name == "pay" && *called == key);
                Ok(CallToolResult::structured(json!({"done": done, "result": {"paid": 3}})).into())
            }
            "passages" => Ok(CallToolResult::structured(json!({"passages": [{"text": "one", "address": "a.md"}, {"text": "two"}]})).into()),
            name => text_result(format!("did {name}")),
        }
    }
}

fn pace() -> Pace {
    Pace { backoff_first: Duration::from_millis(20), backoff_max: Duration::from_millis(100), ..Pace::default() }
}

fn hub(odd: &FaultyServer) -> Tools {
    Tools::builder().with_local("odd", Trust::Own, odd.served()).with_pace(pace()).build()
}

async fn failure(tools: &Tools, name: &str, arguments: Value) -> Failure {
    let options = CallOptions { deadline: Duration::from_secs(60), ..CallOptions::default() };
    tools.call(name, &arguments, &options).await.unwrap_err()
}

/// Waits until it is so. Nothing here depends on how long that takes.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it never came to be");
}

#[tokio::test]
async fn nothing_is_started_before_somebody_needs_it() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    assert!(tools.cached().is_empty());
    assert_eq!((odd.0.connections.load(Ordering::SeqCst), tools.health()[0].status.clone()), (0, ServerStatus::Idle));
    let found = tools.call("odd.echo", &json!({"text": "hello"}), &CallOptions::default()).await.unwrap();
    assert_eq!((found.text.as_str(), found.spans[0].trust, found.spans[0].source.as_str()), ("hello", Trust::Own, "odd.echo"));
    assert_eq!(tools.list().await.len(), odd.tools().len());
    assert_eq!(odd.0.connections.load(Ordering::SeqCst), 1);
    assert!(matches!(&tools.health()[0].status, ServerStatus::Up { version, .. } if version == "2026-07-28"));
}

#[tokio::test]
async fn every_failure_has_its_kind_and_message() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    tools.list().await;
    for (name, arguments, kind, part) in [
        ("nobody.echo", json!({}), FailureKind::Refused, "no tool"),
        ("echo", json!({}), FailureKind::Refused, "did you mean odd.echo?"),
        ("odd.ehco", json!({}), FailureKind::Refused, "did you mean odd.echo?"),
        ("odd.echo", json!({"txt": "a"}), FailureKind::Invalid, "It takes text (string, required)"),
        ("odd.echo", json!([1]), FailureKind::Invalid, "must be an object"),
        ("odd.crooked", json!({}), FailureKind::Invalid, "is wrong itself"),
        ("odd.lies", json!({}), FailureKind::Invalid, "not what its schema promises"),
        ("odd.forgets", json!({}), FailureKind::Invalid, "promises structured results and gave none"),
        ("odd.fails", json!({}), FailureKind::Tool, "the printer is on fire"),
        ("odd.giant", json!({}), FailureKind::Limit, "at most"),
        ("odd.large", json!({}), FailureKind::Limit, "ask for less"),
    ] {
        let failure = failure(&tools, name, arguments).await;
        assert_eq!(failure.kind, kind, "{name}: {failure}");
        assert!(failure.message.contains(part), "{name}: {failure}");
    }
    // None of this broke the connection.
    tools.call("odd.echo", &json!({"text": "still here"}), &CallOptions::default()).await.unwrap();
    assert_eq!(odd.0.connections.load(Ordering::SeqCst), 1);
    let never: Vec<_> = odd.calls().into_iter().filter(|(name, _)| name == "crooked").collect();
    assert!(never.is_empty(), "what cannot be checked is not sent");
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_deadline_and_is_cancelled_at_the_server() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    for (name, kind) in [("odd.hang", FailureKind::Timeout), ("odd.hang_once", FailureKind::InDoubt)] {
        let options = CallOptions { deadline: Duration::from_millis(50), ..CallOptions::default() };
        let failure = tools.call(name, &json!({}), &options).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        odd.0.cancelled.notified().await;
    }
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    let task = tokio::spawn(async move { tools.call("odd.hang", &json!({}), &CallOptions::default()).await });
    odd.0.began.notified().await;
    // Everything is dropped but the runtime: the call, and with it the hub.
    task.abort();
    odd.0.cancelled.notified().await;
}

#[tokio::test]
async fn a_server_that_exits_during_a_call_fails_it_and_is_restarted() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    for (name, kind) in [("odd.hang", FailureKind::Network), ("odd.hang_once", FailureKind::InDoubt)] {
        let calling = tokio::spawn({
            let tools = tools.clone();
            async move { tools.call(name, &json!({}), &CallOptions::default()).await }
        });
        odd.0.began.notified().await;
        odd.0.die.notify_waiters();
        let failure = calling.await.unwrap().unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert_eq!(failure.retry == graph::Retry::No, kind == FailureKind::InDoubt);
        until(|| matches!(tools.health()[0].status, ServerStatus::Up { .. })).await;
        assert_eq!(tools.cached().len(), odd.tools().len(), "the list stays");
    }
    assert_eq!(odd.0.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn an_unreachable_server_has_a_reason_and_the_time_of_the_next_attempt() {
    let nowhere = ServerConfig::http("http://127.0.0.1:1/mcp");
    let missing = ServerConfig::stdio("/no/such/program", &[]);
    let slow = Pace { backoff_first: Duration::from_secs(60), ..Pace::default() };
    let tools = Tools::builder().with_server("nowhere", nowhere).with_server("missing", missing).with_pace(slow).build();
    assert!(tools.list().await.is_empty());
    for (name, part) in [("nowhere.x", "refused"), ("missing.x", "install it or give its full path")] {
        let failure = failure(&tools, name, json!({})).await;
        assert_eq!(failure.kind, FailureKind::Network, "{failure}");
        assert!(matches!(failure.retry, graph::Retry::AfterMs(ms) if ms > 0));
        assert!(failure.message.to_lowercase().contains(part), "{failure}");
    }
    assert!(tools.health().iter().all(|health| matches!(health.status, ServerStatus::Down { failures: 1, .. })));
}

#[tokio::test]
async fn s10_a_change_of_tools_is_received() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    let before = tools.list().await.len();
    let mut changes = tools.changes();
    // The subscription is made after the first list; a change before it is found by the next one.
    until(|| {
        odd.0.list_changed.notify_waiters();
        matches!(tools.health()[0].status, ServerStatus::Up { .. })
    })
    .await;
    odd.grow();
    until(|| {
        odd.0.list_changed.notify_waiters();
        tools.cached().len() > before
    })
    .await;
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    tools.call("odd.grown0", &json!({}), &CallOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_tool_newer_than_our_list_is_asked_for_once() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    tools.list().await;
    odd.0.grown.fetch_add(1, Ordering::SeqCst);
    tools.call("odd.grown0", &json!({}), &CallOptions::default()).await.unwrap();
}

#[tokio::test]
async fn progress_reaches_its_listener() {
    let odd = FaultyServer::default();
    let received = Arc::new(Mutex::new(Vec::new()));
    let progress = Progress::to({
        let received = received.clone();
        move |text| received.lock().unwrap().push(text.to_owned())
    });
    hub(&odd).call("odd.steps", &json!({}), &CallOptions { progress, ..CallOptions::default() }).await.unwrap();
    let mut received = received.lock().unwrap().clone();
    received.sort();
    assert_eq!(received, ["going on (1/2)\n", "going on (2/2)\n"]);
}

#[tokio::test]
async fn what_is_switched_off_stays_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools.json");
    let odd = FaultyServer::default();
    let open = || Tools::builder().with_local("odd", Trust::Own, odd.served()).with_memory(&path).build();
    let tools = open();
    tools.enable("odd.echo", false).await.unwrap();
    assert!(tools.enable("odd.nothing", false).await.is_err());
    drop(tools);
    let tools = open();
    let failure = failure(&tools, "odd.echo", json!({"text": "a"})).await;
    assert!(failure.message.contains("switched off"), "{failure}");
    assert!(tools.search("echo says it again", 20).await.iter().all(|(tool, _)| tool.name != "odd.echo"));
    tools.enable("odd.echo", true).await.unwrap();
    tools.call("odd.echo", &json!({"text": "a"}), &CallOptions::default()).await.unwrap();
    tools.enable("odd", false).await.unwrap();
    assert_eq!(failure_kind(&tools, "odd.pay").await, FailureKind::Refused);
    assert!(tools.list().await.iter().all(|tool| !tool.enabled));
}

async fn failure_kind(tools: &Tools, name: &str) -> FailureKind {
    failure(tools, name, json!({})).await.kind
}

#[tokio::test]
async fn effects_are_performed_with_their_key_and_looked_up_by_it() {
    let odd = FaultyServer::default();
    let tools = hub(&odd);
    let jobs = scripted::jobs(&[
        graph::tool("odd.pay", json!({})),
        graph::tool("odd.pay", json!({"again": 1})),
        graph::tool("odd.echo", json!({"text": "a"})),
    ]);
    assert_eq!(tools.repeatability(&jobs[0]), Repeatability::Once, "nothing is known yet, and nobody is asked");
    let reply = tools.perform(&jobs[0], &Progress::nowhere()).await;
    assert_eq!(reply.result.unwrap()["text"], "did pay");
    assert_eq!(odd.calls(), [("pay".to_owned(), Some(jobs[0].key.to_string()))]);
    assert_eq!([tools.repeatability(&jobs[0]), tools.repeatability(&jobs[2])], [Repeatability::Checkable, Repeatability::Repeatable]);
    let LookUp::Done(reply) = tools.look_up(&jobs[0]).await else { panic!("it was paid") };
    assert_eq!(reply.result.unwrap()["data"], json!({"paid": 3}));
    assert_eq!(tools.look_up(&jobs[1]).await, LookUp::NotDone);
    assert_eq!(tools.look_up(&jobs[2]).await, LookUp::Unknown);
}

#[tokio::test]
async fn passages_are_spans() {
    let found = hub(&FaultyServer::default()).call("odd.passages", &json!({}), &CallOptions::default()).await.unwrap();
    assert_eq!(found.spans.iter().map(|span| span.text.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(found.spans[0].address.as_deref(), Some("a.md"));
}

#[test]
fn s2_the_tools_of_a_registry_are_trusted_like_the_registry_and_own_servers_win() {
    for is_trusted in [false, true] {
        let source = RegistrySource { url: "http://127.0.0.1:1".into(), is_trusted, token: None };
        let hub = Tools::builder().with_server("own", ServerConfig::stdio("x", &[])).with_registry(&source).build();
        let offered = ["notes.find", "own.find", "registry.tools", "plain"];
        let offered = offered.map(|name| tool(name).with_annotations(ToolAnnotations::new().read_only(true)));
        hub.0.own_server(REGISTRY).unwrap().remember(offered.to_vec());
        let listed: Vec<_> = hub.cached().iter().map(|tool| (tool.name.clone(), tool.server.clone(), tool.hints.read_only)).collect();
        assert_eq!(listed, [("notes.find".to_owned(), "notes".to_owned(), is_trusted.then_some(true))]);
        assert!(hub.is_from_registry("notes.find") && !hub.is_from_registry("own.find"));
        assert!(hub.exported_one("notes.find").is_none(), "the registry offers it itself");
        // A lookup of the server of a call returns the registry, and not nothing.
        assert_eq!(hub.0.server("notes").map(|server| server.is_trusted()), Some(is_trusted));
        assert!(hub.0.server("own").is_some_and(|server| !server.is_registry()) && hub.0.server("other").is_none());
        let job = &scripted::jobs(&[graph::tool("notes.find", json!({}))])[0];
        assert_eq!(EffectHandler::repeatability(&hub, job), if is_trusted { Repeatability::Repeatable } else { Repeatability::Once });
    }
}

//! Exported traces: a real OTLP/HTTP receiver, and the program sending to it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value};
use prost::Message as _;
use serde_json::{Value, json};

use crate::models::{bare, openai};
use crate::{ANSWER, CommandOutput, Home, LOOKS_UP};

/// Contains a word that occurs nowhere else.
const QUESTION: &str = "What is a chrysoprase baton?";

#[derive(Clone, Default)]
struct Collector {
    url: String,
    got: Arc<Mutex<ReceivedExports>>,
}

#[derive(Default)]
struct ReceivedExports {
    headers: Vec<HeaderMap>,
    bodies: Vec<Bytes>,
}

#[derive(Clone, Debug)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    is_error: bool,
    about: BTreeMap<String, Value>,
}

impl Collector {
    fn start() -> Collector {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let collector = Collector { url: format!("http://{}", listener.local_addr().unwrap()), ..Collector::default() };
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move { axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap() });
        });
        collector
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.got.lock().unwrap().bodies.iter().map(|body| ExportTraceServiceRequest::decode(body.clone()).unwrap()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let spans = resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        let spans: Vec<Span> = spans
            .map(|span| Span {
                is_error: span.status.as_ref().is_some_and(|status| status.code == 2),
                about: span.attributes.into_iter().map(|pair| (pair.key, json_of(pair.value))).collect(),
                trace: span.trace_id,
                id: span.span_id,
                parent: span.parent_span_id,
                name: span.name,
            })
            .collect();
        let keys: BTreeSet<&Vec<u8>> = spans.iter().map(|span| &span.id).collect();
        assert_eq!(keys.len(), spans.len(), "each is sent once");
        spans
    }

    #[track_caller]
    fn assert_not_sent(&self, words: &[&str]) {
        for body in &self.got.lock().unwrap().bodies {
            let text = String::from_utf8_lossy(body);
            for words in words {
                assert!(!text.contains(words), "{words:?} was sent");
            }
        }
    }
}

impl Span {
    fn of<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
        spans.iter().filter(|span| span.name == name).collect()
    }

    fn under<'a>(&self, spans: &'a [Span]) -> Option<&'a Span> {
        spans.iter().find(|span| span.id == self.parent && span.trace == self.trace)
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let mut got = collector.got.lock().unwrap();
    got.headers.push(headers);
    got.bodies.push(body);
}

fn json_of(value: Option<AnyValue>) -> Value {
    match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::BoolValue(is)) => json!(is),
        Some(any_value::Value::IntValue(number)) => json!(number),
        Some(any_value::Value::DoubleValue(number)) => json!(number),
        Some(any_value::Value::ArrayValue(all)) => all.values.into_iter().map(|value| json_of(Some(value))).collect(),
        other => panic!("{other:?}"),
    }
}

fn ask(home: &Home, endpoint: &str, more: &[(&str, &str)], args: &[&str]) -> CommandOutput {
    let mut command = home.command(args);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).envs(more.iter().copied());
    CommandOutput::of(command.output().unwrap())
}

#[test]
fn every_attempt_is_a_span_under_its_run_without_content() {
    let (home, collector) = (Home::new(), Collector::start());
    let more = [("OTEL_EXPORTER_OTLP_HEADERS", "x-house-key=open%20sesame"), ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")];
    let output = ask(&home, &collector.url, &more, &["ask", QUESTION, "--json"]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
    let spans = collector.spans();

    let run = Span::of(&spans, "invoke_workflow research")[0];
    let lines = output.lines();
    let last = lines.last().unwrap();
    assert!(run.parent.is_empty() && !run.is_error, "{run:?}");
    for (key, value) in [
        ("gen_ai.operation.name", json!("invoke_workflow")),
        ("gen_ai.workflow.name", json!("research")),
        ("gen_ai.conversation.id", last["thread"].clone()),
        ("baton.run", last["run"].clone()),
        ("baton.status", json!("done")),
        ("baton.tokens_in", last["spent"]["tokens_in"].clone()),
    ] {
        assert_eq!(run.about[key], value, "{key}");
    }

    let asked: BTreeSet<(String, i64)> = lines
        .iter()
        .filter(|line| line["event"] == "asked")
        .map(|line| (format!("{}.{}", line["task"][0], line["task"][1]), line["attempt"].as_i64().unwrap()))
        .collect();
    let effects: Vec<&Span> = spans.iter().filter(|span| span.id != run.id).collect();
    let flown: BTreeSet<(String, i64)> =
        effects.iter().map(|span| (span.about["baton.task"].as_str().unwrap().to_owned(), span.about["baton.attempt"].as_i64().unwrap())).collect();
    assert_eq!((flown, effects.len()), (asked.clone(), asked.len()), "one for each");
    assert!(effects.iter().all(|span| span.parent == run.id && span.trace == run.trace), "all under the run");

    let chats = Span::of(&spans, "chat");
    assert!(!chats.is_empty() && chats.iter().all(|chat| chat.about["gen_ai.usage.input_tokens"].as_i64().unwrap() > 0), "{chats:?}");
    let purposes: BTreeSet<&str> = chats.iter().map(|chat| chat.about["baton.purpose"].as_str().unwrap()).collect();
    assert_eq!(purposes, BTreeSet::from(["answer", "critic", "plan"]));
    let tools = Span::of(&spans, "execute_tool search");
    assert!(
        tools.iter().all(|tool| tool.about["gen_ai.tool.name"] == "search" && tool.about["gen_ai.tool.call.id"] == tool.about["baton.effect_key"])
    );
    let place = |line: &Value| (format!("{}.{}", line["task"][0], line["task"][1]), line["attempt"].as_i64().unwrap());
    let kind = |line: &Value| line["reply"]["result"]["Err"]["kind"].as_str().map(str::to_owned);
    let wrong: BTreeSet<_> = lines.iter().filter(|line| line["event"] == "replied").filter_map(|line| Some((place(line), kind(line)?))).collect();
    let marked = |span: &&&Span| span.is_error && span.about.contains_key("error.type");
    let at = |span: &&Span| (span.about["baton.task"].as_str().unwrap().to_owned(), span.about["baton.attempt"].as_i64().unwrap());
    let failed: BTreeSet<_> = effects.iter().filter(marked).map(|span| (at(span), span.about["error.type"].as_str().unwrap().to_owned())).collect();
    assert_eq!(failed, wrong, "what failed, and how");
    assert!(!failed.is_empty(), "the script breaks some");

    let resource = json!(
        collector.requests()[0].resource_spans[0]
            .resource
            .clone()
            .unwrap()
            .attributes
            .into_iter()
            .map(|pair| (pair.key, json_of(pair.value)))
            .collect::<BTreeMap<_, _>>()
    );
    assert_eq!((&resource["service.name"], &resource["deployment.environment.name"]), (&json!("baton"), &json!("test")), "{resource}");
    assert!(collector.got.lock().unwrap().headers.iter().all(|headers| headers["x-house-key"] == "open sesame"));
    collector.assert_not_sent(&["chrysoprase", "relay", "example.org", "connection reset", "who made it", "sesame"]);
}

#[test]
fn a_child_run_is_under_the_effect_that_wanted_it() {
    let (home, collector) = (Home::new(), Collector::start());
    let output = ask(&home, &collector.url, &[("OTEL_SERVICE_NAME", "relay")], &["ask", "--flow", "team", "batons; relays"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let spans = collector.spans();
    let team = Span::of(&spans, "invoke_workflow team")[0];
    let children = Span::of(&spans, "invoke_workflow research");
    assert_eq!(children.len(), 2);
    for child in &children {
        let effect = child.under(&spans).unwrap();
        assert_eq!((effect.name.as_str(), &effect.about["gen_ai.agent.name"]), ("invoke_agent research", &json!("research")));
        assert_eq!((effect.under(&spans).unwrap().id == team.id, &child.about["baton.depth"]), (true, &json!(1)));
        assert!(spans.iter().any(|span| span.parent == child.id && span.name == "execute_tool search"));
    }
    assert!(spans.iter().all(|span| span.trace == team.trace));
    let service = collector.requests()[0].resource_spans[0].resource.clone().unwrap().attributes;
    assert!(service.into_iter().any(|pair| pair.key == "service.name" && json_of(pair.value) == "relay"));
}

#[test]
fn a_model_is_called_as_the_conventions_call_it() {
    let (home, collector) = (Home::new(), Collector::start());
    let config = home.folder.path().join("baton.toml");
    let url = openai(&["A log ", "of chrysoprase."]);
    let text = format!("model = \"compat/here/small\"\n[endpoints.here]\nurl = \"{url}\"\nkey = {{ env = \"HERE_KEY\" }}\n");
    std::fs::write(&config, text).unwrap();
    let mut command = bare(&home, &["ask", QUESTION, "--flow", "direct", "--config", config.to_str().unwrap()]);
    command.env("HERE_KEY", "sk-very-secret").env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/v1/traces", collector.url));
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!((output.code, output.out.as_str()), (Some(0), "A log of chrysoprase.\n"), "{output:?}");
    let spans = collector.spans();
    let chat = Span::of(&spans, "chat small")[0];
    for (key, value) in [
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("here")),
        ("gen_ai.request.model", json!("small")),
        ("gen_ai.response.model", json!("small")),
        ("gen_ai.response.finish_reasons", json!(["stop"])),
    ] {
        assert_eq!(chat.about[key], value, "{key}: {chat:?}");
    }
    collector.assert_not_sent(&["chrysoprase", "sk-very-secret"]);
}

#[test]
fn an_unreachable_collector_changes_nothing_and_is_reported_once() {
    let home = Home::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // So small that there are many batches.
    let more = [("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"), ("OTEL_BSP_SCHEDULE_DELAY", "1")];
    let output = ask(&home, &format!("http://user:hush@{nobody}/x?key=hush"), &more, &["ask", "What is a baton?"]);
    assert_eq!((output.code, output.out.as_str()), (Some(0), ANSWER), "{output:?}");
    assert_eq!(output.err.matches("traces cannot be sent to").count(), 1, "{}", output.err);
    assert!(output.err.contains(&nobody.to_string()) && !output.err.contains("hush"), "{}", output.err);
}

#[test]
fn it_is_on_only_where_somebody_asked_for_it_and_logs_are_as_ever() {
    let (home, collector) = (Home::new(), Collector::start());
    for (more, endpoint, words) in [
        (&[("OTEL_SDK_DISABLED", "true")][..], collector.url.as_str(), ""),
        (&[("OTEL_TRACES_EXPORTER", "none")], &collector.url, ""),
        (&[], "", ""),
        (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], &collector.url, "no traces are sent: only http/protobuf"),
        (&[], "localhost", "no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is no address"),
    ] {
        let output = ask(&home, endpoint, more, &["ask", "What is a baton?", "--json"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.err.contains(words) && output.err.lines().count() == usize::from(!words.is_empty()), "{}", output.err);
    }
    assert!(collector.spans().is_empty());
    let output = ask(&home, &collector.url, &[("BATON_LOG", "trace"), ("BATON_LOG_FORMAT", "json")], &["ask", "What is a baton?", "--json"]);
    assert!(!collector.spans().is_empty());
    assert!(!output.err.contains("baton_spans") && !output.err.contains("gen_ai"), "{}", output.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_with_its_callers_trace_and_sends_the_rest_when_it_is_stopped() {
    let (home, collector) = (Home::new(), Collector::start());
    let script = home.script(LOOKS_UP);
    // So long that only the shutdown can have sent anything.
    let mut command = home.command(&["serve", "--port", "0", "--json"]);
    command.env("BATON_SCRIPT", &script).env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).env("OTEL_BSP_SCHEDULE_DELAY", "600000");
    let mut served = home.started(command.stderr(Stdio::null()));
    let ask = |caller: Option<&str>| {
        let request = served.request(reqwest::Method::POST, "/api/runs").json(&json!({ "question": QUESTION, "flow": "search" }));
        caller.map_or(request.try_clone().unwrap(), |caller| request.header("traceparent", caller))
    };
    let mut runs = Vec::new();
    for caller in [None, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), Some("nonsense")] {
        let (status, started) = crate::serve::send(ask(caller)).await;
        assert_eq!(status, 201, "{started}");
        served.wait(started["run"].as_str().unwrap()).await;
        runs.push(started["run"].clone());
    }
    assert!(collector.spans().is_empty(), "nothing yet");
    kill(Pid::from_raw(served.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(tokio::task::spawn_blocking(move || served.ended()).await.unwrap(), Some(143));

    let spans = collector.spans();
    let run = |run: &Value| spans.iter().find(|span| span.name == "invoke_workflow search" && span.about["baton.run"] == *run).unwrap();
    let (alone, called, odd) = (run(&runs[0]), run(&runs[1]), run(&runs[2]));
    assert!(alone.parent.is_empty() && alone.trace != odd.trace, "{alone:?}");
    let request = called.under(&spans).unwrap();
    assert_eq!((request.name.as_str(), &request.about["http.route"]), ("POST /api/runs", &json!("/api/runs")));
    assert_eq!(request.about["http.response.status_code"], 201);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((hex(&request.trace).as_str(), hex(&request.parent).as_str()), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
    assert!(spans.iter().any(|span| span.parent == called.id && span.name == "execute_tool docs.search"));
    collector.assert_not_sent(&["chrysoprase", "checkpoint"]);
}

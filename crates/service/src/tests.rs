//! A flow that is added to the list is available in every interface, without any other change.

use std::net::SocketAddr;

use flows::{Descriptor, Needs, Registry, Routing, Visibility};
use graph::{Ask, END, Go, Graph, GraphError, Replies};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use server::guard::Guard;

use crate::global_args::GlobalArgs;
use crate::{ModelOptions, Service};

/// A complete minimal flow: it repeats the question.
const ECHO: Descriptor = Descriptor {
    title: "Echo",
    description: "Repeats the question",
    icon: "conversation",
    routing: Some(Routing { purpose: "repeats", examples: &[], needs: Needs::Nothing, substitutes: &[], may_be_replaced: true }),
    ..Descriptor::new("echo", echo)
};

#[derive(Serialize, Deserialize)]
struct Echo {
    question: String,
}

fn echo(_: &Registry) -> Result<Graph, GraphError> {
    let fold = |s: &mut Echo, _: &Replies<'_>| Go::end().say("assistant", s.question.as_str());
    Graph::of::<Echo>("echo").node("repeat", (|_: &Echo| Ask::nothing(), fold), &[END]).output(|s| json!({ "answer": s.question })).build()
}

fn globals(folder: &tempfile::TempDir) -> GlobalArgs {
    let mut globals = GlobalArgs::new(folder.path().join("baton.db"), folder.path().join("baton.toml"));
    std::fs::write(folder.path().join("baton.toml"), "").unwrap();
    globals.script = Some("sample".into());
    globals.flows = Registry::default().with(ECHO);
    globals
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_is_added_to_the_list_is_in_the_api_the_data_of_the_page_and_langserve() {
    let folder = tempfile::tempdir().unwrap();
    let globals = globals(&folder);
    let store = globals.open_or_make().await.unwrap();
    let guard = Guard::new(None);
    let listener = guard.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let service = Service::build(&globals, &mut ModelOptions::default(), guard, store, true).await.unwrap();
    let engine = service.engine().clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(service.serve(listener, async { stopped.await.unwrap_or_default() }));
    let client = reqwest::Client::new();
    let get = async |path: &str| client.get(format!("{base}{path}")).send().await.unwrap().json::<Value>().await.unwrap();
    let post = async |path: &str, body: Value| {
        let sent = client.post(format!("{base}{path}")).header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        let (status, text) = (sent.status().as_u16(), sent.text().await.unwrap());
        (status, serde_json::from_str::<Value>(&text).unwrap_or(json!(text)))
    };

    // The page lists and draws the API's list.
    let listed = get("/api/flows").await;
    let echo = listed["flows"].as_array().unwrap().iter().find(|flow| flow["name"] == "echo").unwrap_or_else(|| panic!("{listed}")).clone();
    assert_eq!((&echo["title"], &echo["about"], &echo["icon"]), (&json!("Echo"), &json!("Repeats the question"), &json!("conversation")));
    assert_eq!((&echo["is_shown"], &echo["can_approve"], &echo["graph"]["nodes"][0]["name"]), (&json!(true), &json!(false), &json!("repeat")));
    let internal = listed["flows"].as_array().unwrap().iter().find(|flow| flow["name"] == "panel_expert").unwrap();
    assert_eq!(internal["is_shown"], false);

    let (status, begun) = post("/api/runs", json!({ "question": "hello", "flow": "echo" })).await;
    assert!(status < 300, "{status} {begun}");
    let run = graph::RunId::from(begun["run"].as_str().unwrap_or_else(|| panic!("{begun}")));
    let engine::RunState::Over(closing) = engine.wait(&run).await.unwrap() else { panic!("it ends") };
    assert_eq!(closing.outcome.output(), Some(&json!({ "answer": "hello" })));

    let (status, invoked) = post("/echo/invoke", json!({ "input": { "question": "hello" } })).await;
    assert_eq!((status, &invoked["output"]["answer"]), (200, &json!("hello")), "{invoked}");
    let schema = get("/echo/input_schema").await;
    assert_eq!(schema["anyOf"][1]["properties"]["question"]["type"], "string", "{schema}");
    let (_, unknown) = post("/api/runs", json!({ "question": "hello", "flow": "ecko" })).await;
    assert!(unknown.to_string().contains("supervise, echo"), "{unknown}");
    drop(stop);
    serving.await.unwrap().unwrap();
}

#[test]
fn internal_flows_and_samples_are_not_listed() {
    let listed: Vec<&str> = flows::BUILT_IN.iter().filter(|flow| flow.visibility == Visibility::Listed).map(|flow| flow.name).collect();
    assert_eq!(listed, ["auto", "direct", "search", "chat", "reason", "panel", "report", "supervise"]);
}

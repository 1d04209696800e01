use std::net::SocketAddr;
use std::time::Duration;

use engine::Settings;
use graph::{Ask, END, Go, Graph, Replies};
use scripted::ScriptedHandler;
use scripted::mangled;
use store::MemoryStore;

use super::*;

/// An agent that repeats its input; `fail` fails it, `ask` makes it ask a person, `call` makes it call a tool.
fn echo() -> Graph {
    let last_message =
        |s: &Value| s["messages"].as_array().and_then(|all| all.last()).and_then(|last| last["content"].as_str()).unwrap_or_default().to_owned();
    let ask = move |s: &Value| match last_message(s).as_str() {
        "ask" => Ask::one(graph::person("Really?")),
        "call" => Ask::one(graph::tool("count", json!({}))),
        _ => Ask::nothing(),
    };
    let fold = move |s: &mut Value, replies: &Replies<'_>| {
        let input = last_message(s);
        if input == "fail" {
            return Go::fail("it hurts");
        }
        let more = replies.value(0).map(|value| format!(" {value}")).unwrap_or_default();
        let turn = json!({ "role": "assistant", "content": format!("echo: {input}{more}"), "name": "echo" });
        s["messages"].as_array_mut().unwrap().push(turn);
        s["context"]["seen"] = json!(true);
        s["next"] = json!("FINISH");
        Go::end().note("received", input)
    };
    Graph::of::<Value>("echo").node("answer", (ask, fold), &[END]).build().unwrap()
}

/// A flow that answers questions, and one that is what it is.
fn others() -> Vec<Graph> {
    let answer = |s: &mut Value, _: &Replies<'_>| {
        *s = json!({ "answer": format!("to {}: {} before", s["question"].as_str().unwrap_or_default(), s["history"].as_array().map_or(0, Vec::len)), "x": s["x"] });
        Go::end()
    };
    let inc = |s: &mut Value, _: &Replies<'_>| {
        s["x"] = json!(s["x"].as_i64().unwrap_or(0) + 1);
        Go::end()
    };
    let nothing = |_: &Value| Ask::nothing();
    let question = Graph::of::<Value>("question").node("answer", (nothing, answer), &[END]).build().unwrap();
    vec![question, Graph::of::<Value>("inc").node("inc", (nothing, inc), &[END]).build().unwrap()]
}

fn service() -> (Service, Engine) {
    let handler = ScriptedHandler::parse("when tool count reply 1 after 30ms once").unwrap();
    let flows = std::iter::once(echo()).chain(others());
    let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(handler), flows, Settings::default());
    let one = |flow: &str, input_shape, base: Value| ServedFlow {
        flow: flow.to_owned(),
        input_shape,
        base: base.as_object().unwrap().clone(),
        settings: FlowSettings::none(flow),
    };
    let served = [
        ("graph".to_owned(), one("echo", InputShape::Agent, json!({ "kept": 1 }))),
        ("question".to_owned(), one("question", InputShape::Question, json!({ "x": 7 }))),
        ("inc".to_owned(), one("inc", InputShape::Bare, json!({}))),
    ];
    let description = Description { name: "echo".into(), about: "says it again".into(), capabilities: Vec::new() };
    (Service::new(engine.clone(), served.into(), Some(description)), engine)
}

async fn serve() -> (String, Engine) {
    let (service, engine) = service();
    let guard = Guard::new(None);
    let listener = guard.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = service.router(&guard);
    tokio::spawn(async move { crate::serve(listener, router).await });
    (base, engine)
}

fn human(text: &str) -> Value {
    json!({ "messages": [{ "type": "human", "content": text, "id": "h1", "own": [1] }], "next": "", "context": { "a": 1 }, "mine": 2 })
}

async fn post(url: String, body: impl Into<reqwest::Body>, headers: &[(&str, &str)]) -> (u16, Value, HeaderMap) {
    let mut request = reqwest::Client::new().post(url).header("content-type", "application/json").body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(json!(text)), headers)
}

#[tokio::test]
async fn p3_invoke_takes_a_state_and_gives_one() {
    let (base, _) = serve().await;
    let (status, body, _) =
        post(format!("{base}/graph/invoke"), json!({ "input": human("hi"), "config": { "tags": [], "odd": 1 }, "kwargs": {} }).to_string(), &[])
            .await;
    assert_eq!(status, 200, "{body}");
    let output = &body["output"];
    assert_eq!(output["messages"][0], human("hi")["messages"][0], "what came stays as it came");
    assert_eq!(
        (&output["messages"][1]["type"], &output["messages"][1]["content"], &output["messages"][1]["name"]),
        (&json!("ai"), &json!("echo: hi"), &json!("echo"))
    );
    assert_eq!((&output["context"], &output["next"], &output["mine"]), (&json!({ "a": 1, "seen": true }), &json!("FINISH"), &json!(2)));
    assert_eq!(output.get("kept"), None, "what a flow is given beside the state is not the caller's");
    assert_eq!((body["metadata"]["run_id"].as_str().unwrap().len(), &body["metadata"]["feedback_tokens"]), (36, &json!([])));
    let (_, bare, _) = post(format!("{base}/inc/invoke"), r#"{"input":{"x":1}}"#, &[]).await;
    assert_eq!(bare["output"], json!({ "x": 2 }));
}

#[tokio::test]
async fn p3_flows_that_answer_questions_take_them_in_every_form() {
    let (base, _) = serve().await;
    let url = format!("{base}/question/invoke");
    for (input, answer) in [(json!("why"), "to why: 0 before"), (json!({ "question": "why", "x": 9 }), "to why: 0 before")] {
        let (_, body, _) = post(url.clone(), json!({ "input": input }).to_string(), &[]).await;
        assert_eq!((&body["output"]["answer"], &body["output"]["x"]), (&json!(answer), &json!(7)), "{body}");
    }
    let talk = json!({ "messages": [["human", "a"], ["ai", "b"], ["system", "obey"], "why"] });
    let (_, body, _) = post(url, json!({ "input": talk }).to_string(), &[]).await;
    assert_eq!(
        (&body["output"]["messages"][4]["content"], &body["output"]["context"]["output"]["x"]),
        (&json!("to why: 2 before"), &json!(7)),
        "{body}"
    );
}

#[tokio::test]
async fn p3_batches_keep_their_order_and_their_configs() {
    let (base, _) = serve().await;
    let url = format!("{base}/inc/batch");
    let inputs: Vec<Value> = (0..100).map(|x| json!({ "x": x })).collect();
    let (status, body, _) = post(url.clone(), json!({ "inputs": inputs }).to_string(), &[]).await;
    let expected: Vec<Value> = (1..=100).map(|x| json!({ "x": x })).collect();
    assert_eq!((status, &body["output"]), (200, &json!(expected)));
    assert_eq!((body["metadata"]["run_ids"].as_array().unwrap().len(), body["metadata"]["responses"].as_array().unwrap().len()), (100, 100));
    assert_eq!(post(url.clone(), r#"{"inputs":[]}"#, &[]).await.1, json!({ "output": [], "metadata": { "responses": [], "run_ids": [] } }));
    let (status, body, _) = post(url, json!({ "inputs": [{}, {}], "config": [{}] }).to_string(), &[]).await;
    assert_eq!((status, body), (422, json!({ "detail": "Number of configs (1) must match number of inputs (2)" })));
}

#[tokio::test]
async fn what_a_batch_repeats_is_bounded() {
    let (base, _) = serve().await;
    let url = format!("{base}/inc/batch");
    let inputs = |count: usize| vec![json!({ "x": 1 }); count];
    let (status, body, _) = post(url.clone(), json!({ "inputs": inputs(1_001) }).to_string(), &[]).await;
    assert_eq!((status, &body["detail"][0]["msg"]), (422, &json!("a batch has at most 1000 inputs, not 1001")), "{body}");
    let tags = vec!["tag"; 101];
    let (status, body, _) = post(url, json!({ "inputs": inputs(1), "config": { "tags": tags } }).to_string(), &[]).await;
    assert_eq!((status, &body["detail"][0]["type"]), (422, &json!("too_long")), "{body}");
}

#[tokio::test]
async fn p3_errors_have_langserves_forms() {
    let (base, _) = serve().await;
    for (path, body, expected_status, place, reason) in [
        ("graph/invoke", "{".to_owned(), 422, "/detail/0", "Invalid JSON body"),
        ("graph/invoke", "[1]".to_owned(), 422, "/detail/0/msg", "valid dictionary"),
        ("graph/invoke", "{}".to_owned(), 422, "/detail/0/loc/0", "input"),
        ("graph/invoke", json!({ "input": {} }).to_string(), 422, "/detail/0/loc/0", "messages"),
        ("graph/invoke", json!({ "input": { "messages": 3 } }).to_string(), 422, "/detail/0/type", "list_type"),
        ("graph/invoke", json!({ "input": { "messages": [{ "type": "robot", "content": "x" }] } }).to_string(), 422, "/detail/0/msg", "robot"),
        ("graph/invoke", json!({ "input": { "messages": [], "context": 3 } }).to_string(), 422, "/detail/0/loc/0", "context"),
        ("graph/invoke", json!({ "input": human("x"), "config": { "tags": 3 } }).to_string(), 422, "/detail/0/msg", "sequence"),
        ("graph/invoke", json!({ "input": human("fail") }).to_string(), 500, "/detail", "it hurts"),
        ("graph/batch", json!({ "inputs": 3 }).to_string(), 422, "/detail/0/msg", "sequence"),
        ("nothing/invoke", json!({ "input": human("x") }).to_string(), 404, "/detail", "Not Found"),
        ("graph/stream", json!({ "input": {} }).to_string(), 422, "/detail/0/loc/0", "messages"),
    ] {
        let (status, reply, headers) = post(format!("{base}/{path}"), body.clone(), &[]).await;
        let found = reply.pointer(place).and_then(Value::as_str).unwrap_or_default();
        assert!(status == expected_status && found.contains(reason), "{path} {body}: {status} {reply}");
        assert_eq!(headers.get(SHOULD_RETRY).and_then(|value| value.to_str().ok()), Some("false"), "{path}");
    }
    let (status, reply, _) = post(format!("{base}/graph/invoke"), json!({ "input": human("x") }).to_string(), &[("host", "evil.example")]).await;
    assert_eq!((status, reply["error"].is_null()), (403, false), "the guard stands in front");
}

#[tokio::test]
async fn p8_the_same_key_is_the_same_run_however_often_it_is_asked() {
    let (base, engine) = serve().await;
    let ask = || post(format!("{base}/graph/invoke"), json!({ "input": human("call") }).to_string(), &[(KEY, "k1")]);
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    assert_eq!((&one.1, &two.1), (&two.1, &three.1));
    assert_eq!(ask().await.1, one.1);
    let (_, other, _) = post(format!("{base}/graph/invoke"), json!({ "input": human("call") }).to_string(), &[(KEY, "k2")]).await;
    assert_ne!(other["metadata"], one.1["metadata"]);
    let runs = engine.store().runs(store::RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 2);
}

#[tokio::test]
async fn p8_circles_of_agents_are_cut() {
    let (base, engine) = serve().await;
    for (depth, expected) in [("3", 200), ("8", 200), ("9", 422), ("-1", 422), ("many", 422)] {
        let (status, body, _) = post(format!("{base}/graph/invoke"), json!({ "input": human("hi") }).to_string(), &[(DEPTH, depth)]).await;
        assert_eq!(status, expected, "{depth}: {body}");
    }
    let run = engine.store().runs(store::RunFilter::default()).await.unwrap().remove(0).run;
    let past = engine::History::of(&**engine.store(), engine.flows(), &run).await.unwrap();
    assert!(past.start.is_some_and(|start| start.depth == 8));
}

#[tokio::test]
async fn p8_a_run_that_needs_a_person_reports_it_and_takes_the_answer() {
    let (base, _) = serve().await;
    let url = format!("{base}/graph/invoke");
    let (status, body, _) = post(url.clone(), json!({ "input": human("ask") }).to_string(), &[(KEY, "k")]).await;
    let waiting = &body["output"]["context"]["waiting"];
    assert_eq!((status, &waiting[0]["prompt"]), (200, &json!("Really?")), "{body}");
    let mut answer = waiting[0].clone();
    answer["value"] = json!("yes");
    let mut input = human("ask");
    input["context"]["answers"] = json!([answer]);
    for attempt in 0..2 {
        let (_, body, _) = post(url.clone(), json!({ "input": input }).to_string(), &[]).await;
        assert_eq!(body["output"]["messages"][1]["content"], "echo: ask \"yes\"", "{attempt}: {body}");
    }
    // A run of another protocol is not answered through this one, and an answer without a question is refused.
    for (path, run) in [("question", answer["run"].clone()), ("graph", json!("nobody"))] {
        input["context"]["answers"][0]["run"] = run;
        let (status, body, _) = post(format!("{base}/{path}/invoke"), json!({ "input": input }).to_string(), &[]).await;
        assert_eq!(status, 422, "{body}");
    }
}

fn caller(user: &str) -> Caller {
    Caller { who: Identity { user: UserId::from(user), is_operator: false }, headers: HeaderMap::new() }
}

#[tokio::test]
async fn p8_no_user_can_answer_for_another() {
    let (service, _) = service();
    let (ada, bob) = (caller("ada"), caller("bob"));
    let asked = json!({ "input": human("ask") }).to_string();
    let (_, output) = invoked(&service, "graph", &ada, asked.as_bytes()).await.ok().unwrap();
    let mut input = human("ask");
    input["context"]["answers"] = output["context"]["waiting"].clone();
    input["context"]["answers"][0]["value"] = json!("yes");
    let answer = json!({ "input": input }).to_string();
    let refused = invoked(&service, "graph", &bob, answer.as_bytes()).await.err().unwrap();
    assert!(refused.status == 422 && refused.message().contains("there is no run"), "{}", refused.body);
    let (_, output) = invoked(&service, "graph", &ada, answer.as_bytes()).await.ok().unwrap();
    assert_eq!(output["messages"][1]["content"], "echo: ask \"yes\"");
}

fn events(text: &str) -> Vec<(String, Value)> {
    let field = |event: &str, name: &str| event.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default().to_owned();
    text.split("\r\n\r\n")
        .filter(|event| !event.is_empty())
        .map(|event| (field(event, "event"), serde_json::from_str(&field(event, "data")).unwrap_or_default()))
        .collect()
}

async fn streamed(base: &str, form: &str, body: Value) -> Vec<(String, Value)> {
    let (status, text, headers) = post(format!("{base}/graph/{form}"), body.to_string(), &[]).await;
    assert!(status == 200 && headers["content-type"].to_str().unwrap().starts_with("text/event-stream"), "{text}");
    events(text.as_str().unwrap())
}

#[tokio::test]
async fn p3_streams_have_the_events_of_a_run() {
    let (base, _) = serve().await;
    let frames = streamed(&base, "stream", json!({ "input": human("hi") })).await;
    let names: Vec<&str> = frames.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["metadata", "data", "data", "end"]);
    assert_eq!(frames[1].1, json!({ "answer": { "received": "hi" } }));
    assert_eq!(frames[2].1["echo"]["messages"][1]["content"], "echo: hi");
    let log = streamed(&base, "stream_log", json!({ "input": human("hi"), "diff": true })).await;
    let paths: Vec<String> = log
        .iter()
        .flat_map(|(_, data)| data["ops"].as_array().cloned().unwrap_or_default())
        .map(|op| op["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths, ["", "/logs/answer", "/logs/answer/final_output", "/streamed_output/-", "/final_output"]);
    let happenings = streamed(&base, "stream_events", json!({ "input": human("hi") })).await;
    let names: Vec<String> = happenings
        .iter()
        .map(|(_, data)| format!("{} {}", data["event"].as_str().unwrap_or_default(), data["name"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        names[..5],
        ["on_chain_start /graph", "on_chain_start answer", "on_chain_end answer", "on_chain_stream /graph", "on_chain_end /graph"]
    );
    let few = streamed(&base, "stream_events", json!({ "input": human("hi"), "include_names": ["answer"] })).await;
    assert_eq!(few.len(), 3);
    for form in ["stream", "stream_log", "stream_events"] {
        let failed = streamed(&base, form, json!({ "input": human("fail") })).await;
        let (name, data) = failed.last().unwrap();
        assert_eq!((name.as_str(), &data["status_code"]), ("error", &json!(500)), "{form}");
        assert!(data["message"].as_str().unwrap().contains("it hurts"));
        let asking = tokio::time::timeout(Duration::from_secs(10), streamed(&base, form, json!({ "input": human("ask") }))).await.unwrap();
        assert!(json!(asking).to_string().contains("Really?") && asking.last().unwrap().0 == "end", "{form}: {asking:?}");
    }
}

#[tokio::test]
async fn p3_schemas_and_the_description_are_there() {
    let (base, _) = serve().await;
    let get = |path: &str| {
        let url = format!("{base}/{path}");
        async move { reqwest::get(url).await.unwrap().json::<Value>().await.unwrap() }
    };
    for path in ["graph/input_schema", "graph/output_schema", "graph/config_schema", "question/input_schema", "inc/output_schema"] {
        assert!(get(path).await["title"].is_string(), "{path}");
    }
    assert_eq!(get("graph/input_schema").await["required"], json!(["messages"]));
    assert_eq!((get("agent.json").await["name"].clone(), get("nothing/input_schema").await), (json!("echo"), json!({ "detail": "Not Found" })));
}

/// Callers that send mangled requests. `BATON_MANGLED` is their number, 2,000 by default.
#[tokio::test]
async fn p8_mangled_requests_never_panic_or_hang() {
    let handler = ScriptedHandler::parse("when tool count reply 1").unwrap();
    let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(handler), [echo()], Settings::default());
    let served = [(
        "graph".to_owned(),
        ServedFlow { flow: "echo".into(), input_shape: InputShape::Agent, base: Map::new(), settings: FlowSettings::none("echo") },
    )];
    let service = Service::new(engine, served.into(), None);
    let nobody = caller("nobody");
    let whole = json!({
        "input": { "messages": [{ "type": "human", "content": "hi" }, { "lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": { "content": "x" } }, ["ai", "y"]],
            "next": "", "context": { "a": [1, { "b": null }] } },
        "config": { "tags": ["t"], "metadata": {}, "recursion_limit": 25, "configurable": { "thread_id": "t" } }, "kwargs": {},
    })
    .to_string();
    let (mut good, mut refused) = (0, 0);
    for bytes in mangled::mangled(whole.as_bytes(), 0x2545_f491_4f6c_dd1d).take(mangled::count()) {
        let answered = tokio::time::timeout(Duration::from_secs(10), invoked(&service, "graph", &nobody, &bytes)).await;
        match answered.unwrap_or_else(|_| panic!("it hangs on {}", String::from_utf8_lossy(&bytes))) {
            Ok((_, output)) => {
                good += 1;
                assert!(output["messages"].is_array());
            }
            Err(why) => {
                refused += 1;
                assert!(matches!(why.status.as_u16(), 422 | 500) && !why.message().is_empty(), "{} {}", why.status, why.body);
            }
        }
    }
    assert!(good > 0 && refused > 0, "{good} good, {refused} refused");
}

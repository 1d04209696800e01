//! Models against third-party servers: llama.cpp's own, with the weights of the embedded model, and Triton.
//!
//! `lab/peers/llamacpp` and `lab/peers/triton` install and start them, and pass their addresses in `BATON_PEER_LLAMACPP` and
//! `BATON_PEER_TRITON`. Without these, the tests are skipped with a message.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use effects::Progress;
use graph::{Failure, FailureKind, Key, Message, ModelCall, Reply, Retry, TaskId, ToolSpec};
use models::triton::kserve::grpc_inference_service_client::GrpcInferenceServiceClient;
use models::triton::kserve::model_infer_request::InferInputTensor;
use models::triton::kserve::{ModelInferRequest, ModelReadyRequest};
use models::{Models, Table};
use serde_json::{Value, json};

/// A large model on a busy machine is slow, but nothing here should hang.
const DEADLINE: Duration = Duration::from_secs(240);

/// The address of a peer; `None` with a message that the test is skipped.
fn peer(variable: &str, script: &str) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        eprintln!("skipped: {variable} is not set; {script} starts the peer and sets it");
    }
    url
}

fn llamacpp() -> Option<Models> {
    let url = peer("BATON_PEER_LLAMACPP", "lab/peers/llamacpp")?;
    Some(models(json!({"endpoints": {"peer": {"url": format!("{url}/v1")}}}), "compat/peer/any"))
}

fn triton(model: &str) -> Option<Models> {
    let url = peer("BATON_PEER_TRITON", "lab/peers/triton")?;
    Some(models(json!({"endpoints": {"triton": {"url": url, "dialect": "triton"}}}), &format!("triton/{model}")))
}

fn models(table: Value, chosen: &str) -> Models {
    let table: Table = serde_json::from_value(table).expect("a table");
    Models::new(table.with_defaults(), chosen.parse().expect("a name"), &|_| None).expect("models")
}

fn call(question: &str) -> ModelCall {
    let messages = vec![Message { role: "user".into(), content: question.into() }];
    ModelCall { purpose: "direct".into(), messages, tokens_max: Some(48), temperature: Some(0.0), ..ModelCall::default() }
}

fn with_schema(question: &str) -> ModelCall {
    let tool = json!({"enum": ["search", "compute"]});
    let schema = json!({
        "type": "object",
        "properties": {"tool": tool, "query": {"type": "string", "minLength": 1, "maxLength": 40}},
        "required": ["tool", "query"],
        "additionalProperties": false,
    });
    ModelCall { schema: Some(schema), ..call(question) }
}

struct Outcome {
    reply: Reply,
    streamed: String,
}

/// Calls like the engine; an expired deadline drops the call and returns `None`.
async fn ask(models: &Models, call: &ModelCall, is_streamed: bool, deadline: Duration) -> Option<Outcome> {
    let streamed = Arc::new(Mutex::new(String::new()));
    let received = streamed.clone();
    let progress = if is_streamed { Progress::to(move |text| received.lock().expect("lock").push_str(text)) } else { Progress::nowhere() };
    let key = Key::of(&"thread".into(), &"run".into(), TaskId { step: 1, index: 0 });
    let reply = tokio::time::timeout(deadline, models.answer(call, &key, &progress)).await.ok()?;
    let streamed = streamed.lock().expect("lock").clone();
    Some(Outcome { reply, streamed })
}

async fn value(models: &Models, call: &ModelCall, is_streamed: bool) -> (Value, Outcome) {
    let outcome = ask(models, call, is_streamed, DEADLINE).await.expect("in time");
    (outcome.reply.result.clone().unwrap_or_else(|failure| panic!("{failure}")), outcome)
}

async fn failure(models: &Models, call: &ModelCall, is_streamed: bool) -> Failure {
    let outcome = ask(models, call, is_streamed, DEADLINE).await.expect("in time");
    outcome.reply.result.expect_err("this cannot go well")
}

#[tokio::test]
async fn llamacpp_answers_and_streams() {
    let Some(models) = llamacpp() else { return };
    for is_streamed in [false, true] {
        let (value, outcome) = value(&models, &call("What is the capital of France? One word."), is_streamed).await;
        let text = value.as_str().expect("a text");
        assert!(text.contains("Paris"), "{text}");
        assert_eq!(outcome.streamed, if is_streamed { text } else { "" });
        let about = outcome.reply.about.expect("about");
        assert_eq!(about["finish"], json!("stop"), "{about}");
        assert!(outcome.reply.usage.tokens_in > 10 && outcome.reply.usage.tokens_out > 0, "{:?}", outcome.reply.usage);
    }
}

#[tokio::test]
async fn llamacpp_follows_a_schema() {
    let Some(models) = llamacpp() else { return };
    for is_streamed in [false, true] {
        let (value, outcome) = value(&models, &with_schema("Plan: what is 12 * 7? Use one tool."), is_streamed).await;
        assert!(["search", "compute"].contains(&value["tool"].as_str().expect("a tool")), "{value}");
        assert!(value["query"].as_str().is_some_and(|query| (1..=40).contains(&query.chars().count())), "{value}");
        let about = outcome.reply.about.expect("about");
        assert!(about.get("mended").is_none(), "a schema mode leaves nothing to repair: {about}");
    }
}

#[tokio::test]
async fn llamacpp_receives_tools() {
    let Some(models) = llamacpp() else { return };
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]});
    let tools = vec![ToolSpec { name: "add".into(), description: "Adds two numbers.".into(), schema }];
    for is_streamed in [false, true] {
        let call = ModelCall { tools: tools.clone(), ..call("What is 2 + 3? Call the tool add.") };
        // Whether a small model writes the call in the form its server parses varies; these weights often write it into a fence, which is
        // text.
        match value(&models, &call, is_streamed).await.0 {
            Value::String(text) => assert!(text.contains("add") && text.contains('2'), "the prompt names the tool: {text}"),
            called => assert_eq!(called["tool_calls"], json!([{"name": "add", "arguments": {"a": 2, "b": 3}}]), "{called}"),
        }
    }
}

#[tokio::test]
async fn llamacpp_cuts_off_at_the_limit() {
    let Some(models) = llamacpp() else { return };
    let long = ModelCall { tokens_max: Some(6), ..call("Count from one to a hundred in words.") };
    let (_, outcome) = value(&models, &long, true).await;
    assert_eq!(outcome.reply.about.expect("about")["finish"], json!("length"));
    let cut = ModelCall { tokens_max: Some(3), ..with_schema("Plan: what is 12 * 7?") };
    let failure = failure(&models, &cut, false).await;
    assert_eq!(failure.kind, FailureKind::Invalid, "{failure}");
    assert!(failure.message.contains("tokens_max = 3"), "{failure}");
}

/// The server has one slot: unless it notices the closed connection, the second question would wait for a thousand tokens.
#[tokio::test]
async fn llamacpp_stops_when_a_call_is_dropped() {
    let Some(models) = llamacpp() else { return };
    for is_streamed in [true, false] {
        let endless = ModelCall { tokens_max: Some(3_000), ..call("Write a complete snake game in Python with pygame. Comment every line.") };
        if let Some(outcome) = ask(&models, &endless, is_streamed, Duration::from_secs(3)).await {
            panic!("it should not be done yet, but replied {:?}", outcome.reply.result);
        }
        let short = ModelCall { tokens_max: Some(2), ..call("Say yes.") };
        value(&models, &short, false).await;
    }
}

#[tokio::test]
async fn llamacpp_refuses_what_it_cannot() {
    let Some(models) = llamacpp() else { return };
    // Another model may have a larger context; this one does not.
    let long = failure(&models, &call(&"word ".repeat(9_000)), false).await;
    assert_eq!((long.kind, long.retry), (FailureKind::Refused, Retry::No), "{long}");
    let fallback =
        json!({"endpoints": {"peer": {"url": format!("{}/v1", std::env::var("BATON_PEER_LLAMACPP").expect("set"))}}, "fallbacks": ["extract"]});
    let with_fallback = self::models(fallback, "compat/peer/any");
    let about = value(&with_fallback, &call(&"word ".repeat(9_000)), false).await.1.reply.about.expect("about");
    assert_eq!(about["tried"][0]["model"], json!("compat/peer/any"), "too long for one is a reason to ask another: {about}");
    let schema = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
    let wrong = failure(&models, &ModelCall { schema: Some(schema), ..call("Hi") }, true).await;
    assert_eq!(wrong.retry, Retry::No, "{wrong}");
    let url = std::env::var("BATON_PEER_LLAMACPP").expect("set");
    let elsewhere = self::models(json!({"endpoints": {"peer": {"url": format!("{url}/nowhere")}}}), "compat/peer/any");
    let lost = failure(&elsewhere, &call("Hi"), true).await;
    assert_eq!((lost.kind, lost.retry), (FailureKind::Refused, Retry::No), "{lost}");
}

#[tokio::test]
async fn triton_streams_and_answers_whole() {
    for (model, expected) in [("words", "How are you, Möbius? "), ("whole", "How are you, Möbius? [48]")] {
        let Some(models) = triton(model) else { return };
        for is_streamed in [false, true] {
            let (value, outcome) = value(&models, &call("How are you, Möbius?"), is_streamed).await;
            assert_eq!(value, json!(expected), "{model}");
            assert_eq!(outcome.streamed, if is_streamed { expected } else { "" }, "{model}");
        }
    }
}

#[tokio::test]
async fn triton_takes_one_call_for_one_answer() {
    let Some(url) = peer("BATON_PEER_TRITON", "lab/peers/triton") else { return };
    let channel = tonic::transport::Endpoint::from_shared(url).expect("an address").connect().await.expect("a line");
    let mut client = GrpcInferenceServiceClient::new(channel);
    let ready = |name: &str| ModelReadyRequest { name: name.into(), version: String::new() };
    assert!(client.model_ready(ready("whole")).await.expect("an answer").into_inner().ready);
    assert!(!client.model_ready(ready("asleep")).await.expect("an answer").into_inner().ready);
    let tensor =
        |name: &str, datatype: &str| InferInputTensor { name: name.into(), datatype: datatype.into(), shape: vec![1], ..InferInputTensor::default() };
    let raw_input_contents = vec![[&2_u32.to_le_bytes()[..], b"Hi"].concat(), 7_i32.to_le_bytes().to_vec()];
    let inputs = vec![tensor("text_input", "BYTES"), tensor("max_tokens", "INT32")];
    let request = ModelInferRequest { model_name: "whole".into(), inputs, raw_input_contents, ..ModelInferRequest::default() };
    let response = client.model_infer(request).await.expect("an answer").into_inner();
    assert_eq!(response.raw_output_contents, [[&6_u32.to_le_bytes()[..], b"Hi [7]"].concat()]);
}

#[tokio::test]
async fn triton_pieces_may_cut_letters() {
    let Some(models) = triton("json") else { return };
    let schema = json!({"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "string"}}}, "required": ["steps"]});
    for is_streamed in [false, true] {
        let (value, _) = value(&models, &ModelCall { schema: Some(schema.clone()), ..call("Plan.") }, is_streamed).await;
        assert_eq!(value, json!({"steps": ["schön"]}));
    }
}

#[tokio::test]
async fn errors_of_triton_are_reported() {
    for (model, kind, retry, words) in [
        ("broken", FailureKind::Tool, Retry::No, "the model fell over"),
        ("wrong", FailureKind::Tool, Retry::No, "the model fell over"),
        ("numbers", FailureKind::Refused, Retry::No, "input_ids"),
        ("nobody", FailureKind::Refused, Retry::No, "nobody"),
        // Triton reports an unloaded model like an unknown one.
        ("asleep", FailureKind::Refused, Retry::No, "asleep"),
    ] {
        let Some(models) = triton(model) else { return };
        for is_streamed in [false, true] {
            let failure = failure(&models, &call("Hi"), is_streamed).await;
            assert!(failure.message.contains(words), "{model}: {failure}");
            assert_eq!((failure.kind, failure.retry), (kind, retry), "{model}: {failure}");
        }
    }
}

#[tokio::test]
async fn triton_is_left_at_the_deadline() {
    let Some(models) = triton("slow") else { return };
    for is_streamed in [false, true] {
        assert!(ask(&models, &call("Hi"), is_streamed, Duration::from_secs(2)).await.is_none(), "a minute is longer than the deadline");
    }
    // The connection still works.
    let Some(models) = triton("words") else { return };
    assert_eq!(value(&models, &call("Still there?"), true).await.0, json!("Still there? "));
}

//! `Models`, with models defined in the test.

use std::sync::Mutex;

use super::*;
use graph::{Message, Retry, TaskId, ToolSpec};

/// Gives what it was given to give, in order.
struct ScriptedAnswers(Mutex<Vec<Result<Answer, ModelError>>>);

#[async_trait]
impl Model for ScriptedAnswers {
    async fn answer(&self, _call: &ModelCall, _key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        progress.send("so");
        self.0.lock().unwrap().remove(0)
    }
}

fn given(answers: Vec<Result<Answer, ModelError>>) -> Arc<dyn Model> {
    Arc::new(ScriptedAnswers(Mutex::new(answers)))
}

fn answer(output: ModelOutput) -> Answer {
    let usage = Usage { tokens_in: 10, tokens_out: 5, ..Usage::default() };
    Answer { output, usage, model: None, finish: Finish::Stop, notes: Value::Null }
}

fn text(text: &str) -> Result<Answer, ModelError> {
    Ok(answer(ModelOutput::Text(text.to_owned())))
}

fn named(name: &str) -> Name {
    name.parse().unwrap()
}

fn models(fallbacks: &[&str]) -> Models {
    let fallbacks = fallbacks.iter().map(|name| name.parse().unwrap()).collect();
    Models::new(Table { fallbacks, ..Table::default() }, "embedded/e".parse().unwrap(), &|_| None).unwrap()
}

fn call() -> ModelCall {
    ModelCall { messages: vec![Message { role: "user".into(), content: "hello".into() }], ..ModelCall::default() }
}

async fn ask(models: &Models, call: &ModelCall) -> Reply {
    let key = Key::of(&"t".into(), &"r".into(), TaskId { step: 0, index: 0 });
    models.answer(call, &key, &Progress::nowhere()).await
}

#[tokio::test]
async fn a_reply_is_simple_and_names_who_answered() {
    let models = models(&[]).with(named("embedded/e"), given(vec![text("<think>hm</think> hi")]));
    let reply = ask(&models, &call()).await;
    assert_eq!(reply.result, Ok(json!("hi")));
    assert_eq!(reply.about, Some(json!({"model": "embedded/e", "finish": "stop", "price": "unknown"})));
    assert_eq!((reply.usage.tokens_in, reply.usage.tokens_out), (10, 5));
}

/// An operator stores a key while the service runs.
#[test]
fn a_key_that_is_stored_or_removed_counts_for_the_next_call() {
    let stored = Arc::new(Mutex::new(None::<String>));
    let key = stored.clone();
    let models = models(&[]).with_key_lookup(Arc::new(move |name| key.lock().unwrap().clone().filter(|_| name == "OPENAI_API_KEY")));
    let open = || models.open(&named("openai/gpt-4.1-mini")).map(drop);
    for key in [None, Some("sk-secret"), None] {
        *stored.lock().unwrap() = key.map(str::to_owned);
        match (open(), key) {
            (Ok(()), Some(_)) => {}
            (Err(error), None) => assert!(error.message.contains("OPENAI_API_KEY"), "{error}"),
            (opened, key) => panic!("{key:?}: {opened:?}"),
        }
    }
    assert_eq!(models.chosen(), named("embedded/e"));
    models.choose(named("openai/gpt-4.1-mini"));
    assert_eq!(models.chosen(), named("openai/gpt-4.1-mini"));
}

#[tokio::test]
async fn json_is_validated_and_never_asked_for_twice() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let wants = ModelCall { schema: Some(schema), ..call() };
    let models = models(&["extract"])
        .with(named("embedded/e"), given(vec![text("Here: {n: 1,}"), text("no"), Ok(answer(ModelOutput::Json(json!({"n": "x"}))))]));
    let reply = ask(&models, &wants).await;
    assert_eq!(reply.result, Ok(json!({"n": 1})));
    assert_eq!(reply.about.unwrap()["mended"], json!(true));
    for output in ["no", "{\"n\":\"x\"}"] {
        let reply = ask(&models, &wants).await;
        let failure = reply.result.unwrap_err();
        assert_eq!((failure.kind, failure.retry), (FailureKind::Invalid, Retry::No));
        assert_eq!(failure.output.as_deref(), Some(output), "s7: a flow may still find an answer in it");
        assert_eq!(reply.usage.tokens_in, 10, "the usage is reported");
    }
}

#[tokio::test]
async fn tool_calls_are_checked_against_what_was_offered() {
    let tool = ToolSpec { name: "add".into(), description: String::new(), schema: json!({"type": "object", "required": ["a"]}) };
    let wants = ModelCall { tools: vec![tool], ..call() };
    let calls = |name: &str, arguments| Ok(answer(ModelOutput::Calls { text: String::new(), calls: vec![Called { name: name.into(), arguments }] }));
    let models = models(&[]).with(
        named("embedded/e"),
        given(vec![
            calls("add", json!({"a": 1})),
            calls("add", json!("{\"a\": 2")),
            calls("add", json!({})),
            calls("sub", json!({})),
            text("no need"),
        ]),
    );
    assert_eq!(ask(&models, &wants).await.result, Ok(json!({"text": "", "tool_calls": [{"name": "add", "arguments": {"a": 1}}]})));
    assert_eq!(ask(&models, &wants).await.result.unwrap()["tool_calls"][0]["arguments"], json!({"a": 2}));
    assert_eq!(ask(&models, &wants).await.result.unwrap_err().kind, FailureKind::Invalid);
    assert!(ask(&models, &wants).await.result.unwrap_err().message.contains("offered were add"));
    assert_eq!(ask(&models, &wants).await.result, Ok(json!("no need")));
}

#[tokio::test]
async fn fallbacks_are_tried_in_order_and_reported() {
    let trouble = ModelError::again(FailureKind::Network, "down");
    let models = models(&["embedded/e", "triton/t", "extract"])
        .with(named("embedded/e"), given(vec![Err(trouble)]))
        .with(named("triton/t"), given(vec![text("mine")]));
    let streamed = Arc::new(Mutex::new(String::new()));
    let sink = streamed.clone();
    let progress = Progress::to(move |text| sink.lock().unwrap().push_str(text));
    let key = Key::of(&"t".into(), &"r".into(), TaskId { step: 0, index: 0 });
    let reply = models.answer(&call(), &key, &progress).await;
    assert_eq!(reply.result, Ok(json!("mine")));
    let about = reply.about.unwrap();
    assert_eq!((&about["model"], &about["tried"]), (&json!("triton/t"), &json!([{"model": "embedded/e", "why": "down"}])));
    assert_eq!(*streamed.lock().unwrap(), "so\n[the answer broke off; another model is asked]\nso");
}

#[tokio::test]
async fn troubles_become_failures_the_machine_can_decide_by() {
    let again = |after_ms| ModelError { remedy: Remedy::Again { after_ms }, kind: FailureKind::Refused, message: "slow down".into() };
    let cases = [
        (vec![again(Some(2_000))], FailureKind::Refused, Retry::AfterMs(2_000)),
        (vec![again(None)], FailureKind::Refused, Retry::Yes),
        (vec![ModelError::another(FailureKind::Invalid, "garbage")], FailureKind::Invalid, Retry::No),
        (vec![ModelError::another(FailureKind::Invalid, "garbage"), again(Some(5))], FailureKind::Invalid, Retry::AfterMs(5)),
        (vec![again(Some(9)), ModelError::user("no key")], FailureKind::Refused, Retry::AfterMs(9)),
        (vec![ModelError::user("no key")], FailureKind::Refused, Retry::No),
    ];
    for (troubles, kind, retry) in cases {
        let mut troubles = troubles.into_iter().map(Err);
        let first = given(troubles.by_ref().take(1).collect());
        let models = models(&["triton/t"]).with(named("embedded/e"), first);
        let models =
            models.with(named("triton/t"), given(troubles.chain([Err(ModelError::another(FailureKind::Refused, "nor this one"))]).collect()));
        let failure = ask(&models, &call()).await.result.unwrap_err();
        assert_eq!((failure.kind, failure.retry), (kind, retry), "{failure}");
    }
}

#[tokio::test]
async fn unknown_names_and_missing_keys_are_errors() {
    let models = models(&["extract"]);
    let name = |name: &str| ModelCall { model: Some(name.into()), ..call() };
    let words = ask(&models, &name("gpt-4o")).await.result.unwrap_err().message;
    assert!(words.contains("openai/gpt-4o"), "{words}");
    let words = ask(&models, &name("openai/gpt-4o")).await.result.unwrap_err().message;
    assert!(words.contains("OPENAI_API_KEY"), "{words}");
    let words = ask(&models, &name("compat/nobody/x")).await.result.unwrap_err().message;
    assert!(words.contains("there is no model"), "{words}");
    let extracted = ask(&models, &name("extract")).await;
    assert_eq!(extracted.result, Ok(json!(extract::NOTHING_KNOWN)));
    assert!(extract::is_extracted(&extracted.about.unwrap()));
}

#[tokio::test]
async fn other_effects_are_refused() {
    let models = models(&[]);
    for job in scripted::jobs(&[graph::tool("x", json!({})), graph::agent("y", json!({}))]) {
        let failure = models.perform(&job, &Progress::nowhere()).await.result.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
    }
}

#[tokio::test]
async fn a_call_that_names_no_model_is_answered_by_the_one_its_run_was_started_with() {
    let models = models(&[]).with(named("embedded/large"), given(vec![text("large")])).with(named("embedded/small"), given(vec![text("small")]));
    let mut job = scripted::jobs(&[Effect::CallModel(call())]).remove(0);
    job.context.model = Some("embedded/large".into());
    assert_eq!(models.perform(&job, &Progress::nowhere()).await.result, Ok(json!("large")));
    job.effect = Arc::new(Effect::CallModel(ModelCall { model: Some("embedded/small".into()), ..call() }));
    assert_eq!(models.perform(&job, &Progress::nowhere()).await.result, Ok(json!("small")));
}

//! The embedded model with its real weights. `BATON_WEIGHTS` names the file; without it these tests say so and pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_embedded_model::{Answer, Embedded, Finish, GeneratedOutput, Options};
use effects::Progress;
use graph::{Message, ModelCall};
use serde_json::{Value, json};

fn weights() -> Option<String> {
    let path = std::env::var("BATON_WEIGHTS").ok();
    if path.is_none() {
        eprintln!("skipped: BATON_WEIGHTS names no weights (`baton models pull` fetches some)");
    }
    path
}

fn call(messages: &[(&str, &str)], schema: Option<Value>, tokens_max: u32) -> ModelCall {
    let messages = messages.iter().map(|(role, content)| Message { role: (*role).into(), content: (*content).into() }).collect();
    ModelCall { messages, schema, tokens_max: Some(tokens_max), ..ModelCall::default() }
}

async fn ask(model: &Embedded, call: &ModelCall) -> Answer {
    model.answer(call, &Progress::nowhere()).await.expect("it answers")
}

/// One test, since loading the model for each of several would take its memory as many times.
#[tokio::test(flavor = "current_thread")]
async fn it_thinks() {
    let Some(path) = weights() else { return };
    // Prefix files beside the weights would change how many tokens a call finds computed, from one run of the tests to the next.
    let model = Embedded::with(&path, Options { keeps_prefixes: false, ..Options::default() });
    model.warm().await.expect("it loads");
    it_answers_and_leaves_the_runtime_free(&model).await;
    it_reads_a_shared_beginning_once(&model).await;
    it_follows_a_schema(&model).await;
    text_cannot_end_its_turn(&model).await;
    it_stops_when_nobody_waits(&model).await;
}

/// On a runtime of one thread, so a computation on it would hold up the ticks.
async fn it_answers_and_leaves_the_runtime_free(model: &Embedded) {
    let deltas = Arc::new(AtomicUsize::new(0));
    let count = deltas.clone();
    let progress = Progress::to(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let question = call(&[("user", "What is the capital of France? Answer in one word.")], None, 16);
    let mut ticks = 0;
    let answer = tokio::select! {
        answer = model.answer(&question, &progress) => answer.expect("it answers"),
        () = async { loop { tokio::time::sleep(Duration::from_millis(10)).await; ticks += 1; } } => unreachable!(),
    };
    let GeneratedOutput::Text(text) = &answer.output else { panic!("{answer:?}") };
    assert!(text.contains("Paris"), "{text}");
    assert_eq!(answer.finish, Finish::Stop);
    assert!(deltas.load(Ordering::Relaxed) >= 1);
    let took = answer.timing.prompt + answer.timing.answer;
    assert!(ticks as u128 * 10 > took.as_millis() / 5, "{ticks} ticks in {took:?}");
}

async fn it_reads_a_shared_beginning_once(model: &Embedded) {
    let rules = "You answer questions about the sea in one short sentence. ".repeat(8);
    let first = ask(model, &call(&[("system", &rules), ("user", "What is a tide?")], None, 8)).await;
    let second = ask(model, &call(&[("system", &rules), ("user", "What is a wave?")], None, 8)).await;
    assert_eq!(first.tokens.cached.min(10), first.tokens.cached, "{:?}", first.tokens);
    assert!(second.tokens.cached > 80, "{:?}", second.tokens);
}

async fn it_follows_a_schema(model: &Embedded) {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "continent": {"enum": ["Africa", "Asia", "Europe"]}},
        "required": ["city", "continent"],
        "additionalProperties": false,
    });
    let answer = ask(model, &call(&[("user", "What is the capital of Japan, and where is it?")], Some(schema), 64)).await;
    assert_eq!(answer.output, GeneratedOutput::Json(json!({"city": "Tokyo", "continent": "Asia"})));
    assert!(answer.tokens.forced >= 3, "{:?}", answer.tokens);
}

async fn text_cannot_end_its_turn(model: &Embedded) {
    let plain = ask(model, &call(&[("user", "ab")], None, 1)).await.tokens.prompt;
    let marked = ask(model, &call(&[("user", "a<|im_end|>b")], None, 1)).await.tokens.prompt;
    assert!(marked > plain + 3, "the mark is spelled out, {marked} after {plain}");
}

async fn it_stops_when_nobody_waits(model: &Embedded) {
    let long = call(&[("user", "Write a complete snake game in Python with pygame. Comment every line.")], None, 900);
    let done = tokio::time::timeout(Duration::from_secs(3), model.answer(&long, &Progress::nowhere())).await;
    assert!(done.is_err(), "it should not be done yet: {done:?}");
    let started = Instant::now();
    ask(model, &call(&[("user", "Hi")], None, 1)).await;
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

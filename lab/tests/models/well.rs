//! Well-behaved model servers.

use std::time::Duration;

use graph::{ModelCall, Usage};
use models::choice::probe_ollama;
use models::{Table, remote};
use serde_json::{Value, json};

use crate::dialect::{Dialect, ScriptedAnswer, TOKENS};
use crate::server::{Behaviour, Nonsense, RecordedRequest, Server};
use crate::{both_ways, find, key, question, try_one, with_schema, with_tools};

#[tokio::test]
async fn r10_text_comes_whole_with_its_cost_and_in_pieces_to_those_who_listen() {
    for (dialect, streaming) in both_ways() {
        let (outcome, seen) = try_one(dialect, Behaviour::Answers(ScriptedAnswer::Text("Hello there, reader.")), &question(), streaming).await;
        let outcome = outcome.expect("in time");
        let at = format!("{dialect:?}, streaming: {streaming}: {:?}", outcome.reply);
        assert_eq!(outcome.reply.result, Ok(json!("Hello there, reader.")), "{at}");
        assert_eq!(outcome.streamed, if streaming { "Hello there, reader." } else { "" }, "{at}");
        let about = outcome.reply.about.expect("about");
        assert_eq!((&about["model"], &about["finish"]), (&json!(dialect.model()), &json!("stop")), "{at}");
        // Dollars per million tokens, in and out, from the table.
        let price = match dialect {
            Dialect::OpenaiChat => Some((1.0, 2.0)),
            Dialect::OpenaiResponses => Some((2.5, 10.0)),
            Dialect::Anthropic => Some((3.0, 15.0)),
            Dialect::Gemini => Some((0.3, 2.5)),
            Dialect::Ollama => None,
        };
        let usd_micros = price.map_or(0, |(usd_in, usd_out): (f64, f64)| (TOKENS.0 as f64 * usd_in + TOKENS.1 as f64 * usd_out).round() as u64);
        assert_eq!(outcome.reply.usage, Usage { tokens_in: TOKENS.0, tokens_out: TOKENS.1, usd_micros, calls: 0 }, "{at}");
        assert_eq!(seen.len(), 1, "{at}");
        check_request(dialect, streaming, &question(), &seen[0]);
    }
}

/// The parts that every request has, wherever the API puts them.
fn check_request(dialect: Dialect, streaming: bool, call: &ModelCall, seen: &RecordedRequest) {
    let at = format!("{dialect:?}, streaming: {streaming}: {} {}", seen.path, seen.body);
    let path = seen.path.split('?').next().unwrap_or_default();
    assert_eq!(path, dialect.path(streaming, call.schema.is_some()), "{at}");
    let (header, prefix) = dialect.key_header();
    assert_eq!(seen.header(header), format!("{prefix}{}", crate::SECRET), "{at}");
    assert!(!seen.path.contains(crate::SECRET) && !seen.body.to_string().contains(crate::SECRET), "{at}");
    let idempotency = if dialect.takes_idempotency_key() { key().to_string() } else { String::new() };
    assert_eq!(seen.header("idempotency-key"), idempotency, "{at}");
    let body = &seen.body;
    let dialect = dialect.at(path);
    if dialect != Dialect::Gemini {
        let model: &str = dialect_model(body);
        assert!(["qwen-max", "gpt-4o", "claude-sonnet-4-5", "qwen3:4b"].contains(&model), "the name goes out as it is: {at}");
    }
    let (tokens, temperature, user) = match dialect {
        Dialect::OpenaiChat => ("/max_tokens", "/temperature", "/messages/1/content"),
        Dialect::OpenaiResponses => ("/max_output_tokens", "/temperature", "/input"),
        Dialect::Anthropic => ("/max_tokens", "/temperature", "/messages/0/content"),
        Dialect::Gemini => ("/generationConfig/maxOutputTokens", "/generationConfig/temperature", "/contents/0/parts/0/text"),
        Dialect::Ollama => ("/options/num_predict", "/options/temperature", "/messages/1/content"),
    };
    assert_eq!(find(body, tokens), &json!(64), "{at}");
    assert_eq!(find(body, temperature), &json!(0.2), "{at}");
    assert!(find(body, user).to_string().contains("Say hello."), "{at}");
    assert!(body.to_string().contains("Be brief."), "{at}");
}

fn dialect_model(body: &Value) -> &str {
    body["model"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn schema_mode_is_used_where_there_is_one_and_the_reply_is_validated() {
    for (dialect, streaming) in both_ways() {
        let answer = ScriptedAnswer::Text("{\"steps\": [\"look\", \"answer\"], \"note\": null}");
        let (outcome, seen) = try_one(dialect, Behaviour::Answers(answer), &with_schema(), streaming).await;
        let reply = outcome.expect("in time").reply;
        let at = format!("{dialect:?}, streaming: {streaming}: {reply:?}");
        assert_eq!(reply.result, Ok(json!({"steps": ["look", "answer"]})), "{at}");
        check_request(dialect, streaming, &with_schema(), &seen[0]);
        let schema = match dialect {
            Dialect::OpenaiChat | Dialect::Ollama => "/response_format/json_schema/schema",
            Dialect::OpenaiResponses => "/text/format/schema",
            Dialect::Anthropic => "/output_config/format/schema",
            Dialect::Gemini => "/generationConfig/responseJsonSchema",
        };
        assert_eq!(find(find(&seen[0].body, schema), "/properties/steps/type"), &json!("array"), "{at}: {}", seen[0].body);
    }
}

#[tokio::test]
async fn a_reply_that_does_not_fit_is_a_typed_failure_and_asked_for_only_once() {
    for (dialect, streaming) in both_ways() {
        for answer in [ScriptedAnswer::Text("I would rather not."), ScriptedAnswer::CutOff("{\"steps\": {\"a\":")] {
            let (outcome, seen) = try_one(dialect, Behaviour::Answers(answer), &with_schema(), streaming).await;
            let reply = outcome.expect("in time").reply;
            let failure = reply.result.expect_err("unfit");
            let at = format!("{dialect:?}, streaming: {streaming}: {failure}");
            assert_eq!((failure.kind, failure.retry), (graph::FailureKind::Invalid, graph::Retry::No), "{at}");
            assert_eq!(failure.message.contains("cut off at tokens_max = 64"), matches!(answer, ScriptedAnswer::CutOff(_)), "{at}");
            assert_eq!(reply.usage.tokens_out, TOKENS.1, "{at}");
            assert_eq!(seen.len(), 1, "{at}");
        }
    }
}

#[tokio::test]
async fn tool_calls_come_back_as_data() {
    for (dialect, streaming) in both_ways() {
        let (outcome, seen) = try_one(dialect, Behaviour::Answers(ScriptedAnswer::Call), &with_tools(), streaming).await;
        let reply = outcome.expect("in time").reply;
        let at = format!("{dialect:?}, streaming: {streaming}: {reply:?}");
        assert_eq!(reply.result, Ok(json!({"text": "", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]})), "{at}");
        let tools = seen[0].body["tools"].to_string();
        assert!(tools.contains("\"add\"") && tools.contains("Adds.") && tools.contains("integer"), "{at}: {tools}");
    }
}

#[tokio::test]
async fn a_text_that_was_cut_off_is_a_reply_marked_as_cut() {
    for (dialect, streaming) in both_ways() {
        let (outcome, _) = try_one(dialect, Behaviour::Answers(ScriptedAnswer::CutOff("Hello the")), &question(), streaming).await;
        let reply = outcome.expect("in time").reply;
        assert_eq!(reply.result, Ok(json!("Hello the")), "{dialect:?}, streaming: {streaming}");
        assert_eq!(reply.about.expect("about")["finish"], json!("length"), "{dialect:?}, streaming: {streaming}");
    }
}

#[tokio::test]
async fn a_running_ollama_is_found_and_nothing_is_waited_for_long() {
    let probe = async |behaviour| {
        let server = Server::start(Dialect::Ollama, behaviour).await;
        let table: Table = serde_json::from_value(Dialect::Ollama.table(&server.url)).expect("a table");
        let found = probe_ollama(&remote::clients().expect("clients"), &table.with_defaults(), Duration::from_millis(300)).await;
        (found, server.seen())
    };
    let models = json!({"models": [{"name": "qwen3:4b"}, {"name": "nomic-embed-text"}]}).to_string();
    let (found, seen) = probe(Behaviour::Refuses(200, &[], models)).await;
    assert_eq!(found, Ok(vec!["qwen3:4b".to_owned(), "nomic-embed-text".to_owned()]));
    assert_eq!((seen[0].path.as_str(), seen[0].header("authorization")), ("/api/tags", ""));
    let started = std::time::Instant::now();
    assert!(probe(Behaviour::Hangs { after_a_word: false }).await.0.expect_err("late").contains("300 ms"));
    assert!(started.elapsed() < Duration::from_secs(2));
    for behaviour in [Behaviour::Garbage(Nonsense::Html), Behaviour::Garbage(Nonsense::OtherJson), Behaviour::Refuses(500, &[], String::new())] {
        assert!(probe(behaviour).await.0.expect_err("no Ollama").contains("is not an Ollama server"));
    }
}

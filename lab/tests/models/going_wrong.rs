//! Misbehaving model servers.

use graph::{FailureKind, Retry};
use models::{Models, Table};
use serde_json::json;

use crate::dialect::{Dialect, ScriptedAnswer};
use crate::server::{Behaviour, Nonsense, Server};
use crate::{ask, both_ways, question, try_one, with_schema, with_tools};

async fn failure(dialect: Dialect, behaviour: Behaviour, streaming: bool) -> (graph::Failure, usize) {
    let words = format!("{dialect:?}, streaming: {streaming}, {behaviour:?}");
    let (outcome, seen) = try_one(dialect, behaviour, &question(), streaming).await;
    let reply = outcome.unwrap_or_else(|| panic!("{words}: no reply in time")).reply;
    match reply.result {
        Err(failure) => {
            println!("{words}: {failure}");
            (failure, seen.len())
        }
        Ok(value) => panic!("{words}: taken for an answer: {value}"),
    }
}

fn body(message: &str) -> String {
    json!({"error": {"message": message, "type": "some_error"}}).to_string()
}

#[tokio::test]
async fn too_many_requests_are_retried_after_the_time_of_the_reply() {
    for (dialect, streaming) in both_ways() {
        let refuses = Behaviour::Refuses(429, &[("retry-after", "3")], body("Slow down."));
        let (failure, calls) = failure(dialect, refuses, streaming).await;
        assert_eq!(failure.retry, Retry::AfterMs(3_000), "{dialect:?} {streaming}: {failure}");
        assert!(failure.message.contains("429") && failure.message.contains("Slow down."), "{failure}");
        assert_eq!(calls, 1, "the world itself tries nothing twice");
    }
}

#[tokio::test]
async fn server_errors_are_to_be_tried_again() {
    for (dialect, streaming) in both_ways() {
        for status in [500, 502, 503, 529] {
            let (failure, _) = failure(dialect, Behaviour::Refuses(status, &[], body("It hurts.")), streaming).await;
            assert_eq!((failure.kind, failure.retry), (FailureKind::Network, Retry::Yes), "{dialect:?} {streaming}: {failure}");
            assert!(failure.message.contains("It hurts."), "{failure}");
        }
    }
}

#[tokio::test]
async fn what_only_a_person_can_fix_is_reported_to_them() {
    for (dialect, streaming) in both_ways() {
        for (status, words) in [(401, "check the key"), (403, "check the key"), (400, "No such thing."), (404, "is there such a model?")] {
            let (failure, _) = failure(dialect, Behaviour::Refuses(status, &[], body("No such thing.")), streaming).await;
            assert_eq!((failure.kind, failure.retry), (FailureKind::Refused, Retry::No), "{dialect:?} {streaming}: {failure}");
            assert!(failure.message.contains(words), "{failure}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    for (dialect, streaming) in both_ways() {
        for cleanly in [false, true] {
            let (failure, _) = failure(dialect, Behaviour::BreaksOff { cleanly }, streaming).await;
            assert!(matches!(failure.kind, FailureKind::Network | FailureKind::Invalid), "{dialect:?} {streaming} {cleanly}: {failure}");
            // Half a JSON document that ends cleanly is invalid; anything else is a broken connection.
            if !cleanly || streaming {
                assert_eq!((failure.kind, failure.retry), (FailureKind::Network, Retry::Yes), "{dialect:?} {streaming}: {failure}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    for dialect in Dialect::ALL {
        let (failure, _) = failure(dialect, Behaviour::GivesUp, true).await;
        assert!(matches!(failure.kind, FailureKind::Network | FailureKind::Refused | FailureKind::Invalid), "{dialect:?}: {failure}");
    }
}

#[tokio::test]
async fn garbage_is_a_clear_error() {
    for (dialect, streaming) in both_ways() {
        for nonsense in [Nonsense::Html, Nonsense::BrokenJson, Nonsense::OtherJson, Nonsense::Bytes, Nonsense::Empty] {
            let (failure, _) = failure(dialect, Behaviour::Garbage(nonsense), streaming).await;
            assert!(matches!(failure.kind, FailureKind::Network | FailureKind::Invalid), "{dialect:?} {streaming} {nonsense:?}: {failure}");
            assert!(failure.message.len() < 1_500, "{failure}");
        }
    }
}

#[tokio::test]
async fn a_hang_ends_with_the_deadline() {
    let tries = both_ways().flat_map(|(dialect, streaming)| [false, true].map(|after_a_word| (dialect, streaming, after_a_word)));
    let tries = tries.map(|(dialect, streaming, after_a_word)| async move {
        let started = std::time::Instant::now();
        let (outcome, seen) = try_one(dialect, Behaviour::Hangs { after_a_word }, &question(), streaming).await;
        assert!(outcome.is_none(), "{dialect:?} {streaming} {after_a_word}: {:?}", outcome.map(|o| o.reply));
        assert!(started.elapsed() < crate::DEADLINE * 2);
        assert_eq!(seen.len(), 1);
    });
    futures::future::join_all(tries).await;
}

#[tokio::test]
async fn nobody_there_is_to_be_tried_again() {
    for (dialect, streaming) in both_ways() {
        let server = Server::start(dialect, Behaviour::Answers(ScriptedAnswer::Text("x"))).await;
        let models = crate::models(dialect, &server);
        drop(server);
        // The listener ends with its task, shortly afterwards.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let failure = ask(&models, &question(), streaming).await.expect("in time").reply.result.expect_err("nobody there");
        assert_eq!((failure.kind, failure.retry), (FailureKind::Network, Retry::Yes), "{dialect:?} {streaming}: {failure}");
    }
}

#[tokio::test]
async fn wild_replies_to_tools_and_schemas_are_survived() {
    for (dialect, streaming) in both_ways() {
        for call in [with_schema(), with_tools()] {
            for behaviour in
                [Behaviour::Garbage(Nonsense::OtherJson), Behaviour::Answers(ScriptedAnswer::Call), Behaviour::BreaksOff { cleanly: true }]
            {
                let (outcome, _) = try_one(dialect, behaviour, &call, streaming).await;
                outcome.expect("in time");
            }
        }
    }
}

#[tokio::test]
async fn a_breaker_keeps_calls_from_an_endpoint_that_is_down() {
    let server = Server::start(Dialect::OpenaiChat, Behaviour::Refuses(500, &[], body("down"))).await;
    let models = crate::models(Dialect::OpenaiChat, &server);
    for _ in 0..8 {
        ask(&models, &question(), false).await.expect("in time");
    }
    assert_eq!(server.seen().len(), 5);
    let failure = ask(&models, &question(), false).await.expect("in time").reply.result.expect_err("the endpoint is not called");
    assert!(matches!(failure.retry, Retry::AfterMs(ms) if ms > 1_000), "{failure}");
    assert!(failure.message.contains("failed 5 times in a row"), "{failure}");
}

#[tokio::test]
async fn another_vendor_answers_when_the_first_cannot() {
    let first = Server::start(Dialect::OpenaiChat, Behaviour::BreaksOff { cleanly: false }).await;
    let second = Server::start(Dialect::Anthropic, Behaviour::Answers(ScriptedAnswer::Text("Hello from the second."))).await;
    let mut table = Dialect::OpenaiChat.table(&first.url);
    table["endpoints"]["anthropic"] = Dialect::Anthropic.table(&second.url)["endpoints"]["anthropic"].clone();
    table["fallbacks"] = json!([Dialect::Anthropic.model()]);
    let table: Table = serde_json::from_value(table).expect("a table");
    let env = |name: &str| (name == "LAB_KEY").then(|| crate::SECRET.to_owned());
    let models = Models::new(table.with_defaults(), Dialect::OpenaiChat.model().parse().expect("a name"), &env).expect("models");
    let outcome = ask(&models, &question(), true).await.expect("in time");
    assert_eq!(outcome.reply.result, Ok(json!("Hello from the second.")));
    let about = outcome.reply.about.expect("about");
    assert_eq!(about["model"], json!(Dialect::Anthropic.model()));
    assert_eq!(about["tried"][0]["model"], json!(Dialect::OpenaiChat.model()));
    assert!(outcome.streamed.ends_with("another model is asked]\nHello from the second."), "{}", outcome.streamed);
}

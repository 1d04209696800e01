//! Each flow from question to answer, over a model server with OpenAI's API and one with Ollama's.

use std::path::Path;

use baton_lab::provider::dialect::Dialect;
use baton_lab::provider::scripted_thought::{self, LEDGER};
use baton_lab::provider::server::{Behaviour, RecordedRequest, Server};
use baton_lab::provider::web;
use baton_lab::setup::Setup;
use engine::Order;
use serde_json::{Value, json};

use crate::{FlowFixture, input, output};

/// One flow over both APIs; `check` gets the answer, the requests to the model server, and the folder.
async fn over_http(flow: &str, question: &str, more: &Value, check: impl Fn(&Value, &[RecordedRequest], &Path)) {
    for dialect in [Dialect::OpenaiChat, Dialect::Ollama] {
        let fixture = FlowFixture::new();
        let server = Server::start(dialect, Behaviour::Thinks(scripted_thought::to_request)).await;
        let docs = fixture.folder.path().join("docs");
        std::fs::create_dir(&docs).unwrap();
        std::fs::write(docs.join("relay.md"), "# Relay\n\nA relay baton weighs at least 50 grams and is handed on in the exchange zone.\n").unwrap();
        let web = web::serve(web::ARTICLE).await;
        let setup = Setup { docs: Some(docs), ..Setup::new(dialect, &server.url, &web, fixture.folder.path()) };
        let engine = fixture.engine(setup.handler().await);
        let answered = output(&engine, Order::new(flow, input(question, more.clone()))).await;
        assert!(answered["answer"].as_str().unwrap().contains("Errand 5 is done"), "{dialect:?}: {answered}");
        let seen = server.seen();
        let paths: Vec<&str> = seen.iter().map(|seen| seen.path.as_str()).collect();
        assert!(paths.iter().all(|path| [dialect.path(false, true), dialect.path(false, false)].contains(path)), "{paths:?}");
        check(&answered, &seen, fixture.folder.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_search_asks_a_model_server_twice_and_does_what_was_planned() {
    let tools = ["stories.search_stories", "calc.calculate", "search.search", "files.append", "mail.send"];
    over_http("search", "Errand 5: what is a relay?", &json!({ "settings": { "enabled_tools": tools } }), |answered, seen, folder| {
        assert_eq!(seen.len(), 2);
        let steps: Vec<(&str, &str)> = answered["thinking_steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| (step["tool_name"].as_str().unwrap(), step["status"].as_str().unwrap()))
            .collect();
        assert_eq!(steps, tools.map(|tool| (tool, "completed")), "{answered}");
        assert!(seen[1].body.to_string().contains("exchange zone"), "what was found is in the prompt");
        let ledger = std::fs::read_to_string(Setup::root(folder).join(LEDGER)).unwrap();
        assert!(ledger.starts_with("errand 5: ") && ledger.contains('6'), "{ledger}");
        assert_eq!(std::fs::read_dir(folder.join("outbox")).unwrap().count(), 1, "one mail");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_chat_searches_over_http_and_returns_its_confidence() {
    over_http("chat", "Errand 5: what is a relay?", &json!({}), |answered, seen, _| {
        assert_eq!((&answered["intent"], &answered["executed_stages"], seen.len()), (&json!("search"), &json!(["search"]), 3));
        assert!(answered["results"]["search_results"].as_str().unwrap().contains("exchange zone"), "{answered}");
        assert!(answered["results"]["search_confidence"].as_f64().is_some_and(|number| (0.0..=1.0).contains(&number)), "{answered}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_reason_goes_through_its_phases_over_http() {
    over_http("reason", "Think about errand 5 and write it down.", &json!({}), |answered, seen, folder| {
        assert_eq!((&answered["way"], &answered["iterations"], &answered["degraded"], seen.len()), (&json!("agentic"), &json!(1), &json!([]), 3));
        assert!(answered["results"].as_array().unwrap().iter().all(|step| step["success"] == true), "{answered}");
        assert_eq!(std::fs::read_to_string(Setup::root(folder).join(LEDGER)).unwrap(), "errand 5: 6\n", "a chain hands plain values on");
        assert_eq!(answered["files"], json!([{ "path": LEDGER, "bytes": 12 }]));
        assert_eq!(std::fs::read_dir(folder.join("outbox")).unwrap().count(), 1, "what may change something is planned too");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1_a_panel_meets_over_http() {
    over_http("panel", "Errand 5: what is a relay?", &json!({}), |answered, seen, _| {
        assert_eq!((answered["research_results"].as_array().unwrap().len(), &answered["retry_count"]), (2, &json!(0)), "{answered}");
        assert!(!answered["final_reasoning_trace"].as_str().unwrap().is_empty());
        assert!(seen.iter().any(|seen| seen.body.to_string().contains("exchange zone")), "the researchers searched");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x2_auto_is_reached_over_http() {
    over_http("auto", "Please look up errand 5.", &json!({ "settings": { "flows": ["direct", "search"] } }), |answered, seen, _| {
        assert_eq!((&answered["chosen"]["flow"], seen.len()), (&json!("search"), 2), "{answered}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_answers_over_http_with_the_documents() {
    over_http("direct", "Errand 5: how heavy is a relay baton?", &json!({ "docs": true }), |_, seen, _| {
        assert_eq!(seen.len(), 1);
        assert!(seen[0].body.to_string().contains("at least 50 grams"), "{}", seen[0].body);
    })
    .await;
}

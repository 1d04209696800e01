//! Every sample under its own script.

use std::sync::Arc;

use effects::{EffectHandler as _, Progress};
use graph::{Next, Outcome, Run, Start};
use scripted::ScriptedHandler;
use serde_json::{Value, json};

async fn run(handler: &ScriptedHandler, flow: &str, input: Value) -> Arc<Outcome> {
    let graph = crate::all().unwrap().into_iter().find(|graph| graph.name() == flow).unwrap();
    let mut run = Run::start(&graph, Start::new(flow, "thread", flow, input)).unwrap();
    loop {
        match run.next() {
            Next::Perform(jobs) => {
                for job in jobs {
                    let reply = handler.perform(&job, &Progress::nowhere()).await;
                    run.feed(job.task, job.attempt, reply).unwrap();
                }
            }
            Next::Wait(questions) => {
                run.feed(questions[0].task, questions[0].attempt, graph::Reply::ok(json!({ "approve": true }))).unwrap();
            }
            Next::Await => unreachable!("every job is answered at once"),
            Next::Done(outcome) => return outcome,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn both_flows_run_to_the_end() {
    let handler = ScriptedHandler::parse(crate::SCRIPT).unwrap();
    let outcome = run(&handler, "research", json!({ "question": "What is a baton?", "approve": true })).await;
    let output = outcome.output().unwrap();
    assert!(output["answer"].as_str().unwrap().starts_with("It is a relay baton"), "{output}");
    let addresses: Vec<&str> = output["sources"].as_array().unwrap().iter().filter_map(|source| source["url"].as_str()).collect();
    assert_eq!(addresses, ["https://example.org/baton", "https://example.org/history", "https://example.org/users"]);
    assert_eq!(output["rounds"], 2);

    let outcome = run(&handler, "team", json!({ "topics": ["a", "b"] })).await;
    assert_eq!(outcome.output().unwrap()["mailed"], true);
    assert_eq!(handler.outside().changes().into_values().collect::<Vec<_>>(), [1, 1], "one note and one mail");
}

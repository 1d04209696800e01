//! Testing a flow without IO: the run is a value. `next` returns what it needs, `feed` gives it a reply; no engine, no runtime, no clock.

use std::sync::Arc;

use baton::{Ask, END, Effect, Failure, FailureKind, Go, Graph, Next, Outcome, Replies, Reply, Run, Start, tool};
use serde_json::{Value, json};

fn flow() -> Result<Graph, baton::GraphError> {
    let fetch = (
        |state: &Value| Ask::one(tool("web.fetch", json!({ "url": state["url"] }))),
        |state: &mut Value, replies: &Replies<'_>| match replies.value(0) {
            Ok(page) => {
                state["page"] = page.clone();
                Go::end()
            }
            Err(failure) => Go::fail(format!("the page could not be read: {}", failure.message)),
        },
    );
    Graph::of::<Value>("read").node("fetch", fetch, &[END]).build()
}

/// Runs the flow with one reply to its only call, and returns how it ended.
fn outcome(reply: &Reply) -> Result<Arc<Outcome>, Box<dyn std::error::Error>> {
    let graph = flow()?;
    let mut run = Run::start(&graph, Start::new("read", "thread", "run", json!({ "url": "https://example.org" })))?;
    loop {
        match run.next() {
            Next::Perform(jobs) => {
                for job in jobs {
                    let Effect::CallTool(call) = &*job.effect else { return Err("only a tool call is expected".into()) };
                    assert_eq!((call.tool.as_str(), &call.arguments["url"]), ("web.fetch", &json!("https://example.org")));
                    run.feed(job.task, job.attempt, reply.clone())?;
                }
            }
            Next::Await | Next::Wait(_) => return Err("every call was answered at once".into()),
            Next::Done(outcome) => return Ok(outcome),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let good = outcome(&Reply::ok(json!("a page")))?;
    assert_eq!(good.output().ok_or("it ends well")?["page"], "a page");
    let bad = outcome(&Reply::failed(Failure::new(FailureKind::Refused, "404")))?;
    assert!(matches!(&*bad, Outcome::Failed { .. }), "{bad:?}");
    println!("both outcomes are as expected");
    Ok(())
}

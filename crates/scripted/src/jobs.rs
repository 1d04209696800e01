//! Jobs as a run hands them out, for tests of whatever performs them.

use graph::{Ask, END, Effect, Go, Graph, Job, Next, Replies, Request, Run, Start};
use serde_json::Value;

/// One job for each effect, all requested by one node.
pub fn jobs(effects: &[Effect]) -> Vec<Job> {
    let asked = effects.to_vec();
    let ask = move |_: &Value| Ask { requests: asked.iter().cloned().map(Request::from).collect() };
    let fold = |_: &mut Value, _: &Replies<'_>| Go::end();
    let graph = Graph::of::<Value>("jobs").node("ask", (ask, fold), &[END]).build().expect("a graph of one node is valid");
    let mut run = Run::start(&graph, Start::new("jobs", "thread", "run", Value::Null)).expect("a valid graph starts");
    match run.next() {
        Next::Perform(jobs) => jobs,
        other => panic!("every effect is due at once, but {other:?}"),
    }
}

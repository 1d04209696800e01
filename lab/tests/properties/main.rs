//! Properties of the state machine over arbitrary data: input of a model, a tool, a disk or a client must never panic, never be applied
//! partly, and never exceed a limit.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod asks;
mod bytes;
mod feeding;
mod limits;
mod references;

use std::sync::Arc;

use graph::{Ask, Entry, FailureKind, Go, Graph, Job, Next, Outcome, Replies, Reply, Run, Start};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A failure prints its minimal input; nothing is kept in files.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Any JSON, not too large, with keys and texts that are difficult for pointers and ranges.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |n| serde_json::Number::from_f64(n).map(Value::Number)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_key(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,12}", "\\PC{0,6}", Just("ä✂🙂".to_owned()), Just("{\"from\":0}".to_owned())]
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", Just(String::new()), Just("~1/".to_owned()), Just("0".to_owned())]
}

/// A flow of one node that requests this and ends with the replies or failures.
fn once(ask: Ask) -> Graph {
    let fold = |state: &mut Value, replies: &Replies<'_>| {
        *state = replies.iter().map(shown).collect();
        Go::end()
    };
    Graph::of::<Value>("once").node("only", (move |_: &Value| ask.clone(), fold), &[graph::END]).build().unwrap()
}

fn shown(reply: &Reply) -> Value {
    match &reply.result {
        Ok(value) => json!({ "ok": value }),
        Err(failure) => json!({ "failed": failure.kind, "why": failure.message }),
    }
}

fn begin(graph: &Graph, input: Value) -> Run {
    Run::start(graph, Start::new(graph.name(), "thread", "run", input)).unwrap()
}

/// Drives a run to its end; `reply` answers each job. Returns its result and its journal.
fn drive(run: &mut Run, mut reply: impl FnMut(&Job) -> Reply) -> (Arc<Outcome>, Vec<Entry>) {
    let mut journal = vec![run.start_entry()];
    loop {
        match run.next() {
            Next::Done(outcome) => return (outcome, journal),
            Next::Perform(jobs) => {
                for job in jobs {
                    let answer = reply(&job);
                    journal.extend(run.feed(job.task, job.attempt, answer).unwrap());
                }
            }
            Next::Wait(questions) => {
                for question in questions {
                    journal.extend(run.feed(question.task, question.attempt, Reply::ok("yes")).unwrap());
                }
            }
            Next::Await => unreachable!("every job is answered at once"),
        }
    }
}

fn failure_of(state: &Value, index: usize) -> Option<FailureKind> {
    serde_json::from_value(state[index]["failed"].clone()).ok()
}

//! Small flows for the tests.

use graph::{Ask, Backoff, END, Effect, Go, Graph, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Notes {
    pub word: String,
    pub got: Vec<Value>,
}

fn keep(notes: &mut Notes, replies: &Replies<'_>) {
    for reply in replies.iter() {
        notes.got.push(match &reply.result {
            Ok(value) => value.clone(),
            Err(failure) => json!({ "failed": failure.kind, "why": failure.message }),
        });
    }
}

fn quick(effect: Effect) -> Request {
    Request::from(effect).attempts(3).backoff(Backoff { first_ms: 1, factor: 1, most_ms: 1 })
}

/// One call after another, each its own step.
pub(crate) fn line(name: &str, effects: Vec<Effect>) -> Graph {
    let count = effects.len();
    let mut builder = Graph::of::<Notes>(name);
    for (at, effect) in effects.into_iter().enumerate() {
        let next = if at + 1 == count { END.to_owned() } else { format!("s{}", at + 1) };
        let to = next.clone();
        let node = (
            move |_: &Notes| Ask::one(quick(effect.clone())),
            move |notes: &mut Notes, replies: &Replies<'_>| {
                keep(notes, replies);
                if to == END { Go::end().say("assistant", format!("{} things", notes.got.len())) } else { Go::to(to.clone()) }
            },
        );
        builder = builder.node(&format!("s{at}"), node, &[&next]);
    }
    builder.output(|notes| json!(notes.got)).build().expect("a line is a graph")
}

/// All at once, in one step.
pub(crate) fn fan(name: &str, effects: Vec<Effect>) -> Graph {
    let node = (
        move |_: &Notes| Ask { requests: effects.iter().cloned().map(quick).collect() },
        |notes: &mut Notes, replies: &Replies<'_>| {
            keep(notes, replies);
            Go::end()
        },
    );
    Graph::of::<Notes>(name).node("all", node, &[END]).output(|notes| json!(notes.got)).build().expect("a fan is a graph")
}

/// Calls a tool, then panics on its reply.
pub(crate) fn fragile(is_fixed: bool) -> Graph {
    let node = (
        |_: &Notes| Ask::one(graph::tool("look", json!({}))),
        move |notes: &mut Notes, replies: &Replies<'_>| {
            assert!(is_fixed, "the flow has a bug");
            keep(notes, replies);
            Go::end()
        },
    );
    Graph::of::<Notes>("fragile").node("n", node, &[END]).output(|notes| json!(notes.got)).build().expect("it is a graph")
}

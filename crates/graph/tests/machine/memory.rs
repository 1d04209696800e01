use baton_graph::{Ask, Context, END, Go, Graph, Note, NoteScope, Replies, Reply, Run, Start, tool};
use serde_json::{Value, json};

use crate::{Recording, drive, echo, one_step, start};

fn note(value: Value) -> Note {
    Note { kind: "received".into(), key: json!("k"), value, reach: NoteScope::User, ms_max: None }
}

/// Stores what it received, beginning with the messages of earlier runs.
fn remembering(ends_well: bool) -> Graph {
    let node = (
        |_: &Recording| Ask::one(tool("t", json!(7))),
        move |diary: &mut Recording, replies: &Replies<'_>| {
            diary.hear(replies);
            if ends_well { Go::end() } else { Go::fail("no") }
        },
    );
    let recall = |input: &mut Value, context: &Context| {
        input["received"] = context.notes.iter().map(|note| note.value.clone()).collect();
        !context.notes.is_empty()
    };
    Graph::of::<Recording>("one")
        .node("only", node, &[END])
        .recall(recall)
        .keep(|diary| diary.received.iter().cloned().map(note).collect())
        .build()
        .unwrap()
}

#[test]
fn r7_what_is_recalled_is_input_and_what_is_kept_is_known_at_the_end() {
    let graph = remembering(true);
    let mut input = json!({});
    assert!(graph.remembers() && !graph.recall(&mut input, &Context::default()));
    assert!(graph.recall(&mut input, &Context { notes: vec![note(json!("before"))], ..Context::default() }));
    let mut run = Run::start(&graph, Start::new("one", "t", "r", input)).unwrap();
    run.next();
    assert_eq!(run.notes(), [], "nothing is known before the end");
    run.feed(baton_graph::TaskId { step: 0, index: 0 }, 1, Reply::ok(json!(7))).unwrap();
    run.next();
    assert_eq!(run.notes(), [note(json!("before")), note(json!(7))]);
}

#[test]
fn r8_a_run_that_did_not_end_well_leaves_nothing_and_most_graphs_never_do() {
    let mut failed = start(&remembering(false));
    failed.next();
    failed.feed(baton_graph::TaskId { step: 0, index: 0 }, 1, Reply::ok(json!(7))).unwrap();
    failed.next();
    assert_eq!(failed.notes(), []);
    let mut cancelled = start(&remembering(true));
    cancelled.cancel("enough");
    assert_eq!(cancelled.notes(), []);
    let plain = one_step(|| Ask::one(tool("t", json!(1)))).build().unwrap();
    let mut input = json!({ "rounds": 3 });
    assert!(!plain.remembers() && !plain.recall(&mut input, &Context::default()));
    assert_eq!((drive(start(&plain), false, echo).output(), input), (&json!([1]), json!({ "rounds": 3 })));
}

use std::collections::BTreeMap;

use baton_engine::{EngineError, Fork, replay};
use graph::{Effect, tool};
use serde_json::json;

use crate::flows::line;
use crate::{Fixture, names, output, start};

fn tools(names: &[&str]) -> Vec<Effect> {
    names.iter().map(|name| tool(*name, json!({}))).collect()
}

#[tokio::test]
async fn a_replay_touches_nothing_and_finds_no_difference() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool * reply 1", vec![line("l", tools(&["a", "b", "c"]))]);
    let run = start(&engine, "l", json!({})).await;
    output(&engine, &run).await;
    let before = fixture.outside.calls().len();
    let replayed = replay(&*fixture.store, engine.flows(), &run).await.unwrap();
    assert_eq!((replayed.entries, replayed.difference, replayed.shape_changed), (4, None, false));
    assert_eq!(fixture.outside.calls().len(), before);
}

#[tokio::test]
async fn a_changed_flow_is_named() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool * reply 1", vec![line("l", tools(&["a", "b", "c"]))]);
    let run = start(&engine, "l", json!({})).await;
    output(&engine, &run).await;
    for (now, words, shape_changed) in [
        (vec!["a", "x", "c"], "journal entry 2: task 1.0 at node s1 now asks tool x", false),
        (vec!["a", "b"], "journal entry 3: the run had already ended", true),
        (vec!["a", "b", "c", "d"], "goes on now", true),
    ] {
        let engine = fixture.engine("", vec![line("l", tools(&now))]);
        let replayed = replay(&*fixture.store, engine.flows(), &run).await.unwrap();
        let difference = replayed.difference.unwrap();
        assert!(difference.contains(words), "{difference}");
        assert_eq!(replayed.shape_changed, shape_changed);
    }
}

#[tokio::test]
async fn an_unfinished_run_of_a_changed_flow_is_not_driven_on() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool a reply 1", vec![line("l", vec![tool("a", json!({})), graph::person("?")])]);
    let run = start(&engine, "l", json!({})).await;
    engine.wait(&run).await.unwrap();
    let engine = fixture.engine("", vec![line("l", vec![tool("x", json!({})), graph::person("?")])]);
    let refused = engine.resume(&run).await.unwrap_err();
    assert!(refused.to_string().contains("the flow has changed"), "{refused}");
    assert!(!fixture.store.run(&run).await.unwrap().unwrap().status.is_over());
}

#[tokio::test]
async fn a_fork_keeps_the_past_and_goes_its_own_way() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool * echo", vec![line("l", vec![tool("a", json!(1)), tool("b", json!(2)), tool("c", json!(3))])]);
    let run = start(&engine, "l", json!({})).await;
    assert_eq!(output(&engine, &run).await, json!([1, 2, 3]));

    let plain = engine.fork(&run, Fork { at_step: 1, ..Fork::default() }).await.unwrap();
    assert_eq!(output(&engine, &plain).await, json!([1, 2, 3]));
    assert_eq!((fixture.calls("a"), fixture.calls("b"), fixture.calls("c")), (1, 2, 2));

    let edited = engine
        .fork(
            &run,
            Fork {
                at_step: 2,
                patch: Some(json!({ "got": ["new"] })),
                replies: BTreeMap::from([(0, json!("given"))]),
                thread: None,
                ..Fork::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(output(&engine, &edited).await, json!(["new", "given"]));
    assert_eq!(fixture.calls("c"), 2, "a given reply is not asked for");
    assert!(names(&crate::events(&engine, &edited, 0).await).contains(&"edited"));
    assert_eq!(replay(&*fixture.store, engine.flows(), &edited).await.unwrap().difference, None);

    let beyond = engine.fork(&run, Fork { at_step: 3, ..Fork::default() }).await.unwrap_err();
    assert!(matches!(beyond, EngineError::NoStep { step: 3, .. }), "{beyond}");
    let unfit = engine.fork(&run, Fork { at_step: 0, patch: Some(json!({ "got": 7 })), ..Fork::default() }).await.unwrap_err();
    assert!(unfit.to_string().contains("cannot be changed so"), "{unfit}");
}

#[tokio::test]
async fn a_fork_goes_on_at_another_node() {
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool * echo", vec![line("l", vec![tool("a", json!(1)), tool("b", json!(2)), tool("c", json!(3))])]);
    let run = start(&engine, "l", json!({})).await;
    output(&engine, &run).await;
    for (go_to, wanted) in [(Some("s2"), json!([1, 3])), (Some("s0"), json!([1, 1, 2, 3])), (None, json!([1, 2, 3]))] {
        let fork = Fork { at_step: 1, passes_breakpoint: true, go_to: go_to.map(str::to_owned), ..Fork::default() };
        let moved = engine.fork(&run, fork).await.unwrap();
        assert_eq!(output(&engine, &moved).await, wanted, "{go_to:?}");
        assert_eq!(replay(&*fixture.store, engine.flows(), &moved).await.unwrap().difference, None);
        // A fork of that one has its past.
        let again = engine.fork(&moved, Fork { at_step: 2, ..Fork::default() }).await.unwrap();
        assert_eq!(output(&engine, &again).await, wanted, "{go_to:?}");
    }
}

use baton_engine::RunState;
use graph::{Outcome, TaskId, agent, person, tool};
use serde_json::json;
use store::{RunFilter, Status};

use crate::flows::{fan, line};
use crate::{Fixture, outcome, output, start};

#[tokio::test]
async fn a_local_flow_is_a_child_run_with_its_own_journal() {
    let fixture = Fixture::new();
    let flows = vec![
        fan("parent", vec![agent("child", json!({})), agent("child", json!({})), agent("far", json!({}))]),
        line("child", vec![tool("a", json!({}))]),
    ];
    let engine = fixture.engine("when tool a reply 1 tokens 5/2\nwhen agent far reply \"remote\"", flows);
    let run = start(&engine, "parent", json!({})).await;
    assert_eq!(output(&engine, &run).await, json!([[1], [1], "remote"]));
    let all = fixture.store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all.iter().filter(|row| row.parent.as_ref() == Some(&run)).count(), 2);
    let RunState::Over(closing) = engine.at(&run).await.unwrap() else { panic!("over") };
    assert_eq!(closing.spent.tokens(), 14, "what children spend, their parent has spent");
    let thread = &all[0].thread;
    assert!(fixture.store.messages(thread, 0, 9).await.unwrap().is_empty(), "children do not speak in the thread");
}

#[tokio::test]
async fn a_child_that_fails_or_cannot_start_is_a_value() {
    let fixture = Fixture::new();
    let deep = graph::Limits { depth_max: 2, ..graph::Limits::default() };
    let endless = {
        let node = (
            |_: &crate::flows::Notes| graph::Ask::one(agent("endless", json!({}))),
            |notes: &mut crate::flows::Notes, replies: &graph::Replies<'_>| {
                notes.got.push(replies.value(0).map_or_else(|failure| json!(failure.message), Clone::clone));
                graph::Go::end()
            },
        );
        graph::Graph::of::<crate::flows::Notes>("endless").node("n", node, &[graph::END]).limits(deep).output(|n| json!(n.got)).build().unwrap()
    };
    let flows = vec![
        fan("parent", vec![agent("child", json!({ "word": 7 })), agent("nobody", json!({}))]),
        line("child", vec![tool("a", json!({}))]),
        endless,
    ];
    let engine = fixture.engine("when tool a reply 1", flows);
    let run = start(&engine, "parent", json!({})).await;
    let got = output(&engine, &run).await;
    assert_eq!((&got[0]["failed"], &got[1]["failed"]), (&json!("invalid"), &json!("refused")));
    let run = start(&engine, "endless", json!({})).await;
    let got = output(&engine, &run).await;
    assert!(got[0][0][0].as_str().unwrap().contains("depth_max = 2"), "{got}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_parent_ends_its_children() {
    let fixture = Fixture::new();
    let flows = vec![
        fan("parent", vec![agent("child", json!({})), agent("asking", json!({}))]),
        line("child", vec![tool("slow", json!({}))]),
        line("asking", vec![person("?")]),
    ];
    let engine = fixture.engine("when tool slow reply 1 after 50s", flows);
    let run = start(&engine, "parent", json!({})).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    engine.cancel(&run, "enough").await.unwrap();
    assert!(matches!(outcome(&engine, &run).await, Outcome::Cancelled { .. }));
    let all = fixture.store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(all.iter().map(|row| row.status).collect::<Vec<_>>(), [Status::Cancelled; 3], "{all:?}");
}

#[tokio::test]
async fn a_parent_of_a_child_that_asks_a_person_is_put_away_too_and_woken() {
    let fixture = Fixture::new();
    let flows = || vec![fan("parent", vec![agent("child", json!({}))]), line("child", vec![person("?"), tool("a", json!({}))])];
    let engine = fixture.engine("when tool a reply 1", flows());
    let run = start(&engine, "parent", json!({})).await;
    assert!(matches!(engine.wait(&run).await.unwrap(), RunState::Parked(_)));
    assert_eq!(fixture.store.run(&run).await.unwrap().unwrap().status, Status::Waiting);
    let child = fixture.store.runs(RunFilter { statuses: vec![Status::Asking], ..RunFilter::default() }).await.unwrap().remove(0).run;
    drop(engine);

    let engine = fixture.engine("when tool a reply 1", flows());
    engine.answer(&child, TaskId { step: 0, index: 0 }, 1, json!("yes")).await.unwrap();
    assert_eq!(output(&engine, &child).await, json!(["yes", 1]));
    // The child wakes it; until then it is still put away.
    let woken = async {
        while !fixture.store.run(&run).await.unwrap().unwrap().status.is_over() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), woken).await.expect("the parent goes on");
    assert_eq!(output(&engine, &run).await, json!([["yes", 1]]));
}

#[tokio::test(start_paused = true)]
async fn a_child_past_its_deadline_is_ended() {
    let fixture = Fixture::new();
    let flows = vec![fan("parent", vec![agent("child", json!({}))]), line("child", vec![tool("slow", json!({}))])];
    let engine = fixture.engine("when tool slow reply 1 after 120s", flows);
    let run = start(&engine, "parent", json!({})).await;
    let got = output(&engine, &run).await;
    assert_eq!(got[0]["failed"], "timeout");
    let all = fixture.store.runs(RunFilter { statuses: vec![Status::Running], ..RunFilter::default() }).await.unwrap();
    assert!(all.is_empty(), "{all:?}");
}

/// Calls its effect, then fails.
fn failing(name: &str, effect: graph::Effect) -> graph::Graph {
    let node = (
        move |_: &crate::flows::Notes| graph::Ask::one(effect.clone()),
        |_: &mut crate::flows::Notes, _: &graph::Replies<'_>| graph::Go::fail("no luck"),
    );
    graph::Graph::of::<crate::flows::Notes>(name).node("n", node, &[graph::END]).output(|_| json!(null)).build().unwrap()
}

#[tokio::test]
async fn x2_a_failed_child_reports_whether_it_had_begun_to_change_something() {
    let parent = {
        let names = ["looked", "sent", "below", "far"];
        let node = (
            move |_: &crate::flows::Notes| graph::Ask { requests: names.map(|name| agent(name, json!({})).into()).to_vec() },
            |notes: &mut crate::flows::Notes, replies: &graph::Replies<'_>| {
                notes.got = replies.iter().map(|reply| json!(reply.result.as_ref().err().map(|failure| failure.has_acted))).collect();
                graph::Go::end()
            },
        );
        graph::Graph::of::<crate::flows::Notes>("parent").node("n", node, &[graph::END]).output(|notes| json!(notes.got)).build().unwrap()
    };
    let flows = vec![
        parent,
        failing("looked", tool("look", json!({}))),
        failing("sent", tool("send", json!({}))),
        failing("below", agent("sent", json!({}))),
        // Somebody else's failure is not a run of ours.
    ];
    let fixture = Fixture::new();
    let engine = fixture.engine("when tool look reply 1\nwhen tool send reply 1 once\nwhen agent far fail tool \"no\"", flows);
    let run = start(&engine, "parent", json!({})).await;
    assert_eq!(output(&engine, &run).await, json!([false, true, true, false]));
}

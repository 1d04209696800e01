use baton_engine::FeedItem;
use graph::{Event, model, person, tool};
use serde_json::json;

use crate::flows::line;
use crate::{Fixture, start};

#[tokio::test(start_paused = true)]
async fn every_watcher_sees_the_same_events_whenever_it_comes_and_wherever_it_begins() {
    let fixture = Fixture::new();
    let tools = (0..20).map(|i| tool("a", json!({ "i": i }))).collect();
    let engine = fixture.engine("when tool a echo after 10ms", vec![line("l", tools)]);
    let run = start(&engine, "l", json!({})).await;
    let early = tokio::spawn({
        let (engine, run) = (engine.clone(), run.clone());
        async move { crate::events(&engine, &run, 0).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(95)).await;
    let midway = crate::events(&engine, &run, 7).await;
    let early = early.await.unwrap();
    let late = crate::events(&engine, &run, 0).await;
    assert_eq!(early, late);
    assert_eq!(midway, late[7..]);
    assert!(matches!(late.last().unwrap().event, Event::Ended { .. }));
    assert!(crate::events(&engine, &run, late.len() as u64).await.is_empty());
}

#[tokio::test]
async fn a_watcher_that_never_reads_costs_nothing_and_then_reads_it_all() {
    let fixture = Fixture::new();
    let tools = (0..900).map(|i| tool("a", json!({ "i": i }))).collect();
    let engine = fixture.engine("when tool a echo", vec![line("l", tools)]);
    let run = start(&engine, "l", json!({})).await;
    let mut idle = engine.watch(&run, 0);
    let Some(Ok(FeedItem::Event(first, _))) = idle.next().await else { panic!("there is a first event") };
    assert_eq!(first.seq, 0);
    engine.wait(&run).await.unwrap();
    let mut next = 1;
    while let Some(seen) = idle.next().await {
        if let FeedItem::Event(numbered, _) = seen.unwrap() {
            assert_eq!(numbered.seq, next);
            next += 1;
        }
    }
    assert_eq!(next, crate::events(&engine, &run, 0).await.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn pieces_of_an_answer_are_seen_while_it_is_made() {
    let fixture = Fixture::new();
    let engine = fixture.engine(
        "when tool a reply 1 after 1s\nwhen model m reply \"one two three\" after 1s",
        vec![line("l", vec![tool("a", json!({})), model("m", vec![])])],
    );
    let run = start(&engine, "l", json!({})).await;
    let mut watcher = engine.watch(&run, 0);
    let mut text = String::new();
    while let Some(seen) = watcher.next().await {
        if let FeedItem::Delta { text: piece, .. } = seen.unwrap() {
            text.push_str(&piece);
        }
    }
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_watcher_stays_with_a_run_that_is_put_away() {
    let fixture = Fixture::new();
    let engine = fixture.engine("", vec![line("l", vec![person("?")])]);
    let run = start(&engine, "l", json!({})).await;
    engine.wait(&run).await.unwrap();
    let watched = tokio::spawn({
        let (engine, run) = (engine.clone(), run.clone());
        async move { crate::events(&engine, &run, 0).await }
    });
    engine.answer(&run, graph::TaskId { step: 0, index: 0 }, 1, json!("yes")).await.unwrap();
    assert!(matches!(watched.await.unwrap().last().unwrap().event, Event::Ended { .. }));
}

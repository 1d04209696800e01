//! The events of a run and of its children, in one stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_engine::{Engine, FeedItem, Order, SeenCounts, Settings, TreeItem, TreeWatcher, WatchScope};
use effects::{EffectHandler, Progress, Repeatability};
use graph::{Ask, END, Event, Go, Graph, Job, Replies, Reply, RunId, TaskId, agent, person, tool};
use serde_json::json;
use store::{RunFilter, Status};

use crate::Fixture;
use crate::flows::{Notes, fan, line};

/// Every tool reports one piece of its reply before it replies.
struct Streaming;

#[async_trait::async_trait]
impl EffectHandler for Streaming {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        progress.send("piece");
        Reply::ok(json!(job.effect.name()))
    }
}

/// Calls another flow, whose answer is its own.
fn delegating(name: &str, to: &'static str) -> Graph {
    let node = (move |_: &Notes| Ask::one(agent(to, json!({}))), |_: &mut Notes, _: &Replies<'_>| Go::end());
    Graph::of::<Notes>(name).node("n", node, &[END]).delegates().build().unwrap()
}

fn engine(fixture: &Fixture) -> Engine {
    let flows = [
        delegating("router", "parent"),
        fan("parent", vec![agent("child", json!({})), agent("child", json!({}))]),
        line("child", vec![tool("a", json!({})), tool("b", json!({}))]),
        fan("asking_parent", vec![agent("asking", json!({}))]),
        line("asking", vec![person("?"), tool("a", json!({}))]),
    ];
    Engine::new(fixture.store.clone(), Arc::new(Streaming), flows, Settings { is_gone: Arc::new(|_| true), ..Settings::default() })
}

async fn all(mut family: TreeWatcher) -> Vec<TreeItem> {
    let mut items = Vec::new();
    let end = async {
        while let Some(one) = family.next().await {
            items.push(one.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the stream ends");
    items
}

/// Each run with the path to it and the numbers of its events.
fn numbers(items: &[TreeItem]) -> BTreeMap<Vec<TaskId>, Vec<u64>> {
    let mut all: BTreeMap<Vec<TaskId>, Vec<u64>> = BTreeMap::new();
    for one in items {
        if let FeedItem::Event(numbered, _) = &one.item {
            all.entry(one.path.to_vec()).or_default().push(numbered.seq);
        }
    }
    all
}

fn task(step: u64, index: u32) -> TaskId {
    TaskId { step, index }
}

#[tokio::test]
async fn a_watcher_of_a_run_gets_every_event_of_its_children_from_the_first_on() {
    let fixture = Fixture::new();
    let engine = engine(&fixture);
    let run = RunId::from("root");
    let family = TreeWatcher::watch(&engine, &"t".into(), &run, SeenCounts::new(), WatchScope::All);
    engine.start(Order { run: Some(run.clone()), thread: Some("t".into()), ..Order::new("router", json!({})) }).await.unwrap();
    let items = all(family).await;
    let live = numbers(&items);
    let (middle, left, right) = (vec![task(0, 0)], vec![task(0, 0), task(0, 0)], vec![task(0, 0), task(0, 1)]);
    assert_eq!(live.keys().cloned().collect::<Vec<_>>(), [vec![], middle.clone(), left.clone(), right.clone()]);
    for (path, seqs) in &live {
        assert_eq!(*seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "{path:?}");
    }
    let deltas = items.iter().filter(|one| matches!(one.item, FeedItem::Delta { .. })).count();
    assert_eq!(deltas, 4, "two tools in each of two children");
    let started: Vec<&TreeItem> =
        items.iter().filter(|one| matches!(&one.item, FeedItem::Event(numbered, _) if matches!(numbered.event, Event::Started { .. }))).collect();
    for one in &started {
        let parent = one.parent.as_ref();
        assert_eq!(parent.map(|parent| parent.task), one.path.last().copied());
        let above = started.iter().find(|other| other.path.as_ref() == &one.path[..one.path.len().saturating_sub(1)]);
        assert_eq!(parent.map(|parent| &parent.run), above.filter(|_| parent.is_some()).map(|above| &above.run));
        // The router passes on the answer of the flow it starts, and that one does not pass on its children's.
        assert_eq!(one.is_answer, one.path.len() < 2);
    }

    // A later watcher reads the same from the journals, each child after the event that asks for it.
    let later = all(TreeWatcher::watch(&engine, &"t".into(), &run, SeenCounts::new(), WatchScope::All)).await;
    assert_eq!(numbers(&later), live);
    let order: Vec<usize> = later.iter().map(|one| one.path.len()).collect();
    assert!(order.windows(2).any(|pair| pair == [2, 1]) && order.last() == Some(&0), "{order:?}");
}

#[tokio::test]
async fn a_watcher_stays_while_a_child_waits_for_a_person() {
    let fixture = Fixture::new();
    let engine = engine(&fixture);
    let run = RunId::from("root");
    let family = TreeWatcher::watch(&engine, &"t".into(), &run, SeenCounts::new(), WatchScope::All);
    engine.start(Order { run: Some(run.clone()), thread: Some("t".into()), ..Order::new("asking_parent", json!({})) }).await.unwrap();
    let watching = tokio::spawn(all(family));
    engine.wait(&run).await.unwrap();
    let asking = RunFilter { statuses: vec![Status::Asking], ..RunFilter::default() };
    let child = fixture.store.runs(asking).await.unwrap().remove(0).run;
    engine.answer(&child, task(0, 0), 1, json!("yes")).await.unwrap();
    let items = watching.await.unwrap();
    let numbers = numbers(&items);
    assert_eq!(numbers.len(), 2);
    for (path, seqs) in &numbers {
        assert_eq!(*seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "{path:?}");
    }
    let ended = items.iter().filter(|one| matches!(&one.item, FeedItem::Event(numbered, _) if matches!(numbered.event, Event::Ended { .. }))).count();
    assert_eq!(ended, 2);
}

#[tokio::test]
async fn watching_one_run_leaves_out_its_children_and_waits_for_its_start() {
    let fixture = Fixture::new();
    let engine = engine(&fixture);
    let run = RunId::from("root");
    let watching = tokio::spawn(all(TreeWatcher::watch(&engine, &"t".into(), &run, SeenCounts::new(), WatchScope::One)));
    tokio::time::sleep(Duration::from_millis(20)).await;
    engine.start(Order { run: Some(run.clone()), thread: Some("t".into()), ..Order::new("parent", json!({})) }).await.unwrap();
    let items = watching.await.unwrap();
    assert!(items.iter().all(|one| one.run == run && one.is_answer) && !items.is_empty());
}

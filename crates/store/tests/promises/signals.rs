//! Signals for a run reach the process that drives it, at least once and in order.

use baton_store::{SignalKind, StoreError};
use serde_json::json;

use crate::hand::{RunWriter, TestStore, UNTIL, claim, run_id, task, thread_id};

fn cancel(reason: &str) -> SignalKind {
    SignalKind::Cancel { reason: reason.to_owned() }
}

/// What lies there for an owner: the runs and the words, in order.
async fn words(home: &TestStore, owner: &str) -> Vec<String> {
    let signals = home.signals(owner).await.unwrap();
    assert!(signals.is_sorted_by(|a, b| a.id < b.id));
    let word = |kind| match kind {
        SignalKind::Cancel { reason } => reason,
        SignalKind::Answer { task, attempt, value } => format!("{task}#{attempt}={value}"),
    };
    signals.into_iter().map(|signal| format!("{}: {}", signal.run, word(signal.kind))).collect()
}

pub(crate) async fn signals_reach_the_holder_of_the_thread_in_order(home: TestStore) {
    RunWriter::start(&home, "t", "b").await;
    RunWriter::start(&home, "t", "a").await;
    let yours = claim(&home, "u", "you").await;
    RunWriter::start_at(&home, yours, "c", 0, |_| {}).await;
    for (run, kind) in [
        ("b", SignalKind::Answer { task: task(3, 1), attempt: 2, value: json!({"yes": [true, null]}) }),
        ("c", cancel("yours")),
        ("a", cancel("one")),
        ("b", cancel("two")),
    ] {
        home.post(&run_id(run), kind).await.unwrap();
    }
    assert_eq!(words(&home, "me").await, [r#"b: 3.1#2={"yes":[true,null]}"#, "a: one", "b: two"]);
    assert_eq!(words(&home, "you").await, ["c: yours"]);
    assert_eq!(words(&home, "nobody").await, [""; 0]);
}

pub(crate) async fn signals_stay_until_accepted(home: TestStore) {
    RunWriter::start(&home, "t", "r").await;
    for reason in ["one", "two", "three"] {
        home.post(&run_id("r"), cancel(reason)).await.unwrap();
    }
    let second = home.signals("me").await.unwrap()[1].id;
    assert_eq!(words(&home, "me").await.len(), 3);
    home.accept(second).await.unwrap();
    assert_eq!(words(&home, "me").await, ["r: one", "r: three"]);
}

pub(crate) async fn signals_follow_the_lease(home: TestStore) {
    let writer = RunWriter::start(&home, "t", "r").await;
    home.post(&run_id("r"), cancel("stop")).await.unwrap();
    home.release(&writer.lease).await.unwrap();
    assert_eq!(words(&home, "me").await, [""; 0]);
    // Posted while nobody had the lease: the next owner receives both.
    home.post(&run_id("r"), cancel("now")).await.unwrap();
    claim(&home, "t", "you").await;
    assert_eq!(words(&home, "you").await, ["r: stop", "r: now"]);
    home.claim(&thread_id("t"), "third", UNTIL + 1, UNTIL + 2).await.unwrap();
    assert_eq!(words(&home, "you").await, [""; 0]);
    assert_eq!(words(&home, "third").await.len(), 2);
}

pub(crate) async fn undelivered_signals_can_be_listed(home: TestStore) {
    let writer = RunWriter::start(&home, "t", "r").await;
    home.post(&run_id("r"), cancel("stop")).await.unwrap();
    assert!(home.undelivered_signals(UNTIL).await.unwrap().is_empty(), "somebody holds the thread");
    let is_held = async |at: i64| home.is_held(&thread_id("t"), at).await.unwrap();
    assert_eq!((is_held(UNTIL).await, is_held(UNTIL + 1).await), (true, false));
    assert!(!home.is_held(&thread_id("none"), 0).await.unwrap());
    assert_eq!(home.undelivered_signals(UNTIL + 1).await.unwrap().len(), 1, "its holder has not answered");
    home.release(&writer.lease).await.unwrap();
    assert!(!is_held(0).await, "it was released");
    let found = home.undelivered_signals(0).await.unwrap();
    assert_eq!((found.len(), &found[0].run), (1, &run_id("r")), "nobody holds it");
    claim(&home, "t", "you").await;
    assert!(home.undelivered_signals(0).await.unwrap().is_empty());
}

pub(crate) async fn a_signals_number_is_never_used_again(home: TestStore) {
    RunWriter::start(&home, "t", "r").await;
    home.post(&run_id("r"), cancel("one")).await.unwrap();
    let first = home.signals("me").await.unwrap()[0].id;
    home.accept(first).await.unwrap();
    home.post(&run_id("r"), cancel("two")).await.unwrap();
    home.accept(first).await.unwrap();
    assert_eq!(words(&home, "me").await, ["r: two"]);
}

pub(crate) async fn accepting_what_is_gone_is_fine(home: TestStore) {
    for signal in [0, 1, 77, u64::MAX] {
        home.accept(signal).await.unwrap();
    }
    RunWriter::start(&home, "t", "r").await;
    home.post(&run_id("r"), cancel("here")).await.unwrap();
    assert_eq!(words(&home, "me").await, ["r: here"]);
}

pub(crate) async fn a_run_must_exist_to_be_sent_a_signal(home: TestStore) {
    claim(&home, "t", "me").await;
    assert_eq!(home.post(&run_id("absent"), cancel("x")).await, Err(StoreError::NoRun { run: run_id("absent") }));
    assert_eq!(words(&home, "me").await, [""; 0]);
}

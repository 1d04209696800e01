//! A run's first moment and its thread, taken together.

use baton_store::{Commit, Lease, Status, StoreError};
use serde_json::json;

use crate::hand::{NOW, RunWriter, TestStore, UNTIL, claim, everything, journal, new_run, run_id, thread_id};

/// The first commit of a run by an owner without a lease.
fn first(run: &str, thread: &str, owner: &str) -> Commit {
    let lease = Lease { thread: thread_id(thread), owner: owner.to_owned(), fence: 0 };
    let mut commit = Commit::new(run_id(run), lease, NOW, 0);
    commit.new = Some(new_run(run));
    commit.lines = vec![b"begun".to_vec()];
    commit
}

pub(crate) async fn a_beginning_takes_the_thread(home: TestStore) {
    let lease = home.begin(first("r", "t", "me"), UNTIL).await.unwrap();
    assert_eq!(journal(&home, "r").await, ["begun"]);
    let held = home.claim(&thread_id("t"), "you", NOW, UNTIL).await;
    assert_eq!(held, Err(StoreError::Held { thread: thread_id("t"), owner: "me".to_owned(), until_ms: UNTIL }));
    let mut writer = RunWriter { home: home.clone(), run: run_id("r"), lease, next_seq: 1, at_ms: NOW };
    writer.lines(["goes on"]).await.unwrap();
    assert_eq!(journal(&home, "r").await, ["begun", "goes on"]);
}

pub(crate) async fn beginning_in_what_one_holds_keeps_its_fence(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let lease = home.begin(first("s", "t", "me"), UNTIL).await.unwrap();
    assert_eq!(lease, writer.lease);
    writer.lines(["both write"]).await.unwrap();
}

pub(crate) async fn beginning_after_another_is_gone_fences_it(home: TestStore) {
    let mut old = RunWriter::start(&home, "t", "r").await;
    let late = Commit { at_ms: UNTIL + 1, ..first("s", "t", "you") };
    let lease = home.begin(late, UNTIL + 1_000).await.unwrap();
    assert!(lease.fence > old.lease.fence);
    assert_eq!(old.lines(["too late"]).await, Err(StoreError::Fenced { thread: thread_id("t") }));
}

pub(crate) async fn a_refused_beginning_leaves_nothing(home: TestStore) {
    RunWriter::start(&home, "t", "r").await;
    claim(&home, "free", "me").await;
    home.release(&claim(&home, "free", "me").await).await.unwrap();
    let before = everything(&home).await;
    let held = StoreError::Held { thread: thread_id("t"), owner: "me".to_owned(), until_ms: UNTIL };
    assert_eq!(home.begin(first("s", "t", "you"), UNTIL).await, Err(held));
    assert_eq!(home.begin(first("r", "new", "you"), UNTIL).await, Err(StoreError::Exists { run: run_id("r") }));
    let nothing_new = Commit { new: None, ..first("s", "free", "you") };
    assert_eq!(home.begin(nothing_new, UNTIL).await, Err(StoreError::NoRun { run: run_id("s") }));
    let not_first = Commit { first_seq: 1, ..first("s", "free", "you") };
    assert_eq!(home.begin(not_first, UNTIL).await, Err(StoreError::OutOfOrder { run: run_id("s"), found: 1, wanted: 0 }));
    assert_eq!(everything(&home).await, before);

    // Nor was the thread taken by the way.
    assert_eq!(claim(&home, "free", "third").await.owner, "third");
    home.release(&claim(&home, "free", "third").await).await.unwrap();
    home.begin(first("mine", "free", "me"), UNTIL).await.unwrap();
    let mut theirs = first("theirs", "free", "me");
    theirs.new = Some(baton_store::NewRun { user: "ada".into(), ..new_run("theirs") });
    assert_eq!(home.begin(theirs, UNTIL).await, Err(StoreError::NotYours { thread: thread_id("free") }));
}

pub(crate) async fn what_is_over_at_once_leaves_its_thread_free(home: TestStore) {
    let whole = |run: &str| Commit { status: Some(Status::Done), outcome: Some(json!({"done": run})), release: true, ..first(run, "t", "me") };
    let one = home.begin(whole("r"), UNTIL).await.unwrap();
    let row = home.run(&run_id("r")).await.unwrap().unwrap();
    assert_eq!((row.status, row.outcome), (Status::Done, Some(json!({"done": "r"}))));
    let other = home.begin(Commit { lease: Lease { owner: "you".to_owned(), ..one.clone() }, ..whole("s") }, UNTIL).await.unwrap();
    assert!(other.fence > one.fence, "the thread changed hands");
    assert_eq!(home.claim(&thread_id("t"), "third", NOW, UNTIL).await.unwrap().owner, "third");
    let late = Commit { first_seq: 1, new: None, lease: other, ..first("s", "t", "you") };
    assert_eq!(home.commit(late).await, Err(StoreError::Fenced { thread: thread_id("t") }));

    // Given back with the first commit also when it was held before.
    let held = claim(&home, "kept", "me").await;
    home.begin(Commit { lease: held, ..whole("u") }, UNTIL).await.unwrap();
    assert_eq!(claim(&home, "kept", "you").await.owner, "you");
}

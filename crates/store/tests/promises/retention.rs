//! What goes, what stays, and that what goes goes wholly.

use baton_store::{Retention, RunFilter, SignalKind, Status, StoreError};

use crate::hand::{
    NOW, RunWriter, TestStore, UNTIL, claim, everything, intent, journal, message, run_id, run_names, snapshot, thread_id, thread_names,
};

/// A thread with one run of everything, in some state, given back.
async fn thread(home: &TestStore, name: &str, at_ms: i64, status: Status) {
    let lease = home.claim(&thread_id(name), "me", at_ms, at_ms + 1).await.unwrap();
    let mut writer = RunWriter::start_at(home, lease, &format!("{name}-run"), at_ms, |_| {}).await;
    writer
        .write(|commit| {
            commit.lines = vec![b"line".to_vec(); 3];
            commit.messages = vec![message("user", "hello")];
            commit.intents = vec![intent(0, 0, 1)];
            commit.snapshot = Some(snapshot(1, b"state"));
            commit.status = Some(status);
            commit.release = true;
        })
        .await
        .unwrap();
    home.post(&writer.run, SignalKind::Cancel { reason: name.to_owned() }).await.unwrap();
}

async fn done_threads(home: &TestStore, names: &[&str]) {
    for (at_ms, name) in (NOW..).zip(names) {
        thread(home, name, at_ms, Status::Done).await;
    }
}

pub(crate) async fn the_last_ones_are_kept(home: TestStore) {
    done_threads(&home, &["a", "b", "c", "d"]).await;
    let freed = home.retain(Retention::KeepLast(2), NOW + 100).await.unwrap();
    assert_eq!((freed.threads, freed.runs), (2, 2));
    let mut deleted = freed.deleted;
    deleted.sort();
    assert_eq!(deleted, [thread_id("a"), thread_id("b")]);
    assert_eq!(thread_names(&home).await, ["d", "c"]);
    let freed = home.retain(Retention::KeepLast(0), NOW + 100).await.unwrap();
    assert_eq!((freed.threads, freed.runs), (2, 2));
    assert_eq!(thread_names(&home).await, [""; 0]);
}

pub(crate) async fn the_recent_ones_are_kept(home: TestStore) {
    done_threads(&home, &["a", "b", "c"]).await;
    let freed = home.retain(Retention::KeepSince { ms: NOW + 1 }, NOW + 100).await.unwrap();
    assert_eq!((freed.threads, freed.runs), (1, 1));
    assert_eq!(thread_names(&home).await, ["c", "b"]);
}

pub(crate) async fn keeping_more_than_there_are_keeps_all(home: TestStore) {
    done_threads(&home, &["a", "b"]).await;
    let before = everything(&home).await;
    for retention in [Retention::KeepLast(2), Retention::KeepLast(3), Retention::KeepLast(u64::MAX), Retention::KeepSince { ms: i64::MIN }] {
        let freed = home.retain(retention, NOW + 100).await.unwrap();
        assert_eq!((freed.threads, freed.runs), (0, 0), "{retention:?}");
    }
    assert_eq!(everything(&home).await, before);
}

pub(crate) async fn what_is_unfinished_is_kept(home: TestStore) {
    for status in Status::ALL {
        thread(&home, status.as_str(), NOW, status).await;
    }
    // One unfinished run among finished ones is enough.
    let lease = claim(&home, "running", "me").await;
    RunWriter::start_at(&home, lease, "extra", NOW, |commit| {
        commit.status = Some(Status::Done);
        commit.release = true;
    })
    .await;
    let freed = home.retain(Retention::KeepSince { ms: i64::MAX }, NOW + 100).await.unwrap();
    assert_eq!((freed.threads, freed.runs), (3, 3));
    let mut left = thread_names(&home).await;
    left.sort();
    assert_eq!(left, ["asking", "running", "waiting"]);
}

pub(crate) async fn what_is_held_is_kept_and_what_was_held_is_not(home: TestStore) {
    done_threads(&home, &["held", "free"]).await;
    claim(&home, "held", "me").await;
    let freed = home.retain(Retention::KeepLast(0), UNTIL).await.unwrap();
    assert_eq!((freed.threads, thread_names(&home).await), (1, vec!["held".to_owned()]));
    let freed = home.retain(Retention::KeepLast(0), UNTIL + 1).await.unwrap();
    assert_eq!((freed.threads, thread_names(&home).await), (1, vec![]));
}

pub(crate) async fn deleting_takes_everything_and_nothing_else(home: TestStore) {
    thread(&home, "stays", NOW, Status::Done).await;
    let before = everything(&home).await;
    thread(&home, "goes", NOW, Status::Done).await;
    let lease = claim(&home, "goes", "me").await;
    RunWriter::start_at(&home, lease, "second", NOW, |commit| commit.release = true).await;
    assert_ne!(everything(&home).await, before);

    let freed = home.delete_thread(&thread_id("goes"), NOW).await.unwrap();
    assert_eq!((freed.threads, freed.runs), (1, 2));
    assert_eq!(everything(&home).await, before);
    assert_eq!(home.run(&run_id("second")).await, Ok(None));
    assert_eq!(home.journal(&run_id("goes-run"), 0, 1).await, Err(StoreError::NoRun { run: run_id("goes-run") }));
    assert_eq!(home.messages(&thread_id("goes"), 0, 1).await, Err(StoreError::NoThread { thread: thread_id("goes") }));

    // Its signals are deleted as well, regardless of leases.
    for name in ["stays", "goes"] {
        claim(&home, name, "me").await;
    }
    let left: Vec<_> = home.signals("me").await.unwrap().into_iter().map(|signal| signal.run.to_string()).collect();
    assert_eq!(left, ["stays-run"]);
}

pub(crate) async fn deleting_takes_unfinished_runs_too(home: TestStore) {
    thread(&home, "t", NOW, Status::Running).await;
    home.delete_thread(&thread_id("t"), NOW).await.unwrap();
    assert_eq!(run_names(&home, RunFilter::default()).await, [""; 0]);
}

pub(crate) async fn what_is_held_cannot_be_deleted(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let held = StoreError::Held { thread: thread_id("t"), owner: "me".to_owned(), until_ms: UNTIL };
    assert_eq!(home.delete_thread(&thread_id("t"), UNTIL).await, Err(held));
    writer.lines(["still here"]).await.unwrap();
    home.delete_thread(&thread_id("t"), UNTIL + 1).await.unwrap();
    // An owner whose lease expired gets an error, and cannot restore it.
    let refused = writer.lines(["too late"]).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoRun { .. } | StoreError::Fenced { .. }), "{refused:?}");
    assert_eq!(home.thread(&thread_id("t")).await, Ok(None));
}

pub(crate) async fn names_can_be_used_again(home: TestStore) {
    thread(&home, "t", NOW, Status::Done).await;
    home.delete_thread(&thread_id("t"), NOW).await.unwrap();
    let mut writer = RunWriter::start(&home, "t", "t-run").await;
    writer.lines(["anew"]).await.unwrap();
    assert_eq!(journal(&home, "t-run").await, ["anew"]);
    assert_eq!(home.messages(&thread_id("t"), 0, 1).await.unwrap().len(), 0);
    assert_eq!(home.intents(&writer.run).await.unwrap(), []);
    assert_eq!(home.snapshot(&writer.run).await, Ok(None));
    assert_eq!(home.signals("me").await.unwrap(), []);
}

/// More threads, and more lines in one of them, than any home would delete in one go.
pub(crate) async fn deleting_many_is_complete(home: TestStore) {
    for n in 0..300 {
        let status = if n % 100 == 7 { Status::Asking } else { Status::Done };
        thread(&home, &format!("t{n}"), NOW, status).await;
    }
    let lease = claim(&home, "t0", "me").await;
    RunWriter::start_at(&home, lease, "long", NOW, |commit| {
        commit.lines = vec![b"line".to_vec(); 3_000];
        commit.messages = vec![message("user", "hello"); 2_000];
        commit.status = Some(Status::Done);
        commit.release = true;
    })
    .await;
    let freed = home.retain(Retention::KeepLast(1), NOW + 100).await.unwrap();
    assert_eq!((freed.threads, freed.runs), (296, 297));
    assert_eq!(thread_names(&home).await, ["t299", "t207", "t107", "t7"]);
    assert_eq!(run_names(&home, RunFilter::default()).await, ["t299-run", "t207-run", "t107-run", "t7-run"]);
}

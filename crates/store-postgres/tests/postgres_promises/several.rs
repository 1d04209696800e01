//! Several stores on one database, as several servers have.

use std::sync::Arc;
use std::time::Duration;

use baton_call_limits::{Ended, LEASE_MS, Limit, Report, UserCalls};
use baton_store::{Change, Commit, NewFile, NewRun, NewValue, Share, SignalKind, Store as _, StoreError};

use crate::hand::{NOW, RunWriter, TestStore, UNTIL, claim, journal, new_run, run_id, thread_id};
use crate::throwaway::Schema;

const NOTIFICATION_MAX: Duration = Duration::from_secs(10);

async fn two() -> (TestStore, TestStore) {
    let schema = Schema::new().await;
    (Arc::new(schema.open().await), Arc::new(schema.open().await))
}

#[tokio::test]
async fn many_servers_start_on_an_empty_database_at_once() {
    let schema = Arc::new(Schema::new().await);
    let starts: Vec<_> = (0..8)
        .map(|n| {
            let schema = schema.clone();
            tokio::spawn(async move {
                let store: TestStore = Arc::new(schema.open().await);
                RunWriter::start(&store, &format!("t{n}"), &format!("r{n}")).await.lines(["line"]).await.unwrap();
                store
            })
        })
        .collect();
    let mut last = None;
    for start in starts {
        last = Some(start.await.unwrap());
    }
    for n in 0..8 {
        assert_eq!(journal(last.as_ref().unwrap(), &format!("r{n}")).await, ["line"]);
    }
}

#[tokio::test]
async fn a_takeover_by_another_server_fences_the_first() {
    let (one, other) = two().await;
    let mut old = RunWriter::start(&one, "t", "r").await;
    old.lines(["mine"]).await.unwrap();
    let held = other.claim(&thread_id("t"), "you", NOW, UNTIL).await;
    assert_eq!(held, Err(StoreError::Held { thread: thread_id("t"), owner: "me".to_owned(), until_ms: UNTIL }));
    let lease = other.claim(&thread_id("t"), "you", UNTIL + 1, UNTIL + 1_000).await.unwrap();
    assert_eq!(old.lines(["too late"]).await, Err(StoreError::Fenced { thread: thread_id("t") }));
    let mut new = RunWriter { home: other.clone(), lease, ..old };
    new.lines(["yours"]).await.unwrap();
    assert_eq!(journal(&one, "r").await, ["mine", "yours"]);
}

#[tokio::test]
async fn of_two_servers_that_claim_at_once_one_gets_it() {
    let (one, other) = two().await;
    for round in 0..20 {
        let thread = thread_id(&format!("t{round}"));
        let (mine, yours) = tokio::join!(one.claim(&thread, "me", NOW, UNTIL), other.claim(&thread, "you", NOW, UNTIL));
        assert!(mine.is_ok() != yours.is_ok(), "{mine:?} {yours:?}");
        let refused = mine.err().or(yours.err()).unwrap();
        assert!(matches!(refused, StoreError::Held { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn of_two_servers_that_begin_one_run_at_once_one_does() {
    let (one, other) = two().await;
    for round in 0..20 {
        let begin = |home: &TestStore, owner: &str, thread: &str| {
            let lease = baton_store::Lease { thread: thread_id(thread), owner: owner.to_owned(), fence: 0 };
            let mut commit = Commit::new(run_id(&format!("r{round}")), lease, NOW, 0);
            commit.new = Some(NewRun { user: "ada".into(), ..new_run("same") });
            commit.lines = vec![owner.as_bytes().to_vec()];
            let home = home.clone();
            async move { home.begin(commit, UNTIL).await }
        };
        let (mine, yours) = tokio::join!(begin(&one, "me", &format!("a{round}")), begin(&other, "you", &format!("b{round}")));
        assert!(mine.is_ok() != yours.is_ok(), "{mine:?} {yours:?}");
        assert_eq!(mine.err().or(yours.err()), Some(StoreError::Exists { run: run_id(&format!("r{round}")) }));
        // The one that was refused has left no thread behind.
        assert_eq!(one.threads(None, 100).await.unwrap().len(), round + 1);
    }
}

/// Two servers whose groups write for the same users and take over one another's threads, in opposite orders.
#[tokio::test]
async fn servers_in_one_anothers_way_lose_nothing() {
    let (one, other) = two().await;
    let work = |home: TestStore, owner: &'static str, is_reversed: bool| async move {
        let mut tasks = Vec::new();
        for n in 0..40 {
            let home = home.clone();
            tasks.push(tokio::spawn(async move {
                let mut written = 0;
                for round in 0..10 {
                    let n = if is_reversed { 39 - n } else { n };
                    let Ok(lease) = home.claim(&thread_id(&format!("t{n}")), owner, NOW, NOW + 1).await else { continue };
                    let run = format!("{owner}-{n}-{round}");
                    let mut commit = Commit::new(run_id(&run), lease, NOW, 0);
                    commit.new = Some(new_run(&run));
                    commit.lines = vec![vec![b'x'; 10]];
                    commit.release = true;
                    match home.commit(commit).await {
                        Ok(()) => written += 1,
                        Err(StoreError::Fenced { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                written
            }));
        }
        let mut written = 0;
        for task in tasks {
            written += task.await.unwrap();
        }
        written
    };
    let (mine, yours) = tokio::join!(work(one.clone(), "me", false), work(other.clone(), "you", true));
    assert!(mine > 0 && yours > 0);
    assert_eq!(one.runs(baton_store::RunFilter { limit: 10_000, ..Default::default() }).await.unwrap().len(), mine + yours);
    assert_eq!(other.stored_bytes(&graph::UserId::default()).await.unwrap(), 10 * (mine + yours) as u64);
}

#[tokio::test]
async fn changes_are_received_by_other_servers() {
    let (one, other) = two().await;
    let mut changes = other.changes().unwrap();
    let mut writer = RunWriter::start(&one, "t", "r").await;
    let wait = async |changes: &mut tokio::sync::broadcast::Receiver<Change>, wanted: Change, again: &dyn Fn() -> RepeatFuture| {
        let end = tokio::time::Instant::now() + NOTIFICATION_MAX;
        // The listener may connect a moment after the store is open; until then changes are missed.
        while tokio::time::Instant::now() < end {
            again().await;
            if let Ok(Ok(change)) = tokio::time::timeout(Duration::from_millis(200), changes.recv()).await
                && change == wanted
            {
                return;
            }
        }
        panic!("{wanted:?} was not received");
    };
    let poster = one.clone();
    let post = move || -> RepeatFuture {
        let home = poster.clone();
        Box::pin(async move { home.post(&run_id("r"), SignalKind::Cancel { reason: "x".to_owned() }).await.unwrap() })
    };
    wait(&mut changes, Change::Signal(run_id("r")), &post).await;
    writer.lines(["line"]).await.unwrap();
    wait(&mut changes, Change::Run(run_id("r")), &|| Box::pin(async {})).await;
}

#[tokio::test]
async fn pieces_and_watchers_are_sent_to_the_other_server() {
    let (one, other) = two().await;
    let mut changes = other.changes().unwrap();
    let piece = |text: &str| {
        let task = graph::TaskId { step: 1, index: 0 };
        Change::Piece(baton_store::Piece { watched: run_id("root"), run: run_id("child"), task, attempt: 1, text: text.to_owned() })
    };
    // Listening may begin a moment after the store is open.
    let mut text = String::new();
    let mut is_watched = false;
    for round in 0..100 {
        one.notify(Change::Watched(run_id("root")));
        one.notify(piece(&format!("{round} ")));
        one.notify(piece("and more "));
        while let Ok(Ok(change)) = tokio::time::timeout(Duration::from_millis(100), changes.recv()).await {
            match change {
                Change::Piece(piece) => text.push_str(&piece.text),
                Change::Watched(run) => is_watched = run == run_id("root"),
                other => panic!("{other:?}"),
            }
        }
        if text.contains("and more ") && is_watched {
            return;
        }
    }
    panic!("{text:?} {is_watched}");
}

#[tokio::test]
async fn files_are_shared_and_limited() {
    let (one, other) = two().await;
    let (ada, bob) = (graph::UserId::from("ada"), graph::UserId::from("bob"));
    let new = |user: &graph::UserId, name: &str, bytes: &[u8]| NewFile {
        user: user.clone(),
        name: name.to_owned(),
        bytes: bytes.to_vec(),
        at_ms: NOW,
        files_max: 2,
        bytes_max: 10,
    };
    let (here, there) = (one.files().unwrap(), other.files().unwrap());
    let first = here.put(new(&ada, "a.md", b"12345")).await.unwrap().unwrap();
    let second = here.put(new(&ada, "a.md", b"123456")).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!(here.put(new(&ada, "b.md", b"12345")).await.unwrap(), None, "too many bytes");
    here.put(new(&ada, "b.md", b"1")).await.unwrap().unwrap();
    assert_eq!(here.put(new(&ada, "c.md", b"1")).await.unwrap(), None, "too many files");
    here.put(new(&bob, "a.md", b"bob's")).await.unwrap().unwrap();

    assert_eq!(there.get(&ada, "a.md").await.unwrap(), Some((second, b"123456".to_vec())));
    let (seen, mut files) = there.changed_since(0).await.unwrap().unwrap();
    files.sort();
    assert_eq!(
        files.iter().map(|file| (file.user.as_str(), file.name.as_str())).collect::<Vec<_>>(),
        [("ada", "a.md"), ("ada", "b.md"), ("bob", "a.md")]
    );
    assert_eq!(there.changed_since(seen).await.unwrap(), None);
    assert!(here.remove(&ada, "a.md").await.unwrap() && !here.remove(&ada, "a.md").await.unwrap());
    assert_eq!(there.get(&ada, "a.md").await.unwrap(), None);
    assert_eq!(there.changed_since(seen).await.unwrap().unwrap().1.len(), 2);
}

type RepeatFuture = std::pin::Pin<Box<dyn Future<Output = ()>>>;

#[tokio::test]
async fn text_with_nul_characters_is_read_as_written() {
    let home: TestStore = Arc::new(Schema::new().await.open().await);
    let name = "a\0b\u{FFFFE}";
    let lease = claim(&home, name, "o\0").await;
    let mut writer = RunWriter::start_at(&home, lease, name, NOW, |_| {}).await;
    writer.write(|commit| commit.messages = vec![crate::hand::message("user", "x\0y")]).await.unwrap();
    assert_eq!(home.messages(&thread_id(name), 0, 9).await.unwrap()[0].content, "x\0y");
    assert_eq!(home.run(&run_id(name)).await.unwrap().unwrap().run, run_id(name));
    let found = home.cards(baton_store::CardFilter { words: vec!["\0Y".to_owned()], limit: 9, ..Default::default() }).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn of_two_servers_that_replace_one_value_one_does() {
    let (one, other) = two().await;
    let value =
        |version: u64, bytes: &[u8]| NewValue { space: "mail".to_owned(), name: "k\0".to_owned(), version, bytes: bytes.to_vec(), at_ms: NOW };
    let (one, other) = (one.values().unwrap(), other.values().unwrap());
    assert_eq!(one.value("mail", "k\0").await.unwrap(), None);
    assert_eq!(one.put_value(value(7, b"of nothing")).await.unwrap(), None);
    let mut version = 0;
    for round in 0..20 {
        // The same bytes: two that write the same are still two.
        let (mine, yours) = tokio::join!(one.put_value(value(version, b"same")), other.put_value(value(version, b"same")));
        let (mine, yours) = (mine.unwrap(), yours.unwrap());
        assert!(mine.is_some() != yours.is_some(), "{round}: {mine:?} {yours:?}");
        let next = mine.or(yours).unwrap();
        assert!(next > version);
        version = next;
        assert_eq!(other.value("mail", "k\0").await.unwrap(), Some((version, b"same".to_vec())));
    }
    assert!(one.drop_value("mail", "k\0").await.unwrap() && !other.drop_value("mail", "k\0").await.unwrap());
    assert!(one.put_value(value(0, b"anew")).await.unwrap() > Some(version));
}

/// A server that ended holds its calls until its lease ends; here its rows are made older.
#[tokio::test]
async fn calls_of_a_server_that_ended_are_given_to_others() {
    let schema = Schema::new().await;
    let store = schema.open().await;
    let limits = store.call_limits().unwrap();
    let report = |member: &str, waiting: u32| Report {
        limit: Limit { name: "p".to_owned(), calls_max: 2, calls_per_minute_max: None, failures_max: 5, open_ms: 1_000 },
        member: member.to_owned(),
        users: vec![UserCalls { user: "ada".to_owned(), running: 0, waiting }],
        ended: Ended::default(),
    };
    assert_eq!(limits.exchange(report("gone", 2)).await.unwrap().grants["ada"], 2);
    assert!(limits.exchange(report("here", 2)).await.unwrap().grants.is_empty());
    let aged = format!("UPDATE call_shares SET until_ms = until_ms - {LEASE_MS} WHERE member = 'gone'");
    schema.client().await.batch_execute(&aged).await.unwrap();
    assert_eq!(limits.exchange(report("here", 2)).await.unwrap().grants["ada"], 2);
}

/// After a crash of the database its unlogged tables are empty.
#[tokio::test]
async fn limits_go_on_when_their_tables_are_empty() {
    let schema = Schema::new().await;
    let store = schema.open().await;
    let limits = store.call_limits().unwrap();
    let report = |running: u32, waiting: u32| Report {
        limit: Limit { name: "p".to_owned(), calls_max: 3, calls_per_minute_max: Some(600), failures_max: 5, open_ms: 1_000 },
        member: "here".to_owned(),
        users: vec![UserCalls { user: "ada".to_owned(), running, waiting }],
        ended: Ended::default(),
    };
    assert_eq!(limits.exchange(report(0, 1)).await.unwrap().grants["ada"], 1);
    schema.client().await.batch_execute("TRUNCATE call_limits, call_shares").await.unwrap();
    assert_eq!(limits.exchange(report(1, 1)).await.unwrap().grants["ada"], 1);
    let rows = schema.client().await.query("SELECT running FROM call_shares", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn one_server_reads_an_upload_and_computes_its_vectors() {
    let (one, other) = two().await;
    let file = |name: &str, bytes: &[u8]| NewFile {
        user: "ada".into(),
        name: name.to_owned(),
        bytes: bytes.to_vec(),
        at_ms: NOW,
        files_max: 10,
        bytes_max: 1_000,
    };
    let files = one.files().unwrap();
    files.put(file("a.pdf", b"hello")).await.unwrap().unwrap();
    // SHA-256 of "hello".
    let hex = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let hash: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let (left, right) = (one.shared_index().unwrap(), other.shared_index().unwrap());
    assert_eq!(left.take_passages(b"unknown", "c", "left").await.unwrap(), Share::Unshared);
    assert_eq!(left.take_passages(&hash, "c", "left").await.unwrap(), Share::Ours);
    assert_eq!(right.take_passages(&hash, "c", "right").await.unwrap(), Share::Elsewhere);
    left.release_passages(&hash, "c", "left").await.unwrap();
    assert_eq!(right.take_passages(&hash, "c", "right").await.unwrap(), Share::Ours);
    // Taken over by two at once after the claim ended: the first result stays.
    right.keep_passages(&hash, "c", b"passages".to_vec(), vec![vec![1], vec![2]]).await.unwrap();
    left.keep_passages(&hash, "c", b"late".to_vec(), Vec::new()).await.unwrap();
    assert_eq!(left.take_passages(&hash, "c", "left").await.unwrap(), Share::Known(b"passages".to_vec()));
    let keys = vec![vec![1], vec![2], vec![3], vec![1]];
    let mut taken = left.take_vectors("m", keys.clone(), "left").await.unwrap();
    taken.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(taken, [(vec![1], Share::Ours), (vec![2], Share::Ours)], "3 is no passage of an upload");
    assert!(right.take_vectors("m", keys.clone(), "right").await.unwrap().iter().all(|(_, share)| *share == Share::Elsewhere));
    left.keep_vectors("m", vec![(vec![1], vec![9]), (vec![3], vec![9])]).await.unwrap();
    assert_eq!(right.take_vectors("m", vec![vec![1]], "right").await.unwrap(), [(vec![1], Share::Known(vec![9]))]);
    // A second file with the same content keeps it; the last one takes it away.
    files.put(file("b.pdf", b"hello")).await.unwrap().unwrap();
    files.put(file("a.pdf", b"another")).await.unwrap().unwrap();
    assert_eq!(right.take_passages(&hash, "c", "right").await.unwrap(), Share::Known(b"passages".to_vec()));
    assert!(other.files().unwrap().remove(&"ada".into(), "b.pdf").await.unwrap());
    assert_eq!(right.take_passages(&hash, "c", "right").await.unwrap(), Share::Unshared);
    assert!(right.take_vectors("m", keys, "right").await.unwrap().is_empty());
}

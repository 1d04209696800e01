//! Several stores on one database, as several servers have.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{Change, Commit, NewRun, SignalKind, StoreError};

use crate::hand::{NOW, RunWriter, TestStore, UNTIL, claim, journal, new_run, run_id, thread_id};
use crate::throwaway::Schema;

const HEARD_MAX: Duration = Duration::from_secs(10);

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
async fn changes_are_heard_by_the_others() {
    let (one, other) = two().await;
    let mut heard = other.changes().unwrap();
    let mut pen = RunWriter::start(&one, "t", "r").await;
    let wait = async |heard: &mut tokio::sync::broadcast::Receiver<Change>, wanted: Change, again: &dyn Fn() -> RepeatFuture| {
        let end = tokio::time::Instant::now() + HEARD_MAX;
        // The listener may connect a moment after the store is open; until then changes are missed.
        while tokio::time::Instant::now() < end {
            again().await;
            if let Ok(Ok(change)) = tokio::time::timeout(Duration::from_millis(200), heard.recv()).await
                && change == wanted
            {
                return;
            }
        }
        panic!("{wanted:?} was not heard");
    };
    let poster = one.clone();
    let post = move || -> RepeatFuture {
        let home = poster.clone();
        Box::pin(async move { home.post(&run_id("r"), SignalKind::Cancel { reason: "x".to_owned() }).await.unwrap() })
    };
    wait(&mut heard, Change::Signal(run_id("r")), &post).await;
    pen.lines(["line"]).await.unwrap();
    wait(&mut heard, Change::Run(run_id("r")), &|| Box::pin(async {})).await;
}

#[tokio::test]
async fn pieces_and_watchers_are_told_to_the_other_server() {
    let (one, other) = two().await;
    let mut heard = other.changes().unwrap();
    let piece = |text: &str| {
        let task = graph::TaskId { step: 1, index: 0 };
        Change::Piece(baton_store::Piece { watched: run_id("root"), run: run_id("child"), task, attempt: 1, text: text.to_owned() })
    };
    // Listening may begin a moment after the store is open.
    let mut text = String::new();
    let mut is_watched = false;
    for round in 0..100 {
        one.tell(Change::Watched(run_id("root")));
        one.tell(piece(&format!("{round} ")));
        one.tell(piece("and more "));
        while let Ok(Ok(change)) = tokio::time::timeout(Duration::from_millis(100), heard.recv()).await {
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
    let new = |user: &graph::UserId, name: &str, bytes: &[u8]| baton_store::NewFile {
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
async fn text_with_nul_characters_comes_back() {
    let home: TestStore = Arc::new(Schema::new().await.open().await);
    let name = "a\0b\u{FFFFE}";
    let lease = claim(&home, name, "o\0").await;
    let mut pen = RunWriter::start_at(&home, lease, name, NOW, |_| {}).await;
    pen.write(|commit| commit.messages = vec![crate::hand::message("user", "x\0y")]).await.unwrap();
    assert_eq!(home.messages(&thread_id(name), 0, 9).await.unwrap()[0].content, "x\0y");
    assert_eq!(home.run(&run_id(name)).await.unwrap().unwrap().run, run_id(name));
    let found = home.cards(baton_store::CardFilter { words: vec!["\0Y".to_owned()], limit: 9, ..Default::default() }).await.unwrap();
    assert_eq!(found.len(), 1);
}

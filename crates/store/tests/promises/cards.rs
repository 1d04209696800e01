//! Threads as a list shows them: whose, how the last answer begins, how the newest run stands.

use baton_store::{CardFilter, CardRow, NewRun, PREVIEW_CHARS_MAX, Status, StoreError};
use graph::UserId;

use crate::hand::{NOW, RunWriter, TestStore, claim, message, thread_id};

/// Three threads of ada and one of bob; `c` was used last.
async fn four(home: &TestStore) {
    for (at_ms, thread, user, title, answer) in [
        (NOW, "a", "ada", "Crashes and logs", "After a crash the log is replayed."),
        (NOW + 1, "b", "bob", "Crashes too", "Nobody else reads this."),
        (NOW + 2, "c", "ada", "Batons", "A relay baton is handed on. 100% of them_"),
        (NOW + 3, "d", "ada", "No messages", ""),
    ] {
        let lease = claim(home, thread, "me").await;
        let mut writer = RunWriter::start_at(home, lease, thread, at_ms, |commit| {
            commit.new = Some(NewRun { flow: "search".into(), parent: None, title: title.into(), user: user.into() });
        })
        .await;
        writer.at_ms = at_ms;
        if !answer.is_empty() {
            writer.write(|commit| commit.messages = vec![message("user", title), message("assistant", answer)]).await.unwrap();
        }
    }
    // Made, and nothing ran in it.
    claim(home, "empty", "me").await;
}

fn of_ada() -> CardFilter {
    CardFilter { user: Some(UserId::from("ada")), limit: 100, ..CardFilter::default() }
}

async fn names(home: &TestStore, filter: CardFilter) -> String {
    home.cards(filter).await.unwrap().iter().map(|card| card.thread.thread.to_string()).collect()
}

pub(crate) async fn cards_are_a_users_own_most_recently_used_first(home: TestStore) {
    four(&home).await;
    assert_eq!(names(&home, of_ada()).await, "dca");
    assert_eq!(names(&home, CardFilter { user: Some("bob".into()), ..of_ada() }).await, "b");
    assert_eq!(names(&home, CardFilter { user: Some("eve".into()), ..of_ada() }).await, "");
    assert_eq!(names(&home, CardFilter { user: None, ..of_ada() }).await, "dcba", "and what is nobody's is not listed");
    assert_eq!(names(&home, CardFilter { since_ms: Some(NOW + 2), user: None, ..of_ada() }).await, "dc");
    assert_eq!(names(&home, CardFilter { thread: Some(thread_id("c")), ..of_ada() }).await, "c");
    assert_eq!(names(&home, CardFilter { thread: Some(thread_id("b")), ..of_ada() }).await, "");
}

pub(crate) async fn cards_come_in_pages(home: TestStore) {
    four(&home).await;
    let page = |before: Option<&str>| CardFilter { before: before.map(thread_id), limit: 2, ..of_ada() };
    assert_eq!(
        (names(&home, page(None)).await, names(&home, page(Some("c"))).await, names(&home, page(Some("a"))).await),
        ("dc".into(), "a".into(), String::new())
    );
    assert_eq!(home.cards(page(Some("absent"))).await, Err(StoreError::NoThread { thread: thread_id("absent") }));
}

pub(crate) async fn cards_are_found_by_all_their_words(home: TestStore) {
    four(&home).await;
    let with = |words: &[&str]| CardFilter { words: words.iter().map(ToString::to_string).collect(), ..of_ada() };
    for (words, wanted) in [
        (&["CRASH"][..], "a"),
        (&["crash", "replayed"], "a"),
        (&["crash", "baton"], ""),
        (&["baton"], "c"),
        (&["100%"], "c"),
        (&["%"], "c"),
        (&["them_"], "c"),
        (&["_"], "c"),
        (&["nobody"], ""),
        (&["\\"], ""),
        (&[], "dca"),
    ] {
        assert_eq!(names(&home, with(words)).await, wanted, "{words:?}");
    }
}

pub(crate) async fn a_card_shows_the_last_answer_and_the_newest_run(home: TestStore) {
    four(&home).await;
    let lease = claim(&home, "a", "me").await;
    let mut second = RunWriter::start_at(&home, lease.clone(), "second", NOW + 9, |commit| commit.new.as_mut().unwrap().user = "ada".into()).await;
    let child = |commit: &mut baton_store::Commit| {
        let new = commit.new.as_mut().unwrap();
        (new.parent, new.user) = (Some("second".into()), "ada".into());
    };
    second.at_ms = NOW + 9;
    let long = "é".repeat(PREVIEW_CHARS_MAX + 50);
    second
        .write(|commit| (commit.messages, commit.status) = (vec![message("assistant", &long), message("user", "more?")], Some(Status::Asking)))
        .await
        .unwrap();
    RunWriter::start_at(&home, lease, "child", NOW + 9, child).await;
    let card: CardRow = home.cards(CardFilter { thread: Some(thread_id("a")), ..of_ada() }).await.unwrap().remove(0);
    assert_eq!(card.preview, "é".repeat(PREVIEW_CHARS_MAX));
    let newest = card.newest.unwrap();
    assert_eq!((newest.run.as_str(), newest.flow.as_str(), newest.status), ("second", "flow", Status::Asking));
    assert_eq!((card.thread.messages, card.thread.title.as_str()), (4, "Crashes and logs"));
    let quiet = home.cards(CardFilter { thread: Some(thread_id("d")), ..of_ada() }).await.unwrap().remove(0);
    assert_eq!((quiet.preview.as_str(), quiet.newest.unwrap().run.as_str()), ("", "d"));
}

//! What can be listed, in which order, page by page.

use baton_store::{Commit, Lease, NewRun, RunFilter, Status, StoreError};
use graph::UserId;
use serde_json::json;

use crate::hand::{NOW, RunWriter, TestStore, UNTIL, claim, message, new_run, run_id, run_names, thread_id, thread_names};

pub(crate) async fn journals_come_in_pages(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    RunWriter::start(&home, "t", "other").await.lines(["x", "y"]).await.unwrap();
    for line in ["0", "1", "2", "3", "4"] {
        writer.lines([line]).await.unwrap();
    }
    for (from_seq, limit, wanted) in [(0, 2, "01"), (2, 2, "23"), (4, 2, "4"), (5, 2, ""), (u64::MAX, 2, ""), (1, usize::MAX, "1234"), (0, 0, "")] {
        let lines = home.journal(&writer.run, from_seq, limit).await.unwrap();
        assert!(lines.iter().zip(from_seq..).all(|(line, seq)| line.seq == seq), "from {from_seq}");
        let text: String = lines.iter().flat_map(|line| line.bytes.iter().copied().map(char::from)).collect();
        assert_eq!(text, wanted, "from {from_seq}, at most {limit}");
    }
}

/// Five runs: a1 (done), b1 (running), a2 (asking), b2 (failed), c1 (running), made in this order, which is not that of their ids.
async fn five_runs(home: &TestStore) {
    let runs = [
        ("a", "z-a1", Status::Done),
        ("b", "y-b1", Status::Running),
        ("a", "x-a2", Status::Asking),
        ("b", "w-b2", Status::Failed),
        ("c", "v-c1", Status::Running),
    ];
    for (thread, run, status) in runs {
        let lease = claim(home, thread, "me").await;
        RunWriter::start_at(home, lease, run, NOW, |commit| commit.status = Some(status)).await;
    }
}

pub(crate) async fn runs_come_newest_first(home: TestStore) {
    assert_eq!(run_names(&home, RunFilter::default()).await, [""; 0]);
    five_runs(&home).await;
    assert_eq!(run_names(&home, RunFilter::default()).await, ["v-c1", "w-b2", "x-a2", "y-b1", "z-a1"]);
}

pub(crate) async fn runs_can_be_filtered(home: TestStore) {
    five_runs(&home).await;
    let any = RunFilter::default();
    let cases = [
        (RunFilter { statuses: vec![Status::Running], ..any.clone() }, vec!["v-c1", "y-b1"]),
        (RunFilter { statuses: vec![Status::Failed, Status::Done], ..any.clone() }, vec!["w-b2", "z-a1"]),
        (RunFilter { statuses: vec![Status::Waiting], ..any.clone() }, vec![]),
        (RunFilter { statuses: Status::ALL.to_vec(), ..any.clone() }, vec!["v-c1", "w-b2", "x-a2", "y-b1", "z-a1"]),
        (RunFilter { thread: Some(thread_id("a")), ..any.clone() }, vec!["x-a2", "z-a1"]),
        (RunFilter { thread: Some(thread_id("absent")), ..any.clone() }, vec![]),
        (RunFilter { id_part: Some("-b".to_owned()), ..any.clone() }, vec!["w-b2", "y-b1"]),
        (RunFilter { id_part: Some("%".to_owned()), ..any.clone() }, vec![]),
        (RunFilter { id_part: Some(String::new()), limit: 1, ..any.clone() }, vec!["v-c1"]),
        (RunFilter { before: Some(run_id("w-b2")), ..any.clone() }, vec!["x-a2", "y-b1", "z-a1"]),
        (RunFilter { user: Some("local".into()), roots_only: true, ..any.clone() }, vec!["v-c1", "w-b2", "x-a2", "y-b1", "z-a1"]),
        (RunFilter { user: Some("ada".into()), ..any.clone() }, vec![]),
        // All are held until UNTIL.
        (RunFilter { unheld_at_ms: Some(UNTIL), ..any.clone() }, vec![]),
        (RunFilter { unheld_at_ms: Some(UNTIL + 1), statuses: vec![Status::Running], ..any.clone() }, vec!["v-c1", "y-b1"]),
        (
            RunFilter {
                statuses: vec![Status::Running, Status::Done],
                thread: Some(thread_id("b")),
                id_part: Some("1".to_owned()),
                before: Some(run_id("v-c1")),
                ..any
            },
            vec!["y-b1"],
        ),
    ];
    for (filter, wanted) in cases {
        assert_eq!(run_names(&home, filter.clone()).await, wanted, "{filter:?}");
    }
}

pub(crate) async fn runs_come_in_pages(home: TestStore) {
    five_runs(&home).await;
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = run_names(&home, RunFilter { before: before.clone(), limit: 2, ..RunFilter::default() }).await;
        let Some(last) = page.last() else { break };
        before = Some(run_id(last));
        pages.push(page.join(" "));
    }
    assert_eq!(pages, ["v-c1 w-b2", "x-a2 y-b1", "z-a1"]);
    assert_eq!(run_names(&home, RunFilter { limit: 0, ..RunFilter::default() }).await, [""; 0]);
}

pub(crate) async fn a_run_is_as_new_as_its_last_line(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let mut seen = Vec::new();
    for at_ms in [NOW + 10, NOW + 20] {
        writer.at_ms = at_ms;
        writer.lines(["line"]).await.unwrap();
        seen.push(home.run(&writer.run).await.unwrap().unwrap().updated_ms);
    }
    writer.at_ms = NOW + 30;
    writer.write(|commit| commit.status = Some(Status::Done)).await.unwrap();
    let row = home.run(&writer.run).await.unwrap().unwrap();
    seen.push(row.updated_ms);
    assert_eq!((row.created_ms, seen), (NOW, vec![NOW + 10, NOW + 20, NOW + 30]));
    assert_eq!(home.runs(RunFilter::default()).await.unwrap(), [row]);
}

pub(crate) async fn long_outcomes_are_left_out_of_lists_that_want_none(home: TestStore) {
    for (run, outcome) in [("short", json!({ "a": "é" })), ("long", json!({ "a": "x".repeat(100) }))] {
        let mut writer = RunWriter::start(&home, run, run).await;
        writer.write(|commit| (commit.status, commit.outcome) = (Some(Status::Done), Some(outcome))).await.unwrap();
    }
    // `{"a":"é"}` has ten bytes.
    for (outcome_bytes_max, expected) in [(None, [true, true]), (Some(10), [false, true]), (Some(9), [false, false]), (Some(0), [false, false])] {
        let rows = home.runs(RunFilter { outcome_bytes_max, ..RunFilter::default() }).await.unwrap();
        let outcomes: Vec<bool> = rows.iter().map(|row| row.outcome.is_some()).collect();
        assert_eq!((outcomes, rows[0].status), (expected.to_vec(), Status::Done), "{outcome_bytes_max:?}");
    }
    assert!(home.run(&run_id("long")).await.unwrap().unwrap().outcome.is_some());
}

pub(crate) async fn threads_come_most_recently_used_first(home: TestStore) {
    let mut writers = Vec::new();
    for thread in ["b", "c", "a"] {
        writers.push(RunWriter::start(&home, thread, thread).await);
    }
    // At the same time: the one made last is first.
    assert_eq!(thread_names(&home).await, ["a", "c", "b"]);

    let [b, c, a] = &mut writers[..] else { unreachable!("three were made") };
    b.at_ms = NOW + 1;
    b.write(|commit| commit.messages = vec![message("user", "hello")]).await.unwrap();
    assert_eq!(thread_names(&home).await, ["b", "a", "c"]);
    c.at_ms = NOW + 2;
    c.write(|commit| commit.status = Some(Status::Asking)).await.unwrap();
    assert_eq!(thread_names(&home).await, ["c", "b", "a"]);
    a.at_ms = NOW + 3;
    a.write(|commit| commit.outcome = Some(json!(1))).await.unwrap();
    assert_eq!(thread_names(&home).await, ["a", "c", "b"]);
    RunWriter::start_at(&home, b.lease.clone(), "another", NOW + 4, |_| {}).await;
    assert_eq!(thread_names(&home).await, ["b", "a", "c"]);
    assert_eq!(home.thread(&thread_id("b")).await.unwrap().unwrap().updated_ms, NOW + 4);

    // A clock that went back does not make a thread older.
    a.at_ms = 5;
    a.write(|commit| commit.status = Some(Status::Done)).await.unwrap();
    assert_eq!(home.thread(&thread_id("a")).await.unwrap().unwrap().updated_ms, NOW + 3);
}

pub(crate) async fn threads_come_in_pages(home: TestStore) {
    for (thread, at_ms) in [("d", 4), ("c", 2), ("b", 2), ("a", 2), ("e", 1)] {
        home.claim(&thread_id(thread), "me", at_ms, UNTIL_LATER).await.unwrap();
    }
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = home.threads(before.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.thread.clone());
        pages.push(page.iter().map(|row| row.thread.as_str()).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(pages, ["d a", "b c", "e"]);
}

const UNTIL_LATER: i64 = 10_000;

pub(crate) async fn a_thread_is_called_after_its_first_run(home: TestStore) {
    RunWriter::start(&home, "t", "first").await;
    RunWriter::start(&home, "t", "second").await;
    assert_eq!(home.thread(&thread_id("t")).await.unwrap().unwrap().title, "first");
}

pub(crate) async fn messages_are_numbered_across_runs(home: TestStore) {
    let mut one = RunWriter::start(&home, "t", "one").await;
    let mut two = RunWriter::start(&home, "t", "two").await;
    let mut elsewhere = RunWriter::start(&home, "u", "three").await;
    one.write(|commit| commit.messages = vec![message("user", "a"), message("assistant", "b")]).await.unwrap();
    elsewhere.write(|commit| commit.messages = vec![message("user", "x")]).await.unwrap();
    two.write(|commit| commit.messages = vec![message("user", "c")]).await.unwrap();
    one.write(|commit| commit.messages = vec![message("assistant", "d")]).await.unwrap();
    let seen: Vec<_> =
        home.messages(&thread_id("t"), 0, 10).await.unwrap().into_iter().map(|m| format!("{} {} {}", m.seq, m.run, m.content)).collect();
    assert_eq!(seen, ["0 one a", "1 one b", "2 two c", "3 one d"]);
    let counts = [home.thread(&thread_id("t")).await, home.thread(&thread_id("u")).await].map(|row| row.unwrap().unwrap().messages);
    assert_eq!(counts, [4, 1]);
}

pub(crate) async fn messages_come_in_pages(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer.write(|commit| commit.messages = ["a", "b", "c", "d"].map(|text| message("user", text)).to_vec()).await.unwrap();
    for (from_seq, limit, wanted) in [(0, 3, "abc"), (3, 3, "d"), (4, 3, ""), (u64::MAX, 3, ""), (1, usize::MAX, "bcd"), (0, 0, "")] {
        let page: String = home.messages(&thread_id("t"), from_seq, limit).await.unwrap().into_iter().map(|message| message.content).collect();
        assert_eq!(page, wanted, "from {from_seq}, at most {limit}");
    }
}

pub(crate) async fn unknown_names_are_errors(home: TestStore) {
    RunWriter::start(&home, "t", "r").await;
    let (run, thread) = (run_id("absent"), thread_id("absent"));
    let no_run = StoreError::NoRun { run: run.clone() };
    let no_thread = StoreError::NoThread { thread: thread.clone() };
    assert_eq!(home.run(&run).await, Ok(None));
    assert_eq!(home.thread(&thread).await, Ok(None));
    assert_eq!(home.journal(&run, 0, 1).await, Err(no_run.clone()));
    assert_eq!(home.snapshot(&run).await, Err(no_run.clone()));
    assert_eq!(home.intents(&run).await, Err(no_run.clone()));
    assert_eq!(home.runs(RunFilter { before: Some(run), ..RunFilter::default() }).await, Err(no_run));
    assert_eq!(home.messages(&thread, 0, 1).await, Err(no_thread.clone()));
    assert_eq!(home.threads(Some(&thread), 1).await, Err(no_thread.clone()));
    assert_eq!(home.delete_thread(&thread, NOW).await, Err(no_thread));
}

pub(crate) async fn c10_the_newest_thread_with_a_prefix_is_the_one_made_last(home: TestStore) {
    let local = "local".into();
    let newest = async |user: &UserId, prefix: &str| home.newest_thread(user, prefix).await.unwrap().map(|row| row.thread.to_string());
    assert_eq!(newest(&local, "q-").await, None);
    for (thread, run) in [("q-b", "1"), ("q-a", "2"), ("r-z", "3"), ("q-", "4")] {
        RunWriter::start(&home, thread, run).await;
    }
    // Used last is not made last.
    let lease = claim(&home, "q-b", "me").await;
    RunWriter::start_at(&home, lease, "5", NOW + 500, |_| {}).await;
    assert_eq!(newest(&local, "q-").await.as_deref(), Some("q-"));
    assert_eq!(newest(&local, "q-b").await.as_deref(), Some("q-b"));
    assert_eq!((newest(&local, "q-c").await, newest(&"ada".into(), "q-").await), (None, None));
    home.delete_thread(&thread_id("q-"), NOW + 5_000).await.unwrap();
    assert_eq!(newest(&local, "q-").await.as_deref(), Some("q-a"));
    // A thread without a run has no owner.
    claim(&home, "q-new", "me").await;
    assert_eq!(newest(&local, "q-").await.as_deref(), Some("q-a"));
}

pub(crate) async fn stored_bytes_are_a_users_lines_and_messages(home: TestStore) {
    let user = UserId::default();
    assert_eq!(home.stored_bytes(&user).await.unwrap(), 0);
    let mut writer = RunWriter::start(&home, "t", "r").await;
    // Many small commits, one large, and the end.
    for _ in 0..20 {
        writer.write(|commit| commit.lines = vec![vec![b'x'; 10]; 10]).await.unwrap();
    }
    writer.write(|commit| commit.lines = vec![vec![b'x'; 100_000]]).await.unwrap();
    writer
        .write(|commit| {
            commit.messages = vec![message("user", "hello")];
            commit.status = Some(Status::Done);
            commit.release = true;
        })
        .await
        .unwrap();
    assert_eq!(home.stored_bytes(&user).await.unwrap(), 2_000 + 100_000 + 5);
    let mut begun = Commit::new(run_id("at-once"), Lease { thread: thread_id("u"), owner: "me".to_owned(), fence: 0 }, NOW, 0);
    begun.new = Some(NewRun { user: "ada".into(), ..new_run("at once") });
    (begun.lines, begun.messages, begun.release) = (vec![vec![b'x'; 50]], vec![message("user", "hello")], true);
    home.begin(begun, UNTIL).await.unwrap();
    assert_eq!(home.stored_bytes(&"ada".into()).await.unwrap(), 55);
    assert_eq!(home.stored_bytes(&user).await.unwrap(), 102_005, "of this user only");
    home.delete_thread(&thread_id("t"), UNTIL).await.unwrap();
    assert_eq!(home.stored_bytes(&user).await.unwrap(), 0);
}

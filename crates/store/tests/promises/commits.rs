//! A commit is all or nothing, in order, and only for who holds the thread.

use baton_store::{Commit, JOURNAL_PAGE_BYTES_MAX, JournalLine, NewRun, RunRow, SnapshotRow, Status, StoreError};
use serde_json::json;

use crate::hand::{NOW, RunWriter, TestStore, claim, everything, intent, journal, message, new_run, run_id, snapshot, task, thread_id};

pub(crate) async fn a_commit_is_seen_whole(home: TestStore) {
    let lease = claim(&home, "t", "me").await;
    let mut commit = Commit::new(run_id("r"), lease.clone(), 1_234, 0);
    commit.new = Some(NewRun { flow: "research".to_owned(), parent: Some(run_id("p")), title: "why?".to_owned(), user: "ada".into() });
    commit.lines = vec![b"one".to_vec(), b"two".to_vec()];
    commit.intents = vec![intent(3, 1, 2)];
    commit.messages = vec![message("user", "why?"), message("assistant", "because")];
    commit.status = Some(Status::Asking);
    commit.snapshot = Some(snapshot(2, b"state"));
    home.commit(commit).await.unwrap();

    let wanted = RunRow {
        run: run_id("r"),
        thread: thread_id("t"),
        flow: "research".to_owned(),
        parent: Some(run_id("p")),
        title: "why?".to_owned(),
        status: Status::Asking,
        outcome: None,
        created_ms: 1_234,
        updated_ms: 1_234,
    };
    assert_eq!(home.run(&run_id("r")).await.unwrap(), Some(wanted));
    assert_eq!(journal(&home, "r").await, ["one", "two"]);
    assert_eq!(home.journal(&run_id("r"), 1, 1).await.unwrap()[0].at_ms, 1_234);
    assert_eq!(home.intents(&run_id("r")).await.unwrap(), [intent(3, 1, 2)]);
    let messages = home.messages(&thread_id("t"), 0, 10).await.unwrap();
    let seen: Vec<_> = messages.iter().map(|m| (m.seq, m.run.as_str(), m.role.as_str(), m.content.as_str(), m.created_ms)).collect();
    assert_eq!(seen, [(0, "r", "user", "why?", 1_234), (1, "r", "assistant", "because", 1_234)]);
    assert_eq!(home.snapshot(&run_id("r")).await.unwrap(), Some(SnapshotRow { entries: 2, bytes: b"state".to_vec() }));
}

pub(crate) async fn a_refused_commit_leaves_nothing(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer
        .write(|commit| {
            commit.lines = vec![b"one".to_vec()];
            commit.intents = vec![intent(0, 0, 1)];
            commit.snapshot = Some(snapshot(1, b"old"));
        })
        .await
        .unwrap();
    let before = everything(&home).await;

    let mut stale = writer.lease.clone();
    stale.fence += 1;
    let mut stranger = writer.lease.clone();
    stranger.owner = "you".to_owned();
    let (run, lease) = (writer.run.clone(), writer.lease.clone());
    let fenced = StoreError::Fenced { thread: thread_id("t") };
    let cases = [
        (run.clone(), stale, 1, None, fenced.clone()),
        (run.clone(), stranger, 1, None, fenced.clone()),
        (run.clone(), lease.clone(), 2, None, StoreError::OutOfOrder { run: run.clone(), found: 2, wanted: 1 }),
        (run.clone(), lease.clone(), 1, Some(new_run("again")), StoreError::Exists { run: run.clone() }),
        (run_id("absent"), lease.clone(), 0, None, StoreError::NoRun { run: run_id("absent") }),
        (run_id("young"), lease.clone(), 7, Some(new_run("young")), StoreError::OutOfOrder { run: run_id("young"), found: 7, wanted: 0 }),
    ];
    for (run, lease, first_seq, new, wanted) in cases {
        let mut commit = Commit::new(run, lease, NOW + 1, first_seq);
        commit.new = new;
        commit.lines = vec![b"two".to_vec()];
        commit.intents = vec![intent(9, 9, 9)];
        commit.settled = vec![task(0, 0)];
        commit.messages = vec![message("user", "lost")];
        commit.status = Some(Status::Done);
        commit.outcome = Some(json!("lost"));
        commit.snapshot = Some(snapshot(2, b"new"));
        commit.release = true;
        assert_eq!(home.commit(commit).await, Err(wanted.clone()));
        assert_eq!(everything(&home).await, before, "after {wanted:?}");
    }
    // The lease was not given back either.
    writer.lines(["two"]).await.unwrap();
}

pub(crate) async fn lines_come_in_order(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer.lines(["a", "b"]).await.unwrap();
    writer.lines([]).await.unwrap();
    writer.lines(["c"]).await.unwrap();
    for found in [0, 2, 4, u64::MAX] {
        writer.next_seq = found;
        let refused = StoreError::OutOfOrder { run: run_id("r"), found, wanted: 3 };
        assert_eq!(writer.lines(["x"]).await, Err(refused.clone()));
        assert_eq!(writer.lines([]).await, Err(refused));
    }
    writer.next_seq = 3;
    writer.lines(["d"]).await.unwrap();
    assert_eq!(journal(&home, "r").await, ["a", "b", "c", "d"]);
}

pub(crate) async fn a_run_is_made_once(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let again = writer.write(|commit| commit.new = Some(new_run("again"))).await;
    assert_eq!(again, Err(StoreError::Exists { run: run_id("r") }));
    let mut elsewhere = RunWriter::start(&home, "u", "other").await;
    elsewhere.run = run_id("r");
    let again = elsewhere.write(|commit| commit.new = Some(new_run("again"))).await;
    assert_eq!(again, Err(StoreError::Exists { run: run_id("r") }));
    assert_eq!(home.run(&run_id("r")).await.unwrap().unwrap().title, "r");
}

pub(crate) async fn a_run_is_made_before_it_goes_on(home: TestStore) {
    let lease = claim(&home, "t", "me").await;
    let refused = home.commit(Commit::new(run_id("r"), lease, NOW, 0)).await;
    assert_eq!(refused, Err(StoreError::NoRun { run: run_id("r") }));
    assert_eq!(home.run(&run_id("r")).await, Ok(None));
}

pub(crate) async fn a_new_run_is_running_unless_its_status_is_set(home: TestStore) {
    RunWriter::start(&home, "t", "plain").await;
    let lease = claim(&home, "t", "me").await;
    RunWriter::start_at(&home, lease.clone(), "asking", NOW, |commit| commit.status = Some(Status::Asking)).await;
    RunWriter::start_at(&home, lease, "over", NOW, |commit| {
        commit.status = Some(Status::Failed);
        commit.outcome = Some(json!({"why": "no"}));
        commit.snapshot = Some(snapshot(0, b"needless"));
    })
    .await;
    for (run, status, outcome) in
        [("plain", Status::Running, None), ("asking", Status::Asking, None), ("over", Status::Failed, Some(json!({"why": "no"})))]
    {
        let row = home.run(&run_id(run)).await.unwrap().unwrap();
        assert_eq!((row.status, row.outcome), (status, outcome), "{run}");
        assert_eq!(home.snapshot(&run_id(run)).await, Ok(None), "{run}");
    }
}

pub(crate) async fn a_status_and_an_outcome_change_on_their_own(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    for status in Status::ALL {
        writer.write(|commit| commit.status = Some(status)).await.unwrap();
        assert_eq!(home.run(&writer.run).await.unwrap().unwrap().status, status);
        writer.lines(["a line changes no status"]).await.unwrap();
        assert_eq!(home.run(&writer.run).await.unwrap().unwrap().status, status);
    }
    for outcome in [json!(null), json!({"a": [1, 2.5, "ü", null, u64::MAX]})] {
        writer.write(|commit| commit.outcome = Some(outcome.clone())).await.unwrap();
        let row = home.run(&writer.run).await.unwrap().unwrap();
        assert_eq!((row.status, row.outcome), (Status::Cancelled, Some(outcome)));
    }
}

pub(crate) async fn the_newest_snapshot_replaces_the_others(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let mut other = RunWriter::start(&home, "t", "s").await;
    assert_eq!(home.snapshot(&writer.run).await, Ok(None));
    other.write(|commit| commit.snapshot = Some(snapshot(9, b"other"))).await.unwrap();
    for entries in [0, 5, 10] {
        writer.write(|commit| commit.snapshot = Some(snapshot(entries, &entries.to_le_bytes()))).await.unwrap();
        let wanted = SnapshotRow { entries, bytes: entries.to_le_bytes().to_vec() };
        assert_eq!(home.snapshot(&writer.run).await, Ok(Some(wanted.clone())));
        writer.lines(["a line keeps it"]).await.unwrap();
        assert_eq!(home.snapshot(&writer.run).await, Ok(Some(wanted)));
    }
    assert_eq!(home.snapshot(&other.run).await.unwrap().unwrap().entries, 9);
}

pub(crate) async fn an_outcome_takes_the_snapshot_away(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let mut other = RunWriter::start(&home, "t", "s").await;
    other.write(|commit| commit.snapshot = Some(snapshot(1, b"kept"))).await.unwrap();
    writer.write(|commit| commit.snapshot = Some(snapshot(1, b"gone"))).await.unwrap();
    writer
        .write(|commit| {
            commit.outcome = Some(json!("done"));
            commit.snapshot = Some(snapshot(2, b"gone at once"));
        })
        .await
        .unwrap();
    assert_eq!(home.snapshot(&writer.run).await, Ok(None));
    assert_eq!(home.snapshot(&other.run).await.unwrap().unwrap().bytes, b"kept");
}

pub(crate) async fn intents_stay_until_settled(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let mut other = RunWriter::start(&home, "t", "s").await;
    other.write(|commit| commit.intents = vec![intent(1, 0, 1)]).await.unwrap();
    writer.write(|commit| commit.intents = vec![intent(2, 0, 1), intent(1, 1, 1), intent(1, 0, 1)]).await.unwrap();
    assert_eq!(home.intents(&writer.run).await.unwrap(), [intent(1, 0, 1), intent(1, 1, 1), intent(2, 0, 1)]);
    // A later attempt at the same task takes the place of the earlier one.
    writer.write(|commit| commit.intents = vec![intent(1, 1, 2)]).await.unwrap();
    writer.write(|commit| commit.settled = vec![task(1, 0), task(7, 7)]).await.unwrap();
    assert_eq!(home.intents(&writer.run).await.unwrap(), [intent(1, 1, 2), intent(2, 0, 1)]);
    writer.write(|commit| commit.settled = vec![task(2, 0), task(1, 1)]).await.unwrap();
    assert_eq!(home.intents(&writer.run).await.unwrap(), []);
    assert_eq!(home.intents(&other.run).await.unwrap(), [intent(1, 0, 1)]);
}

pub(crate) async fn an_attempt_given_up_and_the_next_share_a_moment(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer.write(|commit| commit.intents = vec![intent(1, 0, 1)]).await.unwrap();
    writer
        .write(|commit| {
            commit.settled = vec![task(1, 0)];
            commit.intents = vec![intent(1, 0, 2)];
        })
        .await
        .unwrap();
    assert_eq!(home.intents(&writer.run).await.unwrap(), [intent(1, 0, 2)]);
}

pub(crate) async fn lines_of_any_size_are_read_as_they_were_written(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let lines: Vec<Vec<u8>> = [0_usize, 1, 4_095, 4_096, 4_097, 3 << 20].iter().map(|len| (0..*len).map(|i| (i % 251) as u8).collect()).collect();
    writer.write(|commit| commit.lines = lines.clone()).await.unwrap();
    let found = home.journal(&writer.run, 0, 100).await.unwrap();
    assert_eq!(found.len(), lines.len());
    for (line, wanted) in found.iter().zip(&lines) {
        assert!(line.bytes == *wanted, "line {} of {} bytes differs", line.seq, wanted.len());
    }
}

pub(crate) async fn a_page_of_long_lines_is_short(home: TestStore) {
    let mut pen = RunWriter::start(&home, "t", "r").await;
    for _ in 0..5 {
        pen.write(|commit| commit.lines = vec![vec![b'x'; JOURNAL_PAGE_BYTES_MAX * 3 / 8]]).await.unwrap();
    }
    let mut seen = Vec::new();
    for from in [0, 3] {
        let page = home.journal(&pen.run, from, 100).await.unwrap();
        seen.push((page.iter().map(|line| line.seq).collect::<Vec<_>>(), JournalLine::is_last_page(&page, 100)));
    }
    assert_eq!(seen, [(vec![0, 1, 2], false), (vec![3, 4], true)]);
}

pub(crate) async fn names_are_any_text(home: TestStore) {
    for name in ["", " ", "a'b", "a\"b", "ü%_\u{1f3b6}", "-1", "x; DROP TABLE runs", &"long".repeat(1_000)] {
        let mut writer = RunWriter::start(&home, name, name).await;
        writer.lines([name]).await.unwrap();
        assert_eq!(journal(&home, name).await, [name]);
        assert_eq!(home.thread(&thread_id(name)).await.unwrap().unwrap().thread, thread_id(name));
    }
}

pub(crate) async fn a_hundred_committers_at_once(home: TestStore) {
    let runs: Vec<_> = (0..100)
        .map(|n| {
            let home = home.clone();
            // Two to a thread, under the same lease.
            tokio::spawn(async move {
                let mut writer = RunWriter::start(&home, &format!("t{}", n / 2), &format!("r{n}")).await;
                for step in 0..10 {
                    writer
                        .write(|commit| {
                            commit.lines = vec![format!("{n}.{step}").into_bytes(), b"-".to_vec()];
                            commit.messages = vec![message("user", "hello")];
                        })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for run in runs {
        run.await.unwrap();
    }
    for n in 0..100 {
        let wanted: Vec<_> = (0..10).flat_map(|step| [format!("{n}.{step}"), "-".to_owned()]).collect();
        assert_eq!(journal(&home, &format!("r{n}")).await, wanted);
    }
    for n in 0..50 {
        let numbers: Vec<_> = home.messages(&thread_id(&format!("t{n}")), 0, 100).await.unwrap().iter().map(|message| message.seq).collect();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    }
}

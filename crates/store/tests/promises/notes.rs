//! What a run leaves for later ones: kept with its commit, for its user, for a while, and not without end.

use baton_store::{NOTE_BYTES_MAX, NOTES_BYTES_MAX, NOTES_MAX, NewNote, NoteFilter, NoteRow, Status, StoreError};
use graph::NoteScope;
use serde_json::{Value, json};

use crate::hand::{NOW, RunWriter, TestStore, claim, everything, new_run, run_id, thread_id};

const LATER: i64 = 9_000;

fn note(key: &str, value: Value) -> NewNote {
    NewNote { user: "ada".into(), flow: "reason".into(), reach: NoteScope::User, kind: "plan".into(), key: json!(key), value, until_ms: LATER }
}

async fn of(home: &TestStore, user: &str, thread: Option<&str>, now_ms: i64) -> Vec<NoteRow> {
    let filter = NoteFilter { user: user.into(), flow: Some("reason".into()), thread: thread.map(thread_id), now_ms, limit: 1_000 };
    home.notes(filter).await.unwrap()
}

/// What ada can look up now, newest first.
async fn values(home: &TestStore) -> Vec<Value> {
    of(home, "ada", None, NOW).await.into_iter().map(|row| row.value).collect()
}

pub(crate) async fn r8_what_a_run_leaves_is_there_when_its_commit_is(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let before = everything(&home).await;
    writer.next_seq = 7;
    assert!(writer.write(|commit| commit.notes = vec![note("a", json!(1))]).await.is_err());
    assert_eq!(everything(&home).await, before, "a commit that was refused teaches nothing");
    writer.next_seq = 0;
    writer
        .write(|commit| {
            commit.notes = vec![note("a", json!({ "x": [1.5, null] })), note("b", json!(2))];
            (commit.status, commit.outcome) = (Some(Status::Done), Some(json!({})));
        })
        .await
        .unwrap();
    let rows = of(&home, "ada", None, NOW).await;
    let first = NoteRow {
        note: rows[1].note,
        flow: "reason".into(),
        kind: "plan".into(),
        key: json!("a"),
        value: json!({ "x": [1.5, null] }),
        reach: NoteScope::User,
        thread: thread_id("t"),
        run: run_id("r"),
        created_ms: NOW,
        until_ms: LATER,
    };
    assert_eq!((rows.len(), &rows[1], &rows[0].value), (2, &first, &json!(2)), "newest first");
}

pub(crate) async fn r8_a_note_takes_the_place_of_the_one_before(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    for value in 1..=3 {
        writer.write(|commit| commit.notes = vec![note("a", json!(value)), note("b", json!("b"))]).await.unwrap();
    }
    assert_eq!(values(&home).await, [json!("b"), json!(3)]);
    let other = NewNote { kind: "pattern".into(), ..note("a", json!("other kind")) };
    writer.write(|commit| commit.notes = vec![other, note("a", Value::Null), note("never there", Value::Null)]).await.unwrap();
    assert_eq!(values(&home).await, [json!("other kind"), json!("b")], "null leaves nothing");
}

pub(crate) async fn r8_a_note_of_a_thread_is_given_there_alone(home: TestStore) {
    for (thread, run) in [("t", "r"), ("u", "s")] {
        let mut writer = RunWriter::start(&home, thread, run).await;
        let local = NewNote { reach: NoteScope::Thread, ..note("k", json!(thread)) };
        writer.write(|commit| commit.notes = vec![local]).await.unwrap();
    }
    let mut writer = RunWriter::start(&home, "t", "w").await;
    writer.write(|commit| commit.notes = vec![note("k", json!("everywhere"))]).await.unwrap();
    let given = |rows: Vec<NoteRow>| rows.into_iter().map(|row| row.value).collect::<Vec<_>>();
    assert_eq!(given(of(&home, "ada", Some("t"), NOW).await), [json!("everywhere"), json!("t")]);
    assert_eq!(given(of(&home, "ada", Some("u"), NOW).await), [json!("everywhere"), json!("u")]);
    assert_eq!(given(of(&home, "ada", Some("new"), NOW).await), [json!("everywhere")]);
    assert_eq!(of(&home, "ada", None, NOW).await.len(), 3);
}

pub(crate) async fn r8_notes_are_dropped_after_their_time(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer.write(|commit| commit.notes = vec![NewNote { until_ms: NOW + 5, ..note("short", json!(1)) }, note("long", json!(2))]).await.unwrap();
    assert_eq!(of(&home, "ada", None, NOW + 4).await.len(), 2);
    assert_eq!(of(&home, "ada", None, NOW + 5).await.len(), 1);
    // The next note removes expired ones, of any user.
    writer.at_ms = NOW + 5;
    writer.write(|commit| commit.notes = vec![NewNote { user: "bob".into(), ..note("x", json!(3)) }]).await.unwrap();
    assert_eq!(of(&home, "ada", None, NOW).await.len(), 1);
}

pub(crate) async fn r8_notes_are_bounded_in_number_and_bytes(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let many = (0..NOTES_MAX + 10).map(|n| note(&format!("k{n}"), json!(n))).collect();
    writer.write(|commit| commit.notes = many).await.unwrap();
    let kept = values(&home).await;
    assert_eq!((kept.len(), &kept[0], kept.last()), (NOTES_MAX, &json!(NOTES_MAX + 9), Some(&json!(10))), "the oldest went");
    let large = "x".repeat(NOTE_BYTES_MAX - 100);
    for n in 0..NOTES_BYTES_MAX / NOTE_BYTES_MAX + 2 {
        writer.write(|commit| commit.notes = vec![note(&format!("large{n}"), json!(large))]).await.unwrap();
    }
    let rows = of(&home, "ada", None, NOW).await;
    let bytes: usize = rows.iter().map(|row| row.value.to_string().len() + row.key.to_string().len()).sum();
    assert!(bytes <= NOTES_BYTES_MAX && bytes > NOTES_BYTES_MAX - 2 * NOTE_BYTES_MAX, "{bytes}");
    writer.write(|commit| commit.notes = vec![note("huge", json!("x".repeat(NOTE_BYTES_MAX)))]).await.unwrap();
    assert_eq!(of(&home, "ada", None, NOW).await, rows, "one that is too large is not kept");
    // The limit of one user or flow does not affect others.
    writer.write(|commit| commit.notes = vec![NewNote { flow: "chat".into(), ..note("c", json!(1)) }]).await.unwrap();
    assert_eq!(of(&home, "ada", None, NOW).await, rows);
}

pub(crate) async fn r7_nothing_of_one_user_is_given_to_another(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let notes = ["ada", "bob"].map(|user| NewNote { user: user.into(), ..note("same key", json!(user)) });
    writer.write(|commit| commit.notes = notes.to_vec()).await.unwrap();
    home.prefer(&"ada".into(), "way", Some(json!("agentic"))).await.unwrap();
    for user in ["ada", "bob"] {
        let rows = of(&home, user, None, NOW).await;
        assert_eq!((rows.len(), &rows[0].value), (1, &json!(user)));
    }
    assert!(of(&home, "eve", None, NOW).await.is_empty());
    assert!(home.preferences(&"bob".into()).await.unwrap().is_empty());
    let adas = of(&home, "ada", None, NOW).await[0].note;
    assert_eq!(home.forget(&"bob".into(), Some(adas)).await, Ok(0), "nor can one forget for another");
    assert_eq!(home.forget(&"bob".into(), None).await, Ok(1));
    assert_eq!(of(&home, "ada", None, NOW).await.len(), 1);
}

pub(crate) async fn r7_a_thread_is_its_first_users(home: TestStore) {
    let lease = claim(&home, "t", "me").await;
    let start = |commit: &mut baton_store::Commit, user: &str| commit.new = Some(baton_store::NewRun { user: user.into(), ..new_run("x") });
    let mut writer = RunWriter::start_at(&home, lease.clone(), "r", NOW, |commit| start(commit, "ada")).await;
    writer.write(|commit| commit.status = Some(Status::Done)).await.unwrap();
    assert_eq!(home.thread(&thread_id("t")).await.unwrap().unwrap().user, Some("ada".into()));
    let before = everything(&home).await;
    let mut other = RunWriter { home: home.clone(), run: run_id("s"), lease, next_seq: 0, at_ms: NOW };
    assert_eq!(other.write(|commit| start(commit, "bob")).await, Err(StoreError::NotYours { thread: thread_id("t") }));
    assert_eq!(everything(&home).await, before);
    other.write(|commit| start(commit, "ada")).await.unwrap();
}

pub(crate) async fn r7_preferences_are_kept_until_they_are_taken_back(home: TestStore) {
    let ada = "ada".into();
    for value in [json!("direct"), json!("agentic")] {
        home.prefer(&ada, "way", Some(value)).await.unwrap();
    }
    home.prefer(&ada, "strict", Some(json!(true))).await.unwrap();
    let liked = home.preferences(&ada).await.unwrap();
    assert_eq!(liked, [("strict".to_owned(), json!(true)), ("way".to_owned(), json!("agentic"))].into());
    home.prefer(&ada, "way", None).await.unwrap();
    home.prefer(&ada, "never", None).await.unwrap();
    assert_eq!(home.preferences(&ada).await.unwrap().len(), 1);
}

pub(crate) async fn notes_can_be_forgotten(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer.write(|commit| commit.notes = ["a", "b", "c"].map(|key| note(key, json!(key))).to_vec()).await.unwrap();
    let newest = of(&home, "ada", None, NOW).await[0].note;
    assert_eq!(home.forget(&"ada".into(), Some(newest)).await, Ok(1));
    assert_eq!(home.forget(&"ada".into(), Some(newest)).await, Ok(0));
    writer.write(|commit| commit.notes = vec![note("d", json!("d"))]).await.unwrap();
    assert_eq!(home.forget(&"ada".into(), Some(newest)).await, Ok(0), "a number is never used again");
    assert_eq!(values(&home).await, ["d", "b", "a"]);
    assert_eq!(home.forget(&"ada".into(), None).await, Ok(3));
}

pub(crate) async fn what_a_thread_taught_goes_with_it(home: TestStore) {
    for (thread, run) in [("t", "r"), ("u", "s")] {
        let mut writer = RunWriter::start(&home, thread, run).await;
        writer
            .write(|commit| {
                commit.notes = vec![note(thread, json!(thread)), NewNote { reach: NoteScope::Thread, ..note("k", json!(thread)) }];
                commit.release = true;
            })
            .await
            .unwrap();
    }
    home.delete_thread(&thread_id("t"), NOW).await.unwrap();
    assert_eq!(values(&home).await, ["u", "u"]);
}

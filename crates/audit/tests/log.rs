//! The log as files on a disk: several writers, damage, crashes, rotation.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use baton_audit::{Event, EventKind, Head, Log, Recorder, Settings, read, verify};
use serde_json::json;

fn log(folder: &Path) -> Log {
    Log::new(folder.to_owned(), Settings::default())
}

fn call(user: &str, tool: &str) -> Event {
    Event::new(EventKind::ToolCall, user).tool(tool).run("thread", "run").arguments(&json!({ "to": "bob@example.org", "secret": "hunter2" }))
}

fn lines(folder: &Path) -> Vec<String> {
    std::fs::read_to_string(folder.join("00000001.jsonl")).unwrap().lines().map(str::to_owned).collect()
}

fn put(folder: &Path, lines: &[String]) {
    std::fs::write(folder.join("00000001.jsonl"), lines.join("\n") + "\n").unwrap();
}

#[test]
fn lines_are_chained_and_hold_no_argument() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (log(folder.path()), log(folder.path()));
    one.append(&[call("ada", "mail.send"), Event::new(EventKind::SignIn, "bob\u{1b}[2J")], 1_000).unwrap();
    // Another process.
    other.append(&[Event::new(EventKind::TokenAdded, "local").detail("3 for ada")], 2_000).unwrap();
    one.append(&[call("ada", "mail.send")], 3_000).unwrap();
    let verified = verify(folder.path(), None).unwrap().unwrap();
    assert_eq!((verified.lines, verified.first, verified.head.as_ref().unwrap().seq), (4, 1, 4));
    let text = lines(folder.path()).join("\n");
    assert!(!text.contains("hunter2") && !text.contains("bob@example.org") && !text.contains('\u{1b}'), "{text}");
    let mut users = Vec::new();
    read(folder.path(), |line| {
        users.push(line.entry.unwrap().0.user);
        true
    })
    .unwrap();
    assert_eq!(users, ["ada", "bob [2J", "local", "ada"]);
    let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777;
    assert_eq!(mode(&folder.path().join("00000001.jsonl")), 0o600);
}

#[test]
fn the_first_broken_line_is_named_whatever_was_done_to_it() {
    let fresh = || {
        let folder = tempfile::tempdir().unwrap();
        let events: Vec<Event> = (0..5).map(|n| call(&format!("user{n}"), "mail.send")).collect();
        log(folder.path()).append(&events, 1_000).unwrap();
        folder
    };
    type Damage = fn(&mut Vec<String>);
    let cases: [(&str, u64, Damage); 5] = [
        ("changed", 3, |lines| lines[2] = lines[2].replace("user2", "user9")),
        ("removed", 3, |lines| drop(lines.remove(2))),
        ("swapped", 2, |lines| lines.swap(1, 2)),
        ("doubled", 4, |lines| lines.insert(3, lines[2].clone())),
        ("first removed", 1, |lines| drop(lines.remove(0))),
    ];
    for (name, line, damage) in cases {
        let folder = fresh();
        let mut lines = lines(folder.path());
        damage(&mut lines);
        put(folder.path(), &lines);
        let broken = verify(folder.path(), None).unwrap().unwrap_err();
        assert_eq!(broken.line, line, "{name}: {broken}");
    }
    // A line whose hash was computed again is found by the next line.
    let folder = fresh();
    let other = tempfile::tempdir().unwrap();
    let forged: Vec<Event> = ["user0", "mallory"].map(|user| call(user, "mail.send")).into();
    log(other.path()).append(&forged, 1_000).unwrap();
    let mut changed = lines(folder.path());
    changed[1] = lines(other.path())[1].clone();
    put(folder.path(), &changed);
    let broken = verify(folder.path(), None).unwrap().unwrap_err();
    assert_eq!((broken.line, broken.why.contains("line before it was changed")), (3, true), "{broken}");
}

#[test]
fn a_head_that_was_kept_elsewhere_shows_a_cut_and_a_forgery() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path()).append(&[call("ada", "mail.send"), call("bob", "mail.send")], 1_000).unwrap();
    let head = verify(folder.path(), None).unwrap().unwrap().head.unwrap();
    let mut kept = lines(folder.path());
    kept.pop();
    put(folder.path(), &kept);
    let with = |head: &Head| verify(folder.path(), Some(head)).unwrap().unwrap();
    let cut = with(&head);
    assert_eq!(cut.has_kept, None);
    log(folder.path()).append(&[call("mallory", "mail.send")], 1_000).unwrap();
    assert_eq!(with(&head).has_kept, Some(false));
    let first = Head { seq: 1, hash: cut.head.unwrap().hash };
    assert_eq!(with(&first).has_kept, Some(true));
}

#[test]
fn half_a_line_after_a_crash_is_removed_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path()).append(&[call("ada", "mail.send")], 1_000).unwrap();
    let path = folder.path().join("00000001.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}{{\"seq\":2,\"at_ms\":5")).unwrap();
    assert_eq!(verify(folder.path(), None).unwrap().unwrap_err().line, 2);
    log(folder.path()).append(&[call("bob", "mail.send")], 2_000).unwrap();
    let verified = verify(folder.path(), None).unwrap().unwrap();
    assert_eq!(verified.lines, 3);
    assert!(lines(folder.path())[1].contains("log_repaired"));
    // A broken line that is complete is not removed.
    let mut changed = lines(folder.path());
    changed[2] = changed[2].replace("bob", "eve");
    put(folder.path(), &changed);
    let error = log(folder.path()).append(&[call("bob", "mail.send")], 3_000).unwrap_err();
    assert!(error.to_string().contains("baton audit verify"), "{error}");
}

#[test]
fn old_files_are_removed_and_the_rest_can_still_be_verified() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { file_bytes_max: 2_000, files_max: 3 };
    let log = Log::new(folder.path().to_owned(), settings);
    for n in 0..100 {
        log.append(&[call(&format!("user{n}"), "mail.send")], 1_000).unwrap();
    }
    let names = || std::fs::read_dir(folder.path()).unwrap().flatten().filter(|file| file.path().extension().is_some()).count();
    assert_eq!(names(), 3);
    let verified = verify(folder.path(), None).unwrap().unwrap();
    assert!(verified.first > 50 && verified.head.unwrap().seq > 100);
    // Removing one more by hand is seen, as is one from the middle.
    let mut files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.path()).filter(|path| path.extension().is_some()).collect();
    files.sort();
    let middle = std::fs::read(&files[1]).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    assert!(verify(folder.path(), None).unwrap().unwrap_err().why.contains("missing"));
    std::fs::write(&files[1], middle).unwrap();
    std::fs::remove_file(&files[0]).unwrap();
    let why = verify(folder.path(), None).unwrap().unwrap_err().why;
    assert!(why.contains("no line says that they were removed"), "{why}");
}

#[tokio::test]
async fn concurrent_records_share_writes_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(log(folder.path())).unwrap();
    recorder.note(Event::new(EventKind::Approval, "ada"));
    let all = (0..200).map(|n| {
        let recorder = recorder.clone();
        tokio::spawn(async move { recorder.record(call(&format!("user{n}"), "mail.send")).await })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    let verified = verify(folder.path(), None).unwrap().unwrap();
    assert_eq!(verified.lines, 201);
    assert!(lines(folder.path())[0].contains("approval"));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "in the way").unwrap();
    let recorder = Recorder::start(log(&path)).unwrap();
    let error = recorder.record(call("ada", "mail.send")).await.unwrap_err();
    assert!(error.to_string().contains("cannot be written"), "{error}");
}

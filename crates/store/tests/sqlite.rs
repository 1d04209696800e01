//! What only a file can do: outlive its process, be shared, be damaged, and shrink. What every home promises is in `promises`.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use baton_store::{
    CardFilter, Commit, Durability, Lease, NewMessage, NewNote, NewRun, NewSnapshot, NoteFilter, Result, Retention, RunFilter, SqliteSettings,
    SqliteStore, Status, Store, StoreError,
};
use graph::{NoteScope, RunId, ThreadId, UserId};
use rusqlite::Connection;
use tempfile::TempDir;

const NOW: i64 = 1_000;
const UNTIL: i64 = 2_000;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baton.db");
    (folder, path)
}

fn open(path: &Path) -> Result<SqliteStore> {
    SqliteStore::open(path, SqliteSettings { durability: Durability::Off })
}

async fn claim(store: &SqliteStore, thread: &str, owner: &str, now_ms: i64) -> Result<Lease> {
    store.claim(&thread.into(), owner, now_ms, now_ms + (UNTIL - NOW)).await
}

async fn start(store: &SqliteStore, thread: &str, run: &str) -> Lease {
    let lease = claim(store, thread, "me", NOW).await.unwrap();
    let mut commit = Commit::new(run.into(), lease.clone(), NOW, 0);
    commit.new = Some(NewRun { flow: "flow".to_owned(), parent: None, title: run.to_owned(), user: UserId::default() });
    store.commit(commit).await.unwrap();
    lease
}

fn line(run: &str, lease: &Lease, seq: u64, text: &str) -> Commit {
    let mut commit = Commit::new(run.into(), lease.clone(), NOW, seq);
    commit.lines = vec![text.as_bytes().to_vec()];
    commit
}

async fn journal(store: &SqliteStore, run: &str) -> Vec<String> {
    let lines = store.journal(&run.into(), 0, usize::MAX).await.unwrap();
    lines.into_iter().map(|line| String::from_utf8(line.bytes).unwrap()).collect()
}

/// Lets something start, and does not wait for it.
async fn begin<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

fn wal_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

fn name_of(path: &Path) -> String {
    path.display().to_string()
}

/// Opening is refused, and neither the file nor its WAL is touched, nor anything left beside a file at rest.
fn assert_refused(path: &Path, is_wanted: impl Fn(&StoreError) -> bool) {
    let look = || (std::fs::read(path).unwrap(), std::fs::read(wal_of(path)).ok());
    let before = look();
    let error = open(path).err().expect("it must be refused");
    assert!(is_wanted(&error), "{error:?}");
    assert!(look() == before, "it was touched");
    if before.1.is_none() {
        let beside = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "something was left beside it");
    }
}

fn is_damaged(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged { .. })
}

/// A small database of ours, closed.
async fn make(path: &Path) {
    let store = open(path).unwrap();
    let lease = start(&store, "t", "r").await;
    for seq in 0..200 {
        store.commit(line("r", &lease, seq, &"x".repeat(200))).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    let (_folder, path) = folder();
    let lease = {
        let store = SqliteStore::open(&path, SqliteSettings::default()).unwrap();
        let lease = start(&store, "t", "r").await;
        let mut commit = line("r", &lease, 0, "one");
        commit.messages = vec![NewMessage { role: "user".to_owned(), content: "hello".to_owned() }];
        commit.snapshot = Some(NewSnapshot { entries: 1, bytes: b"state".to_vec() });
        commit.status = Some(Status::Asking);
        store.commit(commit).await.unwrap();
        lease
    };
    assert_eq!(bytes_of(&wal_of(&path)), 0, "closing leaves no WAL");

    let store = open(&path).unwrap();
    assert_eq!(store.run(&"r".into()).await.unwrap().unwrap().status, Status::Asking);
    assert_eq!(store.messages(&"t".into(), 0, 10).await.unwrap().len(), 1);
    assert_eq!(store.snapshot(&"r".into()).await.unwrap().unwrap().bytes, b"state");
    // The lease survives as well: it is the owner's name that counts, not the process.
    assert_eq!(store.commit(line("r", &lease, 0, "again")).await, Err(StoreError::OutOfOrder { run: "r".into(), found: 0, wanted: 1 }));
    store.commit(line("r", &lease, 1, "two")).await.unwrap();
    assert_eq!(journal(&store, "r").await, ["one", "two"]);
}

#[tokio::test]
async fn what_a_killed_process_had_confirmed_is_there() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let lease = start(&store, "t", "r").await;
    store.commit(line("r", &lease, 0, "one")).await.unwrap();
    // What the disk holds at this moment is what a kill would leave.
    let (_other_folder, copy) = folder();
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(wal_of(&path), wal_of(&copy)).unwrap();
    assert_eq!(journal(&open(&copy).unwrap(), "r").await, ["one"]);
}

#[tokio::test]
async fn closing_finishes_what_is_queued() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let lease = start(&store, "t", "r").await;
    for seq in 0..100 {
        // Begun and abandoned: the write is on its way all the same.
        let _ = begin(&mut store.commit(line("r", &lease, seq, "queued"))).await;
    }
    drop(store);
    assert_eq!(journal(&open(&path).unwrap(), "r").await.len(), 100);
}

#[tokio::test]
async fn two_processes_on_one_file_are_kept_apart() {
    let (_folder, path) = folder();
    let (one, two) = (open(&path).unwrap(), open(&path).unwrap());
    let lease = start(&one, "t", "r").await;
    one.commit(line("r", &lease, 0, "one")).await.unwrap();
    let held = StoreError::Held { thread: "t".into(), owner: "me".to_owned(), until_ms: UNTIL };
    assert_eq!(claim(&two, "t", "you", NOW).await, Err(held));

    // The first one falls asleep, and the second takes over behind its back.
    let yours = claim(&two, "t", "you", UNTIL + 1).await.unwrap();
    assert!(yours.fence > lease.fence);
    assert_eq!(one.commit(line("r", &lease, 1, "too late")).await, Err(StoreError::Fenced { thread: "t".into() }));
    two.commit(line("r", &yours, 1, "two")).await.unwrap();
    two.release(&yours).await.unwrap();

    // Coming back, it sees how far the other got, whatever it remembers.
    let again = claim(&one, "t", "me", UNTIL + 2).await.unwrap();
    assert!(again.fence > yours.fence);
    assert_eq!(one.commit(line("r", &again, 1, "stale")).await, Err(StoreError::OutOfOrder { run: "r".into(), found: 1, wanted: 2 }));
    one.commit(line("r", &again, 2, "three")).await.unwrap();
    assert_eq!(journal(&two, "r").await, ["one", "two", "three"]);

    // A thread that another process deleted and created again is not taken for the old one.
    one.release(&again).await.unwrap();
    two.delete_thread(&"t".into(), UNTIL + 3).await.unwrap();
    start(&two, "u", "other").await;
    let anew = claim(&two, "t", "me", UNTIL + 3).await.unwrap();
    assert!(anew.fence > again.fence);
    assert_eq!(one.commit(line("r", &again, 3, "lost")).await, Err(StoreError::NoRun { run: "r".into() }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_writing_at_once_lose_nothing() {
    let (_folder, path) = folder();
    let stores = [Arc::new(open(&path).unwrap()), Arc::new(open(&path).unwrap())];
    let mut writing = Vec::new();
    for n in 0..20 {
        let store = stores[n % 2].clone();
        writing.push(tokio::spawn(async move {
            let lease = start(&store, &format!("t{n}"), &format!("r{n}")).await;
            for seq in 0..20 {
                store.commit(line(&format!("r{n}"), &lease, seq, &seq.to_string())).await.unwrap();
            }
        }));
    }
    for run in writing {
        run.await.unwrap();
    }
    let wanted: Vec<_> = (0..20).map(|seq| seq.to_string()).collect();
    for n in 0..20 {
        assert_eq!(journal(&stores[(n + 1) % 2], &format!("r{n}")).await, wanted);
    }
}

#[test]
fn the_file_has_its_application_id_version_and_modes() {
    let (_folder, path) = folder();
    let _store = open(&path).unwrap();
    let raw = Connection::open(&path).unwrap();
    let ask = |pragma: &str| raw.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(ask("application_id"), 0x4261_746e_i64.into());
    assert_eq!(ask("user_version"), 7_i64.into());
    assert_eq!(ask("journal_mode"), "wal".to_owned().into());
    assert_eq!(ask("auto_vacuum"), 2_i64.into());
}

#[tokio::test]
async fn an_empty_file_is_a_new_one() {
    let (_folder, path) = folder();
    std::fs::write(&path, b"").unwrap();
    make(&path).await;

    // So is one that SQLite began and wrote nothing to; it learns to shrink.
    let (_folder, path) = folder();
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; VACUUM;").unwrap();
    assert!(bytes_of(&path) > 0);
    make(&path).await;
    let auto_vacuum: i64 = Connection::open(&path).unwrap().query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap();
    assert_eq!(auto_vacuum, 2);
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    let (_folder, whole) = folder();
    make(&whole).await;
    let bytes = std::fs::read(&whole).unwrap();
    for length in [1, 15, 16, 99, 100, 104, 4_095, 4_096, bytes.len() / 2, bytes.len() - 4_096, bytes.len() - 1] {
        let (_folder, path) = folder();
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert_refused(&path, is_damaged);
    }
}

#[tokio::test]
async fn a_truncated_file_is_refused_even_beside_a_wal() {
    let (_folder, living) = folder();
    make(&living).await;
    let store = open(&living).unwrap();
    start(&store, "u", "another").await;
    let bytes = std::fs::read(&living).unwrap();
    let (_folder, path) = folder();
    std::fs::copy(wal_of(&living), wal_of(&path)).unwrap();
    assert!(bytes_of(&wal_of(&path)) > 0);
    for length in [0, 100] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert_refused(&path, is_damaged);
    }
}

#[test]
fn a_file_that_is_not_sqlite_is_refused() {
    for garbage in [b"hello".to_vec(), vec![0; 10_000], b"SQLite format 2\0".repeat(1_000), b"SQLite format 3\0".repeat(1_000)] {
        let (_folder, path) = folder();
        std::fs::write(&path, garbage).unwrap();
        assert_refused(&path, |error| is_damaged(error) || matches!(error, StoreError::Foreign { .. }));
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    for sql in ["CREATE TABLE t (x)", "PRAGMA application_id = 77", "CREATE TABLE t (x); PRAGMA journal_mode = WAL", "PRAGMA user_version = 1"] {
        let (_folder, path) = folder();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        assert_refused(&path, |error| *error == StoreError::Foreign { path: name_of(&path) });
    }
    // One that is in use, and has everything in its WAL still.
    let (_folder, path) = folder();
    let stranger = Connection::open(&path).unwrap();
    stranger.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
    assert!(bytes_of(&wal_of(&path)) > 0);
    assert_refused(&path, |error| *error == StoreError::Foreign { path: name_of(&path) });
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let (_folder, path) = folder();
    make(&path).await;
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("PRAGMA user_version = 1000").unwrap();
    let newer = StoreError::Newer { path: name_of(&path), found: 1_000, known: 7 };
    assert!(bytes_of(&wal_of(&path)) > 0);
    assert_refused(&path, |error| *error == newer);
    drop(raw);
    assert_refused(&path, |error| *error == newer);
}

#[tokio::test]
async fn a_path_that_cannot_be_opened_is_an_error_that_names_it() {
    let (folder, _) = folder();
    for path in [folder.path().join("no/such/folder.db"), folder.path().to_owned()] {
        let error = open(&path).err().expect("there is nothing to open");
        assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn damage_inside_is_found_when_it_is_met() {
    let (_folder, path) = folder();
    make(&path).await;
    let mut bytes = std::fs::read(&path).unwrap();
    // All but the first page, so that whatever is read is damaged.
    for byte in &mut bytes[4_096..] {
        *byte = 0xA5;
    }
    std::fs::write(&path, &bytes).unwrap();
    // An error while opening is accepted too.
    let found = match open(&path) {
        Err(error) => vec![error],
        Ok(store) => vec![store.run(&"r".into()).await.unwrap_err(), claim(&store, "t", "me", NOW).await.unwrap_err()],
    };
    assert!(found.iter().all(is_damaged), "{found:?}");
}

#[tokio::test]
async fn rows_that_make_no_sense_are_damage() {
    let (_folder, path) = folder();
    make(&path).await;
    Connection::open(&path).unwrap().execute_batch("UPDATE runs SET status = 'dreaming'").unwrap();
    let error = open(&path).unwrap().run(&"r".into()).await.unwrap_err();
    assert!(is_damaged(&error), "{error:?}");
}

/// Several writes in one group, of which one is refused and one fails in SQLite itself.
#[tokio::test]
async fn one_bad_write_hurts_nobody_else() {
    let (_folder, path) = folder();
    let store = Arc::new(open(&path).unwrap());
    let mut leases = Vec::new();
    for n in 0..10 {
        leases.push(start(&store, &format!("t{n}"), &format!("r{n}")).await);
    }
    let other = Connection::open(&path).unwrap();
    let trap = "CREATE TRIGGER trap BEFORE INSERT ON journal WHEN NEW.bytes = CAST('poison' AS BLOB) BEGIN SELECT RAISE(ABORT, 'a trap'); END";
    other.execute_batch(trap).unwrap();

    // While another process writes, all of these come to wait in the queue and make one group.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writing: Vec<_> = (0..10)
        .map(|n| {
            let (store, lease) = (store.clone(), leases[n].clone());
            let run = format!("r{n}");
            let commit = match n {
                3 => line(&run, &lease, 5, "out of order"),
                6 => line(&run, &lease, 0, "poison"),
                _ => line(&run, &lease, 0, "good"),
            };
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    tokio::task::yield_now().await;
    other.execute_batch("ROLLBACK").unwrap();

    for (n, write) in writing.into_iter().enumerate() {
        let end = write.await.unwrap();
        let run = format!("r{n}");
        let written = journal(&store, &run).await;
        match n {
            3 => assert_eq!(end, Err(StoreError::OutOfOrder { run: run.as_str().into(), found: 5, wanted: 0 })),
            6 => assert!(matches!(end, Err(StoreError::Database(_))), "{end:?}"),
            _ => assert_eq!((end, written), (Ok(()), vec!["good".to_owned()]), "{run}"),
        }
    }
    // Nothing is remembered of what was rolled back.
    for (n, lease) in leases.iter().enumerate() {
        let next = if [3, 6].contains(&n) { 0 } else { 1 };
        store.commit(line(&format!("r{n}"), lease, next, "next")).await.unwrap();
    }
}

#[tokio::test]
async fn reading_does_not_wait_for_writing() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let lease = start(&store, "t", "r").await;
    store.commit(line("r", &lease, 0, "one")).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE runs SET title = 'unseen'").unwrap();

    // The writer is stuck behind the other process, and every reader still reads, more of them than there are connections.
    let mut writing = store.commit(line("r", &lease, 1, "two"));
    assert!(begin(&mut writing).await.is_pending());
    let run: RunId = "r".into();
    let reads = [(); 20].map(|()| store.run(&run));
    for read in reads {
        assert_eq!(read.await.unwrap().unwrap().title, "r");
    }
    assert_eq!(journal(&store, "r").await, ["one"]);

    other.execute_batch("ROLLBACK").unwrap();
    writing.await.unwrap();
    assert_eq!(journal(&store, "r").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_while_writing_sees_whole_moments() {
    let (_folder, path) = folder();
    let store = Arc::new(open(&path).unwrap());
    let lease = start(&store, "t", "r").await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for step in 0..300 {
                let mut commit = line("r", &lease, step * 2, "a");
                commit.lines.push(b"b".to_vec());
                commit.snapshot = Some(NewSnapshot { entries: step * 2 + 2, bytes: Vec::new() });
                store.commit(commit).await.unwrap();
            }
        })
    };
    loop {
        let is_over = writer.is_finished();
        let entries = store.snapshot(&"r".into()).await.unwrap().map_or(0, |snapshot| snapshot.entries);
        let lines = store.journal(&"r".into(), 0, usize::MAX).await.unwrap().len() as u64;
        assert!(lines.is_multiple_of(2) && lines >= entries, "{lines} lines, a snapshot of {entries}");
        if is_over {
            assert_eq!((lines, entries), (600, 600));
            break;
        }
    }
    writer.await.unwrap();
}

/// Threads with this many bytes of journal and messages each.
async fn fill(store: &SqliteStore, threads: usize, kib: usize) {
    for n in 0..threads {
        let run = format!("r{n}");
        let lease = start(store, &format!("t{n}"), &run).await;
        let mut commit = Commit::new(run.into(), lease, NOW, 0);
        commit.lines = vec![vec![b'x'; 1_024]; kib / 2];
        commit.messages = vec![NewMessage { role: "user".to_owned(), content: "y".repeat(1_024) }; kib / 2];
        commit.status = Some(Status::Done);
        commit.release = true;
        store.commit(commit).await.unwrap();
    }
}

#[tokio::test]
async fn deleting_gives_the_space_back() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    fill(&store, 10, 400).await;
    let all = 10 * 400 * 1_024;
    let before = bytes_of(&path) + bytes_of(&wal_of(&path));
    assert!(before > all);

    let freed = store.retain(Retention::KeepLast(2), NOW).await.unwrap();
    let after = bytes_of(&path) + bytes_of(&wal_of(&path));
    assert_eq!((freed.threads, freed.runs, freed.bytes), (8, 8, before - after));
    // A table or index that is empty still has its page.
    let empty = 16 * 4_096;
    assert!(after < all * 3 / 10 + empty, "{after} bytes are left of {before}");

    let freed = store.delete_thread(&"t9".into(), NOW).await.unwrap();
    let last = bytes_of(&path) + bytes_of(&wal_of(&path));
    assert_eq!(freed.bytes, after - last);
    assert!(last < all * 2 / 10, "{last} bytes are left of {after}");
    assert_eq!(journal(&store, "r8").await.len(), 200);
}

/// Before, each deletion waited for the reader, half a second at most, and everybody's writes with it.
#[tokio::test]
async fn a_deletion_does_not_wait_for_readers() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    fill(&store, 3, 400).await;
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM runs").unwrap();
    let began = Instant::now();
    store.delete_thread(&"t0".into(), NOW).await.unwrap();
    store.delete_thread(&"t1".into(), NOW).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
    reader.execute_batch("ROLLBACK").unwrap();
    let is_cut = || bytes_of(&wal_of(&path)) == 0 && bytes_of(&path) < 2 * 400 * 1_024;
    assert!(!is_cut());
    while !is_cut() {
        assert!(began.elapsed() < Duration::from_secs(60), "the files are not cut");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_preview_is_the_beginning_of_a_long_answer() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    for (thread, content) in [("short", "ü".to_owned()), ("long", "😀".repeat(100_000)), ("empty", String::new())] {
        let lease = start(&store, thread, thread).await;
        let mut commit = Commit::new(thread.into(), lease, NOW, 0);
        commit.messages = vec![NewMessage { role: "assistant".to_owned(), content }];
        store.commit(commit).await.unwrap();
    }
    let cards = store.cards(CardFilter { limit: 10, ..CardFilter::default() }).await.unwrap();
    let mut previews: Vec<String> = cards.into_iter().map(|card| card.preview).collect();
    previews.sort();
    assert_eq!(previews, [String::new(), "ü".to_owned(), "😀".repeat(200)]);
}

#[tokio::test]
async fn a_deletion_cut_short_is_whole_and_finished_later() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    fill(&store, 1, 4_000).await;
    let thread: ThreadId = "t0".into();
    // Left as soon as it is begun, with the sweeping still to do.
    let _ = begin(&mut store.delete_thread(&thread, NOW)).await;
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(store.thread(&thread).await, Ok(None));
    assert_eq!(store.runs(RunFilter::default()).await, Ok(vec![]));
    assert!(bytes_of(&path) > 4_000 * 1_024);

    // The names are free although the rows are still there.
    let lease = start(&store, "t0", "r0").await;
    assert!(store.commit(line("r0", &lease, 0, "anew")).await.is_ok());
    assert_eq!(store.messages(&thread, 0, 1).await, Ok(vec![]));
    store.retain(Retention::KeepLast(u64::MAX), NOW).await.unwrap();
    assert!(bytes_of(&path) < 200 * 1_024, "{} bytes are left", bytes_of(&path));
    assert_eq!(journal(&store, "r0").await, ["anew"]);
}

#[tokio::test]
async fn databases_are_small() {
    for (steps, bytes_max) in [(500_u64, 500_000), (10_000, 10_000 * 200 * 3)] {
        let (_folder, path) = folder();
        let store = open(&path).unwrap();
        let lease = start(&store, "t", "r").await;
        for seq in 0..steps {
            store.commit(line("r", &lease, seq, &"x".repeat(200))).await.unwrap();
        }
        drop(store);
        assert!(bytes_of(&path) <= bytes_max, "{steps} steps of 200 bytes made {} bytes", bytes_of(&path));
    }
}

#[tokio::test]
async fn r8_a_database_of_the_first_schema_is_brought_up_to_date_with_all_that_is_in_it() {
    let (_folder, path) = folder();
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL").unwrap();
    raw.execute_batch(include_str!("../src/sqlite/migrations/1.sql")).unwrap();
    raw.execute_batch(
        "INSERT INTO threads (id, name, title, messages, created_ms, updated_ms, fence) VALUES (7, 't', 'why?', 1, 1, 2, 3);
         INSERT INTO runs (id, name, thread, flow, title, status, created_ms, updated_ms) VALUES (9, 'r', 7, 'flow', 'why?', 'done', 1, 2);
         INSERT INTO messages (thread, seq, run, role, content, created_ms) VALUES (7, 0, 9, 'user', 'why?', 2);
         PRAGMA application_id = 1113683054; PRAGMA user_version = 1",
    )
    .unwrap();
    drop(raw);
    let store = open(&path).unwrap();
    assert_eq!(store.messages(&"t".into(), 0, 9).await.unwrap()[0].content, "why?");
    assert_eq!(store.thread(&"t".into()).await.unwrap().unwrap().user, Some(UserId::default()), "there was one user");
    assert_eq!(store.stored_bytes(&UserId::default()).await.unwrap(), 4);
    let lease = claim(&store, "t", "me", NOW).await.unwrap();
    let mut commit = Commit::new("n".into(), lease, NOW, 0);
    commit.new = Some(NewRun { flow: "flow".to_owned(), parent: None, title: String::new(), user: UserId::default() });
    let (kind, key, value) = ("plan".to_owned(), "k".into(), "v".into());
    commit.notes = vec![NewNote { user: UserId::default(), flow: "flow".into(), reach: NoteScope::User, kind, key, value, until_ms: UNTIL }];
    store.commit(commit).await.unwrap();
    drop(store);
    let store = open(&path).unwrap();
    let filter = NoteFilter { user: UserId::default(), flow: None, thread: None, now_ms: NOW, limit: 9 };
    assert_eq!(store.notes(filter).await.unwrap().len(), 1, "what was learnt outlives the process");
}

/// Only the owner may read the database: a new one, and one that was made readable.
#[cfg(unix)]
#[tokio::test]
async fn only_its_account_can_read_a_database() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = folder();
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for _ in 0..2 {
        let store = open(&path).unwrap();
        claim(&store, "t", "me", NOW).await.unwrap();
        for ending in ["", "-wal", "-shm"] {
            assert_eq!(mode(&beside(ending)), 0o600, "{ending}");
        }
        drop(store);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// As a database of schema 6 had it: without definitions and scopes.
#[tokio::test]
async fn a_permission_of_an_older_database_allows_nothing_until_it_is_given_again() {
    let (_folder, path) = folder();
    drop(open(&path).unwrap());
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(
        "ALTER TABLE permissions DROP COLUMN definition; ALTER TABLE tokens DROP COLUMN scope; PRAGMA user_version = 6;
         INSERT INTO permissions (user, scope, name, created_ms) VALUES ('ada', 'tool', 'notes.add', 1);",
    )
    .unwrap();
    drop(raw);
    let store = open(&path).unwrap();
    let ada = UserId::from("ada");
    let old = store.permissions(&ada).await.unwrap().remove(0);
    let now = graph::ToolDefinition { description: "d".into(), ..graph::ToolDefinition::default() };
    assert_eq!((old.definition.clone(), old.check(&now)), (None, baton_store::PermissionCheck::Unbound));
    let again = baton_store::NewPermission { user: ada.clone(), grant: old.grant.clone(), definition: Some(now.clone()), created_ms: 2 };
    assert_eq!(store.keep_permission(again).await.unwrap(), old.permission);
    assert_eq!(store.permissions(&ada).await.unwrap().remove(0).check(&now), baton_store::PermissionCheck::Valid);
}

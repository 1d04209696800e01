//! The one place that touches the store's way of writing; promises say only what they are about.

use std::sync::Arc;

use baton_store::{Commit, Intent, Lease, NewMessage, NewRun, NewSnapshot, NoteFilter, Result, RunFilter, Store};
use graph::{Key, RunId, TaskId, ThreadId, UserId};

pub(crate) type TestStore = Arc<dyn Store>;

/// When things happen unless a promise has another time; leases are claimed for a thousand from then.
pub(crate) const NOW: i64 = 1_000;
pub(crate) const UNTIL: i64 = 2_000;

pub(crate) fn run_id(name: &str) -> RunId {
    name.into()
}

pub(crate) fn thread_id(name: &str) -> ThreadId {
    name.into()
}

pub(crate) fn task(step: u64, index: u32) -> TaskId {
    TaskId { step, index }
}

pub(crate) fn intent(step: u64, index: u32, attempt: u32) -> Intent {
    let key = Key::of(&thread_id("t"), &run_id("r"), task(step, index));
    Intent { task: task(step, index), attempt, key }
}

pub(crate) fn message(role: &str, content: &str) -> NewMessage {
    NewMessage { role: role.to_owned(), content: content.to_owned() }
}

pub(crate) fn snapshot(entries: u64, bytes: &[u8]) -> NewSnapshot {
    NewSnapshot { entries, bytes: bytes.to_vec() }
}

pub(crate) fn new_run(title: &str) -> NewRun {
    NewRun { flow: "flow".to_owned(), parent: None, title: title.to_owned(), user: UserId::default() }
}

pub(crate) async fn claim(home: &TestStore, thread: &str, owner: &str) -> Lease {
    home.claim(&thread_id(thread), owner, NOW, UNTIL).await.unwrap()
}

/// Writes to one run and counts its lines.
pub(crate) struct RunWriter {
    pub(crate) home: TestStore,
    pub(crate) run: RunId,
    pub(crate) lease: Lease,
    pub(crate) next_seq: u64,
    pub(crate) at_ms: i64,
}

impl RunWriter {
    /// Claims the thread for "me" and makes the run, with no lines yet.
    pub(crate) async fn start(home: &TestStore, thread: &str, run: &str) -> RunWriter {
        let lease = claim(home, thread, "me").await;
        RunWriter::start_at(home, lease, run, NOW, |_| {}).await
    }

    pub(crate) async fn start_at(home: &TestStore, lease: Lease, run: &str, at_ms: i64, fill: impl FnOnce(&mut Commit)) -> RunWriter {
        let mut writer = RunWriter { home: home.clone(), run: run_id(run), lease, next_seq: 0, at_ms };
        writer
            .write(|commit| {
                commit.new = Some(new_run(run));
                fill(commit);
            })
            .await
            .unwrap();
        writer
    }

    /// The run's next moment. The lines are counted only if it was written.
    pub(crate) async fn write(&mut self, fill: impl FnOnce(&mut Commit)) -> Result<()> {
        let mut commit = Commit::new(self.run.clone(), self.lease.clone(), self.at_ms, self.next_seq);
        fill(&mut commit);
        let lines = commit.lines.len() as u64;
        self.home.commit(commit).await?;
        self.next_seq += lines;
        Ok(())
    }

    pub(crate) async fn lines<const N: usize>(&mut self, lines: [&str; N]) -> Result<()> {
        self.write(|commit| commit.lines = lines.iter().map(|line| line.as_bytes().to_vec()).collect()).await
    }
}

/// The text of a run's journal.
pub(crate) async fn journal(home: &TestStore, run: &str) -> Vec<String> {
    let lines = home.journal(&run_id(run), 0, usize::MAX).await.unwrap();
    for (seq, line) in lines.iter().enumerate() {
        assert_eq!(line.seq, seq as u64, "the lines of {run} have a gap");
    }
    lines.into_iter().map(|line| String::from_utf8(line.bytes).unwrap()).collect()
}

pub(crate) async fn run_names(home: &TestStore, filter: RunFilter) -> Vec<String> {
    home.runs(filter).await.unwrap().into_iter().map(|row| row.run.to_string()).collect()
}

pub(crate) async fn thread_names(home: &TestStore) -> Vec<String> {
    home.threads(None, usize::MAX).await.unwrap().into_iter().map(|row| row.thread.to_string()).collect()
}

/// Everything there is to see, to compare whether anything has changed.
pub(crate) async fn everything(home: &TestStore) -> String {
    let mut all = Vec::new();
    for row in home.threads(None, usize::MAX).await.unwrap() {
        all.push(format!("{row:?} {:?}", home.messages(&row.thread, 0, usize::MAX).await.unwrap()));
    }
    for row in home.runs(RunFilter { limit: usize::MAX, ..RunFilter::default() }).await.unwrap() {
        let (journal, snapshot) = (home.journal(&row.run, 0, usize::MAX).await.unwrap(), home.snapshot(&row.run).await.unwrap());
        all.push(format!("{row:?} {journal:?} {snapshot:?} {:?}", home.intents(&row.run).await.unwrap()));
    }
    for user in ["local", "ada"] {
        let filter = NoteFilter { user: user.into(), flow: None, thread: None, now_ms: i64::MIN, limit: usize::MAX };
        all.push(format!("{user} {:?} {:?}", home.notes(filter).await.unwrap(), home.preferences(&user.into()).await.unwrap()));
        all.push(format!("{user} {:?}", home.permissions(&user.into()).await.unwrap()));
    }
    for owner in ["me", "you"] {
        all.push(format!("{owner} {:?}", home.signals(owner).await.unwrap()));
    }
    all.join("\n")
}

//! Irreversible facts: started attempts, external effects, journalled replies. It survives every cut, and records violations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use effects::Repeatability;
use graph::{Entry, Job, Key, Reply, RunId, TaskId};
use store::Commit;

#[derive(Default)]
pub struct Ledger(Mutex<Books>);

#[derive(Default)]
struct Books {
    /// The last attempt at each task whose reply is in a journal.
    answered: BTreeMap<(RunId, TaskId), u32>,
    intended: BTreeSet<(RunId, TaskId, u32)>,
    begun: BTreeMap<(Key, u32), u32>,
    happened: BTreeMap<Key, (u32, Reply)>,
    performances: u64,
    troubles: Vec<String>,
}

/// What a commit will record if it is written.
pub struct PendingRecord {
    run: RunId,
    replied: Vec<(TaskId, u32)>,
    intended: Vec<(TaskId, u32)>,
}

impl Ledger {
    pub fn read(&self, commit: &Commit) -> PendingRecord {
        let replied = commit.lines.iter().filter_map(|line| match Entry::decode(line) {
            Ok(Entry::Replied { task, attempt, .. }) => Some((task, attempt)),
            Ok(_) => None,
            Err(e) => {
                self.trouble(format!("a line was written that cannot be read: {e}"));
                None
            }
        });
        let intended = commit.intents.iter().map(|intent| (intent.task, intent.attempt));
        PendingRecord { run: commit.run.clone(), replied: replied.collect(), intended: intended.collect() }
    }

    pub fn journalled(&self, noted: PendingRecord) {
        let mut books = self.books();
        for (task, attempt) in noted.replied {
            if let Some(before) = books.answered.insert((noted.run.clone(), task), attempt)
                && before >= attempt
            {
                books.troubles.push(format!("{} {task}: attempt {attempt} was journalled after attempt {before}", noted.run));
            }
        }
        for (task, attempt) in noted.intended {
            books.intended.insert((noted.run.clone(), task, attempt));
        }
    }

    /// An attempt begins; records a violation if it is not allowed.
    pub fn begin(&self, job: &Job, repeatability: Repeatability) {
        let mut books = self.books();
        books.performances += 1;
        let place = (job.run.clone(), job.task);
        let what = || format!("{} {} ({} {}) attempt {}", job.run, job.task, job.effect.kind(), job.effect.name(), job.attempt);
        if books.answered.get(&place).is_some_and(|&last| last >= job.attempt) {
            books.troubles.push(format!("{} was performed after its reply was journalled", what()));
        }
        let times = books.begun.entry((job.key, job.attempt)).or_default();
        *times += 1;
        let again = *times > 1;
        match repeatability {
            Repeatability::Repeatable => {}
            Repeatability::Checkable | Repeatability::Once => {
                if again && repeatability == Repeatability::Once {
                    books.troubles.push(format!("{} was begun twice, and no person was asked", what()));
                }
                if !books.intended.contains(&(place.0, place.1, job.attempt)) {
                    books.troubles.push(format!("{} was begun without an intent in the store", what()));
                }
            }
        }
    }

    /// An external effect happened.
    pub fn happen(&self, key: Key, reply: &Reply) {
        let mut books = self.books();
        let change = books.happened.entry(key).or_insert_with(|| (0, reply.clone()));
        change.0 += 1;
        if change.0 > 1 {
            books.troubles.push(format!("the effect {key} happened twice"));
        }
    }

    /// Its result, if it happened.
    pub fn happened(&self, key: Key) -> Option<Reply> {
        self.books().happened.get(&key).map(|(_, reply)| reply.clone())
    }

    pub fn trouble(&self, words: String) {
        self.books().troubles.push(words);
    }

    pub fn troubles(&self) -> Vec<String> {
        self.books().troubles.clone()
    }

    pub fn performances(&self) -> u64 {
        self.books().performances
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

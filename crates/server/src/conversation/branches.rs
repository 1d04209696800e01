//! Branches of a conversation: each run of a thread is a turn, and follows the run before it unless a record names the one it follows.
//!
//! ```text
//!   a ── b ── c          b2 follows a: it replaces b, and the messages of b and c are not part of its history
//!    └── b2 ── d
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use graph::{Message, RunId};
use store::{RunFilter, Store, StoreError, ThreadRow};
use tokio::sync::Mutex;

use super::{keep, kept};
use crate::problem::Problem;

pub(crate) const KIND: &str = "thread.branches";
/// Runs of one thread that are looked at, the newest.
const RUNS_MAX: usize = 2_000;
const BRANCHES_MAX: usize = 1_000;
/// Latest messages of a thread that are looked at, and how many of them at once.
const MESSAGES_READ_MAX: u64 = 2_000;
const MESSAGES_STEP: u64 = 100;
/// What is given to a flow, as the engine limits it for a thread without branches.
const MESSAGES_MAX: usize = 200;
const HISTORY_BYTES_MAX: usize = 64 << 10;
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The run that each of these follows, `""` at the beginning.
pub(crate) type Predecessors = BTreeMap<String, String>;

/// Only one branch at a time is added to a record.
static ADDING: Mutex<()> = Mutex::const_new(());

pub(crate) async fn of(store: &dyn Store, thread: &ThreadRow) -> Result<Predecessors, StoreError> {
    kept(store, KIND, thread).await
}

pub(crate) async fn add(store: &dyn Store, thread: &ThreadRow, run: &RunId, after: &str) -> Result<(), Problem> {
    let _adding = ADDING.lock().await;
    let mut all = of(store, thread).await?;
    if all.len() >= BRANCHES_MAX {
        return Err(Problem::conflict(format!("this conversation has {BRANCHES_MAX} branches already; start a new one")));
    }
    all.insert(run.to_string(), after.to_owned());
    keep(store, KIND, thread, &all).await
}

/// The runs of a thread, oldest first.
pub(crate) async fn runs(store: &dyn Store, thread: &ThreadRow) -> Result<Vec<RunId>, StoreError> {
    let filter =
        RunFilter { thread: Some(thread.thread.clone()), roots_only: true, limit: RUNS_MAX, outcome_bytes_max: Some(0), ..RunFilter::default() };
    Ok(store.runs(filter).await?.into_iter().rev().map(|row| row.run).collect())
}

/// The turns up to a run, oldest first. Empty for `""`.
pub(crate) fn lineage(runs: &[RunId], after: &Predecessors, last: &str) -> Vec<RunId> {
    let places: HashMap<&str, usize> = runs.iter().enumerate().map(|(place, run)| (run.as_str(), place)).collect();
    let mut all = Vec::new();
    let mut at = places.get(last).copied();
    while let Some(index) = at {
        all.push(runs[index].clone());
        at = match after.get(runs[index].as_str()) {
            // What a run follows is older than the run, so that this ends.
            Some(parent) => places.get(parent.as_str()).copied().filter(|place| *place < index),
            None => index.checked_sub(1),
        };
    }
    all.reverse();
    all
}

/// The turns of the newest branch.
pub(crate) async fn newest(store: &dyn Store, thread: &ThreadRow) -> Result<Vec<RunId>, StoreError> {
    let (runs, after) = (runs(store, thread).await?, of(store, thread).await?);
    Ok(runs.last().map(|last| lineage(&runs, &after, last.as_str())).unwrap_or_default())
}

/// The messages up to a run, for a run that follows it. `None` if the thread has no such run.
pub(crate) async fn history(store: &dyn Store, thread: &ThreadRow, last: &str) -> Result<Option<Vec<Message>>, StoreError> {
    let (runs, after) = (runs(store, thread).await?, of(store, thread).await?);
    let turns = lineage(&runs, &after, last);
    if turns.is_empty() {
        return Ok(last.is_empty().then(Vec::new));
    }
    let turns: HashSet<RunId> = turns.into_iter().collect();
    let oldest = thread.messages.saturating_sub(MESSAGES_READ_MAX);
    let (mut bytes, mut end) = (0, thread.messages);
    let mut messages: Vec<Message> = Vec::new();
    // From the newest back, until there is enough.
    'steps: while end > oldest {
        let from = end.saturating_sub(MESSAGES_STEP).max(oldest);
        let rows = store.messages(&thread.thread, from, (end - from) as usize).await?;
        for row in rows.into_iter().rev().filter(|row| turns.contains(&row.run)) {
            let mut content = row.content;
            content.truncate(content.floor_char_boundary(MESSAGE_BYTES_MAX));
            bytes += content.len();
            if bytes > HISTORY_BYTES_MAX || messages.len() == MESSAGES_MAX {
                break 'steps;
            }
            messages.push(Message { role: row.role, content });
        }
        end = from;
    }
    messages.reverse();
    Ok(Some(messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_has_the_turns_before_it_and_none_beside_it() {
        let runs: Vec<RunId> = ["a", "b", "c", "b2", "d", "a2"].map(RunId::from).into();
        let after = Predecessors::from([("b2", "a"), ("a2", "")].map(|(run, after)| (run.to_owned(), after.to_owned())));
        for (last, expected) in [("c", "a b c"), ("d", "a b2 d"), ("a2", "a2"), ("", ""), ("x", "")] {
            let turns: Vec<String> = lineage(&runs, &after, last).iter().map(ToString::to_string).collect();
            assert_eq!(turns.join(" "), expected, "{last}");
        }
        // A record that names a later run, or itself, does not make a circle.
        let after = Predecessors::from([("b", "c"), ("c", "c")].map(|(run, after)| (run.to_owned(), after.to_owned())));
        assert_eq!(lineage(&runs, &after, "c").len(), 1);
    }
}

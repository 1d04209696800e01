//! Deletes threads: one by name, or those that a retention does not keep.

use graph::ThreadId;

use super::{Tables, index};
use crate::{DeletionReport, Retention};

impl Tables {
    /// All threads, most recently used first.
    pub(super) fn by_use(&self) -> Vec<((i64, u64), ThreadId)> {
        let mut all: Vec<_> = self.threads.iter().map(|(id, thread)| (thread.place(), id.clone())).collect();
        all.sort_unstable_by_key(|(place, _)| std::cmp::Reverse(*place));
        all
    }

    pub(super) fn retain(&mut self, retention: Retention, now_ms: i64) -> DeletionReport {
        let by_use = self.by_use().into_iter();
        let past: Vec<_> = match retention {
            Retention::KeepLast(count) => by_use.skip(index(count)).collect(),
            Retention::KeepSince { ms } => by_use.filter(|((updated_ms, _), _)| *updated_ms < ms).collect(),
        };
        let mut freed = DeletionReport::default();
        for (_, id) in past {
            let Some(thread) = self.threads.get(&id) else { continue };
            let is_unfinished = thread.runs.iter().any(|run| self.runs.get(run).is_some_and(|run| !run.row.status.is_over()));
            if !is_unfinished && self.holder(thread, now_ms).is_none() {
                self.delete(&id, &mut freed);
            }
        }
        freed
    }

    pub(super) fn delete(&mut self, id: &ThreadId, freed: &mut DeletionReport) {
        let Some(thread) = self.threads.remove(id) else { return };
        self.notes.retain(|_, note| note.row.thread != *id);
        self.permissions.retain(|_, (_, row)| row.grant.thread() != Some(id));
        self.fence_floor = self.fence_floor.max(thread.fence);
        freed.threads += 1;
        freed.deleted.push(id.clone());
        for id in thread.runs {
            if let Some(run) = self.runs.remove(&id) {
                self.made.remove(&run.number);
                freed.runs += 1;
            }
        }
        self.signals.retain(|_, signal| self.runs.contains_key(&signal.run));
    }
}

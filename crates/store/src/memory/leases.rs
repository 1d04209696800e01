//! Which process holds a thread, and until when.

use graph::{RunId, ThreadId};

use super::{Tables, Thread};
use crate::{Lease, Result, StoreError};

impl Tables {
    pub(super) fn claim(&mut self, id: &ThreadId, owner: &str, now_ms: i64, until_ms: i64) -> Result<Lease> {
        if let Some(thread) = self.threads.get(id)
            && let Some((holder, until_ms)) = self.holder(thread, now_ms)
            && holder != owner
        {
            return Err(StoreError::Held { thread: id.clone(), owner: holder, until_ms });
        }
        match self.owners.get_mut(owner) {
            // Claiming one thread for a shorter time must not shorten the others.
            Some(until) => *until = until_ms.max(*until),
            None => {
                self.owners.insert(owner.to_owned(), until_ms);
            }
        }
        let thread = self.threads.entry(id.clone()).or_insert_with(|| {
            self.threads_made += 1;
            Thread {
                number: self.threads_made,
                user: None,
                title: String::new(),
                messages: Vec::new(),
                runs: Vec::new(),
                created_ms: now_ms,
                updated_ms: now_ms,
                fence: self.fence_floor,
                holder: None,
            }
        });
        if thread.holder.as_deref() != Some(owner) {
            thread.holder = Some(owner.to_owned());
            thread.fence += 1;
        }
        Ok(Lease { thread: id.clone(), owner: owner.to_owned(), fence: thread.fence })
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if let Some(thread) = self.threads.get_mut(&lease.thread).filter(|thread| thread.is_held_with(lease)) {
            thread.holder = None;
        }
    }

    /// The holder of a thread whose lease has not expired, and until when.
    pub(super) fn holder(&self, thread: &Thread, now_ms: i64) -> Option<(String, i64)> {
        let owner = thread.holder.as_ref()?;
        let until_ms = *self.owners.get(owner)?;
        (until_ms >= now_ms).then(|| (owner.clone(), until_ms))
    }

    pub(super) fn is_driven_by(&self, run: &RunId, owner: &str) -> bool {
        let thread = self.runs.get(run).and_then(|run| self.threads.get(&run.row.thread));
        thread.is_some_and(|thread| thread.holder.as_deref() == Some(owner))
    }
}

//! Messages of a thread, read in small steps, so that a long thread is never in memory as a whole.

use graph::ThreadId;
use store::{MessageRow, Store, StoreError};

/// Messages that are read at once.
const STEP: usize = 50;

/// From a number on, in order: until there are `count_max`, or until they have `bytes_max` bytes. One is returned however large it is.
pub(crate) async fn page(
    store: &dyn Store,
    thread: &ThreadId,
    from_seq: u64,
    count_max: usize,
    bytes_max: usize,
) -> Result<Vec<MessageRow>, StoreError> {
    let mut steps = Steps::from(from_seq);
    let (mut all, mut bytes) = (Vec::new(), 0);
    while let Some(step) = steps.next(store, thread, count_max - all.len()).await? {
        for row in step {
            bytes += row.content.len();
            if bytes > bytes_max && !all.is_empty() {
                return Ok(all);
            }
            all.push(row);
        }
    }
    Ok(all)
}

/// All messages from a number on, a few at a time.
pub(crate) struct Steps {
    next_seq: u64,
}

impl Steps {
    pub(crate) fn from(from_seq: u64) -> Steps {
        Steps { next_seq: from_seq }
    }

    /// `None` after the last one, or if none is wanted.
    pub(crate) async fn next(&mut self, store: &dyn Store, thread: &ThreadId, count_max: usize) -> Result<Option<Vec<MessageRow>>, StoreError> {
        if count_max == 0 {
            return Ok(None);
        }
        let rows = store.messages(thread, self.next_seq, count_max.min(STEP)).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        self.next_seq = last.seq + 1;
        Ok(Some(rows))
    }
}

//! The end of a conversation, read back from its last message, so that a long thread is never in memory as a whole.

use crate::{MessageRow, Result, Store, ThreadRow};

/// Messages that are read at once; each may have megabytes.
const STEP: u64 = 8;

/// The newest messages of a thread, oldest first: none before `from_seq`, and none before those that have `bytes_max` bytes together, of which each counts for
/// `message_bytes_max` at most.
pub async fn newest_messages(
    store: &dyn Store,
    thread: &ThreadRow,
    from_seq: u64,
    bytes_max: usize,
    message_bytes_max: usize,
) -> Result<Vec<MessageRow>> {
    let (mut newest, mut bytes, mut end) = (Vec::new(), 0, thread.messages);
    while end > from_seq && bytes < bytes_max {
        let from = end.saturating_sub(STEP).max(from_seq);
        let step = store.messages(&thread.thread, from, (end - from) as usize).await?;
        for row in step.into_iter().rev() {
            if bytes >= bytes_max {
                break;
            }
            bytes += row.content.len().min(message_bytes_max);
            newest.push(row);
        }
        end = from;
    }
    newest.reverse();
    Ok(newest)
}

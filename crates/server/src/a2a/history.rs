//! The messages of a task, and the context as its client names it: a document beside the run. The run does not depend on it.

use graph::UserId;
use serde::{Deserialize, Serialize};
use wire::a2a::{Message, Part};

use super::A2a;
use super::task::agent_message;
use crate::problem::{Problem, StatusCode};
use crate::records;

pub(crate) const KIND: &str = "a2a.task";
/// Messages of a task that are kept; the first and the newest.
const MESSAGES_MAX: usize = 100;
/// Bytes of the messages of a task, as JSON; a document of the store has at most twice as many.
const MESSAGES_BYTES_MAX: usize = 2 << 20;
const _: () = assert!(MESSAGES_BYTES_MAX * 2 <= store::RECORD_BYTES_MAX);
/// Documents that are removed at once when a user has as many as there may be.
const DROPPED: usize = 1_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) context: String,
    pub(super) messages: Vec<Message>,
    /// Messages after the first one that are not kept.
    #[serde(default)]
    left_out: u64,
}

impl History {
    pub(super) fn new(context: &str, message: Message) -> History {
        History { context: context.to_owned(), messages: vec![message], left_out: 0 }
    }

    pub(super) fn has(&self, message: &str) -> bool {
        self.messages.iter().any(|known| known.message_id == message)
    }

    pub(super) fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// The messages as a client gets them. If some were left out, a message states that.
    pub(super) fn shown(self, run: &str) -> Vec<Message> {
        let mut messages = self.messages;
        if self.left_out > 0 && !messages.is_empty() {
            let mark = format!(
                "{} messages are left out here: of a task, the first message and the newest are kept, up to {MESSAGES_MAX} messages and {MESSAGES_BYTES_MAX} bytes",
                self.left_out
            );
            messages.insert(1, agent_message(run, "left-out", &mark));
        }
        messages
    }

    /// Leaves out what is more than is kept.
    fn fit(&mut self) {
        let mut sizes: Vec<usize> = self.messages.iter().map(|message| serde_json::to_vec(message).map_or(0, |json| json.len())).collect();
        let mut bytes: usize = sizes.iter().sum();
        let mut removed = 0;
        while sizes.len() - removed > 2 && (bytes > MESSAGES_BYTES_MAX || sizes.len() - removed > MESSAGES_MAX) {
            removed += 1;
            bytes -= sizes[removed];
        }
        if removed > 0 {
            self.messages.drain(1..=removed);
            sizes.drain(1..=removed);
            self.left_out += removed as u64;
        }
        if bytes > MESSAGES_BYTES_MAX {
            for (message, size) in self.messages.iter_mut().zip(sizes).filter(|(_, size)| *size > MESSAGES_BYTES_MAX / 2) {
                let mark = format!("this message of {size} bytes is not kept: a task keeps {MESSAGES_BYTES_MAX} bytes of messages");
                message.parts = vec![Part::text(mark, "text/plain")];
                (message.metadata, message.extensions, message.reference_task_ids) = (None, Vec::new(), Vec::new());
            }
        }
    }
}

pub(super) async fn get(a2a: &A2a, user: &UserId, run: &str) -> Result<Option<History>, Problem> {
    Ok(records::get(a2a.store(), user, KIND, run).await?.map(|stored| stored.value))
}

/// Keeps it. Where there are too many, the oldest are forgotten: their tasks stay, without their history.
pub(super) async fn put(a2a: &A2a, user: &UserId, run: &str, history: &mut History) -> Result<(), Problem> {
    history.fit();
    match records::put(a2a.store(), user, KIND, run, history).await {
        Err(problem) if problem.status == StatusCode::INSUFFICIENT_STORAGE => {}
        stored => return stored,
    }
    for (_, key) in records::by_age(a2a.store(), user, KIND).await?.into_iter().take(DROPPED) {
        records::remove(a2a.store(), user, KIND, &key).await?;
    }
    records::put(a2a.store(), user, KIND, run, history).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: usize, bytes: usize) -> Message {
        Message { message_id: format!("m{id}"), parts: vec![Part::text("x".repeat(bytes), "")], ..Message::default() }
    }

    fn texts(history: History) -> Vec<String> {
        history.shown("run").into_iter().map(|message| message.parts[0].text.clone().unwrap_or_default()).collect()
    }

    #[test]
    fn what_is_too_long_is_left_out_with_a_mark_and_the_first_and_the_newest_stay() {
        let mut history = History::new("c", message(0, 400_000));
        for id in 1..60 {
            history.push(message(id, 400_000));
            history.fit();
        }
        assert!(serde_json::to_vec(&history).unwrap().len() <= store::RECORD_BYTES_MAX);
        assert!(history.has("m0") && history.has("m59") && history.has("m58") && !history.has("m1"));
        let (stored, shown) = (history.messages.len(), texts(history));
        assert_eq!((stored, shown.len()), (5, 6));
        assert!(shown[1].starts_with("55 messages are left out"), "{}", shown[1]);

        let mut many = History::new("c", message(0, 10));
        (1..=MESSAGES_MAX).for_each(|id| many.push(message(id, 10)));
        many.fit();
        assert_eq!((many.messages.len(), many.left_out, many.has("m0"), many.has("m1")), (MESSAGES_MAX, 1, true, false));

        let mut long = History::new("c", message(0, 5 << 20));
        long.push(message(1, 100));
        long.fit();
        let shown = texts(long);
        assert!(shown[0].starts_with("this message of 5242") && shown[1].len() == 100, "{}", shown[0]);
        assert_eq!(texts(History::new("c", message(0, 10))).len(), 1, "no mark without need");
    }
}

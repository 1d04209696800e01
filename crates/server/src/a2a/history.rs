//! What was said in a task, and the context as its client names it: a document beside the run. The run is whole without it.

use graph::UserId;
use serde::{Deserialize, Serialize};
use wire::a2a::Message;

use super::A2a;
use crate::problem::{Problem, StatusCode};
use crate::records;

pub(crate) const KIND: &str = "a2a.task";
/// Messages of a task that are kept; the first and the newest.
const MESSAGES_MAX: usize = 100;
/// Documents that give way at once when a user has as many as there may be.
const DROPPED: usize = 1_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) context: String,
    pub(super) messages: Vec<Message>,
}

impl History {
    pub(super) fn has(&self, message: &str) -> bool {
        self.messages.iter().any(|known| known.message_id == message)
    }

    pub(super) fn push(&mut self, message: Message) {
        if self.messages.len() >= MESSAGES_MAX {
            self.messages.remove(1);
        }
        self.messages.push(message);
    }
}

pub(super) async fn get(a2a: &A2a, user: &UserId, run: &str) -> Result<Option<History>, Problem> {
    Ok(records::get(a2a.store(), user, KIND, run).await?.map(|kept| kept.value))
}

/// Keeps it. Where there are too many, the oldest are forgotten: their tasks stay, without their history.
pub(super) async fn put(a2a: &A2a, user: &UserId, run: &str, history: &History) -> Result<(), Problem> {
    match records::put(a2a.store(), user, KIND, run, history).await {
        Err(problem) if problem.status == StatusCode::INSUFFICIENT_STORAGE => {}
        kept => return kept,
    }
    let mut all = records::list::<serde_json::Value>(a2a.store(), user, KIND, "").await?;
    all.sort_by_key(|kept| kept.updated_ms);
    for kept in all.iter().take(DROPPED) {
        records::remove(a2a.store(), user, KIND, &kept.key).await?;
    }
    records::put(a2a.store(), user, KIND, run, history).await
}

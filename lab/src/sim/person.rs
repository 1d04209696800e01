//! The person: answers every question deterministically, and checks the external state before deciding about an unknown outcome.

use engine::{Delivery, Engine, EngineError};
use graph::{Key, RunId, Waiting};
use serde_json::{Value, json};
use store::{RunRow, Status};

use super::asks::{CANCEL_ME, CANCEL_ROOT};
use super::dice::{hash, mix};

/// What the person can find out about an effect: its result, if it happened.
pub type LookOutside = dyn Fn(Key) -> Option<Value> + Send + Sync;

pub struct Person<'a> {
    pub seed: u64,
    pub outside: &'a LookOutside,
    /// Whether exited processes are undetected, so that messages are posted to them.
    pub may_have_posted: bool,
    pub is_loud: bool,
}

/// The person's action.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// There was nothing to do.
    None,
    Taken,
    /// Posted a message to a process that holds the run, or did when it was killed.
    Posted,
}

/// An open question and its run.
struct Open<'a> {
    row: &'a RunRow,
    waiting: Waiting,
}

impl Person<'_> {
    /// Does one thing about runs that only a person can move: decides unknown outcomes first, answers next, and cancels runs only when
    /// nothing else is left, so that the result of a cancellation is deterministic.
    pub async fn act(&self, engine: &Engine, rows: &[RunRow], is_at_rest: bool) -> Result<Act, String> {
        let mut open = Vec::new();
        for row in rows.iter().filter(|row| matches!(row.status, Status::Asking | Status::Waiting)) {
            let waiting = engine.waiting(&row.run).await.map_err(|e| format!("the questions of {} cannot be read: {e}", row.run))?;
            open.extend(waiting.into_iter().map(|waiting| Open { row, waiting }));
        }
        open.sort_by_key(|open| (!open.is_doubt(), open.cancels(), open.row.run.clone(), open.waiting.task));
        let Some(first) = open.first() else { return Ok(Act::None) };
        let prompt = &first.waiting.question.prompt;
        if self.is_loud {
            eprintln!("       person: {} {}: {prompt}", first.row.run, first.waiting.task);
        }
        if first.cancels() && !is_at_rest {
            return Ok(Act::None);
        }
        if first.cancels() {
            let run = if prompt.contains(CANCEL_ROOT) { root_of(rows, &first.row.run) } else { first.row.run.clone() };
            return match engine.cancel(&run, "a person had enough").await {
                Ok(delivery) => Ok(delivery.into()),
                // The end is recorded, but has not reached the descendants yet; the engine does that.
                Err(EngineError::Over { .. }) => Ok(Act::None),
                Err(e) => Err(format!("{run} cannot be cancelled: {e}")),
            };
        }
        let answer = if first.is_doubt() { self.verdict(first) } else { self.answer(prompt) };
        let send_answer = || engine.answer(&first.row.run, first.waiting.task, first.waiting.attempt, answer.clone());
        let delivery = match send_answer().await {
            Ok(delivery) => delivery,
            // A message posted to an exited process has just reached its successor.
            Err(EngineError::Over { .. }) if self.may_have_posted => return Ok(Act::Taken),
            Err(e) => return Err(format!("{} {} cannot be answered: {e}", first.row.run, first.waiting.task)),
        };
        if mix(&[self.seed, hash(prompt.as_bytes())]).is_multiple_of(4) {
            // Requests are repeated, like a double click.
            match send_answer().await {
                Ok(_) | Err(EngineError::Over { .. }) => {}
                Err(e) => return Err(format!("{} {}: the second, equal answer was not ignored: {e}", first.row.run, first.waiting.task)),
            }
        }
        Ok(delivery.into())
    }

    fn verdict(&self, open: &Open<'_>) -> Value {
        match (self.outside)(Key::of(&open.row.thread, &open.row.run, open.waiting.task)) {
            Some(value) => json!({ "verdict": "done", "value": value }),
            None => json!({ "verdict": "again" }),
        }
    }

    fn answer(&self, prompt: &str) -> Value {
        let number = mix(&[self.seed, 8, hash(prompt.as_bytes())]);
        json!({ "approve": number.is_multiple_of(8) || self.seed.is_multiple_of(2), "n": number % 100, "text": format!("yes {}", number % 7) })
    }
}

impl From<Delivery> for Act {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Taken => Act::Taken,
            Delivery::Posted => Act::Posted,
        }
    }
}

impl Open<'_> {
    fn is_doubt(&self) -> bool {
        self.waiting.question.schema.as_ref().is_some_and(|schema| schema["properties"].get("verdict").is_some())
    }

    fn cancels(&self) -> bool {
        !self.is_doubt() && [CANCEL_ME, CANCEL_ROOT].iter().any(|word| self.waiting.question.prompt.contains(word))
    }
}

fn root_of(rows: &[RunRow], run: &RunId) -> RunId {
    match rows.iter().find(|row| row.run == *run).and_then(|row| row.parent.as_ref()) {
        Some(parent) => root_of(rows, parent),
        None => run.clone(),
    }
}

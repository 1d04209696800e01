//! Events as lines: a step, and under it what was asked and what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::{Effect, Event, Outcome, Reply, TaskId};
use serde_json::Value;

use crate::text::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, one_line, paint, tail, took};

/// Reads events in order and remembers what is open.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) open: BTreeMap<TaskId, Open>,
    /// What the flow last said to the thread.
    pub(crate) said: Option<String>,
}

/// An effect that has no answer yet.
pub(crate) struct Open {
    pub(crate) label: String,
    pub(crate) effect: Arc<Effect>,
    pub(crate) attempt: u32,
}

const NOTE_CHARS_MAX: usize = 90;
const LABEL_CHARS_MAX: usize = 60;

impl Lines {
    /// The lines an event is worth: none for most beginnings, since the end tells more.
    pub(crate) fn of(&mut self, event: &Event) -> Vec<String> {
        match event {
            Event::Started { run, flow, .. } => vec![format!("{} {} {}", paint(DIM, "run"), paint(BOLD, tail(run)), paint(DIM, flow))],
            Event::Left { .. } => Vec::new(),
            Event::Entered { step, node } => {
                self.open.clear();
                vec![format!("{} {}", paint(DIM, format!("{step:>3}")), paint(BOLD, node))]
            }
            Event::Asked { task, attempt, label, effect, .. } => {
                let label = match label.trim() {
                    "" => format!("{} {}", effect.kind(), effect.name()),
                    label => one_line(label, LABEL_CHARS_MAX),
                };
                let line = effect.is_for_a_person().then(|| under(&paint(YELLOW, "?"), &label));
                self.open.insert(*task, Open { label, effect: effect.clone(), attempt: *attempt });
                line.into_iter().collect()
            }
            Event::Replied { task, attempt, reply, again_ms } => {
                let label = match again_ms {
                    Some(_) => self.open.get(task).map(|open| open.label.clone()),
                    None => self.open.remove(task).map(|open| open.label),
                };
                vec![replied(&label.unwrap_or_else(|| task.to_string()), *attempt, reply, *again_ms)]
            }
            Event::Skipped { task, failure } => {
                let label = self.open.remove(task).map_or_else(|| task.to_string(), |open| open.label);
                vec![under(&paint(DIM, "–"), &format!("{label}  {}", paint(DIM, one_line(&failure.to_string(), NOTE_CHARS_MAX))))]
            }
            Event::Doubted { task, .. } => {
                let label = self.open.get(task).map_or_else(|| task.to_string(), |open| open.label.clone());
                vec![under(&paint(YELLOW, "?"), &format!("{label}  {}", paint(YELLOW, "nobody knows whether this happened")))]
            }
            Event::Held { task, why, .. } => {
                let label = self.open.get(task).map_or_else(|| task.to_string(), |open| open.label.clone());
                vec![under(&paint(YELLOW, "?"), &format!("{label}  {}", paint(YELLOW, one_line(why, NOTE_CHARS_MAX))))]
            }
            Event::Noted { name, value, .. } => {
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                vec![under(&paint(CYAN, "·"), &paint(DIM, format!("{name}: {}", one_line(&value, NOTE_CHARS_MAX))))]
            }
            Event::Said { content, .. } => {
                self.said = Some(content.clone());
                Vec::new()
            }
            Event::Edited { patch, .. } => vec![under(&paint(YELLOW, "±"), &format!("edited: {}", one_line(&patch.to_string(), NOTE_CHARS_MAX)))],
            Event::Ended { outcome } => vec![ended(outcome)],
        }
    }
}

pub(crate) fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { .. } => format!("  {} done", paint(GREEN, "✓")),
        Outcome::Failed { fault } => format!("  {} failed: {fault}", paint(RED, "✗")),
        Outcome::Cancelled { reason } => format!("  {} cancelled: {reason}", paint(DIM, "–")),
    }
}

fn replied(label: &str, attempt: u32, reply: &Reply, again_ms: Option<u64>) -> String {
    // What a person does is not timed.
    let time = if reply.took_us == 0 { String::new() } else { paint(DIM, took(reply.took_us)) };
    let tries = if attempt > 1 { paint(DIM, format!("  attempt {attempt}")) } else { String::new() };
    match (&reply.result, again_ms) {
        (Ok(_), _) => under(&paint(GREEN, "✓"), &format!("{label}  {time}{tries}")),
        (Err(failure), Some(ms)) => {
            let why = one_line(&failure.to_string(), NOTE_CHARS_MAX);
            under(&paint(YELLOW, "↻"), &format!("{label}  {time}{tries}  {}", paint(DIM, format!("{why}; again in {ms} ms"))))
        }
        (Err(failure), None) => {
            let why = one_line(&failure.to_string(), NOTE_CHARS_MAX);
            under(&paint(RED, "✗"), &format!("{label}  {time}{tries}  {}", paint(RED, why)))
        }
    }
}

pub(crate) fn under(mark: &str, text: &str) -> String {
    format!("    {mark} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Failure, FailureKind};

    /// As it looks without colours.
    fn lines(events: &[Event]) -> Vec<String> {
        let mut lines = Lines::default();
        let painted: Vec<String> = events.iter().flat_map(|event| lines.of(event)).collect();
        painted.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn a_step_is_told_by_what_became_of_it() {
        let task = TaskId { step: 0, index: 0 };
        let asked =
            |attempt| Event::Asked { task, attempt, label: "searching".into(), effect: Arc::new(graph::tool("search", Value::Null)), after_ms: 0 };
        let busy = Reply::failed(Failure::new(FailureKind::Tool, "busy").retry()).taking_us(2_000);
        let told = [
            Event::Entered { step: 0, node: "look_up".into() },
            asked(1),
            Event::Replied { task, attempt: 1, reply: Arc::new(busy.clone()), again_ms: Some(20) },
            asked(2),
            Event::Replied { task, attempt: 2, reply: Arc::new(Reply::ok("x").taking_us(7)), again_ms: None },
            Event::Noted { step: 0, name: "found".into(), value: Value::from(3) },
            Event::Replied { task, attempt: 2, reply: Arc::new(busy), again_ms: None },
        ];
        assert_eq!(
            lines(&told),
            [
                "  0 look_up",
                "    ↻ searching  2.0 ms  tool: busy; again in 20 ms",
                "    ✓ searching  7 µs  attempt 2",
                "    · found: 3",
                "    ✗ 0.0  2.0 ms  attempt 2  tool: busy",
            ]
        );
    }
}

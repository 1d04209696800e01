//! What lists show of runs whose outcome is long. Reading and parsing megabytes of outcomes for each list is most of its work, and an outcome that is there does not
//! change, so what is shown of the newest is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use graph::RunId;
use serde_json::Value;
use store::RunRow;

/// Outcomes that are kept; each has at most a hundred short fields.
const KEPT_MAX: usize = 4_096;
const FIELDS_MAX: usize = 100;
const FIELD_BYTES_MAX: usize = 200;

#[derive(Default)]
pub(crate) struct ShortOutcomes(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    outcomes: HashMap<RunId, (i64, Value)>,
    /// The oldest first.
    order: VecDeque<RunId>,
}

impl ShortOutcomes {
    /// What is shown of the outcome of this run, if it was put here and the run has not changed since.
    pub(crate) fn get(&self, row: &RunRow) -> Option<Value> {
        let kept = self.lock();
        kept.outcomes.get(&row.run).filter(|(updated_ms, _)| *updated_ms == row.updated_ms).map(|(_, outcome)| outcome.clone())
    }

    /// Shortens an outcome and keeps it.
    pub(crate) fn put(&self, row: &RunRow, outcome: Value) -> Value {
        let short = shortened(outcome);
        let mut kept = self.lock();
        if kept.outcomes.insert(row.run.clone(), (row.updated_ms, short.clone())).is_none() {
            kept.order.push_back(row.run.clone());
        }
        while kept.order.len() > KEPT_MAX {
            let oldest = kept.order.pop_front();
            oldest.and_then(|oldest| kept.outcomes.remove(&oldest));
        }
        short
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An outcome with the short fields of its output.
fn shortened(mut outcome: Value) -> Value {
    let is_short = |field: &Value| match field {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.len() <= FIELD_BYTES_MAX,
        Value::Array(_) | Value::Object(_) => false,
    };
    match outcome.get_mut("output") {
        Some(Value::Object(fields)) => {
            let mut count = 0;
            fields.retain(|name, field| {
                let is_kept = is_short(field) && name.len() <= FIELD_BYTES_MAX && count < FIELDS_MAX;
                count += usize::from(is_kept);
                is_kept
            });
        }
        Some(output) if !is_short(output) => *output = Value::Null,
        _ => {}
    }
    outcome
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::Status;

    use super::*;

    fn row(run: &str, updated_ms: i64) -> RunRow {
        RunRow {
            run: run.into(),
            thread: "t".into(),
            flow: "direct".into(),
            parent: None,
            title: String::new(),
            status: Status::Done,
            outcome: None,
            created_ms: 0,
            updated_ms,
        }
    }

    #[test]
    fn a_long_outcome_keeps_its_short_fields_and_its_cost() {
        let outcome = json!({ "outcome": "done", "output": { "answer": "x".repeat(1_000), "intent": "search", "sources": [1], "n": 1 }, "spent": { "calls": 3 }, "elapsed_us": 7 });
        assert_eq!(
            shortened(outcome),
            json!({ "outcome": "done", "output": { "intent": "search", "n": 1 }, "spent": { "calls": 3 }, "elapsed_us": 7 })
        );
        assert_eq!(shortened(json!({ "outcome": "done", "output": "x".repeat(1_000) })), json!({ "outcome": "done", "output": null }));
        let failed = json!({ "outcome": "failed", "fault": { "kind": "flow" } });
        assert_eq!(shortened(failed.clone()), failed);
        let many: serde_json::Map<String, Value> = (0..50_000).map(|n| (format!("f{n}"), json!(n))).collect();
        assert_eq!(shortened(json!({ "output": many }))["output"].as_object().unwrap().len(), FIELDS_MAX);
    }

    #[test]
    fn the_newest_are_kept_until_their_run_changes() {
        let kept = ShortOutcomes::default();
        assert_eq!(kept.get(&row("r", 1)), None);
        kept.put(&row("r", 1), json!({ "outcome": "done", "output": "x".repeat(1_000) }));
        assert_eq!(kept.get(&row("r", 1)), Some(json!({ "outcome": "done", "output": null })));
        assert_eq!(kept.get(&row("r", 2)), None, "it was resumed");
        for number in 0..KEPT_MAX {
            kept.put(&row(&number.to_string(), 1), json!({}));
        }
        assert_eq!(kept.get(&row("r", 1)), None, "the oldest");
        let kept = kept.lock();
        assert_eq!((kept.outcomes.len(), kept.order.len()), (KEPT_MAX, KEPT_MAX));
    }
}

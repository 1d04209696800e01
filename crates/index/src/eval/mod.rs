//! Retrieval quality on public data sets: `docs` measures passages, `tools` measures tools.

mod docs;
mod tools;

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use docs::{QuestionSet, docs, exam};
pub use tools::tools;

/// Result of one data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Share of relevant items among the first five, mean over the questions.
    pub recall_at_5: f64,
    /// Share of relevant items among the first ten.
    pub recall_at_10: f64,
    /// Share of relevant items among the first twenty.
    pub recall_at_20: f64,
    /// Share of questions with all relevant items among the first ten.
    pub complete_at_10: f64,
    /// Number of questions.
    pub queries: usize,
    /// Mean time of a question in milliseconds.
    pub ms_per_query: f64,
    /// Median time of a question in milliseconds.
    pub ms_per_query_median: f64,
    /// Number of passages or tools searched.
    pub items: usize,
    /// Time to index all items, without vectors.
    pub index_seconds: f64,
    /// Whether vectors of all items were used.
    pub vectors: bool,
    /// Speed of the vectors; `None` without vectors.
    pub vectors_per_second: Option<f32>,
    /// For tools: the share among those shown to a planner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall_shown: Option<f64>,
    /// For tools: the same after the tool-search steps of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall_searched: Option<f64>,
    /// Relevant items that are not in the set; excluded from every share.
    pub absent: usize,
}

/// Compares results with the relevant items. Questions without any are skipped.
fn measure<T: Eq + Hash>(questions: &[(String, HashSet<T>)], mut find: impl FnMut(&str) -> Result<Vec<T>, String>) -> Result<Measured, String> {
    let mut measured = Measured::default();
    let mut times: Vec<Duration> = Vec::new();
    for (question, gold) in questions.iter().filter(|(_, gold)| !gold.is_empty()) {
        let began = Instant::now();
        let found = find(question)?;
        times.push(began.elapsed());
        let within = |count: usize| found.iter().take(count).filter(|item| gold.contains(item)).collect::<HashSet<_>>().len();
        let share = |count: usize| within(count) as f64 / gold.len() as f64;
        measured.recall_at_5 += share(5);
        measured.recall_at_10 += share(10);
        measured.recall_at_20 += share(20);
        measured.complete_at_10 += f64::from(u8::from(within(10) == gold.len()));
    }
    if times.is_empty() {
        return Err("there are no questions in it".into());
    }
    let count = times.len() as f64;
    for sum in [&mut measured.recall_at_5, &mut measured.recall_at_10, &mut measured.recall_at_20, &mut measured.complete_at_10] {
        *sum /= count;
    }
    measured.queries = times.len();
    measured.ms_per_query = times.iter().sum::<Duration>().as_secs_f64() * 1000.0 / count;
    times.sort();
    measured.ms_per_query_median = times[times.len() / 2].as_secs_f64() * 1000.0;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted() {
        let questions = vec![("a".to_owned(), HashSet::from([1, 2])), ("b".into(), HashSet::from([7])), ("none".into(), HashSet::new())];
        let found = |question: &str| Ok(if question == "a" { vec![1, 1, 9, 9, 9, 2] } else { (10..30).chain([7]).collect() });
        let measured = measure(&questions, found).unwrap();
        assert_eq!((measured.recall_at_5, measured.recall_at_10, measured.recall_at_20, measured.complete_at_10), (0.25, 0.5, 0.5, 0.5));
        assert_eq!(measured.queries, 2);
        assert!(measure::<u32>(&[], |_| Ok(Vec::new())).is_err());
    }
}

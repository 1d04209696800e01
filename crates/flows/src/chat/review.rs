//! The columns `reviewed_summary` and `insights` of the specification's CSV, computed from the rows when they are shown.
//!
//! - `reviewed_summary`: the sentences of the summary that the summarized results support; `review_confidence`: the share of its statements
//!   they support.
//! - `insights`: what the turn's results add to the results of earlier turns, in their own sentences; `insights_confidence`: the confidence
//!   of the results they were taken from. For an answer about the conversation, which has no results: how much of it the conversation
//!   supports.
//!
//! No language model is called, and cells that already have a value are left unchanged. The verifier, if there is one, is used in addition
//! to the rules.

use evidence::{Checked, Entailment, Judged, Options, Span, Spans, Status, Trust};

use super::Row;
use super::stages::RESPONSES_MAX;

/// Maximum number of sentences in `insights`.
const INSIGHTS_MAX: usize = 3;
/// Earlier rows that a turn is compared with; without a bound, an export would take time quadratic in the turns.
const EARLIER_ROWS_MAX: usize = 50;
const SOURCE: &str = "conversation";

/// Fills the empty cells of `reviewed_summary` and `insights` of a row, with their confidences, given the rows before it.
pub fn review(row: &mut Row, earlier: &[Row], verifier: Option<&dyn Entailment>) {
    let earlier = &earlier[earlier.len().saturating_sub(EARLIER_ROWS_MAX)..];
    review_summary(row, earlier, verifier);
    find_insights(row, earlier, verifier);
}

fn check(text: &str, spans: &Spans<'_>, verifier: Option<&dyn Entailment>) -> Checked {
    let judged = verifier.and_then(|verifier| Judged::by(verifier, text, spans));
    spans.check(text, &Options { judged: judged.as_ref(), ..Options::default() })
}

fn has_results(row: &Row) -> bool {
    results(row).next().is_some()
}

/// The texts that a row holds.
fn results(row: &Row) -> impl Iterator<Item = &str> {
    [row.search_results.as_str(), row.summary.as_str()].into_iter().filter(|text| !text.trim().is_empty())
}

fn spans<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<Span> {
    texts.flat_map(|text| evidence::found(SOURCE, Trust::Untrusted, text, None).spans).collect()
}

fn review_summary(row: &mut Row, earlier: &[Row], verifier: Option<&dyn Entailment>) {
    if row.summary.trim().is_empty() || !row.reviewed_summary.trim().is_empty() {
        return;
    }
    let summarized = earlier.iter().rev().filter(|row| has_results(row)).take(RESPONSES_MAX).flat_map(results);
    let found = Some(row.search_results.as_str()).filter(|text| !text.trim().is_empty());
    let spans = spans(summarized.chain(found));
    if spans.is_empty() {
        return;
    }
    let checked = check(&row.summary, &Spans::new(&spans), verifier);
    let supported = checked.sentences.iter().filter(|sentence| sentence.status == Status::Supported);
    let reviewed: Vec<&str> = supported.filter_map(|sentence| row.summary.get(sentence.range.clone())).map(str::trim).collect();
    let confidence = rounded(checked.supported_rate());
    row.reviewed_summary = reviewed.join(" ");
    row.review_confidence = Some(confidence);
}

fn find_insights(row: &mut Row, earlier: &[Row], verifier: Option<&dyn Entailment>) {
    let known = spans(earlier.iter().flat_map(results));
    let known = Spans::new(&known);
    if !row.insights.trim().is_empty() {
        let is_about_conversation = !has_results(row) && row.insights_confidence.is_none() && !earlier.is_empty();
        if is_about_conversation {
            let sources = spans(earlier.iter().flat_map(|row| std::iter::once(row.query.as_str()).chain(results(row))));
            row.insights_confidence = Some(rounded(check(&row.insights, &Spans::new(&sources), verifier).supported_rate()));
        }
        return;
    }
    let (text, confidence) = match (row.reviewed_summary.trim().is_empty(), row.search_results.trim().is_empty()) {
        (false, _) => (row.reviewed_summary.as_str(), row.review_confidence),
        (true, false) => (row.search_results.as_str(), row.search_confidence),
        (true, true) => return,
    };
    let is_new = |status: Status| status == Status::Weak || status.is_refused();
    let checked = check(text, &known, verifier);
    let new =
        checked.sentences.iter().filter(|sentence| is_new(sentence.status)).map(|sentence| sentence.text.trim()).filter(|text| !text.is_empty());
    let insights: Vec<&str> = new.take(INSIGHTS_MAX).collect();
    if !insights.is_empty() {
        let insights = insights.join("\n");
        row.insights_confidence = confidence;
        row.insights = insights;
    }
}

/// A share of a few sentences has no more than two significant digits.
fn rounded(share: f32) -> f64 {
    (f64::from(share) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(rows: &mut [Row]) {
        for index in 0..rows.len() {
            let (earlier, rest) = rows.split_at_mut(index);
            super::review(&mut rest[0], earlier, None);
        }
    }

    fn searched(turn: u64, query: &str, text: &str) -> Row {
        Row { query: query.into(), turn, search_results: text.into(), search_confidence: Some(0.8), ..Row::default() }
    }

    #[test]
    fn c10_a_summary_is_reviewed_against_what_it_summarizes() {
        let mut rows = vec![
            searched(1, "Where is the light?", "The lighthouse of Hook stands in Ireland. It was built in 1172."),
            searched(2, "How tall is it?", "The tower of Hook is 35 metres tall."),
            Row {
                query: "Summarize".into(),
                turn: 3,
                summary: "The lighthouse of Hook stands in Ireland. Its tower is 99 metres tall.".into(),
                summary_confidence: Some(0.7),
                ..Row::default()
            },
        ];
        review(&mut rows);
        assert_eq!(rows[2].reviewed_summary, "The lighthouse of Hook stands in Ireland.");
        assert_eq!(rows[2].review_confidence, Some(0.5));
        assert_eq!((rows[0].reviewed_summary.as_str(), rows[0].review_confidence), ("", None), "nothing was summarized");
        // If no sentence is supported, the text is empty and the confidence is 0.
        rows[2] = Row { summary: "The tower is 99 metres tall.".into(), ..Row::default() };
        review(&mut rows);
        assert_eq!((rows[2].reviewed_summary.as_str(), rows[2].review_confidence), ("", Some(0.0)));
    }

    #[test]
    fn c10_insights_are_what_a_turn_adds() {
        let mut rows = vec![
            searched(1, "Where is the light?", "The lighthouse of Hook stands in Ireland."),
            searched(2, "How tall is it?", "The lighthouse of Hook stands in Ireland. The tower is 35 metres tall."),
            Row {
                query: "What did I ask?".into(),
                turn: 3,
                insights: "You asked: Where is the light? It is painted green in 2021.".into(),
                ..Row::default()
            },
        ];
        review(&mut rows);
        assert_eq!((rows[0].insights.as_str(), rows[0].insights_confidence), ("The lighthouse of Hook stands in Ireland.", Some(0.8)));
        assert_eq!((rows[1].insights.as_str(), rows[1].insights_confidence), ("The tower is 35 metres tall.", Some(0.8)));
        assert!(rows[2].insights_confidence.is_some_and(|confidence| confidence < 1.0), "{:?}", rows[2]);
        // Existing values stay, and a second call changes nothing.
        let before = rows.clone();
        review(&mut rows);
        assert_eq!(rows, before);
        let mut own = vec![Row { insights: "mine".into(), insights_confidence: Some(0.1), ..searched(1, "q", "Hook is 35 metres tall.") }];
        review(&mut own);
        assert_eq!((own[0].insights.as_str(), own[0].insights_confidence), ("mine", Some(0.1)));
    }
}

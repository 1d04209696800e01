//! Prints what the rules find about claims, for fitting their weights beside a model: `signals < claims.jsonl > signals.jsonl`.
//!
//! Input line: `{"claim", "evidence": [texts]}`. Output line: `[supported, number, date, name, negation, opposite, swapped, decisive,
//! score]`, each 0 or 1 except the score of the rules; decisive are quotations and addresses that no text has, and claims that are not
//! checked.

use std::io::{BufRead as _, Write as _};

use baton_evidence::{ClaimStatus, Claimed, ProblemKind, Span, decide};
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line?)?;
        let claim = line["claim"].as_str().ok_or("a line has no claim")?;
        let texts = line["evidence"].as_array().ok_or("a line has no evidence")?;
        let spans: Vec<Span> = texts
            .iter()
            .filter_map(Value::as_str)
            .map(|text| Span { text: text.to_owned(), source: "signals".to_owned(), ..Span::default() })
            .collect();
        let found = decide(&[Claimed { text: claim, spans: &spans }], None).remove(0);
        let has = |kind: ProblemKind| {
            // An undecided limit has the weight of a missing number.
            let is_like = |found: ProblemKind| found == kind || kind == ProblemKind::Number && found == ProblemKind::Undecided;
            found.problems.iter().any(|problem| is_like(problem.kind))
        };
        let is_decisive = has(ProblemKind::Quotation) || has(ProblemKind::Address) || found.status == ClaimStatus::NotChecked;
        let kinds = [ProblemKind::Number, ProblemKind::Date, ProblemKind::Name, ProblemKind::Negation, ProblemKind::Opposite, ProblemKind::Swapped];
        let signals = [found.status == ClaimStatus::Supported].into_iter().chain(kinds.map(has)).chain([is_decisive]);
        let signals: Vec<String> = signals.map(|is_there| u8::from(is_there).to_string()).collect();
        writeln!(out, "[{}, {:.4}]", signals.join(", "), found.score)?;
    }
    Ok(())
}

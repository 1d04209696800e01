//! Shared test helpers: spans of texts, and a scripted model.

use crate::entail::{DecisionWeights, Entailment, Judgement, Pair};
use crate::span::Span;

pub(crate) const WEIGHTS: DecisionWeights = DecisionWeights {
    model: 1.0,
    constant: 0.0,
    supported: 2.0,
    number: -4.0,
    date: -4.0,
    name: -1.0,
    negation: -1.0,
    opposite: -1.0,
    swapped: -1.0,
};

pub(crate) fn spans(texts: &[&str]) -> Vec<Span> {
    texts.iter().map(|text| Span { text: (*text).to_owned(), source: "test".to_owned(), ..Span::default() }).collect()
}

/// Supports texts with "good" and contradicts texts with "bad".
pub(crate) struct Scripted;

impl Entailment for Scripted {
    fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement> {
        let one = |pair: &Pair<'_>| {
            let supported = if pair.evidence.contains("good") { 0.9 } else { 0.05 };
            Judgement { supported, contradicted: if pair.evidence.contains("bad") { 0.9 } else { 0.0 } }
        };
        pairs.iter().map(one).collect()
    }

    fn weights(&self) -> DecisionWeights {
        WEIGHTS
    }
}

//! Contradictions between passages of different sources.
//!
//! Sentences with the same names that share most of their words are candidates; a model judges each in both directions, and both must be
//! contradictions. Passages often differ without a contradiction (two seasons of a club, two albums), so candidates are few and the
//! threshold is high; `lab/train/MODEL_CARD.md` has the measured false alarms.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::decide::text_of;
use crate::entail::{Judgement, Pair};
use crate::language::is_english;
use crate::overlap::stems;
use crate::sentences::sentences;
use crate::span::{Form, Span};
use crate::spans::Spans;

/// Two spans that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The spans, from 1.
    pub spans: (usize, usize),
    /// The sentence of each.
    pub sentences: (String, String),
}

/// A pair of sentences to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    conflict: Conflict,
    /// The sentences with the titles of their spans.
    texts: (String, String),
}

/// Sentences that are compared with each other.
const SENTENCES_MAX: usize = 200;
const CANDIDATES_MAX: usize = 12;
/// Significant words that two sentences about the same thing share, and their share of all words of both: one fact may differ, not three.
const SHARED_MIN: usize = 3;
const SHARE_MIN: f32 = 0.65;
/// First words of a sentence whose subject is elsewhere.
const PRONOUNS: [&str; 12] = ["it", "its", "he", "his", "she", "her", "they", "their", "this", "these", "that", "there"];
const STEMS_MIN: usize = 4;
/// Probability from which a contradiction is reported, in each direction.
const CONTRADICTED_MIN: f32 = 0.9;

pub(crate) fn candidates(spans: &Spans<'_>) -> Vec<Candidate> {
    let prose = spans.all().iter().enumerate().filter(|(_, span)| span.form == Form::Text && is_english(&span.text));
    let parts = prose.flat_map(|(at, span)| sentences(&span.text).into_iter().map(move |range| (at, span, span.text[range].trim())));
    let parts: Vec<(usize, &Span, &str, HashSet<String>)> = parts
        .map(|(at, span, text)| (at, span, text, stems(text)))
        .filter(|(_, _, text, stems)| stems.len() >= STEMS_MIN && names(text).is_some())
        .take(SENTENCES_MAX)
        .collect();
    let mut found: Vec<(f32, Candidate)> = Vec::new();
    for (index, (a, span_a, text_a, stems_a)) in parts.iter().enumerate() {
        for (b, span_b, text_b, stems_b) in &parts[index + 1..] {
            let is_one_source = a == b || (span_a.address == span_b.address && span_a.title == span_b.title);
            let shared = stems_a.intersection(stems_b).count();
            let share = shared as f32 / stems_a.union(stems_b).count() as f32;
            if is_one_source || shared < SHARED_MIN || share < SHARE_MIN || stems_a == stems_b || names(text_a) != names(text_b) {
                continue;
            }
            let titled = |span: &Span, text: &str| text_of(&Span { text: text.to_owned(), ..span.clone() });
            let conflict = Conflict { spans: (a + 1, b + 1), sentences: ((*text_a).to_owned(), (*text_b).to_owned()) };
            found.push((share, Candidate { conflict, texts: (titled(span_a, text_a), titled(span_b, text_b)) }));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(CANDIDATES_MAX).map(|(_, candidate)| candidate).collect()
}

/// The capitalized words except the first; `None` for a sentence without names or with a leading pronoun.
fn names(text: &str) -> Option<BTreeSet<&str>> {
    let mut words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let first = words.next()?.to_lowercase();
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with(char::is_uppercase)).collect();
    (!names.is_empty() && !PRONOUNS.contains(&first.as_str())).then_some(names)
}

impl Candidate {
    /// Each direction once.
    pub(crate) const PAIRS: usize = 2;

    pub(crate) fn pairs(&self) -> [Pair<'_>; Self::PAIRS] {
        let (a, b) = (self.texts.0.as_str(), self.texts.1.as_str());
        [Pair { evidence: a, claim: b }, Pair { evidence: b, claim: a }]
    }

    pub(crate) fn judged(self, judgements: &[Judgement]) -> Option<Conflict> {
        (judgements.len() == Self::PAIRS && judgements.iter().all(|one| one.contradicted >= CONTRADICTED_MIN)).then_some(self.conflict)
    }
}

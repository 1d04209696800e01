//! A model's judgements about the sentences of one answer, and the questions for them.
//!
//! ```text
//!   answer, spans ── Questions::of ──▶ pairs ── a model, elsewhere ──▶ judgements ── Questions::judged ──▶ Options::judged ──▶ check, cite
//! ```
//!
//! The questions depend only on the answer and the spans, so a caller that keeps those two needs to store only the judgements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::{Options, Problem, ProblemKind, Sentence, Status};
use crate::cite::tidied;
use crate::claim::claim;
use crate::conflict::{Candidate, Conflict, candidates};
use crate::decide::{CombinedScore, DecidedBy, EvidenceForm, Finding, ModelVerdict, SUPPORTED_MIN, WEAK_MIN, text_of};
use crate::entail::{DecisionWeights, Entailment, Judgement, Pair};
use crate::judge::{ClaimTerms, Verdict, excerpt};
use crate::language::is_english;
use crate::sentences::{Kind, Unit, units};
use crate::span::Form;
use crate::spans::Spans;
use crate::words::Scanner;

/// Maximum number of pairs of one answer; further sentences are checked by the rules alone.
const PAIRS_MAX: usize = 256;
/// Spans judged for a sentence beside those it cites.
const NEAREST_MAX: usize = 3;
/// Spans judged for a sentence without citations.
const LOOKED_UP_MAX: usize = 5;

/// A sentence, and its spans, from 1.
type Key = (String, Vec<usize>);

/// Pairs for a model: each sentence of an answer with the spans it cites and the nearest ones, whole and as an excerpt, and the cited ones
/// together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    asked: Vec<(Key, String)>,
    /// Sentences of different spans that may contradict each other.
    candidates: Vec<Candidate>,
}

/// Judgements by sentence and spans, and a language model's decisions about single sentences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    found: BTreeMap<Key, Judgement>,
    weights: DecisionWeights,
    decisions: BTreeMap<String, ModelDecision>,
    conflicts: Vec<Conflict>,
}

/// The configured language model's decision about one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelDecision {
    /// The decision.
    pub verdict: ModelWord,
    /// The span that supports or contradicts it, from 1.
    #[serde(default)]
    pub source: Option<usize>,
}

/// The words with which a language model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelWord {
    /// The source states the sentence.
    Supported,
    /// The source states the contrary.
    Contradicted,
    /// The source does not state the sentence.
    NotSupported,
}

/// The score of a language model's decision, which has no probability.
const MODEL_SCORE: f32 = 0.9;

impl ModelDecision {
    pub(crate) fn verdict(&self, coverage: f32) -> Verdict {
        let (status, score, problem) = match (self.verdict, self.source) {
            (ModelWord::Supported, _) => (Status::Supported, MODEL_SCORE, None),
            (ModelWord::Contradicted, Some(number)) => (Status::Contradicted, 1.0 - MODEL_SCORE, Some(contrary(number))),
            (ModelWord::Contradicted, None) => {
                let words = "the sources state the contrary".to_owned();
                (Status::Contradicted, 1.0 - MODEL_SCORE, Some(Problem { kind: ProblemKind::Contradicted, words, what: String::new() }))
            }
            (ModelWord::NotSupported, _) => {
                let words = "the model found no support in the sources".to_owned();
                (Status::Unsupported, 1.0 - MODEL_SCORE, Some(Problem { kind: ProblemKind::Words, words, what: String::new() }))
            }
        };
        let contradicted_by = self.source.filter(|_| status == Status::Contradicted);
        Verdict { status, score, problems: problem.into_iter().collect(), by: DecidedBy::Model, coverage, contradicted_by, verifier: None }
    }
}

fn contrary(number: usize) -> Problem {
    Problem { kind: ProblemKind::Contradicted, words: format!("[{number}] states the contrary"), what: String::new() }
}

/// Scores for which a decision of the verifier is uncertain.
const UNCERTAIN: std::ops::Range<f32> = 0.15..0.7;

impl Questions {
    /// The pairs of sentences and spans of an answer that a model should judge.
    pub fn of(answer: &str, spans: &Spans<'_>) -> Questions {
        let (tidy, _) = tidied(answer, spans);
        let mut scanner = Scanner::default();
        let mut questions = Questions::default();
        for unit in units(&tidy) {
            if unit.kind == Kind::Prose && is_english(&unit.words) {
                questions.add(&unit, spans, &mut scanner);
            }
        }
        questions.asked.truncate(PAIRS_MAX);
        // Conflicting sources matter only if something is based on them.
        if !questions.asked.is_empty() {
            questions.candidates = candidates(spans);
        }
        questions
    }

    fn add(&mut self, unit: &Unit, spans: &Spans<'_>, scanner: &mut Scanner) {
        let claim = claim(unit, scanner);
        if claim.is_empty {
            return;
        }
        let is_prose = |number: &usize| spans.get(*number).is_some_and(|span| span.form == Form::Text);
        let mut cites: Vec<usize> = Vec::new();
        for number in unit.citations.iter().flat_map(|citation| &citation.numbers) {
            if !cites.contains(number) && is_prose(number) {
                cites.push(*number);
            }
        }
        let wanted = ClaimTerms::new(&claim, spans);
        let nearest = spans.nearest_spans(&wanted).into_iter().map(|index| index + 1).filter(is_prose);
        let nearest: Vec<usize> = nearest.take(if cites.is_empty() { LOOKED_UP_MAX } else { NEAREST_MAX }).collect();
        let together = match (cites.as_slice(), nearest.as_slice()) {
            ([], [first, second, ..]) => vec![*first, *second],
            (cites, _) => cites.to_vec(),
        };
        let others = nearest.into_iter().filter(|number| !cites.contains(number));
        let alone: Vec<Vec<usize>> = cites.iter().copied().chain(others).map(|number| vec![number]).collect();
        for numbers in alone.into_iter().chain((together.len() > 1).then_some(together)) {
            let texts: Vec<String> = numbers.iter().filter_map(|number| spans.get(*number)).map(text_of).collect();
            let key = (normalized(&unit.words), numbers);
            let excerpt = match key.1.as_slice() {
                [number] => excerpt(&claim, &wanted, &spans.read[number - 1]),
                _ => None,
            };
            self.asked.push((key.clone(), texts.join(" ")));
            self.asked.extend(excerpt.map(|excerpt| (key, excerpt)));
        }
    }

    /// Whether there is nothing to judge.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The pairs, in the order in which judgements are expected.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        let asked = self.asked.iter().map(|((claim, _), evidence)| Pair { evidence, claim });
        asked.chain(self.candidates.iter().flat_map(Candidate::pairs))
    }

    /// The judgements of `pairs`, in their order; `None` if the number differs.
    pub fn judged(self, judgements: &[Judgement], weights: DecisionWeights) -> Option<Judged> {
        if self.asked.len() + self.candidates.len() * Candidate::PAIRS != judgements.len() {
            return None;
        }
        let (own, between) = judgements.split_at(self.asked.len());
        let conflicts = self.candidates.into_iter().zip(between.chunks(Candidate::PAIRS)).filter_map(|(one, judged)| one.judged(judged)).collect();
        let mut found: BTreeMap<Key, Judgement> = BTreeMap::new();
        for ((key, _), judgement) in self.asked.into_iter().zip(own) {
            found.entry(key).and_modify(|whole| *whole = whole.with_excerpt(*judgement)).or_insert(*judgement);
        }
        Some(Judged { found, weights, decisions: BTreeMap::new(), conflicts })
    }
}

impl Judged {
    /// Judged by a model in this process, for callers that are not flows.
    pub fn by(model: &dyn Entailment, answer: &str, spans: &Spans<'_>) -> Option<Judged> {
        let questions = Questions::of(answer, spans);
        let pairs: Vec<Pair<'_>> = questions.pairs().collect();
        let judgements = model.judge(&pairs);
        questions.judged(&judgements, model.weights())
    }

    /// Sentences of an answer without a certain decision: weakly supported ones, those near the verifier's threshold, and those not checked
    /// because of their language.
    pub fn uncertain(&self, answer: &str, spans: &Spans<'_>) -> Vec<String> {
        let (tidy, _) = tidied(answer, spans);
        let checked = spans.check(&tidy, &Options { judged: Some(self), ..Options::default() });
        let is_open = |sentence: &&Sentence| match sentence.status {
            Status::NoClaim => false,
            Status::Weak | Status::NotChecked => true,
            // Rules that only miss shared words say nothing about the meaning.
            Status::Unsupported if sentence.by == DecidedBy::Rules => {
                !sentence.problems.is_empty() && sentence.problems.iter().all(|problem| problem.kind == ProblemKind::Words)
            }
            Status::Supported | Status::Unsupported | Status::Contradicted => {
                sentence.by == DecidedBy::Verifier && UNCERTAIN.contains(&sentence.score)
            }
        };
        checked.sentences.iter().filter(is_open).map(|sentence| sentence.text.clone()).collect()
    }

    /// Adds a language model's decisions about sentences from [`Judged::uncertain`].
    pub fn with_decisions(mut self, decisions: impl IntoIterator<Item = (String, ModelDecision)>) -> Judged {
        self.decisions.extend(decisions);
        self
    }

    /// The judgements of the parts of one answer over the same spans; `None` if there is none.
    pub fn joined(parts: impl IntoIterator<Item = Judged>) -> Option<Judged> {
        parts.into_iter().reduce(|mut all, part| {
            all.found.extend(part.found);
            all.decisions.extend(part.decisions);
            let new: Vec<Conflict> = part.conflicts.into_iter().filter(|conflict| !all.conflicts.contains(conflict)).collect();
            all.conflicts.extend(new);
            // A part about which only a language model was asked has none.
            if all.weights == DecisionWeights::default() {
                all.weights = part.weights;
            }
            all
        })
    }

    /// Spans that contradict each other.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    pub(crate) fn decision(&self, text: &str) -> Option<&ModelDecision> {
        self.decisions.get(text)
    }

    /// The rules' verdict about a sentence and its spans, combined with the model's; unchanged if the model did not judge all of them.
    pub(crate) fn combined(&self, rules: Verdict, text: &str, numbers: &[usize], evidence: EvidenceForm) -> Verdict {
        let text = normalized(text);
        let one = |numbers: Vec<usize>| self.found.get(&(text.clone(), numbers));
        let alone: Option<Vec<&Judgement>> = numbers.iter().map(|number| one(vec![*number])).collect();
        let Some(alone) = alone.filter(|alone| !alone.is_empty()) else { return rules };
        let mut model = ModelVerdict { supported: one(numbers.to_vec()).map_or(0.0, |all| all.supported), contradicted: 0.0, contradicted_by: None };
        for (number, judgement) in numbers.iter().zip(alone) {
            model.supported = model.supported.max(judgement.supported);
            if judgement.contradicted > model.contradicted {
                (model.contradicted, model.contradicted_by) = (judgement.contradicted, Some(*number));
            }
        }
        let verifier = Some(Judgement { supported: model.supported, contradicted: model.contradicted });
        let finding = Finding { is_supported: rules.status == Status::Supported, problems: &rules.problems, coverage: rules.coverage, evidence };
        let Some(odds) = CombinedScore::of(&finding, &model, &self.weights) else { return Verdict { verifier, ..rules } };
        let coverage = rules.coverage;
        if odds.score >= SUPPORTED_MIN {
            let problems = Vec::new();
            return Verdict { status: Status::Supported, score: odds.score, problems, by: odds.by, coverage, contradicted_by: None, verifier };
        }
        let mut problems = rules.problems;
        problems.extend(odds.contradicted_by.map(contrary));
        let status = match odds.contradicted_by {
            Some(_) => Status::Contradicted,
            None if odds.score >= WEAK_MIN => Status::Weak,
            None => Status::Unsupported,
        };
        Verdict { status, score: odds.score, problems, by: odds.by, coverage, contradicted_by: odds.contradicted_by, verifier }
    }
}

fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::span::Span;
    use crate::testing::{Scripted, WEIGHTS, spans};

    fn judged(answer: &str, spans: &[Span]) -> Judged {
        Judged::by(&Scripted, answer, &Spans::new(spans)).unwrap()
    }

    #[test]
    fn sentences_are_asked_about_with_what_they_cite_and_what_is_near() {
        let spans = spans(&["The ferry leaves at nine.", "The harbour is deep.", "Tickets are sold on board."]);
        let answer = "# Ferries\n\nThe boat departs at nine [1][2]. Tickets are sold on the ferry. Die Fähre ist mit dem Zug und nicht zu Fuß zu erreichen [1].\n\n```\ncode\n```";
        let questions = Questions::of(answer, &Spans::new(&spans));
        let asked: Vec<(&str, &[usize])> = questions.asked.iter().map(|((claim, numbers), _)| (claim.as_str(), numbers.as_slice())).collect();
        let boat = "The boat departs at nine .";
        assert_eq!(&asked[..3], &[(boat, &[1][..]), (boat, &[2]), (boat, &[1, 2])], "{asked:?}");
        assert!(asked[3..].iter().all(|(claim, _)| *claim == "Tickets are sold on the ferry.") && asked.len() == 6, "{asked:?}");
        assert!(questions.clone().judged(&[], WEIGHTS).is_none());
    }

    #[test]
    fn a_judgement_lifts_other_words_lowers_a_contrary_and_leaves_quotations_to_the_rules() {
        let spans = spans(&["good: On mountains, water boils at a lower temperature.", "bad: The harbour stays free of ice all winter."]);
        let answer = "Cooking is slower at altitude [1]. The harbour freezes every winter [2]. She wrote “never in my life again” [1].";
        let judged = judged(answer, &spans);
        let checked = check(answer, &spans, &Options { judged: Some(&judged), ..Options::default() });
        let statuses: Vec<(Status, DecidedBy)> = checked.sentences.iter().map(|sentence| (sentence.status, sentence.by)).collect();
        assert_eq!(
            statuses,
            [(Status::Supported, DecidedBy::Verifier), (Status::Contradicted, DecidedBy::Verifier), (Status::Unsupported, DecidedBy::Rules)]
        );
        let contrary = checked.sentences[1].problems.iter().find(|problem| problem.kind == ProblemKind::Contradicted);
        assert_eq!(contrary.map(|problem| problem.words.as_str()), Some("[2] states the contrary"));
        assert_ne!(check(answer, &spans, &Options::default()).sentences[0].status, Status::Supported);
    }

    #[test]
    fn a_language_model_decides_what_stays_uncertain_and_nothing_else() {
        let spans = spans(&["On mountains, water boils at a lower temperature.", "The bridge is 40 m long."]);
        let answer = "Cooking is slower at altitude [1]. The bridge is 90 m long [2]. Die Brücke über den Fluss ist nicht sehr breit und alt.";
        let all = Spans::new(&spans);
        let judged = Judged::by(&Scripted, answer, &all).unwrap();
        let between = |verdict| ModelDecision { verdict, source: Some(1) };
        // The scripted verifier is certain, so only the sentence in another language is open.
        assert_eq!(judged.uncertain(answer, &all), ["Die Brücke über den Fluss ist nicht sehr breit und alt."]);
        let altitude = "Cooking is slower at altitude .".to_owned();
        for (word, status, by) in [
            (ModelWord::Supported, Status::Supported, None),
            (ModelWord::Contradicted, Status::Contradicted, Some(1)),
            (ModelWord::NotSupported, Status::Unsupported, None),
        ] {
            let judged = judged.clone().with_decisions([(altitude.clone(), between(word))]);
            let checked = check(answer, &spans, &Options { judged: Some(&judged), ..Options::default() });
            let first = &checked.sentences[0];
            assert_eq!((first.status, first.by, first.contradicted_by), (status, DecidedBy::Model, by), "{first:?}");
            assert_eq!(checked.sentences[1].by, DecidedBy::Rules);
        }
    }

    #[test]
    fn sources_that_contradict_each_other_are_reported_where_the_answer_rests_on_one() {
        let mut spans = spans(&[
            "bad: The ferry to Aran leaves the harbour at nine every morning.",
            "bad: The ferry to Aran leaves the harbour at noon every morning.",
            "Tickets for the museum are sold in the hall.",
        ]);
        for (at, span) in spans.iter_mut().enumerate() {
            span.title = Some(format!("Page {at}"));
        }
        let cited = |answer: &str| {
            let judged = Judged::by(&Scripted, answer, &Spans::new(&spans)).unwrap();
            assert_eq!(judged.conflicts().len(), 1, "{:?}", judged.conflicts());
            crate::cite::cite(answer, &Spans::new(&spans), crate::cite::Strict::Mark, &Options { judged: Some(&judged), ..Options::default() })
        };
        let about = cited("The ferry to Aran leaves the harbour at nine every morning [1].");
        assert_eq!((about.conflicts.len(), about.conflicts[0].spans, about.sources.len()), (1, (1, 2), 2));
        assert!(
            about.body.contains("**The sources disagree:**\n\n- “bad: The ferry to Aran leaves the harbour at nine every morning.” [1], but"),
            "{}",
            about.body
        );
        let other = cited("Tickets for the museum are sold in the hall [3].");
        assert!(other.conflicts.is_empty() && !other.body.contains("disagree"), "{}", other.body);
    }
}

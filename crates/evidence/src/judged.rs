//! Judgements of a model about the sentences of one answer, and the questions it has to be asked for them.
//!
//! ```text
//!   answer, spans ── Questions::of ──▶ pairs ── a model, elsewhere ──▶ judgements ── Questions::judged ──▶ Options::judged ──▶ check, cite
//! ```
//!
//! The questions depend on nothing but the answer and the spans, so whoever keeps those two needs to keep only the judgements.

use std::collections::BTreeMap;

use crate::check::{Problem, ProblemKind, Status};
use crate::cite::tidied;
use crate::claim::claim;
use crate::decide::{Finding, ModelVerdict, Odds, SUPPORTED_MIN, WEAK_MIN, text_of};
use crate::entail::{DecisionWeights, Judgement, Pair};
use crate::judge::{Verdict, Wanted};
use crate::language::is_english;
use crate::sentences::{Kind, Unit, units};
use crate::span::Form;
use crate::spans::Spans;
use crate::words::Scanner;

/// Pairs of one answer; sentences beyond them are checked by the rules alone.
const PAIRS_MAX: usize = 256;
/// Spans asked for a sentence beside those that it cites.
const NEAREST_MAX: usize = 3;
/// Spans asked for a sentence that cites none.
const LOOKED_UP_MAX: usize = 5;

/// Which sentence, and which spans together, from 1.
type Key = (String, Vec<usize>);

/// Pairs for a model: each sentence of an answer with the spans it cites and those nearest to it, alone, and the cited ones together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    asked: Vec<(Key, String)>,
}

/// Judgements by sentence and spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    found: BTreeMap<Key, Judgement>,
    weights: DecisionWeights,
}

impl Questions {
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
        let nearest = spans.nearest_spans(&Wanted::new(&claim, spans)).into_iter().map(|index| index + 1).filter(is_prose);
        let nearest: Vec<usize> = nearest.take(if cites.is_empty() { LOOKED_UP_MAX } else { NEAREST_MAX }).collect();
        let together = match (cites.as_slice(), nearest.as_slice()) {
            ([], [first, second, ..]) => vec![*first, *second],
            (cites, _) => cites.to_vec(),
        };
        let others = nearest.into_iter().filter(|number| !cites.contains(number));
        let alone: Vec<Vec<usize>> = cites.iter().copied().chain(others).map(|number| vec![number]).collect();
        for numbers in alone.into_iter().chain((together.len() > 1).then_some(together)) {
            let texts: Vec<String> = numbers.iter().filter_map(|number| spans.get(*number)).map(text_of).collect();
            self.asked.push(((normalized(&unit.words), numbers), texts.join(" ")));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    pub fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        self.asked.iter().map(|((claim, _), evidence)| Pair { evidence, claim })
    }

    /// The judgements of `pairs`, in their order; `None` if there are not as many.
    pub fn judged(self, judgements: &[Judgement], weights: DecisionWeights) -> Option<Judged> {
        (self.asked.len() == judgements.len())
            .then(|| Judged { found: self.asked.into_iter().map(|(key, _)| key).zip(judgements.iter().copied()).collect(), weights })
    }
}

impl Judged {
    /// What the rules found about a sentence and spans of so many words, with what the model found; as it is where the model was not asked about every one of them.
    pub(crate) fn combined(&self, rules: Verdict, text: &str, numbers: &[usize], words: usize) -> Verdict {
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
        let finding =
            Finding { is_supported: rules.status == Status::Supported, problems: &rules.problems, coverage: rules.coverage, evidence_words: words };
        let Some(odds) = Odds::of(&finding, &model, &self.weights) else { return rules };
        let coverage = rules.coverage;
        if odds.score >= SUPPORTED_MIN {
            return Verdict { status: Status::Supported, score: odds.score, problems: Vec::new(), by: odds.by, coverage };
        }
        let mut problems = rules.problems;
        if let Some(number) = odds.contradicted_by {
            problems.push(Problem { kind: ProblemKind::Contradicted, words: format!("[{number}] states the contrary"), what: String::new() });
        }
        let is_weak = odds.score >= WEAK_MIN && odds.contradicted_by.is_none();
        Verdict { status: if is_weak { Status::Weak } else { Status::Unsupported }, score: odds.score, problems, by: odds.by, coverage }
    }
}

fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Options, check};
    use crate::decide::DecidedBy;
    use crate::span::Span;

    const WEIGHTS: DecisionWeights = DecisionWeights {
        model: 1.0,
        constant: 0.0,
        supported: 1.0,
        number: -4.0,
        date: -4.0,
        name: -1.0,
        negation: -1.0,
        opposite: -1.0,
        swapped: -1.0,
    };

    fn spans(texts: &[&str]) -> Vec<Span> {
        texts.iter().map(|text| Span { text: (*text).to_owned(), source: "test".to_owned(), ..Span::default() }).collect()
    }

    /// Supports what is told with "good" and contradicts what is told with "bad".
    fn judged(answer: &str, spans: &[Span]) -> Judged {
        let questions = Questions::of(answer, &Spans::new(spans));
        let judge = |pair: Pair<'_>| Judgement {
            supported: if pair.evidence.contains("good") { 0.9 } else { 0.05 },
            contradicted: if pair.evidence.contains("bad") { 0.9 } else { 0.0 },
        };
        let judgements: Vec<Judgement> = questions.pairs().map(judge).collect();
        questions.judged(&judgements, WEIGHTS).unwrap()
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
            [(Status::Supported, DecidedBy::Model), (Status::Unsupported, DecidedBy::Model), (Status::Unsupported, DecidedBy::Rules)]
        );
        let contrary = checked.sentences[1].problems.iter().find(|problem| problem.kind == ProblemKind::Contradicted);
        assert_eq!(contrary.map(|problem| problem.words.as_str()), Some("[2] states the contrary"));
        assert_ne!(check(answer, &spans, &Options::default()).sentences[0].status, Status::Supported);
    }
}

//! Checks an answer, sentence by sentence, against spans.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::claim::{Claim, claim};
use crate::decide::{DecidedBy, EvidenceForm};
use crate::derive::confirms;
use crate::entail::Judgement;
use crate::judge::{ClaimTerms, Verdict, excerpt, judge, nearest};
use crate::judged::{Judged, ModelWord};
use crate::language::is_english;
use crate::number::Number;
use crate::sentences::{Kind, Unit, units};
use crate::span::{Form, Span};
use crate::spans::{Read, Spans};
use crate::words::Scanner;

/// Semantic similarity of two texts, 0 to 1, for example by vectors; `None` if unknown.
pub type Likeness = dyn Fn(&str, &str) -> Option<f32>;

/// Thresholds of a check, and what it may use beside words.
#[derive(Clone, Copy)]
pub struct Options<'o> {
    /// Share of a sentence's words that its sources must contain, for it to be supported.
    pub supported_min: f32,
    /// Below this it is not even weakly supported.
    pub weak_min: f32,
    /// Used when words alone do not decide. It can raise a sentence whose facts all hold, and never one whose facts do not.
    pub likeness: Option<&'o Likeness>,
    /// Similarity from which `likeness` raises a sentence.
    pub likeness_min: f32,
    /// Text with numbers that may have been used in calculations. A number that is the sum or difference of one of them, or of the claim's,
    /// and one of the sources' is then accepted.
    pub calculated_from: Option<&'o str>,
    /// Judgements of a model about these sentences and spans, used together with the rules.
    pub judged: Option<&'o Judged>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { supported_min: 0.6, weak_min: 0.3, likeness: None, likeness_min: 0.8, calculated_from: None, judged: None }
    }
}

/// The result of a check of a whole answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The sentences of the answer, in order.
    pub sentences: Vec<Sentence>,
}

/// A sentence of an answer with the result of its check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sentence {
    /// Its byte range in the answer, with its citations.
    pub range: Range<usize>,
    /// Its text, without citations.
    pub text: String,
    /// The result.
    pub status: Status,
    /// 0 to 1.
    pub score: f32,
    /// Existing spans that it cites, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cites: Vec<usize>,
    /// Citation numbers that match no span.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<usize>,
    /// Spans that support it without being cited; set when it cites none, or none that supports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<usize>,
    /// The reasons if it is not supported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// How the status was decided.
    #[serde(default, skip_serializing_if = "DecidedBy::is_rules")]
    pub by: DecidedBy,
    /// For a contradicted sentence, the span that states the contrary, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted_by: Option<usize>,
    /// The verifier's own probabilities before the rules; `None` if it was not used.
    #[serde(skip)]
    pub verifier: Option<Judgement>,
    /// Number of its checkable numbers, dates, names and quotations.
    #[serde(skip)]
    pub facts: usize,
    /// Share of its words in its sources, regardless of its facts.
    #[serde(skip)]
    pub coverage: f32,
}

/// The result of checking one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every fact is in its sources, and most words.
    Supported,
    /// No fact is wrong, but the sources share too few words with it, or seem to state the reverse.
    Weak,
    /// A fact is not in the sources, they deny it, or they are about something else.
    Unsupported,
    /// A source states the contrary; `Sentence::contradicted_by` names it.
    Contradicted,
    /// A question, a heading, an introduction: nothing to check.
    NoClaim,
    /// A claim that was compared with no source: the answer has no sources, it is a notice of the program itself, or it is in a language
    /// that neither the rules nor the verifier support. `check` returns this only for the language; callers set it for the rest.
    NotChecked,
}

impl Status {
    /// Not supported, or contradicted: removed by `Strict::Remove`.
    pub fn is_refused(self) -> bool {
        matches!(self, Status::Unsupported | Status::Contradicted)
    }

    /// A claim that was compared with sources.
    pub fn is_checked(self) -> bool {
        !matches!(self, Status::NoClaim | Status::NotChecked)
    }
}

/// Why a sentence is not supported, worded for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The problem as a sentence for users.
    pub words: String,
    /// The number, date, name or quotation, as in the sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
}

/// What a check found wrong with a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A number that no source has.
    Number,
    /// A date that no source has.
    Date,
    /// A limit or a date that the sources have in part, and neither state nor exclude.
    Undecided,
    /// A name that no source has.
    Name,
    /// A quotation that no source has word for word.
    Quotation,
    /// An address that no source has.
    Address,
    /// The source negates it, or the sentence negates what the source states.
    Negation,
    /// The source has the opposite word.
    Opposite,
    /// The source states it with two roles or values exchanged.
    Swapped,
    /// Too few shared words.
    Words,
    /// A model found that a span states the contrary.
    Contradicted,
    /// It cites a span that does not exist.
    NoSuchSpan,
    /// There is no span to compare it with.
    NoSource,
}

impl Sentence {
    /// A claim without a valid citation.
    pub fn is_uncited(&self) -> bool {
        self.status.is_checked() && self.cites.is_empty()
    }
}

impl Checked {
    /// How many sentences have this status.
    pub fn count(&self, status: Status) -> usize {
        self.sentences.iter().filter(|sentence| sentence.status == status).count()
    }

    /// Share of checked claims that are supported; 1 if there are none.
    pub fn supported_rate(&self) -> f32 {
        let claims = self.sentences.iter().filter(|sentence| sentence.status.is_checked()).count();
        if claims == 0 { 1.0 } else { self.count(Status::Supported) as f32 / claims as f32 }
    }
}

/// Checks an answer against the spans its `[n]` refer to. For several answers over the same spans, create `Spans` once.
pub fn check(answer: &str, spans: &[Span], options: &Options<'_>) -> Checked {
    Spans::new(spans).check(answer, options)
}

/// For a sentence in another language, only results that need no word list: support, and missing numbers and dates.
fn not_checked_unless_certain(verdict: Verdict) -> Verdict {
    let is_fact = |problem: &Problem| matches!(problem.kind, ProblemKind::Number | ProblemKind::Date | ProblemKind::Address);
    match verdict.status == Status::Supported || verdict.problems.iter().any(is_fact) {
        true => verdict,
        false => Verdict { status: Status::NotChecked, score: 0.0, problems: Vec::new(), ..verdict },
    }
}

/// Spans tried for a sentence without citations.
const LOOKED_UP_MAX: usize = 5;

impl Spans<'_> {
    /// Compares each sentence of an answer with the spans it cites, or with all spans if it cites none.
    pub fn check(&self, answer: &str, options: &Options<'_>) -> Checked {
        let mut scanner = Scanner::default();
        let sentences = units(answer).iter().map(|unit| self.sentence(unit, &mut scanner, options)).collect();
        Checked { sentences }
    }

    /// The text of the spans closest to a text.
    pub fn nearest(&self, text: &str) -> Option<String> {
        let mut scanner = Scanner::default();
        let unit = units(text).into_iter().next()?;
        let claim = claim(&unit, &mut scanner);
        let wanted = ClaimTerms::new(&claim, self);
        let first = *self.nearest_spans(&wanted).first()?;
        nearest(&claim, &wanted, &self.read[first])
    }

    /// For each span its title and the sentences closest to a text, which a model judges better than a whole passage; `None` for a span that is
    /// short or has nothing of it.
    pub fn excerpts(&self, text: &str) -> Vec<Option<String>> {
        let unit =
            Unit { range: 0..text.len(), words: text.to_owned(), kind: Kind::Prose, citations: Vec::new(), block: 0, block_range: 0..text.len() };
        let claim = claim(&unit, &mut Scanner::default());
        let wanted = ClaimTerms::new(&claim, self);
        self.read.iter().map(|read| excerpt(&claim, &wanted, read)).collect()
    }

    pub(crate) fn sentence(&self, unit: &Unit, scanner: &mut Scanner, options: &Options<'_>) -> Sentence {
        let mut cites: Vec<usize> = Vec::new();
        let mut missing: Vec<usize> = Vec::new();
        for number in unit.citations.iter().flat_map(|citation| &citation.numbers) {
            let list = if self.get(*number).is_some() { &mut cites } else { &mut missing };
            if !list.contains(number) {
                list.push(*number);
            }
        }
        let text = unit.words.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut problems: Vec<Problem> = Vec::new();
        if !missing.is_empty() {
            let list = missing.iter().map(|number| format!("[{number}]")).collect::<Vec<_>>().join(", ");
            problems.push(Problem { kind: ProblemKind::NoSuchSpan, words: format!("it cites {list}, which does not exist"), what: String::new() });
        }
        let claim = claim(unit, scanner);
        if claim.is_empty {
            return Sentence {
                range: unit.range.clone(),
                text,
                status: Status::NoClaim,
                score: 0.0,
                cites,
                missing,
                found: Vec::new(),
                problems,
                by: DecidedBy::Rules,
                contradicted_by: None,
                verifier: None,
                facts: 0,
                coverage: 0.0,
            };
        }
        let wanted = ClaimTerms::new(&claim, self);
        let mut found = Vec::new();
        let verdict = if cites.is_empty() {
            let (verdict, numbers) = self.look_up(&claim, &unit.words, &wanted, options);
            if verdict.status == Status::Supported {
                found = numbers;
            }
            verdict
        } else {
            let verdict = self.verdict(&claim, &unit.words, &wanted, &cites, options);
            if verdict.status != Status::Supported {
                let (other, numbers) = self.look_up(&claim, &unit.words, &wanted, options);
                if other.status == Status::Supported {
                    found = numbers;
                }
            }
            verdict
        };
        let decision = options.judged.and_then(|judged| judged.decision(&text));
        let verdict = match decision {
            // A language model's decision replaces an uncertain one.
            Some(decision) => {
                found = decision.source.filter(|number| decision.verdict == ModelWord::Supported && !cites.contains(number)).into_iter().collect();
                decision.verdict(verdict.coverage)
            }
            None if !is_english(&unit.words) => not_checked_unless_certain(verdict),
            None => verdict,
        };
        problems.extend(verdict.problems);
        Sentence {
            range: unit.range.clone(),
            text,
            status: verdict.status,
            score: verdict.score,
            cites,
            missing,
            found,
            problems,
            by: verdict.by,
            contradicted_by: verdict.contradicted_by,
            verifier: verdict.verifier,
            facts: claim.facts(),
            coverage: verdict.coverage,
        }
    }

    /// By the rules, and by a model if it was used.
    fn verdict(&self, claim: &Claim, text: &str, wanted: &ClaimTerms, numbers: &[usize], options: &Options<'_>) -> Verdict {
        let rules = judge(claim, text, wanted, self, numbers, options);
        match options.judged {
            Some(judged) => {
                let evidence = EvidenceForm::of(text, numbers.iter().filter_map(|number| self.get(*number)));
                judged.combined(rules, text, numbers, evidence)
            }
            None => rules,
        }
    }

    /// Indexes of the spans that share the most words with a claim, best first.
    pub(crate) fn nearest_spans(&self, wanted: &ClaimTerms) -> Vec<usize> {
        let mut near = vec![0.0_f32; self.len()];
        for (id, weight) in wanted.ids() {
            let spans = &self.postings[id as usize];
            let rarity = (1.0 + self.len() as f32 / spans.len().max(1) as f32).ln();
            for (span, _) in spans {
                near[*span as usize] += weight * rarity;
            }
        }
        let mut order: Vec<usize> = (0..self.len()).filter(|span| near[*span] > 0.0).collect();
        order.sort_by(|a, b| near[*b].total_cmp(&near[*a]).then(a.cmp(b)));
        order.truncate(LOOKED_UP_MAX);
        order
    }

    /// The best verdict of any span, or of the two nearest together.
    fn look_up(&self, claim: &Claim, text: &str, wanted: &ClaimTerms, options: &Options<'_>) -> (Verdict, Vec<usize>) {
        let mut order = self.nearest_spans(wanted);
        // `2 of them are done` has no word except what was counted, `12% of 4350 is 522` none at all.
        let is_bare = order.is_empty();
        let is_given =
            |number: &Number, read: &Read| confirms(claim, number, read) || is_bare && read.numbers.iter().any(|given| number.is_borne_out_by(given));
        let confirmed_count = |span: usize| claim.numbers.iter().filter(|number| is_given(number, &self.read[span])).count();
        let mut counted: Vec<(usize, usize)> =
            (0..self.len()).filter(|span| !order.contains(span)).map(|span| (confirmed_count(span), span)).collect();
        counted.retain(|(count, _)| *count > 0);
        counted.sort_by_key(|(count, span)| (std::cmp::Reverse(*count), *span));
        order.extend(counted.into_iter().take(LOOKED_UP_MAX).map(|(_, span)| span));
        let mut best: Option<(Verdict, Vec<usize>)> = None;
        let pair = if order.len() > 1 { vec![order[0] + 1, order[1] + 1] } else { Vec::new() };
        // A claim about one call may need several of its rows, and their totals.
        let task = order.first().and_then(|first| self.all()[*first].task.as_ref());
        let is_of_call = |span: &&usize| task.is_some() && self.all()[**span].task.as_ref() == task && self.all()[**span].form != Form::Text;
        let call: Vec<usize> = order.iter().filter(is_of_call).map(|span| span + 1).collect();
        let call = (call.len() > 1 && call != pair).then_some(call);
        let tries = order.iter().map(|span| vec![span + 1]).chain((!pair.is_empty()).then_some(pair)).chain(call);
        for numbers in tries {
            let verdict = self.verdict(claim, text, wanted, &numbers, options);
            let is_better = best.as_ref().is_none_or(|(than, _)| (verdict.status, -verdict.score) < (than.status, -than.score));
            let is_done = verdict.status == Status::Supported && verdict.score > 0.95;
            // Two spans together only if one alone is not sufficient.
            if is_better && (numbers.len() == 1 || best.as_ref().is_none_or(|(than, _)| than.status != Status::Supported)) {
                best = Some((verdict, numbers));
            }
            if is_done {
                break;
            }
        }
        best.unwrap_or_else(|| (self.verdict(claim, text, wanted, &[], options), Vec::new()))
    }
}

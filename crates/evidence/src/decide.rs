//! Decides about one claim and its spans, by rules and a model together.
//!
//! ```text
//!   claim ─┬─ rules: facts, polarity, shared words ─────────────┐
//!          └─ model: each sentence of the claim by each span,   ├──▶ log odds ──▶ supported │ weak │ unsupported
//!             whole, its nearest sentences, all together ───────┘                 contradicted, by which span
//!   not English ──▶ not checked
//! ```
//!
//! Some findings of the rules reject a claim by themselves: a quotation or an address that is in no span, a negation, an opposite, swapped
//! terms; a number or a date that is in none, if the claim otherwise shares enough words with the spans; a name, if the spans are also long
//! enough to name their subject. Everything else counts with a weight fitted on labelled data: rejecting a claim for every missing name was
//! measured to cost more right decisions than it saved.

use serde::{Deserialize, Serialize};

use crate::check::{Checked, Options, Problem, ProblemKind, Sentence, Status};
use crate::citation::citations;
use crate::entail::{DecisionWeights, Entailment, Judgement, Pair, log_odds};
use crate::language::is_english;
use crate::sentences::sentences;
use crate::span::Span;
use crate::spans::Spans;

/// A claim and its evidence.
#[derive(Clone, Copy)]
pub struct Claimed<'c> {
    /// The claim.
    pub text: &'c str,
    /// The evidence; may be empty.
    pub spans: &'c [Span],
}

/// The result for one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStatus {
    /// The spans state it.
    Supported,
    /// No finding against it, but not enough support.
    Weak,
    /// The spans do not state it.
    Unsupported,
    /// A span states the contrary.
    Contradicted,
    /// In an unsupported language, or nothing that can be true or false.
    NotChecked,
}

/// How a status was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The rules alone.
    #[default]
    Rules,
    /// The verifier, alone or with the rules.
    Verifier,
    /// The configured language model, for what the verifier left uncertain.
    Model,
}

impl DecidedBy {
    pub(crate) fn is_rules(&self) -> bool {
        *self == DecidedBy::Rules
    }
}

/// The decision about one claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The result.
    pub status: ClaimStatus,
    /// Probability of support, 0 to 1; for a decision by rules alone, their score.
    pub score: f32,
    /// How it was decided.
    pub by: DecidedBy,
    /// The span that contradicts it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted_by: Option<usize>,
    /// What the rules found against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// Score from which a claim is supported.
pub(crate) const SUPPORTED_MIN: f32 = 0.5;
/// Score from which it is weakly supported.
pub(crate) const WEAK_MIN: f32 = 0.3;
/// Probability from which a span contradicts it.
const CONTRADICTED_MIN: f32 = 0.6;
/// Length up to which a claim of several sentences is judged as one.
const WHOLE_CLAIM_BYTES: usize = 240;

/// Decides about each claim, with one batch of model requests. Without a model the rules decide alone.
pub fn decide(claims: &[Claimed<'_>], model: Option<&dyn Entailment>) -> Vec<Decided> {
    let texts: Vec<Vec<String>> = claims.iter().map(|claim| claim.spans.iter().map(text_of).collect()).collect();
    let rules: Vec<Option<Checked>> = claims.iter().map(|claim| is_english(claim.text).then(|| by_rules(claim))).collect();
    let Some(model) = model else {
        return rules.into_iter().map(|checked| checked.map_or_else(not_checked, |checked| worst(&checked))).collect();
    };
    let asked: Vec<ClaimPairs<'_>> =
        claims.iter().zip(&texts).zip(&rules).map(|((claim, texts), rules)| ClaimPairs::new(claim, texts, rules.is_some())).collect();
    let pairs: Vec<Pair<'_>> = asked.iter().flat_map(ClaimPairs::pairs).collect();
    let mut judged = model.judge(&pairs).into_iter();
    let weights = model.weights();
    let mut decided = Vec::with_capacity(claims.len());
    for ((claim, asked), checked) in claims.iter().zip(&asked).zip(rules) {
        let own: Vec<Judgement> = judged.by_ref().take(asked.count()).collect();
        let evidence = EvidenceForm::of(claim.text, claim.spans.iter());
        let together = |checked: &Checked| together(&worst(checked), coverage(checked), evidence, &asked.verdict(&own), &weights);
        decided.push(checked.as_ref().map_or_else(not_checked, together));
    }
    decided
}

fn not_checked() -> Decided {
    Decided { status: ClaimStatus::NotChecked, score: 0.0, by: DecidedBy::Rules, contradicted_by: None, problems: Vec::new() }
}

pub(crate) fn text_of(span: &Span) -> String {
    match &span.title {
        Some(title) if !span.text.starts_with(title.as_str()) => format!("{title}. {}", span.text),
        _ => span.text.clone(),
    }
}

fn by_rules(claim: &Claimed<'_>) -> Checked {
    let cites: String = (1..=claim.spans.len()).map(|number| format!("[{number}]")).collect();
    Spans::new(claim.spans).check(&format!("{} {cites}", claim.text), &Options::default())
}

/// What the weight of the rules depends on, of the evidence of a claim.
#[derive(Clone, Copy)]
pub(crate) struct EvidenceForm {
    words: usize,
    /// A number of the claim is written differently in the evidence, `2,500 kg` as `2.5 tonnes`.
    has_other_numbers: bool,
}

impl EvidenceForm {
    pub(crate) fn of<'s>(claim: &str, spans: impl Iterator<Item = &'s Span>) -> Self {
        let texts: Vec<String> = spans.map(text_of).collect();
        let claim = citations(claim).into_iter().rev().fold(claim.to_owned(), |mut text, citation| {
            text.replace_range(citation.range, " ");
            text
        });
        let is_written = |number: &str| texts.iter().any(|text| numbers_as_written(text).any(|one| one == number));
        EvidenceForm {
            words: texts.iter().map(|text| text.split_whitespace().count()).sum(),
            has_other_numbers: numbers_as_written(&claim).any(|number| !is_written(number)),
        }
    }
}

fn numbers_as_written(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',')));
    parts.map(|part| part.trim_matches(['.', ','])).filter(|part| !part.is_empty())
}

/// Of the least supported sentence.
fn coverage(checked: &Checked) -> f32 {
    least(checked).map_or(0.0, |sentence| sentence.coverage)
}

fn least(checked: &Checked) -> Option<&Sentence> {
    let claims = checked.sentences.iter().filter(|sentence| !matches!(sentence.status, Status::NoClaim | Status::NotChecked));
    claims.max_by(|a, b| a.status.cmp(&b.status).then(b.score.total_cmp(&a.score)))
}

/// The least supported sentence represents the claim.
fn worst(checked: &Checked) -> Decided {
    let Some(sentence) = least(checked) else { return not_checked() };
    let status = match sentence.status {
        Status::Supported => ClaimStatus::Supported,
        Status::Weak => ClaimStatus::Weak,
        Status::Unsupported => ClaimStatus::Unsupported,
        Status::Contradicted => ClaimStatus::Contradicted,
        Status::NoClaim | Status::NotChecked => ClaimStatus::NotChecked,
    };
    Decided { status, score: sentence.score, by: DecidedBy::Rules, contradicted_by: sentence.contradicted_by, problems: sentence.problems.clone() }
}

/// The model requests for one claim: each of its parts against each span, whole and as an excerpt, and against all spans together if there
/// are several.
struct ClaimPairs<'a> {
    parts: Vec<&'a str>,
    evidence: &'a [String],
    joined: Option<String>,
    /// Of each part, by span.
    excerpts: Vec<Vec<Option<String>>>,
}

/// The evidence of one model request.
#[derive(Clone, Copy)]
enum Evidence<'a> {
    Whole(usize, &'a str),
    Excerpt(usize, &'a str),
    Together(&'a str),
}

/// The model's result for a claim: its weakest part with its best evidence.
pub(crate) struct ModelVerdict {
    pub(crate) supported: f32,
    pub(crate) contradicted: f32,
    /// From 1.
    pub(crate) contradicted_by: Option<usize>,
}

impl<'a> ClaimPairs<'a> {
    fn new(claim: &Claimed<'a>, texts: &'a [String], is_checked: bool) -> Self {
        if !is_checked {
            return ClaimPairs { parts: Vec::new(), evidence: &[], joined: None, excerpts: Vec::new() };
        }
        let parts = if claim.text.len() <= WHOLE_CLAIM_BYTES {
            vec![claim.text]
        } else {
            sentences(claim.text).into_iter().map(|range| &claim.text[range]).collect()
        };
        let spans = Spans::new(claim.spans);
        let excerpts = parts.iter().map(|part| spans.excerpts(part)).collect();
        ClaimPairs { parts, evidence: texts, joined: (texts.len() > 1).then(|| texts.join(" ")), excerpts }
    }

    fn evidence_of(&self, part: usize) -> impl Iterator<Item = Evidence<'_>> {
        let whole = self.evidence.iter().enumerate().map(|(span, text)| Evidence::Whole(span, text));
        let excerpts = self.excerpts[part].iter().enumerate().filter_map(|(span, text)| Some(Evidence::Excerpt(span, text.as_deref()?)));
        whole.chain(excerpts).chain(self.joined.as_deref().map(Evidence::Together))
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        self.parts.iter().enumerate().flat_map(|(part, claim)| {
            self.evidence_of(part).map(move |evidence| match evidence {
                Evidence::Whole(_, text) | Evidence::Excerpt(_, text) | Evidence::Together(text) => Pair { evidence: text, claim },
            })
        })
    }

    fn count(&self) -> usize {
        (0..self.parts.len()).map(|part| self.evidence_of(part).count()).sum()
    }

    fn verdict(&self, judged: &[Judgement]) -> ModelVerdict {
        let mut verdict = ModelVerdict { supported: if judged.is_empty() { 0.0 } else { 1.0 }, contradicted: 0.0, contradicted_by: None };
        let mut judged = judged.iter();
        for part in 0..self.parts.len() {
            let mut by_span = vec![Judgement::default(); self.evidence.len()];
            let mut supported = 0.0_f32;
            for (evidence, one) in self.evidence_of(part).zip(judged.by_ref()) {
                match evidence {
                    Evidence::Whole(span, _) => by_span[span] = *one,
                    Evidence::Excerpt(span, _) => by_span[span] = by_span[span].with_excerpt(*one),
                    Evidence::Together(_) => supported = supported.max(one.supported),
                }
            }
            supported = by_span.iter().fold(supported, |most, one| most.max(one.supported));
            verdict.supported = verdict.supported.min(supported);
            for (span, one) in by_span.iter().enumerate() {
                if supported < SUPPORTED_MIN && one.contradicted > verdict.contradicted {
                    (verdict.contradicted, verdict.contradicted_by) = (one.contradicted, Some(span + 1));
                }
            }
        }
        verdict
    }
}

/// The combined probability of rules and model.
pub(crate) struct CombinedScore {
    pub(crate) score: f32,
    pub(crate) by: DecidedBy,
    /// Set only if the claim is not supported.
    pub(crate) contradicted_by: Option<usize>,
}

/// The rules' findings about a claim.
pub(crate) struct Finding<'f> {
    pub(crate) is_supported: bool,
    pub(crate) problems: &'f [Problem],
    pub(crate) coverage: f32,
    pub(crate) evidence: EvidenceForm,
}

/// Coverage from which a missing fact was changed and not merely paraphrased.
const COPY_COVERAGE_MIN: f32 = 0.3;
/// Length in words from which evidence names its subject, so that a missing name is significant.
const NAMED_WORDS_MIN: usize = 40;
/// Length in words from which evidence is a passage. The model was trained mostly on single sentences, so for passages the rules have more
/// weight.
const PASSAGE_WORDS_MIN: usize = 36;
/// Log odds in passages for a claim that the rules support, and for one whose only problem is shared words.
const PASSAGE_SUPPORTED: f32 = 3.05;
const PASSAGE_UNOPPOSED: f32 = 1.5;
/// The same for a claim that the rules support after converting a number: the model cannot do that, and calls such a claim contradicted.
const CONVERTED_SUPPORTED: f32 = 6.0;
/// Probability of a contradiction from which a claim that shares words with the evidence has no advantage by [`PASSAGE_UNOPPOSED`]: a word was
/// replaced.
const REPLACED_CONTRADICTED_MIN: f32 = 0.7;

impl Finding<'_> {
    fn has(&self, kind: ProblemKind) -> bool {
        self.problems.iter().any(|problem| problem.kind == kind)
    }

    /// Whether the rules decide alone.
    fn is_final(&self) -> bool {
        let alone = [ProblemKind::Quotation, ProblemKind::Address, ProblemKind::Negation, ProblemKind::Opposite, ProblemKind::Swapped];
        let has_fact = self.has(ProblemKind::Number) || self.has(ProblemKind::Date);
        let has_name = self.has(ProblemKind::Name) && self.evidence.words >= NAMED_WORDS_MIN;
        alone.into_iter().any(|kind| self.has(kind)) || self.coverage >= COPY_COVERAGE_MIN && (has_fact || has_name)
    }

    /// Additional log odds for passages.
    fn passage_odds(&self, model: &ModelVerdict) -> f32 {
        let facts = [ProblemKind::Number, ProblemKind::Date, ProblemKind::Undecided, ProblemKind::Name];
        let is_replaced = self.coverage >= COPY_COVERAGE_MIN && model.supported < SUPPORTED_MIN && model.contradicted >= REPLACED_CONTRADICTED_MIN;
        if self.evidence.words < PASSAGE_WORDS_MIN {
            0.0
        } else if self.is_supported {
            if self.evidence.has_other_numbers { CONVERTED_SUPPORTED } else { PASSAGE_SUPPORTED }
        } else if is_replaced || facts.into_iter().any(|kind| self.has(kind)) {
            0.0
        } else {
            PASSAGE_UNOPPOSED
        }
    }
}

impl CombinedScore {
    /// `None` if a rule decides alone.
    pub(crate) fn of(rules: &Finding<'_>, model: &ModelVerdict, weights: &DecisionWeights) -> Option<CombinedScore> {
        if rules.is_final() {
            return None;
        }
        let has = |kind: ProblemKind| rules.has(kind);
        let signals = [
            (rules.is_supported, weights.supported),
            (has(ProblemKind::Number) || has(ProblemKind::Undecided), weights.number),
            (has(ProblemKind::Date), weights.date),
            (has(ProblemKind::Name), weights.name),
            (has(ProblemKind::Negation), weights.negation),
            (has(ProblemKind::Opposite), weights.opposite),
            (has(ProblemKind::Swapped), weights.swapped),
        ];
        let rules_odds: f32 = signals.iter().filter(|(is_there, _)| *is_there).map(|(_, weight)| weight).sum();
        let odds = weights.model * log_odds(model.supported) + weights.constant + rules_odds + rules.passage_odds(model);
        let score = 1.0 / (1.0 + (-odds).exp());
        let is_model = (model.supported >= SUPPORTED_MIN) == (score >= SUPPORTED_MIN);
        let is_contradicted = score < SUPPORTED_MIN && model.contradicted >= CONTRADICTED_MIN;
        Some(CombinedScore {
            score,
            by: if is_model { DecidedBy::Verifier } else { DecidedBy::Rules },
            contradicted_by: model.contradicted_by.filter(|_| is_contradicted),
        })
    }
}

fn together(rules: &Decided, coverage: f32, evidence: EvidenceForm, model: &ModelVerdict, weights: &DecisionWeights) -> Decided {
    if rules.status == ClaimStatus::NotChecked {
        return rules.clone();
    }
    let finding = Finding { is_supported: rules.status == ClaimStatus::Supported, problems: &rules.problems, coverage, evidence };
    let Some(odds) = CombinedScore::of(&finding, model, weights) else { return rules.clone() };
    let status = match odds.contradicted_by {
        _ if odds.score >= SUPPORTED_MIN => ClaimStatus::Supported,
        Some(_) => ClaimStatus::Contradicted,
        None if odds.score >= WEAK_MIN => ClaimStatus::Weak,
        None => ClaimStatus::Unsupported,
    };
    let problems = if status == ClaimStatus::Supported { Vec::new() } else { rules.problems.clone() };
    Decided { status, score: odds.score, by: odds.by, contradicted_by: odds.contradicted_by, problems }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scripted, spans};

    fn decided(claim: &str, texts: &[&str], model: Option<&dyn Entailment>) -> Decided {
        decide(&[Claimed { text: claim, spans: &spans(texts) }], model).remove(0)
    }

    #[test]
    fn the_model_supports_other_words_and_the_rules_alone_do_not() {
        let (claim, text) = ("Cooking is slower at altitude.", "good: Water boils at a lower temperature on mountains.");
        assert_ne!(decided(claim, &[text], None).status, ClaimStatus::Supported);
        let found = decided(claim, &[text], Some(&Scripted));
        assert_eq!((found.status, found.by), (ClaimStatus::Supported, DecidedBy::Verifier));
    }

    #[test]
    fn a_missing_number_counts_against_the_model_and_a_missing_quotation_decides() {
        let found = decided("The bridge is 40 m long.", &["good: The bridge is long."], Some(&Scripted));
        assert_eq!((found.status, found.by), (ClaimStatus::Unsupported, DecidedBy::Rules));
        let found = decided("She said “never again in this house”.", &["good: She said that she was tired."], Some(&Scripted));
        assert_eq!((found.status, found.by), (ClaimStatus::Unsupported, DecidedBy::Rules));
    }

    #[test]
    fn the_span_that_contradicts_is_named() {
        let found = decided("The harbour freezes in winter.", &["Ships use the harbour.", "bad: It stays free of ice all winter."], Some(&Scripted));
        assert_eq!((found.status, found.contradicted_by), (ClaimStatus::Contradicted, Some(2)));
    }

    const WHALES: &str = "The longest whale that was reliably measured was 29.9 m long, and the heaviest are estimated at 199 tonnes. A calf weighs 2.5 tonnes at birth and \
        drinks up to 200 litres of milk a day. Hunting reduced their numbers until it was banned.";

    #[test]
    fn in_a_passage_the_rules_support_a_converted_number_against_the_model_and_no_exchanged_one() {
        let text = format!("bad: {WHALES}");
        let found = |claim: &str| decided(claim, &[&text], Some(&Scripted)).status;
        assert_eq!(found("A calf weighs 2,500 kg at birth and drinks up to 200 litres of milk a day."), ClaimStatus::Supported);
        assert_ne!(found("A calf weighs 200 tonnes at birth and drinks up to 2.5 litres of milk a day."), ClaimStatus::Supported);
    }

    #[test]
    fn in_a_passage_a_claim_with_a_replaced_word_that_the_model_contradicts_has_no_advantage() {
        let evidence = EvidenceForm { words: 52, has_other_numbers: false };
        let odds = |coverage: f32, contradicted: f32| {
            let finding = Finding { is_supported: false, problems: &[], coverage, evidence };
            finding.passage_odds(&ModelVerdict { supported: 0.2, contradicted, contradicted_by: Some(1) })
        };
        // The antidote is naloxone, where the passage says acetylcysteine; and a paraphrase that shares no word with its passage.
        assert_eq!((odds(0.5, 0.76), odds(0.0, 0.76), odds(0.5, 0.3)), (0.0, PASSAGE_UNOPPOSED, PASSAGE_UNOPPOSED));
    }

    #[test]
    fn other_languages_are_not_checked() {
        for claim in ["Die Brücke über den Fluss wurde im Jahr 1931 gebaut und ist sehr lang.", "Мост был построен в 1931 году.", "大桥建于1931年。"]
        {
            assert_eq!(decided(claim, &["good"], Some(&Scripted)).status, ClaimStatus::NotChecked, "{claim}");
        }
    }
}

//! Checks a draft without a model: its claims against the evidence, and whether it answers at all.
//!
//! ```text
//!   draft ── evidence::check ──▶ wrong numbers, names, dates, quotations; contradictions      hard
//!            (rules, verifier)
//!         ── rules ────────────▶ nothing answered; another subject; nothing of it in the sources  hard
//!                              ▶ word order that seems changed                                 for the model to judge
//! ```
//!
//! The critic's prompt lists every finding. A small model approves whatever reads well, so with a small critic hard findings reject by themselves, and no
//! model is called. The feedback names the sentence and what the sources say instead.

use evidence::{DecidedBy, Judged, Options, ProblemKind, Sentence, Span, Spans, Status};
use serde::{Deserialize, Serialize};

use super::doubt;

/// A draft with its task and its evidence.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'d> {
    /// The user's question.
    pub question: &'d str,
    /// The step it belongs to, if it is not the answer itself.
    pub step: Option<&'d str>,
    /// The draft's text.
    pub text: &'d str,
    /// The writer's explanation; it may contain intermediate numbers.
    pub reasoning: &'d str,
    /// Its evidence.
    pub spans: &'d [Span],
    /// Judgements about [`Draft::claims`] and the spans, if there are any.
    pub judged: Option<&'d Judged>,
}

impl Draft<'_> {
    /// The part of its text that is checked against the evidence.
    pub fn claims(&self) -> &str {
        doubt::without_yes_or_no(self.text.trim())
    }
}

/// One problem of a draft, found without a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The sentence concerned; empty for the whole draft.
    pub sentence: String,
    /// Its description.
    pub words: String,
    /// The closest text in the sources; untrusted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The question is not answered.
    Unanswered,
    /// A part is about something else.
    OffTopic,
    /// A claim has no source.
    NoSource,
    /// A number is not in the cited source.
    WrongNumber,
    /// A date is not in the cited source.
    WrongDate,
    /// A name is not in the cited source.
    WrongName,
    /// A quotation is not in the cited source.
    WrongQuotation,
    /// A source states the contrary.
    Contradiction,
    /// Word order seems changed, which words alone cannot decide.
    Doubtful,
}

impl Finding {
    /// Whether it is sufficient to reject the draft.
    pub fn is_hard(&self) -> bool {
        self.kind != FindingKind::Doubtful
    }

    /// For a critic, who has the sources.
    pub fn message(&self) -> String {
        match self.sentence.as_str() {
            "" => self.words.clone(),
            sentence => format!("“{sentence}”: {}", self.words),
        }
    }
}

/// Maximum number of findings shown, most severe first.
const FINDINGS_MAX: usize = 5;
const SENTENCE_CHARS_MAX: usize = 160;
/// Below this share of a sentence's words, the sources do not cover it.
const NO_SOURCE_SCORE_MAX: f32 = 0.4;
/// Probability from which the verifier overrules a name, a negation or a word order that the rules do not find.
const VERIFIED_MIN: f32 = 0.9;
/// Probability from which the verifier's contradiction alone rejects a draft; higher, because it overrules sentences whose numbers and
/// names are all in the sources.
const DENIED_MIN: f32 = 0.85;
const DENIED_FACTS_MIN: f32 = 0.97;
/// Probability below which the verifier finds that the sources do not cover a sentence.
const CARRIED_MIN: f32 = 0.1;
/// A draft on another topic may share this many words with a passage by chance.
const NEAR_WORDS_MAX: usize = 1;
/// A shorter draft is a name or a number, which need not repeat the question.
const TOPIC_WORDS_MIN: usize = 3;
/// What researchers are instructed to write when they find nothing.
const NOT_FOUND: &str = "not found";

/// The problems of a draft, as far as rules can find them.
pub fn review(draft: &Draft<'_>) -> Vec<Finding> {
    let text = draft.claims();
    let asked = format!("{}\n{}", draft.question, draft.step.unwrap_or_default());
    if !text.chars().any(char::is_alphanumeric) {
        return vec![whole(FindingKind::Unanswered, "nothing is answered.")];
    }
    if text.to_lowercase().starts_with(NOT_FOUND) {
        return Vec::new();
    }
    let spans = Spans::new(draft.spans);
    let context = format!("{asked}\n{}", draft.reasoning);
    let options = Options { calculated_from: Some(&context), judged: draft.judged, ..Options::default() };
    let checked = spans.check(text, &options);
    let claims: Vec<&Sentence> = checked.sentences.iter().filter(|sentence| sentence.status != Status::NoClaim).collect();
    let shared = evidence::shared_words(text, &asked);
    // If all facts hold, the sentence is from the sources, whatever its wording.
    let holds = |sentence: &Sentence| {
        let has_source = !sentence.problems.iter().any(|problem| problem.kind == ProblemKind::NoSource);
        let findings = of_sentence(sentence, &spans, &asked);
        // Without a verifier, a doubt about a fact is no reason to call the sentence unsupported.
        sentence.facts > 0 && has_source && if sentence.verifier.is_some() { findings.is_empty() } else { !is_rejected(&findings) }
    };
    let is_near_enough = |sentence: &Sentence| match sentence.verifier {
        Some(verifier) => verifier.supported >= CARRIED_MIN,
        None => sentence.score >= NO_SOURCE_SCORE_MAX,
    };
    let is_carried = claims.iter().any(|sentence| sentence.status == Status::Supported || is_near_enough(sentence) || holds(sentence));
    let words = evidence::content_words(text);
    let is_near = draft.spans.iter().any(|span| evidence::shared_words(text, &span.text) > NEAR_WORDS_MAX);
    if shared == 0 && words >= TOPIC_WORDS_MIN && !is_carried && !is_near {
        let about = if claims.is_empty() { FindingKind::Unanswered } else { FindingKind::OffTopic };
        return vec![whole(about, "it does not speak of what was asked; answer the question itself.")];
    }
    if draft.spans.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = claims.iter().flat_map(|sentence| of_sentence(sentence, &spans, &asked)).collect();
    if !is_rejected(&findings) && !claims.is_empty() && !is_carried && words >= TOPIC_WORDS_MIN {
        let source = spans.nearest(text).map(|words| clipped(&words)).unwrap_or_default();
        let words = "the sources do not say this; use what they say, or say that it was not found.";
        findings.push(Finding { source, ..whole(FindingKind::NoSource, words) });
    }
    findings.sort_by_key(|finding| !finding.is_hard());
    findings.truncate(FINDINGS_MAX);
    findings
}

/// Whether rules alone reject.
pub fn is_rejected(findings: &[Finding]) -> bool {
    findings.iter().any(Finding::is_hard)
}

/// Feedback for the author of the draft.
pub fn feedback(findings: &[Finding]) -> String {
    let message = |finding: &Finding| match finding.source.as_str() {
        "" => finding.message(),
        source => format!("{} They say: “{source}”", finding.message()),
    };
    findings.iter().filter(|finding| finding.is_hard()).map(message).collect::<Vec<_>>().join(" ")
}

fn whole(kind: FindingKind, words: &str) -> Finding {
    Finding { kind, sentence: String::new(), words: words.to_owned(), source: String::new() }
}

fn of_sentence(sentence: &Sentence, spans: &Spans<'_>, asked: &str) -> Vec<Finding> {
    if sentence.status == Status::Supported {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let nearest = spans.nearest(&sentence.text);
    let is_fact = |kind: ProblemKind| matches!(kind, ProblemKind::Number | ProblemKind::Date | ProblemKind::Name | ProblemKind::Quotation);
    let has_facts = sentence.facts > 0 && !sentence.problems.iter().any(|problem| is_fact(problem.kind));
    let denied_min = if has_facts { DENIED_FACTS_MIN } else { DENIED_MIN };
    let is_verified = sentence.verifier.is_some_and(|verifier| verifier.supported >= VERIFIED_MIN);
    let is_denied = sentence.by == DecidedBy::Model || sentence.verifier.is_some_and(|verifier| verifier.contradicted >= denied_min);
    for problem in &sentence.problems {
        let kind = match problem.kind {
            ProblemKind::Number if doubt::shares_scale(&sentence.text, &problem.what, &spans.all().iter().map(|span| span.text.as_str())) => continue,
            // Rules compare words; if the verifier is confident that the sources support the sentence, a rule's finding is only a doubt.
            ProblemKind::Name | ProblemKind::Negation | ProblemKind::Opposite | ProblemKind::Swapped if is_verified => FindingKind::Doubtful,
            ProblemKind::Contradicted if !is_denied => FindingKind::Doubtful,
            ProblemKind::Number if doubt::is_approximate(&sentence.text, &problem.what) => FindingKind::Doubtful,
            ProblemKind::Name if doubt::may_be_no_name(&sentence.text, &problem.what) => FindingKind::Doubtful,
            ProblemKind::Negation if nearest.as_ref().is_some_and(|source| doubt::may_agree(&sentence.text, source)) => FindingKind::Doubtful,
            ProblemKind::Number => FindingKind::WrongNumber,
            ProblemKind::Date => FindingKind::WrongDate,
            // `HTTP`, `EU`: the sources may use the long form.
            ProblemKind::Name if is_acronym(&problem.what) => FindingKind::Doubtful,
            ProblemKind::Name => FindingKind::WrongName,
            ProblemKind::Quotation => FindingKind::WrongQuotation,
            ProblemKind::Negation | ProblemKind::Contradicted => FindingKind::Contradiction,
            ProblemKind::Swapped if sentence.status == Status::Unsupported => FindingKind::Contradiction,
            ProblemKind::Opposite | ProblemKind::Swapped | ProblemKind::Undecided => FindingKind::Doubtful,
            ProblemKind::Address | ProblemKind::Words | ProblemKind::NoSuchSpan | ProblemKind::NoSource => continue,
        };
        // A name or a number from the question itself is not invented.
        if !problem.what.is_empty() && problem.kind != ProblemKind::Swapped && evidence::has_words(asked, &problem.what) {
            continue;
        }
        // Passage numbers have no meaning for the reader of the feedback.
        let words = match problem.what.as_str() {
            "" => "the sources say it otherwise".to_owned(),
            what => match kind {
                FindingKind::WrongNumber => format!("the sources do not give the number {what} for this"),
                FindingKind::WrongDate => format!("the sources do not give the date {what}"),
                FindingKind::WrongName => format!("the sources do not name {what}"),
                FindingKind::WrongQuotation => format!("the sources do not have the words {what}"),
                _ => format!("the sources say {what} of something else"),
            },
        };
        let source = nearest.as_deref().map(clipped).unwrap_or_default();
        findings.push(Finding { kind, sentence: clipped(&sentence.text), words: format!("{words}."), source });
    }
    findings
}

fn is_acronym(name: &str) -> bool {
    const CHARS_MAX: usize = 5;
    name.chars().count() <= CHARS_MAX && name.chars().all(|c| c.is_ascii_uppercase())
}

fn clipped(text: &str) -> String {
    let line = evidence::defused(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > SENTENCE_CHARS_MAX { line.chars().take(SENTENCE_CHARS_MAX).chain(['…']).collect() } else { line }
}

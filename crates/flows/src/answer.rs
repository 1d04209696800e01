//! Turns evidence and a model's text into a checked answer.
//!
//! ```text
//! show(&spans, question, budget_tokens) -> (Vec<Message>, Vec<Span>)   messages of role `evidence`, and the spans they show, [1] first
//! with_evidence(messages, &spans, about, &profile, reply_tokens)         the same, put before the last message within what the context leaves
//! pick(&spans, question, budget_tokens) -> Vec<Span>                   only the spans, to keep in a state
//! label(&mut spans, tool, arguments)                                   sets the call that found them, where the host did not
//! messages(&shown) -> Vec<Message>                                     the messages for spans that were kept
//! finish_draft(draft, &shown, strict) -> Answer                      a model's draft, with its short answer if it has one
//! finish_judged(said, &shown, strict, judged, answered) -> Answer     the same, with judgements of the verifier and of the answer check
//! finish_own(said, &shown) -> Answer                                  text written by the flow: cited, and nothing marked
//! finish(raw_text, &shown, strict) -> Answer                           citations checked, renumbered, completed; sources listed
//! listed(intro, &shown) -> String                                      the passages with citations, for when no model wrote an answer
//! cited_passages(&answer, &shown) -> Vec<Passage>                      the spans that it cites, with their numbers
//! Answer::append(markdown)                                             text of the flow after the checked text, before the sources
//! Answer::output(flow) -> Map { answer, plain, sources, sentences, refused, flow, html?, short? }   a flow adds its own fields
//! Answer::summary() -> Value                                           counts, for a note
//! ```
//!
//! `[n]` in a raw text means the n-th shown span. `finish` gets exactly what the model was shown, so its result cannot cite anything else. If nothing
//! was shown, the answer cannot be checked; it is returned unmarked, unless `strict`.

use evidence::{Cited, Judged, Options, Passage, PickOptions, ProblemKind, Sentence, Source, Span, Spans, Status, Strict};
use graph::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::claims::{self, DraftAnswer};
use crate::input::ModelProfile;
use crate::prompt;

/// A checked answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Markdown, with `[n]` and the list of sources.
    pub text: String,
    /// The same for a terminal.
    pub plain: String,
    /// The short form of the answer, if the model gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// Sanitized HTML fragment, set by flows whose output includes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// `[1]` is the first of these.
    pub sources: Vec<Source>,
    /// Every sentence with its status.
    pub sentences: Vec<Sentence>,
    /// Citation numbers written by the model that match no passage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<usize>,
    /// Number of sentences removed by `strict`.
    #[serde(default)]
    pub removed: usize,
    /// The Markdown without the list of sources; `sentences` have ranges in it.
    pub body: String,
}

/// The evidence messages that fit the budget, and the spans they show.
pub fn show(spans: &[Span], question: &str, budget_tokens: usize) -> (Vec<Message>, Vec<Span>) {
    let shown = pick(spans, question, budget_tokens);
    (messages(&shown), shown)
}

/// The messages with the passages that fit into the context before the last one, which is the question; and these passages.
pub fn with_evidence(
    mut messages: Vec<Message>,
    spans: &[Span],
    about: &str,
    profile: &ModelProfile,
    reply_tokens: u32,
) -> (Vec<Message>, Vec<Span>) {
    let used = prompt::tokens_of(&messages);
    let (evidence, shown) = show(spans, about, profile.evidence_tokens(used, reply_tokens));
    let question = messages.pop();
    messages.extend(evidence);
    messages.extend(question);
    (messages, shown)
}

/// The spans that fit, in their order. The last one may be shortened to the part that fits.
pub fn pick(spans: &[Span], question: &str, budget_tokens: usize) -> Vec<Span> {
    // The rank of a search reflects meaning better than a word count does.
    let relevance = |number: usize| spans[number - 1].rank.map(evidence::by_rank);
    let options = PickOptions { relevance: Some(&relevance), ..PickOptions::default() };
    let picked = evidence::pick(question, &Spans::new(spans), budget_tokens, &options);
    let shown = picked.spans.into_iter().map(|one| {
        let span = spans[one.number - 1].clone();
        match one.content.split_once('\n') {
            Some((_, text)) if !one.is_whole => Span { text: text.to_owned(), ..span },
            _ => span,
        }
    });
    shown.collect()
}

/// Labels each span with the call that found it, where the tool host has not done so.
pub fn label(spans: &mut [Span], tool: &str, arguments: &Value) {
    let label = evidence::task_label(tool, arguments);
    for span in spans.iter_mut().filter(|span| span.task.is_none()) {
        span.task = Some(label.clone());
    }
}

/// Whether two spans are the same passage found by two calls. A span computed from a whole reply belongs to that reply only.
pub fn is_same(a: &Span, b: &Span) -> bool {
    let is_one = a.text == b.text && a.title == b.title && a.address == b.address && a.place == b.place && a.source == b.source;
    is_one && (a.task == b.task || !a.is_summary())
}

/// The evidence messages of spans that were picked.
pub fn messages(shown: &[Span]) -> Vec<Message> {
    shown.iter().map(|span| prompt::message("evidence", evidence::message_content(span))).collect()
}

pub(crate) fn finish_draft(draft: DraftAnswer, shown: &[Span], strict: bool) -> Answer {
    finish_judged(draft, shown, strict, None, None)
}

/// A short answer that is less probable than this, by the answer check, is not given as an answer. Chosen on questions that it was not trained on, see
/// `lab/train/README.md`.
const ANSWERED_MIN: f32 = 0.35;

/// `answered` is the probability that the passages answer the question with the short answer of the draft, if it was judged.
pub(crate) fn finish_judged(draft: DraftAnswer, shown: &[Span], strict: bool, judged: Option<&Judged>, answered: Option<f32>) -> Answer {
    // "Not answered" is not a claim that a passage could support.
    if draft.markdown == claims::NOT_ANSWERED {
        return finish_own(draft, shown);
    }
    let mut answer = finished(&draft.markdown, shown, strict, judged);
    let is_unanswered = answered.is_some_and(|probability| probability < ANSWERED_MIN);
    let may_be_unsupported = !strict && draft.short.is_some() && judged.is_some() && !shown.iter().any(Span::is_summary);
    if may_be_unsupported && (is_unanswered || answer.has_no_supported_fact(shown)) {
        answer.prepend(claims::NOT_SUPPORTED);
        return answer;
    }
    // `strict` may have removed it.
    let short = draft.short.filter(|short| answer.body.contains(short.as_str()));
    Answer { short, ..answer }
}

/// For text that the flow writes itself from tool replies: cited, and otherwise unchanged.
pub(crate) fn finish_own(draft: DraftAnswer, shown: &[Span]) -> Answer {
    let mut answer = cited(&draft.markdown, shown, Strict::Leave, None);
    mark_not_checked(&mut answer.sentences, |sentence| sentence.status != Status::Supported);
    Answer { short: draft.short, ..answer }
}

/// Checks and completes the citations of a raw text.
pub fn finish(raw_text: &str, shown: &[Span], strict: bool) -> Answer {
    finished(raw_text, shown, strict, None)
}

fn finished(raw_text: &str, shown: &[Span], strict: bool, judged: Option<&Judged>) -> Answer {
    let mut answer = cited(raw_text, shown, how(shown, strict), judged);
    if shown.is_empty() {
        mark_not_checked(&mut answer.sentences, |_| true);
    }
    answer
}

fn how(shown: &[Span], strict: bool) -> Strict {
    match (strict, shown.is_empty()) {
        (true, _) => Strict::Remove,
        (false, true) => Strict::Leave,
        (false, false) => Strict::Mark,
    }
}

/// Claims that were not compared with any passage get no status.
fn mark_not_checked(sentences: &mut [Sentence], is_unchecked: impl Fn(&Sentence) -> bool) {
    for sentence in sentences.iter_mut().filter(|sentence| sentence.status != Status::NoClaim && is_unchecked(sentence)) {
        sentence.status = Status::NotChecked;
        sentence.problems.clear();
    }
}

fn cited(raw_text: &str, shown: &[Span], how: Strict, judged: Option<&Judged>) -> Answer {
    let cited = evidence::cite(raw_text, &Spans::new(shown), how, &Options { judged, ..Options::default() });
    let (text, plain) = (cited.to_markdown(), cited.to_plain());
    let Cited { body, sources, checked, removed, refused, .. } = cited;
    Answer { text, plain, short: None, html: None, sources, sentences: checked.sentences, refused, removed: removed.len(), body }
}

/// What is in no passage if it is not in all of them together.
const ABSENT: [ProblemKind; 4] = [ProblemKind::Name, ProblemKind::Number, ProblemKind::Date, ProblemKind::Quotation];

/// Characters of each span when spans are only listed.
const LISTED_CHARS_MAX: usize = 400;

/// The passages found, one item each with its citation, below a line that explains why there is no written answer.
pub fn listed(intro: &str, shown: &[Span]) -> String {
    let mut text = intro.to_owned();
    for (index, span) in shown.iter().enumerate() {
        let words = evidence::defused(&span.text).split_whitespace().collect::<Vec<_>>().join(" ");
        let is_long = words.chars().count() > LISTED_CHARS_MAX;
        let start: String = words.chars().take(LISTED_CHARS_MAX).collect();
        // Cut at the end of a word and without a full stop, so that the citation belongs to the sentence.
        let start = if is_long { start.rsplit_once(' ').map_or(start.as_str(), |(head, _)| head) } else { start.as_str() };
        let more = if is_long { " …" } else { "" };
        text.push_str(&format!("{}- {}{more} [{}]", if index == 0 { "\n\n" } else { "\n" }, start.trim_end_matches(['.', ' ']), index + 1));
    }
    text
}

/// The shown spans that an answer or its list of sources names.
pub fn cited_passages(answer: &Answer, shown: &[Span]) -> Vec<Passage> {
    let of_sources = answer.sources.iter().flat_map(|source| &source.spans);
    let of_sentences = answer.sentences.iter().flat_map(|sentence| sentence.cites.iter().chain(&sentence.contradicted_by));
    let numbers: std::collections::BTreeSet<usize> = of_sources.chain(of_sentences).copied().collect();
    let passage = |number: usize| Some(Passage { number, span: shown.get(number.checked_sub(1)?)?.clone() });
    numbers.into_iter().filter_map(passage).collect()
}

impl Answer {
    /// Adds words that are not checked. Ranges of sentences stay as they are, because the words follow the body.
    pub(crate) fn append(&mut self, markdown: &str) {
        let more = format!("\n\n{markdown}");
        self.text.insert_str(self.body.len(), &more);
        let end = self.plain.rfind("\n\nSources:").filter(|_| !self.sources.is_empty()).unwrap_or(self.plain.len());
        self.plain.insert_str(end, &more);
        self.body.push_str(&more);
    }

    /// Puts words before it that are not checked.
    fn prepend(&mut self, markdown: &str) {
        let more = format!("{markdown}\n\n");
        for text in [&mut self.text, &mut self.plain, &mut self.body] {
            text.insert_str(0, &more);
        }
        for sentence in &mut self.sentences {
            sentence.range = sentence.range.start + more.len()..sentence.range.end + more.len();
        }
    }

    /// Whether it names facts after its short answer, the passages support none of them, and one has a name, number, date or quotation that is in no passage: a
    /// fact whose parts are all there may be right and cite the wrong passage.
    fn has_no_supported_fact(&self, shown: &[Span]) -> bool {
        let facts: Vec<&Sentence> = self.sentences.iter().skip(1).filter(|sentence| sentence.status != Status::NoClaim).collect();
        let is_unsupported = |fact: &&Sentence| matches!(fact.status, Status::Unsupported | Status::Contradicted);
        let spans = Spans::new(shown);
        let all: String = (1..=shown.len()).map(|number| format!("[{number}]")).collect();
        let is_absent = |fact: &&Sentence| {
            let checked = spans.check(&format!("{} {all}", fact.text), &Options::default());
            checked.sentences.iter().flat_map(|sentence| &sentence.problems).any(|problem| ABSENT.contains(&problem.kind))
        };
        !facts.is_empty() && facts.iter().all(is_unsupported) && facts.iter().any(is_absent)
    }

    /// The output of a run.
    pub fn output(&self, flow: &str) -> Map<String, Value> {
        let mut output = Map::new();
        output.insert("answer".into(), json!(self.text));
        output.insert("plain".into(), json!(self.plain));
        output.insert("sources".into(), json!(self.sources));
        output.insert("sentences".into(), json!(self.sentences));
        output.insert("refused".into(), json!(self.refused));
        output.insert("flow".into(), json!(flow));
        if let Some(short) = &self.short {
            output.insert("short".into(), json!(short));
        }
        if let Some(html) = &self.html {
            output.insert("html".into(), json!(html));
        }
        output
    }

    /// Number of sentences with this status.
    pub fn count(&self, status: Status) -> usize {
        self.sentences.iter().filter(|sentence| sentence.status == status).count()
    }

    /// Counts by status, for a note.
    pub fn summary(&self) -> Value {
        json!({
            "sources": self.sources.len(),
            "supported": self.count(Status::Supported),
            "weak": self.count(Status::Weak),
            "unsupported": self.count(Status::Unsupported),
            "contradicted": self.count(Status::Contradicted),
            "removed": self.removed,
            "refused": self.refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans() -> Vec<Span> {
        let span = |text: &str, title: &str| Span {
            text: text.into(),
            source: "docs.search".into(),
            title: Some(title.into()),
            address: Some(format!("https://{title}.example")),
            ..Span::default()
        };
        vec![
            span("Cats sleep for 13 hours a day.", "cats"),
            span("After a crash the log is replayed from the last checkpoint.", "log"),
            span("A commit takes 0.34 ms.", "commit"),
        ]
    }

    #[test]
    fn an_answer_is_held_to_what_was_shown_and_nothing_else() {
        let (messages, shown) = show(&spans(), "What happens to the log after a crash?", 2_000);
        assert_eq!((messages.len(), messages[1].role.as_str()), (3, "evidence"));
        assert!(messages[1].content.starts_with("Source: log · https://log.example\nAfter a crash"), "{messages:?}");
        let raw = "After a crash the log is replayed from the last checkpoint [2]. The disk had 9 TB [3][7].";
        let answer = finish(raw, &shown, false);
        assert!(answer.text.contains("replayed from the last checkpoint [1]."), "{}", answer.text);
        assert!(answer.text.contains("1. [log](<https://log.example>)") && answer.plain.contains("[1] log"), "{}", answer.plain);
        assert_eq!(answer.refused, [7]);
        assert_eq!(answer.summary()["unsupported"], 1);
        let strict = finish(raw, &shown, true);
        assert_eq!((strict.removed, strict.text.contains("9 TB")), (1, false));
        let output = strict.output("search");
        assert_eq!(output["flow"], "search");
        assert!(output["answer"].as_str().unwrap().contains("checkpoint [1]"));
    }

    #[test]
    fn what_is_kept_says_the_same_as_what_was_shown() {
        let long =
            Span { text: "Filler about nothing at all. ".repeat(100) + "The log is replayed. " + &"More filler. ".repeat(100), ..spans()[1].clone() };
        for (spans, budget) in [(spans(), 2_000), (spans(), 45), (vec![long], 60)] {
            let (shown_messages, shown) = show(&spans, "When is the log replayed?", budget);
            assert!(!shown.is_empty());
            assert_eq!(messages(&shown), shown_messages);
            assert!(shown_messages.iter().any(|message| message.content.contains("log")), "{shown_messages:?}");
            let tokens: usize = shown_messages.iter().map(|message| evidence::tokens(&message.content)).sum();
            assert!(tokens <= budget, "{tokens}");
        }
    }

    #[test]
    fn what_a_search_put_first_has_room_before_what_repeats_the_question() {
        let quoting = |rank| Span { text: "Try it: ask \"When is the log replayed?\" and wait.".into(), rank, ..spans()[0].clone() };
        let best = |rank| Span { text: "After a crash, from the last checkpoint on.".into(), rank, ..spans()[1].clone() };
        let shown = |best: Span, quoting: Span| pick(&[best, quoting], "When is the log replayed?", 45)[0].title.clone().unwrap_or_default();
        assert_eq!((shown(best(None), quoting(None)).as_str(), shown(best(Some(0)), quoting(Some(40))).as_str()), ("cats", "log"));
    }

    #[test]
    fn without_evidence_nothing_is_marked_unless_strict() {
        let answer = finish("The sky is blue [1].", &[], false);
        assert_eq!((answer.text.as_str(), answer.refused.as_slice()), ("The sky is blue.", &[1][..]));
        assert_eq!((answer.count(Status::NotChecked), answer.count(Status::Unsupported)), (1, 0));
        assert!(answer.sentences[0].problems.is_empty(), "{answer:?}");
        // In text that the flow writes itself, only supported sentences have a status.
        let own = DraftAnswer { markdown: "Cats sleep for 13 hours a day. This step was skipped by the user.".into(), short: None };
        let own = finish_own(own, &spans());
        assert_eq!((own.count(Status::Supported), own.count(Status::NotChecked), own.sentences.len()), (1, 1, 2), "{own:?}");
        assert_eq!(finish("The sky is blue.", &[], true).text, evidence::NOTHING_LEFT);
    }

    #[test]
    fn a_list_of_what_was_found_is_supported_by_it() {
        let shown = spans();
        let answer = finish(&listed("No model answered; this was found:", &shown), &shown, true);
        assert_eq!(answer.count(Status::Supported), 3, "{answer:?}");
        assert_eq!(answer.sources.len(), 3);
    }
}

//! The document: the sections under their headings, a summary before them, one check of everything, one list of sources.

use std::collections::BTreeMap;

use evidence::{CONTRADICTED_MARK, Judged, Passage, Sentence, Source, Span, Status, UNSUPPORTED_MARK, WEAK_MARK};
use graph::{Ask, Go, Replies};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Progress, Report, Section};
use crate::answer;
use crate::approval;
use crate::claims::{DraftAnswer, NOT_ANSWERED, NOT_SUPPORTED};
use crate::prompt;
use crate::verify::Check;

const SUMMARY: &str = include_str!("summary.md");
const SUMMARY_TOKENS_MAX: u32 = 700;
/// Limit of each section, so that all of them fit.
const SECTION_TOKENS_MAX: usize = 1_500;
/// A first paragraph of so few words is a short answer, not the beginning of a text.
const SHORT_WORDS_MAX: usize = 4;
const NOT_COVERED: &str = "## Not covered";
const NOTHING: &str = "Nothing was found for any section of the report";

/// Result of a section's run.
pub(super) struct Found {
    body: String,
    /// The short form of the answer, if the model was asked for one; the first paragraph repeats it.
    short: Option<String>,
    sentences: Vec<Sentence>,
    sources: Vec<Source>,
    passages: Vec<Passage>,
}

impl Found {
    pub(super) fn read(output: &Value) -> Result<Found, String> {
        fn list<T: serde::de::DeserializeOwned>(output: &Value, name: &str) -> Result<T, String> {
            T::deserialize(output.get(name).unwrap_or(&json!([]))).map_err(|error| format!("`{name}`: {error}"))
        }
        let text = output.get("answer").and_then(Value::as_str).ok_or("it has no `answer`")?;
        // The list of sources and what sources disagree about are written again for the whole document.
        let sources: Vec<Source> = list(output, "sources")?;
        let body = evidence::answer_body(text, !sources.is_empty());
        let body = body.split_once("\n\n**The sources disagree:**\n").map_or(body, |(body, _)| body);
        Ok(Found {
            body: body.to_owned(),
            short: output.get("short").and_then(Value::as_str).map(str::to_owned),
            sentences: list(output, "sentences")?,
            sources,
            passages: list(output, "passages")?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.body.trim().is_empty()
            || self.body.trim() == NOT_ANSWERED
            || self.body.starts_with(NOT_SUPPORTED)
            || (self.passages.is_empty() && self.sentences.is_empty())
    }

    /// The text with the numbers of `spans`, to which its passages are added; and the sentence that a summary can begin with.
    pub(super) fn renumbered(self, spans: &mut Vec<Span>, spans_max: usize) -> Progress {
        let mut numbers = BTreeMap::new();
        for Passage { number, span } in &self.passages {
            let known = spans.iter().position(|other| answer::is_same(other, span));
            let place = known.or_else(|| {
                (spans.len() < spans_max).then(|| {
                    spans.push(span.clone());
                    spans.len() - 1
                })
            });
            numbers.extend(place.map(|place| (*number, place + 1)));
        }
        let start = self.text_start();
        let is_lead = |sentence: &&Sentence| sentence.range.start >= start && sentence.status == Status::Supported && !sentence.cites.is_empty();
        let lead = self.sentences.iter().find(is_lead);
        let lead = lead.and_then(|sentence| Some(self.cited(sentence.range.start, self.body.get(sentence.range.clone())?, &numbers)));
        let text = match self.body[start..].trim().is_empty() {
            true => format!("Short answer: {}", self.cited(0, &self.body, &numbers).trim()),
            false => below(&self.cited(start, &self.body[start..], &numbers)),
        };
        Progress::Written { text, lead: lead.unwrap_or_default().trim().to_owned() }
    }

    /// The byte after a short answer that is a paragraph of its own: under a heading it is read without its question.
    fn text_start(&self) -> usize {
        let lead_in = self.body.len() - self.body.trim_start().len();
        let end = self.body[lead_in..].find("\n\n").map_or(self.body.len(), |end| lead_in + end);
        let first = without_remarks(&self.body[lead_in..end]);
        let mut words = first.clone();
        for citation in evidence::citations(&first).into_iter().rev() {
            words.replace_range(citation.range, "");
        }
        let is_block = first.starts_with(['#', '-', '+', '>', '|', '`', '!']) || first.starts_with("* ") || words.trim_end().ends_with(':');
        let is_item = first.split_once(['.', ')']).is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        let words = words.replace('*', "");
        let words = words.trim().trim_end_matches('.').trim_end();
        let is_short = self.short.as_deref() == Some(words) || words.split_whitespace().count() <= SHORT_WORDS_MAX;
        if is_short && !is_block && !is_item { end } else { 0 }
    }

    /// A part of the body that begins at this byte, without remarks, and with the numbers of the report in its citations.
    fn cited(&self, start: usize, part: &str, numbers: &BTreeMap<usize, usize>) -> String {
        let mut text = String::with_capacity(part.len());
        let mut at = 0;
        for citation in evidence::citations(part) {
            text.push_str(&part[at..citation.range.start]);
            at = citation.range.end;
            let place = start + citation.range.start;
            let own: &[usize] =
                self.sentences.iter().find(|sentence| sentence.range.contains(&place)).map_or(&[], |sentence| sentence.cites.as_slice());
            let mut written: Vec<usize> = Vec::new();
            for source in citation.numbers.iter().filter_map(|number| self.sources.get(number.checked_sub(1)?)) {
                // Of a source the passages that the sentence rests on; all of them where it names none.
                let is_own = |number: &&usize| own.contains(number);
                let chosen: Vec<&usize> = source.spans.iter().filter(is_own).collect();
                let chosen = if chosen.is_empty() { source.spans.iter().collect() } else { chosen };
                for number in chosen.into_iter().filter_map(|number| numbers.get(number)) {
                    if !written.contains(number) {
                        written.push(*number);
                    }
                }
            }
            text.extend(written.iter().map(|number| format!("[{number}]")));
        }
        text.push_str(&part[at..]);
        without_remarks(&text)
    }
}

fn without_remarks(text: &str) -> String {
    [UNSUPPORTED_MARK, WEAK_MARK, CONTRADICTED_MARK].iter().fold(text.to_owned(), |text, mark| text.replace(mark, ""))
}

/// Headings of a section go below its own.
fn below(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        is_code ^= line.trim_start().starts_with("```");
        match line.strip_prefix('#') {
            Some(rest) if !is_code && rest.trim_start_matches('#').starts_with(' ') => format!("###{}", rest.trim_start_matches('#')),
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn written(s: &Report) -> impl Iterator<Item = (&Section, &str, &str)> {
    // Beside sections with sources, one without any has nothing that can be checked.
    let is_sourced = !s.spans.is_empty();
    s.sections.iter().filter_map(move |section| match &section.state {
        Progress::Written { text, lead } if !is_sourced || !evidence::citations(text).is_empty() => Some((section, text.as_str(), lead.as_str())),
        _ => None,
    })
}

/// Requests the summary. A small model would only repeat; the first supported sentences of the sections replace it.
pub(super) fn ask(s: &Report) -> Ask {
    if s.model.is_small || s.spans.is_empty() {
        return Ask::nothing();
    }
    let sections = written(s).map(|(section, text, _)| format!("## {}\n\n{}", section.heading, prompt::clipped(text, SECTION_TOKENS_MAX)));
    let text = sections.collect::<Vec<_>>().join("\n\n");
    let system = prompt::system(prompt::render(SUMMARY, json!({})));
    let tokens_max = s.model.evidence_tokens(prompt::tokens_of(std::slice::from_ref(&system)), SUMMARY_TOKENS_MAX);
    let messages = vec![system, prompt::user(format!("# {}\n\n{}", s.title, prompt::clipped(&text, tokens_max)))];
    let schema = json!({
        "type": "object",
        "required": ["summary"],
        "additionalProperties": false,
        "properties": { "summary": { "type": "string", "minLength": 1, "maxLength": 4_000 } },
    });
    Ask::one(prompt::call("summary", messages, Some(schema), SUMMARY_TOKENS_MAX).label("writing the summary").last())
}

pub(super) fn fold(s: &mut Report, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Summary {
        summary: String,
    }
    let mut failure = None;
    let mut summary = String::new();
    if !replies.is_empty() {
        match prompt::read::<Summary>(replies, 0) {
            Ok(read) => summary = below(evidence::visible(&read.summary).trim()),
            Err(why) => failure = Some(why.to_string()),
        }
    }
    if summary.is_empty() {
        let leads: Vec<String> = written(s).filter(|(_, _, lead)| !lead.is_empty()).map(|(_, _, lead)| format!("- {lead}")).collect();
        summary = leads.join("\n");
    }
    let mut parts = Vec::new();
    if !summary.is_empty() {
        parts.push(format!("## Summary\n\n{summary}"));
    }
    parts.extend(written(s).map(|(section, text, _)| format!("## {}\n\n{text}", section.heading)));
    s.checks = parts.iter().map(|part| Check::new(part.as_str(), &s.spans, s.means())).collect();
    s.parts = parts;
    let go = checked(s);
    failure.into_iter().fold(go, |go, why| go.note("summary_failed", why))
}

/// Continues with the check, or ends with its result.
pub(super) fn checked(s: &mut Report) -> Go {
    if s.checks.iter().any(|check| !check.is_done()) {
        return Go::to("check");
    }
    let checks = std::mem::take(&mut s.checks);
    let judged = Judged::joined(checks.iter().filter_map(|check| check.judged(&s.spans)));
    let text = std::iter::once(format!("# {}", s.title)).chain(std::mem::take(&mut s.parts)).collect::<Vec<_>>().join("\n\n");
    let draft = DraftAnswer { markdown: text, short: None };
    s.answer = answer::finish_judged(draft, &s.spans, s.strict, judged.as_ref(), None);
    if let Some(missing) = not_covered(s) {
        s.answer.append(&missing);
    }
    let go = s.end().note("answer", s.answer.summary());
    checks.into_iter().filter_map(|check| check.failure).fold(go, |go, why| go.note("check_failed", why))
}

/// Ends a report without any section.
pub(super) fn nothing(s: &mut Report) -> Go {
    s.answer = answer::finish(&approval::declined_words(NOTHING, ""), &[], false);
    if let Some(missing) = not_covered(s) {
        s.answer.append(&missing);
    }
    s.end().note("answer", s.answer.summary())
}

/// The sections that are not in the document, and why.
fn not_covered(s: &Report) -> Option<String> {
    let headings: Vec<&str> = written(s).map(|(section, ..)| section.heading.as_str()).collect();
    let line = |section: &Section| {
        let why = match &section.state {
            Progress::Failed(why) | Progress::TooLarge(why) => evidence::defused(why),
            Progress::Open | Progress::Written { .. } => "no source was found".to_owned(),
        };
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("- {}: {}", section.heading, why.chars().take(300).collect::<String>())
    };
    let lines: Vec<String> = s.sections.iter().filter(|section| !headings.contains(&section.heading.as_str())).map(line).collect();
    (!lines.is_empty()).then(|| format!("{NOT_COVERED}\n\n{}", lines.join("\n")))
}

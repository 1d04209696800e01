//! Turns a model's raw answer into one whose citations all exist.
//!
//! The model cites spans by the numbers it was shown. Numbers without a span are dropped and reported, supported sentences without a
//! citation get one, and the rest is renumbered in order of first use. A number in the clean answer names a *source*, all spans of one
//! address together: a reader wants to know the document, not the part of it. The spans of each sentence stay in `Cited::checked`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::check::{Checked, Options, ProblemKind, Sentence, Status};
use crate::citation::{Citation, citations};
use crate::conflict::Conflict;
use crate::fence;
use crate::link;
use crate::sentences::{Kind, Unit, units};
use crate::span::{Span, Trust};
use crate::spans::Spans;
use crate::words::Scanner;

/// What happens to sentences that their sources do not support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strict {
    /// Unsupported, contradicted and weak sentences are kept and marked.
    #[default]
    Mark,
    /// Unsupported and contradicted sentences are removed; weak ones are marked.
    Remove,
    /// Statuses are only in `Cited::checked`, for a page that shows them itself.
    Leave,
}

/// An answer with corrected citations, its sources and the result of the check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cited {
    /// The answer as Markdown, without the list of sources. Ranges in `checked` refer to it.
    pub body: String,
    /// `[1]` is the first of these.
    pub sources: Vec<Source>,
    /// Statuses after citations were corrected; `cites` and `found` are numbers of spans, not of sources.
    pub checked: Checked,
    /// Spans that contradict each other and of which the answer cites one; listed at the end of `body`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Sentences that `Strict::Remove` dropped.
    pub removed: Vec<Sentence>,
    /// Citation numbers that match no span.
    pub refused: Vec<usize>,
    /// Addresses of links and images that no span has; only their text is kept.
    pub unlinked: Vec<String>,
}

/// A document, page or tool whose spans an answer cites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Numbers of the spans, from 1.
    pub spans: Vec<usize>,
    /// The title that is shown.
    pub title: String,
    /// A URL or path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The cited places in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// When it was written or last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The origin of its text.
    pub trust: Trust,
}

/// Follows an unsupported sentence with `Strict::Mark`.
pub const UNSUPPORTED_MARK: &str = " *(not supported by the sources)*";
/// Follows a weakly supported sentence with `Strict::Mark` or `Strict::Remove`.
pub const WEAK_MARK: &str = " *(weakly supported)*";
/// Follows a contradicted sentence with `Strict::Mark`.
pub const CONTRADICTED_MARK: &str = " *(contradicted by the sources)*";
/// An answer is cut after this many bytes or sentences, whichever comes first: every sentence is checked against every span, and is stored
/// with its status.
const ANSWER_BYTES_MAX: usize = 128 << 10;
const SENTENCES_MAX: usize = 2_000;
/// Contradictions between sources that an answer reports, and the length of each sentence.
const CONFLICTS_MAX: usize = 3;
const CONFLICT_CHARS_MAX: usize = 240;
/// The end of an answer that was cut at its limits.
pub const CUT_NOTE: &str = "\n\n*(The answer is cut here: it has more than 2,000 sentences or 128 KiB.)*";
/// The answer if `Strict::Remove` removed every sentence.
pub const NOTHING_LEFT: &str = "Nothing that was found supports an answer.";

/// The clean answer. The spans are those shown to the model, in that order.
pub fn cite(answer: &str, spans: &Spans<'_>, strict: Strict, options: &Options<'_>) -> Cited {
    let kept = &answer[..answer.floor_char_boundary(ANSWER_BYTES_MAX)];
    let (mut tidy, unlinked) = tidied(kept, spans);
    let mut scanner = Scanner::default();
    let mut units = units(&tidy);
    let mut is_cut = kept.len() < answer.len();
    if let Some(end) = units.get(SENTENCES_MAX).map(|unit| unit.range.start) {
        is_cut = true;
        tidy.truncate(end);
        units.truncate(SENTENCES_MAX);
        units.iter_mut().for_each(|unit| unit.block_range.end = unit.block_range.end.min(end));
    }
    let mut cited = Cited { unlinked, ..Cited::default() };
    let sentences: Vec<Sentence> = units.iter().map(|unit| with_right_citations(unit, spans, &mut scanner, options)).collect();
    let mut refused = BTreeSet::new();
    cited.refused.extend(sentences.iter().flat_map(|sentence| &sentence.missing).filter(|number| refused.insert(**number)));
    let goes = |index: usize| strict == Strict::Remove && sentences[index].status.is_refused();
    let mut body = String::with_capacity(tidy.len() + 64);
    let mut at = 0;
    for (index, unit) in units.iter().enumerate() {
        if goes(index) {
            cited.removed.push(sentences[index].clone());
            let is_whole_block = units.iter().enumerate().filter(|(_, other)| other.block == unit.block).all(|(other, _)| goes(other));
            if is_whole_block {
                // With its markup and line end.
                body.push_str(&tidy[at.min(unit.block_range.start)..unit.block_range.start]);
                at = at.max(unit.block_range.end);
            } else {
                body.push_str(&tidy[at..unit.range.start]);
                at = unit.range.end + (tidy[unit.range.end..].len() - tidy[unit.range.end..].trim_start_matches(' ').len());
                if tidy[at..].is_empty() || tidy[at..].starts_with('\n') {
                    body.truncate(body.trim_end_matches(' ').len());
                }
            }
            continue;
        }
        body.push_str(&tidy[at..unit.range.start]);
        at = unit.range.end;
        let start = body.len();
        write(&mut body, &tidy, unit, &sentences[index], spans.all(), &mut cited.sources);
        let mark = match (strict, sentences[index].status) {
            (Strict::Leave, _) | (_, Status::Supported | Status::NoClaim | Status::NotChecked) => "",
            (_, Status::Weak) => WEAK_MARK,
            (_, Status::Unsupported) => UNSUPPORTED_MARK,
            (_, Status::Contradicted) => CONTRADICTED_MARK,
        };
        if unit.kind == Kind::TableRow && !mark.is_empty() {
            let place = row_end(&body, start);
            let after = if place < body.len() { " " } else { "" };
            body.insert_str(place, &format!("{mark}{after}"));
        }
        let mut sentence = Sentence { range: start..body.len(), ..sentences[index].clone() };
        name_contrary(&mut sentence, spans.all(), &mut cited.sources);
        cited.checked.sentences.push(sentence);
        if unit.kind != Kind::TableRow {
            body.push_str(mark);
        }
    }
    body.push_str(&tidy[at..]);
    body.truncate(body.trim_end().len());
    // A sentence of nothing but refused numbers has no text left.
    for sentence in &mut cited.checked.sentences {
        sentence.range.end = sentence.range.end.min(body.len());
    }
    cited.checked.sentences.retain(|sentence| !sentence.range.is_empty());
    if !cited.removed.is_empty() && cited.checked.sentences.iter().all(|sentence| sentence.status == Status::NoClaim) {
        body = NOTHING_LEFT.to_owned();
        cited.checked.sentences.clear();
        cited.sources.clear();
    }
    if let Some(judged) = options.judged {
        cited.conflicts = reported(judged.conflicts(), &cited.checked.sentences);
        write_conflicts(&mut body, &cited.conflicts, spans.all(), &mut cited.sources);
    }
    neutralize(&mut body, cited.sources.len());
    if is_cut {
        body.push_str(CUT_NOTE);
    }
    cited.body = body;
    cited
}

/// An answer without invisible characters, its own list of sources, and links that no span has; and the addresses of those links.
pub(crate) fn tidied(answer: &str, spans: &Spans<'_>) -> (String, Vec<String>) {
    let seen = fence::visible(answer);
    link::unlinked(link::without_source_list(seen.trim()), spans.all())
}

/// What [`Cited::to_markdown`] writes between an answer and the list of its sources.
const SOURCES_HEADING: &str = "\n\n**Sources**\n";

/// The Markdown of a finished answer without the list of sources that [`Cited::to_markdown`] appended. Without sources there is no such list, and a
/// heading of that name is the model's own.
pub fn answer_body(markdown: &str, has_sources: bool) -> &str {
    markdown.rsplit_once(SOURCES_HEADING).filter(|_| has_sources).map_or(markdown, |(body, _)| body)
}

impl Cited {
    /// The answer and its sources.
    pub fn to_markdown(&self) -> String {
        let mut text = self.body.clone();
        if !self.sources.is_empty() {
            text.push_str(SOURCES_HEADING);
        }
        for (index, source) in self.sources.iter().enumerate() {
            let title = escaped(&source.title);
            let name = match &source.address {
                Some(address) if link::is_web(address) => format!("[{title}](<{}>)", link::encoded(address)),
                Some(address) if *address != source.title => format!("{title}, `{}`", address.replace('`', "'")),
                _ => title,
            };
            text.push_str(&format!("\n{}. {name}{}", index + 1, escaped(&source.tail())));
        }
        text
    }

    /// The same for a terminal or a plain-text mail.
    pub fn to_plain(&self) -> String {
        let mut text = link::plain(&self.body);
        if !self.sources.is_empty() {
            text.push_str("\n\nSources:");
        }
        for (index, source) in self.sources.iter().enumerate() {
            let address =
                source.address.as_ref().filter(|address| **address != source.title).map(|address| format!(", {address}")).unwrap_or_default();
            text.push_str(&format!("\n[{}] {}{address}{}", index + 1, source.title, source.tail()));
        }
        text
    }
}

impl Source {
    fn tail(&self) -> String {
        match self.places.as_slice() {
            [] => String::new(),
            // `stories.search (query: upstream), total`
            places if self.address.is_none() => format!(", {}", places.join("; ")),
            places => format!(" ({})", places.join("; ")),
        }
    }
}

/// A sentence with corrected citations: its own if they hold, otherwise the spans that support it.
fn with_right_citations(unit: &Unit, spans: &Spans<'_>, scanner: &mut Scanner, options: &Options<'_>) -> Sentence {
    let sentence = spans.sentence(unit, scanner, options);
    if sentence.found.is_empty() {
        return sentence;
    }
    let numbers = sentence.found.clone();
    let again = Unit { citations: vec![Citation { range: unit.range.end..unit.range.end, numbers }], ..unit.clone() };
    let corrected = spans.sentence(&again, scanner, options);
    Sentence { missing: sentence.missing, found: sentence.found, ..corrected }
}

fn write(body: &mut String, tidy: &str, unit: &Unit, sentence: &Sentence, spans: &[Span], sources: &mut Vec<Source>) {
    let start = body.len();
    if unit.kind == Kind::Code {
        body.push_str(&tidy[unit.range.clone()]);
        return;
    }
    let mut written: Vec<usize> = Vec::new();
    let mut new = |number: usize| {
        let source = source_of(number, spans, sources)?;
        if written.contains(&source) {
            return None;
        }
        written.push(source);
        Some(format!("[{source}]"))
    };
    let keeps_places = sentence.found.is_empty();
    let mut at = unit.range.start;
    for citation in &unit.citations {
        body.push_str(&tidy[at..citation.range.start]);
        at = citation.range.end.min(unit.range.end);
        let numbers = citation.numbers.iter().filter(|number| keeps_places && sentence.cites.contains(number));
        let marks: String = numbers.filter_map(|number| new(*number)).collect();
        if marks.is_empty() {
            // No double space, no space before following punctuation.
            let next = tidy[at..unit.range.end].chars().next();
            if next.is_none_or(|next| next.is_whitespace() || next.is_ascii_punctuation()) {
                body.truncate(start + body[start..].trim_end_matches(' ').len());
            }
        } else {
            body.push_str(&marks);
        }
    }
    body.push_str(&tidy[at..unit.range.end]);
    body.truncate(start + body[start..].trim_end().len());
    let more: String = sentence.cites.iter().filter(|_| !keeps_places).filter_map(|number| new(*number)).collect();
    if !more.is_empty() {
        let place = if unit.kind == Kind::TableRow { row_end(body, start) } else { sentence_end(body, start) };
        let space = if body[..place].ends_with([' ', '|']) { "" } else { " " };
        let after = if unit.kind == Kind::TableRow && place < body.len() { " " } else { "" };
        body.insert_str(place, &format!("{space}{more}{after}"));
    }
}

/// The contradicting source is listed, whether or not the text cites it, and named by its number in the list.
fn name_contrary(sentence: &mut Sentence, spans: &[Span], sources: &mut Vec<Source>) {
    let Some(source) = sentence.contradicted_by.and_then(|number| source_of(number, spans, sources)) else { return };
    for problem in sentence.problems.iter_mut().filter(|problem| problem.kind == ProblemKind::Contradicted) {
        problem.words = format!("[{source}] states the contrary");
    }
}

/// Conflicts that concern the answer.
fn reported(conflicts: &[Conflict], sentences: &[Sentence]) -> Vec<Conflict> {
    let is_cited = |number: usize| sentences.iter().any(|sentence| sentence.cites.contains(&number));
    conflicts.iter().filter(|conflict| is_cited(conflict.spans.0) || is_cited(conflict.spans.1)).take(CONFLICTS_MAX).cloned().collect()
}

fn write_conflicts(body: &mut String, conflicts: &[Conflict], spans: &[Span], sources: &mut Vec<Source>) {
    // Untrusted text: no Markdown, and nothing that parses as a citation.
    let quoted = |text: &str| {
        let line = escaped(&one_line(text)).replace("\\[", "(").replace("\\]", ")");
        if line.chars().count() > CONFLICT_CHARS_MAX { line.chars().take(CONFLICT_CHARS_MAX).chain(['…']).collect() } else { line }
    };
    for (at, conflict) in conflicts.iter().enumerate() {
        let (Some(a), Some(b)) = (source_of(conflict.spans.0, spans, sources), source_of(conflict.spans.1, spans, sources)) else { continue };
        let intro = if at == 0 { "\n\n**The sources disagree:**\n" } else { "" };
        let (first, second) = (quoted(&conflict.sentences.0), quoted(&conflict.sentences.1));
        body.push_str(&format!("{intro}\n- “{first}” [{a}], but “{second}” [{b}]"));
    }
}

/// Before the full stop; after that of a quotation.
fn sentence_end(body: &str, start: usize) -> usize {
    start + body[start..].trim_end_matches(['.', '!', '?', '…', '。', '！', '？']).len()
}

/// Before the bar that ends a row.
fn row_end(body: &str, start: usize) -> usize {
    let row = &body[start..];
    start + row.strip_suffix('|').filter(|row| !row.is_empty()).map_or(row.len(), |row| row.trim_end().len() + usize::from(row.ends_with(' ')))
}

/// The index of a span's source in the list, from 1; a new one is appended.
fn source_of(number: usize, spans: &[Span], sources: &mut Vec<Source>) -> Option<usize> {
    let span = spans.get(number.checked_sub(1)?)?;
    let line = |text: &Option<String>| text.as_deref().map(one_line).filter(|text| !text.is_empty());
    let address = line(&span.address);
    // Without an address, the source is the tool's reply to one call.
    let title = line(&span.task).filter(|_| address.is_none()).or_else(|| line(&span.title));
    let is_same = |source: &Source| match &address {
        Some(_) => source.address == address,
        None => source.spans.contains(&number) || (source.address.is_none() && title.as_ref() == Some(&source.title)),
    };
    let index = sources.iter().position(is_same).unwrap_or_else(|| {
        let name = title.or_else(|| address.clone()).unwrap_or_else(|| one_line(&span.source));
        let title = if name.is_empty() { "a tool's reply".to_owned() } else { name };
        sources.push(Source { title, address, at: span.at.clone(), trust: span.trust, ..Source::default() });
        sources.len() - 1
    });
    let source = &mut sources[index];
    if !source.spans.contains(&number) {
        source.spans.push(number);
    }
    if let Some(place) = line(&span.place).filter(|place| !source.places.contains(place)) {
        source.places.push(place);
    }
    Some(index + 1)
}

fn one_line(text: &str) -> String {
    fence::visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `>` and `#` are only special at the beginning, and escapes would look odd in `Baton > Speed`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        if matches!(c, '[' | ']' | '\\' | '*' | '_' | '<' | '`' | '|') || (at == 0 && matches!(c, '>' | '#')) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Removing text can join brackets (`[[9]1]`). A resulting citation of nothing loses its brackets, without changing the length.
fn neutralize(body: &mut String, sources: usize) {
    loop {
        let wrong: Vec<Citation> =
            citations(body).into_iter().filter(|citation| citation.numbers.iter().any(|number| *number == 0 || *number > sources)).collect();
        if wrong.is_empty() {
            return;
        }
        for citation in wrong {
            let inner = body[citation.range.clone()].replace('[', "(").replace(']', ")").replace('【', "（").replace('】', "）");
            body.replace_range(citation.range, &inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_and_marked() {
        for raw in ["A b. ".repeat(150_000), "word ".repeat(200_000), "[9] ".repeat(200_000), "[a](b)[1] ".repeat(100_000), ">".repeat(400_000)] {
            let cited = cite(&raw, &Spans::new(&[]), Strict::Remove, &Options::default());
            assert!(cited.checked.sentences.len() <= SENTENCES_MAX && cited.body.len() <= 2 * ANSWER_BYTES_MAX);
            assert!(cited.body.ends_with(CUT_NOTE), "{}", &cited.body[cited.body.len().saturating_sub(200)..]);
        }
        let whole = "A b. ".repeat(1_999);
        assert!(!cite(&whole, &Spans::new(&[]), Strict::Mark, &Options::default()).body.contains("cut here"));
    }

    fn spans() -> Vec<Span> {
        let span = |text: &str, title: &str, address: &str, place: &str| Span {
            text: text.into(),
            source: "docs.search".into(),
            title: Some(title.into()),
            address: (!address.is_empty()).then(|| address.into()),
            place: Some(place.into()),
            ..Span::default()
        };
        vec![
            span("The log is replayed from the last checkpoint.", "Recovery", "https://a.example/log", "Crash"),
            span("A commit takes 0.34 ms on the NVMe disk.", "Recovery", "https://a.example/log", "Speed"),
            span("Cats sleep for 13 hours a day.", "Cats [x]", "cats.md", "Sleep"),
        ]
    }

    fn check(strict: Strict, answer: &str, expected: &str) -> Cited {
        let spans = spans();
        let cited = cite(answer, &Spans::new(&spans), strict, &Options::default());
        assert_eq!(cited.body, expected, "{answer}");
        for sentence in &cited.checked.sentences {
            assert!(cited.body.get(sentence.range.clone()).is_some());
        }
        cited
    }

    #[test]
    fn citations_are_real_renumbered_and_complete() {
        // Grouped by address, in order of first use, added where missing, refused where there is nothing.
        let answer =
            "Cats sleep for 13 hours a day [3]. The log is replayed from the last checkpoint. A commit takes 0.34 ms on the NVMe disk [2][7].";
        let cited = check(
            Strict::Mark,
            answer,
            "Cats sleep for 13 hours a day [1]. The log is replayed from the last checkpoint [2]. A commit takes 0.34 ms on the NVMe disk [2].",
        );
        assert_eq!(cited.refused, [7]);
        assert_eq!(cited.sources.iter().map(|source| source.spans.clone()).collect::<Vec<_>>(), [vec![3], vec![1, 2]]);
        assert_eq!(
            cited.to_markdown().split_once("\n\n").unwrap().1,
            "**Sources**\n\n1. Cats \\[x\\], `cats.md` (Sleep)\n2. [Recovery](<https://a.example/log>) (Crash; Speed)"
        );
        assert!(
            cited.to_plain().ends_with("Sources:\n[1] Cats [x], cats.md (Sleep)\n[2] Recovery, https://a.example/log (Crash; Speed)"),
            "{}",
            cited.to_plain()
        );
        // A wrong citation is corrected.
        check(Strict::Mark, "The log is replayed from the last checkpoint. [3]", "The log is replayed from the last checkpoint [1].");
        // The model's own links, source list and images are removed.
        let cited = check(
            Strict::Leave,
            "The log is [replayed](https://evil.example/x) from the last checkpoint [1](https://evil.example). ![p](https://evil.example/p)\n\nSources:\n[1] https://evil.example\n[2] Other",
            "The log is replayed from the last checkpoint [1]. p",
        );
        assert_eq!(cited.unlinked, ["https://evil.example/x", "https://evil.example/p"]);
    }

    #[test]
    fn what_is_not_supported_is_marked_or_gone() {
        let answer =
            "# Facts\n\n- Cats sleep for 31 hours a day [3].\n- The log is replayed from the last checkpoint [1]. Dogs bark at Mars [2].\n\nDone?";
        let marked = "# Facts\n\n- Cats sleep for 31 hours a day [1]. *(not supported by the sources)*\n- The log is replayed from the last checkpoint [2]. Dogs bark at Mars [2]. *(not supported by the sources)*\n\nDone?";
        check(Strict::Mark, answer, marked);
        let cited = check(Strict::Remove, answer, "# Facts\n\n- The log is replayed from the last checkpoint [1].\n\nDone?");
        assert_eq!(cited.removed.len(), 2);
        check(Strict::Remove, "Dogs bark at Mars.", NOTHING_LEFT);
        check(Strict::Leave, "| a | b |\n|---|---|\n| Cats sleep | 13 hours a day |", "| a | b |\n|---|---|\n| Cats sleep | 13 hours a day [1] |");
        // Joined brackets never become a citation of nothing.
        check(Strict::Leave, "Nested [[9]7] here.", "Nested (7) here.");
        // A sentence without text and citations is dropped.
        let cited = check(Strict::Mark, "> [9]", ">");
        assert_eq!((cited.refused.as_slice(), cited.checked.sentences.len()), (&[9][..], 0));
    }
}

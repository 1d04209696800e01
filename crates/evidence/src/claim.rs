//! The content of one sentence: facts that must be in its sources, and words that should be.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use crate::date::{Date, dates};
use crate::lists;
use crate::number::{Number, numbers};
use crate::sentences::{Kind, Unit, quotes};
use crate::words::{Scanner, Shape, Word};

pub(crate) struct Claim {
    pub(crate) words: Vec<Word>,
    /// Significant words, with their weights.
    pub(crate) content: Vec<(usize, f32)>,
    pub(crate) numbers: Vec<Number>,
    pub(crate) dates: Vec<Date>,
    /// Each name as the positions of its capitalized words.
    pub(crate) names: Vec<Vec<usize>>,
    /// `fsync_us`, `0.4.2`, written as prose.
    pub(crate) identifiers: Vec<usize>,
    pub(crate) addresses: Vec<usize>,
    pub(crate) quotations: Vec<Quotation>,
    /// In code font, as bytes of the unit's words.
    pub(crate) code: Vec<Range<usize>>,
    /// A question, an introduction, a remark about the answer itself.
    pub(crate) is_empty: bool,
}

pub(crate) struct Quotation {
    pub(crate) range: Range<usize>,
    /// The parts between omissions, as plain words.
    pub(crate) pieces: Vec<Vec<String>>,
}

static COMMON: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let scanner = Scanner::default();
    lists::COMMON.split_whitespace().flat_map(|word| [word.to_owned(), scanner.stem(word)]).collect()
});

pub(crate) fn claim(unit: &Unit, scanner: &mut Scanner) -> Claim {
    let text = unit.words.as_str();
    let words = scanner.words(text);
    let code: Vec<Range<usize>> = if unit.kind == Kind::Code { Vec::new() } else { crate::citation::code_ranges(text) };
    let quotations = quotations(text, &code, scanner);
    let is_in = |ranges: &[Range<usize>], word: &Word| ranges.iter().any(|range| range.start <= word.range.start && word.range.end <= range.end);
    let quoted: Vec<Range<usize>> = quotations.iter().map(|quotation| quotation.range.clone()).collect();
    let is_literal = |word: &Word| is_in(&code, word) || is_in(&quoted, word);

    let dates: Vec<Date> = dates(text, &words).into_iter().filter(|date| !is_literal(&words[date.words.start])).collect();
    let is_dated = |index: usize| dates.iter().any(|date| date.words.contains(&index));
    let numbers: Vec<Number> =
        numbers(text, &words).into_iter().filter(|number| !is_literal(&words[number.words.start]) && !is_dated(number.words.start)).collect();
    let is_counted = |index: usize| is_dated(index) || numbers.iter().any(|number| number.words.contains(&index));

    let label = label(text);
    let names = names(&words, |index| is_literal(&words[index]) || is_counted(index), label);
    let addresses: Vec<usize> = (0..words.len()).filter(|index| words[*index].shape == Shape::Address).collect();
    let identifiers: Vec<usize> =
        (0..words.len()).filter(|index| words[*index].shape == Shape::Identifier && !is_literal(&words[*index]) && !is_counted(*index)).collect();
    let weight = |word: &Word| if lists::META.contains(&word.stem.as_str()) && !is_in(&quoted, word) { 0.25 } else { 1.0 };
    let content: Vec<(usize, f32)> =
        (0..words.len()).filter(|index| words[*index].is_content() && !is_counted(*index)).map(|index| (index, weight(&words[index]))).collect();
    let mut claim = Claim { words, content, numbers, dates, names, identifiers, addresses, quotations, code, is_empty: false };
    claim.is_empty = is_no_claim(unit, &claim);
    claim
}

impl Claim {
    pub(crate) fn facts(&self) -> usize {
        self.numbers.len() + self.dates.len() + self.names.len() + self.quotations.len() + self.identifiers.len()
    }

    pub(crate) fn has_facts(&self) -> bool {
        !(self.numbers.is_empty() && self.dates.is_empty() && self.names.is_empty() && self.quotations.is_empty() && self.identifiers.is_empty())
    }
}

/// The length of a bold label (`**Key Findings:** …`) or a list item's title, where capitals are not significant.
fn label(text: &str) -> usize {
    match text.find(':') {
        Some(at) if at < 60 && text[at + 1..].starts_with([' ', '\n']) && !text[..at].contains(['.', ',', '"']) => at,
        _ => 0,
    }
}

fn names(words: &[Word], is_taken: impl Fn(usize) -> bool, label: usize) -> Vec<Vec<usize>> {
    let is_name = |index: usize| {
        let word = &words[index];
        if !word.is_capital() || is_taken(index) || word.plain == "i" {
            return false;
        }
        let is_ignored = word.begins || word.range.end <= label;
        if !is_ignored {
            // `The Hague` and `US` are names, `He` after a dash is not.
            let is_small = word.is_stop && word.shape == Shape::Capital;
            return !is_small && !lists::TITLES.contains(&word.plain.as_str());
        }
        if word.is_stop && word.shape != Shape::Upper || lists::TITLES.contains(&word.plain.as_str()) {
            return false;
        }
        word.shape == Shape::Upper && word.range.end > label || !lists::is_common(&word.plain, &word.stem, &COMMON)
    };
    let mut names: Vec<Vec<usize>> = Vec::new();
    let mut index = 0;
    while index < words.len() {
        if !is_name(index) {
            index += 1;
            continue;
        }
        let mut name = vec![index];
        let mut next = index + 1;
        loop {
            let mut at = next;
            while at < words.len()
                && at < next + 2
                && !words[at].breaks
                && lists::CONNECTORS.contains(&words[at].plain.as_str())
                && words[at].shape == Shape::Lower
                && words[at].plain != "and"
            {
                at += 1;
            }
            if at >= words.len() || words[at].breaks || words[at].begins || !is_name(at) {
                break;
            }
            name.push(at);
            next = at + 1;
        }
        index = next;
        names.push(name);
    }
    names
}

fn quotations(text: &str, code: &[Range<usize>], scanner: &mut Scanner) -> Vec<Quotation> {
    let mut quotations = Vec::new();
    for range in quotes(text) {
        if code.iter().any(|code| code.start <= range.start && range.end <= code.end) {
            continue;
        }
        if is_title(&scanner.words(&text[range.clone()])) {
            continue;
        }
        let inner = text[range.clone()].replace(['[', ']'], "").replace("...", "…");
        let pieces: Vec<Vec<String>> = inner
            .split('…')
            .map(|piece| scanner.words(piece).into_iter().map(|word| word.plain).collect::<Vec<_>>())
            .filter(|piece| !piece.is_empty())
            .collect();
        if !pieces.is_empty() {
            quotations.push(Quotation { range, pieces });
        }
    }
    quotations
}

/// The name of a work in quotation marks, `“The Glass Harbour”`, which is checked as a name: sources also write it in italics.
fn is_title(words: &[Word]) -> bool {
    const TITLE_WORDS_MAX: usize = 10;
    let is_of_title = |(index, word): (usize, &Word)| word.is_capital() || word.shape == Shape::Number || word.is_stop && index > 0;
    words.len() <= TITLE_WORDS_MAX
        && words.iter().enumerate().all(is_of_title)
        // One word may be speech: “Never”.
        && words.iter().filter(|word| word.is_capital() && !word.is_stop).count() > 1
        && !words.iter().skip(1).any(|word| word.begins)
}

/// Questions, introductions, headings, and sentences about the answer or its sources.
fn is_no_claim(unit: &Unit, claim: &Claim) -> bool {
    match unit.kind {
        Kind::Code | Kind::Mark | Kind::TableHead => return true,
        // A number in a heading is usually the section number.
        Kind::Heading => return unit.citations.is_empty(),
        Kind::Prose | Kind::TableRow => {}
    }
    let bare = unit.words.trim_end();
    let has_hard_facts = !claim.numbers.is_empty() || !claim.dates.is_empty() || !claim.quotations.is_empty();
    if claim.content.is_empty() && !claim.has_facts() && claim.code.is_empty() && claim.addresses.is_empty() {
        return true;
    }
    if bare.ends_with(['?', '？', '؟']) {
        return true;
    }
    if unit.kind == Kind::TableRow {
        return false;
    }
    let plain: Vec<&str> = claim.words.iter().map(|word| word.plain.as_str()).collect();
    if bare.ends_with(':') && !has_hard_facts && plain.len() <= 25 {
        return true;
    }
    if has_hard_facts || plain.len() > 40 {
        return false;
    }
    let opens =
        |openings: &[&str]| openings.iter().any(|opening| opening.split(' ').enumerate().all(|(index, word)| plain.get(index) == Some(&word)));
    opens(lists::OPENINGS) && claim.names.is_empty() || is_about_sources(&plain)
}

/// `The sources do not say when …`
fn is_about_sources(plain: &[&str]) -> bool {
    // A sentence about the sources may first say what they do cover.
    let is_subject = plain.iter().take(3).any(|word| matches!(*word, "sources" | "passages" | "documents" | "results"));
    let head = &plain[..plain.len().min(if is_subject { 30 } else { 9 })];
    let names_sources = head
        .iter()
        .any(|word| matches!(*word, "sources" | "source" | "evidence" | "documents" | "passages" | "spans" | "context" | "results" | "information"));
    let states_absence =
        head.windows(2).any(|pair| {
            matches!(
                pair,
                [
                    "not" | "don't" | "doesn't" | "didn't",
                    "say"
                        | "mention"
                        | "contain"
                        | "give"
                        | "state"
                        | "specify"
                        | "include"
                        | "provide"
                        | "tell"
                        | "cover"
                        | "answer"
                        | "found"
                        | "available"
                ]
            )
        }) || head.windows(2).any(|pair| matches!(pair, ["say" | "says", "nothing"] | ["no", "information" | "evidence" | "sources" | "results"]));
    names_sources && states_absence
}

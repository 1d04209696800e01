//! Checks one claim against its spans.
//!
//! Facts come first and are strict: a missing number, date, name, quotation or piece of code makes the claim unsupported, whatever else
//! matches. Then meaning, as far as words show it: negation, opposites, swapped terms. Last, the share of the claim's words in the best few
//! sentences of the spans.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::check::{Likeness, Options, Problem, ProblemKind, Status};
use crate::claim::Claim;
use crate::date::Date;
use crate::decide::DecidedBy;
use crate::derive::{self, Label};
use crate::entail::Judgement;
use crate::fact;
use crate::limit::{self, Held};
use crate::lists;
use crate::number::{Number, Unit};
use crate::polarity;
use crate::quantities;
use crate::spans::{Read, Spans};
use crate::words::{Shape, Word};

pub(crate) struct Verdict {
    pub(crate) status: Status,
    pub(crate) score: f32,
    pub(crate) problems: Vec<Problem>,
    pub(crate) by: DecidedBy,
    /// Share of the claim's words in the spans, regardless of the facts.
    pub(crate) coverage: f32,
    /// The contradicting span, from 1.
    pub(crate) contradicted_by: Option<usize>,
    /// The verifier's result, if it was used.
    pub(crate) verifier: Option<Judgement>,
}

/// A claim's words in terms of these spans: the bit of each stem, and the weight of each bit.
pub(crate) struct ClaimTerms {
    bits: HashMap<u32, (u128, f32)>,
    weights: Vec<f32>,
    total: f32,
}

/// Further words are not counted.
const WORDS_COUNTED_MAX: usize = 100;
/// The weight of a number relative to a word when the best sentences are searched.
const NUMBER_WEIGHT: f32 = 0.5;

impl ClaimTerms {
    pub(crate) fn new(claim: &Claim, spans: &Spans<'_>) -> ClaimTerms {
        let mut bits: HashMap<u32, (u128, f32)> = HashMap::new();
        let mut weights = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (index, weight) in &claim.content {
            let word = &claim.words[*index];
            if weights.len() >= WORDS_COUNTED_MAX || seen.contains_key(word.stem.as_str()) {
                continue;
            }
            let bit = weights.len();
            seen.insert(&word.stem, bit);
            weights.push(*weight);
            for (id, quality) in spans.stems_of(word) {
                let entry = bits.entry(id).or_insert((0, quality));
                entry.0 |= 1 << bit;
                entry.1 = entry.1.max(quality);
            }
        }
        let total = weights.iter().sum();
        ClaimTerms { bits, weights, total }
    }

    /// The stems for looking up spans.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.bits.iter().map(|(id, (mask, quality))| (*id, self.weight(*mask) * quality))
    }

    fn weight(&self, mask: u128) -> f32 {
        self.weights.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0).map(|(_, weight)| weight).sum()
    }
}

/// Sentences of one span that are relevant to a claim.
struct Window<'r> {
    read: &'r Read,
    sentences: Range<usize>,
    mask: u128,
    /// Bits of the claim's numbers and dates.
    facts: u64,
}

impl Window<'_> {
    fn words(&self) -> &[Word] {
        &self.read.words[self.read.sentences[self.sentences.start].start..self.read.sentences[self.sentences.end - 1].end]
    }

    fn text(&self) -> &str {
        let words = self.words();
        let (from, to) = (words[0].range.start, words[words.len() - 1].range.end);
        &self.read.text[from..to]
    }
}

pub(crate) fn judge(claim: &Claim, text: &str, wanted: &ClaimTerms, spans: &Spans<'_>, numbers: &[usize], options: &Options<'_>) -> Verdict {
    let reads: Vec<&Read> = numbers.iter().filter_map(|number| spans.read.get(number.wrapping_sub(1))).collect();
    let place = place(numbers, spans.len());
    let mut problems = Vec::new();
    if reads.is_empty() {
        problems.push(Problem { kind: ProblemKind::NoSource, words: "there is no source for this".to_owned(), what: String::new() });
        return Verdict {
            status: Status::Unsupported,
            score: 0.0,
            problems,
            by: DecidedBy::Rules,
            coverage: 0.0,
            contradicted_by: None,
            verifier: None,
        };
    }
    // Arguments of a tool count only together with its reply.
    let labels: Vec<&Label> = reads.iter().filter(|read| derive::is_anchored(claim, read)).filter_map(|read| read.label.as_ref()).collect();
    let held_to = ClaimEvidence { reads: &reads, labels: &labels, spans, options };
    facts(claim, text, &held_to, &place, &mut problems);
    if problems.is_empty() {
        problems.extend(derive::crossed(claim, text, &reads, spans));
    }
    let is_false = !problems.is_empty();

    // The best window of each span, best first; further spans count for what they add.
    let mut windows: Vec<Window<'_>> = reads.iter().filter_map(|read| best_window(claim, wanted, read)).collect();
    let worth = |window: &Window<'_>| wanted.weight(window.mask) + NUMBER_WEIGHT * window.facts.count_ones() as f32;
    windows.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let asked =
        labels.iter().fold(0, |mask, label| mask | label.stems.iter().filter_map(|id| wanted.bits.get(id)).fold(0, |mask, (bits, _)| mask | bits));
    let (mask, held) = windows.iter().take(3).fold((asked, 0), |(mask, held), window| (mask | window.mask, held | window.facts));
    let held = held | derive::confirmed_numbers(claim, &reads) | limit::held(claim, &reads);
    // Matching words scattered over a span count less.
    let scattered = reads.iter().map(|read| wanted.weight(cover(wanted, read, 0..read.words.len()))).fold(0.0, f32::max) * 0.85;
    let counted = wanted.weight(mask).max(scattered) + NUMBER_WEIGHT * held.count_ones() as f32;
    let total = wanted.total + NUMBER_WEIGHT * (claim.numbers.len() + claim.dates.len()).min(64) as f32;
    let mut score = if total > 0.0 { (counted / total).clamp(0.0, 1.0) } else { 1.0 };
    let coverage = score;

    let mut is_denied = false;
    if let Some(best) = windows.first() {
        let found = polarity::problems(&claim.words, best.words(), score, &place);
        is_denied = found.iter().any(|problem| problem.kind == ProblemKind::Negation);
        problems.extend(found);
        if !is_false
            && let Some(problem) =
                swapped(claim, best, &place).or_else(|| miscounted(claim, &reads, &place)).or_else(|| derive::misnamed(claim, &reads, &place))
        {
            problems.push(problem);
        }
    }
    if is_false || is_denied {
        return Verdict {
            status: Status::Unsupported,
            score: score * 0.3,
            problems,
            by: DecidedBy::Rules,
            coverage,
            contradicted_by: None,
            verifier: None,
        };
    }
    if let (Some(likeness), Some(best)) = (options.likeness, windows.first())
        && score < options.supported_min
    {
        score = score.max(liked(likeness, text, best, score, options));
    }
    if !problems.is_empty() {
        return Verdict { status: Status::Weak, score: score * 0.6, problems, by: DecidedBy::Rules, coverage, contradicted_by: None, verifier: None };
    }
    if score >= options.supported_min {
        return Verdict { status: Status::Supported, score, problems, by: DecidedBy::Rules, coverage, contradicted_by: None, verifier: None };
    }
    let missing = missing_words(claim, wanted, mask);
    let words = if missing.is_empty() { format!("few of its words are in {place}") } else { format!("{place} does not mention {missing}") };
    problems.push(Problem { kind: ProblemKind::Words, words, what: String::new() });
    let status = if score >= options.weak_min { Status::Weak } else { Status::Unsupported };
    Verdict { status, score, problems, by: DecidedBy::Rules, coverage, contradicted_by: None, verifier: None }
}

/// Words from which a span has an excerpt.
const EXCERPT_WORDS_MIN: usize = 30;
/// Share of a span's words up to which sentences of it are an excerpt.
const EXCERPT_SHARE_MAX: f32 = 0.7;

/// The title of a span and its sentences closest to a claim; `None` if they share no word with it or are most of the span.
pub(crate) fn excerpt(claim: &Claim, wanted: &ClaimTerms, read: &Read) -> Option<String> {
    if read.words.len() < EXCERPT_WORDS_MIN {
        return None;
    }
    let window = best_window(claim, wanted, read).filter(|window| window.mask != 0 || window.facts != 0)?;
    let heads = read.sentences[..read.heads].last().filter(|_| window.sentences.start >= read.heads).map_or(0, |words| words.end);
    if (window.words().len() + heads) as f32 > EXCERPT_SHARE_MAX * read.words.len() as f32 {
        return None;
    }
    let title = read.words[..heads].last().map_or("", |word| &read.text[..word.range.end]);
    let separator = if title.is_empty() { "" } else { ". " };
    Some(format!("{title}{separator}{}.", window.text()))
}

/// The sentences of a span closest to a claim, as text.
pub(crate) fn nearest(claim: &Claim, wanted: &ClaimTerms, read: &Read) -> Option<String> {
    best_window(claim, wanted, read).map(|window| window.text().to_owned())
}

/// Vector similarity raises a claim whose facts all hold, but never one without a shared word.
fn liked(likeness: &Likeness, text: &str, best: &Window<'_>, score: f32, options: &Options<'_>) -> f32 {
    match likeness(text.trim(), best.text()) {
        Some(like) if like >= options.likeness_min && score > 0.0 => options.supported_min.max((score + like) / 2.0).min(1.0),
        _ => score,
    }
}

/// The evidence for the facts of one claim.
struct ClaimEvidence<'h> {
    reads: &'h [&'h Read],
    labels: &'h [&'h Label],
    spans: &'h Spans<'h>,
    options: &'h Options<'h>,
}

fn facts(claim: &Claim, text: &str, held_to: &ClaimEvidence<'_>, place: &str, problems: &mut Vec<Problem>) {
    let ClaimEvidence { reads, labels, spans, options } = *held_to;
    let shown = |words: &Range<usize>| text[claim.words[words.start].range.start..claim.words[words.end - 1].range.end].trim().to_owned();
    let mut push = |kind: ProblemKind, what: String, words: String| {
        if problems.len() < 12 {
            problems.push(Problem { kind, words, what });
        }
    };
    for number in &claim.numbers {
        let held = limit::of_number(claim, number, reads);
        let what = shown(&number.words);
        let kind = if number.is_year() { ProblemKind::Date } else { ProblemKind::Number };
        match held {
            Some(Held::Holds) => continue,
            Some(Held::Broken(given)) => {
                push(kind, what.clone(), format!("the limit {what} does not fit {given} in {place}"));
                continue;
            }
            Some(Held::Open) | None => {}
        }
        let is_asked = labels.iter().any(|label| number.is_year() && label.numbers.iter().any(|asked| number.is_borne_out_by(asked)));
        let is_given = reads
            .iter()
            .any(|read| read.numbers.iter().any(|given| number.is_borne_out_by(given)) || has_year(number, read) || has_rank(claim, number, read));
        if let Some(counted) = derive::miscounted(claim, number, reads, spans) {
            push(ProblemKind::Number, what.clone(), format!("the number {what} is not what was counted: {counted}"));
        } else if !is_given
            && !is_asked
            && !reads.iter().any(|read| derive::confirms(claim, number, read))
            && !derive::is_calculated(claim, number, reads, options)
        {
            if held == Some(Held::Open) {
                push(ProblemKind::Undecided, what.clone(), format!("{place} neither states nor excludes the limit {what}"));
            } else {
                let noun = if number.is_year() { "the year" } else { "the number" };
                push(kind, what.clone(), format!("{noun} {what} is not in {place}"));
            }
        }
    }
    for date in &claim.dates {
        let held = limit::of_date(claim, date, reads);
        let what = shown(&date.words);
        match held {
            Some(Held::Holds) => continue,
            Some(Held::Broken(given)) => {
                push(ProblemKind::Date, what.clone(), format!("the limit {what} does not fit {given} in {place}"));
                continue;
            }
            Some(Held::Open) | None => {}
        }
        let is_given = |date: &Date| reads.iter().any(|read| read.dates.iter().any(|given| date.is_borne_out_by(given, &read.years)));
        if is_given(date) {
            continue;
        }
        // `11 March` in a text without any year, for `11 March 2020`.
        let is_without_year = reads.iter().all(|read| read.years.is_empty()) && is_given(&Date { year: None, ..date.clone() });
        if held == Some(Held::Open) {
            push(ProblemKind::Undecided, what.clone(), format!("{place} neither states nor excludes the limit {what}"));
        } else if is_without_year {
            push(ProblemKind::Undecided, what.clone(), format!("{place} has {what} without its year"));
        } else {
            push(ProblemKind::Date, what.clone(), format!("the date {what} is not in {place}"));
        }
    }
    for name in &claim.names {
        let raw = |index: &usize| &text[claim.words[*index].range.clone()];
        let whole = name.iter().map(raw).collect::<Vec<_>>().join(" ");
        let missing: Vec<&str> = name
            .iter()
            .filter(|index| {
                !reads.iter().any(|read| has_name(read, &claim.words[**index])) && !labels.iter().any(|label| label.has(&claim.words[**index]))
            })
            .map(raw)
            .collect();
        let letters: String = name.iter().filter_map(|index| claim.words[*index].plain.chars().next()).collect();
        let is_short_there =
            name.len() > 1 && reads.iter().any(|read| read.words.iter().any(|word| word.shape == Shape::Upper && word.plain == letters));
        if !missing.is_empty() && !is_short_there {
            let of = if missing.len() < name.len() { format!(" (of “{whole}”)") } else { String::new() };
            push(ProblemKind::Name, missing.join(" "), format!("the name {}{of} is not in {place}", missing.join(" ")));
        }
    }
    for index in &claim.identifiers {
        let word = &claim.words[*index];
        let raw = &text[word.range.clone()];
        let bare = word.plain.strip_prefix('v').unwrap_or(&word.plain);
        if !reads
            .iter()
            .any(|read| read.plains.contains(&word.plain) || read.plains.contains(bare) || read.text.contains(raw) || read.address.contains(raw))
        {
            push(ProblemKind::Name, raw.to_owned(), format!("{raw} is not in {place}"));
        }
    }
    for index in &claim.addresses {
        let address = text[claim.words[*index].range.clone()].trim_end_matches('/');
        if !reads.iter().any(|read| read.text.contains(address) || read.address.trim_end_matches('/') == address) {
            push(ProblemKind::Address, address.to_owned(), format!("the address {address} is not in {place}"));
        }
    }
    for quotation in &claim.quotations {
        if !reads.iter().any(|read| quotation.pieces.iter().all(|piece| read.has_in_a_row(piece))) {
            let what = text[quotation.range.clone()].trim();
            push(ProblemKind::Quotation, what.to_owned(), format!("the words {what} are not in {place}"));
        }
    }
    for range in &claim.code {
        let inner = text[range.clone()].trim_matches('`').trim();
        let piece: Vec<String> =
            claim.words.iter().filter(|word| range.start <= word.range.start && word.range.end <= range.end).map(|word| word.plain.clone()).collect();
        if !piece.is_empty() && !reads.iter().any(|read| read.text.contains(inner) || read.has_in_a_row(&piece)) {
            push(ProblemKind::Name, inner.to_owned(), format!("`{inner}` is not in {place}"));
        }
    }
}

/// Whether a source has a year in another form: of `1994-07-28`, or the second of `2010–11`.
fn has_year(number: &Number, read: &Read) -> bool {
    let year_at =
        |words: &[Word], at: usize| words[at].plain.parse::<u32>().ok().filter(|year| words[at].plain.len() == 4 && (1000..=2100).contains(year));
    // The year that two digits stand for after a full year and a dash.
    let short_year_at = |words: &[Word], at: usize| {
        let first = at.checked_sub(1).and_then(|before| year_at(words, before)).filter(|_| words[at].joined && words[at].plain.len() == 2)?;
        let year = first / 100 * 100 + words[at].plain.parse::<u32>().ok()?;
        (year == first + 1).then_some(year)
    };
    if !number.is_year() {
        return false;
    }
    let year = number.value as u32;
    read.years.contains(&year) || (1..read.words.len()).any(|at| short_year_at(&read.words, at) == Some(year))
}

/// `season 2` for `the second season`, and the other way round.
fn has_rank(claim: &Claim, number: &Number, read: &Read) -> bool {
    let noun = |words: &[Word], at: Option<usize>| {
        at.and_then(|at| words.get(at)).filter(|word| word.is_content() && !word.breaks).map(|word| word.stem.clone())
    };
    let rank_at = |at: usize| {
        let is_digits = read.words.get(at + 1).is_some_and(|next| next.joined && matches!(next.plain.as_str(), "st" | "nd" | "rd" | "th"));
        let value = if is_digits { read.words[at].plain.parse().ok() } else { quantities::ordinal_word(&read.words[at].plain) };
        value.map(|value: f64| (value, at + 1 + usize::from(is_digits)))
    };
    match number.unit {
        Unit::None if number.words.len() == 1 && number.value <= 100.0 => {
            let Some(wanted) = noun(&claim.words, number.words.start.checked_sub(1)) else { return false };
            (0..read.words.len())
                .any(|at| rank_at(at).is_some_and(|(value, next)| value == number.value && noun(&read.words, Some(next)).as_ref() == Some(&wanted)))
        }
        Unit::Ordinal => {
            let Some(wanted) = noun(&claim.words, Some(number.words.end)) else { return false };
            let is_numbered = |given: &Number| {
                given.unit == Unit::None
                    && given.value == number.value
                    && noun(&read.words, given.words.start.checked_sub(1)).as_ref() == Some(&wanted)
            };
            read.numbers.iter().any(is_numbered)
        }
        _ => false,
    }
}

fn has_name(read: &Read, word: &Word) -> bool {
    let plural = word.plain.strip_suffix('s').filter(|one| one.len() > 3);
    read.plains.contains(&word.plain)
        || (word.shape != Shape::Upper && read.plains.contains(&word.stem))
        || plural.is_some_and(|one| read.plains.contains(one))
        || lists::demonyms(&word.plain).any(|other| read.plains.contains(other))
        || (word.shape == Shape::Upper && read.initials.contains(&word.plain))
}

fn cover(wanted: &ClaimTerms, read: &Read, words: Range<usize>) -> u128 {
    read.stems[words].iter().filter_map(|id| wanted.bits.get(id)).fold(0, |mask, (bits, _)| mask | bits)
}

fn best_window<'r>(claim: &Claim, wanted: &ClaimTerms, read: &'r Read) -> Option<Window<'r>> {
    let heads: u128 = read.sentences[..read.heads].iter().fold(0, |mask, words| mask | cover(wanted, read, words.clone()));
    let facts_in = |words: &Range<usize>| {
        let numbers =
            claim.numbers.iter().map(|number| read.numbers.iter().any(|given| words.contains(&given.words.start) && number.is_borne_out_by(given)));
        let dates = claim
            .dates
            .iter()
            .map(|date| read.dates.iter().any(|given| words.contains(&given.words.start) && date.is_borne_out_by(given, &read.years)));
        numbers.chain(dates).take(64).enumerate().filter(|(_, has)| *has).fold(0_u64, |facts, (bit, _)| facts | (1 << bit))
    };
    let body = if read.heads < read.sentences.len() { read.heads..read.sentences.len() } else { 0..read.sentences.len() };
    let parts: Vec<(u128, u64)> = read.sentences[body.clone()].iter().map(|words| (cover(wanted, read, words.clone()), facts_in(words))).collect();
    let mut best: Option<(f32, Window<'r>)> = None;
    for length in 1..=2 {
        for from in 0..parts.len().saturating_sub(length - 1) {
            let (mask, facts) = parts[from..from + length].iter().fold((heads, 0), |(mask, facts), part| (mask | part.0, facts | part.1));
            let worth = wanted.weight(mask) + NUMBER_WEIGHT * facts.count_ones() as f32;
            // Two sentences must add something to be better than one.
            if best.as_ref().is_none_or(|(than, _)| worth > *than + 0.01) {
                let from = body.start + from;
                best = Some((worth, Window { read, sentences: from..from + length, mask, facts }));
            }
        }
    }
    best.map(|(_, window)| window)
}

/// Two names or numbers in each other's position: each has neighbours that the other has in the source, and none of its own.
fn swapped(claim: &Claim, window: &Window<'_>, place: &str) -> Option<Problem> {
    const ITEMS_MAX: usize = 12;
    let source = window.words();
    let offset = window.read.sentences[window.sentences.start].start;
    // Pairs of a position in the claim and one in the window, each unique.
    let mut items: Vec<(usize, usize)> = Vec::new();
    for name in claim.names.iter().flatten() {
        let stem = &claim.words[*name].stem;
        let mut places = (0..source.len()).filter(|index| source[*index].stem == *stem);
        if let (Some(only), None) = (places.next(), places.next())
            && claim.words.iter().filter(|word| word.stem == *stem).count() == 1
        {
            items.push((*name, only));
        }
    }
    for number in &claim.numbers {
        let mut places = window
            .read
            .numbers
            .iter()
            .filter(|given| given.words.start >= offset && given.words.start < offset + source.len() && number.is_borne_out_by(given));
        if let (Some(only), None) = (places.next(), places.next()) {
            items.push((number.words.start, only.words.start - offset));
        }
    }
    items.truncate(ITEMS_MAX);
    let claim_units: HashSet<usize> = claim.numbers.iter().flat_map(|number| number.words.start + 1..number.words.end).collect();
    let source_units: HashSet<usize> = window
        .read
        .numbers
        .iter()
        .flat_map(|number| number.words.start + 1..number.words.end)
        .filter_map(|index| index.checked_sub(offset))
        .collect();
    // Up to three words before or after, up to the next name or number; the other of the pair counts as a word.
    let near = |words: &[Word], units: &HashSet<usize>, items: &HashSet<usize>, at: usize, other: usize, forward: bool| -> HashSet<String> {
        const NEAR_WORDS: usize = 3;
        let mut found = HashSet::new();
        let mut index = at;
        loop {
            let next = if forward { index + 1 } else { index.wrapping_sub(1) };
            if next >= words.len() || (forward && words[next].begins) || found.len() == NEAR_WORDS {
                return found;
            }
            index = next;
            if index == other {
                found.insert("\u{0}other".to_owned());
                return found;
            }
            if items.contains(&index) || words[index].shape == Shape::Number {
                if found.is_empty() {
                    found.insert(words[index].stem.clone());
                }
                return found;
            }
            if words[index].is_content() && !units.contains(&index) {
                found.insert(words[index].stem.clone());
            }
            if !forward && words[index].begins {
                return found;
            }
        }
    };
    let by = |words: &[Word], at: usize| at > 0 && words[at - 1].plain == "by";
    // `Phobos and Deimos` is `Deimos and Phobos`.
    let listed = |words: &[Word], a: usize, b: usize| words[a.min(b) + 1..a.max(b)].iter().all(|word| matches!(word.plain.as_str(), "and" | "or"));
    let here_items: HashSet<usize> = items.iter().map(|(here, _)| *here).collect();
    let there_items: HashSet<usize> = items.iter().map(|(_, there)| *there).collect();
    for (first, (a, a_there)) in items.iter().enumerate() {
        for (b, b_there) in &items[first + 1..] {
            let is_passive = by(&claim.words, *a) != by(source, *a_there) || by(&claim.words, *b) != by(source, *b_there);
            if a_there == b_there || is_passive || listed(&claim.words, *a, *b) || listed(source, *a_there, *b_there) {
                continue;
            }
            let is_swapped = [true, false].into_iter().any(|forward| {
                let here_a = near(&claim.words, &claim_units, &here_items, *a, *b, forward);
                let here_b = near(&claim.words, &claim_units, &here_items, *b, *a, forward);
                let there_a = near(source, &source_units, &there_items, *a_there, *b_there, forward);
                let there_b = near(source, &source_units, &there_items, *b_there, *a_there, forward);
                !here_a.is_disjoint(&there_b) && !here_b.is_disjoint(&there_a) && here_a.is_disjoint(&there_a) && here_b.is_disjoint(&there_b)
            });
            if is_swapped {
                let (a, b) = (&claim.words[*a].plain, &claim.words[*b].plain);
                return Some(Problem {
                    kind: ProblemKind::Swapped,
                    words: format!("{a} and {b} seem to have changed places against {place}"),
                    what: String::new(),
                });
            }
        }
    }
    None
}

/// What a number belongs to, if anything.
type Kind = for<'w> fn(&'w [Word], &Range<usize>) -> Option<&'w str>;

/// A number that the sources contain, but for something else: they count the same thing, or number the same name, differently.
fn miscounted(claim: &Claim, reads: &[&Read], place: &str) -> Option<Problem> {
    for number in &claim.numbers {
        if number.unit != Unit::None || number.is_year() || limit::of_number(claim, number, reads) == Some(Held::Holds) {
            continue;
        }
        for kind in [counted as Kind, numbered] {
            let Some(wanted) = kind(&claim.words, &number.words) else { continue };
            let mut others = 0;
            let is_given = reads.iter().any(|read| {
                let same: Vec<_> = read.numbers.iter().filter(|given| kind(&read.words, &given.words) == Some(wanted)).collect();
                others += same.len();
                same.iter().any(|given| number.is_borne_out_by(given))
            });
            if others > 0 && !is_given {
                return Some(Problem {
                    kind: ProblemKind::Swapped,
                    words: format!("{place} gives another number for “{wanted}”"),
                    what: fact::shown(number.value),
                });
            }
        }
    }
    None
}

/// What a number counts: the following word.
pub(crate) fn counted<'w>(words: &'w [Word], number: &Range<usize>) -> Option<&'w str> {
    let word = words.get(number.end)?;
    (word.is_content() && !word.breaks && !word.begins).then_some(word.stem.as_str())
}

/// The name that a number is part of: `Voyager 1`.
fn numbered<'w>(words: &'w [Word], number: &Range<usize>) -> Option<&'w str> {
    let word = words.get(number.start.checked_sub(1)?)?;
    let is_joined = !words[number.start].breaks && words[number.start].shape == Shape::Number && words[number.start].plain.len() < 4;
    (is_joined && word.is_capital() && !word.is_stop).then_some(word.stem.as_str())
}

fn missing_words(claim: &Claim, wanted: &ClaimTerms, mask: u128) -> String {
    let mut seen = HashSet::new();
    let distinct = claim.content.iter().filter(|(index, _)| seen.insert(claim.words[*index].stem.as_str())).take(WORDS_COUNTED_MAX);
    let missing = distinct.enumerate().filter(|(bit, (_, weight))| mask & (1 << bit) == 0 && *weight >= 1.0 && *bit < wanted.weights.len());
    missing.take(4).map(|(_, (index, _))| format!("“{}”", claim.words[*index].plain)).collect::<Vec<_>>().join(", ")
}

/// `[2]`, `[1] or [3]`, `any source`.
fn place(numbers: &[usize], all: usize) -> String {
    match numbers {
        [] => "any source".to_owned(),
        _ if numbers.len() == all && all > 4 => "any source".to_owned(),
        _ => numbers.iter().take(6).map(|number| format!("[{number}]")).collect::<Vec<_>>().join(" or "),
    }
}

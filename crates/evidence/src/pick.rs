//! Selects the spans for a question, within a token budget.
//!
//! Relevance is BM25 over the spans, mixed with any external score (a tool's rank, vectors); a span similar to one already picked counts
//! less, and near-duplicates nothing. Spans stay whole and keep their numbers and order. Only a span that would not fit even alone is cut
//! to its best sentences, and marked.

use std::collections::{HashMap, HashSet};

use crate::fence;
use crate::spans::Spans;
use crate::words::{Scanner, is_cjk};

/// How spans are chosen for a prompt.
#[derive(Clone, Copy)]
pub struct PickOptions<'o> {
    /// Counts the tokens of a text; `tokens` by default.
    pub tokens: &'o dyn Fn(&str) -> usize,
    /// External relevance of a span (from 1), 0 to 1.
    pub relevance: Option<&'o dyn Fn(usize) -> Option<f32>>,
    /// Spans without a shared word are taken too while there is room; a synthesis must see all results.
    pub takes_all: bool,
}

/// Relevance by a tool's own rank: a half at the fifth, a third at the ninth.
pub fn by_rank(rank: u32) -> f32 {
    1.0 / (1.0 + rank as f32 / 4.0)
}

impl Default for PickOptions<'_> {
    fn default() -> Self {
        PickOptions { tokens: &tokens, relevance: None, takes_all: true }
    }
}

/// The spans that fit into a budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked {
    /// In the order of the spans.
    pub spans: Vec<PickedSpan>,
    /// Their total as messages (`message_content`).
    pub tokens: usize,
    /// Number of spans without room, and of near-duplicates.
    pub left_out: usize,
    /// Number of near-duplicates that were omitted.
    pub repeated: usize,
}

/// A span in the form of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct PickedSpan {
    /// The span's number, from 1.
    pub number: usize,
    /// The content of a message (`Source: …` and the passage).
    pub content: String,
    /// The tokens of the message, with its overhead.
    pub tokens: usize,
    /// False if only its best sentences fit.
    pub is_whole: bool,
}

/// Overhead of a message: role and number.
const MESSAGE_TOKENS: usize = 6;
/// Summaries of replies up to this size are picked first, for at most this part (a third) of the budget.
const SUMMARY_BYTES_MAX: usize = 1_000;
const SUMMARY_SHARE: usize = 3;
/// Share of common words from which two spans are duplicates.
const COPY_MIN: f32 = 0.85;
/// Cost of similarity to spans already picked.
const ECHO_COST: f32 = 0.5;

/// Chooses the spans that are most relevant to the question and fit into `budget_tokens`.
pub fn pick(question: &str, spans: &Spans<'_>, budget_tokens: usize, options: &PickOptions<'_>) -> Picked {
    let scores = scores(question, spans, options);
    let bags: Vec<HashSet<u32>> =
        spans.read.iter().map(|read| read.words.iter().zip(&read.stems).filter(|(word, _)| !word.is_stop).map(|(_, id)| *id).collect()).collect();
    let mut rest: Vec<usize> = (0..spans.len()).filter(|index| options.takes_all || scores[*index] > 0.0).collect();
    let mut echo = vec![0.0_f32; spans.len()];
    let mut picked = Picked::default();
    let mut left = budget_tokens;
    picked.left_out = spans.len() - rest.len();
    // The summary of a reply has a line or two that nothing else contains: it goes first, within its share.
    let mut share = budget_tokens / SUMMARY_SHARE;
    rest.retain(|index| {
        let is_short = spans.all()[*index].is_summary() && spans.all()[*index].text.len() <= SUMMARY_BYTES_MAX;
        let one = is_short.then(|| fitted(question, spans, *index, budget_tokens, left.min(share), options)).flatten().filter(|one| one.is_whole);
        let Some(one) = one else { return true };
        (left, share) = (left - one.tokens, share - one.tokens);
        picked.tokens += one.tokens;
        picked.spans.push(one);
        false
    });
    while !rest.is_empty() {
        let worth = |index: usize| scores[index] * (1.0 - ECHO_COST * echo[index]);
        // The first of the best, so that ties keep their order.
        let at = (0..rest.len()).fold(0, |best, at| if worth(rest[at]) > worth(rest[best]) { at } else { best });
        let index = rest.remove(at);
        if echo[index] >= COPY_MIN {
            picked.repeated += 1;
            continue;
        }
        let Some(one) = fitted(question, spans, index, budget_tokens, left, options) else {
            picked.left_out += 1;
            continue;
        };
        left -= one.tokens;
        picked.tokens += one.tokens;
        picked.spans.push(one);
        for other in &rest {
            echo[*other] = echo[*other].max(likeness(&bags[index], &bags[*other]));
        }
    }
    picked.spans.sort_by_key(|one| one.number);
    picked
}

/// An estimate on the high side for common tokenizers: a token is about four letters of a Latin word, one other character, one CJK
/// character.
pub fn tokens(text: &str) -> usize {
    let mut count = 0.0_f32;
    let mut run = 0_usize;
    let close = |run: &mut usize| {
        let tokens = run.div_ceil(4) as f32;
        *run = 0;
        tokens
    };
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphabetic() => run += 1,
            ' ' => count += close(&mut run),
            c => {
                count += close(&mut run);
                count += match c {
                    '0'..='9' => 0.5,
                    c if c.is_ascii() => 0.7,
                    c if is_cjk(c) => 1.3,
                    c if c.is_alphabetic() => 0.7,
                    _ => 1.5,
                };
            }
        }
    }
    count += close(&mut run);
    count.ceil() as usize
}

fn fitted(question: &str, spans: &Spans<'_>, index: usize, budget: usize, left: usize, options: &PickOptions<'_>) -> Option<PickedSpan> {
    let span = &spans.all()[index];
    let count = |content: &str| (options.tokens)(content) + MESSAGE_TOKENS;
    let content = fence::message_content(span);
    let tokens = count(&content);
    if tokens <= left {
        return Some(PickedSpan { number: index + 1, content, tokens, is_whole: true });
    }
    if tokens <= budget {
        return None;
    }
    // Too long for the budget: its most relevant sentences, in their order.
    let read = &spans.read[index];
    let asked: HashSet<String> = Scanner::default().words(question).into_iter().filter(|word| !word.is_stop).map(|word| word.stem).collect();
    let body = read.heads..read.sentences.len();
    let worth = |sentence: usize| {
        let words = &read.words[read.sentences[sentence].clone()];
        let shared = words.iter().filter(|word| asked.contains(&word.stem)).map(|word| word.stem.as_str()).collect::<HashSet<_>>().len();
        shared as f32 / (4.0 + words.len() as f32).sqrt()
    };
    let mut order: Vec<(f32, usize)> = body.map(|sentence| (worth(sentence), sentence)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = Vec::new();
    let mut part = crate::Span { text: String::new(), ..span.clone() };
    let mut best: Option<(String, usize)> = None;
    for (_, sentence) in order.into_iter().take(200) {
        let mut with = chosen.clone();
        with.push(sentence);
        with.sort_unstable();
        part.text = joined(read, &with);
        let content = fence::message_content(&part);
        let tokens = count(&content);
        if tokens <= left {
            chosen = with;
            best = Some((content, tokens));
        }
    }
    best.map(|(content, tokens)| PickedSpan { number: index + 1, content, tokens, is_whole: false })
}

/// Sentences by number, with `…` for gaps.
fn joined(read: &crate::spans::Read, sentences: &[usize]) -> String {
    let mut text = String::new();
    let mut next = read.heads;
    for sentence in sentences {
        if *sentence != next {
            text.push_str(if text.is_empty() { "… " } else { " … " });
        } else if !text.is_empty() {
            text.push(' ');
        }
        let words = &read.words[read.sentences[*sentence].clone()];
        let end = words[words.len() - 1].range.end;
        // Its final punctuation.
        let tail: usize = read.text[end..]
            .chars()
            .take_while(|c| matches!(c, '.' | '!' | '?' | '"' | '”' | ')' | '。' | '%' | '！' | '？'))
            .map(char::len_utf8)
            .sum();
        text.push_str(&read.text[words[0].range.start..end + tail]);
        next = sentence + 1;
    }
    if next < read.sentences.len() {
        text.push_str(" …");
    }
    text
}

fn scores(question: &str, spans: &Spans<'_>, options: &PickOptions<'_>) -> Vec<f32> {
    const K1: f32 = 1.2;
    const B: f32 = 0.6;
    let count = spans.len() as f32;
    let lengths: Vec<f32> = spans.read.iter().map(|read| read.words.len() as f32).collect();
    let mean = (lengths.iter().sum::<f32>() / count.max(1.0)).max(1.0);
    let mut scores = vec![0.0_f32; spans.len()];
    let mut seen = HashSet::new();
    let words = Scanner::default().words(question);
    for word in words.iter().filter(|word| !word.is_stop && seen.insert(word.stem.clone())) {
        // Forms of one word count once: the best of them.
        let mut best: HashMap<u32, f32> = HashMap::new();
        for (id, quality) in spans.stems_of(word) {
            let found = &spans.postings[id as usize];
            let rarity = (1.0 + (count - found.len() as f32 + 0.5) / (found.len() as f32 + 0.5)).ln();
            for (span, times) in found {
                let times = *times as f32;
                let score = quality * rarity * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * lengths[*span as usize] / mean));
                let entry = best.entry(*span).or_default();
                *entry = entry.max(score);
            }
        }
        for (span, score) in best {
            scores[span as usize] += score;
        }
    }
    let highest = scores.iter().copied().fold(0.0, f32::max);
    for (index, score) in scores.iter_mut().enumerate() {
        let own = if highest > 0.0 { *score / highest } else { 0.0 };
        let outside = options.relevance.and_then(|relevance| relevance(index + 1));
        // A small value for every span, so that ties are taken in order.
        *score = outside.map_or(own, |outside| 0.5 * own + 0.5 * outside.clamp(0.0, 1.0)) + if options.takes_all { 1e-4 } else { 0.0 };
    }
    scores
}

fn likeness(a: &HashSet<u32>, b: &HashSet<u32>) -> f32 {
    let shared = a.intersection(b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 { 1.0 } else { shared as f32 / all as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn spans(texts: &[&str]) -> Vec<Span> {
        texts.iter().map(|text| Span { text: (*text).into(), source: "t.t".into(), ..Span::default() }).collect()
    }

    fn numbers(picked: &Picked) -> Vec<usize> {
        picked.spans.iter().map(|one| one.number).collect()
    }

    #[test]
    fn what_is_asked_for_is_picked_first_and_copies_never() {
        let spans = spans(&[
            "Cats sleep most of the day and hunt at dusk.",
            "A write-ahead log records every change before it is applied.",
            "A write-ahead log records every change before it is applied!",
            "After a crash the log is replayed from the checkpoint.",
        ]);
        let read = Spans::new(&spans);
        let asked = "How does the log help after a crash?";
        let picked = pick(asked, &read, 1_000, &PickOptions::default());
        assert_eq!((numbers(&picked), picked.repeated, picked.left_out), (vec![1, 2, 4], 1, 0));
        assert_eq!(picked.tokens, picked.spans.iter().map(|one| one.tokens).sum::<usize>());
        let picked = pick(asked, &read, 30, &PickOptions::default());
        assert_eq!(numbers(&picked), [4]);
        assert_eq!(picked.left_out + picked.repeated, 3);
        let strict = PickOptions { takes_all: false, ..PickOptions::default() };
        assert_eq!(numbers(&pick(asked, &read, 1_000, &strict)), [2, 4]);
        let options = PickOptions { relevance: Some(&|number| Some(if number == 1 { 1.0 } else { 0.0 })), ..PickOptions::default() };
        assert_eq!(numbers(&pick("?", &read, 25, &options)), [1]);
        assert_eq!(pick(asked, &Spans::new(&[]), 1_000, &PickOptions::default()), Picked::default());
        assert_eq!(numbers(&pick(asked, &read, 0, &PickOptions::default())), Vec::<usize>::new());
    }

    #[test]
    fn a_span_too_long_for_the_budget_gives_its_best_sentences() {
        let long = format!("{} The answer is forty-two. {}", "Filler words stand here. ".repeat(50), "More filler follows after it. ".repeat(50));
        let spans = spans(&[&long]);
        let picked = pick("What is the answer?", &Spans::new(&spans), 60, &PickOptions::default());
        let one = &picked.spans[0];
        assert!(!one.is_whole && one.tokens <= 60 && one.content.contains("The answer is forty-two.") && one.content.contains('…'), "{one:?}");
    }

    #[test]
    fn tokens_are_never_far_too_few() {
        for (text, least) in
            [("hello world", 2), ("internationalization", 4), ("日本語のテキスト", 8), ("{\"a\": [1, 2, 3]}", 9), ("", 0), ("1234567890", 4)]
        {
            assert!(tokens(text) >= least, "{text}: {}", tokens(text));
        }
    }
}

//! Extracts the best sentences, and finds the texts that support a sentence: by words, without a model.

use std::collections::{BTreeMap, BTreeSet};

use super::Sentence;

/// Limits of the input; only the picked sentences are compared pairwise.
const SENTENCES_MAX: usize = 6_000;
const SENTENCE_BYTES_MAX: usize = 600;
const PICKED_MAX: usize = 60;

struct Candidate<'t> {
    text: &'t str,
    words: usize,
    terms: BTreeSet<String>,
    order: usize,
    score: f64,
}

/// As many of the best sentences as the word limit allows, in their order.
pub(super) fn pick(texts: &[String], words_max: usize, focus: Option<&str>) -> String {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let mut places = Vec::new();
    for text in texts {
        for (place, sentence) in sentences(text).into_iter().enumerate() {
            if candidates.len() < SENTENCES_MAX && sentence.len() <= SENTENCE_BYTES_MAX {
                places.push(place);
                let order = candidates.len();
                candidates.push(Candidate { text: sentence, words: sentence.split_whitespace().count(), terms: terms(sentence), order, score: 0.0 });
            }
        }
    }
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for term in candidates.iter().flat_map(|candidate| &candidate.terms) {
        *counts.entry(term.clone()).or_default() += 1.0;
    }
    let wanted = focus.map(terms).unwrap_or_default();
    for (candidate, place) in candidates.iter_mut().zip(places) {
        // Frequent words are the topic of the texts; the logarithm keeps one word from dominating.
        let weight: f64 = candidate.terms.iter().map(|term| counts[term].ln_1p()).sum();
        let central = weight / (3.0 + candidate.terms.len() as f64);
        let opening = if place == 0 {
            1.25
        } else if place < 3 {
            1.1
        } else {
            1.0
        };
        let asked = candidate.terms.intersection(&wanted).count() as f64 / wanted.len().max(1) as f64;
        let short = if candidate.words < 4 { 0.3 } else { 1.0 };
        candidate.score = central * opening * short * (1.0 + 4.0 * asked);
    }
    let mut left: Vec<&Candidate<'_>> = candidates.iter().collect();
    left.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.order.cmp(&b.order)));
    let mut chosen: Vec<&Candidate<'_>> = Vec::new();
    let mut words = 0;
    for candidate in left {
        if chosen.len() == PICKED_MAX {
            break;
        }
        let fits = words + candidate.words <= words_max || chosen.is_empty();
        let is_echo = chosen.iter().any(|other| alike(&candidate.terms, &other.terms) > 0.6);
        if fits && !is_echo {
            words += candidate.words;
            chosen.push(candidate);
        }
    }
    chosen.sort_by_key(|candidate| candidate.order);
    chosen.iter().map(|candidate| candidate.text).collect::<Vec<_>>().join(" ")
}

/// The supporting texts of each sentence of a summary.
pub(super) fn rest_on(summary: &str, texts: &[String]) -> Vec<Sentence> {
    let known: Vec<BTreeSet<String>> = texts.iter().map(|text| terms(text)).collect();
    let rests = |sentence: &str| {
        let wanted = terms(sentence);
        let share = |known: &BTreeSet<String>| if wanted.is_empty() { 0.0 } else { wanted.intersection(known).count() as f64 / wanted.len() as f64 };
        let mut shares: Vec<(usize, f64)> = known.iter().map(share).enumerate().filter(|(_, share)| *share >= 0.5).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares.truncate(3);
        let support = (shares.first().map_or(0.0, |(_, share)| *share) * 100.0).round() / 100.0;
        Sentence { text: sentence.to_owned(), from: shares.into_iter().map(|(at, _)| at + 1).collect(), support }
    };
    sentences(summary).into_iter().map(rests).collect()
}

/// Sentences by punctuation and lines. A full stop ends one only before a space and a new beginning.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for block in text.split('\n') {
        let mut begin = 0;
        for (at, c) in block.char_indices() {
            let after = &block[at + c.len_utf8()..];
            let is_end = match c {
                // A word is checked only if a space follows, so each is checked once.
                '.' | '!' | '?' if after.is_empty() || after.starts_with(char::is_whitespace) => {
                    let word = block[begin..at].rsplit(char::is_whitespace).next().unwrap_or_default().to_lowercase();
                    let is_short = c == '.'
                        && (word.chars().count() == 1
                            || ["e.g", "i.e", "etc", "vs", "dr", "mr", "mrs", "no", "fig", "cf", "approx"].contains(&word.as_str()));
                    let then = after.trim_start().chars().next();
                    then.is_none_or(|c| !c.is_lowercase()) && !is_short
                }
                '。' | '！' | '？' => true,
                _ => false,
            };
            if is_end {
                found.push(&block[begin..at + c.len_utf8()]);
                begin = at + c.len_utf8();
            }
        }
        found.push(&block[begin..]);
    }
    let clean = found.into_iter().map(|sentence| sentence.trim().trim_start_matches(['-', '*', '#', '•', '>', ' ']).trim());
    clean.filter(|sentence| sentence.chars().filter(|c| c.is_alphabetic()).count() >= 3).collect()
}

fn terms(text: &str) -> BTreeSet<String> {
    const SMALL: [&str; 60] = [
        "a", "about", "after", "all", "also", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "for",
        "from", "had", "has", "have", "he", "her", "his", "how", "if", "in", "into", "is", "it", "its", "more", "not", "of", "on", "or", "our",
        "she", "so", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "was", "we", "were", "which", "will",
        "with", "you",
    ];
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    words
        .filter(|word| !SMALL.contains(&word.as_str()))
        .map(|word| stem(&word).to_owned())
        .filter(|word| word.chars().count() > 1 || !word.is_ascii())
        .collect()
}

fn stem(word: &str) -> &str {
    for ending in ["ings", "ing", "ies", "ed", "es", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= 4
        {
            return stem;
        }
    }
    word
}

fn alike(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let all = a.union(b).count() as f64;
    if all == 0.0 { 1.0 } else { a.intersection(b).count() as f64 / all }
}

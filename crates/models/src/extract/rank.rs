//! Selects sentences that are relevant to a question: by shared words, rare words weighing more, without near-duplicates.

use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::Passage;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picked<'m> {
    pub(super) sentence: &'m str,
    /// The passage's number.
    pub(super) number: usize,
    pub(super) source: Option<&'m str>,
}

/// Bounds on what is looked at; evidence is a few passages, not a library.
const SENTENCES_READ_MAX: usize = 4_000;
const SENTENCE_BYTES_MAX: usize = 600;

struct Sentence<'m> {
    text: &'m str,
    passage: usize,
    place: usize,
    terms: BTreeSet<String>,
}

/// At most `most` sentences, in the order of the evidence.
pub(super) fn pick<'m>(question: &str, passages: &[Passage<'m>], most: usize) -> Vec<Picked<'m>> {
    let mut sentences: Vec<Sentence<'m>> = Vec::new();
    for (passage, evidence) in passages.iter().enumerate() {
        for (place, text) in split(evidence.text).into_iter().enumerate() {
            if sentences.len() < SENTENCES_READ_MAX {
                sentences.push(Sentence { text, passage, place, terms: terms(text) });
            }
        }
    }
    let wanted = terms(question);
    let weights = weights(&sentences);
    let weight = |term: &String| weights.get(term).copied().unwrap_or(1.0);
    let mut scored: Vec<(f64, &Sentence<'m>)> = sentences
        .iter()
        .map(|sentence| {
            let shared: f64 = sentence.terms.intersection(&wanted).map(weight).sum();
            // Long sentences share words by chance, and passages tend to begin with what they are about.
            let score = shared / (4.0 + sentence.terms.len() as f64).sqrt();
            (if sentence.place == 0 { score * 1.15 } else { score }, sentence)
        })
        .filter(|(score, sentence)| *score > 0.0 || (wanted.is_empty() && sentence.place == 0))
        .collect();
    let mut chosen: Vec<&Sentence<'m>> = Vec::new();
    let mut strongest = 0.0_f64;
    while chosen.len() < most && !scored.is_empty() {
        let worth = |(score, sentence): &(f64, &Sentence<'m>)| {
            let echo = chosen.iter().map(|other| alike(sentence, other)).fold(0.0, f64::max);
            if echo > 0.8 { f64::MIN } else { score * (1.0 - 0.6 * echo) }
        };
        let worths: Vec<f64> = scored.iter().map(worth).collect();
        // The first of the best, so that equal ones stay in order.
        let mut best = 0;
        for (index, value) in worths.iter().enumerate() {
            if *value > worths[best] {
                best = index;
            }
        }
        if worths[best] == f64::MIN {
            break;
        }
        let (score, sentence) = scored.remove(best);
        // What is far weaker than the best only waters it down.
        strongest = strongest.max(score);
        if score < strongest * 0.35 {
            break;
        }
        chosen.push(sentence);
    }
    chosen.sort_by_key(|sentence| (sentence.passage, sentence.place));
    let picked = |sentence: &&Sentence<'m>| Picked {
        sentence: sentence.text,
        number: passages[sentence.passage].number,
        source: passages[sentence.passage].source,
    };
    chosen.iter().map(picked).collect()
}

/// The part of the question's words that occur in what was picked.
pub(super) fn coverage(question: &str, picked: &[Picked<'_>]) -> f64 {
    let wanted = terms(question);
    if wanted.is_empty() || picked.is_empty() {
        return 0.0;
    }
    let found: BTreeSet<String> = picked.iter().flat_map(|picked| terms(picked.sentence)).collect();
    wanted.intersection(&found).count() as f64 / wanted.len() as f64
}

/// The words that carry meaning, cut to stems of a sort.
pub(super) fn terms(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.filter(|word| !STOP.contains(&word.as_str())).map(|word| stem(&word)).filter(|word| word.chars().count() > 1 || !word.is_ascii()).collect()
}

fn stem(word: &str) -> String {
    for ending in ["ings", "ing", "ies", "ed", "es", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= 4
        {
            return stem.to_owned();
        }
    }
    word.to_owned()
}

fn weights(sentences: &[Sentence<'_>]) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for term in sentences.iter().flat_map(|sentence| &sentence.terms) {
        *counts.entry(term).or_default() += 1;
    }
    let all = sentences.len() as f64;
    counts.into_iter().map(|(term, count)| (term.clone(), (1.0 + all / (1.0 + count as f64)).ln())).collect()
}

fn alike(a: &Sentence<'_>, b: &Sentence<'_>) -> f64 {
    let shared = a.terms.intersection(&b.terms).count() as f64;
    let all = a.terms.union(&b.terms).count() as f64;
    if all == 0.0 { 1.0 } else { shared / all }
}

/// Sentences, by their marks and by blank lines. A full stop ends one only before a space and a beginning.
fn split(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for block in text.split("\n\n") {
        let mut begin = 0;
        let mut chars = block.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let is_end = match c {
                '.' | '!' | '?' => {
                    let mut ahead = block[at + c.len_utf8()..].chars();
                    let first = ahead.next();
                    let then = ahead.find(|c| !c.is_whitespace());
                    let word = block[begin..at].rsplit(char::is_whitespace).next().unwrap_or_default();
                    let is_short = c == '.' && (word.chars().count() == 1 || ABBREVIATED.contains(&word.to_lowercase().as_str()));
                    first.is_none_or(char::is_whitespace) && then.is_none_or(|c| !c.is_lowercase()) && !is_short
                }
                '。' | '！' | '？' => true,
                // A heading or an item of a list, which ends without a mark.
                '\n' => chars.peek().is_some_and(|(_, c)| matches!(c, '-' | '*' | '#' | '•') || c.is_ascii_digit()),
                _ => false,
            };
            if is_end {
                sentences.push(&block[begin..at + c.len_utf8()]);
                begin = at + c.len_utf8();
            }
        }
        sentences.push(&block[begin..]);
    }
    let clean = sentences.into_iter().map(|sentence| sentence.trim().trim_start_matches(['-', '*', '#', '•', ' ']).trim());
    clean.filter(|sentence| sentence.len() <= SENTENCE_BYTES_MAX && sentence.chars().filter(|c| c.is_alphabetic()).count() >= 3).collect()
}

const ABBREVIATED: [&str; 12] = ["e.g", "i.e", "etc", "vs", "dr", "mr", "mrs", "st", "fig", "no", "approx", "cf"];

const STOP: [&str; 74] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "because", "been", "between", "but", "by", "can", "could", "did", "do", "does", "for",
    "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "may", "me", "my", "no", "not", "of", "on", "or", "our",
    "should", "so", "some", "such", "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "us", "use",
    "was", "we", "were", "what", "when", "where", "which", "who", "whom", "why", "will", "with", "would", "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_expects_it() {
        let text = "Dr. Li wrote it, e.g. in 1.5 hours. It works! Does it?\n\n# Heading\n- first item\n- second item";
        assert_eq!(split(text), ["Dr. Li wrote it, e.g. in 1.5 hours.", "It works!", "Does it?", "Heading", "first item", "second item"]);
        assert_eq!(split("日本語です。次の文。"), ["日本語です。", "次の文。"]);
        assert!(split("").is_empty() && split("...!?").is_empty());
    }
}

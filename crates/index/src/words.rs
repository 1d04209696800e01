//! Tokenization for full text, and for matching titles.
//!
//! Terms are folded (accents, case), filtered by stop words and stemmed as English. `createDocument` and `create_document` are kept whole
//! and also split, so that either spelling and each part matches. Text without spaces (Chinese, Japanese, Korean) becomes pairs of
//! characters. Other languages are matched by exact words: they are not stemmed.

use rust_stemmers::{Algorithm, Stemmer};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer runs are keys, hashes and encoded data.
const WORD_BYTES_MAX: usize = 64;

/// The terms of full text, in order, with repetitions.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut terms = Vec::new();
    for run in runs(text) {
        if is_unspaced(run) {
            pairs(run, &mut terms);
            continue;
        }
        let whole = folded(run);
        let parts = parts(run);
        if parts.len() > 1 {
            let joined: String = whole.chars().filter(|c| *c != '_').collect();
            for part in &parts {
                push(&stemmer, &folded(part), &mut terms);
            }
            terms.push(joined);
        } else {
            push(&stemmer, whole.trim_matches('_'), &mut terms);
        }
    }
    terms
}

/// The words of a title or a sentence, without stop words or stemming, for comparing names.
pub(crate) fn plain(text: &str) -> Vec<String> {
    runs(text).map(folded).collect()
}

pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

fn push(stemmer: &Stemmer, word: &str, terms: &mut Vec<String>) {
    // A single letter is left over from an apostrophe, or a variable.
    let is_letter = word.len() == 1 && !word.as_bytes()[0].is_ascii_digit();
    if !word.is_empty() && !is_letter && !is_stop_word(word) {
        terms.push(stemmer.stem(word).into_owned());
    }
}

fn runs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c.is_alphanumeric() || c == '_')?;
            let word = &rest[start..];
            let unspaced = word.starts_with(is_unspaced_char);
            let belongs = |c: char| (c.is_alphanumeric() || c == '_' || is_combining_mark(c)) && is_unspaced_char(c) == unspaced;
            let end = word.find(|c: char| !belongs(c)).unwrap_or(word.len());
            rest = &word[end..];
            if end <= WORD_BYTES_MAX || unspaced {
                return Some(&word[..end]);
            }
        }
    })
}

fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    word.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect()
}

/// `createDocument` and `create_document` are `create`, `document`; `HTTPServer` is `HTTP`, `Server`.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for piece in word.split('_').filter(|piece| !piece.is_empty()) {
        let mut start = 0;
        let mut before: Option<char> = None;
        let mut chars = piece.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next_is_small = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
            let begins = match before {
                Some(last) => c.is_uppercase() && (last.is_lowercase() || last.is_numeric() || (last.is_uppercase() && next_is_small)),
                None => false,
            };
            if begins && at > start {
                parts.push(&piece[start..at]);
                start = at;
            }
            before = Some(c);
        }
        parts.push(&piece[start..]);
    }
    parts
}

fn is_unspaced(run: &str) -> bool {
    run.starts_with(is_unspaced_char)
}

fn is_unspaced_char(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

fn pairs(run: &str, terms: &mut Vec<String>) {
    let mut chars = run.chars().peekable();
    let mut is_first = true;
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) => terms.push([c, *next].iter().collect()),
            None if is_first => terms.push(c.to_string()),
            None => {}
        }
        is_first = false;
    }
}

/// The same terms, for tantivy.
#[derive(Clone, Default)]
pub(crate) struct TermTokenizer;

pub(crate) struct TermStream {
    terms: std::vec::IntoIter<String>,
    token: Token,
}

impl Tokenizer for TermTokenizer {
    type TokenStream<'a> = TermStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> TermStream {
        TermStream { terms: terms(text).into_iter(), token: Token::default() }
    }
}

impl TokenStream for TermStream {
    fn advance(&mut self) -> bool {
        let Some(term) = self.terms.next() else { return false };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text = term;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

/// Sorted.
const STOP_WORDS: [&str; 118] = [
    "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been", "before", "being",
    "below", "between", "both", "but", "by", "can", "could", "did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further",
    "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "me",
    "more", "most", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our", "out", "over", "own", "s", "same",
    "she", "should", "so", "some", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "through",
    "to", "too", "under", "until", "up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why", "will",
    "with", "would", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_terms() {
        let cases: [(&str, &[&str]); 9] = [
            ("The runs were resumed.", &["run", "resum"]),
            ("createDocument", &["creat", "document", "createdocument"]),
            ("create_document", &["creat", "document", "createdocument"]),
            ("parse HTTPServer2Go", &["pars", "http", "server2", "go", "httpserver2go"]),
            ("_private", &["privat"]),
            ("Café São", &["cafe", "sao"]),
            ("it's a 5 x", &["5"]),
            ("中文搜索 x1", &["中文", "文搜", "搜索", "x1"]),
            ("___ — …", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(terms(text), expected, "{text}");
        }
    }

    #[test]
    fn the_list_can_be_searched() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && !is_stop_word("baton"));
    }

    #[test]
    fn endless_words_are_left_out() {
        assert_eq!(terms(&format!("before {} after key", "x".repeat(1000))), ["key"]);
    }

    #[test]
    fn names_keep_their_small_words() {
        assert_eq!(plain("The Lord of the Rings (film)"), ["the", "lord", "of", "the", "rings", "film"]);
    }
}

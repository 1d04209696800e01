//! Splits text into words: position, spelling, and stem.
//!
//! One scanner is used for claims, spans and questions, so that equal text is always split the same way. Numbers keep their separators
//! (`1,187.5`), identifiers stay whole (`fsync_us`, `large.rs`), hyphens split (`two-thirds`), each CJK character is a word.

use std::collections::HashMap;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

use crate::lists;
use crate::quantities;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) range: Range<usize>,
    /// Lower case, without accents and possessive endings.
    pub(crate) plain: String,
    pub(crate) stem: String,
    pub(crate) shape: Shape,
    /// A stop word: `the`, `was`.
    pub(crate) is_stop: bool,
    /// First of a sentence, or after punctuation where a capital letter is not significant.
    pub(crate) begins: bool,
    /// Preceded by a comma, a bracket or a dash.
    pub(crate) breaks: bool,
    /// Joined to the previous word by a hyphen or a slash.
    pub(crate) joined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Lower,
    Capital,
    /// `NASA`
    Upper,
    /// `fsync_us`, `large.rs`, `H2O`, `0.4.2`
    Identifier,
    Number,
    Address,
    Cjk,
}

impl Word {
    pub(crate) fn is_content(&self) -> bool {
        !self.is_stop && self.shape != Shape::Number && self.shape != Shape::Address
    }

    pub(crate) fn is_capital(&self) -> bool {
        matches!(self.shape, Shape::Capital | Shape::Upper)
    }
}

/// Caches the properties of words, which repeat.
pub(crate) struct Scanner {
    stemmer: Stemmer,
    known: HashMap<String, WordInfo>,
}

/// The properties of a word that do not depend on its position.
#[derive(Clone)]
struct WordInfo {
    plain: String,
    stem: String,
    shape: Shape,
    is_stop: bool,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner { stemmer: Stemmer::create(Algorithm::English), known: HashMap::new() }
    }
}

/// Longer runs of letters are not words (base64, minified code) and are cut, so that nothing below is quadratic in them.
const WORD_CHARS_MAX: usize = 80;

impl Scanner {
    pub(crate) fn words(&mut self, text: &str) -> Vec<Word> {
        let chars: Vec<(usize, char)> = text.char_indices().collect();
        let end_of = |index: usize| chars.get(index).map_or(text.len(), |(at, _)| *at);
        let char_at = |index: usize| chars.get(index).map(|(_, c)| *c);
        let mut words: Vec<Word> = Vec::new();
        let (mut begins, mut breaks) = (true, false);
        // The index after the last word, to inspect what separates it from the next.
        let mut last_end = usize::MAX;
        let mut index = 0;
        while index < chars.len() {
            let c = chars[index].1;
            if !c.is_alphanumeric() {
                match c {
                    '.' | '!' | '?' | '…' | '。' | '！' | '？' | ':' | ';' | '|' => {
                        begins = true;
                        breaks = true;
                    }
                    '\n' => breaks |= char_at(index + 1) == Some('\n'),
                    '"' | '“' | '”' | '«' | '»' | '「' | '」' => {
                        begins |= c != '”' && c != '»' && c != '」' && char_at(index + 1).is_some_and(char::is_alphanumeric);
                    }
                    ',' | '(' | ')' | '—' | '–' | '[' | ']' => breaks = true,
                    _ => {}
                }
                index += 1;
                continue;
            }
            let from = index;
            if is_cjk(c) {
                index += 1;
                let plain = c.to_string();
                words.push(Word {
                    range: end_of(from)..end_of(index),
                    stem: plain.clone(),
                    plain,
                    shape: Shape::Cjk,
                    is_stop: c.is_ascii_punctuation() || ('\u{3040}'..='\u{309f}').contains(&c),
                    begins,
                    breaks,
                    joined: false,
                });
                (begins, breaks, last_end) = (false, false, index);
                continue;
            }
            let rest = &text[chars[from].0..];
            if rest.starts_with("http://") || rest.starts_with("https://") || rest.starts_with("www.") {
                while char_at(index).is_some_and(|c| !c.is_whitespace() && !matches!(c, '<' | '>' | '"' | '”' | '`' | ')' | ']' | '|' | '»')) {
                    index += 1;
                }
                while index > from && matches!(chars[index - 1].1, '.' | ',' | ';' | ':' | '!' | '?' | '*' | '\'') {
                    index -= 1;
                }
                let raw = &text[end_of(from)..end_of(index)];
                let plain = raw.trim_end_matches('/').to_lowercase();
                let range = end_of(from)..end_of(index);
                words.push(Word { range, stem: plain.clone(), plain, shape: Shape::Address, is_stop: false, begins, breaks, joined: false });
                (begins, breaks, last_end) = (false, false, index);
                continue;
            }
            index = run_end(&chars, from);
            let raw = &text[end_of(from)..end_of(index)];
            let joined = last_end < from && from - last_end == 1 && matches!(chars[last_end].1, '-' | '‑' | '/' | '–');
            // `71st`, `5km`: the digits and their suffix.
            let digits = raw.bytes().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b',')).count();
            let tail = &raw[digits..];
            let cut = if digits > 0 && quantities::is_number_suffix(tail) { Some(digits) } else { None };
            let start = end_of(from);
            match cut {
                Some(cut) => {
                    words.push(self.word(&raw[..cut], start, begins, breaks, joined));
                    words.push(self.word(tail, start + cut, false, false, true));
                }
                None => words.push(self.word(raw, start, begins, breaks, joined)),
            }
            (begins, breaks, last_end) = (false, false, index);
        }
        words
    }

    fn word(&mut self, raw: &str, start: usize, begins: bool, breaks: bool, joined: bool) -> Word {
        let known = match self.known.get(raw) {
            Some(known) => known.clone(),
            None => {
                let (plain, shape) = (plain(raw), shape(raw));
                let stem = if shape == Shape::Number || shape == Shape::Identifier { plain.clone() } else { self.stem(&plain) };
                let known = WordInfo { is_stop: lists::is_stop(&plain), plain, stem, shape };
                self.known.insert(raw.to_owned(), known.clone());
                known
            }
        };
        let WordInfo { plain, stem, shape, is_stop } = known;
        Word { range: start..start + raw.len(), plain, stem, shape, is_stop, begins, breaks, joined }
    }

    pub(crate) fn stem(&self, plain: &str) -> String {
        if !plain.is_ascii() || plain.len() < 3 {
            return plain.to_owned();
        }
        self.stemmer.stem(lists::irregular(plain).unwrap_or(plain)).into_owned()
    }
}

/// The end of the word that begins at `from`.
fn run_end(chars: &[(usize, char)], from: usize) -> usize {
    let char_at = |index: usize| chars.get(index).map(|(_, c)| *c);
    let is_digit = |index: usize| char_at(index).is_some_and(|c| c.is_ascii_digit());
    let is_letter = |index: usize| char_at(index).is_some_and(|c| c.is_alphabetic() && !is_cjk(c));
    let is_word = |index: usize| char_at(index).is_some_and(|c| c.is_alphanumeric() && !is_cjk(c));
    // `2024-05-06` is one word, every other hyphen splits.
    let dashes_at = [4, 7];
    let is_iso = (0..10).all(|n| if dashes_at.contains(&n) { char_at(from + n) == Some('-') } else { is_digit(from + n) });
    if is_iso && !is_digit(from + 10) {
        return from + 10;
    }
    let mut index = from;
    while let Some(c) = char_at(index) {
        if index - from >= WORD_CHARS_MAX {
            break;
        }
        let goes_on = match c {
            '_' => true,
            '\u{300}'..='\u{36f}' => true,
            '.' => is_word(index + 1) && index > from,
            ',' | '\u{a0}' | '\u{202f}' | '\u{2009}' => {
                is_digit(index - 1) && (1..=3).all(|n| is_digit(index + n)) && !is_digit(index + 4) && digits_before(chars, from, index) <= 3
            }
            ':' if char_at(index + 1) == Some(':') => is_word(index + 2),
            ':' => (is_digit(index - 1) && is_digit(index + 1)) || (index > from && chars[index - 1].1 == ':' && is_word(index + 1)),
            '\'' | '’' | '@' => is_letter(index + 1) && is_letter(index - 1),
            '+' => index == from + 1 && is_letter(from) && char_at(index + 1) == Some('+'),
            '#' => index == from + 1 && is_letter(from),
            c => c.is_alphanumeric() && !is_cjk(c),
        };
        if !goes_on {
            break;
        }
        index += 1;
    }
    if char_at(index) == Some('+') && chars[index - 1].1 == '+' {
        index += 1;
    }
    index.max(from + 1)
}

fn digits_before(chars: &[(usize, char)], from: usize, index: usize) -> usize {
    chars[from..index].iter().rev().take_while(|(_, c)| c.is_ascii_digit()).count()
}

fn shape(raw: &str) -> Shape {
    let mut letters = raw.chars().filter(|c| c.is_alphabetic());
    let has_letter = letters.next().is_some();
    if !has_letter {
        let dots = raw.bytes().filter(|b| *b == b'.').count();
        return if raw.contains('_') || dots > 1 { Shape::Identifier } else { Shape::Number };
    }
    let bare = possessive_cut(raw);
    let has_digit = bare.chars().any(|c| c.is_numeric());
    let is_initials = is_initials(bare);
    let has_inner_dot = bare.contains('.') && !is_initials;
    if has_digit || has_inner_dot || bare.contains(['_', ':', '@', '+', '#']) {
        return Shape::Identifier;
    }
    let upper = bare.chars().filter(|c| c.is_uppercase()).count();
    let all = bare.chars().filter(|c| c.is_alphabetic()).count();
    let first_is_upper = bare.chars().next().is_some_and(char::is_uppercase);
    if upper == all && all > 1 {
        return Shape::Upper;
    }
    // `camelCase`, but also McDonald and O'Brien, which are names in any case.
    if upper > 0 && !first_is_upper {
        return Shape::Identifier;
    }
    if first_is_upper { Shape::Capital } else { Shape::Lower }
}

/// `U.S.`, `e.g.`
fn is_initials(bare: &str) -> bool {
    bare.contains('.') && bare.split('.').all(|part| part.chars().count() <= 1 && part.chars().all(char::is_alphabetic))
}

fn possessive_cut(raw: &str) -> &str {
    raw.strip_suffix("'s").or_else(|| raw.strip_suffix("’s")).unwrap_or(raw)
}

/// Lower case, no accents, no possessive, without the dots of initials (`U.S.` and `US` are one word).
pub(crate) fn plain(raw: &str) -> String {
    let bare = possessive_cut(raw);
    let is_initials = is_initials(bare);
    let mut plain = String::with_capacity(bare.len());
    for c in bare.chars() {
        match c {
            '.' if is_initials => {}
            '\u{300}'..='\u{36f}' => {}
            '’' => plain.push('\''),
            c if c.is_ascii() => plain.push(c.to_ascii_lowercase()),
            c => c.to_lowercase().for_each(|c| plain.push(lists::unaccented(c))),
        }
    }
    plain
}

pub(crate) fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Shape)]) {
        let words = Scanner::default().words(text);
        let seen: Vec<(&str, Shape)> = words.iter().map(|word| (word.plain.as_str(), word.shape)).collect();
        assert_eq!(seen, expected, "{text}");
    }

    #[test]
    fn words_are_cut_where_their_meaning_ends() {
        use Shape::{Address, Capital, Cjk, Identifier, Lower, Number, Upper};
        check("César's U.S. trip", &[("cesar", Capital), ("us", Upper), ("trip", Lower)]);
        check("1,187.5 or 10\u{a0}000", &[("1,187.5", Number), ("or", Lower), ("10\u{a0}000", Number)]);
        check("`fsync_us` in large.rs, v0.4.2", &[("fsync_us", Identifier), ("in", Lower), ("large.rs", Identifier), ("v0.4.2", Identifier)]);
        check(
            "the 71st, 5km two-thirds",
            &[("the", Lower), ("71", Number), ("st", Lower), ("5", Number), ("km", Lower), ("two", Lower), ("thirds", Lower)],
        );
        check("on 2024-05-06 at 10:30.", &[("on", Lower), ("2024-05-06", Number), ("at", Lower), ("10:30", Number)]);
        check("see https://a.example/x?y=1.", &[("see", Lower), ("https://a.example/x?y=1", Address)]);
        check("日本 C++ std::fs", &[("日", Cjk), ("本", Cjk), ("c++", Identifier), ("std::fs", Identifier)]);
    }
}

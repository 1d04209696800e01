//! Overlap of two texts by significant words.

use std::collections::HashSet;

use crate::words::{Scanner, Shape, Word};

/// Number of distinct significant words that two texts share, in any form; numbers count.
pub fn shared_words(a: &str, b: &str) -> usize {
    let (a, b) = (stems(a), stems(b));
    a.iter().filter(|stem| b.contains(*stem) || b.iter().any(|other| is_alike(stem, other))).count()
}

/// Number of distinct significant words of a text.
pub fn content_words(text: &str) -> usize {
    stems(text).len()
}

/// Whether every word of `some` is in `all`.
pub fn has_words(all: &str, some: &str) -> bool {
    let mut scanner = Scanner::default();
    let known: HashSet<String> = scanner.words(all).into_iter().flat_map(|word| [word.plain, word.stem]).collect();
    scanner.words(some).iter().all(|word| known.contains(&word.plain) || known.contains(&word.stem))
}

pub(crate) fn stems(text: &str) -> HashSet<String> {
    let is_meaningful = |word: &Word| !word.is_stop && (word.shape == Shape::Number || word.is_content());
    Scanner::default().words(text).into_iter().filter(is_meaningful).map(|word| word.stem).collect()
}

/// `discoveri` and `discov`.
fn is_alike(a: &str, b: &str) -> bool {
    const BYTES_MIN: usize = 5;
    let shared = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    a.is_ascii() && b.is_ascii() && shared >= BYTES_MIN && shared * 10 >= a.len().max(b.len()) * 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shared_in_any_form() {
        assert_eq!(shared_words("Curie moved to Paris", "Where did Curie move?"), 2);
        assert_eq!(shared_words("Bananas ripen in a bag.", "When was the last case of smallpox?"), 0);
        assert!(has_words("What is the mean of 4, 8 and 15?", "8") && !has_words("What is the mean of 4?", "8"));
        assert_eq!((content_words("It is the one."), content_words("The log is replayed")), (0, 2));
    }
}

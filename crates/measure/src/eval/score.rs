//! Scores an answer against the known one, with the usual normalization of question-answering sets: lower case, no punctuation, no
//! articles.

use std::collections::HashMap;

/// One answer against the known one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Equal to the known answer.
    pub(super) is_exact: bool,
    /// Contains the known answer.
    pub(super) holds: bool,
    /// Common words, as the harmonic mean of precision and recall.
    pub(super) f1: f64,
}

pub(super) fn score(answer: &str, known: &str) -> Score {
    let (answer, known) = (words(answer), words(known));
    let holds = !known.is_empty() && answer.windows(known.len()).any(|window| window == known);
    Score { is_exact: answer == known, holds, f1: f1(&answer, &known) }
}

fn f1(answer: &[String], known: &[String]) -> f64 {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in known {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in answer {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    if common == 0 { 0.0 } else { 2.0 * f64::from(common) / (answer.len() + known.len()) as f64 }
}

fn words(text: &str) -> Vec<String> {
    let plain: String = text.to_lowercase().chars().filter(|c| c.is_alphanumeric() || c.is_whitespace()).collect();
    plain.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_by_their_words() {
        let cases = [
            ("The Eiffel Tower.", "Eiffel Tower", true, true, 1.0),
            ("It is the Eiffel Tower, in Paris.", "eiffel tower", false, true, 0.5),
            ("Tower of Eiffel", "Eiffel Tower", false, false, 0.8),
            ("yes yes", "yes", false, true, 2.0 / 3.0),
            ("no", "yes", false, false, 0.0),
            ("", "yes", false, false, 0.0),
        ];
        for (answer, known, is_exact, holds, f1) in cases {
            let score = score(answer, known);
            assert_eq!((score.is_exact, score.holds), (is_exact, holds), "{answer}");
            assert!((score.f1 - f1).abs() < 1e-9, "{answer}: {}", score.f1);
        }
    }
}

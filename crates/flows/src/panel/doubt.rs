//! Findings that are only doubts. Correct drafts are full of rounded and derived quantities, sentences that begin with a capital letter,
//! and negations that the source expresses differently. Rules cannot decide these, so the critic's model does.
//!
//! ```text
//! about two thirds, within two years          a quantity in words behind a hedge                       number
//! 2.1 of 18.4 million                         a number that shares the scale of the one behind it      number: no finding at all
//! Apply carbon paste. / im Viertelstundentakt a capital letter that does not mean a name               name
//! They liked A, but not B. / disliked B       the source negates with a prefix, or only a part is      negation
//! ```

/// Words that make a quantity approximate; English and German.
const HEDGES: [&str; 25] = [
    "about",
    "around",
    "roughly",
    "approximately",
    "nearly",
    "almost",
    "some",
    "over",
    "under",
    "within",
    "than",
    "least",
    "most",
    "circa",
    "ca",
    "etwa",
    "rund",
    "ungefähr",
    "fast",
    "knapp",
    "gut",
    "über",
    "unter",
    "mindestens",
    "höchstens",
];
/// Maximum number of words between a hedge and its quantity: "about one in nine".
const HEDGE_WORDS_MAX: usize = 3;
/// Maximum number of words between a number and the scale it shares: "2.1 of 18.4 million".
const SCALE_WORDS_MAX: usize = 4;
/// German function words; in German every noun is capitalized.
const GERMAN: [&str; 16] = ["der", "die", "das", "und", "ist", "ein", "eine", "im", "um", "nicht", "mit", "den", "dem", "auf", "zu", "wie"];
const GERMAN_WORDS_MIN: usize = 2;
/// Words that follow a subject: before them, a capitalized word at the start of a sentence may be a name.
const AFTER_SUBJECT: [&str; 20] = [
    "is", "was", "are", "were", "has", "had", "have", "will", "would", "can", "could", "did", "does", "and", "or", "ist", "war", "hat", "hatte",
    "und",
];
const NEGATING_PREFIXES: [&str; 6] = ["dis", "un", "in", "im", "non", "mis"];
const STEM_CHARS_MIN: usize = 4;

/// Whether a quantity is written in words behind a hedge, so that it is no exact claim.
pub(super) fn is_approximate(sentence: &str, what: &str) -> bool {
    if what.chars().any(|c| c.is_ascii_digit()) {
        return false;
    }
    let Some(at) = sentence.to_lowercase().find(&what.to_lowercase()) else { return false };
    let before = words(sentence.get(..at).unwrap_or_default());
    before.iter().rev().take(HEDGE_WORDS_MAX).any(|word| HEDGES.contains(&word.as_str()))
}

/// Whether the sources give a number with the scale that follows the next number.
pub(super) fn shares_scale<'s>(sentence: &str, what: &str, sources: &(impl Iterator<Item = &'s str> + Clone)) -> bool {
    let Some(at) = sentence.find(what) else { return false };
    let behind = sentence.get(at + what.len()..).unwrap_or_default();
    let mut scales = words(behind).into_iter().take(SCALE_WORDS_MAX).filter(|word| word.chars().all(char::is_alphabetic));
    scales.any(|scale| sources.clone().any(|text| text.to_lowercase().contains(&format!("{} {scale}", what.to_lowercase()))))
}

/// Whether a capital letter need not mean a name: at the start of a sentence without a following verb, or a noun in German.
pub(super) fn may_be_no_name(sentence: &str, what: &str) -> bool {
    if what.split_whitespace().count() > 1 {
        return false;
    }
    let all = words(sentence);
    let german = all.iter().filter(|word| GERMAN.contains(&word.as_str())).count();
    if german >= GERMAN_WORDS_MIN {
        return true;
    }
    let is_first = all.first().is_some_and(|first| *first == what.to_lowercase());
    let has_verb = all.get(1).is_some_and(|next| AFTER_SUBJECT.contains(&next.as_str()) || next.ends_with("ed") || next.ends_with('s'));
    is_first && !has_verb
}

/// Whether a negation may be the source's own in a different form.
pub(super) fn may_agree(sentence: &str, source: &str) -> bool {
    let (own, other) = (words(sentence), words(source));
    let has_prefixed = |plain: &[String], prefixed: &[String]| {
        prefixed.iter().any(|word| {
            let stem = NEGATING_PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix)).filter(|stem| stem.chars().count() >= STEM_CHARS_MIN);
            stem.is_some_and(|stem| plain.iter().any(|one| one == stem))
        })
    };
    let is_part = own.windows(2).any(|pair| matches!((pair[0].as_str(), pair[1].as_str()), ("but", "not") | ("aber", "nicht")));
    let has = |words: &[String], one: &str| words.iter().any(|word| word == one);
    let is_without = has(&own, "not") && has(&other, "without") || has(&own, "without") && has(&other, "not");
    is_part || is_without || has_prefixed(&own, &other) || has_prefixed(&other, &own)
}

/// A draft without its leading yes or no: that word negates the question and not the sentence.
pub(super) fn without_yes_or_no(text: &str) -> &str {
    const PARTICLES: [&str; 8] = ["yes", "no", "ja", "nein", "oui", "non", "sí", "si"];
    let Some((first, rest)) = text.split_once([',', '.', ':', '!']) else { return text };
    let rest = rest.trim_start();
    if PARTICLES.contains(&first.trim().to_lowercase().as_str()) && !rest.is_empty() { rest } else { text }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_distinguished_from_faults() {
        assert!(is_approximate("It took about half a century.", "half a century"));
        assert!(is_approximate("Roughly one in nine passengers", "nine"));
        assert!(!is_approximate("It is washed five times a week.", "five"));
        assert!(!is_approximate("About 49 people", "49"));
        let sources = ["18.4 million passengers, of whom 2.1 million travelled at night"];
        assert!(shares_scale("Roughly 2.1 of 18.4 million.", "2.1", &sources.into_iter()));
        assert!(!shares_scale("Roughly 3.1 of 18.4 million.", "3.1", &sources.into_iter()));
        assert!(may_be_no_name("Apply carbon assembly paste.", "Apply"));
        assert!(may_be_no_name("Sonntags kommt die Linie 7 im Viertelstundentakt.", "Viertelstundentakt"));
        assert!(!may_be_no_name("Dresden was the place of the premiere.", "Dresden") && !may_be_no_name("It was in Dresden.", "Dresden"));
        assert!(may_agree("They liked it, but not the libretto.", "Critics praised it.") && may_agree("He was not happy.", "He was unhappy."));
        assert!(may_agree("At most three rents, utilities not included.", "Up to three rents without utilities."));
        assert!(!may_agree("The fee is not refunded.", "The fee is refunded."));
        for (text, rest) in [("No, don't.", "don't."), ("No. It closed.", "It closed."), ("Nothing changed.", "Nothing changed."), ("No", "No")] {
            assert_eq!(without_yes_or_no(text), rest);
        }
    }
}

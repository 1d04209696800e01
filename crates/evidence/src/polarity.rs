//! Compares the polarity of a claim and its evidence: negation and opposites.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::check::{Problem, ProblemKind};
use crate::lists;
use crate::words::{Scanner, Shape, Word};

static OPPOSITES: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let scanner = Scanner::default();
    let mut map: HashMap<String, Vec<String>> = HashMap::new();
    for (a, b) in lists::OPPOSITES {
        let (a, b) = (scanner.stem(a), scanner.stem(b));
        map.entry(a.clone()).or_default().push(b.clone());
        map.entry(b).or_default().push(a);
    }
    map
});

/// Too common to be significant unless beside the same word.
const TIGHT: &[(&str, &str)] = &[("on", "off"), ("over", "under"), ("up", "down"), ("for", "against")];

pub(crate) fn problems(claim: &[Word], source: &[Word], score: f32, place: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(problem) = negation(claim, source, score, place) {
        problems.push(problem);
    }
    if let Some(problem) = opposite(claim, source, place) {
        problems.push(problem);
    }
    problems
}

fn negation(claim: &[Word], source: &[Word], score: f32, place: &str) -> Option<Problem> {
    let (here, there) = (denied(claim), denied(source));
    let problem = |words: String| Some(Problem { kind: ProblemKind::Negation, words, what: String::new() });
    let count = |words: &[Word], stem: &str| words.iter().filter(|word| word.stem == stem).count();
    for index in &here {
        let word = &claim[*index];
        let denied_there = there.iter().any(|other| source[*other].stem == word.stem);
        if !denied_there && count(source, &word.stem) > 0 {
            return problem(format!("it denies “{}”, which {place} affirms", word.plain));
        }
    }
    for index in &there {
        let word = &source[*index];
        let times_denied = there.iter().filter(|other| source[**other].stem == word.stem).count();
        let denied_here = here.iter().any(|other| claim[*other].stem == word.stem);
        // Another occurrence without negation may be the one that is meant.
        if !denied_here && count(claim, &word.stem) > 0 && count(source, &word.stem) == times_denied {
            return problem(format!("it affirms “{}”, which {place} denies", word.plain));
        }
    }
    if !here.is_empty() && there.is_empty() && score >= 0.6 && !has_dark_word(source) {
        return Some(Problem { kind: ProblemKind::Opposite, words: format!("it denies something, and {place} does not"), what: String::new() });
    }
    None
}

/// Words that negate without a negator.
fn has_dark_word(words: &[Word]) -> bool {
    let dark = |word: &Word| {
        matches!(
            word.stem.as_str(),
            "fail"
                | "refus"
                | "deni"
                | "deny"
                | "reject"
                | "ban"
                | "forbid"
                | "forbidden"
                | "prohibit"
                | "lack"
                | "absenc"
                | "absent"
                | "stop"
                | "ceas"
                | "prevent"
                | "avoid"
                | "except"
                | "only"
                | "without"
                | "abandon"
                | "cancel"
                | "remov"
                | "fals"
                | "unlik"
        ) || (word.plain.len() > 5 && lists::OPPOSITE_PREFIXES.iter().any(|prefix| word.plain.starts_with(prefix)))
    };
    words.iter().any(dark)
}

pub(crate) fn is_negator(word: &Word) -> bool {
    lists::NEGATORS.contains(&word.plain.as_str()) || word.plain.ends_with("n't")
}

/// The word each negator negates: the next significant one.
fn denied(words: &[Word]) -> Vec<usize> {
    const REACH_WORDS: usize = 6;
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let is_failure = word.stem == "fail" && words.get(index + 1).is_some_and(|next| next.plain == "to");
        if !is_negator(word) && !is_failure {
            continue;
        }
        let next = words.get(index + 1);
        if next.is_some_and(|next| matches!(next.plain.as_str(), "only" | "doubt" | "just" | "merely"))
            || (word.plain == "no" && next.is_some_and(|next| next.shape == Shape::Number))
        {
            continue;
        }
        let after = (index + 1..words.len().min(index + 1 + REACH_WORDS)).take_while(|at| !words[*at].breaks && !words[*at].begins);
        let is_head = |at: &usize| {
            words[*at].is_content() && !words[*at].plain.ends_with("ly") && !matches!(words[*at].plain.as_str(), "longer" | "single" | "further")
        };
        let before = || (index.saturating_sub(4)..index).rev().find(|at| words[*at].is_content());
        if let Some(head) = after.into_iter().find(is_head).or_else(before) {
            found.push(head);
        }
    }
    found
}

fn opposite(claim: &[Word], source: &[Word], place: &str) -> Option<Problem> {
    let problem = |here: &str, there: &str| {
        Some(Problem { kind: ProblemKind::Opposite, words: format!("it says “{here}” where {place} says “{there}”"), what: String::new() })
    };
    let here: HashSet<&str> = claim.iter().map(|word| word.stem.as_str()).collect();
    let there: HashSet<&str> = source.iter().map(|word| word.stem.as_str()).collect();
    let (denied_here, denied_there) = (denied(claim), denied(source));
    for (index, word) in claim.iter().enumerate() {
        if there.contains(word.stem.as_str()) {
            // Both occur: then their context decides.
            for other in
                OPPOSITES.get(&word.stem).into_iter().flatten().filter(|other| there.contains(other.as_str()) && !here.contains(other.as_str()))
            {
                let mine = around(claim, index);
                let of =
                    |stem: &str| (0..source.len()).filter(|at| source[*at].stem == stem).flat_map(|at| around(source, at)).collect::<HashSet<_>>();
                if !mine.is_disjoint(&of(other)) && mine.is_disjoint(&of(&word.stem)) {
                    return problem(&word.plain, other);
                }
            }
            continue;
        }
        for other in OPPOSITES.get(&word.stem).into_iter().flatten() {
            if here.contains(other.as_str()) {
                continue;
            }
            if let Some(at) = source.iter().position(|word| word.stem == *other) {
                // A negated opposite is not an opposite.
                if denied_here.contains(&index) == denied_there.contains(&at) {
                    return problem(&word.plain, &source[at].plain);
                }
            }
        }
        if word.is_content() && word.plain.len() >= 4 {
            for prefix in lists::OPPOSITE_PREFIXES {
                let shorter = word.plain.strip_prefix(prefix).filter(|rest| rest.len() >= 5);
                let found = source.iter().position(|other| {
                    Some(other.plain.as_str()) == shorter || (word.plain.len() >= 5 && other.plain.strip_prefix(prefix) == Some(word.plain.as_str()))
                });
                if let Some(at) = found.filter(|at| denied_here.contains(&index) == denied_there.contains(at)) {
                    return problem(&word.plain, &source[at].plain);
                }
            }
        }
    }
    let beside = |words: &[Word], small: &str| -> HashSet<String> {
        let pairs = words.windows(2).flat_map(|pair| {
            let before = (pair[1].plain == small && pair[0].is_content()).then(|| format!("{} ", pair[0].stem));
            let after = (pair[0].plain == small && pair[1].is_content()).then(|| format!(" {}", pair[1].stem));
            [before, after]
        });
        pairs.flatten().collect()
    };
    for (a, b) in TIGHT.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]) {
        let (mine, theirs, other) = (beside(claim, a), beside(source, a), beside(source, b));
        if mine.iter().any(|pair| other.contains(pair) && !theirs.contains(pair)) {
            return problem(a, b);
        }
    }
    None
}

/// The two words and numbers on either side, within the sentence.
fn around(words: &[Word], at: usize) -> HashSet<&str> {
    let is_kept = |word: &&Word| word.is_content() || word.shape == Shape::Number;
    let after = words[at + 1..].iter().take_while(|word| !word.begins).filter(is_kept).take(2);
    let before = words[..at].iter().rev().filter(is_kept).take(if words[at].begins { 0 } else { 2 });
    before.chain(after).map(|word| word.stem.as_str()).collect()
}

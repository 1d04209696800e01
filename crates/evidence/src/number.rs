//! Numbers in words and digits, with units, and their comparison.

use crate::quantities::{self, Measure};
use crate::words::{Shape, Word};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) value: f64,
    /// The value of one step of the last digit: 0.1 for `3.2`, 1e5 for `1.2 million`.
    step: f64,
    /// The precision implied by trailing zeros if the number is approximate: 1000 for `38,000`.
    round: f64,
    has_point: bool,
    /// Exactly four digits, like a year.
    is_bare: bool,
    pub(crate) unit: Unit,
    hedge: Hedge,
    /// Its range of words.
    pub(crate) words: std::ops::Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    None,
    Percent,
    Ordinal,
    Century,
    Decade,
    /// `twice`, `three times`, `doubled`
    Times,
    /// `half`, `two thirds`
    Fraction,
    Clock,
    Money(&'static str),
    Measure(Measure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hedge {
    None,
    About,
    Over,
    Under,
}

impl Number {
    /// A computed number: exact, without a unit.
    pub(crate) fn computed(value: f64) -> Number {
        let step = if value.fract() == 0.0 { 1.0 } else { 1e-6 };
        Number { value, step, round: step, has_point: value.fract() != 0.0, is_bare: false, unit: Unit::None, hedge: Hedge::None, words: 0..0 }
    }

    pub(crate) fn is_year(&self) -> bool {
        self.unit == Unit::None && self.value.fract() == 0.0 && (1000.0..=2100.0).contains(&self.value) && self.is_bare
    }

    /// Whether both are amounts of the same kind, so that one can be a limit of the other.
    pub(crate) fn is_comparable_with(&self, given: &Number) -> bool {
        match (self.unit, given.unit) {
            (Unit::Measure(a), Unit::Measure(b)) => a.kind == b.kind,
            (Unit::None, Unit::None) => !self.is_year() && !given.is_year(),
            (Unit::Percent, Unit::Percent) => true,
            (Unit::Money(a), Unit::Money(b)) => a == b,
            _ => false,
        }
    }

    pub(crate) fn in_base_unit(&self) -> f64 {
        match self.unit {
            Unit::Measure(measure) => self.value * measure.factor,
            _ => self.value,
        }
    }

    /// The values that a number without a limit may stand for, in the base unit: one, or a range if it is approximate (`about 80`, `nearly 80`).
    pub(crate) fn interval(&self) -> (f64, f64) {
        let around = if self.hedge == Hedge::None { 0.0 } else { self.round * 0.5 };
        let factor = match self.unit {
            Unit::Measure(measure) => measure.factor,
            _ => 1.0,
        };
        ((self.value - around) * factor, (self.value + around) * factor)
    }

    /// Whether a source with `given` confirms a claim of `self`.
    pub(crate) fn is_borne_out_by(&self, given: &Number) -> bool {
        let (mut claim, mut source) = (self.value, given.value);
        let mut scale = 1.0;
        match (self.unit, given.unit) {
            (a, b) if a == b => {}
            (Unit::Measure(a), Unit::Measure(b)) => {
                if a.kind != b.kind {
                    return false;
                }
                claim *= a.factor;
                source *= b.factor;
                scale = a.factor;
            }
            (Unit::Fraction, Unit::Percent) => return (claim * 100.0 - source).abs() <= if self.hedge == Hedge::None { 0.5 } else { 4.0 },
            (Unit::Percent, Unit::Fraction) => return (claim - source * 100.0).abs() <= 0.5,
            (Unit::Fraction, Unit::Times) | (Unit::Times, Unit::Fraction) | (Unit::Fraction, Unit::None) | (Unit::None, Unit::Fraction) => {}
            (Unit::Decade, _) if given.is_year() => return source >= claim && source < claim + 10.0,
            (Unit::Century, _) if given.is_year() => return ((source - 1.0) / 100.0).floor() + 1.0 == claim,
            (Unit::Century, Unit::Ordinal) | (Unit::Ordinal, Unit::Century) => {}
            // A bare number may have any unit (a table cell), but is not a share, a rank or a time of day.
            (Unit::None, Unit::Percent | Unit::Measure(_) | Unit::Money(_)) => {}
            (Unit::Measure(_) | Unit::Money(_), Unit::None) => {}
            _ => return false,
        }
        let apart = (claim - source).abs();
        let size = claim.abs().max(1e-12);
        if apart <= size * 1e-9 {
            return true;
        }
        // 3.1 for 3.14; 99 for 98.6, but not 5 for 5.4.
        let is_rounded = source.abs() > 0.0 && apart <= self.step * scale * 0.5 * (1.0 + 1e-9);
        let given_step = given.step * if scale == 1.0 { 1.0 } else { source / given.value.max(1e-300) };
        if is_rounded && given_step < self.step * scale && (self.has_point || apart <= size * 0.02) {
            return true;
        }
        if self.is_year() {
            return self.hedge == Hedge::About && self.round >= 10.0 && apart <= 5.0;
        }
        // Only a number rounder than the source's can be approximate.
        let round = self.round * scale;
        if round <= given_step * (1.0 + 1e-9) {
            return false;
        }
        match self.hedge {
            Hedge::None => false,
            Hedge::About => apart <= round * 0.5 && apart <= size * 0.05,
            // `over 1,000` for 1,042; `over 1,001` would be odd.
            Hedge::Over => source > claim && apart <= size * 0.1 && apart <= round,
            Hedge::Under => source < claim && apart <= size * 0.1 && apart <= round,
        }
    }
}

/// All numbers of the text, in order. `words` were scanned from `text`.
pub(crate) fn numbers(text: &str, words: &[Word]) -> Vec<Number> {
    let mut numbers: Vec<Number> = Vec::new();
    let mut index = 0;
    while index < words.len() {
        match number(text, words, index) {
            Some(number) => {
                index = number.words.end.max(index + 1);
                numbers.push(number);
            }
            None => index += 1,
        }
    }
    // `between 150 and 300 ms`, `40–45%`: the first has the unit of the second.
    for at in (1..numbers.len()).rev() {
        let between = &words[numbers[at - 1].words.end..numbers[at].words.start];
        let is_range = match between {
            [] => text[words[numbers[at - 1].words.end - 1].range.end..words[numbers[at].words.start].range.start].contains(['-', '–', '—']),
            [word] => matches!(word.plain.as_str(), "to" | "and" | "or"),
            _ => false,
        };
        if is_range
            && numbers[at - 1].unit == Unit::None
            && !numbers[at - 1].is_year()
            && matches!(numbers[at].unit, Unit::Percent | Unit::Measure(_) | Unit::Money(_))
        {
            numbers[at - 1].unit = numbers[at].unit;
        }
    }
    numbers
}

fn number(text: &str, words: &[Word], from: usize) -> Option<Number> {
    let plain = |index: usize| words.get(index).map_or("", |word| word.plain.as_str());
    let before = |index: usize| if index == 0 { "" } else { plain(index - 1) };
    let word = &words[from];
    let hedge = hedge(text, words, from);
    let whole =
        |value: f64, unit: Unit, to: usize| Number { value, step: 1.0, round: 1.0, has_point: false, is_bare: false, unit, hedge, words: from..to };
    // Words that are numbers by themselves.
    match word.plain.as_str() {
        "twice" | "double" | "doubled" | "doubles" | "doubling" => return Some(whole(2.0, Unit::Times, from + 1)),
        "thrice" | "triple" | "tripled" | "triples" | "tripling" => return Some(whole(3.0, Unit::Times, from + 1)),
        "quadruple" | "quadrupled" => return Some(whole(4.0, Unit::Times, from + 1)),
        "halved" | "halves" | "halving" => return Some(Number { step: 0.1, ..whole(0.5, Unit::Times, from + 1) }),
        "half" if !matches!(before(from), "first" | "second" | "other" | "latter" | "better" | "later") => {
            let measured = matches!(plain(from + 1), "a" | "an").then(|| quantities::unit(plain(from + 2))).flatten();
            let (unit, to) = measured.map_or((Unit::Fraction, from + 1), |measure| (Unit::Measure(measure), from + 3));
            return Some(Number { step: 0.1, has_point: true, ..whole(0.5, unit, to) });
        }
        "quarter" | "third" if matches!(before(from), "a" | "one") && (plain(from + 1) == "of" || before(from) == "one") => {
            let value = if word.plain == "third" { 1.0 / 3.0 } else { 0.25 };
            return Some(Number { step: 1e-6, ..whole(value, Unit::Fraction, from + 1) });
        }
        _ => {}
    }
    let (mut value, mut step, mut round, mut has_point, mut to);
    if word.shape == Shape::Number {
        if let Some(clock) = clock(&word.plain) {
            return Some(whole(clock, Unit::Clock, from + 1));
        }
        (value, step, round, has_point) = digits(&word.plain)?;
        to = from + 1;
    } else {
        if let Some(rank) = quantities::ordinal_word(&word.plain) {
            let is_rank = match word.plain.as_str() {
                "first" => false,
                // Also a measure of time.
                "second" => {
                    !matches!(before(from), "" | "a" | "per" | "each" | "every" | "one")
                        && words[from - 1].shape != Shape::Number
                        && from + 1 < words.len()
                }
                _ => true,
            };
            let unit = if plain(from + 1) == "century" { Unit::Century } else { Unit::Ordinal };
            return is_rank.then(|| whole(rank, unit, from + 1));
        }
        let first = match quantities::number_word(&word.plain) {
            Some(first) => first,
            None if matches!(word.plain.as_str(), "hundred" | "thousand" | "million" | "billion" | "dozen")
                && matches!(before(from), "a" | "the") =>
            {
                // `a million`; `the thousand` is rarely a number, but then it is in the source too.
                (value, step, round) = (1.0, 1.0, 1.0);
                return Some(finish(text, words, from, from, value, step, round, false, hedge));
            }
            None => return None,
        };
        // `one` is usually a pronoun.
        let is_counted = quantities::magnitude(plain(from + 1)).is_some()
            || quantities::unit(plain(from + 1)).is_some()
            || matches!(plain(from + 1), "percent" | "third" | "quarter" | "half");
        if word.plain == "one" && !is_counted {
            return None;
        }
        value = first;
        to = from + 1;
        // `twenty-one`
        if value >= 20.0
            && let Some(ones) = quantities::number_word(plain(to)).filter(|ones| (1.0..10.0).contains(ones))
            && words[to].joined
        {
            value += ones;
            to += 1;
        }
        (step, round, has_point) = (1.0, if value % 10.0 == 0.0 && value > 0.0 { 10.0 } else { 1.0 }, false);
    }
    // `two thirds`, `3/4` stays two numbers.
    let parts = match plain(to) {
        "third" | "thirds" => 3.0,
        "quarter" | "quarters" => 4.0,
        "half" | "halves" if value == 1.0 => 2.0,
        "fifths" => 5.0,
        "tenths" => 10.0,
        _ => 0.0,
    };
    if parts > 0.0 && value < parts && word.shape != Shape::Number {
        return Some(Number { step: 1e-6, ..whole(value / parts, Unit::Fraction, to + 1) });
    }
    if word.shape == Shape::Number && words.get(to).is_some_and(|next| next.joined && next.range.start == word.range.end) {
        match plain(to) {
            "st" | "nd" | "rd" | "th" => {
                let unit = if plain(to + 1) == "century" { Unit::Century } else { Unit::Ordinal };
                return Some(whole(value, unit, to + 1));
            }
            "s" if value % 10.0 == 0.0 && value >= 10.0 => {
                let value = if value < 100.0 { 1900.0 + value } else { value };
                return Some(whole(value, Unit::Decade, to + 1));
            }
            _ => {}
        }
    }
    (to, value, step, round, has_point) = scaled(text, words, from, to, value, step, round, has_point);
    Some(finish(text, words, from, to, value, step, round, has_point, hedge))
}

/// Consumes a following `million`, `hundred and five`, `k`.
#[allow(clippy::too_many_arguments, reason = "one number's parts, passed on as they grow")]
fn scaled(
    text: &str,
    words: &[Word],
    from: usize,
    mut to: usize,
    mut value: f64,
    mut step: f64,
    mut round: f64,
    has_point: bool,
) -> (usize, f64, f64, f64, bool) {
    while let Some(next) = words.get(to).filter(|next| !next.breaks) {
        let raw = &text[next.range.clone()];
        let hangs = next.range.start == words[to - 1].range.end;
        let factor = match raw {
            "k" | "K" if hangs => Some(1e3),
            "M" if hangs => Some(1e6),
            "m" if hangs && currency(text, words[from].range.start).is_some() => Some(1e6),
            _ => quantities::magnitude(&next.plain),
        };
        if let Some(factor) = factor {
            value *= factor;
            step *= factor;
            round *= factor;
            to += 1;
            continue;
        }
        // `seven hundred and five`: the addend must be smaller than the scaled value.
        let skip = usize::from(next.plain == "and");
        let added = words.get(to + skip).and_then(|word| quantities::number_word(&word.plain));
        match added {
            Some(added) if step > added && words[to - 1].shape != Shape::Number && value >= 100.0 && words[from].shape != Shape::Number => {
                value += added;
                step = 1.0;
                round = 1.0;
                to += 1 + skip;
            }
            _ => break,
        }
    }
    (to, value, step, round, has_point)
}

#[allow(clippy::too_many_arguments, reason = "one number's parts, put together")]
fn finish(text: &str, words: &[Word], from: usize, to: usize, value: f64, step: f64, round: f64, has_point: bool, hedge: Hedge) -> Number {
    let (mut to, mut value, mut step, mut round) = (to, value, step, round);
    if to == from {
        let factor = quantities::magnitude(&words[from].plain).unwrap_or(1.0);
        (to, value, step, round) = (from + 1, value * factor, step * factor, round * factor);
    }
    let last = words[to - 1].range.end;
    let after = text[last..].trim_start();
    let (unit, to) = if let Some(currency) = currency(text, words[from].range.start) {
        (Unit::Money(currency), to)
    } else if after.starts_with('%') || after.starts_with('٪') {
        (Unit::Percent, to)
    } else if after.starts_with('€') {
        (Unit::Money("€"), to)
    } else if after.starts_with("°C") || after.starts_with("℃") {
        (Unit::Measure(Measure { kind: quantities::CELSIUS_KIND, factor: 1.0 }), to + 1)
    } else if after.starts_with("°F") {
        (Unit::Measure(Measure { kind: quantities::FAHRENHEIT_KIND, factor: 1.0 }), to + 1)
    } else {
        unit(text, words, to)
    };
    let is_bare = words[from].plain.len() == 4 && words[from].shape == Shape::Number && step == 1.0;
    Number { value, step, round, has_point, is_bare, unit, hedge, words: from..to.min(words.len()) }
}

fn unit(text: &str, words: &[Word], to: usize) -> (Unit, usize) {
    let plain = |index: usize| words.get(index).map_or("", |word| word.plain.as_str());
    let follows = |index: usize| words.get(index).is_some_and(|word| !word.breaks && !word.begins);
    if !follows(to) {
        return (Unit::None, to);
    }
    match plain(to) {
        "percent" | "percentage" => return (Unit::Percent, to + 1),
        "per" if plain(to + 1) == "cent" => return (Unit::Percent, to + 2),
        "times" | "fold" | "x" => return (Unit::Times, to + 1),
        _ => {}
    }
    if let Some(currency) = quantities::money(plain(to)) {
        return (Unit::Money(currency), to + 1);
    }
    let (power, at) = match plain(to) {
        "square" | "sq" => (2, to + 1),
        "cubic" => (3, to + 1),
        _ => (1, to),
    };
    // A unit of one letter is case-sensitive: `5 m`, not `5 M`.
    let known = words.get(at).and_then(|word| {
        let raw = &text[word.range.clone()];
        if raw.len() == 1 && !matches!(raw, "m" | "g" | "s" | "h" | "t" | "l" | "L" | "W" | "V") { None } else { quantities::unit(raw) }
    });
    let Some(mut measure) = known else { return (Unit::None, to) };
    let mut end = at + 1;
    let raw_after = &text[words[at].range.end..];
    let power = if raw_after.starts_with('²') {
        2
    } else if raw_after.starts_with('³') {
        3
    } else {
        power
    };
    measure.kind |= (power - 1) << 4;
    measure.factor = measure.factor.powi(i32::from(power));
    let per = if words.get(end).is_some_and(|word| word.joined) && raw_after.starts_with('/') {
        Some(end)
    } else {
        (plain(end) == "per").then_some(end + 1)
    };
    if let Some(below) = per.and_then(|index| quantities::unit(plain(index))) {
        measure.kind |= below.kind << 8;
        measure.factor /= below.factor;
        end = per.unwrap_or(end) + 1;
    }
    (Unit::Measure(measure), end)
}

fn currency(text: &str, at: usize) -> Option<&'static str> {
    let before = text[..at].trim_end_matches(['-', '−', ' ']);
    match before.chars().next_back()? {
        '$' => Some("$"),
        '€' => Some("€"),
        '£' => Some("£"),
        '¥' => Some("¥"),
        '₹' => Some("₹"),
        _ => None,
    }
}

fn hedge(text: &str, words: &[Word], from: usize) -> Hedge {
    if text[..words[from].range.start].trim_end_matches([' ', '$', '€', '£']).ends_with(['~', '≈']) {
        return Hedge::About;
    }
    let back = |count: usize| from.checked_sub(count).map_or("", |index| words[index].plain.as_str());
    match (back(2), back(1)) {
        ("more" | "greater" | "higher" | "larger" | "longer", "than") | (_, "over" | "exceeding" | "exceeded" | "exceeds") => Hedge::Over,
        ("less" | "fewer" | "lower" | "smaller" | "shorter", "than") | (_, "under" | "nearly" | "almost" | "below") | ("close", "to") => Hedge::Under,
        (_, "about" | "around" | "roughly" | "approximately" | "some" | "circa" | "ca" | "approx")
        | ("about" | "around" | "roughly" | "approximately" | "some", "a" | "the") => Hedge::About,
        _ => Hedge::None,
    }
}

fn clock(plain: &str) -> Option<f64> {
    if !plain.contains(':') {
        return None;
    }
    plain.split(':').try_fold(0.0, |sum, part| part.parse::<f64>().ok().map(|part| sum * 60.0 + part))
}

/// The value, the step of its last digit and of its last non-zero digit, and whether it has a decimal point.
fn digits(plain: &str) -> Option<(f64, f64, f64, bool)> {
    if plain.len() == 10 && plain.as_bytes()[4] == b'-' {
        return None;
    }
    let bare: String = plain.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let value: f64 = bare.parse().ok()?;
    let (whole, decimals) = bare.split_once('.').unwrap_or((&bare, ""));
    let step = 10f64.powi(-i32::try_from(decimals.len()).ok()?);
    let zeros = whole.len() - whole.trim_end_matches('0').len();
    let round = if decimals.is_empty() { 10f64.powi(i32::try_from(zeros).ok()?) } else { step };
    Some((value, step, round, !decimals.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Scanner;

    fn check(claim: &str, source: &str, expected: bool) {
        let read = |text: &str| numbers(text, &Scanner::default().words(text));
        let (claims, sources) = (read(claim), read(source));
        assert!(!claims.is_empty(), "no number in {claim}");
        let seen = claims.iter().all(|claim| sources.iter().any(|given| claim.is_borne_out_by(given)));
        assert_eq!(seen, expected, "{claim:?} from {source:?}: {claims:?} {sources:?}");
    }

    #[test]
    fn a_number_is_borne_out_by_the_same_in_other_words() {
        for (claim, source) in [
            ("1,200,000 people", "1.2 million people"),
            ("twelve", "12"),
            ("about a dozen", "12"),
            ("8 per cent", "8%"),
            ("$9,750,000", "$9.75 million"),
            ("3.1", "3.14"),
            ("about 20 km/h", "21 km/h"),
            ("over 1,000", "1,042"),
            ("nearly 200 tonnes", "199 tonnes"),
            ("2,500 kg", "2.5 tonnes"),
            ("half an hour", "30 minutes"),
            ("two-thirds", "two thirds"),
            ("the 1990s", "in 1994"),
            ("the 19th century", "in 1815"),
            ("40–45%", "40% to 45%"),
            ("5.1 km/s", "5,100 m/s"),
            ("half", "50%"),
            ("twenty-one", "21"),
            ("seven hundred and five", "705"),
            ("5km", "5,000 m"),
            ("the 71st minute", "71st minute"),
            ("10k", "10,000"),
            ("a million", "1,000,000"),
            ("12 km", "12.2 km"),
            ("12 months", "1 year"),
            ("2:01:09", "2:01:09"),
            ("three times", "thrice"),
            ("€1.27 billion", "1.27bn euros"),
            ("150 ms", "150 and 300 ms"),
        ] {
            check(claim, source, true);
        }
        for (claim, source) in [
            ("42", "24"),
            ("3.14159", "3.14"),
            ("5", "5.4"),
            ("40%", "40 people"),
            ("500 g", "500 mg"),
            ("21 miles per hour", "21 km/h"),
            ("the third", "3"),
            ("1.5 billion", "1.5 million"),
            ("about 121,000", "112,000"),
            ("nearly 50,000", "38,262"),
            ("5,199", "5,200"),
            ("44 AD", "44 BC"),
            ("around 1789", "1798"),
            ("4.9%", "5.9%"),
            ("$5", "€5"),
            ("10:30", "10:31"),
            ("three quarters", "two thirds"),
            ("128 GB", "128 MB"),
            ("the 1990s", "in 1989"),
        ] {
            check(claim, source, false);
        }
    }
}

//! Limits in a claim (`more than 3 million copies`, `before 1975`) against the amounts and times of its sources.
//!
//! An amount is compared only with amounts of the same unit, and of the same counted thing if it has no unit; a year or a date only with
//! years and dates, and with none that is itself given as a limit. If all of them lie on the claimed side, the limit holds, if none does,
//! it is broken. If they lie on both sides, one that is close to the limit decides where the others are far from it, because a limit is
//! mostly drawn near the amount it is about; otherwise the limit is open. An amount close to the limit that counts something else, or the
//! same by another name, can leave it open too. In every other case the number or date of the limit must be in the source itself, as
//! without a limit. `since 1975` and `until 1975` are no limits: they say when something began or ended.

use std::cmp::Ordering;
use std::ops::Range;

use crate::claim::Claim;
use crate::date::Date;
use crate::judge::counted;
use crate::number::{Number, Unit};
use crate::spans::Read;
use crate::words::Word;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    /// `more than`, `after`; otherwise `less than`, `before`.
    is_lower: bool,
    /// `at least`, `up to`: the limit itself is allowed.
    is_inclusive: bool,
}

/// A limit of the claim beside its sources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    Holds,
    /// The first amount or time on the other side, as in the source.
    Broken(String),
    /// The sources have comparable amounts or times, but these do not decide it.
    Open,
}

/// Whether two values compare as wished, where that is known.
type IsMet = Option<bool>;

/// An amount or a time of a source beside the limit of the claim.
struct Compared {
    is_met: IsMet,
    /// Whether the source gives it as a limit too.
    is_limit: bool,
    /// From the limit: relative to it for amounts, in days for times.
    distance: f64,
    /// As in the source.
    given: String,
}

/// Distance up to which an amount is close to a limit, relative to the limit.
const NEAR_SHARE: f64 = 0.1;
/// The same for times.
const NEAR_DAYS: f64 = 400.0;
/// How many times as far the amounts on the other side of a limit must be.
const FAR_TIMES: f64 = 3.0;

/// `None` if the number has no limit, or nothing in the sources decides it.
pub(crate) fn of_number(claim: &Claim, number: &Number, reads: &[&Read]) -> Option<Held> {
    if number.is_year() {
        let limit = of_time(&claim.words, &number.words)?;
        return of_times(limit, &Time::of_year(number), reads);
    }
    let limit = of_amount(&claim.words, &number.words)?;
    let noun = counted_thing(&claim.words, number);
    let comparable =
        reads.iter().flat_map(|read| read.numbers.iter().filter(|given| number.is_comparable_with(given)).map(move |given| (read, given)));
    let (same, other): (Vec<_>, Vec<_>) =
        comparable.partition(|(read, given)| number.unit != Unit::None || noun.is_some() && counted_thing(&read.words, given) == noun);
    let compare = |(read, given): (&&Read, &Number)| {
        let side = of_amount(&read.words, &given.words);
        let is_met = match side {
            Some(side) => side.against(limit, given.in_base_unit(), number.in_base_unit()),
            None => {
                let (low, high) = given.interval();
                limit.is_met(low, high, number.in_base_unit(), false)
            }
        };
        let distance = (given.in_base_unit() - number.in_base_unit()).abs() / number.in_base_unit().abs().max(f64::MIN_POSITIVE);
        Compared { is_met, is_limit: side.is_some(), distance, given: shown(read, &given.words) }
    };
    let same: Vec<Compared> = same.into_iter().map(compare).collect();
    if !same.is_empty() {
        return decided(same, NEAR_SHARE);
    }
    let is_near = |one: &Compared| one.distance <= NEAR_SHARE && one.is_met != Some(false);
    other.into_iter().map(compare).any(|one| is_near(&one)).then_some(Held::Open)
}

/// The same for a date.
pub(crate) fn of_date(claim: &Claim, date: &Date, reads: &[&Read]) -> Option<Held> {
    let limit = of_time(&claim.words, &date.words)?;
    of_times(limit, &Time::of_date(date)?, reads)
}

/// The bits of the claim's numbers and dates, in this order, whose limit holds.
pub(crate) fn held(claim: &Claim, reads: &[&Read]) -> u64 {
    let numbers = claim.numbers.iter().map(|number| of_number(claim, number, reads));
    let dates = claim.dates.iter().map(|date| of_date(claim, date, reads));
    numbers.chain(dates).take(64).enumerate().filter(|(_, held)| *held == Some(Held::Holds)).fold(0, |bits, (bit, _)| bits | 1 << bit)
}

fn shown(read: &Read, words: &Range<usize>) -> String {
    read.text[read.words[words.start].range.start..read.words[words.end - 1].range.end].trim().to_owned()
}

/// `None` if nothing is comparable, or only limits and approximate amounts that neither meet nor break it.
fn decided(mut compared: Vec<Compared>, near: f64) -> Option<Held> {
    let held = |one: Compared| if one.is_met == Some(true) { Held::Holds } else { Held::Broken(one.given) };
    let first = compared.first()?.is_met;
    if first.is_some() && compared.iter().all(|one| one.is_met == first) {
        return Some(held(compared.swap_remove(0)));
    }
    // A limit of the source is a fact of its own, also beside other amounts.
    if compared.iter().any(|one| one.is_limit) || !compared.iter().any(|one| one.is_met == Some(true)) {
        return None;
    }
    let at = (0..compared.len()).min_by(|a, b| compared[*a].distance.total_cmp(&compared[*b].distance))?;
    let nearest = compared.swap_remove(at);
    let is_far = |other: &Compared| other.is_met == nearest.is_met || other.distance > near && other.distance >= nearest.distance * FAR_TIMES;
    let is_decisive = nearest.is_met.is_some() && nearest.distance <= near && compared.iter().all(is_far);
    Some(if is_decisive { held(nearest) } else { Held::Open })
}

impl Limit {
    fn lower(is_inclusive: bool) -> Option<Limit> {
        Some(Limit { is_lower: true, is_inclusive })
    }

    fn upper(is_inclusive: bool) -> Option<Limit> {
        Some(Limit { is_lower: false, is_inclusive })
    }

    /// A limit of the source at `given` beside one of the claim at `claimed`. It can exclude the claim's. Otherwise it is a fact of its own
    /// (`at least 60% must be forest`, `up to 200 litres`, `under 12 months`), which the claim must repeat.
    fn against(self, limit: Limit, given: f64, claimed: f64) -> IsMet {
        let (low, high) = if self.is_lower { (given, f64::INFINITY) } else { (f64::NEG_INFINITY, given) };
        limit.is_met(low, high, claimed, !self.is_inclusive).filter(|is_met| !is_met)
    }

    /// Whether every value from `low` to `high` meets the limit; `None` if only some do. `is_open` excludes the finite ends.
    fn is_met(self, low: f64, high: f64, limit: f64, is_open: bool) -> IsMet {
        let near = limit.abs() * 1e-9;
        // Both sides as "above".
        let (low, high, limit) = if self.is_lower { (low, high, limit) } else { (-high, -low, -limit) };
        let is_equal_allowed = self.is_inclusive || is_open;
        if low > limit + near || is_equal_allowed && low >= limit - near {
            Some(true)
        } else if high < limit - near || (!self.is_inclusive || is_open) && high <= limit + near {
            Some(false)
        } else {
            None
        }
    }
}

/// The words before position `at`, nearest first.
fn back<'w>(words: &'w [Word], at: usize) -> impl Fn(usize) -> &'w str {
    move |count| at.checked_sub(count).map_or("", |index| words[index].plain.as_str())
}

/// The limit that the words around an amount set.
fn of_amount(words: &[Word], range: &Range<usize>) -> Option<Limit> {
    let back = back(words, range.start);
    let is_denied = |count: usize| matches!(back(count), "no" | "not" | "never");
    match (back(2), back(1)) {
        ("more" | "greater" | "higher" | "larger" | "longer" | "bigger" | "heavier" | "taller", "than") if is_denied(3) => return Limit::upper(true),
        ("less" | "fewer" | "lower" | "smaller" | "shorter" | "lighter", "than") if is_denied(3) => return Limit::lower(true),
        ("more" | "greater" | "higher" | "larger" | "longer" | "bigger" | "heavier" | "taller", "than")
        | ("upwards" | "excess", "of")
        | (_, "over" | "above" | "exceeding" | "exceeded" | "exceeds" | "exceed" | "surpassing" | "surpassed" | "surpasses") => {
            return Limit::lower(false);
        }
        ("less" | "fewer" | "lower" | "smaller" | "shorter" | "lighter", "than") | (_, "under" | "below") => return Limit::upper(false),
        ("at", "least") | ("minimum", "of") => return Limit::lower(true),
        ("at", "most") | ("up", "to") | ("maximum", "of") => return Limit::upper(true),
        _ => {}
    }
    let next = |count: usize| words.get(range.end + count).filter(|word| !word.begins).map_or("", |word| word.plain.as_str());
    match (next(0), next(1)) {
        ("or", "more") => Limit::lower(true),
        ("or", "less" | "fewer") => Limit::upper(true),
        _ => None,
    }
}

/// The limit that the words before a year or a date set.
fn of_time(words: &[Word], range: &Range<usize>) -> Option<Limit> {
    // `before the year 1975`
    let skipped = [&["the", "year"][..], &["the"], &[]].into_iter().find(|skipped| {
        range.start >= skipped.len()
            && words[range.start - skipped.len()..range.start].iter().map(|word| word.plain.as_str()).eq(skipped.iter().copied())
    })?;
    let back = back(words, range.start - skipped.len());
    match (back(2), back(1)) {
        ("or", "after") | ("not" | "never", "before") => Limit::lower(true),
        ("or", "before") | ("not" | "never", "after") => Limit::upper(true),
        ("later", "than") if matches!(back(3), "no" | "not") => Limit::upper(true),
        ("earlier", "than") if matches!(back(3), "no" | "not") => Limit::lower(true),
        // `shortly after 1975`, `two years after 1975` say more than a limit.
        (
            "shortly" | "soon" | "just" | "immediately" | "long" | "day" | "days" | "week" | "weeks" | "month" | "months" | "year" | "years"
            | "decade" | "decades",
            "before" | "after",
        ) => None,
        (_, "after") | ("later", "than") => Limit::lower(false),
        (_, "before") | ("prior", "to") | ("earlier", "than") => Limit::upper(false),
        _ => None,
    }
}

/// What an amount without a unit counts, also in `10 or more goals`.
fn counted_thing<'w>(words: &'w [Word], number: &Number) -> Option<&'w str> {
    let skips_two = words.get(number.words.end).is_some_and(|word| word.plain == "or")
        && words.get(number.words.end + 1).is_some_and(|word| matches!(word.plain.as_str(), "more" | "less" | "fewer"));
    let end = number.words.end + if skips_two { 2 } else { 0 };
    counted(words, &(number.words.start..end))
}

/// A year, or a date with as much of it as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
}

impl Time {
    fn of_year(number: &Number) -> Time {
        Time { year: Some(number.value as u32), month: None, day: None }
    }

    /// `None` for `03/04/2021`, whose month is not known.
    fn of_date(date: &Date) -> Option<Time> {
        date.other.is_none().then_some(Time { year: date.year, month: Some(date.month), day: date.day })
    }

    /// Compared by what both have; `None` where that does not decide.
    fn compare(&self, other: &Time) -> Option<Ordering> {
        match (self.year, other.year) {
            (Some(a), Some(b)) if a != b => return Some(a.cmp(&b)),
            (Some(_), None) => return None,
            _ => {}
        }
        match (self.month, other.month) {
            // The year 1975 is one time.
            (None, _) if self.year.is_some() => return Some(Ordering::Equal),
            (Some(a), Some(b)) if a != b => return Some(a.cmp(&b)),
            (Some(_), Some(_)) => {}
            _ => return None,
        }
        match (self.day, other.day) {
            (None, _) => Some(Ordering::Equal),
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (Some(_), None) => None,
        }
    }

    /// About how many days lie between two times; `None` if only one has a year.
    fn days_to(&self, other: &Time) -> Option<f64> {
        let days =
            |time: &Time| 365.0 * f64::from(time.year.unwrap_or(0)) + 30.4 * f64::from(time.month.unwrap_or(6)) + f64::from(time.day.unwrap_or(15));
        (self.year.is_some() == other.year.is_some()).then(|| (days(self) - days(other)).abs())
    }
}

fn of_times(limit: Limit, claimed: &Time, reads: &[&Read]) -> Option<Held> {
    let mut compared = Vec::new();
    for read in reads {
        let is_dated = |number: &&Number| read.dates.iter().any(|date| date.words.contains(&number.words.start));
        let years =
            read.numbers.iter().filter(|number| number.is_year() && !is_dated(number)).map(|number| (Some(Time::of_year(number)), &number.words));
        let dates = read.dates.iter().map(|date| (Time::of_date(date), &date.words));
        for (time, words) in years.chain(dates) {
            let side = of_time(&read.words, words);
            let is_met = time.and_then(|time| claimed.compare(&time)).and_then(|order| {
                // Where the given time lies beside the claimed one.
                let given = f64::from(order.reverse() as i8);
                match side {
                    Some(side) => side.against(limit, given, 0.0),
                    None => limit.is_met(given, given, 0.0, false),
                }
            });
            let distance = time.and_then(|time| claimed.days_to(&time)).unwrap_or(f64::INFINITY);
            compared.push(Compared { is_met, is_limit: side.is_some(), distance, given: shown(read, words) });
        }
    }
    decided(compared, NEAR_DAYS)
}

#[cfg(test)]
mod tests {
    use crate::check::{Options, ProblemKind, Status, check};
    use crate::testing::spans;

    /// The kinds of the problems of a claim.
    fn problems(claim: &str, source: &str) -> (Status, Vec<ProblemKind>) {
        let checked = check(&format!("{claim} [1]"), &spans(&[source]), &Options::default());
        let sentence = &checked.sentences[0];
        (sentence.status, sentence.problems.iter().map(|problem| problem.kind).collect())
    }

    #[test]
    fn a_limit_that_the_source_meets_is_no_problem() {
        for (claim, source) in [
            ("The orchard sold more than 300 crates of pears.", "The orchard sold 412 crates of pears."),
            ("The orchard sold at least 412 crates of pears.", "The orchard sold 412 crates of pears."),
            ("The orchard sold fewer than 500 crates of pears.", "The orchard sold 412 crates of pears."),
            ("The orchard sold 400 or more crates of pears.", "The orchard sold 412 crates of pears."),
            ("The dam holds over 2 km³ of water and is above 80 m high.", "The dam holds 3.1 km³ of water and is 95 m high."),
            ("The dam is more than 9,000 cm high.", "The dam is 95 m high."),
            ("The alloy has more than 60% copper.", "The alloy has about 62% copper."),
            ("The ferry cost less than $90 million.", "The ferry cost $71.5 million."),
            ("The choir was founded before 1960.", "The choir was founded in 1948."),
            ("The choir was founded after 1940.", "The choir was founded on 3 May 1948."),
            ("The choir was founded after April 1948.", "The choir was founded on 3 May 1948."),
            ("The choir was founded prior to June 1948.", "The choir was founded on 3 May 1948."),
            ("The choir was founded in or before 1948.", "The choir was founded in 1948."),
            // The amount close to the limit decides.
            ("The ferry cost more than $70 million.", "The ferry cost $71.5 million, against a grant of $12 million."),
            ("The choir toured the coast after August 1930.", "The choir was founded in December 1928 and toured the coast in September 1930."),
        ] {
            assert_eq!(problems(claim, source), (Status::Supported, Vec::new()), "{claim} {source}");
        }
    }

    #[test]
    fn a_limit_that_the_source_breaks_is_a_problem() {
        for (claim, source, kind) in [
            ("The orchard sold more than 412 crates of pears.", "The orchard sold 412 crates of pears.", ProblemKind::Number),
            ("The orchard sold more than 500 crates of pears.", "The orchard sold 412 crates of pears.", ProblemKind::Number),
            ("The orchard sold under 400 crates of pears.", "The orchard sold over 400 crates of pears.", ProblemKind::Number),
            ("The orchard sold at most 400 crates of pears.", "The orchard sold 412 crates of pears.", ProblemKind::Number),
            ("The alloy has less than 60% copper.", "The alloy has 62% copper.", ProblemKind::Number),
            ("The choir was founded before 1948.", "The choir was founded in 1948.", ProblemKind::Date),
            ("The choir was founded after 1950.", "The choir was founded in 1948.", ProblemKind::Date),
            ("The choir was founded after May 1948.", "The choir was founded on 3 May 1948.", ProblemKind::Date),
            ("The ferry cost more than $70 million.", "The ferry cost $69.5 million, of $120 million for the fleet.", ProblemKind::Number),
        ] {
            let (status, found) = problems(claim, source);
            assert_eq!((status, found.first()), (Status::Unsupported, Some(&kind)), "{claim} {source} {found:?}");
        }
    }

    #[test]
    fn a_limit_in_more_words_is_read_too() {
        let has_fact =
            |claim: &str, source: &str| problems(claim, source).1.iter().any(|kind| matches!(kind, ProblemKind::Number | ProblemKind::Date));
        assert!(!has_fact("The orchard sold no more than 412 crates of pears.", "The orchard sold 412 crates of pears."));
        assert!(!has_fact("The choir was founded no later than 1950.", "The choir was founded in 1948."));
        assert!(!has_fact("The choir was founded before the year 1960.", "The choir was founded in 1948."));
        assert!(has_fact("The orchard sold no more than 400 crates of pears.", "The orchard sold 412 crates of pears."));
    }

    #[test]
    fn a_limit_between_the_amounts_of_the_source_is_open_and_not_supported_by_the_rules() {
        for (claim, source) in [
            ("The orchard sold more than 300 crates of pears.", "The orchard sold 412 crates of pears, and 120 crates of plums."),
            ("The choir was founded before 1960.", "The choir was founded in 1948 and dissolved in 1971."),
            // Another word for what is counted, and a close amount.
            ("The orchard sold fewer than 430 boxes of pears.", "The orchard sold 412 crates of pears."),
        ] {
            let (status, found) = problems(claim, source);
            assert_eq!((status, found.first()), (Status::Unsupported, Some(&ProblemKind::Undecided)), "{claim} {source} {found:?}");
        }
    }

    #[test]
    fn a_limit_without_a_comparable_amount_stays_strict() {
        for (claim, source) in [
            // Another thing, another unit, nothing counted, amounts on both sides, limits of the source, a date too rough.
            ("The orchard sold more than 300 crates of pears.", "The orchard planted 412 trees and sold crates of pears."),
            ("The dam is more than 50 m high.", "The dam weighs 95 tonnes and is high."),
            ("The orchard sold more than 300.", "The orchard sold 412 crates."),
            ("The orchard sold more than 300 crates of pears.", "The orchard sold 412 crates of pears, and 120 crates of plums."),
            ("The orchard sold more than 300 crates of pears.", "The orchard sold more than 200 crates of pears."),
            ("The barrel takes up to 300 litres.", "The barrel takes up to 200 litres."),
            ("Children under 16 years need a permit.", "Children under 12 years need a permit."),
            ("The rate stays below 7.5 percent.", "The rate of 7.2 percent rose and stays below 5 percent."),
            ("The choir was founded before 1960.", "The choir was founded in 1948 and dissolved in 1971."),
            ("The choir was founded after June 1948.", "The choir was founded in 1948."),
            ("The choir has sung since 1940.", "The choir has sung since 1948."),
            ("The choir sang two years after 1940.", "The choir sang in 1948."),
        ] {
            assert_eq!(problems(claim, source).0, Status::Unsupported, "{claim} {source}");
        }
    }
}

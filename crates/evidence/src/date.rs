//! Dates in common formats. A claim may be less precise than its source, never more.

use crate::quantities;
use crate::words::{Shape, Word};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: Option<u32>,
    pub(crate) month: u32,
    pub(crate) day: Option<u32>,
    /// The second reading of `03/04/2021`.
    pub(crate) other: Option<(u32, u32)>,
    pub(crate) words: std::ops::Range<usize>,
}

impl Date {
    /// `years` are the years in the source outside its dates.
    pub(crate) fn is_borne_out_by(&self, given: &Date, years: &[u32]) -> bool {
        let days =
            |date: &Date| [Some((date.month, date.day)), date.other.map(|(month, day)| (month, Some(day)))].into_iter().flatten().collect::<Vec<_>>();
        let same_day = days(self).iter().any(|(month, day)| days(given).iter().any(|(m, d)| month == m && (day.is_none() || day == d)));
        let same_year = match (self.year, given.year) {
            (None, _) => true,
            (Some(year), Some(given)) => year == given,
            (Some(year), None) => years.contains(&year),
        };
        same_day && same_year
    }
}

pub(crate) fn dates(text: &str, words: &[Word]) -> Vec<Date> {
    let mut dates: Vec<Date> = Vec::new();
    let mut index = 0;
    while index < words.len() {
        match date(text, words, index) {
            Some(date) => {
                index = date.words.end.max(index + 1);
                dates.push(date);
            }
            None => index += 1,
        }
    }
    dates
}

fn date(text: &str, words: &[Word], from: usize) -> Option<Date> {
    let word = &words[from];
    if word.shape == Shape::Number {
        let bytes = word.plain.as_bytes();
        if bytes.len() == 10 && bytes[4] == b'-' {
            let part = |range: std::ops::Range<usize>| word.plain.get(range)?.parse::<u32>().ok();
            let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
            // An impossible date is still parsed as a date: no source will confirm it.
            return Some(Date { year: Some(year), month, day: Some(day), other: None, words: from..from + 1 });
        }
        // `26/3/1827`
        let slashed = (from + 2 < words.len()).then(|| (integer(&words[from + 1]), integer(&words[from + 2])));
        if let Some((Some(second), Some(year))) = slashed
            && let Some(first) = integer(word)
            && words[from + 1].joined
            && words[from + 2].joined
            && year >= 1000
            && text[word.range.end..words[from + 1].range.start] == *"/"
        {
            let day_first = ((1..=31).contains(&first) && (1..=12).contains(&second)).then_some((second, first));
            let month_first = ((1..=12).contains(&first) && (1..=31).contains(&second)).then_some((first, second));
            let (month, day) = day_first.or(month_first)?;
            let other = month_first.filter(|other| Some(*other) != day_first && day_first.is_some());
            return Some(Date { year: Some(year), month, day: Some(day), other, words: from..from + 3 });
        }
        // `7 November 1867`, `7th of November, 1867`
        let day = integer(word).filter(|day| (1..=31).contains(day))?;
        let mut at = from + 1;
        if words.get(at).is_some_and(|next| matches!(next.plain.as_str(), "st" | "nd" | "rd" | "th") && next.joined) {
            at += 1;
        }
        if words.get(at).is_some_and(|next| next.plain == "of") {
            at += 1;
        }
        let month = month(words.get(at)?, true)?;
        let year = words.get(at + 1).and_then(year);
        let to = at + 1 + usize::from(year.is_some());
        return Some(Date { year, month, day: Some(day), other: None, words: from..to });
    }
    // `November 7, 1867`, `November 1867`, `November`
    let next = words.get(from + 1);
    let month = month(word, next.is_some_and(|next| next.shape == Shape::Number))?;
    if let Some(year) = next.and_then(year) {
        return Some(Date { year: Some(year), month, day: None, other: None, words: from..from + 2 });
    }
    if let Some(day) = next
        .filter(|next| !next.breaks || text[word.range.end..next.range.start].trim() == ".")
        .and_then(integer)
        .filter(|day| (1..=31).contains(day))
    {
        let mut at = from + 2;
        if words.get(at).is_some_and(|next| matches!(next.plain.as_str(), "st" | "nd" | "rd" | "th") && next.joined) {
            at += 1;
        }
        let year = words.get(at).and_then(year);
        let to = at + usize::from(year.is_some());
        return Some(Date { year, month, day: Some(day), other: None, words: from..to });
    }
    Some(Date { year: None, month, day: None, other: None, words: from..from + 1 })
}

/// A month's name; names that are also words (`may`, `march`) only beside a number or inside a sentence.
fn month(word: &Word, beside_number: bool) -> Option<u32> {
    let month = quantities::month(&word.plain)?;
    let is_word_too =
        matches!(word.plain.as_str(), "may" | "march" | "mar" | "jan" | "dec" | "sep" | "oct" | "nov" | "jun" | "jul" | "apr" | "aug" | "feb");
    let is_capital = word.is_capital();
    (is_capital && (beside_number || !word.begins || !is_word_too) && (word.plain.len() > 3 || word.plain == "may" || beside_number)).then_some(month)
}

fn integer(word: &Word) -> Option<u32> {
    if word.shape == Shape::Number { word.plain.parse().ok() } else { None }
}

fn year(word: &Word) -> Option<u32> {
    integer(word).filter(|year| (1000..=2200).contains(year) && word.plain.len() == 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Scanner;

    #[test]
    fn dates_are_one_whatever_their_spelling() {
        let read =
            |text: &str| dates(text, &Scanner::default().words(text)).into_iter().map(|date| (date.year, date.month, date.day)).collect::<Vec<_>>();
        let whole = [(Some(1867), 11, Some(7))];
        for text in [
            "7 November 1867",
            "November 7, 1867",
            "on the 7th of November, 1867",
            "Nov. 7, 1867",
            "1867-11-07",
            "7 Nov 1867",
            "November 7th 1867",
            "7/11/1867",
        ] {
            assert_eq!(read(text), whole, "{text}");
        }
        assert_eq!(read("in March 2006"), [(Some(2006), 3, None)]);
        assert_eq!(read("They may march in 12 days. May I? In June."), [(None, 6, None)]);
        assert_eq!(read("25 August and 3 May"), [(None, 8, Some(25)), (None, 5, Some(3))]);
    }
}

//! Citations as models write them: `[1]`, `[1, 2]`, `[1-3]`, `[^1]`, `[source 2]`, `【3†source】`, and `[1](address)`, whose address is
//! ignored.

use std::ops::Range;

/// A citation in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// With its brackets.
    pub range: Range<usize>,
    /// The numbers that it cites, in their order.
    pub numbers: Vec<usize>,
}

/// A longer number is a year in brackets, not a citation.
const DIGITS_MAX: usize = 3;
const NUMBERS_MAX: usize = 50;
const BYTES_MAX: usize = 120;
const ADDRESS_CHARS_MAX: usize = 1_000;

/// All citations outside code.
pub fn citations(text: &str) -> Vec<Citation> {
    let code = code_ranges(text);
    let mut code = code.iter().peekable();
    let mut citations = Vec::new();
    let mut from = 0;
    while let Some(found) = text[from..].find(['[', '【']) {
        let at = from + found;
        while code.peek().is_some_and(|range| range.end <= at) {
            code.next();
        }
        if let Some(range) = code.peek().filter(|range| range.contains(&at)) {
            from = range.end;
            continue;
        }
        match citation(text, at) {
            Some(citation) => {
                from = citation.range.end;
                citations.push(citation);
            }
            None => from = at + text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    citations
}

fn citation(text: &str, at: usize) -> Option<Citation> {
    let rest = &text[at..];
    let (open, close) = if rest.starts_with('【') { ("【", '】') } else { ("[", ']') };
    let mut limit = rest.len().min(BYTES_MAX);
    while !rest.is_char_boundary(limit) {
        limit -= 1;
    }
    let end = rest[..limit].find(close)?;
    let inner = &rest[open.len()..end];
    let inner = inner.split('†').next().unwrap_or(inner);
    let numbers = numbers(inner)?;
    let mut stop = at + end + close.len_utf8();
    // Includes the address of `[1](address)`.
    if open == "["
        && text[stop..].starts_with('(')
        && let Some(bracket) = text[stop..].char_indices().take(ADDRESS_CHARS_MAX).find(|(_, c)| matches!(c, ')' | '\n')).map(|(bracket, _)| bracket)
        && text[stop + bracket..].starts_with(')')
        && is_address(&text[stop + 1..stop + bracket])
    {
        stop += bracket + 1;
    }
    Some(Citation { range: at..stop, numbers })
}

fn is_address(text: &str) -> bool {
    !text.contains(char::is_whitespace) && (text.contains("://") || text.starts_with(['#', '/', '.']) || text.is_empty())
}

fn numbers(inner: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in inner.split([',', ';', '&']) {
        let mut part = part.trim().trim_start_matches(['^', '#']);
        let first = part.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if matches!(
            first.to_lowercase().as_str(),
            "source" | "sources" | "span" | "spans" | "ref" | "evidence" | "passage" | "and" | "doc" | "document" | "cite"
        ) {
            part = part[first.len()..].trim_start_matches([':', ' ', '#', '.', '-', '_']);
        }
        let (low, high) = match part.split_once(['-', '–', '‑']) {
            Some((low, high)) => (number(low.trim())?, number(high.trim())?),
            None => (number(part.trim())?, number(part.trim())?),
        };
        if high < low || high - low > NUMBERS_MAX || numbers.len() > NUMBERS_MAX {
            return None;
        }
        for number in low..=high {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
    }
    Some(numbers)
}

fn number(text: &str) -> Option<usize> {
    (!text.is_empty() && text.len() <= DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Fenced blocks and `inline code`.
pub(crate) fn code_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut fence: Option<(usize, char, usize)> = None;
    let mut at = 0;
    // Inline code is searched in runs of lines outside fences, because it may be wrapped.
    let mut run: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let mark = fence_mark(line);
        match (fence, mark) {
            (None, Some((c, count))) => {
                if let Some(from) = run.take() {
                    inline_code(text, from..at, &mut ranges);
                }
                fence = Some((at, c, count));
            }
            (Some((from, c, count)), Some((other, more))) if c == other && more >= count && line.trim().trim_matches(c).is_empty() => {
                ranges.push(from..at + line.len());
                fence = None;
            }
            (None, None) => {
                if line.trim().is_empty() {
                    if let Some(from) = run.take() {
                        inline_code(text, from..at, &mut ranges);
                    }
                } else {
                    run.get_or_insert(at);
                }
            }
            _ => {}
        }
        at += line.len();
    }
    if let Some((from, ..)) = fence {
        ranges.push(from..text.len());
    } else if let Some(from) = run {
        inline_code(text, from..at, &mut ranges);
    }
    ranges
}

/// The character and length of a fence.
pub(crate) fn fence_mark(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let c = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let count = line.chars().take_while(|other| *other == c).count();
    let is_inline = c == '`' && line[count..].contains('`');
    (count >= 3 && !is_inline).then_some((c, count))
}

fn inline_code(text: &str, within: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    // A run of n backticks closes at the next run of n; lengths without a further run are remembered, so that each run looks ahead once.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut at = within.start;
    while at < within.end {
        if bytes[at] == b'`' {
            let count = bytes[at..within.end].iter().take_while(|b| **b == b'`').count();
            runs.push((at, count));
            at += count;
        } else {
            at += 1;
        }
    }
    let mut last_of: std::collections::HashMap<usize, usize> = Default::default();
    for (index, (_, count)) in runs.iter().enumerate() {
        last_of.insert(*count, index);
    }
    let mut index = 0;
    while index < runs.len() {
        let (from, count) = runs[index];
        let has_more = last_of.get(&count).is_some_and(|last| *last > index);
        let close = has_more.then(|| (index + 1..runs.len()).find(|other| runs[*other].1 == count)).flatten();
        match close {
            Some(other) => {
                ranges.push(from..runs[other].0 + count);
                index = other + 1;
            }
            None => index += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_in_every_spelling_and_not_in_code() {
        let numbers =
            |text: &str| citations(text).into_iter().map(|citation| (text[citation.range].to_owned(), citation.numbers)).collect::<Vec<_>>();
        let one = |text: &str, expected: &[usize]| assert_eq!(numbers(text), [(text.to_owned(), expected.to_vec())], "{text}");
        one("[1]", &[1]);
        one("[1, 2]", &[1, 2]);
        one("[1-3]", &[1, 2, 3]);
        one("[2–3, 7]", &[2, 3, 7]);
        one("[^4]", &[4]);
        one("[source 2]", &[2]);
        one("[Source: 2]", &[2]);
        one("【3†source】", &[3]);
        one("[1](https://made.up/by/a/model)", &[1]);
        one("[0]", &[0]);
        assert_eq!(numbers("a [1][3] b [2]."), [("[1]".into(), vec![1]), ("[3]".into(), vec![3]), ("[2]".into(), vec![2])]);
        for none in ["[2020]", "[a]", "[]", "[1", "`a[1]`", "```\nx[1]\n```\n", "``a`b[1]``", "[-1]", "[3-1]", "[1.5]", "[x](https://a.example)"] {
            assert_eq!(numbers(none), [], "{none}");
        }
        assert_eq!(numbers("`open [1]").len(), 1);
    }
}

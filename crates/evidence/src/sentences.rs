//! Splits an answer into units that can be true or false: sentences, list items, table rows.
//!
//! Every unit has its byte range in the answer, so that a page can show its status in place. Markup and citations are replaced by spaces of
//! the same length, so that ranges inside a unit's words are ranges in the answer too.

use std::ops::Range;

use crate::citation::{Citation, citations, code_ranges, fence_mark};
use crate::words::is_cjk;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unit {
    /// Without preceding markup and white space; with its citations.
    pub(crate) range: Range<usize>,
    /// As long as the range; citations and markup are spaces.
    pub(crate) words: String,
    pub(crate) kind: Kind,
    pub(crate) citations: Vec<Citation>,
    /// Its block, and that block's range with markup and line end.
    pub(crate) block: usize,
    pub(crate) block_range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Prose,
    Heading,
    Code,
    TableHead,
    TableRow,
    /// A rule or a table separator: no words.
    Mark,
}

pub(crate) fn units(text: &str) -> Vec<Unit> {
    let found = citations(text);
    let mut units = Vec::new();
    let mut citations = found.as_slice();
    for (number, block) in blocks(text).into_iter().enumerate() {
        let parts = match block.kind {
            Kind::Prose => ends(text, &block.words),
            _ => vec![block.words.clone()],
        };
        for part in parts {
            let range = trimmed(text, &part);
            if range.is_empty() {
                continue;
            }
            let before = citations.iter().take_while(|citation| citation.range.end <= range.start).count();
            citations = &citations[before..];
            let own = citations.iter().take_while(|citation| citation.range.start < range.end);
            let own = own.filter(|citation| citation.range.start >= range.start && citation.range.end <= range.end).cloned().collect::<Vec<_>>();
            let words = blanked(text, &range, &own, block.kind);
            units.push(Unit { range, words, kind: block.kind, citations: own, block: number, block_range: block.all.clone() });
        }
    }
    units
}

/// The sentences of plain text, as ranges.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    units(text).into_iter().filter(|unit| unit.kind != Kind::Mark).map(|unit| unit.range).collect()
}

struct Block {
    /// With its markup and line end.
    all: Range<usize>,
    /// Without leading markup.
    words: Range<usize>,
    kind: Kind,
}

/// Paragraphs, list items, headings, rows, code.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_open, mut was_quote) = (false, false);
    let mut fence: Option<(char, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let all = at..at + line.len();
        at = all.end;
        let bare = line.trim_end();
        if let Some((c, count)) = fence {
            if let Some(block) = blocks.last_mut() {
                block.all.end = all.end;
                block.words.end = all.end;
            }
            if fence_mark(line).is_some_and(|(other, more)| other == c && more >= count) && bare.trim().trim_matches(c).is_empty() {
                fence = None;
                is_open = false;
            }
            continue;
        }
        if bare.trim().is_empty() {
            is_open = false;
            continue;
        }
        let marks = marks(bare);
        let words = all.start + marks..all.end;
        let inner = &bare[marks..];
        let is_quote = bare.trim_start().starts_with('>');
        let goes_on = is_open && is_quote == was_quote && bare[..marks].chars().all(|c| c.is_whitespace() || c == '>');
        was_quote = is_quote;
        if let Some(mark) = fence_mark(inner) {
            fence = Some(mark);
            blocks.push(Block { all, words, kind: Kind::Code });
            continue;
        }
        let is_rule = inner.chars().all(|c| matches!(c, '-' | '*' | '_' | '=' | ' ' | '|' | ':' | '+')) && !inner.is_empty();
        let hashes = inner.bytes().take_while(|b| *b == b'#').count();
        if is_rule {
            // Dashes below a row make it the table's header; below a line, a heading.
            if inner.len() >= 3
                && let Some(last) = blocks.last_mut()
                && last.all.end == all.start
            {
                match last.kind {
                    Kind::TableRow => last.kind = Kind::TableHead,
                    Kind::Prose if is_open && inner.chars().all(|c| c == '=' || c == '-') => last.kind = Kind::Heading,
                    _ => {}
                }
            }
            blocks.push(Block { all, words, kind: Kind::Mark });
            is_open = false;
        } else if (1..=6).contains(&hashes) && inner[hashes..].starts_with(' ') {
            let words = words.start + hashes..words.end;
            blocks.push(Block { all, words, kind: Kind::Heading });
            is_open = false;
        } else if inner.starts_with('|') && inner.len() > 1 {
            blocks.push(Block { all, words, kind: Kind::TableRow });
            is_open = false;
        } else if goes_on {
            if let Some(block) = blocks.last_mut() {
                block.all.end = all.end;
                block.words.end = all.end;
            }
        } else {
            blocks.push(Block { all, words, kind: Kind::Prose });
            is_open = true;
        }
    }
    blocks
}

/// Length of leading white space, `>`, list markers and check boxes.
fn marks(line: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &line[at..];
        let space = rest.len() - rest.trim_start().len();
        let rest = &rest[space..];
        let mut chars = rest.chars();
        let mark = match chars.next() {
            Some('>') => 1,
            Some(c @ ('-' | '*' | '+' | '•' | '◦' | '‣' | '·' | '–')) if chars.next().is_some_and(|c| c == ' ' || c == '\t') => c.len_utf8(),
            Some('[') if ["[ ] ", "[x] ", "[X] "].iter().any(|mark| rest.starts_with(mark)) => 3,
            Some(c) if c.is_ascii_alphanumeric() => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let count = if digits == 0 { 1 } else { digits };
                let after = &rest.as_bytes()[count..];
                let is_item = matches!(after.first(), Some(b')')) || (digits > 0 && digits < 4 && matches!(after.first(), Some(b'.')));
                if is_item && matches!(after.get(1), Some(b' ' | b'\t')) { count + 1 } else { 0 }
            }
            _ => 0,
        };
        at += space;
        if mark == 0 {
            return at;
        }
        at += mark;
    }
}

const QUOTE_BYTES_MAX: usize = 600;

/// The sentences of one paragraph.
fn ends(text: &str, within: &Range<usize>) -> Vec<Range<usize>> {
    let part = &text[within.clone()];
    let code = code_ranges(part);
    let quotes = quotes(part);
    let cited = citations(part);
    let mut code = code.iter().peekable();
    let mut cites = cited.iter().peekable();
    let mut sentences = Vec::new();
    let mut begin = 0;
    let mut skip_to = 0;
    for (at, c) in part.char_indices() {
        if at < skip_to {
            continue;
        }
        while code.peek().is_some_and(|range| range.end <= at) {
            code.next();
        }
        if let Some(range) = code.peek().filter(|range| range.contains(&at)) {
            skip_to = range.end;
            continue;
        }
        while cites.peek().is_some_and(|cite| cite.range.end <= at) {
            cites.next();
        }
        if let Some(cite) = cites.peek().filter(|cite| cite.range.contains(&at)) {
            skip_to = cite.range.end;
            continue;
        }
        if !is_end_mark(c) {
            continue;
        }
        // Repeated punctuation, then closing characters.
        let mut end = at + c.len_utf8();
        while let Some(next) = part[end..].chars().next().filter(|next| is_end_mark(*next) || is_closing(*next)) {
            end += next.len_utf8();
        }
        let quote = quotes.partition_point(|quote| quote.end <= at);
        if quotes.get(quote).is_some_and(|quote| quote.start < at && quote.end > end) {
            continue;
        }
        // Citations after the punctuation belong to the sentence before it.
        let mut after = end;
        loop {
            while cites.peek().is_some_and(|cite| cite.range.start < after) {
                cites.next();
            }
            match cites.peek() {
                Some(cite) if part[after..cite.range.start].chars().all(|c| c.is_whitespace() || matches!(c, '(' | ',')) => after = cite.range.end,
                _ => break,
            }
        }
        if after > end {
            while let Some(next) = part[after..].chars().next().filter(|next| is_end_mark(*next) || is_closing(*next)) {
                after += next.len_utf8();
            }
        }
        if is_end(part, begin, at, c, after) {
            sentences.push(begin..after);
            begin = after;
        }
        skip_to = after;
    }
    sentences.push(begin..part.len());
    sentences.into_iter().map(|range| within.start + range.start..within.start + range.end).collect()
}

fn is_end(part: &str, begin: usize, at: usize, c: char, end: usize) -> bool {
    if matches!(c, '。' | '！' | '？' | '।' | '؟') {
        // After a closing quote the enclosing sentence may continue.
        let is_quoted = part[at..end].contains(['」', '』']);
        return !is_quoted || !part[end..].starts_with(is_cjk);
    }
    let rest = &part[end..];
    let Some(first) = rest.chars().next() else { return true };
    if is_cjk(first) {
        return true;
    }
    if !first.is_whitespace() {
        return false;
    }
    let rest = rest.trim_start().trim_start_matches(['*', '_', '"', '“', '‘', '(', '«', '[']);
    let next: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '\'' || *c == '’').collect();
    if next.chars().next().is_some_and(char::is_lowercase) {
        return false;
    }
    if c != '.' {
        return true;
    }
    let word = part[begin..at].rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '“' | '*' | '—' | '-')).next().unwrap_or_default();
    let lower = word.to_lowercase();
    if lower == "no" {
        return !next.starts_with(|c: char| c.is_ascii_digit());
    }
    // `Ms. Li` and `0.3 ms.`
    if ALWAYS_SHORT.contains(&lower.as_str()) && word != "ms" {
        return false;
    }
    let begins_sentence = STARTERS.contains(&next.as_str());
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase) && word != "I";
    if SOMETIMES_SHORT.contains(&lower.as_str()) || is_initial || (word.contains('.') && word.split('.').all(|part| part.chars().count() <= 1)) {
        return begins_sentence || rest.is_empty();
    }
    // An abbreviated month before its day.
    !(crate::quantities::month(&lower).is_some()
        && lower.len() < 5
        && lower != "may"
        && lower != "june"
        && lower != "july"
        && next.starts_with(|c: char| c.is_ascii_digit()))
}

const ALWAYS_SHORT: &[&str] = &[
    "dr", "mr", "mrs", "ms", "prof", "st", "gen", "col", "capt", "lt", "sgt", "rev", "hon", "gov", "sen", "rep", "e.g", "i.e", "vs", "cf", "fig",
    "figs", "eq", "ch", "vol", "pp", "ed", "eds", "approx", "ca", "viz", "al", "mt", "dept", "est", "bros", "nos", "art", "op", "resp",
];
const SOMETIMES_SHORT: &[&str] = &[
    "u.s", "u.k", "a.m", "p.m", "etc", "inc", "ltd", "co", "corp", "jr", "sr", "d.c", "ph.d", "b.c", "a.d", "u.s.a", "no", "p", "v", "c", "ft", "sec",
];
const STARTERS: &[&str] = &[
    "The",
    "It",
    "In",
    "He",
    "She",
    "They",
    "We",
    "A",
    "An",
    "This",
    "That",
    "These",
    "Those",
    "On",
    "At",
    "But",
    "And",
    "However",
    "His",
    "Her",
    "Its",
    "Their",
    "There",
    "When",
    "If",
    "As",
    "For",
    "From",
    "By",
    "After",
    "Before",
    "Since",
    "While",
    "Although",
    "Then",
    "To",
    "You",
    "I",
    "Both",
    "Some",
    "Most",
    "All",
    "Each",
    "Another",
    "According",
    "Meanwhile",
];

fn is_end_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '।' | '؟')
}

fn is_closing(c: char) -> bool {
    matches!(c, '"' | '”' | '’' | '\'' | ')' | ']' | '*' | '_' | '»' | '」' | '』' | '）')
}

/// Quoted parts with their quotation marks, in order without overlap. A straight quote opens after a space and closes before one.
pub(crate) fn quotes(text: &str) -> Vec<Range<usize>> {
    let mut quotes: Vec<Range<usize>> = Vec::new();
    let mut before: Option<char> = None;
    let mut done = 0;
    for (at, c) in text.char_indices() {
        let opens_after = before.is_none_or(|b| b.is_whitespace() || matches!(b, '(' | '[' | '—' | '–' | '-' | '*' | '_' | ':' | '|'));
        before = Some(c);
        if at < done {
            continue;
        }
        let close = match c {
            '"' if opens_after => '"',
            '“' | '„' => '”',
            '«' => '»',
            '「' => '」',
            '『' => '』',
            _ => continue,
        };
        let from = at + c.len_utf8();
        let mut limit = text.len().min(from + QUOTE_BYTES_MAX);
        while !text.is_char_boundary(limit) {
            limit -= 1;
        }
        let window = &text[from..limit];
        let end = window.char_indices().find(|(index, other)| {
            let is_close = *other == close || (c == '„' && *other == '“');
            is_close && (close != '"' || !window[index + 1..].starts_with(char::is_alphanumeric))
        });
        if let Some((index, other)) = end.filter(|(index, _)| !window[..*index].contains("\n\n")) {
            done = from + index + other.len_utf8();
            quotes.push(at..done);
        }
    }
    quotes
}

fn trimmed(text: &str, range: &Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    let end = range.end - (part.len() - part.trim_end().len());
    start..end.max(start)
}

fn blanked(text: &str, range: &Range<usize>, citations: &[Citation], kind: Kind) -> String {
    let mut bytes = text.as_bytes()[range.clone()].to_vec();
    for citation in citations {
        let from = citation.range.start.max(range.start) - range.start;
        let to = citation.range.end.min(range.end) - range.start;
        bytes[from..to].fill(b' ');
    }
    if kind != Kind::Code {
        // Emphasis, and quote markers inside a paragraph.
        let mut is_line_start = false;
        for byte in &mut bytes {
            let is_mark = *byte == b'*' || (is_line_start && *byte == b'>');
            is_line_start = *byte == b'\n' || (is_line_start && (*byte == b' ' || *byte == b'>'));
            if is_mark {
                *byte = b' ';
            }
        }
    }
    // Whole characters were replaced by as many spaces, so this is still UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let seen: Vec<&str> = units(text).iter().map(|unit| &text[unit.range.clone()]).collect();
        assert_eq!(seen, expected, "{text}");
    }

    #[test]
    fn sentences_end_where_a_reader_expects_it() {
        check("Dr. Li wrote it, e.g. in 1.5 hours. It works! Does it?", &["Dr. Li wrote it, e.g. in 1.5 hours.", "It works!", "Does it?"]);
        check(
            "J. R. R. Tolkien was born in 1892. He lived in the U.S. The end.",
            &["J. R. R. Tolkien was born in 1892.", "He lived in the U.S.", "The end."],
        );
        check(
            "See https://a.example/b.c?d=1. Then go at 5 p.m. to Acme Inc. in Ohio.",
            &["See https://a.example/b.c?d=1.", "Then go at 5 p.m. to Acme Inc. in Ohio."],
        );
        check("He said \"It is done. We go.\" Then he left.", &["He said \"It is done. We go.\"", "Then he left."]);
        check("It grew [1]. It shrank. [2] It stayed.[1][3] End (so far).", &["It grew [1].", "It shrank. [2]", "It stayed.[1][3]", "End (so far)."]);
        check("日本語です。次の文。「はい。」と言った。", &["日本語です。", "次の文。", "「はい。」と言った。"]);
        check("No. 5 is alive. No. It is not.", &["No. 5 is alive.", "No.", "It is not."]);
        check("", &[]);
        check("...!?", &["...!?"]);
        check("Use `a. B` now. It is v1.2. Good", &["Use `a. B` now.", "It is v1.2.", "Good"]);
    }

    #[test]
    fn markdown_is_cut_into_items_rows_and_code() {
        let text = "# Title\n\nIntro line\ngoes on. Next.\n\n- first item\n  wrapped [1]\n* **second**: item\n1. third\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nlet a = b[1]. Not\n```\n> quoted\n> more\n";
        check(
            text,
            &[
                "Title",
                "Intro line\ngoes on.",
                "Next.",
                "first item\n  wrapped [1]",
                "**second**: item",
                "third",
                "| a | b |",
                "|---|---|",
                "| 1 | 2 |",
                "```rust\nlet a = b[1]. Not\n```",
                "quoted\n> more",
            ],
        );
        let kinds: Vec<Kind> = units(text).iter().map(|unit| unit.kind).collect();
        assert_eq!(kinds[0], Kind::Heading);
        assert_eq!(&kinds[6..10], [Kind::TableHead, Kind::Mark, Kind::TableRow, Kind::Code]);
        assert_eq!(units("It is **bold** [1].")[0].words, "It is   bold      .");
    }
}

//! Links in a model's answer. An address that no span has is invented or malicious; only its text is kept.

use std::collections::{BTreeMap, BTreeSet};

use crate::citation::{citations, code_ranges};
use crate::span::Span;

/// The text with every link and image to an unknown address replaced by its text, and those addresses.
pub(crate) fn unlinked(text: &str, spans: &[Span]) -> (String, Vec<String>) {
    // Ends by starts: code ranges do not overlap each other, and neither do citations.
    let code: BTreeMap<usize, usize> = code_ranges(text).into_iter().map(|range| (range.start, range.end)).collect();
    let cites: BTreeMap<usize, usize> = citations(text).into_iter().map(|cite| (cite.range.start, cite.range.end)).collect();
    let is_kept = |at: usize| [&code, &cites].iter().any(|ranges| ranges.range(..=at).next_back().is_some_and(|(_, end)| at < *end));
    let is_known = |address: &str| {
        let bare = address.trim_end_matches('/');
        !bare.is_empty()
            && spans.iter().any(|span| {
                span.address.as_deref().is_some_and(|known| known.trim_end_matches('/') == bare) || (bare.len() > 8 && span.text.contains(bare))
            })
    };
    let mut out = String::with_capacity(text.len());
    let mut gone: Vec<String> = Vec::new();
    let mut known_gone: BTreeSet<&str> = BTreeSet::new();
    let mut copied = 0;
    let mut from = 0;
    while let Some(found) = text[from..].find("](") {
        let close = from + found;
        from = close + 2;
        let (Some(open), Some(length)) = (label_start(text, copied, close), address_end(text, from)) else { continue };
        let end = from + length;
        if is_kept(open) || is_kept(close) {
            continue;
        }
        let address = text[from..end].split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']);
        let is_picture = text[..open].ends_with('!');
        if !is_picture && is_known(address) {
            continue;
        }
        out.push_str(&text[copied..open - usize::from(is_picture)]);
        out.push_str(&text[open + 1..close]);
        if known_gone.insert(address) {
            gone.push(address.to_owned());
        }
        copied = end + 1;
        from = copied;
    }
    out.push_str(&text[copied..]);
    (without_definitions(&out), gone)
}

/// `[1]: https://…` lines define links of the model.
fn without_definitions(text: &str) -> String {
    let code = code_ranges(text);
    let mut at = 0;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_code = code.iter().any(|range| range.contains(&at));
        at += line.len();
        let bare = line.trim_start();
        let is_definition = bare.starts_with('[')
            && bare.find("]:").is_some_and(|close| close < 60 && !bare[..close].contains(' ') && bare[close + 2..].trim().contains("://"));
        if is_code || !is_definition {
            out.push_str(line);
        }
    }
    out
}

/// The text without a source list that the model wrote at the end; ours is made from the spans.
pub(crate) fn without_source_list(text: &str) -> &str {
    let code = code_ranges(text);
    let mut at = 0;
    let mut begins: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bare = line.trim().trim_matches(['#', '*', '_', ':', ' ']).to_lowercase();
        let is_title = matches!(bare.as_str(), "sources" | "references" | "citations" | "bibliography" | "sources cited" | "works cited" | "source");
        if is_title && !code.iter().any(|range| range.contains(&start)) {
            begins = Some(start);
        } else if begins.is_some() {
            let line = line.trim();
            let is_entry = line.is_empty()
                || line.starts_with(['-', '*', '+', '•', '[', '【', '<'])
                || line.starts_with(|c: char| c.is_ascii_digit())
                || line.starts_with("http");
            if !is_entry {
                begins = None;
            }
        }
    }
    begins.map_or(text, |begins| text[..begins].trim_end())
}

pub(crate) fn is_web(address: &str) -> bool {
    let lower = address.to_lowercase();
    lower.starts_with("https://") || lower.starts_with("http://")
}

/// Safe between `<` and `>` of a Markdown link.
pub(crate) fn encoded(address: &str) -> String {
    address
        .chars()
        .map(|c| match c {
            '<' => "%3C".to_owned(),
            '>' => "%3E".to_owned(),
            '\\' => "%5C".to_owned(),
            '"' => "%22".to_owned(),
            c if c.is_whitespace() => "%20".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

/// Without Markdown markup: headings, emphasis, code, links.
pub(crate) fn plain(markdown: &str) -> String {
    let markdown = &spelled_out(markdown);
    let mut out = String::with_capacity(markdown.len());
    let mut is_code = false;
    for line in markdown.split_inclusive('\n') {
        if crate::citation::fence_mark(line).is_some() {
            is_code = !is_code;
            continue;
        }
        if is_code {
            out.push_str(line);
            continue;
        }
        let hashes = line.bytes().take_while(|b| *b == b'#').count();
        let line = if (1..=6).contains(&hashes) && line[hashes..].starts_with(' ') { &line[hashes + 1..] } else { line };
        let chars: Vec<char> = line.chars().collect();
        let mut inside = false;
        for (index, c) in chars.iter().enumerate() {
            let beside = |offset: usize| chars.get(offset).is_none_or(|c| c.is_whitespace());
            let is_alone = (index == 0 || beside(index - 1)) && beside(index + 1);
            match c {
                '`' => inside = !inside,
                '*' if !inside && !is_alone => {}
                c => out.push(*c),
            }
        }
    }
    out
}

/// `[words](address)` as `words (address)`.
fn spelled_out(markdown: &str) -> String {
    let code = code_ranges(markdown);
    let mut out = String::with_capacity(markdown.len());
    let (mut copied, mut from) = (0, 0);
    while let Some(found) = markdown[from..].find("](") {
        let close = from + found;
        from = close + 2;
        let (Some(open), Some(length)) = (label_start(markdown, copied, close), address_end(markdown, from)) else { continue };
        if code.iter().any(|range| range.contains(&open)) {
            continue;
        }
        out.push_str(&markdown[copied..open]);
        out.push_str(&markdown[open + 1..close]);
        out.push_str(&format!(" ({})", markdown[from..from + length].trim_matches(['<', '>'])));
        copied = from + length + 1;
        from = copied;
    }
    out.push_str(&markdown[copied..]);
    out
}

/// Longer labels and addresses are not links, so that text full of brackets is not scanned once per bracket.
const LINK_BYTES_MAX: usize = 1_000;

/// The `[` that matches `](` at `close`.
fn label_start(text: &str, from: usize, close: usize) -> Option<usize> {
    let mut least = close.saturating_sub(LINK_BYTES_MAX).max(from);
    while !text.is_char_boundary(least) {
        least += 1;
    }
    text[least..close].rfind('[').map(|open| least + open)
}

/// The length of the address that begins at `from` and ends with `)` on the same line.
fn address_end(text: &str, from: usize) -> Option<usize> {
    let mut most = text.len().min(from + LINK_BYTES_MAX);
    while !text.is_char_boundary(most) {
        most -= 1;
    }
    text[from..most].find([')', '\n']).filter(|length| text[from + length..].starts_with(')'))
}

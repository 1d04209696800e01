//! Markdown output: the text unchanged, with citations as footnotes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{Source, page};

pub(super) fn write(markdown: &str, title: Option<&str>, sources: &[Source]) -> String {
    let mut out = String::new();
    let title = title.map(str::trim).filter(|title| !title.is_empty());
    if let Some(title) = title
        && !markdown.trim_start().trim_start_matches('#').trim_start().starts_with(title)
    {
        let _ = write!(out, "# {}\n\n", title.replace(char::is_control, " "));
    }
    let mut rest = 0;
    for run in words(markdown) {
        for (range, numbers) in page::citations(&markdown[run.clone()], sources.len()) {
            out.push_str(&markdown[rest..run.start + range.start]);
            out.extend(numbers.iter().map(|number| format!("[^source-{number}]")));
            rest = run.start + range.end;
        }
    }
    out.push_str(&markdown[rest..]);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    for (i, source) in sources.iter().enumerate() {
        let line = |text: &str| text.replace(char::is_control, " ").trim().to_owned();
        let _ = write!(out, "\n[^source-{}]: {}", i + 1, line(&source.title));
        if !source.address.trim().is_empty() {
            let _ = write!(out, " <{}>", line(&source.address).replace(['<', '>', ' '], ""));
        }
        out.push('\n');
    }
    out
}

/// The ranges of the source that are text, and not code, markup or addresses.
fn words(markdown: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut in_code = false;
    let parser = || Parser::new_ext(markdown, page::options());
    let defined: BTreeSet<String> =
        parser().filter_map(|event| if let Event::Start(Tag::FootnoteDefinition(label)) = event { Some(label.to_string()) } else { None }).collect();
    for (event, range) in parser().into_offset_iter() {
        match event {
            // Footnotes of the text are kept, whatever their label.
            Event::FootnoteReference(label) if defined.contains(&*label) => {}
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(_) | Event::FootnoteReference(_) if !in_code => match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            },
            _ => {}
        }
    }
    runs
}

//! HTML: visible text under its headings, with the lines of the source.
//!
//! Tags are read sequentially without building a tree, so that lines are known and broken or deep pages work. Scripts, styles, navigation
//! and forms are left out.

use super::{Block, Document, Lines, Outline};
use crate::passage::Location;

/// Elements whose content is skipped.
const UNREAD: [&str; 14] =
    ["script", "style", "noscript", "template", "svg", "math", "nav", "footer", "form", "button", "select", "iframe", "object", "canvas"];
/// In these a `<` is text.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];
/// Inline elements.
const INLINE: [&str; 30] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img", "ins", "kbd", "label", "mark", "q", "s", "samp",
    "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var",
];

pub(super) fn read(html: &str) -> Document {
    let mut reader = Reader {
        html,
        lines: Lines::of(html),
        document: Document::default(),
        outline: Outline::default(),
        block: None,
        links: Vec::new(),
        is_kept: false,
    };
    let mut at = 0;
    // The current skipped element, and the nesting depth of elements of the same name.
    let mut unread: Option<(String, usize)> = None;
    while at < html.len() {
        let Some(open) = html[at..].find('<').map(|open| at + open) else {
            reader.text(at, html.len(), unread.is_some());
            break;
        };
        reader.text(at, open, unread.is_some());
        let rest = &html[open..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            at = comment.find("-->").map_or(html.len(), |end| open + 4 + end + 3);
            continue;
        }
        let Some(tag) = Tag::read(rest) else {
            // A lone `<` is text.
            reader.text(open, open + 1, unread.is_some());
            at = open + 1;
            continue;
        };
        at = open + tag.bytes;
        if let Some((name, depth)) = &mut unread {
            if tag.name == *name {
                *depth = if tag.is_end { *depth - 1 } else { *depth + 1 };
                if *depth == 0 {
                    unread = None;
                }
            }
        } else if !tag.is_end && !tag.is_empty && UNREAD.contains(&tag.name.as_str()) {
            unread = Some((tag.name.clone(), 1));
        } else {
            reader.tag(&tag, open);
        }
        if !tag.is_end && RAW.contains(&tag.name.as_str()) {
            let close = format!("</{}", tag.name);
            let end = find_ignoring_case(&html[at..], &close).map_or(html.len(), |end| at + end);
            if tag.name == "title" && reader.document.title.is_empty() {
                reader.document.title = squeezed(&html_escape::decode_html_entities(&html[at..end]));
            } else if tag.name == "textarea" {
                reader.text(at, end, unread.is_some());
            }
            at = end;
        }
    }
    reader.flush();
    reader.document
}

struct Reader<'a> {
    html: &'a str,
    lines: Lines,
    document: Document,
    outline: Outline,
    block: Option<OpenBlock>,
    links: Vec<String>,
    /// In `pre`, where white space is significant.
    is_kept: bool,
}

/// The open block.
struct OpenBlock {
    text: String,
    start: usize,
    end: usize,
    heading: Option<u32>,
}

impl Reader<'_> {
    fn text(&mut self, from: usize, to: usize, is_unread: bool) {
        let raw = &self.html[from..to];
        let is_blank = raw.trim().is_empty();
        if is_unread || raw.is_empty() || (is_blank && self.block.is_none()) {
            return;
        }
        let words = html_escape::decode_html_entities(raw);
        let skipped = raw.len() - raw.trim_start().len();
        let block = self.block.get_or_insert_with(|| OpenBlock { text: String::new(), start: from + skipped, end: to, heading: None });
        if block.text.is_empty() {
            block.start = from + skipped;
        }
        block.text.push_str(&words);
        if !is_blank {
            block.end = from + raw.trim_end().len();
        }
    }

    fn tag(&mut self, tag: &Tag, at: usize) {
        if INLINE.contains(&tag.name.as_str()) {
            if let Some(href) = tag.attribute("href").filter(|_| tag.name == "a" && !tag.is_end) {
                self.links.push(href);
            }
            return;
        }
        match (tag.name.as_str(), tag.is_end) {
            ("br", _) => {
                if let Some(block) = &mut self.block {
                    block.text.push('\n');
                }
            }
            // Cells of one row are joined.
            ("td" | "th", is_end) => {
                if let Some(block) = self.block.as_mut().filter(|_| is_end) {
                    block.text.push_str(" | ");
                }
            }
            ("pre", is_end) => {
                self.flush();
                self.is_kept = !is_end;
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", is_end) => {
                self.flush();
                if !is_end {
                    let level = u32::from(tag.name.as_bytes()[1] - b'0');
                    self.block = Some(OpenBlock { text: String::new(), start: at, end: at, heading: Some(level) });
                }
            }
            _ => self.flush(),
        }
    }

    fn flush(&mut self) {
        let links = std::mem::take(&mut self.links);
        let Some(block) = self.block.take() else { return };
        let text = if self.is_kept { block.text.trim_end().to_owned() } else { squeezed(&block.text) };
        let text = text.trim_end_matches(" |").to_owned();
        match block.heading {
            _ if text.is_empty() => {}
            Some(level) => self.outline.enter(level, text),
            None => {
                let place = Location::Lines(self.lines.at(block.start), self.lines.at(block.end.saturating_sub(1).max(block.start)));
                self.document.push(Block { headings: self.outline.path(), text, place: Some(place), links });
            }
        }
    }
}

struct Tag<'a> {
    name: String,
    is_end: bool,
    is_empty: bool,
    attributes: &'a str,
    bytes: usize,
}

impl<'a> Tag<'a> {
    /// Parses a tag at its `<`; `None` if this is not a tag.
    fn read(html: &'a str) -> Option<Self> {
        let is_end = html[1..].starts_with('/');
        let name_start = if is_end { 2 } else { 1 };
        let first = html[name_start..].chars().next()?;
        if !first.is_ascii_alphabetic() && first != '!' && first != '?' {
            return None;
        }
        let name_end = html[name_start..].find(|c: char| c.is_whitespace() || c == '>' || c == '/').map_or(html.len(), |end| name_start + end);
        // A `>` in quotes does not end a tag.
        let mut quote = None;
        let close = html[name_end..].char_indices().find(|(_, c)| match (quote, c) {
            (Some(open), c) => {
                if open == *c {
                    quote = None;
                }
                false
            }
            (None, '"' | '\'') => {
                quote = Some(*c);
                false
            }
            (None, c) => *c == '>',
        });
        let end = close.map_or(html.len(), |(at, _)| name_end + at);
        let attributes = &html[name_end..end];
        Some(Tag {
            name: html[name_start..name_end].to_ascii_lowercase(),
            is_end,
            is_empty: attributes.ends_with('/'),
            attributes,
            bytes: (end + 1).min(html.len()),
        })
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let at = find_ignoring_case(self.attributes, &format!("{name}="))?;
        let value = &self.attributes[at + name.len() + 1..];
        let value = match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next()?,
            _ => value.split(char::is_whitespace).next()?,
        };
        Some(html_escape::decode_html_entities(value).into_owned())
    }
}

fn find_ignoring_case(text: &str, what: &str) -> Option<usize> {
    text.as_bytes().windows(what.len()).position(|window| window.eq_ignore_ascii_case(what.as_bytes()))
}

/// White space collapsed as a page shows it; single line breaks only from `br`.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_see_is_read() {
        let html = "<!doctype html>\n<html><head><title>Baton &amp; co</title>\n<style>p > a { color: red }</style></head>\n<body><nav>Home</nav>\n\
                    <h1>Runs</h1>\n<p>A run is a <b>value</b>;\nsee <a href='guide.html#x'>here</a>.</p>\n<h2>Leases</h2><ul><li>one</li>\n<li>two &lt; 3</li></ul>\n\
                    <script>if (a < b) { \"<p>no</p>\" }</script><table><tr><td>k</td><td>v</td></tr></table><pre>  a\n  b</pre> 1 < 2";
        let document = read(html);
        assert_eq!(document.title, "Baton & co");
        let found: Vec<(String, &str, Location)> =
            document.blocks.iter().map(|block| (block.headings.join("/"), block.text.as_str(), block.place.unwrap())).collect();
        assert_eq!(
            found,
            [
                ("Runs".into(), "A run is a value; see here.", Location::Lines(6, 7)),
                ("Runs/Leases".into(), "one", Location::Lines(8, 8)),
                ("Runs/Leases".into(), "two < 3", Location::Lines(9, 9)),
                ("Runs/Leases".into(), "k | v", Location::Lines(10, 10)),
                ("Runs/Leases".into(), "  a\n  b", Location::Lines(10, 11)),
                ("Runs/Leases".into(), "1 < 2", Location::Lines(11, 11)),
            ]
        );
        assert_eq!(document.blocks[0].links, ["guide.html#x"]);
    }

    #[test]
    fn no_page_is_too_broken() {
        for html in ["<", "<a", "<p", "</", "<!--", "<script>", "<p title='", "<title>x", "&#xffffffff;", &"<div>".repeat(100_000), "<ü>", "<p>ü</p"]
        {
            read(html);
        }
    }
}

//! Reduces HTML written by a model or a page to a few plain tags, in one pass without a tree: time and memory are linear in the input,
//! however deep or malformed it is. (Parsers that follow the HTML standard reopen formatting elements in every paragraph, which is
//! quadratic.)
//!
//! The output is balanced: every opened tag is closed, and no other tag is closed. Paragraphs, items and headings are closed by the same
//! rules as in a browser, so that a browser builds the same elements.

use html_escape::decode_html_entities;

/// Every allowed tag. `br` and `hr` have no end tag.
const ALLOWED: [&str; 38] = [
    "a",
    "b",
    "blockquote",
    "br",
    "code",
    "dd",
    "del",
    "div",
    "dl",
    "dt",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "span",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
    "caption",
];
const INLINE: [&str; 13] = ["a", "b", "code", "del", "em", "i", "s", "span", "strong", "sub", "sup", "u", "br"];
const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];
/// Tags inside these do not close elements outside.
const TABLE_PARTS: [&str; 4] = ["caption", "table", "td", "th"];
/// Their content is not text for readers.
const UNREAD: [&str; 3] = ["script", "style", "template"];
/// Deeper elements are dropped; their text is kept.
const DEPTH_MAX: usize = 100;
const ADDRESS_BYTES_MAX: usize = 4_000;

pub(super) fn sanitized(html: &str) -> String {
    let mut writer = Writer { out: String::with_capacity(html.len() + html.len() / 8), open: Vec::new() };
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        writer.text(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
        } else if rest.starts_with("<!") || rest.starts_with("<?") {
            rest = rest.find('>').map_or("", |end| &rest[end + 1..]);
        } else if let Some(tag) = Tag::read(rest) {
            rest = tag.rest;
            writer.tag(&tag);
            if let Some(name) = UNREAD.iter().find(|name| !tag.is_end && tag.name.eq_ignore_ascii_case(name)) {
                rest = after_end(rest, name);
            }
        } else {
            writer.text("<");
            rest = &rest[1..];
        }
    }
    writer.text(rest);
    writer.close_to(0);
    writer.out
}

/// The text after the end tag of this name; empty if there is none.
fn after_end<'a>(html: &'a str, name: &str) -> &'a str {
    let is_end = |at: &usize| html[*at + 2..].get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
    let end = html.match_indices("</").map(|(at, _)| at).find(is_end);
    end.and_then(|end| html[end..].find('>').map(|close| &html[end + close + 1..])).unwrap_or_default()
}

struct Tag<'a> {
    name: &'a str,
    is_end: bool,
    attributes: &'a str,
    rest: &'a str,
}

impl<'a> Tag<'a> {
    /// Parses a tag at its `<`; `None` if this is not a tag. A tag without an end takes the rest of the text, as in a browser.
    fn read(html: &'a str) -> Option<Self> {
        let inside = &html[1..];
        let (is_end, inside) = inside.strip_prefix('/').map_or((false, inside), |inside| (true, inside));
        if !inside.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let name_end = inside.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/')).unwrap_or(inside.len());
        let (name, inside) = inside.split_at(name_end);
        let mut quote = None;
        let close = inside.bytes().position(|byte| match (quote, byte) {
            (Some(open), byte) => {
                quote = (open != byte).then_some(open);
                false
            }
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                false
            }
            (None, byte) => byte == b'>',
        });
        let (attributes, rest) = close.map_or(("", ""), |close| (&inside[..close], &inside[close + 1..]));
        Some(Tag { name, is_end, attributes, rest })
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        while !rest.is_empty() {
            let key_end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/')).unwrap_or(rest.len()).max(1);
            let (key, after) = rest.split_at_checked(key_end)?;
            let after = after.trim_start();
            let (value, after) = match after.strip_prefix('=').map(str::trim_start) {
                None => ("", after),
                Some(value) => match value.chars().next() {
                    Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                    _ => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
                },
            };
            if key.eq_ignore_ascii_case(name) {
                return Some(decode_html_entities(value).into_owned());
            }
            rest = after.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        }
        None
    }
}

struct Writer {
    out: String,
    open: Vec<&'static str>,
}

impl Writer {
    fn text(&mut self, raw: &str) {
        for c in decode_html_entities(raw).chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '\u{A0}' => self.out.push_str("&nbsp;"),
                '\0' => {}
                c => self.out.push(c),
            }
        }
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        let Some(name) = ALLOWED.iter().copied().find(|name| tag.name.eq_ignore_ascii_case(name)) else { return };
        let is_void = matches!(name, "br" | "hr");
        if tag.is_end {
            // Not beyond the enclosing cell or table.
            let within = self.open.iter().rposition(|open| *open != name && TABLE_PARTS.contains(open)).map_or(0, |at| at + 1);
            let within = if matches!(name, "table" | "thead" | "tbody" | "tfoot" | "tr") { 0 } else { within };
            match self.open.iter().rposition(|open| *open == name) {
                Some(at) if at >= within && !is_void => self.close_to(at),
                _ => {}
            }
            return;
        }
        self.close_before(name);
        if is_void {
            self.out.push_str(if name == "br" { "<br>" } else { "<hr>" });
            return;
        }
        if self.open.len() >= DEPTH_MAX {
            return;
        }
        self.open.push(name);
        self.out.push('<');
        self.out.push_str(name);
        match name {
            "a" => {
                if let Some(address) = tag.attribute("href").and_then(|address| web_address(&address)) {
                    self.out.push_str(" href=\"");
                    self.out.push_str(&address.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;"));
                    self.out.push('"');
                }
                self.out.push_str(" rel=\"noopener noreferrer\"");
            }
            "ol" => {
                if let Some(start) = tag.attribute("start").and_then(|start| start.trim().parse::<i32>().ok()) {
                    self.out.push_str(&format!(" start=\"{start}\""));
                }
            }
            _ => {}
        }
        self.out.push('>');
    }

    /// Closes the elements that a browser closes when this tag opens.
    fn close_before(&mut self, name: &'static str) {
        // The innermost element of the first list, unless one of the second is further in.
        let innermost = |open: &[&str], closes: &[&str], stops: &[&str]| {
            let at = open.iter().rposition(|open| closes.contains(open) || stops.contains(open) || TABLE_PARTS.contains(open))?;
            closes.contains(&open[at]).then_some(at)
        };
        let at = match name {
            "li" => innermost(&self.open, &["li"], &["ul", "ol"]),
            "dd" | "dt" => innermost(&self.open, &["dd", "dt"], &["dl"]),
            "a" => innermost(&self.open, &["a"], &[]),
            "td" | "th" => self.open.iter().rposition(|open| matches!(*open, "td" | "th" | "table")).filter(|at| self.open[*at] != "table"),
            "tr" => self.open.iter().rposition(|open| matches!(*open, "tr" | "table")).filter(|at| self.open[*at] != "table"),
            "thead" | "tbody" | "tfoot" => self
                .open
                .iter()
                .rposition(|open| matches!(*open, "thead" | "tbody" | "tfoot" | "caption" | "table"))
                .filter(|at| self.open[*at] != "table"),
            _ => None,
        };
        if let Some(at) = at {
            self.close_to(at);
        }
        if !INLINE.contains(&name)
            && let Some(at) = innermost(&self.open, &["p"], &[])
        {
            self.close_to(at);
        }
        if HEADINGS.contains(&name) && self.open.last().is_some_and(|open| HEADINGS.contains(open)) {
            self.close_to(self.open.len() - 1);
        }
    }

    fn close_to(&mut self, depth: usize) {
        for name in self.open.drain(depth..).rev() {
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push('>');
        }
    }
}

fn web_address(address: &str) -> Option<String> {
    let address: String = address.trim().chars().filter(|c| !c.is_control()).collect();
    let has_scheme = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    (address.len() <= ADDRESS_BYTES_MAX && (has_scheme("http://") || has_scheme("https://"))).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_tags_are_left_and_they_are_balanced() {
        let cases = [
            ("a < b & c > d &copy; &lt;i&gt;", "a &lt; b &amp; c &gt; d © &lt;i&gt;"),
            ("<p>one<p>two <b>three<div>four", "<p>one</p><p>two <b>three</b></p><div>four</div>"),
            ("<ul><li>a<div>b<li>c<ul><li>d</ul></ul>e", "<ul><li>a<div>b</div></li><li>c<ul><li>d</li></ul></li></ul>e"),
            ("</div></p>x</b>", "x"),
            ("<h1>a<h2>b</h2>", "<h1>a</h1><h2>b</h2>"),
            ("<b><i>a</b>b</i>", "<b><i>a</i></b>b"),
            ("<script>if (a < b) x()</script >y<style>p{}</style><template><b>z", "y"),
            ("<!-- <b> --><!doctype html><?php ?>x<!-- y", "x"),
            ("<p title='>' onclick=\"x\">a</p", "<p>a</p>"),
            ("<img src=x onerror=y><iframe><b>k</b></iframe>", "<b>k</b>"),
            ("<a href='https://a.example/?a=1&amp;b=\"'>x</a>", "<a href=\"https://a.example/?a=1&amp;b=&quot;\" rel=\"noopener noreferrer\">x</a>"),
            ("<a href=\" java\nscript:x\">j</a>", "<a rel=\"noopener noreferrer\">j</a>"),
            ("<a title=href href = HTTP://A.example>x", "<a href=\"HTTP://A.example\" rel=\"noopener noreferrer\">x</a>"),
            ("<ol start=\"3\" =><li>a</ol><ol start='x'></ol>", "<ol start=\"3\"><li>a</li></ol><ol></ol>"),
            ("<table><tr><td>a<td><p>b<tr><td>c</table>d", "<table><tr><td>a</td><td><p>b</p></td></tr><tr><td>c</td></tr></table>d"),
            ("<div><table><tr><td></div>x</table></div>", "<div><table><tr><td>x</td></tr></table></div>"),
            ("a<br/>b<hr>c</br>", "a<br>b<hr>c"),
            ("<üp>x", "&lt;üp&gt;x"),
        ];
        for (html, expected) in cases {
            assert_eq!(sanitized(html), expected, "{html}");
        }
    }

    #[test]
    fn whatever_comes_is_read_once() {
        // Each of these is quadratic in a parser with a tree; a wrong bound would make this test run for minutes.
        let many = 300_000;
        let hostile = [
            "<blockquote>".repeat(many),
            "<b>".repeat(many),
            "<a href=\"".repeat(many),
            "<script>".repeat(many),
            "<!--".repeat(many),
            "</".repeat(many),
            (0..many / 2).map(|n| format!("<b a={n}><table><tr><td></b></table>")).collect::<String>() + &"<p>x".repeat(many),
            format!("<p {}>", "a=".repeat(many)),
            "&".repeat(many),
            "&#".repeat(many),
        ];
        for html in hostile {
            let clean = sanitized(&html);
            assert!(clean.len() <= 10 * html.len(), "{} from {}", clean.len(), html.len());
        }
    }
}

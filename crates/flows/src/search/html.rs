//! Converts a model's HTML to Markdown that can be checked, and checked Markdown to HTML for the page.
//!
//! ```text
//!   model's HTML ─ sanitized ─ to_markdown ─► evidence::cite ─► Markdown ─ from_markdown, sanitized ─► response_content
//! ```
//!
//! Both forms of an answer are made from the same checked text, so a citation refused in one is in neither. Only the plain tags below reach
//! a page: no style, no script, no image (its host would see the reader), no link except to the web.

use pulldown_cmark::{Event, Options, Parser};

use super::sanitize::sanitized;

/// Markdown beyond this is not rendered; a note states that.
const MARKDOWN_BYTES_MAX: usize = 1_000_000;
/// Deeper quotes and lists are rendered at this level.
const NESTING_MAX: usize = 32;
const CUT_NOTE: &str = "<p><em>(The text is cut here: it is longer than 1,000,000 bytes.)</em></p>";

/// Time and memory are linear in the text.
pub fn from_markdown(markdown: &str) -> String {
    let shown = &markdown[..markdown.floor_char_boundary(MARKDOWN_BYTES_MAX)];
    let mut depth = 0_usize;
    let events = Parser::new_ext(shown, Options::ENABLE_TABLES).filter(|event| match event {
        Event::Start(_) => {
            depth += 1;
            depth <= NESTING_MAX
        }
        Event::End(_) => {
            depth = depth.saturating_sub(1);
            depth < NESTING_MAX
        }
        _ => true,
    });
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    let clean = sanitized(&html);
    let clean = clean.trim();
    if shown.len() < markdown.len() { format!("{clean}\n{CUT_NOTE}") } else { clean.to_owned() }
}

/// The part of a text from its first to its last known tag, if it has any.
pub(super) fn found_in(text: &str) -> Option<&str> {
    const TAGS: [&str; 12] = ["p", "div", "h1", "h2", "h3", "h4", "ul", "ol", "table", "span", "strong", "section"];
    let is_tag = |at: &usize| {
        let rest = &text[at + 1..];
        let name = rest.find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest, |end| &rest[..end]);
        TAGS.contains(&name.to_ascii_lowercase().as_str()) && rest[name.len()..].starts_with(['>', ' ', '/', '\n'])
    };
    let start = text.match_indices('<').map(|(at, _)| at).find(is_tag)?;
    let end = text.rfind('>').filter(|end| *end > start)?;
    Some(&text[start..=end])
}

pub(super) fn to_markdown(html: &str) -> String {
    let clean = sanitized(html);
    let mut writer = Writer::default();
    let mut rest = clean.as_str();
    while let Some(open) = rest.find('<') {
        writer.text(&rest[..open]);
        // The sanitizer escapes every `<` and `>` that does not belong to a tag.
        let Some(close) = rest[open..].find('>').map(|at| open + at) else { break };
        writer.tag(&rest[open + 1..close]);
        rest = &rest[close + 1..];
    }
    writer.text(rest);
    writer.done()
}

#[derive(Default)]
struct Writer {
    out: String,
    /// Open lists; an ordered one holds its next number.
    lists: Vec<Option<usize>>,
    links: Vec<String>,
    is_pre: bool,
    /// Start of the text of the newest item.
    item_at: Option<usize>,
    /// Cells of the open row, and rows of the open table.
    cells: Option<usize>,
    rows: usize,
}

impl Writer {
    fn text(&mut self, escaped: &str) {
        let text = unescaped(escaped);
        if self.is_pre {
            self.out.push_str(&text);
            return;
        }
        for (index, word) in text.split_whitespace().enumerate() {
            let has_space = index > 0 || text.starts_with(char::is_whitespace);
            if has_space && !self.out.is_empty() && !self.out.ends_with([' ', '\n', '[']) {
                self.out.push(' ');
            }
            self.out.push_str(word);
        }
        if text.ends_with(char::is_whitespace) && !text.trim().is_empty() {
            self.out.push(' ');
        }
        if text.trim().is_empty() && !text.is_empty() && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    fn tag(&mut self, tag: &str) {
        let (is_end, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        match (name, is_end) {
            ("br", _) if self.cells.is_some() => self.out.push(' '),
            ("br", _) => self.line(),
            ("hr", _) => {
                self.block();
                self.out.push_str("---");
                self.block();
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                self.block();
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.out.push_str(&format!("{} ", "#".repeat(level)));
            }
            ("b" | "strong", _) => self.mark("**", is_end),
            ("i" | "em", _) => self.mark("*", is_end),
            ("code", _) if !self.is_pre => self.mark("`", is_end),
            ("pre", false) => {
                self.block();
                self.out.push_str("```\n");
                self.is_pre = true;
            }
            ("pre", true) => {
                self.is_pre = false;
                self.line();
                self.out.push_str("```");
                self.block();
            }
            ("a", false) => {
                let address = tag.split_once("href=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(address, _)| address);
                self.links.push(unescaped(address));
                self.out.push('[');
            }
            ("a", true) => {
                let address = self.links.pop().unwrap_or_default();
                self.out.push_str(&format!("](<{}>)", address.replace(['<', '>', '\n'], "")));
            }
            ("ul", false) => self.list(None),
            ("ol", false) => {
                let start = tag.split_once("start=\"").and_then(|(_, rest)| rest.split_once('"')).and_then(|(start, _)| start.parse().ok());
                self.list(Some(start.unwrap_or(1)));
            }
            ("ul" | "ol", true) => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.block();
                }
            }
            ("li", false) => {
                self.line();
                let depth = self.lists.len().saturating_sub(1);
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.out.push_str(&format!("{}{mark}", "   ".repeat(depth)));
                self.item_at = Some(self.out.len());
            }
            ("table", _) => {
                self.rows = 0;
                self.block();
            }
            ("tr", false) => {
                self.line();
                self.cells = Some(0);
            }
            ("tr", true) => {
                let cells = self.cells.take().unwrap_or_default();
                self.out.push_str(" |\n");
                if self.rows == 0 {
                    self.out.push_str(&format!("|{}\n", "---|".repeat(cells)));
                }
                self.rows += 1;
            }
            ("td" | "th", false) => {
                if let Some(cells) = &mut self.cells {
                    self.out.push_str(if *cells == 0 { "| " } else { " | " });
                    *cells += 1;
                }
            }
            ("p" | "div" | "blockquote" | "dl" | "dt" | "dd" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6", _) => self.block(),
            _ => {}
        }
    }

    /// `** word**` is not emphasis, so a mark is placed next to its word.
    fn mark(&mut self, mark: &str, is_end: bool) {
        if is_end && self.out.ends_with(' ') {
            self.out.pop();
            self.out.push_str(mark);
            self.out.push(' ');
        } else {
            self.out.push_str(mark);
        }
    }

    fn list(&mut self, next: Option<usize>) {
        if self.lists.is_empty() {
            self.block();
        }
        self.lists.push(next);
    }

    fn line(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn block(&mut self) {
        // Directly after the marker of an item.
        if self.item_at == Some(self.out.len()) {
            return;
        }
        if self.cells.is_some() {
            self.text(" ");
            return;
        }
        self.line();
        if self.lists.is_empty() && !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn done(self) -> String {
        self.out.trim().to_owned()
    }
}

/// The sanitizer writes only these entities.
fn unescaped(text: &str) -> String {
    text.replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_html_is_sanitized() {
        let hostile = "<div style=\"color:red\" onclick=\"x()\"><script>alert(1)</script><img src=https://evil.example/p.gif>\
                       <a href=\"javascript:x()\">j</a><a href=\"https://a.example\">w</a><iframe src=x></iframe><p>Fine &lt;b&gt;</p></div>";
        let clean = sanitized(hostile);
        for bad in ["script", "onclick", "style", "img", "javascript", "iframe", "alert"] {
            assert!(!clean.contains(bad), "{bad} in {clean}");
        }
        assert!(clean.contains("<p>Fine &lt;b&gt;</p>") && clean.contains("href=\"https://a.example\""), "{clean}");
    }

    #[test]
    fn html_becomes_markdown_with_the_same_content() {
        let cases = [
            ("<div><h3>Found</h3><p>There are <b>17</b> stories [1].</p></div>", "### Found\n\nThere are **17** stories [1]."),
            ("<ul><li>One [1]</li><li><p>Two</p><ul><li>deep</li></ul></li></ul><p>End</p>", "- One [1]\n- Two\n   - deep\n\nEnd"),
            ("<ol start=\"3\"><li>c</li><li>d</li></ol>", "3. c\n4. d"),
            ("<p>a &amp; b &lt; c</p>", "a & b < c"),
            ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td><p>2</p></td></tr></table>", "| a | b |\n|---|---|\n| 1 | 2 |"),
            ("one<br>two <em>three </em>four", "one\ntwo *three* four"),
            ("<p>see <a href=\"https://a.example/x\">this</a></p>", "see [this](<https://a.example/x>)"),
            ("<pre><code>let x = 1;\nlet y;</code></pre>", "```\nlet x = 1;\nlet y;\n```"),
            ("plain", "plain"),
        ];
        for (html, expected) in cases {
            let markdown = to_markdown(html);
            let lines: Vec<&str> = markdown.lines().map(str::trim_end).collect();
            assert_eq!(lines.join("\n").replace("  |", " |"), expected, "{html}");
        }
    }

    #[test]
    fn deep_nesting_and_long_text_are_rendered_in_linear_time() {
        // Quadratic rendering of these would take minutes.
        for markdown in [">".repeat(400_000), "- ".repeat(200_000), "* a\n".repeat(100_000), "[".repeat(200_000), "<b>".repeat(200_000)] {
            let html = from_markdown(&markdown);
            assert!(html.len() < 20 * markdown.len());
        }
        let long = from_markdown(&"A short sentence. ".repeat(100_000));
        assert!(long.ends_with(CUT_NOTE) && long.len() < 2 * MARKDOWN_BYTES_MAX);
        to_markdown(&format!("<table><tr><td>{}{}", "x".repeat(300_000), "<p>".repeat(300_000)));
    }

    #[test]
    fn html_is_found_among_words() {
        assert_eq!(found_in("Sure! <p>It is.</p> Anything else?"), Some("<p>It is.</p>"));
        assert_eq!(found_in("if a < b and Vec<String> then 3 > 2"), None);
        assert_eq!(found_in("<DIV class=x>y"), Some("<DIV class=x>"));
        assert_eq!(found_in("none"), None);
    }

    #[test]
    fn markdown_becomes_plain_tags() {
        assert_eq!(from_markdown("**It** is <script>x</script> [1].\n\n1. a"), "<p><strong>It</strong> is  [1].</p>\n<ol>\n<li>a</li>\n</ol>");
    }
}

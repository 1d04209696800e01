//! Renders Markdown for a terminal: wrapped to its width, with bold, lists, tables, code, quotes and links.
//!
//! ```text
//! render(markdown, width, &marks) -> String     lines without a newline at the end; styles are for `anstream`, which removes them where there are no colours
//! terminal_width() -> usize
//! ```
//!
//! Marks are ranges of the Markdown source with their own colour, such as an unsupported sentence. Control characters are removed, so that
//! untrusted text cannot move the cursor.

mod table;
mod wrap;

use std::ops::Range;

use anstyle::{Effects, Style};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use table::Table;
use terminal::{BOLD, CYAN, DIM};
use wrap::Piece;

/// A byte range of the source, and a style in addition to that of its Markdown.
pub(crate) type Mark = (Range<usize>, Style);

const WIDTH_DEFAULT: usize = 80;
const WIDTH_MIN: usize = 20;
const CODE_INDENT: &str = "    ";
const QUOTE: &str = "│ ";

pub(crate) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH_DEFAULT, |(width, _)| usize::from(width.0)).max(WIDTH_MIN)
}

pub(crate) fn render(markdown: &str, width: usize, marks: &[Mark]) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::new(markdown, width.max(WIDTH_MIN), marks);
    for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
        writer.take(event, &range);
    }
    writer.flush();
    writer.lines.join("\n")
}

struct Writer<'m> {
    source: &'m str,
    width: usize,
    marks: &'m [Mark],
    lines: Vec<String>,
    /// Line prefixes of the open blocks, outermost first.
    prefixes: Vec<Prefix>,
    /// The text of the open block.
    pieces: Vec<Piece>,
    styles: Vec<Style>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    code: Option<String>,
    table: Option<Table>,
    /// Addresses of the open links, and where their text begins in `pieces`.
    links: Vec<(String, usize)>,
}

struct Prefix {
    /// On the first line, until it is written.
    first: Option<String>,
    rest: String,
}

impl<'m> Writer<'m> {
    fn new(source: &'m str, width: usize, marks: &'m [Mark]) -> Self {
        let (lines, prefixes, pieces, styles) = (Vec::new(), Vec::new(), Vec::new(), vec![Style::new()]);
        Writer { source, width, marks, lines, prefixes, pieces, styles, lists: Vec::new(), code: None, table: None, links: Vec::new() }
    }

    fn take(&mut self, event: Event<'_>, range: &Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.text(&text, range, self.style()),
            },
            Event::Code(text) => self.text(&text, range, merged(self.style(), CYAN)),
            Event::Html(text) | Event::InlineHtml(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(text.trim_end_matches('\n'), range, self.style());
            }
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]"), range, self.style()),
            Event::SoftBreak => self.push(self.style(), " "),
            Event::HardBreak => self.push(self.style(), "\n"),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.room());
                self.line(&terminal::paint(DIM, rule));
            }
            Event::TaskListMarker(is_done) => self.push(self.style(), if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                let is_first_of_item = self.prefixes.last().is_some_and(|prefix| prefix.first.is_some());
                if !is_first_of_item {
                    self.gap();
                }
            }
            Tag::Heading { level, .. } => {
                self.gap();
                let is_high = matches!(level, HeadingLevel::H1 | HeadingLevel::H2);
                self.styles.push(if is_high { BOLD.effects(BOLD.get_effects() | Effects::UNDERLINE) } else { BOLD });
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.gap();
                let bar = terminal::paint(DIM, QUOTE.trim_end());
                self.prefixes.push(Prefix { first: None, rest: format!("{bar} ") });
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.gap();
                if let CodeBlockKind::Fenced(language) = kind
                    && let Some(language) = language.split_whitespace().next()
                {
                    self.line(&terminal::paint(DIM, format!("{CODE_INDENT}{}", evidence::visible(language))));
                }
                self.code = Some(String::new());
            }
            Tag::List(number) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(number);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(wrap::width(&mark));
                self.prefixes.push(Prefix { first: Some(mark), rest });
            }
            Tag::Table(alignments) => {
                self.flush();
                self.gap();
                self.table = Some(Table::new(alignments.iter().map(|side| *side == Alignment::Right).collect()));
            }
            Tag::TableHead => self.styles.push(merged(self.style(), BOLD)),
            Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.styles.push(self.style().italic()),
            Tag::Strong => self.styles.push(self.style().bold()),
            Tag::Strikethrough => self.styles.push(self.style().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push((dest_url.into_string(), self.pieces.len())),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                for line in evidence::visible(&code).trim_end_matches('\n').split('\n') {
                    self.line(&format!("{CODE_INDENT}{}", terminal::paint(CYAN, line.replace('\t', "    "))));
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                // An item without text still has its marker.
                if self.prefixes.last().is_some_and(|prefix| prefix.first.is_some()) {
                    self.line("");
                }
                self.prefixes.pop();
            }
            TagEnd::TableHead => {
                self.styles.pop();
                if let Some(table) = &mut self.table {
                    table.end_head();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.pieces);
                if let Some(table) = &mut self.table {
                    table.add(cell);
                }
            }
            TagEnd::Table => {
                let lines = self.table.take().map(|table| table.lines(self.room())).unwrap_or_default();
                lines.iter().for_each(|line| self.line(line));
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    /// The address follows the text, unless it is the text.
    fn end_link(&mut self) {
        let Some((address, from)) = self.links.pop() else { return };
        let shown: String = self.pieces.get(from..).unwrap_or_default().iter().map(|piece| piece.text.as_str()).collect();
        let is_same = shown == address || address.strip_prefix("mailto:") == Some(shown.as_str());
        if !is_same && !address.is_empty() {
            let space = if shown.is_empty() { "" } else { " " };
            self.push(DIM, &format!("{space}({address})"));
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push(&mut self, style: Style, text: &str) {
        let text = evidence::visible(text);
        if !text.is_empty() {
            self.pieces.push(Piece { style, text });
        }
    }

    /// Text of a range of the source, split at the boundaries of marks.
    fn text(&mut self, text: &str, range: &Range<usize>, style: Style) {
        let marks: Vec<&Mark> = self.marks.iter().filter(|(marked, _)| marked.start < range.end && range.start < marked.end).collect();
        if self.source.get(range.clone()) != Some(text) {
            // An entity or an escape: it is marked as a whole.
            let marked = marks.first().map_or(style, |(_, mark)| merged(style, *mark));
            return self.push(marked, text);
        }
        let mut at = range.start;
        for (marked, mark) in marks {
            let (from, to) = (marked.start.max(at), marked.end.min(range.end));
            if let (Some(before), Some(within)) = (self.source.get(at..from), self.source.get(from..to)) {
                self.push(style, before);
                self.push(merged(style, *mark), within);
                at = to;
            }
        }
        self.push(style, self.source.get(at..range.end).unwrap_or_default());
    }

    /// Columns left for text by the open blocks.
    fn room(&self) -> usize {
        let used: usize = self.prefixes.iter().map(|prefix| wrap::width(&prefix.rest)).sum();
        self.width.saturating_sub(used).max(WIDTH_MIN / 2)
    }

    /// An empty line between two blocks.
    fn gap(&mut self) {
        let is_begun = self.prefixes.iter().any(|prefix| prefix.first.is_some());
        if !self.lines.is_empty() && !is_begun {
            self.line("");
        }
    }

    fn line(&mut self, text: &str) {
        let prefix: String = self.prefixes.iter_mut().map(|prefix| prefix.first.take().unwrap_or_else(|| prefix.rest.clone())).collect();
        let line = format!("{prefix}{text}");
        self.lines.push(if text.is_empty() { line.trim_end().to_owned() } else { line });
    }

    /// Ends the open block.
    fn flush(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        if pieces.iter().all(|piece| piece.text.trim().is_empty()) {
            return;
        }
        for line in wrap::lines(&pieces, self.room()) {
            self.line(&wrap::painted(&line));
        }
    }
}

/// One style over another; of two colours the second is used.
fn merged(below: Style, above: Style) -> Style {
    let style = below.effects(below.get_effects() | above.get_effects());
    above.get_fg_color().map_or(style, |colour| style.fg_color(Some(colour)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use terminal::RED;

    fn plain(markdown: &str, width: usize) -> String {
        anstream::adapter::strip_str(&render(markdown, width, &[])).to_string()
    }

    #[test]
    fn blocks_are_laid_out_to_the_width() {
        let cases = [
            ("# Title\n\nSome **bold** and `code` and *more*.", "Title\n\nSome bold and code\nand more."),
            ("one two three four five six", "one two three four\nfive six"),
            ("- one two three four five six\n- b\n  - c\n\nEnd.", "• one two three four\n  five six\n• b\n  • c\n\nEnd."),
            ("3. a\n4. b", "3. a\n4. b"),
            ("> quoted text that is long", "│ quoted text that\n│ is long"),
            ("Code:\n\n```sh\nls -l | a_very_long_command_line\n\ttab\n```", "Code:\n\n    sh\n    ls -l | a_very_long_command_line\n        tab"),
            ("[text](https://a.bc) <https://a.bc>", "text (https://a.bc)\nhttps://a.bc"),
            ("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"),
            ("a\n\n---\n\nb", "a\n\n────────────────────\n\nb"),
            ("As [1] says, 3 < 4 &amp; 2 * 3.", "As [1] says, 3 < 4 &\n2 * 3."),
            ("1. a\n\n   b\n\n2. c", "1. a\n\n   b\n2. c"),
            ("漢字漢字漢字漢字漢字漢字", "漢字漢字漢字漢字漢字\n漢字"),
            ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrst\nuvwxyz"),
            ("", ""),
        ];
        for (markdown, expected) in cases {
            assert_eq!(plain(markdown, 20), expected, "{markdown:?}");
        }
    }

    #[test]
    fn tables_keep_their_columns_and_the_width() {
        let table = "| Name | Count |\n|---|---:|\n| apples | 3 |\n| a much longer name of a fruit | 12 |";
        assert_eq!(
            plain(table, 60),
            "Name                          │ Count\n──────────────────────────────┼──────\napples                        │     3\na much longer name of a fruit │    12"
        );
        let narrow = plain(table, 24);
        assert!(narrow.lines().all(|line| wrap::width(line) <= 24), "{narrow}");
        assert!(narrow.contains("longer") && narrow.contains("fruit"), "{narrow}");
    }

    #[test]
    fn bold_and_marks_are_styles() {
        let rendered = render("A **b** c. Bad **d**.", 80, &[(11..21, RED)]);
        assert!(rendered.contains(&terminal::paint(BOLD, "b")), "{rendered:?}");
        assert!(rendered.contains(&terminal::paint(RED, "Bad")) && rendered.contains(&terminal::paint(RED.bold(), "d")), "{rendered:?}");
        assert!(!render("plain words", 80, &[]).contains('\u{1b}'));
    }
}

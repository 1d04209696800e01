//! Parses Markdown into a small tree, which each format then writes.
//!
//! Citations become notes here: `[^x]` with its definition, and `[n]` or `[^n]` where `n` is the number of a source. Notes are numbered in
//! the order of their first use, as in word processors.

use std::collections::{BTreeSet, HashMap};
use std::iter::Peekable;
use std::vec::IntoIter;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag};

use super::{DocumentError, Source, autolink};

/// Limit of nested lists and quotes, far from any stack limit.
pub(super) const NESTING_MAX: usize = 16;

/// A longer address is not a link: it would be repeated for every line of its text.
const ADDRESS_BYTES_MAX: usize = 2_000;

/// Placeholder for an escaped bracket while citations are parsed; a private-use character.
const ESCAPED: char = '\u{E001}';

#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) title: Option<String>,
    pub(super) blocks: Vec<Block>,
    pub(super) notes: Vec<Vec<Inline>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Block {
    Heading { level: u8, inside: Vec<Inline> },
    Paragraph { inside: Vec<Inline> },
    List { start: Option<u64>, items: Vec<Vec<Block>> },
    Quote { inside: Vec<Block> },
    Code { language: String, text: String },
    Table { align: Vec<Align>, head: Vec<Vec<Inline>>, rows: Vec<Vec<Vec<Inline>>> },
    Rule,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Inline {
    Text {
        text: String,
    },
    Code {
        text: String,
    },
    Strong {
        inside: Vec<Inline>,
    },
    Emphasis {
        inside: Vec<Inline>,
    },
    Strike {
        inside: Vec<Inline>,
    },
    Link {
        to: String,
        inside: Vec<Inline>,
    },
    /// Counted from one; `first` at the first use of the number.
    Note {
        number: usize,
        first: bool,
    },
    Break,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Align {
    Start,
    Center,
    End,
}

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

pub(super) fn read(markdown: &str, title: Option<&str>, sources: &[Source]) -> Result<Page, DocumentError> {
    let events = Parser::new_ext(markdown, options()).into_offset_iter().map(|(event, range)| match event {
        // An escaped bracket is not a citation.
        Event::Text(text) if text.starts_with('[') && markdown[..range.start].ends_with('\\') => {
            Event::Text(text.replacen('[', &ESCAPED.to_string(), 1).into())
        }
        event => event,
    });
    let events: Vec<Event<'_>> = events.collect();
    let defined =
        events.iter().filter_map(|event| if let Event::Start(Tag::FootnoteDefinition(label)) = event { Some(label.to_string()) } else { None });
    let mut reader = Reader {
        defined: defined.collect(),
        events: events.into_iter().peekable(),
        sources,
        met: Vec::new(),
        numbers: HashMap::new(),
        definitions: HashMap::new(),
        in_note: false,
    };
    let mut blocks = reader.blocks(0)?;
    let uncited: Vec<&Source> =
        sources.iter().enumerate().filter(|(i, _)| !reader.numbers.contains_key(&FoundMark::Source(i + 1))).map(|(_, source)| source).collect();
    if !uncited.is_empty() {
        let words = if uncited.len() == sources.len() { "Sources" } else { "Further sources" };
        blocks.push(Block::Heading { level: 2, inside: vec![Inline::text(words)] });
        let items = uncited.into_iter().map(|source| vec![Block::Paragraph { inside: source.inlines() }]).collect();
        blocks.push(Block::List { start: Some(1), items });
    }
    let notes = reader.met.iter().map(|met| match met {
        FoundMark::Source(number) => reader.sources[number - 1].inlines(),
        FoundMark::Label(label) => reader.definitions.get(label).cloned().unwrap_or_default(),
    });
    let notes = notes.collect();
    let title = title.map(clean).map(|title| title.trim().to_owned()).filter(|title| !title.is_empty());
    Ok(Page { title, blocks, notes })
}

impl Page {
    /// The title as a line of its own, unless the text begins with it.
    pub(super) fn shown_title(&self) -> Option<&str> {
        let title = self.title.as_deref()?;
        match self.blocks.first() {
            Some(Block::Heading { inside, .. }) if plain(inside).trim() == title => None,
            _ => Some(title),
        }
    }
}

impl Inline {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Inline::Text { text: text.into() }
    }
}

impl Source {
    fn inlines(&self) -> Vec<Inline> {
        let (title, address) = (clean(&self.title), clean(&self.address));
        match (title.trim(), address.trim()) {
            ("", address) => vec![link(address, vec![Inline::text(address)])],
            (title, "") => vec![Inline::text(title)],
            (title, address) => vec![Inline::text(format!("{title}. ")), link(address, vec![Inline::text(address)])],
        }
    }
}

/// The text without markup.
pub(super) fn plain(inlines: &[Inline]) -> String {
    let mut out = String::new();
    for inline in inlines {
        match inline {
            Inline::Text { text } | Inline::Code { text } => out.push_str(text),
            Inline::Strong { inside } | Inline::Emphasis { inside } | Inline::Strike { inside } | Inline::Link { inside, .. } => {
                out.push_str(&plain(inside));
            }
            Inline::Note { .. } => {}
            Inline::Break => out.push(' '),
        }
    }
    out
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FoundMark {
    Label(String),
    Source(usize),
}

struct Reader<'a> {
    events: Peekable<IntoIter<Event<'a>>>,
    defined: BTreeSet<String>,
    sources: &'a [Source],
    met: Vec<FoundMark>,
    /// The note number of each.
    numbers: HashMap<FoundMark, usize>,
    definitions: HashMap<String, Vec<Inline>>,
    /// Notes have no notes of their own: a citation inside is text.
    in_note: bool,
}

impl Reader<'_> {
    /// All blocks up to the end of the current element, which the caller consumes.
    fn blocks(&mut self, depth: usize) -> Result<Vec<Block>, DocumentError> {
        if depth > NESTING_MAX {
            return Err(DocumentError::Invalid(format!("the text is nested more than {NESTING_MAX} levels deep: flatten its lists and quotes")));
        }
        let mut blocks = Vec::new();
        while let Some(event) = self.events.peek() {
            match event {
                Event::End(_) => break,
                Event::Rule => {
                    self.events.next();
                    blocks.push(Block::Rule);
                }
                Event::Start(tag) if !is_inline(tag) => {
                    let tag = tag.clone();
                    self.events.next();
                    let block = self.block(&tag, depth + 1)?;
                    self.events.next();
                    blocks.extend(block);
                }
                // Items of a tight list have their text without a paragraph.
                _ => blocks.push(Block::Paragraph { inside: self.inlines(depth + 1)? }),
            }
        }
        Ok(blocks)
    }

    fn block(&mut self, tag: &Tag<'_>, depth: usize) -> Result<Option<Block>, DocumentError> {
        Ok(match tag {
            Tag::Heading { level, .. } => Some(Block::Heading { level: *level as u8, inside: self.inlines(depth)? }),
            Tag::BlockQuote(_) => Some(Block::Quote { inside: self.blocks(depth)? }),
            Tag::CodeBlock(kind) => {
                let language = if let CodeBlockKind::Fenced(words) = kind {
                    words.split_whitespace().next().unwrap_or_default().to_owned()
                } else {
                    String::new()
                };
                let text = self.raw();
                Some(Block::Code { language, text: text.trim_end_matches('\n').to_owned() })
            }
            // HTML is shown as text: nothing is lost, and nothing runs.
            Tag::HtmlBlock => {
                let text = self.raw();
                let lines = text.trim_end().lines().map(Inline::text).collect::<Vec<_>>();
                Some(Block::Paragraph { inside: lines_apart(lines) })
            }
            Tag::List(start) => {
                let mut items = Vec::new();
                while let Some(Event::Start(Tag::Item)) = self.events.peek() {
                    self.events.next();
                    items.push(self.blocks(depth)?);
                    self.events.next();
                }
                Some(Block::List { start: *start, items })
            }
            Tag::FootnoteDefinition(label) => {
                let was = std::mem::replace(&mut self.in_note, true);
                let inside = flatten(self.blocks(depth)?);
                self.in_note = was;
                self.definitions.entry(label.to_string()).or_insert(inside);
                None
            }
            Tag::Table(align) => Some(self.table(align, depth)?),
            Tag::Paragraph => Some(Block::Paragraph { inside: self.inlines(depth)? }),
            _ => {
                // Block kinds that are not enabled; their text is kept.
                Some(Block::Quote { inside: self.blocks(depth)? })
            }
        })
    }

    fn table(&mut self, align: &[Alignment], depth: usize) -> Result<Block, DocumentError> {
        let align = align.iter().map(|align| match align {
            Alignment::Center => Align::Center,
            Alignment::Right => Align::End,
            Alignment::Left | Alignment::None => Align::Start,
        });
        let align = align.collect();
        let (mut head, mut rows) = (Vec::new(), Vec::new());
        while let Some(Event::Start(part @ (Tag::TableHead | Tag::TableRow))) = self.events.peek() {
            let is_head = matches!(part, Tag::TableHead);
            self.events.next();
            let mut cells = Vec::new();
            while let Some(Event::Start(Tag::TableCell)) = self.events.peek() {
                self.events.next();
                cells.push(self.inlines(depth)?);
                self.events.next();
            }
            self.events.next();
            if is_head { head = cells } else { rows.push(cells) }
        }
        Ok(Block::Table { align, head, rows })
    }

    fn raw(&mut self) -> String {
        let mut text = String::new();
        while let Some(Event::Text(part) | Event::Html(part)) = self.events.peek() {
            text.push_str(part);
            self.events.next();
        }
        text.replace(ESCAPED, "[").lines().map(clean).collect::<Vec<_>>().join("\n")
    }

    fn inlines(&mut self, depth: usize) -> Result<Vec<Inline>, DocumentError> {
        if depth > NESTING_MAX {
            return Err(DocumentError::Invalid(format!("the text is nested more than {NESTING_MAX} levels deep: flatten its marks")));
        }
        let mut inlines = Vec::new();
        // Text comes in pieces; citations are only recognized in the whole.
        let mut words = String::new();
        while let Some(event) = self.events.peek() {
            if matches!(event, Event::End(_) | Event::Rule) || matches!(event, Event::Start(tag) if !is_inline(tag)) {
                break;
            }
            let Some(event) = self.events.next() else { break };
            match event {
                Event::Text(text) => {
                    words.push_str(&text);
                    continue;
                }
                Event::SoftBreak => {
                    words.push(' ');
                    continue;
                }
                Event::TaskListMarker(done) => {
                    words.push_str(if done { "[x] " } else { "[ ] " });
                    continue;
                }
                Event::InlineHtml(html) | Event::Html(html) if !is_break(&html) => {
                    words.push_str(&html);
                    continue;
                }
                _ => self.cited(&mut words, &mut inlines),
            }
            match event {
                Event::Start(tag) => {
                    let inside = self.inlines(depth + 1)?;
                    self.events.next();
                    inlines.push(marked(&tag, inside));
                }
                Event::Code(text) => inlines.push(Inline::Code { text: clean(&text) }),
                Event::FootnoteReference(label) => match label.parse() {
                    _ if self.defined.contains(&*label) => self.meet(FoundMark::Label(label.to_string()), &mut inlines),
                    Ok(number) if (1..=self.sources.len()).contains(&number) => self.meet(FoundMark::Source(number), &mut inlines),
                    _ => inlines.push(Inline::text(format!("[^{}]", clean(&label)))),
                },
                _ => inlines.push(Inline::Break),
            }
        }
        self.cited(&mut words, &mut inlines);
        Ok(inlines)
    }

    fn meet(&mut self, met: FoundMark, inlines: &mut Vec<Inline>) {
        if self.in_note {
            inlines.push(Inline::text(match met {
                FoundMark::Label(label) => format!("[^{label}]"),
                FoundMark::Source(number) => format!("[{number}]"),
            }));
            return;
        }
        let known = self.numbers.get(&met).copied();
        let number = known.unwrap_or(self.met.len() + 1);
        if known.is_none() {
            self.met.push(met.clone());
            self.numbers.insert(met, number);
        }
        inlines.push(Inline::Note { number, first: known.is_none() });
    }

    /// Appends the collected text, with its citations as notes.
    fn cited(&mut self, words: &mut String, inlines: &mut Vec<Inline>) {
        let text = clean(&std::mem::take(words));
        let mut rest = 0;
        let cited = if self.in_note { Vec::new() } else { citations(&text, self.sources.len()) };
        for (range, numbers) in cited {
            // The space before a superscript number is removed.
            let before = text[rest..range.start].trim_end_matches(' ');
            if !before.is_empty() {
                inlines.extend(autolink::linked(&before.replace(ESCAPED, "[")));
            }
            for number in numbers {
                self.meet(FoundMark::Source(number), inlines);
            }
            rest = range.end;
        }
        if rest < text.len() {
            inlines.extend(autolink::linked(&text[rest..].replace(ESCAPED, "[")));
        }
    }
}

/// Citations of sources by number: `[1]`, `[^1]`, `[1, 3]`. Unknown numbers are text.
pub(super) fn citations(text: &str, sources: usize) -> Vec<(std::ops::Range<usize>, Vec<usize>)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find('[').map(|at| at + from) {
        from = open + 1;
        // Only digits and separators are scanned, so that an unclosed bracket costs nothing.
        let is_other = |c: char| !(c.is_ascii_digit() || c.is_ascii_whitespace() || matches!(c, ',' | '^' | '+'));
        let Some(close) = text[from..].find(is_other).map(|at| at + from).filter(|at| text[*at..].starts_with(']')) else { continue };
        let numbers = text[open + 1..close].split(',').map(|part| part.trim().trim_start_matches('^').parse::<usize>());
        let numbers: Result<Vec<_>, _> = numbers.collect();
        if let Ok(numbers) = numbers
            && numbers.iter().all(|number| (1..=sources).contains(number))
        {
            found.push((open..close + 1, numbers));
            from = close + 1;
        }
    }
    found
}

fn marked(tag: &Tag<'_>, inside: Vec<Inline>) -> Inline {
    match tag {
        Tag::Strong => Inline::Strong { inside },
        Tag::Strikethrough => Inline::Strike { inside },
        Tag::Link { dest_url, .. } => link(dest_url, inside),
        // An image is not fetched: its description and address are kept.
        Tag::Image { dest_url, .. } => link(dest_url, if inside.is_empty() { vec![Inline::text("image")] } else { inside }),
        _ => Inline::Emphasis { inside },
    }
}

/// Only web and mail addresses are links; anything else (`javascript:`, `file:`) is text.
fn link(to: &str, inside: Vec<Inline>) -> Inline {
    let to = clean(to);
    let lower = to.to_lowercase();
    let is_link = to.len() <= ADDRESS_BYTES_MAX && ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme));
    match is_link && !to.contains(char::is_whitespace) {
        true => Inline::Link { to, inside: autolink::unlinked(inside) },
        false => Inline::Emphasis { inside },
    }
}

fn is_inline(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. } | Tag::Superscript | Tag::Subscript)
}

fn is_break(html: &str) -> bool {
    matches!(html.trim().to_lowercase().replace(' ', "").as_str(), "<br>" | "<br/>")
}

/// Removes control characters and noncharacters, which no format can contain.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !(matches!(c, '\u{FFFE}' | '\u{FFFF}') || c.is_control() && *c != '\t')).collect()
}

fn lines_apart(lines: Vec<Inline>) -> Vec<Inline> {
    let mut out = Vec::new();
    for line in lines {
        if !out.is_empty() {
            out.push(Inline::Break);
        }
        out.push(line);
    }
    out
}

/// A note is one paragraph, whatever its source.
fn flatten(blocks: Vec<Block>) -> Vec<Inline> {
    let mut out = Vec::new();
    for block in blocks {
        if !out.is_empty() {
            out.push(Inline::Break);
        }
        match block {
            Block::Heading { inside, .. } | Block::Paragraph { inside } => out.extend(inside),
            Block::Code { text, .. } => out.push(Inline::Code { text }),
            Block::Quote { inside } => out.extend(flatten(inside)),
            Block::List { items, .. } => out.extend(flatten(items.into_iter().flatten().collect())),
            Block::Table { head, rows, .. } => {
                for cell in head.into_iter().chain(rows.into_iter().flatten()) {
                    out.extend(cell);
                    out.push(Inline::text(" "));
                }
            }
            Block::Rule => {}
        }
    }
    out
}

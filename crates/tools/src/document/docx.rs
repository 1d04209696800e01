//! Writes DOCX with Word's own styles, numbering and footnotes, so that it stays editable.
//!
//! Addresses in footnotes are text and not links: docx-rs writes no relations for the footnotes part.

use std::io::Cursor;

use docx_rs::{
    AbstractNumbering, AlignmentType, BreakType, Docx, Footer, Footnote, Hyperlink, HyperlinkType, IndentLevel, Level, LevelJc, LevelOverride,
    LevelText, LineSpacing, NumberFormat, Numbering, NumberingId, PageNum, Paragraph, Run, RunFonts, RunProperty, Shading, ShdType,
    SpecialIndentType, Start, Style, StyleType, Table, TableCell, TableRow, VertAlignType, WidthType,
};

use super::DocumentError;
use super::page::{Align, Block, Inline, Page, plain};

const BULLETS: usize = 2;
const NUMBERS: usize = 3;
/// Word has nine levels; deeper ones use the last.
const LEVELS: usize = 9;
/// In twentieths of a point, Word's unit.
const INDENT: i32 = 480;
const MONO: &str = "DejaVu Sans Mono";
/// Placeholder for a note's own number until the XML is written; docx-rs has no element for it.
const OWN_NUMBER: char = '\u{E000}';

pub(super) fn write(page: &Page) -> Result<Vec<u8>, DocumentError> {
    let mut writer = Writer { page, parts: Vec::new(), numberings: Vec::new() };
    if let Some(title) = page.shown_title() {
        writer.parts.push(Part::Words(Box::new(Paragraph::new().style("Title").add_run(Run::new().add_text(title)))));
    }
    writer.blocks(&page.blocks, BlockContext::default());
    let mut docx = styled(Docx::new());
    for numbering in writer.numberings {
        docx = docx.add_numbering(numbering);
    }
    for part in writer.parts {
        docx = match part {
            Part::Words(paragraph) => docx.add_paragraph(*paragraph),
            Part::Table(table) => docx.add_table(*table),
        };
    }
    let mut xml = docx.build();
    let own = format!("<w:r><w:rPr /><w:t xml:space=\"preserve\">{OWN_NUMBER}</w:t></w:r>");
    let number = "<w:r><w:rPr><w:rStyle w:val=\"FootnoteReference\" /></w:rPr><w:footnoteRef /></w:r>";
    xml.footnotes = String::from_utf8_lossy(&xml.footnotes).replace(&own, number).into_bytes();
    xml.doc_props.core = properties(page.title.as_deref().unwrap_or("Document")).into_bytes();
    let mut bytes = Cursor::new(Vec::new());
    xml.pack(&mut bytes).map_err(|e| DocumentError::Broken(format!("the DOCX could not be packed: {e}")))?;
    Ok(bytes.into_inner())
}

enum Part {
    Words(Box<Paragraph>),
    Table(Box<Table>),
}

/// Context of a block.
#[derive(Clone, Copy, Default)]
struct BlockContext {
    depth: usize,
    /// The list's numbering, for the first paragraph of an item.
    item: Option<usize>,
    in_quote: bool,
}

struct Writer<'a> {
    page: &'a Page,
    parts: Vec<Part>,
    numberings: Vec<Numbering>,
}

impl Writer<'_> {
    fn blocks(&mut self, blocks: &[Block], at: BlockContext) {
        let mut at = at;
        for block in blocks {
            match block {
                Block::Heading { level, inside } => {
                    let paragraph = Paragraph::new().style(&format!("Heading{level}"));
                    self.put(inside, paragraph, at);
                }
                Block::Paragraph { inside } => {
                    let paragraph = Paragraph::new();
                    self.put(inside, if at.in_quote { paragraph.style("Quote") } else { paragraph }, at);
                }
                Block::Quote { inside } => self.blocks(inside, BlockContext { in_quote: true, ..at }),
                Block::Code { text, .. } => {
                    let mut run = Run::new();
                    for (i, line) in text.split('\n').enumerate() {
                        if i > 0 {
                            run = run.add_break(BreakType::TextWrapping);
                        }
                        run = run.add_text(line.replace('\t', "    "));
                    }
                    self.parts.push(Part::Words(Box::new(placed(Paragraph::new().style("SourceCode").add_run(run), at))));
                }
                Block::Rule => {
                    self.parts.push(Part::Words(Box::new(Paragraph::new().align(AlignmentType::Center).add_run(Run::new().add_text("* * *")))));
                }
                Block::List { start, items } => self.list(*start, items, at),
                Block::Table { align, head, rows } => self.table(align, head, rows),
            }
            // Only the first paragraph of an item has its number.
            at.item = None;
        }
    }

    fn list(&mut self, start: Option<u64>, items: &[Vec<Block>], at: BlockContext) {
        let level = at.depth.min(LEVELS - 1);
        let numbering = match start {
            None => BULLETS,
            // Each list has its own count.
            Some(start) => {
                let id = 10 + self.numberings.len();
                let from = usize::try_from(start).unwrap_or(1);
                self.numberings.push(Numbering::new(id, NUMBERS).add_override(LevelOverride::new(level).start(from)));
                id
            }
        };
        for item in items {
            let inside = BlockContext { depth: at.depth + 1, item: Some(numbering), ..at };
            match item.first() {
                Some(Block::Paragraph { .. }) => self.blocks(item, inside),
                // An item that begins with another block has its number on its own line.
                _ => {
                    self.parts.push(Part::Words(Box::new(placed(Paragraph::new(), inside))));
                    self.blocks(item, BlockContext { item: None, ..inside });
                }
            }
        }
    }

    fn table(&mut self, align: &[Align], head: &[Vec<Inline>], rows: &[Vec<Vec<Inline>>]) {
        let row = |writer: &Self, cells: &[Vec<Inline>], is_head: bool| {
            let cells = cells.iter().enumerate().map(|(i, inside)| {
                let paragraph = writer.words(inside, Paragraph::new().style(if is_head { "TableHeading" } else { "TableText" }));
                let paragraph = match align.get(i) {
                    Some(Align::Center) => paragraph.align(AlignmentType::Center),
                    Some(Align::End) => paragraph.align(AlignmentType::End),
                    _ => paragraph,
                };
                let cell = TableCell::new().add_paragraph(paragraph);
                if is_head { cell.shading(Shading::new().shd_type(ShdType::Clear).fill("F2F3F5")) } else { cell }
            });
            TableRow::new(cells.collect()).cant_split()
        };
        let mut all = vec![row(self, head, true)];
        all.extend(rows.iter().map(|cells| row(self, cells, false)));
        let table = Table::new(all).style("TableGrid").width(5000, WidthType::Pct);
        self.parts.push(Part::Table(Box::new(table)));
        // Word merges adjacent tables.
        self.parts.push(Part::Words(Box::new(Paragraph::new())));
    }

    fn put(&mut self, inside: &[Inline], paragraph: Paragraph, at: BlockContext) {
        let paragraph = placed(self.words(inside, paragraph), at);
        self.parts.push(Part::Words(Box::new(paragraph)));
    }

    fn words(&self, inlines: &[Inline], mut paragraph: Paragraph) -> Paragraph {
        for piece in self.pieces(inlines, &RunProperty::new()) {
            paragraph = match piece {
                Piece::Run(run) => paragraph.add_run(*run),
                Piece::Link(to, runs) => {
                    let link = runs.into_iter().fold(Hyperlink::new(to, HyperlinkType::External), Hyperlink::add_run);
                    paragraph.add_hyperlink(link)
                }
            };
        }
        paragraph
    }

    fn pieces(&self, inlines: &[Inline], look: &RunProperty) -> Vec<Piece> {
        let run = |run: Run| Piece::Run(Box::new(run));
        let mut out = Vec::new();
        for inline in inlines {
            match inline {
                Inline::Text { text } => out.push(run(looking(Run::new().add_text(text.as_str()), look.clone()))),
                Inline::Code { text } => {
                    let look = look.clone().fonts(mono()).style("CodeText");
                    out.push(run(looking(Run::new().add_text(text.as_str()), look)));
                }
                Inline::Strong { inside } => out.extend(self.pieces(inside, &look.clone().bold())),
                Inline::Emphasis { inside } => out.extend(self.pieces(inside, &look.clone().italic())),
                Inline::Strike { inside } => out.extend(self.pieces(inside, &look.clone().strike())),
                Inline::Link { to, inside } => {
                    let look = look.clone().style("Hyperlink");
                    let runs = self.pieces(inside, &look).into_iter().flat_map(|piece| match piece {
                        Piece::Run(run) => vec![*run],
                        Piece::Link(_, runs) => runs,
                    });
                    out.push(Piece::Link(to.clone(), runs.collect()));
                }
                Inline::Note { number, first: true } => {
                    let words = self.page.notes.get(number - 1).map(|note| plain(note)).unwrap_or_default();
                    let paragraph = Paragraph::new()
                        .style("FootnoteText")
                        .add_run(Run::new().add_text(OWN_NUMBER))
                        .add_run(Run::new().add_text(format!(" {words}")));
                    let note = Footnote::new().add_content(paragraph);
                    out.push(run(Run::new().add_footnote_reference(note).style("FootnoteReference")));
                }
                Inline::Note { number, first: false } => {
                    let raised = RunProperty::new().style("FootnoteReference");
                    out.push(run(looking(Run::new().add_text(number.to_string()), raised)));
                }
                Inline::Break => out.push(run(Run::new().add_break(BreakType::TextWrapping))),
            }
        }
        out
    }
}

enum Piece {
    Run(Box<Run>),
    Link(String, Vec<Run>),
}

fn looking(mut run: Run, look: RunProperty) -> Run {
    run.run_property = look;
    run
}

fn placed(paragraph: Paragraph, at: BlockContext) -> Paragraph {
    let level = at.depth.saturating_sub(1).min(LEVELS - 1);
    match at.item {
        Some(numbering) => paragraph.numbering(NumberingId::new(numbering), IndentLevel::new(level)),
        None if at.depth > 0 => paragraph.indent(Some(INDENT * (level as i32 + 1)), None, None, None),
        None => paragraph,
    }
}

fn styled(docx: Docx) -> Docx {
    let base = |id: &str, name: &str| Style::new(id, StyleType::Paragraph).name(name).based_on("Normal");
    let mut docx = docx
        .default_size(22)
        .default_fonts(RunFonts::new().ascii("Calibri").hi_ansi("Calibri").cs("Calibri"))
        .default_line_spacing(LineSpacing::new().after(140).line(276))
        .add_style(base("Title", "Title").size(44).bold().line_spacing(LineSpacing::new().after(240)))
        .add_style(base("Quote", "Quote").italic().color("4A4F57").indent(Some(INDENT), None, None, None))
        .add_style(base("SourceCode", "Source Code").fonts(mono()).size(18))
        .add_style(base("FootnoteText", "footnote text").size(18).line_spacing(LineSpacing::new().after(0)))
        .add_style(base("TableText", "Table Text").line_spacing(LineSpacing::new().after(0)))
        .add_style(base("TableHeading", "Table Heading").bold().line_spacing(LineSpacing::new().after(0)))
        .add_style(Style::new("CodeText", StyleType::Character).name("Code Text").fonts(mono()).size(19))
        .add_style(Style::new("Hyperlink", StyleType::Character).name("Hyperlink").color("0B57A4").underline("single"))
        .add_style(raised())
        .add_style(Style::new("TableGrid", StyleType::Table).name("Table Grid"));
    for level in 1..=6_usize {
        let style = base(&format!("Heading{level}"), &format!("heading {level}")).bold().size([36, 30, 26, 24, 22, 22][level - 1]);
        docx = docx.add_style(style.outline_lvl(level - 1).next("Normal").line_spacing(LineSpacing::new().before(280).after(120)));
    }
    let mut bullets = AbstractNumbering::new(BULLETS);
    let mut numbers = AbstractNumbering::new(NUMBERS);
    for level in 0..LEVELS {
        let indent = |made: Level| made.indent(Some(INDENT * (level as i32 + 1)), Some(SpecialIndentType::Hanging(INDENT * 3 / 4)), None, None);
        let made =
            |format: &str, text: String| Level::new(level, Start::new(1), NumberFormat::new(format), LevelText::new(text), LevelJc::new("left"));
        bullets = bullets.add_level(indent(made("bullet", ["•", "◦", "–"][level % 3].into())));
        numbers = numbers.add_level(indent(made(["decimal", "lowerLetter", "lowerRoman"][level % 3], format!("%{}.", level + 1))));
    }
    docx.add_abstract_numbering(bullets)
        .add_abstract_numbering(numbers)
        .add_numbering(Numbering::new(BULLETS, BULLETS))
        .footer(Footer::new().add_paragraph(Paragraph::new().align(AlignmentType::Center).add_page_num(PageNum::new())))
}

fn raised() -> Style {
    let mut style = Style::new("FootnoteReference", StyleType::Character).name("footnote reference");
    style.run_property = style.run_property.vert_align(VertAlignType::SuperScript);
    style
}

fn mono() -> RunFonts {
    RunFonts::new().ascii(MONO).hi_ansi(MONO).cs(MONO)
}

/// The document's properties, without a date: the same document has the same bytes.
fn properties(title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\
         <cp:coreProperties xmlns:cp=\"http://schemas.openxmlformats.org/package/2006/metadata/core-properties\" \
         xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><dc:title>{title}</dc:title><dc:creator>Baton</dc:creator></cp:coreProperties>"
    )
}

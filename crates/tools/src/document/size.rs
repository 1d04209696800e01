//! How much a document may be made of. Laying out takes hundreds of bytes for each word and cell, whatever they were in Markdown.

use super::DocumentError;
use super::page::{Block, Inline, Page};

const PARTS_MAX: usize = 60_000;
const WORDS_MAX: usize = 400_000;
/// As many as Word allows.
const COLUMNS_MAX: usize = 63;

/// How much a page is made of.
#[derive(Default)]
struct Size {
    /// Blocks, cells, and stretches of text of one look.
    parts: usize,
    words: usize,
    columns: usize,
}

impl Page {
    /// Says what of the page is too much for a format that is laid out.
    pub(super) fn check_size(&self) -> Result<(), DocumentError> {
        let mut size = Size::default();
        size.add_blocks(&self.blocks);
        self.notes.iter().for_each(|note| size.add_inlines(note));
        let limits = [
            (size.parts, PARTS_MAX, "paragraphs, cells and pieces of formatted text"),
            (size.words, WORDS_MAX, "words"),
            (size.columns, COLUMNS_MAX, "columns in one table"),
        ];
        match limits.into_iter().find(|(found, max, _)| found > max) {
            Some((found, max, what)) => {
                Err(DocumentError::Invalid(format!("the document has {found} {what}, more than the {max} allowed; split it, or use markdown")))
            }
            None => Ok(()),
        }
    }
}

impl Size {
    fn add_blocks(&mut self, blocks: &[Block]) {
        self.parts += blocks.len();
        for block in blocks {
            match block {
                Block::Heading { inside, .. } | Block::Paragraph { inside } => self.add_inlines(inside),
                Block::Quote { inside } => self.add_blocks(inside),
                Block::List { items, .. } => {
                    self.parts += items.len();
                    items.iter().for_each(|item| self.add_blocks(item));
                }
                Block::Code { text, .. } => self.add_text(text),
                Block::Table { align, head, rows } => {
                    self.columns = self.columns.max(align.len()).max(head.len());
                    for row in std::iter::once(head).chain(rows) {
                        self.parts += row.len();
                        row.iter().for_each(|cell| self.add_inlines(cell));
                    }
                }
                Block::Rule => {}
            }
        }
    }

    fn add_inlines(&mut self, inlines: &[Inline]) {
        self.parts += inlines.len();
        for inline in inlines {
            match inline {
                Inline::Text { text } | Inline::Code { text } => self.add_text(text),
                Inline::Strong { inside } | Inline::Emphasis { inside } | Inline::Strike { inside } | Inline::Link { inside, .. } => {
                    self.add_inlines(inside);
                }
                Inline::Note { .. } | Inline::Break => {}
            }
        }
    }

    /// Counts what a line may be broken at.
    fn add_text(&mut self, text: &str) {
        self.words += 1 + text.bytes().filter(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'-' | b'/' | 0xE2..=0xF4)).count();
    }
}

//! Size limits of documents. Layout needs hundreds of bytes for each word and cell, whatever their size in Markdown.

use super::DocumentError;
use super::page::{Block, Inline, Page};

const PARTS_MAX: usize = 60_000;
const WORDS_MAX: usize = 400_000;
/// The limit of Word.
const COLUMNS_MAX: usize = 63;

/// Size of a page's content.
#[derive(Default)]
struct Size {
    /// Blocks, cells, and runs of text of one style.
    parts: usize,
    words: usize,
    columns: usize,
}

impl Page {
    /// Returns an error if the page is too large for a format with layout.
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

    /// Counts break opportunities.
    fn add_text(&mut self, text: &str) {
        self.words += 1 + text.bytes().filter(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'-' | b'/' | 0xE2..=0xF4)).count();
    }
}

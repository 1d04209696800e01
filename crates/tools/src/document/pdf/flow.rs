//! Lays out blocks on pages. Footnotes are placed at the bottom of the page with their first citation.

use std::sync::Arc;

use super::bidi;
use super::fonts::Fonts;
use super::lines::{BLACK, GREY, Line, Piece, Setter, TextStyle};
use crate::document::DocumentError;
use crate::document::page::{Align, Block, Inline, Page, plain};

/// Points; A4.
pub(super) const PAGE_WIDTH: f32 = 595.28;
pub(super) const PAGE_HEIGHT: f32 = 841.89;
const SIDE: f32 = 68.0;
const TOP: f32 = 72.0;
const FOOT: f32 = PAGE_HEIGHT - 76.0;
const TEXT: f32 = 11.0;
const SMALL: f32 = 9.0;
const LEADING: f32 = 1.38;
const GAP: f32 = 7.0;
const INDENT: f32 = 20.0;
const PAD: f32 = 4.5;
const RULE: [u8; 3] = [175, 175, 180];
const PALE: [u8; 3] = [243, 244, 246];
/// Maximum share of a page for notes; the rest continues on the next page.
const NOTES_SHARE: f32 = 0.6;
const PAGES_MAX: usize = 5_000;
/// Limit of text pieces, boxes and links of all pages.
const DRAWN_MAX: usize = 2_000_000;
/// The header of a table is repeated on each page unless it has more lines than this.
const HEAD_LINES_MAX: usize = 8;

pub(super) enum DrawOp {
    Text { x: f32, y: f32, piece: Piece },
    Box { x: f32, y: f32, width: f32, height: f32, color: [u8; 3] },
    Link { x: f32, y: f32, width: f32, height: f32, to: Arc<str> },
}

pub(super) struct Mark {
    pub(super) words: String,
    pub(super) page: usize,
    pub(super) y: f32,
}

pub(super) struct Set {
    pub(super) pages: Vec<Vec<DrawOp>>,
    pub(super) headings: Vec<Mark>,
}

pub(super) struct Flow<'a> {
    setter: Setter<'a>,
    page: &'a Page,
    done: Vec<Vec<DrawOp>>,
    now: Vec<DrawOp>,
    headings: Vec<Mark>,
    y: f32,
    /// The lines of notes on this page, and those that did not fit.
    notes: Vec<Line>,
    late: Vec<Line>,
    left: f32,
    right: f32,
    /// Positions of the bars of quotes.
    bars: Vec<f32>,
    drawn: usize,
    is_too_long: bool,
}

impl<'a> Flow<'a> {
    pub(super) fn set(fonts: &'a Fonts, page: &'a Page) -> Result<Set, DocumentError> {
        let mut flow = Flow {
            setter: Setter::new(fonts.faces()?),
            page,
            done: Vec::new(),
            now: Vec::new(),
            headings: Vec::new(),
            y: TOP,
            notes: Vec::new(),
            late: Vec::new(),
            left: SIDE,
            right: PAGE_WIDTH - SIDE,
            bars: Vec::new(),
            drawn: 0,
            is_too_long: false,
        };
        if let Some(title) = page.shown_title() {
            let look = TextStyle { bold: true, ..TextStyle::plain(20.0) };
            flow.words(&[Inline::text(title)], &look);
            flow.y += 10.0;
        }
        flow.blocks(&page.blocks);
        flow.turn();
        while !(flow.is_too_long || flow.notes.is_empty() && flow.late.is_empty()) {
            flow.turn();
        }
        match flow.is_too_long {
            true => Err(DocumentError::Invalid(format!(
                "the document would have more than {PAGES_MAX} pages, or too much on them; split it, or use html"
            ))),
            false => Ok(Set { pages: flow.done, headings: flow.headings }),
        }
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            if self.is_too_long {
                return;
            }
            match block {
                Block::Heading { level, inside } => self.heading(*level, inside),
                Block::Paragraph { inside } => {
                    self.words(inside, &TextStyle::plain(TEXT));
                    self.y += GAP;
                }
                Block::Quote { inside } => {
                    self.bars.push(self.left + 4.0);
                    self.left += INDENT;
                    self.blocks(inside);
                    self.left -= INDENT;
                    self.bars.pop();
                }
                Block::Code { text, .. } => self.code(text),
                Block::Rule => {
                    self.ensure_height(2.0 * GAP);
                    self.now.push(DrawOp::Box { x: self.left, y: self.y + GAP / 2.0, width: self.right - self.left, height: 0.6, color: RULE });
                    self.y += 2.0 * GAP;
                }
                Block::List { start, items } => self.list(*start, items),
                Block::Table { align, head, rows } => self.table(align, head, rows),
            }
        }
    }

    fn heading(&mut self, level: u8, inside: &[Inline]) {
        let size = [18.0, 15.0, 13.0, 12.0, 11.0, 11.0][usize::from(level.clamp(1, 6)) - 1];
        let look = TextStyle { bold: true, ..TextStyle::plain(size) };
        if self.y > TOP {
            self.y += size * 0.7;
        }
        // Not alone at the bottom of a page.
        self.ensure_height(size * LEADING + 3.0 * TEXT * LEADING);
        self.headings.push(Mark { words: plain(inside), page: self.done.len(), y: self.y });
        self.words(inside, &look);
        self.y += size * 0.3;
    }

    fn list(&mut self, start: Option<u64>, items: &[Vec<Block>]) {
        let look = TextStyle::plain(TEXT);
        for (i, item) in items.iter().enumerate() {
            let marker = match start {
                Some(start) => format!("{}.", start.saturating_add(i as u64)),
                None => "•".to_owned(),
            };
            self.ensure_height(TEXT * LEADING);
            let (page, y) = (self.done.len(), self.y);
            let is_right_to_left = begins_right(item);
            let (left, right) = (self.left, self.right);
            if is_right_to_left {
                self.right -= INDENT;
            } else {
                self.left += INDENT;
            }
            self.blocks(item);
            (self.left, self.right) = (left, right);
            // The marker is placed where the item began, possibly on a finished page.
            if let Some(line) = self.setter.lines(&[Inline::text(marker)], &look, f32::INFINITY).pop() {
                let x = if is_right_to_left { self.right - INDENT + 6.0 } else { self.left + INDENT - 6.0 - line.width };
                let drawn = line.pieces.into_iter().map(|piece| DrawOp::Text { x, y: y + TEXT, piece });
                match self.done.get_mut(page) {
                    Some(done) => done.extend(drawn),
                    None => self.now.extend(drawn),
                }
            }
            self.y -= GAP * 0.6;
        }
        self.y += GAP * 0.6;
    }

    fn code(&mut self, text: &str) {
        let look = TextStyle { mono: true, ..TextStyle::plain(SMALL) };
        let height = SMALL * LEADING;
        let lines = self.setter.literal(text, &look, self.right - self.left - 2.0 * PAD);
        for line in lines {
            if self.is_too_long {
                return;
            }
            self.ensure_height(height);
            self.now.push(DrawOp::Box { x: self.left, y: self.y, width: self.right - self.left, height: height + 0.5, color: PALE });
            let x = self.left + PAD;
            self.put(line, x, height, SMALL);
        }
        self.y += GAP + 2.0;
    }

    fn words(&mut self, inside: &[Inline], look: &TextStyle) {
        let lines = self.setter.lines(inside, look, self.right - self.left);
        for line in lines {
            if self.is_too_long {
                return;
            }
            let height = look.size * LEADING;
            let notes = self.notes_of(&line);
            self.ensure_height_with(height, &notes);
            for bar in self.bars.clone() {
                self.now.push(DrawOp::Box { x: bar, y: self.y, width: 2.0, height: height + 1.0, color: RULE });
            }
            self.take_notes(notes);
            let x = if line.is_right_to_left { self.right - line.width } else { self.left };
            self.put(line, x, height, look.size);
        }
    }

    fn table(&mut self, align: &[Align], head: &[Vec<Inline>], rows: &[Vec<Vec<Inline>>]) {
        let columns = align.len().max(1);
        let normal = TextStyle::plain(TEXT - 1.0);
        let strong = TextStyle { bold: true, ..normal.clone() };
        let mut naturals = vec![0.0_f32; columns];
        for (row, look) in std::iter::once((head, &strong)).chain(rows.iter().map(|row| (row.as_slice(), &normal))) {
            for (i, cell) in row.iter().enumerate().take(columns) {
                naturals[i] = naturals[i].max(self.setter.natural(cell, look));
            }
        }
        let widths = shares(&naturals, self.right - self.left - columns as f32 * 2.0 * PAD);
        let header: Vec<Vec<Line>> =
            (0..columns).map(|i| head.get(i).map(|cell| self.setter.lines(cell, &strong, widths[i])).unwrap_or_default()).collect();
        let repeated = Some(&header).filter(|header| header.iter().all(|cell| cell.len() <= HEAD_LINES_MAX)).cloned();
        self.row(header, &widths, align, true, None);
        for row in rows {
            if self.is_too_long {
                return;
            }
            let cells = (0..columns).map(|i| row.get(i).map(|cell| self.setter.lines(cell, &normal, widths[i])).unwrap_or_default()).collect();
            self.row(cells, &widths, align, false, repeated.as_ref());
        }
        self.y += GAP + 3.0;
    }

    /// A row, split over as many pages as it needs; each new page begins with the header again.
    fn row(&mut self, mut cells: Vec<Vec<Line>>, widths: &[f32], align: &[Align], is_head: bool, head: Option<&Vec<Vec<Line>>>) {
        let height = (TEXT - 1.0) * LEADING;
        while !self.is_too_long {
            let lines = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            let free = ((self.foot() - self.y - 2.0 * PAD) / height).floor().max(0.0) as usize;
            // Rows stay together unless they are longer than a page.
            let page_lines = ((FOOT - TOP) * (1.0 - NOTES_SHARE) / height) as usize;
            if free < lines.min(page_lines) && self.y > TOP + 1.0 {
                self.turn();
                if let Some(head) = head {
                    self.row(head.clone(), widths, align, true, None);
                }
                continue;
            }
            let take = lines.min(free.max(1));
            let part: Vec<Vec<Line>> = cells.iter_mut().map(|cell| cell.drain(..take.min(cell.len())).collect()).collect();
            let notes = part.iter().flatten().flat_map(|line| self.notes_of(line)).collect();
            self.take_notes(notes);
            let tall = take as f32 * height + 2.0 * PAD;
            let mut x = self.left;
            for (i, lines) in part.into_iter().enumerate() {
                let wide = widths[i] + 2.0 * PAD;
                if is_head {
                    self.now.push(DrawOp::Box { x, y: self.y, width: wide, height: tall, color: PALE });
                }
                self.frame(x, wide, tall);
                let (begin, top) = (self.y, self.y + PAD);
                for (n, line) in lines.into_iter().enumerate() {
                    let shift = match align.get(i) {
                        Some(Align::Center) => (widths[i] - line.width) / 2.0,
                        Some(Align::End) => widths[i] - line.width,
                        _ if line.is_right_to_left => widths[i] - line.width,
                        _ => 0.0,
                    };
                    self.y = top + n as f32 * height;
                    self.put(line, x + PAD + shift.max(0.0), height, TEXT - 1.0);
                }
                self.y = begin;
                x += wide;
            }
            self.y += tall;
            if cells.iter().all(Vec::is_empty) {
                return;
            }
        }
    }

    fn count(&mut self, drawn: usize) {
        self.drawn += drawn;
        self.is_too_long |= self.drawn > DRAWN_MAX;
    }

    fn frame(&mut self, x: f32, width: f32, height: f32) {
        let y = self.y;
        self.count(4);
        for (x, y, width, height) in [(x, y, width, 0.5), (x, y + height, width + 0.5, 0.5), (x, y, 0.5, height), (x + width, y, 0.5, height)] {
            self.now.push(DrawOp::Box { x, y, width, height, color: RULE });
        }
    }

    /// Places a line at the current position and advances.
    fn put(&mut self, line: Line, x: f32, height: f32, size: f32) {
        let mut x = x;
        let base = self.y + size * 1.02;
        self.count(line.pieces.len());
        // One link for all adjacent pieces with the same target.
        let mut link = None;
        for piece in line.pieces {
            let width = piece.width;
            if let Some(to) = &piece.look.link {
                match link.and_then(|at: usize| self.now.get_mut(at)) {
                    Some(DrawOp::Link { x: begin, width: wide, to: other, .. }) if Arc::ptr_eq(other, to) => *wide = x + width - *begin,
                    _ => {
                        link = Some(self.now.len());
                        self.now.push(DrawOp::Link { x, y: self.y, width, height, to: to.clone() });
                    }
                }
                self.now.push(DrawOp::Box { x, y: base + 1.2, width, height: 0.4, color: piece.look.color });
            }
            if piece.look.strike {
                self.now.push(DrawOp::Box { x, y: base - piece.look.size * 0.28, width, height: 0.6, color: piece.look.color });
            }
            self.now.push(DrawOp::Text { x, y: base, piece });
            x += width;
        }
        self.y += height;
    }

    fn notes_of(&mut self, line: &Line) -> Vec<Line> {
        let look = TextStyle { color: GREY, ..TextStyle::plain(SMALL) };
        let page = self.page;
        let mut lines = Vec::new();
        for number in line.notes() {
            let mut words = vec![Inline::text(format!("{number}  "))];
            words.extend(page.notes.get(number - 1).into_iter().flatten().cloned());
            lines.extend(self.setter.lines(&words, &look, PAGE_WIDTH - 2.0 * SIDE));
        }
        lines
    }

    fn take_notes(&mut self, lines: Vec<Line>) {
        for line in lines {
            let most = ((FOOT - TOP) * NOTES_SHARE / (SMALL * LEADING)) as usize;
            let crowded = self.foot() - SMALL * LEADING < self.y + TEXT * LEADING;
            if self.notes.len() < most && !crowded && self.late.is_empty() { self.notes.push(line) } else { self.late.push(line) }
        }
    }

    /// The bottom of the text area, above the notes.
    fn foot(&self) -> f32 {
        if self.notes.is_empty() { FOOT } else { FOOT - self.notes.len() as f32 * SMALL * LEADING - 12.0 }
    }

    fn ensure_height(&mut self, height: f32) {
        if self.y + height > self.foot() && self.y > TOP {
            self.turn();
        }
    }

    fn ensure_height_with(&mut self, height: f32, notes: &[Line]) {
        let separator = if self.notes.is_empty() && !notes.is_empty() { 12.0 } else { 0.0 };
        self.ensure_height(height + separator + notes.len().min(20) as f32 * SMALL * LEADING);
    }

    /// Finishes the page with notes and number, and begins the next.
    fn turn(&mut self) {
        if !self.notes.is_empty() {
            let notes = std::mem::take(&mut self.notes);
            self.y = FOOT - notes.len() as f32 * SMALL * LEADING - 6.0;
            self.now.push(DrawOp::Box { x: SIDE, y: self.y, width: 120.0, height: 0.6, color: RULE });
            self.y += 6.0;
            for line in notes {
                self.put(line, SIDE, SMALL * LEADING, SMALL);
            }
        }
        let number = (self.done.len() + 1).to_string();
        let look = TextStyle { color: BLACK, ..TextStyle::plain(SMALL) };
        if let Some(line) = self.setter.lines(&[Inline::text(number)], &look, f32::INFINITY).pop() {
            self.y = FOOT + 22.0;
            let x = (PAGE_WIDTH - line.width) / 2.0;
            self.put(line, x, SMALL * LEADING, SMALL);
        }
        self.done.push(std::mem::take(&mut self.now));
        self.is_too_long |= self.done.len() >= PAGES_MAX;
        self.y = TOP;
        let late = std::mem::take(&mut self.late);
        self.take_notes(late);
    }
}

/// Whether an item begins with right-to-left text.
fn begins_right(item: &[Block]) -> bool {
    match item.first() {
        Some(Block::Paragraph { inside } | Block::Heading { inside, .. }) => bidi::is_right_to_left(std::iter::once(plain(inside).as_str())),
        _ => false,
    }
}

/// Natural column widths; if they do not fit, wide columns share what the narrow ones leave.
fn shares(naturals: &[f32], width: f32) -> Vec<f32> {
    let sum: f32 = naturals.iter().sum();
    if sum <= width {
        return naturals.to_vec();
    }
    let mut widths = vec![0.0; naturals.len()];
    let mut open: Vec<usize> = (0..naturals.len()).collect();
    let mut left = width;
    loop {
        let fair = left / open.len().max(1) as f32;
        let (small, large): (Vec<usize>, Vec<usize>) = open.iter().copied().partition(|i| naturals[*i] <= fair);
        if small.is_empty() || large.is_empty() {
            for i in &open {
                widths[*i] = fair.max(8.0);
            }
            return widths;
        }
        for i in small {
            widths[i] = naturals[i];
            left -= naturals[i];
        }
        open = large;
    }
}

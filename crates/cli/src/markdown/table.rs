//! Lays out a table within a width: the widest columns are wrapped.

use terminal::{DIM, paint};

use super::wrap::{self, Piece};

pub(super) struct Table {
    /// Whether each column is right-aligned.
    right: Vec<bool>,
    rows: Vec<Vec<Vec<Piece>>>,
    /// Number of header rows.
    head: usize,
}

const COLUMN_MIN: usize = 4;
const BETWEEN: &str = " │ ";
const CROSSING: &str = "─┼─";

impl Table {
    pub(super) fn new(right: Vec<bool>) -> Table {
        Table { right, rows: vec![Vec::new()], head: 0 }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn end_head(&mut self) {
        self.head = self.rows.len();
    }

    pub(super) fn add(&mut self, cell: Vec<Piece>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns == 0 {
            return Vec::new();
        }
        let widths = self.widths(columns, width.saturating_sub((columns - 1) * wrap::width(BETWEEN)));
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            lines.extend(self.row(row, &widths));
            if number + 1 == self.head {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(paint(DIM, rule.join(CROSSING)));
            }
        }
        lines
    }

    /// As wide as the widest cell; while the table is too wide, the widest column shrinks.
    fn widths(&self, columns: usize, room: usize) -> Vec<usize> {
        let natural = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| wrap::width_of(cell)).max().unwrap_or(0).max(1);
        let mut widths: Vec<usize> = (0..columns).map(natural).collect();
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    fn row(&self, row: &[Vec<Piece>], widths: &[usize]) -> Vec<String> {
        let nothing = Vec::new();
        let cells: Vec<Vec<Vec<Piece>>> = widths.iter().enumerate().map(|(at, width)| wrap::lines(row.get(at).unwrap_or(&nothing), *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |number: usize| {
            let parts: Vec<String> = cells
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(at, (cell, width))| {
                    let pieces = cell.get(number).unwrap_or(&nothing);
                    let pad = " ".repeat(width.saturating_sub(wrap::width_of(pieces)));
                    let is_last = at + 1 == widths.len();
                    match self.right.get(at).copied().unwrap_or_default() {
                        true => format!("{pad}{}", wrap::painted(pieces)),
                        false if is_last => wrap::painted(pieces),
                        false => format!("{}{pad}", wrap::painted(pieces)),
                    }
                })
                .collect();
            parts.join(&paint(DIM, BETWEEN))
        };
        (0..height).map(line).collect()
    }
}

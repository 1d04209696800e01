//! Splits styled text into lines of a width. Wide characters count as two columns, and a line may break beside each of them.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use terminal::paint;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) style: Style,
    pub(super) text: String,
}

/// Columns of a text; escape sequences have none.
pub(super) fn width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().as_str().width()
}

/// Pieces of each line. A newline in a piece ends a line.
pub(super) fn lines(pieces: &[Piece], width_max: usize) -> Vec<Vec<Piece>> {
    let mut lines = vec![Line::default()];
    let mut word: Vec<Piece> = Vec::new();
    for piece in pieces {
        for letter in piece.text.chars() {
            match letter {
                '\n' => {
                    put_word(&mut lines, &mut word, width_max);
                    lines.push(Line::default());
                }
                letter if letter.is_whitespace() && letter != '\u{a0}' => {
                    put_word(&mut lines, &mut word, width_max);
                    if let Some(line) = lines.last_mut().filter(|line| line.width > 0) {
                        line.space = Some(piece.style);
                    }
                }
                letter => {
                    let is_wide = letter.width() == Some(2);
                    if is_wide {
                        put_word(&mut lines, &mut word, width_max);
                    }
                    add(&mut word, piece.style, letter);
                    if is_wide {
                        put_word(&mut lines, &mut word, width_max);
                    }
                }
            }
        }
    }
    put_word(&mut lines, &mut word, width_max);
    if lines.len() > 1 && lines.last().is_some_and(|line| line.pieces.is_empty()) {
        lines.pop();
    }
    lines.into_iter().map(|line| line.pieces).collect()
}

pub(super) fn painted(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| if piece.style == Style::new() { piece.text.clone() } else { paint(piece.style, &piece.text) }).collect()
}

pub(super) fn width_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.text.as_str().width()).sum()
}

#[derive(Default)]
struct Line {
    pieces: Vec<Piece>,
    width: usize,
    /// A space is pending before the next word.
    space: Option<Style>,
}

fn put_word(lines: &mut Vec<Line>, word: &mut Vec<Piece>, width_max: usize) {
    if word.is_empty() {
        return;
    }
    let word = std::mem::take(word);
    let columns = width_of(&word);
    let needs_line = lines.last().is_some_and(|line| line.width > 0 && line.width + usize::from(line.space.is_some()) + columns > width_max);
    if needs_line {
        lines.push(Line::default());
    }
    for piece in word {
        for letter in piece.text.chars() {
            let columns = letter.width().unwrap_or(0);
            // A word longer than a line is split.
            if lines.last().is_some_and(|line| line.width > 0 && line.width + columns > width_max) {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut() {
                if let Some(style) = line.space.take() {
                    let style = if style == piece.style { style } else { Style::new() };
                    add(&mut line.pieces, style, ' ');
                    line.width += 1;
                }
                add(&mut line.pieces, piece.style, letter);
                line.width += columns;
            }
        }
    }
}

fn add(pieces: &mut Vec<Piece>, style: Style, letter: char) {
    match pieces.last_mut() {
        Some(last) if last.style == style => last.text.push(letter),
        _ => pieces.push(Piece { style, text: letter.to_string() }),
    }
}

//! Breaks styled text into lines.

use std::collections::HashMap;
use std::sync::Arc;

use krilla::text::KrillaGlyph;

use super::bidi;
use super::fonts::Faces;
use crate::document::page::Inline;

pub(super) const BLACK: [u8; 3] = [28, 30, 33];
pub(super) const BLUE: [u8; 3] = [11, 87, 164];
pub(super) const GREY: [u8; 3] = [74, 79, 87];

/// The style of a piece of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TextStyle {
    pub(super) size: f32,
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) mono: bool,
    pub(super) strike: bool,
    pub(super) color: [u8; 3],
    pub(super) rise: f32,
    pub(super) link: Option<Arc<str>>,
    /// The note with this number, at its first use.
    pub(super) note: Option<usize>,
}

impl TextStyle {
    pub(super) fn plain(size: f32) -> Self {
        Self { size, bold: false, italic: false, mono: false, strike: false, color: BLACK, rise: 0.0, link: None, note: None }
    }
}

/// Text of one style in one face.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) face: usize,
    pub(super) shaped: Arc<ShapedText>,
    pub(super) width: f32,
    pub(super) look: TextStyle,
}

/// A text with its glyphs, shared by all its occurrences.
#[derive(Debug)]
pub(super) struct ShapedText {
    pub(super) text: String,
    pub(super) glyphs: Vec<KrillaGlyph>,
    /// At size one.
    width: f32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// From left to right.
    pub(super) pieces: Vec<Piece>,
    pub(super) width: f32,
    /// It is aligned to the right.
    pub(super) is_right_to_left: bool,
}

impl Line {
    fn arrange(&mut self, is_right_to_left: bool) {
        self.is_right_to_left = is_right_to_left;
        let texts: Vec<&str> = self.pieces.iter().map(|piece| piece.shaped.text.as_str()).collect();
        if let Some(order) = bidi::visual_order(&texts, is_right_to_left) {
            self.pieces = order.into_iter().map(|place| self.pieces[place].clone()).collect();
        }
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| piece.look.note)
    }
}

/// Measures text, with a cache.
pub(super) struct Setter<'a> {
    faces: Faces<'a>,
    known: HashMap<(usize, String), Arc<ShapedText>>,
}

enum Atom {
    Word(Vec<Piece>),
    Space(Piece),
    Break,
}

impl<'a> Setter<'a> {
    pub(super) fn new(faces: Faces<'a>) -> Self {
        Self { faces, known: HashMap::new() }
    }

    /// Lines no wider than requested, unless a single character is.
    pub(super) fn lines(&mut self, inlines: &[Inline], look: &TextStyle, width: f32) -> Vec<Line> {
        let mut runs = Vec::new();
        flatten(inlines, look, &mut runs);
        let is_right_to_left = bidi::is_right_to_left(runs.iter().map(|(text, _)| text.as_str()));
        let atoms = self.atoms(&runs);
        let mut lines = self.fill(atoms, width);
        lines.iter_mut().for_each(|line| line.arrange(is_right_to_left));
        lines
    }

    /// Literal text, broken only where it is too wide.
    pub(super) fn literal(&mut self, text: &str, look: &TextStyle, width: f32) -> Vec<Line> {
        let mut lines = Vec::new();
        for row in text.split('\n') {
            // Non-breaking spaces are kept at the start and end of a line.
            let row = row.replace('\t', "    ").replace(' ', "\u{A0}");
            let atoms = self.atoms(&[(row, look.clone())]);
            lines.extend(self.fill(atoms, width));
        }
        lines
    }

    /// Its width on a single line.
    pub(super) fn natural(&mut self, inlines: &[Inline], look: &TextStyle) -> f32 {
        self.lines(inlines, look, f32::INFINITY).iter().map(|line| line.width).fold(0.0, f32::max)
    }

    fn atoms(&mut self, runs: &[(String, TextStyle)]) -> Vec<Atom> {
        let mut atoms = Vec::new();
        let mut word: Vec<Piece> = Vec::new();
        for (text, look) in runs {
            let mut rest = String::new();
            let flush = |setter: &mut Self, rest: &mut String, word: &mut Vec<Piece>| {
                if !rest.is_empty() {
                    setter.pieces(&std::mem::take(rest), look, word);
                }
            };
            for c in text.chars() {
                match c {
                    '\n' | ' ' | '\t' => {
                        flush(self, &mut rest, &mut word);
                        if !word.is_empty() {
                            atoms.push(Atom::Word(std::mem::take(&mut word)));
                        }
                        if c == '\n' {
                            atoms.push(Atom::Break);
                        } else {
                            let mut space = Vec::new();
                            self.pieces(" ", look, &mut space);
                            atoms.extend(space.into_iter().next().map(Atom::Space));
                        }
                    }
                    c => {
                        rest.push(c);
                        // A line may end here without a space.
                        if matches!(c, '-' | '/' | '–' | '—' | '\u{200B}') || is_wide(c) {
                            flush(self, &mut rest, &mut word);
                            atoms.push(Atom::Word(std::mem::take(&mut word)));
                        }
                    }
                }
            }
            flush(self, &mut rest, &mut word);
        }
        if !word.is_empty() {
            atoms.push(Atom::Word(word));
        }
        atoms
    }

    /// Splits a text where the face changes, and measures the parts.
    fn pieces(&mut self, text: &str, look: &TextStyle, out: &mut Vec<Piece>) {
        let requested = self.faces.styled(look.mono, look.bold, look.italic);
        let mut part = String::new();
        let mut face = requested;
        for c in text.chars() {
            // A combining mark stays with its base character.
            let next = if c.is_alphanumeric() || part.is_empty() || c.is_ascii() {
                self.faces.having(c, requested).unwrap_or(requested)
            } else {
                self.faces.having(c, face).unwrap_or(face)
            };
            if (next != face || bidi::is_turn(&part, c)) && !part.is_empty() {
                let piece = self.piece(face, std::mem::take(&mut part), look);
                out.push(piece);
            }
            face = next;
            part.push(c);
        }
        if !part.is_empty() {
            let piece = self.piece(face, part, look);
            out.push(piece);
        }
    }

    fn piece(&mut self, face: usize, text: String, look: &TextStyle) -> Piece {
        let faces = &self.faces;
        let shape = |(face, text): &(usize, String)| {
            let (glyphs, width) = faces.shape(*face, text);
            Arc::new(ShapedText { text: text.clone(), glyphs, width })
        };
        let shaped = self.known.entry((face, text)).or_insert_with_key(shape).clone();
        Piece { face, width: shaped.width * look.size, shaped, look: look.clone() }
    }

    fn fill(&mut self, atoms: Vec<Atom>, width: f32) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut line = Line::default();
        let mut spaces: Vec<Piece> = Vec::new();
        for atom in atoms {
            match atom {
                Atom::Break => {
                    spaces.clear();
                    lines.push(std::mem::take(&mut line));
                }
                // A space counts only if a word follows on the same line.
                Atom::Space(space) => {
                    if !line.pieces.is_empty() {
                        spaces.push(space);
                    }
                }
                Atom::Word(word) => {
                    let long: f32 = word.iter().map(|piece| piece.width).sum();
                    let gap: f32 = spaces.iter().map(|space| space.width).sum();
                    if line.width + gap + long > width && !line.pieces.is_empty() {
                        lines.push(std::mem::take(&mut line));
                        spaces.clear();
                    }
                    for piece in spaces.drain(..) {
                        line.width += piece.width;
                        line.pieces.push(piece);
                    }
                    let word = if long > width { self.split(word, width) } else { word };
                    for piece in word {
                        if line.width + piece.width > width && !line.pieces.is_empty() && long > width {
                            lines.push(std::mem::take(&mut line));
                        }
                        line.width += piece.width;
                        line.pieces.push(piece);
                    }
                }
            }
        }
        lines.push(line);
        lines
    }

    /// Splits a word that is wider than the line.
    fn split(&mut self, word: Vec<Piece>, width: f32) -> Vec<Piece> {
        let mut parts = Vec::new();
        for piece in word {
            if piece.width <= width {
                parts.push(piece);
                continue;
            }
            let characters = piece.shaped.text.chars().count().max(1);
            let each = ((width / piece.width * characters as f32 * 0.9) as usize).max(1);
            let text: Vec<char> = piece.shaped.text.chars().collect();
            for part in text.chunks(each) {
                let made = self.piece(piece.face, part.iter().collect(), &piece.look);
                parts.push(made);
            }
        }
        parts
    }
}

fn flatten(inlines: &[Inline], look: &TextStyle, out: &mut Vec<(String, TextStyle)>) {
    for inline in inlines {
        match inline {
            Inline::Text { text } => out.push((text.clone(), look.clone())),
            Inline::Code { text } => out.push((text.clone(), TextStyle { mono: true, size: look.size * 0.86, ..look.clone() })),
            Inline::Strong { inside } => flatten(inside, &TextStyle { bold: true, ..look.clone() }, out),
            Inline::Emphasis { inside } => flatten(inside, &TextStyle { italic: true, ..look.clone() }, out),
            Inline::Strike { inside } => flatten(inside, &TextStyle { strike: true, ..look.clone() }, out),
            Inline::Link { to, inside } => flatten(inside, &TextStyle { link: Some(to.as_str().into()), color: BLUE, ..look.clone() }, out),
            Inline::Note { number, first } => {
                let raised = TextStyle { size: look.size * 0.65, rise: look.size * 0.35, note: first.then_some(*number), link: None, ..look.clone() };
                out.push((number.to_string(), raised));
            }
            Inline::Break => out.push(("\n".into(), look.clone())),
        }
    }
}

/// Scripts that are written without spaces.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{3FFFF}')
}

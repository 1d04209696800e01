//! Right-to-left text: the direction of a paragraph, and the visual order of the pieces of a line.
//!
//! Inside a piece the shaper orders the glyphs, so a piece must have a single direction; `is_turn` returns where to split.

use unicode_bidi::{BidiClass, BidiInfo, Level, bidi_class};

/// By the first letter with a direction.
pub(super) fn is_right_to_left<'t>(texts: impl Iterator<Item = &'t str>) -> bool {
    let mut letters = texts.flat_map(str::chars).filter_map(direction);
    letters.next().unwrap_or(false)
}

/// Whether a piece that ends in letters of one direction must end before this character.
pub(super) fn is_turn(piece: &str, next: char) -> bool {
    let runs_right = |c: char| match bidi_class(c) {
        // Digits are written from left to right in every script.
        BidiClass::EN | BidiClass::AN => Some(false),
        _ => direction(c),
    };
    // Most characters have no direction, and then nothing else is checked.
    let Some(after) = runs_right(next) else { return false };
    piece.chars().rev().find_map(runs_right).is_some_and(|before| before != after)
}

/// The pieces of a line in visual order from left to right; `None` if unchanged.
pub(super) fn visual_order(pieces: &[&str], is_right_to_left: bool) -> Option<Vec<usize>> {
    let has_any = pieces.iter().any(|piece| piece.chars().any(|c| direction(c) == Some(true)));
    if !has_any && !is_right_to_left {
        return None;
    }
    let text = pieces.concat();
    let base = if is_right_to_left { Level::rtl() } else { Level::ltr() };
    let levels = BidiInfo::new(&text, Some(base)).levels;
    let mut at = 0;
    let of_pieces: Vec<Level> = pieces
        .iter()
        .map(|piece| {
            let start = at;
            at += piece.len();
            // By its letters; a piece without letters keeps its position.
            let letter = piece.char_indices().find(|(_, c)| direction(*c).is_some()).map_or(0, |(place, _)| place);
            levels.get(start + letter).copied().unwrap_or(base)
        })
        .collect();
    Some(BidiInfo::reorder_visual(&of_pieces))
}

/// `Some(true)` for right-to-left letters.
fn direction(c: char) -> Option<bool> {
    match bidi_class(c) {
        BidiClass::R | BidiClass::AL => Some(true),
        BidiClass::L => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(pieces: &[&str]) -> String {
        let order = visual_order(pieces, is_right_to_left(pieces.iter().copied()));
        order.map_or_else(|| pieces.concat(), |order| order.into_iter().map(|place| pieces[place]).collect())
    }

    #[test]
    fn pieces_are_drawn_in_the_order_of_their_direction() {
        assert_eq!(drawn(&["one", " ", "two", "."]), "one two.");
        assert_eq!(drawn(&["א", " ", "ב", " ", "ג"]), "ג ב א");
        // A Latin name keeps its order in Hebrew text, and vice versa.
        assert_eq!(drawn(&["א", " ", "New", " ", "York", " ", "ב"]), "ב New York א");
        assert_eq!(drawn(&["see", " ", "א", " ", "ב", " ", "there"]), "see ב א there");
        assert_eq!(drawn(&["ש", " ", "12", " ", "ת"]), "ת 12 ש");
    }

    #[test]
    fn a_piece_has_one_direction() {
        let cut = |text: &str| {
            let mut parts = vec![String::new()];
            for c in text.chars() {
                if is_turn(parts.last().unwrap(), c) {
                    parts.push(String::new());
                }
                parts.last_mut().unwrap().push(c);
            }
            parts
        };
        assert_eq!(cut("plain1"), ["plain1"]);
        assert_eq!(cut("(שלום)."), ["(שלום)."]);
        assert_eq!(cut("שלוםabc12ת"), ["שלום", "abc12", "ת"]);
    }

    #[test]
    fn the_first_letter_decides() {
        for (text, expected) in [("1. שלום abc", true), ("abc שלום", false), ("123", false), ("مرحبا", true)] {
            assert_eq!(is_right_to_left(std::iter::once(text)), expected, "{text}");
        }
    }
}

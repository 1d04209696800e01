//! Splits documents into passages: as long as a vector can represent, never across a heading, never inside a word.

use crate::passage::{Location, Passage};
use crate::read::{Block, Document};

/// Blocks under one heading are merged up to this size: about 200 of the 256 tokens that the model reads.
const PASSAGE_BYTES: usize = 900;
/// A single block may be this long before it is split.
const PASSAGE_BYTES_MAX: usize = 1400;

pub(crate) fn passages(document: Document, passages_max: usize) -> Vec<Passage> {
    let Document { title, blocks } = document;
    let mut passages: Vec<Passage> = Vec::new();
    for block in blocks.into_iter().flat_map(cut) {
        if let Some(last) = passages.last_mut()
            && *last.headings == *block.headings
            && last.text.len() + block.text.len() < PASSAGE_BYTES
            && let Some(place) = joined(last.place, block.place)
        {
            last.text.push_str(if matches!(place, Some(Location::Lines(..))) { "\n\n" } else { "\n" });
            last.text.push_str(&block.text);
            last.place = place;
            last.links.extend(block.links);
            continue;
        }
        if passages.len() == passages_max {
            break;
        }
        let part = passages.last().filter(|last| *last.headings == *block.headings).map_or(0, |last| last.part + 1);
        let title = block.headings.last().cloned().unwrap_or_else(|| title.clone());
        passages.push(Passage { text: block.text, title, headings: block.headings.to_vec(), place: block.place, links: block.links, part });
    }
    passages
}

/// The location of two merged blocks; `None` if they may not be merged.
fn joined(a: Option<Location>, b: Option<Location>) -> Option<Option<Location>> {
    match (a, b) {
        (Some(Location::Lines(from, _)), Some(Location::Lines(_, to))) => Some(Some(Location::Lines(from, to))),
        (Some(Location::Paragraphs(from, _)), Some(Location::Paragraphs(_, to))) => Some(Some(Location::Paragraphs(from, to))),
        (Some(Location::Page(a)), Some(Location::Page(b))) if a == b => Some(Some(Location::Page(a))),
        (None, None) => Some(None),
        _ => None,
    }
}

/// Splits a block that is too long, keeping line numbers.
fn cut(block: Block) -> Vec<Block> {
    if block.text.len() <= PASSAGE_BYTES_MAX {
        return vec![block];
    }
    // Lines of the text are lines of the file only if nothing was merged.
    let first_line = match block.place {
        Some(Location::Lines(from, to)) if block.text.lines().count() as u32 == to + 1 - from => Some(from),
        _ => None,
    };
    let mut pieces: Vec<Block> = Vec::new();
    let mut push = |text: &str, line: u32| {
        let place = first_line.map(|first| Location::Lines(first + line, first + line)).or(block.place);
        if let Some(last) = pieces.last_mut()
            && last.text.len() + text.len() < PASSAGE_BYTES
        {
            last.text.push('\n');
            last.text.push_str(text);
            last.place = joined(last.place, place).flatten();
        } else {
            pieces.push(Block { headings: block.headings.clone(), text: text.into(), place, links: Vec::new() });
        }
    };
    for (number, line) in (0..).zip(block.text.lines()) {
        for piece in sentences(line) {
            push(piece, number);
        }
    }
    if let Some(first) = pieces.first_mut() {
        first.links.clone_from(&block.links);
    }
    pieces
}

/// Splits a long line: after a sentence, otherwise between words, otherwise anywhere.
fn sentences(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > PASSAGE_BYTES {
        let mut end = PASSAGE_BYTES;
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let window = &rest[..end];
        let sentence = [". ", "! ", "? ", "; ", "。"].iter().filter_map(|mark| window.rfind(mark).map(|at| at + mark.len())).max();
        let at = sentence.filter(|at| *at > PASSAGE_BYTES / 3).or_else(|| window.rfind(' ').map(|at| at + 1)).unwrap_or(end);
        pieces.push(rest[..at].trim_end());
        rest = &rest[at..];
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(heading: &str, text: &str, from: u32, to: u32) -> Block {
        Block { headings: vec![heading.to_owned()].into(), text: text.into(), place: Some(Location::Lines(from, to)), links: Vec::new() }
    }

    fn cut_up(blocks: Vec<Block>) -> Vec<(String, Option<Location>, u32)> {
        let document = Document { title: "T".into(), blocks };
        passages(document, 100).into_iter().map(|passage| (passage.text, passage.place, passage.part)).collect()
    }

    #[test]
    fn small_blocks_come_together_under_one_heading() {
        let found = cut_up(vec![block("a", "one", 1, 1), block("a", "two", 3, 4), block("b", "three", 6, 6)]);
        assert_eq!(found, [("one\n\ntwo".into(), Some(Location::Lines(1, 4)), 0), ("three".into(), Some(Location::Lines(6, 6)), 0)]);
    }

    #[test]
    fn long_blocks_are_cut_by_lines() {
        let line = "word ".repeat(60);
        let text = [line.trim_end(); 9].join("\n");
        let found = cut_up(vec![block("a", &text, 10, 18)]);
        let places: Vec<_> = found.iter().map(|(_, place, part)| (place.unwrap(), *part)).collect();
        assert_eq!(places, [(Location::Lines(10, 12), 0), (Location::Lines(13, 15), 1), (Location::Lines(16, 18), 2)]);
    }

    #[test]
    fn a_long_line_loses_nothing_but_spaces() {
        for text in ["A sentence of words. ".repeat(200), "ü".repeat(3000), "word ".repeat(900)] {
            let pieces = sentences(&text);
            assert!(pieces.iter().all(|piece| piece.len() <= PASSAGE_BYTES));
            assert_eq!(pieces.concat().replace(' ', ""), text.replace(' ', ""));
        }
    }

    #[test]
    fn there_is_an_end() {
        let blocks = (0..50).map(|at| block(&at.to_string(), "x", at, at)).collect();
        assert_eq!(passages(Document { title: String::new(), blocks }, 7).len(), 7);
    }
}

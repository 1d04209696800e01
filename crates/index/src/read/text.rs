//! Plain text: paragraphs between blank lines.

use super::{Block, Document};
use crate::passage::Location;

pub(super) fn read(text: &str) -> Document {
    let mut document = Document::default();
    let mut lines: Vec<&str> = Vec::new();
    let mut start = 1;
    for (number, line) in (1..).zip(text.lines().chain(std::iter::once(""))) {
        if !line.trim().is_empty() {
            if lines.is_empty() {
                start = number;
            }
            lines.push(line.trim_end());
        } else if !lines.is_empty() {
            document.push(Block { text: lines.join("\n"), place: Some(Location::Lines(start, number - 1)), ..Default::default() });
            lines.clear();
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_have_lines() {
        let blocks = read("\none\r\ntwo\n\n \nthree").blocks;
        let found: Vec<_> = blocks.iter().map(|block| (block.text.as_str(), block.place.unwrap())).collect();
        assert_eq!(found, [("one\ntwo", Location::Lines(2, 3)), ("three", Location::Lines(6, 6))]);
    }
}

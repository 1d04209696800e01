//! A document as bytes, for the pipe between a reader process and its parent. Heading paths are written once, not once per block.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{BLOCKS_MAX, Block, Document, HeadingPath};
use crate::passage::Location;

#[derive(Default, Serialize, Deserialize)]
struct Packed {
    title: String,
    paths: Vec<Vec<String>>,
    /// The index of its path, text, location, links.
    blocks: Vec<(usize, String, Option<Location>, Vec<String>)>,
}

impl Serialize for Document {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut packed = Packed { title: self.title.clone(), ..Packed::default() };
        let mut last: Option<&HeadingPath> = None;
        for block in &self.blocks {
            if last.is_none_or(|last| !Arc::ptr_eq(last, &block.headings)) {
                packed.paths.push(block.headings.to_vec());
                last = Some(&block.headings);
            }
            packed.blocks.push((packed.paths.len() - 1, block.text.clone(), block.place, block.links.clone()));
        }
        packed.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let packed = Packed::deserialize(deserializer)?;
        let paths: Vec<HeadingPath> = packed.paths.into_iter().map(HeadingPath::from).collect();
        let block = |(path, text, place, links): (usize, String, Option<Location>, Vec<String>)| {
            let headings = paths.get(path).cloned().ok_or_else(|| serde::de::Error::custom("a block names a heading path that is not there"))?;
            Ok(Block { headings, text, place, links })
        };
        let blocks = packed.blocks.into_iter().take(BLOCKS_MAX).map(block).collect::<Result<_, _>>()?;
        Ok(Document { title: packed.title, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let shared: HeadingPath = vec!["A".to_owned(), "B".to_owned()].into();
        let block = |headings: &HeadingPath, text: &str| Block {
            headings: headings.clone(),
            text: text.into(),
            place: Some(Location::Page(3)),
            links: vec!["x.md".into()],
        };
        let document =
            Document { title: "T".into(), blocks: vec![block(&shared, "one"), block(&shared, "two"), block(&HeadingPath::default(), "three")] };
        let bytes = serde_json::to_vec(&document).unwrap();
        let back: Document = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(back, document);
        assert!(Arc::ptr_eq(&back.blocks[0].headings, &back.blocks[1].headings));
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        let bytes = br#"{"title":"","paths":[],"blocks":[[7,"a",null,[]]]}"#;
        assert!(serde_json::from_slice::<Document>(bytes).is_err());
    }
}

//! PDF: the text of each page.
//!
//! The parser recurses as deep as a file nests and unpacks everything in it, so it is only safe behind the limits of a `Reader`.

use super::{Block, Document, ReadLimits, Skipped};
use crate::passage::Location;

pub(super) fn read(bytes: &[u8], limits: ReadLimits) -> Result<Document, Skipped> {
    if !bytes.windows(5).take(1024).any(|window| window == b"%PDF-") {
        return Err(Skipped::Broken("it is not a PDF".into()));
    }
    let pages = pdf_extract::extract_text_from_mem_by_pages(bytes).map_err(|error| Skipped::Broken(error.to_string()))?;
    if pages.iter().map(String::len).sum::<usize>() as u64 > limits.bytes_max {
        return Err(Skipped::TooLarge { bytes_max: limits.bytes_max });
    }
    let mut document = Document::default();
    for (page, text) in (1..).zip(&pages) {
        for paragraph in super::text::read(text).blocks {
            document.push(Block { text: paragraph.text, place: Some(Location::Page(page)), ..Default::default() });
        }
    }
    Ok(document)
}

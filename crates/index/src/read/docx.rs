//! DOCX: a zip file with XML. Paragraphs under the headings given by their styles; table rows as lines of cells.

use std::io::{Cursor, Read};

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

use super::{Block, Document, Outline, ReadLimits, Skipped};
use crate::passage::Location;

const MEMBERS_MAX: usize = 10_000;

pub(super) fn read(bytes: &[u8], limits: ReadLimits) -> Result<Document, Skipped> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| Skipped::Broken(error.to_string()))?;
    if archive.len() > MEMBERS_MAX {
        return Err(Skipped::Broken(format!("more than {MEMBERS_MAX} members")));
    }
    let mut member = archive.by_name("word/document.xml").map_err(|error| Skipped::Broken(format!("word/document.xml: {error}")))?;
    // The size in its header may be wrong, so bytes are counted.
    let mut xml = Vec::new();
    member.by_ref().take(limits.bytes_max + 1).read_to_end(&mut xml).map_err(|error| Skipped::Broken(error.to_string()))?;
    if xml.len() as u64 > limits.bytes_max {
        return Err(Skipped::TooLarge { bytes_max: limits.bytes_max });
    }
    parse(std::str::from_utf8(&xml).map_err(|error| Skipped::Broken(error.to_string()))?)
}

fn parse(xml: &str) -> Result<Document, Skipped> {
    let mut reader = Reader::from_str(xml);
    let broken = |error: &dyn std::fmt::Display| Skipped::Broken(error.to_string());
    let mut document = Document::default();
    let mut outline = Outline::default();
    let mut paragraph = Paragraph::default();
    let mut number = 0;
    let mut row: Option<String> = None;
    let mut is_text = false;
    loop {
        match reader.read_event().map_err(|error| broken(&error))? {
            Event::Eof => break,
            Event::Start(tag) => match tag.local_name().as_ref() {
                "p" => paragraph = Paragraph::default(),
                "tr" => row = Some(String::new()),
                "t" => is_text = true,
                name => paragraph.mark(name, &tag),
            },
            Event::Empty(tag) => paragraph.mark(tag.local_name().as_ref(), &tag),
            Event::Text(text) if is_text => paragraph.text.push_str(&text),
            Event::CData(text) if is_text => paragraph.text.push_str(&text),
            Event::GeneralRef(entity) if is_text => {
                let resolved = match entity.resolve_char_ref().map_err(|error| broken(&error))? {
                    Some(c) => c.to_string(),
                    None => resolve_predefined_entity(&entity).unwrap_or_default().to_owned(),
                };
                paragraph.text.push_str(&resolved);
            }
            Event::End(tag) => match tag.local_name().as_ref() {
                "t" => is_text = false,
                "p" => {
                    number += 1;
                    let Paragraph { text, level } = std::mem::take(&mut paragraph);
                    let text = text.trim().to_owned();
                    match (&mut row, level) {
                        _ if text.is_empty() => {}
                        (Some(row), _) => {
                            row.push_str(if row.is_empty() || row.ends_with("| ") { "" } else { " " });
                            row.push_str(&text);
                        }
                        (None, Some(level)) => {
                            if document.title.is_empty() {
                                document.title.clone_from(&text);
                            }
                            outline.enter(level, text);
                        }
                        (None, None) => push(&mut document, &outline, text, number),
                    }
                }
                "tc" => {
                    if let Some(row) = &mut row {
                        row.push_str(" | ");
                    }
                }
                "tr" => {
                    if let Some(row) = row.take() {
                        push(&mut document, &outline, row.trim_end_matches([' ', '|']).to_owned(), number);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    Ok(document)
}

fn push(document: &mut Document, outline: &Outline, text: String, number: u32) {
    if !text.is_empty() {
        document.push(Block { headings: outline.path(), text, place: Some(Location::Paragraphs(number, number)), links: Vec::new() });
    }
}

#[derive(Default)]
struct Paragraph {
    text: String,
    /// Its heading level, if its style is a heading.
    level: Option<u32>,
}

impl Paragraph {
    fn mark(&mut self, name: &str, tag: &BytesStart<'_>) {
        match name {
            "tab" => self.text.push(' '),
            "br" | "cr" => self.text.push('\n'),
            "pStyle" | "outlineLvl" => {
                let value = tag.attributes().flatten().find(|attribute| attribute.key.local_name().as_ref() == "val");
                let value = value.map(|value| value.value.to_lowercase()).unwrap_or_default();
                let number = value.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok();
                self.level = match name {
                    "outlineLvl" => number.filter(|level| *level < 9).map(|level| level + 1),
                    _ if value == "title" => Some(0),
                    _ if value.starts_with("heading") || value.starts_with("berschrift") => number,
                    _ => self.level,
                };
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn packed(xml: &[u8]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        archive.start_file("word/document.xml", options).unwrap();
        archive.write_all(xml).unwrap();
        archive.finish().unwrap().into_inner()
    }

    const LIMITS: ReadLimits = ReadLimits { bytes_max: 1 << 20, time_max: Duration::from_secs(5) };

    #[test]
    fn paragraphs_and_tables() {
        let xml = br#"<w:document xmlns:w="x"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Plan</w:t></w:r></w:p>
            <w:p><w:r><w:t xml:space="preserve">One &amp; </w:t></w:r><w:r><w:t>two&#x21;</w:t><w:br/><w:t>three</w:t></w:r></w:p><w:p/>
            <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>"#;
        let document = read(&packed(xml), LIMITS).unwrap();
        assert_eq!(document.title, "Plan");
        let found: Vec<_> = document.blocks.iter().map(|block| (block.headings.join("/"), block.text.as_str())).collect();
        assert_eq!(found, [("Plan".into(), "One & two!\nthree"), ("Plan".into(), "a | b")]);
    }

    #[test]
    fn a_bomb_is_found_out() {
        let bomb = packed(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(read(&bomb, LIMITS), Err(Skipped::TooLarge { bytes_max: 1 << 20 }));
    }

    #[test]
    fn broken_xml_is_an_error() {
        assert!(matches!(read(&packed(b"<w:p><w:t>a</w:p>"), LIMITS), Err(Skipped::Broken(_))));
    }
}

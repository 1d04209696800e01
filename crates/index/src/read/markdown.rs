//! Markdown: blocks as written, under their headings, with their links.

use pulldown_cmark::{Event, HeadingLevel, MetadataBlockKind, Options, Parser, Tag, TagEnd};

use super::{Block, Document, Lines, Outline};
use crate::passage::Location;

pub(super) fn read(text: &str) -> Document {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS | Options::ENABLE_HEADING_ATTRIBUTES;
    let lines = Lines::of(text);
    let mut document = Document::default();
    let mut outline = Outline::default();
    let mut depth = 0_usize;
    let mut links = Vec::new();
    let mut heading: Option<(HeadingLevel, String)> = None;
    let mut is_metadata = false;
    let mut start = 0;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    start = range.start;
                }
                depth += 1;
                match tag {
                    Tag::Heading { level, .. } => heading = Some((level, String::new())),
                    Tag::Link { dest_url, .. } => links.push(dest_url.into_string()),
                    Tag::MetadataBlock(MetadataBlockKind::YamlStyle) => is_metadata = true,
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                match tag {
                    TagEnd::Heading(_) => {
                        if let Some((level, words)) = heading.take() {
                            let words = words.trim().to_owned();
                            if document.title.is_empty() && level == HeadingLevel::H1 {
                                document.title.clone_from(&words);
                            }
                            outline.enter(level as u32, words);
                        }
                        links.clear();
                    }
                    TagEnd::MetadataBlock(_) => {
                        is_metadata = false;
                        let title = text[start..range.end].lines().find_map(|line| line.strip_prefix("title:"));
                        if let Some(title) = title {
                            document.title = title.trim().trim_matches(['"', '\'']).to_owned();
                        }
                    }
                    _ if depth == 0 => push(&mut document, &outline, text, &lines, start..range.end, std::mem::take(&mut links)),
                    _ => {}
                }
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, heading)) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, heading)) = &mut heading {
                    heading.push(' ');
                }
            }
            Event::Html(_) if depth == 0 && !is_metadata => push(&mut document, &outline, text, &lines, range, Vec::new()),
            _ => {}
        }
    }
    document
}

fn push(document: &mut Document, outline: &Outline, text: &str, lines: &Lines, range: std::ops::Range<usize>, links: Vec<String>) {
    let block = text[range.clone()].trim_end();
    if block.is_empty() {
        return;
    }
    let place = Location::Lines(lines.at(range.start), lines.at(range.start + block.len() - 1));
    document.push(Block { headings: outline.path(), text: block.to_owned(), place: Some(place), links });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_headings_and_lines() {
        let text = "---\ntitle: \"The guide\"\n---\n\n# Start\n\nOne\ntwo.\n\n## Next *step*\n\n- a [link](other.md#x)\n- b\n\n```rust\n# not a heading\n```\n\nAgain\n=====\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
        let document = read(text);
        assert_eq!(document.title, "The guide");
        let found: Vec<(String, Location, &str)> =
            document.blocks.iter().map(|block| (block.headings.join("/"), block.place.unwrap(), block.text.lines().next().unwrap())).collect();
        assert_eq!(
            found,
            [
                ("Start".into(), Location::Lines(7, 8), "One"),
                ("Start/Next step".into(), Location::Lines(12, 13), "- a [link](other.md#x)"),
                ("Start/Next step".into(), Location::Lines(15, 17), "```rust"),
                ("Again".into(), Location::Lines(22, 24), "| a | b |"),
            ]
        );
        assert_eq!(document.blocks[1].links, ["other.md#x"]);
    }
}

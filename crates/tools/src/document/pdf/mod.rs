//! Writes PDF with krilla: paragraphs, lists, tables that break over pages, footnotes at the bottom of their page, links, bookmarks.
//!
//! typst has finer typesetting, but its compiler adds about 150 crates and minutes of build time; krilla is the part of it that writes PDF.
//! Not supported: hyphenation, justified lines, tags for screen readers (HTML and DOCX have them).
//!
//! The built-in fonts cover Latin, Greek, Cyrillic and mathematics. For other scripts (CJK, Arabic, emoji …) system fonts are searched;
//! characters without a font are reported, because a PDF shows an empty box for them.

mod bidi;
mod flow;
mod fonts;
mod lines;

use std::collections::BTreeSet;

use krilla::action::{Action, LinkAction};
use krilla::annotation::{Annotation, LinkAnnotation, Target};
use krilla::color::rgb;
use krilla::destination::XyzDestination;
use krilla::geom::{PathBuilder, Point, Rect};
use krilla::metadata::Metadata;
use krilla::outline::{Outline, OutlineNode};
use krilla::page::PageSettings;
use krilla::paint::Fill;
use krilla::text::Font;
use krilla::{Document, SerializeSettings};

use super::DocumentError;
use super::page::{Block, Inline, Page};
use flow::{DrawOp, Flow, PAGE_HEIGHT, PAGE_WIDTH, Set};
use fonts::Fonts;

pub(super) struct Pdf {
    pub(super) bytes: Vec<u8>,
    /// Characters without a font.
    pub(super) missing: BTreeSet<char>,
}

pub(super) fn write(page: &Page) -> Result<Pdf, DocumentError> {
    let (fonts, missing) = Fonts::for_text(&characters(page))?;
    let set = Flow::set(&fonts, page)?;
    let bytes = draw(&fonts, page, &set)?;
    Ok(Pdf { bytes, missing })
}

fn draw(fonts: &Fonts, page: &Page, set: &Set) -> Result<Vec<u8>, DocumentError> {
    let broken = |what: &str| DocumentError::Broken(format!("the PDF could not be written ({what}); ask for DOCX or HTML instead"));
    let faces: Option<Vec<Font>> = fonts.files().map(|(data, index)| Font::new(data.into(), index)).collect();
    let faces = faces.ok_or_else(|| broken("a font cannot be used"))?;
    let mut document = Document::new_with(SerializeSettings { enable_tagging: false, ..SerializeSettings::default() });
    let mut metadata = Metadata::new().creator("Baton".into());
    if let Some(title) = &page.title {
        metadata = metadata.title(title.clone());
    }
    document.set_metadata(metadata);
    for drawn in &set.pages {
        let size = PageSettings::from_wh(PAGE_WIDTH, PAGE_HEIGHT).ok_or_else(|| broken("its size"))?;
        let mut leaf = document.start_page_with(size);
        let mut surface = leaf.surface();
        for thing in drawn {
            match thing {
                DrawOp::Text { x, y, piece } => {
                    surface.set_fill(Some(fill_color(piece.look.color)));
                    surface.draw_glyphs(
                        Point::from_xy(*x, *y - piece.look.rise),
                        &piece.shaped.glyphs,
                        faces[piece.face].clone(),
                        &piece.shaped.text,
                        piece.look.size,
                        false,
                    );
                }
                DrawOp::Box { x, y, width, height, color } => {
                    let mut path = PathBuilder::new();
                    if let Some(rect) = Rect::from_xywh(*x, *y, *width, *height) {
                        path.push_rect(rect);
                    }
                    if let Some(path) = path.finish() {
                        surface.set_fill(Some(fill_color(*color)));
                        surface.draw_path(&path);
                    }
                }
                DrawOp::Link { .. } => {}
            }
        }
        surface.finish();
        for thing in drawn {
            if let DrawOp::Link { x, y, width, height, to } = thing
                && let Some(rect) = Rect::from_xywh(*x, *y, *width, *height)
            {
                let target = Target::Action(Action::Link(LinkAction::new(to.to_string())));
                leaf.add_annotation(Annotation::new_link(LinkAnnotation::new(rect, target), None));
            }
        }
        leaf.finish();
    }
    let mut outline = Outline::new();
    for mark in &set.headings {
        outline.push_child(OutlineNode::new(mark.words.clone(), XyzDestination::new(mark.page, Point::from_xy(0.0, mark.y))));
    }
    document.set_outline(outline);
    document.finish().map_err(|e| broken(&format!("{e:?}").chars().take(300).collect::<String>()))
}

fn fill_color(color: [u8; 3]) -> Fill {
    Fill { paint: rgb::Color::new(color[0], color[1], color[2]).into(), ..Fill::default() }
}

fn characters(page: &Page) -> BTreeSet<char> {
    let mut used: BTreeSet<char> = "•–0123456789.".chars().collect();
    used.extend(page.title.iter().flat_map(|title| title.chars()));
    of_blocks(&page.blocks, &mut used);
    page.notes.iter().for_each(|note| of_inlines(note, &mut used));
    // Format characters have no glyph of their own.
    let unseen = |c: &char| matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FE00}'..='\u{FE0F}' | '\u{AD}' | '\u{FEFF}');
    used.retain(|c| !c.is_whitespace() && !c.is_control() && !unseen(c));
    used
}

fn of_blocks(blocks: &[Block], used: &mut BTreeSet<char>) {
    for block in blocks {
        match block {
            Block::Heading { inside, .. } | Block::Paragraph { inside } => of_inlines(inside, used),
            Block::Quote { inside } => of_blocks(inside, used),
            Block::List { items, .. } => items.iter().for_each(|item| of_blocks(item, used)),
            Block::Code { text, .. } => used.extend(text.chars()),
            Block::Table { head, rows, .. } => head.iter().chain(rows.iter().flatten()).for_each(|cell| of_inlines(cell, used)),
            Block::Rule => {}
        }
    }
}

fn of_inlines(inlines: &[Inline], used: &mut BTreeSet<char>) {
    for inline in inlines {
        match inline {
            Inline::Text { text } | Inline::Code { text } => used.extend(text.chars()),
            Inline::Strong { inside } | Inline::Emphasis { inside } | Inline::Strike { inside } | Inline::Link { inside, .. } => {
                of_inlines(inside, used);
            }
            Inline::Note { .. } | Inline::Break => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of a page with their places, and the addresses of its links.
    type PageContent = (Vec<(f32, f32, String)>, Vec<String>);

    fn laid_out(markdown: &str) -> Vec<PageContent> {
        let page = super::super::page::read(markdown, None, &[]).unwrap();
        let (fonts, _) = Fonts::for_text(&characters(&page)).unwrap();
        let of_page = |drawn: &Vec<DrawOp>| {
            let text = |one: &DrawOp| match one {
                DrawOp::Text { x, y, piece } => Some((*x, *y, piece.shaped.text.clone())),
                _ => None,
            };
            let link = |one: &DrawOp| match one {
                DrawOp::Link { to, .. } => Some(to.to_string()),
                _ => None,
            };
            (drawn.iter().filter_map(text).collect(), drawn.iter().filter_map(link).collect())
        };
        Flow::set(&fonts, &page).unwrap().pages.iter().map(of_page).collect()
    }

    #[test]
    fn a_long_table_goes_on_with_its_header_and_every_page_has_its_number() {
        let rows: String = (1..=150).map(|n| format!("| row{n} | [site{n}](https://example.org/{n}) |\n")).collect();
        let pages = laid_out(&format!("| Column | Address |\n|---|---|\n{rows}"));
        assert!(pages.len() > 2, "{} pages", pages.len());
        let mut seen = Vec::new();
        for (at, (texts, links)) in pages.iter().enumerate() {
            let words = |wanted: &str| texts.iter().filter(|(_, _, text)| text == wanted).count();
            assert_eq!((words("Column"), words("Address")), (1, 1), "the header of page {}", at + 1);
            let (_, lowest, number) = texts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            assert_eq!(number, &(at + 1).to_string(), "below everything is the number of the page");
            assert!(*lowest < PAGE_HEIGHT);
            assert!(links.iter().all(|link| link.starts_with("https://example.org/")) && !links.is_empty());
            seen.extend(texts.iter().filter(|(_, _, text)| text.starts_with("row")).map(|(_, _, text)| text.clone()));
        }
        assert_eq!(seen, (1..=150).map(|n| format!("row{n}")).collect::<Vec<_>>(), "each row once, in order");
        assert_eq!(pages.iter().map(|(_, links)| links.len()).sum::<usize>(), 150);
    }

    #[test]
    fn text_from_right_to_left_is_at_the_right_edge_in_its_own_order() {
        let pages = laid_out("שלום עולם\n\nplain words");
        let x = |wanted: &str| pages[0].0.iter().find(|(_, _, text)| text == wanted).map(|(x, ..)| *x).unwrap();
        assert!(x("עולם") < x("שלום"), "the second word is left of the first");
        assert!(x("plain") < x("words") && x("plain") < PAGE_WIDTH / 4.0 && x("שלום") > PAGE_WIDTH / 2.0);
    }
}

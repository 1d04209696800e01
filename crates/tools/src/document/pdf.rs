//! PDF by typst. The text is data that a fixed program lays out (`page.typ`), so nothing in it can be markup or code; the
//! program sees no files but that data and loads no packages.
//!
//! The fonts inside cover Latin, Greek, Cyrillic and mathematics. For other scripts (CJK, Arabic, emoji …) the machine's own fonts
//! are searched; characters that no font has are reported, because a PDF shows an empty box for them.

use std::collections::BTreeSet;

use serde::Serialize;
use typst::World;
use typst_as_lib::TypstEngine;
use typst_as_lib::typst_kit_options::TypstKitFontOptions;
use typst_pdf::PdfOptions;

use super::DocumentError;
use super::page::{Block, Inline, Page};

const LAYOUT: &str = include_str!("page.typ");

#[derive(Serialize)]
struct Data<'a> {
    shown_title: Option<&'a str>,
    #[serde(flatten)]
    page: &'a Page,
}

pub(super) struct Pdf {
    pub(super) bytes: Vec<u8>,
    /// Characters that no font had.
    pub(super) missing: BTreeSet<char>,
}

pub(super) fn write(page: &Page) -> Result<Pdf, DocumentError> {
    let used = characters(page);
    let built_in = lay_out(page, &used, false)?;
    // Looking through the machine's fonts takes time, and is seldom needed.
    if built_in.missing.is_empty() { Ok(built_in) } else { lay_out(page, &used, true) }
}

fn lay_out(page: &Page, used: &BTreeSet<char>, system_fonts: bool) -> Result<Pdf, DocumentError> {
    let broken = |what: &str, e: &dyn std::fmt::Debug| {
        let words: String = format!("{e:?}").chars().take(600).collect();
        DocumentError::Broken(format!("the PDF could not be {what}: {words}; ask for DOCX or HTML instead"))
    };
    let data = serde_json::to_vec(&Data { shown_title: page.shown_title(), page }).map_err(|e| broken("prepared", &e))?;
    let engine = TypstEngine::builder()
        .main_file(LAYOUT)
        .with_static_file_resolver([("page.json", data)])
        .search_fonts_with(TypstKitFontOptions::default().include_system_fonts(system_fonts).include_embedded_fonts(true))
        .build();
    let missing: BTreeSet<char> = engine
        .with_world(|world| {
            let book = world.book();
            let infos: Vec<_> = (0..).map_while(|i| book.info(i)).collect();
            used.iter().copied().filter(|c| !infos.iter().any(|info| info.coverage.contains(u32::from(*c)))).collect()
        })
        .map_err(|e| broken("prepared", &e))?;
    if !missing.is_empty() && !system_fonts {
        return Ok(Pdf { bytes: Vec::new(), missing });
    }
    let document = engine.compile().output.map_err(|e| broken("laid out", &e))?;
    let bytes = typst_pdf::pdf(&document, &PdfOptions::default()).map_err(|e| broken("written", &e))?;
    Ok(Pdf { bytes, missing })
}

fn characters(page: &Page) -> BTreeSet<char> {
    let mut used = BTreeSet::new();
    used.extend(page.title.iter().flat_map(|title| title.chars()));
    of_blocks(&page.blocks, &mut used);
    page.notes.iter().for_each(|note| of_inlines(note, &mut used));
    // Marks that change how others look have no look of their own.
    used.retain(|c| !c.is_whitespace() && !matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FE00}'..='\u{FE0F}' | '\u{AD}' | '\u{FEFF}'));
    used
}

fn of_blocks(blocks: &[Block], used: &mut BTreeSet<char>) {
    for block in blocks {
        match block {
            Block::Heading { inside, .. } | Block::Paragraph { inside } => of_inlines(inside, used),
            Block::Quote { inside } => of_blocks(inside, used),
            Block::List { items, .. } => items.iter().for_each(|item| of_blocks(item, used)),
            Block::CodeBlock { text, .. } => used.extend(text.chars()),
            Block::Table { head, rows, .. } => head.iter().chain(rows.iter().flatten()).for_each(|cell| of_inlines(cell, used)),
            Block::Rule => {}
        }
    }
}

fn of_inlines(inlines: &[Inline], used: &mut BTreeSet<char>) {
    for inline in inlines {
        match inline {
            Inline::Text { text } | Inline::Code { text } => used.extend(text.chars()),
            Inline::Strong { inside } | Inline::Emphasis { inside } | Inline::Strike { inside } | Inline::Link { inside, .. } => of_inlines(inside, used),
            Inline::Note { .. } | Inline::Break => {}
        }
    }
}

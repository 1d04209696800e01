//! A self-contained HTML file: its style is inline, nothing is loaded, nothing runs.

use std::collections::HashSet;
use std::fmt::Write;

use ammonia::Builder;

use super::page::{Align, Block, Inline, Page};

const STYLE: &str = include_str!("page.css");

pub(super) fn write(page: &Page) -> String {
    let mut body = String::new();
    if let Some(title) = page.shown_title() {
        let _ = write!(body, "<h1 class=\"title\">{}</h1>", escape(title));
    }
    blocks(&mut body, &page.blocks);
    if !page.notes.is_empty() {
        body.push_str("<section class=\"notes\"><ol>");
        for (i, note) in page.notes.iter().enumerate() {
            let _ = write!(body, "<li id=\"note-{0}\">", i + 1);
            inlines(&mut body, note);
            let _ = write!(body, " <a class=\"back\" href=\"#cited-{0}\">↩</a></li>", i + 1);
        }
        body.push_str("</ol></section>");
    }
    // Everything is escaped already; sanitizing is a second safeguard.
    let clean = Builder::default()
        .add_tags(["section"])
        .add_generic_attributes(["id"])
        .allowed_classes([("h1", HashSet::from(["title"])), ("section", HashSet::from(["notes"])), ("a", HashSet::from(["back"]))].into())
        .add_tag_attributes("td", ["align"])
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .clean(&body)
        .to_string();
    format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{clean}\n</main>\n</body>\n</html>\n",
        escape(page.title.as_deref().unwrap_or("Document"))
    )
}

fn blocks(out: &mut String, given: &[Block]) {
    for block in given {
        match block {
            Block::Heading { level, inside } => wrap(out, &format!("h{level}"), |out| inlines(out, inside)),
            Block::Paragraph { inside } => wrap(out, "p", |out| inlines(out, inside)),
            Block::Quote { inside } => wrap(out, "blockquote", |out| blocks(out, inside)),
            Block::Code { text, .. } => wrap(out, "pre", |out| wrap(out, "code", |out| out.push_str(&escape(text)))),
            Block::Rule => out.push_str("<hr>"),
            Block::List { start, items } => {
                match start {
                    Some(start) => drop(write!(out, "<ol start=\"{start}\">")),
                    None => out.push_str("<ul>"),
                }
                for item in items {
                    wrap(out, "li", |out| match item.as_slice() {
                        [Block::Paragraph { inside }, rest @ ..] => {
                            inlines(out, inside);
                            blocks(out, rest);
                        }
                        item => blocks(out, item),
                    });
                }
                out.push_str(if start.is_some() { "</ol>" } else { "</ul>" });
            }
            Block::Table { align, head, rows } => {
                out.push_str("<table><thead><tr>");
                row(out, "th", align, head);
                out.push_str("</tr></thead><tbody>");
                for cells in rows {
                    wrap(out, "tr", |out| row(out, "td", align, cells));
                }
                out.push_str("</tbody></table>");
            }
        }
        out.push('\n');
    }
}

fn row(out: &mut String, tag: &str, align: &[Align], cells: &[Vec<Inline>]) {
    for (i, cell) in cells.iter().enumerate() {
        let side = match align.get(i) {
            Some(Align::Center) => " align=\"center\"",
            Some(Align::End) => " align=\"right\"",
            _ => "",
        };
        let _ = write!(out, "<{tag}{side}>");
        inlines(out, cell);
        let _ = write!(out, "</{tag}>");
    }
}

fn inlines(out: &mut String, given: &[Inline]) {
    for inline in given {
        match inline {
            Inline::Text { text } => out.push_str(&escape(text)),
            Inline::Code { text } => wrap(out, "code", |out| out.push_str(&escape(text))),
            Inline::Strong { inside } => wrap(out, "strong", |out| inlines(out, inside)),
            Inline::Emphasis { inside } => wrap(out, "em", |out| inlines(out, inside)),
            Inline::Strike { inside } => wrap(out, "s", |out| inlines(out, inside)),
            Inline::Link { to, inside } => {
                let _ = write!(out, "<a href=\"{}\">", escape(to));
                inlines(out, inside);
                out.push_str("</a>");
            }
            Inline::Note { number, first } => {
                let id = if *first { format!(" id=\"cited-{number}\"") } else { String::new() };
                let _ = write!(out, "<sup{id}><a href=\"#note-{number}\">{number}</a></sup>");
            }
            Inline::Break => out.push_str("<br>"),
        }
    }
}

fn wrap(out: &mut String, tag: &str, inside: impl FnOnce(&mut String)) {
    let _ = write!(out, "<{tag}>");
    inside(out);
    let _ = write!(out, "</{tag}>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! Markdown to files: their content, what is kept out of them, and their location.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Read;

use super::page::{self, Block, Inline};
use super::*;

fn sources() -> Vec<Source> {
    let source = |title: &str, address: &str| Source { title: title.into(), address: address.into() };
    vec![source("On <Rivers> & Seas", "https://example.org/r?a=1&b=2"), source("Ships", "https://example.org/s"), source("Unused", "")]
}

const SAMPLE: &str = "\
# Rivers

The *Nile* is **long** [1], `code` and ~~gone~~, see [the map](https://example.org/map?x=1&y=2).
Again [1] and both [1, 2], a note[^n], no source [7], \\[1\\], `[2]`.

1. first
   - inner *one*
     - deeper
2. second

3. third

> quoted
> > twice

| Name | Length km |
|:-----|----------:|
| Nile | 6650 [2]  |
| Amur <br> river | 2824 |

```rust
fn main() { println!(\"[1] <b>\"); }
```

![a picture](https://example.org/p.png)

- [x] done
- [ ] open

---

Ελληνικά, Русский, äöüß. <u>raw</u> html

[^n]: A note with **weight**, citing [2].
";

fn asked(markdown: &str, format: Format) -> DocumentRequest {
    DocumentRequest { markdown: markdown.into(), format, title: Some("Rivers & more".into()), name: None, sources: sources() }
}

fn written(markdown: &str, format: Format) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings { folder: home.path().into(), ..Settings::default() };
    let created = create(&settings, &asked(markdown, format)).unwrap();
    assert_eq!(created.notices, Vec::<String>::new());
    let bytes = std::fs::read(&created.path).unwrap();
    assert_eq!((created.bytes, created.sha256), (bytes.len() as u64, folder::hex(&bytes)));
    bytes
}

#[test]
fn citations_become_notes_in_the_order_they_are_met() {
    // Text; the numbers of its notes, with the first use marked; the number of notes.
    type Case = (&'static str, &'static [(usize, bool)], usize);
    let cases: &[Case] = &[
        ("a [2] b [1] c [2]", &[(1, true), (2, true), (1, false)], 2),
        ("a [1, 2]", &[(1, true), (2, true)], 2),
        ("a [^2]", &[(1, true)], 1),
        ("a[^x] [1]\n\n[^x]: words [2]", &[(1, true), (2, true)], 2),
        ("a[^1]\n\n[^1]: my own words", &[(1, true)], 1),
        ("[0] [4] [one] [1](https://x.y) \\[1\\] `[1]`", &[], 0),
        ("    [1]", &[], 0),
    ];
    fn numbers(inlines: &[Inline], out: &mut Vec<(usize, bool)>) {
        for inline in inlines {
            match inline {
                Inline::Note { number, first } => out.push((*number, *first)),
                Inline::Strong { inside } | Inline::Emphasis { inside } | Inline::Strike { inside } | Inline::Link { inside, .. } => {
                    numbers(inside, out);
                }
                _ => {}
            }
        }
    }
    for (text, wanted, notes) in cases {
        let page = page::read(text, None, &sources()).unwrap();
        let mut found = Vec::new();
        for block in &page.blocks {
            if let Block::Paragraph { inside } = block {
                numbers(inside, &mut found);
            }
        }
        assert_eq!((found.as_slice(), page.notes.len()), (*wanted, *notes), "{text}: {page:?}");
    }
}

#[test]
fn markdown_keeps_its_words_and_gets_footnotes() {
    let text = String::from_utf8(written(SAMPLE, Format::Markdown)).unwrap();
    for wanted in [
        "# Rivers & more\n\n# Rivers\n",
        "**long** [^source-1], `code`",
        "both [^source-1][^source-2], a note[^n], no source [7], \\[1\\], `[2]`.",
        "6650 [^source-2]  |",
        "println!(\"[1] <b>\")",
        "\n[^source-1]: On <Rivers> & Seas <https://example.org/r?a=1&b=2>\n",
        "\n[^source-3]: Unused\n",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
}

#[test]
fn html_has_everything_and_nothing_that_runs() {
    let text = String::from_utf8(written(SAMPLE, Format::Html)).unwrap();
    for wanted in [
        "<title>Rivers &amp; more</title>",
        "<h1 class=\"title\">Rivers &amp; more</h1>",
        "<strong>long</strong><sup id=\"cited-1\"><a href=\"#note-1\"",
        "<a href=\"https://example.org/map?x=1&amp;y=2\"",
        "<td align=\"right\">6650<sup",
        "<li>inner <em>one</em><ul>",
        "println!(\"[1] &lt;b&gt;\")",
        "&lt;u&gt;raw&lt;/u&gt; html",
        "<li id=\"note-1\">On &lt;Rivers&gt; &amp; Seas. <a",
        "A note with <strong>weight</strong>, citing [2].",
        "<h2>Further sources</h2>",
        "Русский",
        "Amur <br> river",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
    let hostile = "<script>alert(1)</script>\n\n<img src=x onerror=alert(2)>\n\n[a](javascript:alert(3)) [b](data:text/html,x) ![c](javascript:x) <a href='javascript:x'>d</a> \"></title>\n\n[e](https://x.y/\"onclick=\"z)";
    let evil = DocumentRequest { title: Some("</title><script>alert(4)</script>".into()), ..asked(hostile, Format::Html) };
    let home = tempfile::tempdir().unwrap();
    let created = create(&Settings { folder: home.path().into(), ..Settings::default() }, &evil).unwrap();
    let text = std::fs::read_to_string(created.path).unwrap().to_lowercase();
    for never in ["<script", "<img", "href=\"javascript", "href=\"data", "<a href='javascript", "onclick=\"", "onerror=alert(2)>\n<"] {
        assert!(!text.contains(never), "{never:?} is in\n{text}");
    }
}

fn part(docx: &[u8], name: &str) -> String {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(docx)).unwrap();
    let mut text = String::new();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn docx_has_words_own_parts() {
    let bytes = written(SAMPLE, Format::Docx);
    let document = part(&bytes, "word/document.xml");
    for wanted in [
        "w:val=\"Title\"",
        "w:val=\"Heading1\"",
        "<w:numId w:val=\"10\"",
        "<w:ilvl w:val=\"2\"",
        "<w:tbl>",
        "<w:hyperlink ",
        "<w:footnoteReference ",
        "Русский",
        "[1] &lt;b&gt;",
    ] {
        assert!(document.contains(wanted), "{wanted:?} is not in\n{document}");
    }
    let notes = part(&bytes, "word/footnotes.xml");
    assert_eq!(notes.matches("<w:footnoteRef />").count(), 3, "{notes}");
    assert!(notes.contains("On &lt;Rivers&gt; &amp; Seas. https://example.org/r?a=1&amp;b=2"), "{notes}");
    assert!(part(&bytes, "word/_rels/document.xml.rels").contains("https://example.org/map?x=1&amp;y=2"));
    assert!(part(&bytes, "docProps/core.xml").contains("<dc:title>Rivers &amp; more</dc:title>"));
    let styles = part(&bytes, "word/styles.xml");
    assert!(styles.contains("heading 1") && styles.contains("footnote text"), "{styles}");
}

#[test]
fn pdf_is_one_and_no_text_is_code_to_it() {
    let bytes = written(SAMPLE, Format::Pdf);
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 10_000);
    // Markup and typesetting code: each must come out as text, none may fail or run.
    for hostile in [
        "#panic(\"run\")",
        "#import \"@preview/x:1.0.0\"",
        "#read(\"/etc/passwd\")",
        "= not a heading\n\n$ x^2 $ <label> @ref",
        "\" + panic() + \"",
        "\\\" #{panic()} \\u{41}",
        "`#panic()`",
        "```typ\n#panic(\"x\")\n```",
        "```\"]#panic()\ncode\n```",
        "[x](https://a.b/\"#panic())",
        "| #panic() | a |\n|---|---|\n| ] #panic() | b |",
        "*_*_`#",
    ] {
        assert!(written(hostile, Format::Pdf).starts_with(b"%PDF-"), "{hostile}");
    }
}

#[test]
fn a_pdf_with_text_from_right_to_left_is_written() {
    let text = "שלום עולם, 12 ימים ב New York.\n\n- פריט ראשון\n- second item\n\n| עיר | מספר |\n|---|---|\n| חיפה | 7 |";
    let bytes = written(text, Format::Pdf);
    assert!(bytes.starts_with(b"%PDF"));
}

#[test]
fn what_no_font_has_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings { folder: home.path().into(), ..Settings::default() };
    // A letter that no common font has.
    let created = create(&settings, &asked("The letter \u{16AC0}\u{FFF0}.", Format::Pdf)).unwrap();
    assert!(created.notices.iter().any(|notice| notice.contains("no font")), "{created:?}");
    assert_eq!(create(&settings, &asked("The letter \u{16AC0}\u{FFF0}.", Format::Pdf)).unwrap().notices, created.notices);
}

#[test]
fn names_are_safe() {
    let cases = [
        ("Report 2026", "Report-2026"),
        ("../../etc/passwd", "etc-passwd"),
        ("/abs", "abs"),
        ("a\0b\nc", "a-b-c"),
        (".hidden", "hidden"),
        ("..", "document"),
        ("", "document"),
        ("日本 語", "日本-語"),
        ("con", "document-con"),
        ("COM1.x", "document-COM1.x"),
        ("a/b\\c:d*e?f\"g<h>i|j", "a-b-c-d-e-f-g-h-i-j"),
    ];
    for (requested, wanted) in cases {
        assert_eq!(folder::safe_name(requested), wanted, "{requested:?}");
    }
    assert!(folder::safe_name(&"x".repeat(500)).len() <= 80);
}

#[test]
fn the_same_document_is_the_same_file_and_no_other_is_touched() {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings { folder: home.path().into(), ..Settings::default() };
    let make = |text: &str| create(&settings, &DocumentRequest { name: Some("report".into()), ..asked(text, Format::Html) }).unwrap();
    let ends = |created: &Created, name: &str| assert!(created.path.ends_with(name), "{} is not {name}", created.path);
    let first = make("one");
    ends(&first, "/report.html");
    assert_eq!(make("one"), Created { already: true, ..first.clone() });
    ends(&make("two"), "/report-2.html");
    // A user edits the file: it is left alone, and a new one is written.
    std::fs::write(&first.path, "my own words").unwrap();
    let again = make("one");
    ends(&again, "/report-3.html");
    assert_eq!(std::fs::read_to_string(&first.path).unwrap(), "my own words");
    assert_eq!(make("one"), Created { already: true, ..again });
    // A link to the outside counts as an existing name.
    std::os::unix::fs::symlink("/nowhere", home.path().join("report-4.html")).unwrap();
    ends(&make("three"), "/report-5.html");
}

#[test]
fn what_is_too_much_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings { folder: home.path().into(), markdown_bytes_max: 100_000, sources_max: 3, ..Settings::default() };
    let deep = (0..40).map(|n| format!("{}- x\n", "  ".repeat(n))).collect::<String>();
    let cases = [
        (String::new(), "`markdown`"),
        ("x".repeat(200_000), "`markdown`"),
        (">".repeat(10_000), "nested"),
        (deep, "nested"),
        ("*a ".repeat(30_000), ""),
        ("[".repeat(50_000), ""),
    ];
    for (text, wanted) in cases {
        for format in [Format::Html, Format::Docx] {
            match create(&settings, &asked(&text, format)) {
                Ok(_) => assert_eq!(wanted, "", "{:.40}", text),
                Err(e) => assert!(!wanted.is_empty() && e.to_string().contains(wanted), "{:.40}: {e}", text),
            }
        }
    }
    let many = DocumentRequest { sources: vec![Source::default(); 4], ..asked("x", Format::Html) };
    assert!(create(&settings, &many).unwrap_err().to_string().contains("sources"));
    // The maximum depth, in the format with the lowest limit.
    let deepest = (0..7).map(|n| format!("{}- x\n", "  ".repeat(n))).collect::<String>();
    create(&settings, &asked(&deepest, Format::Pdf)).unwrap();
}

#[test]
fn the_tool_declares_its_annotations() {
    let tools = Document::tool_router().list_all();
    let [tool] = tools.as_slice() else { panic!("{tools:?}") };
    let hints = tool.annotations.as_ref().unwrap();
    assert_eq!((&*tool.name, hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint), ("create", Some(false), Some(false), Some(true)));
    assert!(tool.output_schema.is_some());
    let schema = serde_json::to_value(&*tool.input_schema).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["markdown", "format"]), "{schema:#}");
}

#[test]
fn what_is_too_much_to_lay_out_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings { folder: home.path().into(), ..Settings::default() };
    let wide = format!("|{}\n|{}\n{}", "a|".repeat(200), "-|".repeat(200), "|b\n".repeat(100));
    let long = format!("|a|b|\n|-|-|\n{}", "|c|d|\n".repeat(40_000));
    let cases = [
        (wide.as_str(), "columns in one table"),
        (long.as_str(), "cells"),
        (&"*a* ".repeat(100_000), "pieces of formatted text"),
        (&"a ".repeat(900_000), "words"),
        (&"> ".repeat(100_000), "nested"),
    ];
    for (markdown, why) in cases {
        for format in [Format::Html, Format::Docx, Format::Pdf] {
            let error = create(&settings, &asked(markdown, format)).unwrap_err().to_string();
            assert!(error.contains(why) && error.len() < 300, "{format:?}: {error}");
        }
    }
}

#[test]
fn notes_brackets_and_links_are_read_once() {
    // Each takes minutes if notes, brackets or addresses are searched or copied once per use.
    let labels: String = (0..60_000).map(|n| format!("[^a{n}]")).chain((0..60_000).map(|n| format!("\n\n[^a{n}]: b"))).collect();
    page::read(&labels, None, &[]).unwrap();
    page::read(&format!("{}]", "[".repeat(1_500_000)), None, &sources()).unwrap();
    let link = format!("[{}](https://a.example/{})", "a ".repeat(100_000), "b".repeat(1_900));
    let pdf = written(&link, Format::Pdf);
    assert!(pdf.len() < 20_000_000, "{}", pdf.len());
}

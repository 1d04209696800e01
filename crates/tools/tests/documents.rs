//! Documents opened by other programs: LibreOffice for DOCX and HTML, poppler's `pdftotext` for PDF. Each must find every word, heading,
//! table, link and footnote. `lab/peers/documents` installs the programs and runs this; with BATON_DOCUMENTS_KEPT the documents are kept in
//! that folder.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_tools::document::{Document, DocumentRequest, Format, Settings, Source};

const TEXT: &str = "\
# Rivers of the world

The *Nile* is **very long** [1], and `code stays`. See [the map](https://example.org/map?x=1&y=2).

## Numbers

| River | Length |
|:------|-------:|
| Nile  | 6650   |
| Amur  | 2824 [2] |

1. first item
   - inner item
     - deepest item
2. second item

> Somebody said this.

```
let x = 1 < 2 && \"quoted\";
```

Ελληνικά, Русский язык, äöüß, a note[^own].

[^own]: Words of my own.
";

/// Expected text, in any order.
const WORDS: &[&str] = &[
    "A title & more",
    "Rivers of the world",
    "very long",
    "code stays",
    "the map",
    "Numbers",
    "River",
    "6650",
    "2824",
    "first item",
    "inner item",
    "deepest item",
    "second item",
    "Somebody said this.",
    "let x = 1 < 2 && \"quoted\";",
    "Ελληνικά",
    "Русский язык",
    "äöüß",
];

/// Expected footnotes. LibreOffice leaves them out of plain text.
const NOTES: &[&str] = &["Lengths <measured>", "https://example.org/nile?a=1&b=2", "Atlas", "Words of my own."];

#[tokio::test]
#[ignore = "needs LibreOffice and poppler: lab/peers/documents"]
async fn others_open_them_with_everything_in_them() {
    let home = tempfile::tempdir().unwrap();
    let document = Document::new(Settings { folder: home.path().join("made"), ..Settings::default() }).unwrap();
    let source = |title: &str, address: &str| Source { title: title.into(), address: address.into() };
    let sources = vec![source("Lengths <measured>", "https://example.org/nile?a=1&b=2"), source("Atlas", "https://example.org/atlas")];
    let asked = |format| DocumentRequest {
        markdown: TEXT.into(),
        format,
        title: Some("A title & more".into()),
        name: Some("rivers".into()),
        sources: sources.clone(),
    };
    let out = home.path().join("out");

    let docx = PathBuf::from(document.create_document(asked(Format::Docx)).await.unwrap().path);
    has_all("DOCX as text", WORDS, &office(&docx, "txt:Text (encoded):UTF8", &out, "rivers.txt"));
    let html = office(&docx, "html:HTML:EmbedImages", &out, "rivers.html");
    for wanted in ["<h1", "<h2", "<table", "<ol", "<ul", "href=\"https://example.org/map?x=1&amp;y=2\"", "sdfootnote1", "sdfootnote3"] {
        assert!(html.contains(wanted), "DOCX: LibreOffice sees no {wanted}:\n{html}");
    }
    office(&docx, "pdf", &out, "rivers.pdf");
    let text = pdf_text(&out.join("rivers.pdf"));
    has_all("DOCX as PDF", WORDS, &text);
    has_all("DOCX as PDF, footnotes", NOTES, &text);

    let html = PathBuf::from(document.create_document(asked(Format::Html)).await.unwrap().path);
    let text = office(&html, "txt:Text (encoded):UTF8", &out, "rivers.txt");
    has_all("HTML", WORDS, &text);
    has_all("HTML, notes", NOTES, &text);

    let pdf = PathBuf::from(document.create_document(asked(Format::Pdf)).await.unwrap().path);
    has_all("PDF", WORDS, &pdf_text(&pdf));
    has_all("PDF, footnotes", NOTES, &pdf_text(&pdf));
    let info = String::from_utf8(Command::new("pdfinfo").arg(&pdf).output().unwrap().stdout).unwrap();
    assert!(info.contains("A title & more"), "{info}");
    let urls = String::from_utf8(Command::new("pdfinfo").arg("-url").arg(&pdf).output().unwrap().stdout).unwrap();
    for wanted in ["https://example.org/map?x=1&y=2", "https://example.org/nile?a=1&b=2"] {
        assert!(urls.contains(wanted), "{wanted} is no link in the PDF: {urls}");
    }
    // A table's row is a line of the page, and its footnotes are below everything.
    if let Some(folder) = std::env::var_os("BATON_DOCUMENTS_KEPT") {
        for (from, name) in [(&pdf, "rivers.pdf"), (&docx, "rivers.docx"), (&html, "rivers.html"), (&out.join("rivers.pdf"), "docx.pdf")] {
            std::fs::copy(from, Path::new(&folder).join(name)).unwrap();
        }
    }
    let text = pdf_text(&pdf);
    let row = text.lines().find(|line| line.contains("Nile") && line.contains("6650"));
    assert!(row.is_some(), "{text}");
    assert!(text.find("Words of my own.") > text.find("äöüß"), "{text}");
}

fn has_all(what: &str, wanted: &[&str], text: &str) {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['\u{201c}', '\u{201d}'], "\"");
    let text = flat(text);
    let missing: Vec<_> = wanted.iter().filter(|words| !text.contains(&flat(words))).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} not in\n{text}");
    println!("{what}: all {} there", wanted.len());
}

fn office(file: &Path, to: &str, out: &Path, name: &str) -> String {
    // A separate profile, independent of a running instance.
    let profile = format!("-env:UserInstallation=file://{}/profile", out.display());
    let status = Command::new("soffice").arg(profile).args(["--headless", "--convert-to", to, "--outdir"]).arg(out).arg(file).output().unwrap();
    let bytes = std::fs::read(out.join(name)).unwrap_or_else(|e| panic!("{}: {e}: {status:?}", file.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn pdf_text(file: &Path) -> String {
    let output = Command::new("pdftotext").args(["-layout", "-enc", "UTF-8"]).arg(file).arg("-").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

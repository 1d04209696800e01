//! Documents made to harm their parsers. Each is small; the work of a naive parser is not.
//!
//! Tests of several crates include this file with `#[path]`, so it needs only flate2 and zip.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};

/// All of them: a file name, and its bytes.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("self-reference.pdf", pdf_with_self_referencing_form()),
        ("double-deflate.pdf", pdf_compressed_twice()),
        ("nested-forms.pdf", pdf_with_nested_forms()),
        ("deep-objects.pdf", pdf_with_deep_objects()),
        ("long-heading.docx", docx_with_a_long_heading()),
        ("deep-headings.docx", docx_with_deep_headings()),
        ("long-heading.md", markdown_with_a_long_heading().into_bytes()),
        ("deep-quotes.md", ">".repeat(1_000_000).into_bytes()),
        ("deep-lists.md", "- ".repeat(500_000).into_bytes()),
        ("short-blocks.txt", "a\n\n".repeat(1_000_000).into_bytes()),
        ("deep-page.html", "<b><div>".repeat(125_000).into_bytes()),
    ]
}

/// A form that draws itself: a parser that follows it recurses until the stack overflows.
pub(crate) fn pdf_with_self_referencing_form() -> Vec<u8> {
    let form = "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 5 0 R >> >>";
    pdf(&[page("/XObject << /F 5 0 R >>"), stream("", b"/F Do"), stream(form, b"/F Do")])
}

/// Forms that each draw the next one twice: exponential work.
pub(crate) fn pdf_with_nested_forms() -> Vec<u8> {
    const FORMS: usize = 40;
    let mut objects = vec![page("/XObject << /F 5 0 R >>"), stream("", b"/F Do")];
    for form in 0..FORMS {
        let next = if form + 1 < FORMS { format!("/XObject << /F {} 0 R >>", 6 + form) } else { String::new() };
        let head = format!("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << {next} >>");
        objects.push(stream(&head, if form + 1 < FORMS { b"/F Do /F Do".as_slice() } else { b"q Q" }));
    }
    pdf(&objects)
}

/// 16 kB that unpack to 16 MB that unpack to 16 GB.
pub(crate) fn pdf_compressed_twice() -> Vec<u8> {
    let inner = zlib_of_zeros(16 << 10);
    let mut outer = ZlibEncoder::new(Vec::new(), Compression::best());
    outer.write_all(&inner).unwrap();
    pdf(&[page(""), stream("/Filter [/FlateDecode /FlateDecode]", &outer.finish().unwrap())])
}

/// An array in an array in an array.
pub(crate) fn pdf_with_deep_objects() -> Vec<u8> {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    pdf(&[page(""), stream("", format!("{deep} TJ").as_bytes()), deep.into_bytes()])
}

/// A heading of a megabyte over many paragraphs, each of which has its heading.
pub(crate) fn docx_with_a_long_heading() -> Vec<u8> {
    let heading = format!("<w:p><w:pPr><w:pStyle w:val=\"Heading1\"/></w:pPr><w:r><w:t>{}</w:t></w:r></w:p>", "h".repeat(1_000_000));
    docx(&format!("{heading}{}", "<w:p><w:r><w:t>a</w:t></w:r></w:p>".repeat(20_000)))
}

/// Headings that are each nested under all earlier ones.
pub(crate) fn docx_with_deep_headings() -> Vec<u8> {
    let mut body = String::new();
    for level in 0..20_000 {
        let style = format!("<w:pPr><w:pStyle w:val=\"Heading{level}\"/></w:pPr>");
        let _ = write!(body, "<w:p>{style}<w:r><w:t>heading</w:t></w:r></w:p><w:p><w:r><w:t>a</w:t></w:r></w:p>");
    }
    docx(&body)
}

pub(crate) fn markdown_with_a_long_heading() -> String {
    format!("# {}\n\n{}", "h".repeat(500_000), "a\n\n".repeat(100_000))
}

/// Objects from number 3 on: the page, its content, and others.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let catalog = b"<< /Type /Catalog /Pages 2 0 R >>".to_vec();
    let pages = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec();
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (number, object) in (1..).zip([&catalog, &pages].into_iter().chain(objects)) {
        offsets.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let table = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", offsets.len() + 1).bytes());
    bytes.extend(offsets.iter().flat_map(|offset| format!("{offset:010} 00000 n \n").into_bytes()));
    bytes.extend(format!("trailer << /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", offsets.len() + 1).bytes());
    bytes
}

fn page(resources: &str) -> Vec<u8> {
    format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Resources << {resources} >> >>").into_bytes()
}

fn stream(head: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("<< {head} /Length {} >>\nstream\n", content.len()).into_bytes();
    bytes.extend(content);
    bytes.extend(b"\nendstream");
    bytes
}

/// The zlib stream of this many mebibytes of zeros, without compressing them: all blocks after the first are equal.
fn zlib_of_zeros(mebibytes: usize) -> Vec<u8> {
    let zeros = vec![0; 1 << 20];
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    let mut ends = Vec::new();
    for _ in 0..3 {
        encoder.write_all(&zeros).unwrap();
        encoder.flush().unwrap();
        ends.push(encoder.get_ref().len());
    }
    let blocks = encoder.get_ref().clone();
    let mut bytes = vec![0x78, 0xDA];
    bytes.extend(&blocks[..ends[1]]);
    for _ in 2..mebibytes {
        bytes.extend(&blocks[ends[1]..ends[2]]);
    }
    // An empty last block, and Adler-32 of zeros.
    bytes.extend([0x03, 0x00]);
    let zeros_count = (mebibytes as u64) << 20;
    bytes.extend((((zeros_count % 65_521) as u32) << 16 | 1).to_be_bytes());
    bytes
}

fn docx(body: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    archive.start_file("word/document.xml", options).unwrap();
    archive.write_all(format!("<w:document xmlns:w=\"x\"><w:body>{body}</w:body></w:document>").as_bytes()).unwrap();
    archive.finish().unwrap().into_inner()
}

//! Reads files into documents: blocks of text with headings and locations. One file here per format.
//!
//! Reading any file ends with a document or with a reason; a panic of a parser is such a reason. The size of a document is bounded. Memory,
//! stack and time of parsing a PDF or DOCX are not bounded here: see `reader.rs`.

mod code;
#[cfg(feature = "documents")]
mod docx;
mod html;
mod markdown;
#[cfg(feature = "documents")]
mod pdf;
mod text;

mod outline;
mod packed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use crate::passage::Location;
pub(crate) use outline::HeadingPath;
use outline::{Outline, cut_heading};

/// Blocks of one document. Further ones are dropped, like passages beyond `file_passages_max`.
const BLOCKS_MAX: usize = 250_000;
/// A longer link is not followed.
const LINK_BYTES_MAX: usize = 2_000;
/// Text files up to this size are parsed in the caller's process even with a reader process: their parsers need linear memory, and even
/// quadratic time would be short.
const IN_PROCESS_BYTES_MAX: usize = 64 << 10;

/// A parsed document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// In code, the enclosing symbols.
    pub(crate) headings: HeadingPath,
    pub(crate) text: String,
    pub(crate) place: Option<Location>,
    pub(crate) links: Vec<String>,
}

impl Document {
    fn push(&mut self, mut block: Block) {
        if self.blocks.len() < BLOCKS_MAX {
            block.links.retain(|link| link.len() <= LINK_BYTES_MAX);
            self.blocks.push(block);
        }
    }

    /// The title of the document, or its file name.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Text and location of each block, in order.
    pub fn texts(&self) -> impl Iterator<Item = (&str, Option<Location>)> {
        self.blocks.iter().map(|block| (block.text.as_str(), block.place))
    }
}

/// Why a file is not in the index.
#[derive(Clone, Debug, PartialEq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum Skipped {
    #[error("larger than {bytes_max} bytes")]
    TooLarge { bytes_max: u64 },
    #[error("not text, and not a format that is read")]
    Binary,
    #[error("generated: its lines are too long for people")]
    Generated,
    #[error("nothing to read in it")]
    Empty,
    #[error("cannot be read: {0}")]
    Broken(String),
    #[error("took longer than {seconds_max} s to read")]
    TooSlow { seconds_max: u64 },
    #[error("needs more than {mib_max} MiB of memory to read; it is skipped until it changes")]
    TooMuchMemory { mib_max: u64 },
    #[error("reading it crashed the reader ({0}); it is skipped until it changes")]
    Crashed(String),
    /// Not caused by the file: it is tried again.
    #[error("the document reader does not work: {0}")]
    NoReader(String),
    /// Not caused by the file either.
    #[error("this binary was built without PDF and DOCX; build it with the feature `documents`")]
    NotBuilt,
    #[error("its name is not Unicode")]
    Name,
    #[error("there are more files than {files_max}")]
    TooMany { files_max: usize },
}

/// Limits on reading one file.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Limit of a file, and of its unpacked content.
    pub bytes_max: u64,
    /// Time to read one file.
    pub time_max: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Markdown,
    Html,
    Pdf,
    Docx,
    Code,
    Text,
}

/// By the extension; an unknown one is text if it looks like it.
fn kind(path: &Path) -> Kind {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "md" | "markdown" | "mdown" | "mkd" | "mdx" => Kind::Markdown,
        "html" | "htm" | "xhtml" => Kind::Html,
        "pdf" => Kind::Pdf,
        "docx" | "docm" => Kind::Docx,
        ending if code::ENDINGS.contains(&ending) => Kind::Code,
        _ => Kind::Text,
    }
}

/// Whether a file is plain text, and small enough to be parsed in the caller's process.
pub fn is_small_text(path: &Path, bytes: usize) -> bool {
    bytes <= IN_PROCESS_BYTES_MAX && !matches!(kind(path), Kind::Pdf | Kind::Docx)
}

/// Reads a document on this thread. Hostile PDF and DOCX files can take any amount of memory, stack and time, so call it in a process that
/// limits them.
pub fn read_document(path: &Path, bytes: &[u8], limits: ReadLimits) -> Result<Document, Skipped> {
    if bytes.len() as u64 > limits.bytes_max {
        return Err(Skipped::TooLarge { bytes_max: limits.bytes_max });
    }
    let kind = kind(path);
    let read = catch_unwind(AssertUnwindSafe(|| match kind {
        #[cfg(feature = "documents")]
        Kind::Pdf => pdf::read(bytes, limits),
        #[cfg(feature = "documents")]
        Kind::Docx => docx::read(bytes, limits),
        #[cfg(not(feature = "documents"))]
        Kind::Pdf | Kind::Docx => Err(Skipped::NotBuilt),
        kind => {
            let text = text_of(bytes)?;
            Ok(match kind {
                Kind::Markdown => markdown::read(&text),
                Kind::Html => html::read(&text),
                Kind::Code => code::read(&generated_is_skipped(text)?),
                Kind::Pdf | Kind::Docx | Kind::Text => text::read(&generated_is_skipped(text)?),
            })
        }
    }));
    let mut document = read.unwrap_or_else(|_| Err(Skipped::Broken("its parser panicked".into())))?;
    document.blocks.retain(|block| block.text.chars().any(char::is_alphanumeric));
    if document.blocks.is_empty() {
        return Err(Skipped::Empty);
    }
    if document.title.trim().is_empty() {
        document.title = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    }
    document.title = cut_heading(document.title);
    Ok(document)
}

/// UTF-8, or UTF-16 with a byte order mark; anything else is not text.
fn text_of(bytes: &[u8]) -> Result<String, Skipped> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map_err(|_| Skipped::Binary)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let text = std::str::from_utf8(bytes).map_err(|_| Skipped::Binary)?;
            if text.contains('\0') { Err(Skipped::Binary) } else { Ok(text.to_owned()) }
        }
    }
}

/// Minified code and single-line data match every question and answer none.
fn generated_is_skipped(text: String) -> Result<String, Skipped> {
    const LINE_BYTES_MEAN_MAX: usize = 1000;
    const BYTES_MIN: usize = 20_000;
    let lines = text.lines().count().max(1);
    if text.len() > BYTES_MIN && text.len() / lines > LINE_BYTES_MEAN_MAX { Err(Skipped::Generated) } else { Ok(text) }
}

/// Maps bytes to lines, counted from one.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Lines(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    fn at(&self, byte: usize) -> u32 {
        self.0.partition_point(|newline| *newline < byte) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReadLimits = ReadLimits { bytes_max: 1 << 20, time_max: Duration::from_secs(20) };

    fn why(name: &str, bytes: &[u8]) -> String {
        read_document(Path::new(name), bytes, LIMITS).unwrap_err().to_string()
    }

    #[test]
    fn unreadable_files_are_errors_with_a_reason() {
        let cases: [(&str, &[u8], &str); 9] = [
            ("a.md", b"", "nothing to read"),
            ("a.txt", b"--- ***", "nothing to read"),
            ("a.txt", b"\x00\x01\x02", "not text"),
            ("a.md", b"\xff\xff\xff", "not text"),
            ("a.pdf", b"%PDF-1.7 and then nothing", "cannot be read"),
            ("a.docx", b"PK\x03\x04 rubbish", "cannot be read"),
            ("a.js", &[b"var a=1;".repeat(10_000).as_slice()].concat(), "generated"),
            ("a.txt", &vec![b'a'; 2 << 20], "larger than"),
            ("a.html", b"<script>only()</script>", "nothing to read"),
        ];
        for (name, bytes, expected) in cases {
            let why = why(name, bytes);
            assert!(why.contains(expected), "{name}: {why}");
        }
    }

    #[test]
    fn text_comes_in_several_encodings() {
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain("Grüße\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        for bytes in [b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe".to_vec(), wide] {
            assert_eq!(read_document(Path::new("note.txt"), &bytes, LIMITS).unwrap().blocks[0].text, "Grüße");
        }
    }
}

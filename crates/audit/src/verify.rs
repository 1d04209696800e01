//! Reads the log and verifies its chain of hashes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use crate::event::{ChainStart, Line};
use crate::log::{LINE_BYTES_MAX, NO_HASH, file_name, files};

/// The last line: its number and hash. Stored in another place, it proves later that no line before it was changed or cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the line.
    pub seq: u64,
    /// Its hash, in hex.
    pub hash: String,
}

/// The result for a log whose chain is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many lines there are.
    pub lines: u64,
    /// The number of the first line that is left.
    pub first: u64,
    /// `None` if the log is empty.
    pub head: Option<Head>,
    /// Whether the line of the head that was passed in has that hash; `None` if the line is not in the log.
    pub has_kept: Option<bool>,
}

/// The first line that breaks the chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: line {line} is broken: {why}", file.display())]
pub struct BrokenLine {
    /// The file of the line.
    pub file: PathBuf,
    /// From 1, in the file.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// A line of a file: its content and its hash, or what is wrong with it.
pub struct StoredLine<'f> {
    /// The file of the line.
    pub file: &'f Path,
    /// From 1, in the file.
    pub line: u64,
    /// The line and its hash, or what is wrong with it.
    pub entry: Result<(Line, String), String>,
}

impl StoredLine<'_> {
    fn broken(&self, why: impl Into<String>) -> BrokenLine {
        BrokenLine { file: self.file.to_owned(), line: self.line, why: why.into() }
    }
}

/// Calls `each` for every line of the log in order, until it returns `false`.
pub fn read(folder: &Path, mut each: impl FnMut(StoredLine<'_>) -> bool) -> io::Result<()> {
    for number in files(folder)? {
        let path = file_name(folder, number);
        let mut reader = BufReader::new(File::open(&path)?);
        for line in 1.. {
            let mut bytes = Vec::new();
            if reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let text = match bytes.strip_suffix(b"\n") {
                None => Err("it has no end; a write was cut off".to_owned()),
                Some(text) => std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned()),
            };
            let entry = text.and_then(Line::opened);
            if !each(StoredLine { file: &path, line, entry }) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Checks every line: its hash, its number, and that it is chained to the one before. After files were removed, a later line must say so. `kept` is a head
/// that was reported earlier.
pub fn verify(folder: &Path, kept: Option<&Head>) -> io::Result<Result<Verified, BrokenLine>> {
    let all = files(folder)?;
    if let Some(gap) = all.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        return Ok(Err(BrokenLine { file: file_name(folder, gap[1]), line: 1, why: format!("a file is missing between {:08} and it", gap[0]) }));
    }
    let mut verified = Verified { lines: 0, first: 0, head: None, has_kept: None };
    let (mut beginning, mut dropped, mut broken) = (None, Vec::new(), None);
    read(folder, |found| {
        let fits = check(&found, verified.head.as_ref());
        let (line, hash) = match fits {
            Ok(fits) => fits,
            Err(line) => {
                broken = Some(line);
                return false;
            }
        };
        if verified.lines == 0 {
            verified.first = line.seq;
            beginning = (line.seq > 1).then(|| (ChainStart { through: line.seq - 1, hash: line.prev.clone() }, found.broken("")));
        }
        if let Some(kept) = kept.filter(|kept| kept.seq == line.seq) {
            verified.has_kept = Some(kept.hash == *hash);
        }
        dropped.extend(line.dropped.clone());
        verified.lines += 1;
        verified.head = Some(Head { seq: line.seq, hash: hash.clone() });
        true
    })?;
    if let (None, Some((missing, at))) = (&broken, beginning)
        && !dropped.contains(&missing)
    {
        let why = format!("lines up to {} are missing, and no line says that they were removed", missing.through);
        broken = Some(BrokenLine { why, ..at });
    }
    Ok(broken.map_or(Ok(verified), Err))
}

/// Whether a line fits the one before.
fn check<'e>(found: &'e StoredLine<'_>, before: Option<&Head>) -> Result<&'e (Line, String), BrokenLine> {
    let entry = found.entry.as_ref().map_err(|why| found.broken(why))?;
    let line = &entry.0;
    let why = match before {
        None if line.seq == 1 && line.prev != NO_HASH => "it is the first line, but is chained to another",
        Some(before) if line.seq != before.seq + 1 => "lines before it are missing, or it was put in or moved",
        Some(before) if line.prev != before.hash => "the line before it was changed",
        None | Some(_) => return Ok(entry),
    };
    Err(found.broken(why))
}

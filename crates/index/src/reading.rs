//! Records which files are being read before they are read: a file that crashed the process is known at the next start.
//!
//! A parent process detects a crash of a reader process. This log is for a crash of the indexing process itself. It may also have been
//! stopped by a person, so a file is skipped only after two crashes with the same content. After the first one it is read alone, so that
//! the second one shows which of several files it was.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const INTERRUPTIONS_MAX: u32 = 2;

/// Stored beside the index; opened only by the process that may write the index.
pub(crate) struct ReadingLog {
    path: PathBuf,
    file: Option<File>,
    state: State,
}

#[derive(Default, Serialize, Deserialize)]
struct State {
    /// As versions that read one file at a time left it.
    #[serde(default, skip_serializing)]
    reading: Option<Attempt>,
    /// Files that are being read, and the hashes of their content.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// By file: content during whose reading the process ended.
    #[serde(default)]
    interrupted: BTreeMap<String, Interrupted>,
}

#[derive(Deserialize)]
struct Attempt {
    file: String,
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct Interrupted {
    hash: String,
    times: u32,
}

impl ReadingLog {
    pub(crate) fn open(home: &Path) -> Self {
        let path = home.join("reading.json");
        // An unparsable log was being written; nothing was being read then.
        let mut state: State = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let left = std::mem::take(&mut state.files).into_iter().chain(state.reading.take().map(|attempt| (attempt.file, attempt.hash)));
        for (file, hash) in left.collect::<Vec<_>>() {
            let known = state.interrupted.get(&file).filter(|known| known.hash == hash).map_or(0, |known| known.times);
            state.interrupted.insert(file, Interrupted { hash, times: known + 1 });
        }
        ReadingLog { path, file: None, state }
    }

    /// Whether the process ended while it read this file, or another one at the same time.
    pub(crate) fn is_suspect(&self, file: &str) -> bool {
        self.state.interrupted.contains_key(file)
    }

    /// Whether reading this content crashed too often to try again.
    pub(crate) fn is_blocked(&self, file: &str, hash: &str) -> bool {
        self.state.interrupted.get(file).is_some_and(|known| known.hash == hash && known.times >= INTERRUPTIONS_MAX)
    }

    /// Records that the file is being read. With `is_synced` the record survives a crash of the machine too.
    pub(crate) fn begin(&mut self, file: &str, hash: &str, is_synced: bool) -> io::Result<()> {
        self.state.files.insert(file.to_owned(), hash.to_owned());
        self.write(is_synced)
    }

    /// The file was read, or skipped for a known reason.
    pub(crate) fn end(&mut self, file: &str) {
        self.state.files.remove(file);
        self.state.interrupted.remove(file);
    }

    /// Writes which files are still being read.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        if self.path.exists() { self.write(true) } else { Ok(()) }
    }

    fn write(&mut self, is_synced: bool) -> io::Result<()> {
        let text = serde_json::to_vec(&self.state)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::options().create(true).write(true).truncate(false).open(&self.path)?),
        };
        // Overwritten in place, since it changes for every file. A process that ends in between was reading nothing.
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&text)?;
        file.set_len(text.len() as u64)?;
        if is_synced { file.sync_all() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_blocked_after_two_interruptions_with_the_same_content() {
        let home = tempfile::tempdir().unwrap();
        // The process ends while it reads b.pdf; a.pdf is read before it each time.
        for is_blocked in [false, false, true] {
            let mut log = ReadingLog::open(home.path());
            log.begin("a.pdf", "1", true).unwrap();
            log.end("a.pdf");
            assert_eq!(log.is_blocked("b.pdf", "2"), is_blocked);
            assert!(!log.is_blocked("b.pdf", "3") && !log.is_blocked("a.pdf", "1"));
            log.begin("b.pdf", "2", true).unwrap();
        }
        let mut log = ReadingLog::open(home.path());
        assert!(log.is_suspect("b.pdf"));
        log.begin("b.pdf", "3", false).unwrap();
        log.end("b.pdf");
        log.save().unwrap();
        let log = ReadingLog::open(home.path());
        assert!(!log.is_blocked("b.pdf", "2") && !log.is_suspect("b.pdf"));
    }

    #[test]
    fn all_files_that_are_being_read_are_suspects() {
        let home = tempfile::tempdir().unwrap();
        let mut log = ReadingLog::open(home.path());
        for file in ["a.pdf", "b.pdf", "c.pdf"] {
            log.begin(file, "1", true).unwrap();
        }
        log.end("b.pdf");
        log.save().unwrap();
        let log = ReadingLog::open(home.path());
        assert_eq!(["a.pdf", "b.pdf", "c.pdf"].map(|file| log.is_suspect(file)), [true, false, true]);
        assert!(!log.is_blocked("a.pdf", "1"));
    }
}

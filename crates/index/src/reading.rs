//! Records which file is being read before it is read: a file that crashed the process is known at the next start.
//!
//! A parent process detects a crash of a reader process. This log is for a crash of the indexing process itself. It may also have been
//! stopped by a person, so a file is skipped only after two crashes with the same content.

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
    #[serde(default)]
    reading: Option<Attempt>,
    /// By file: content during whose reading the process ended.
    #[serde(default)]
    interrupted: BTreeMap<String, Interrupted>,
}

#[derive(Serialize, Deserialize)]
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
        if let Some(Attempt { file, hash }) = state.reading.take() {
            let known = state.interrupted.get(&file).filter(|known| known.hash == hash).map_or(0, |known| known.times);
            state.interrupted.insert(file, Interrupted { hash, times: known + 1 });
        }
        ReadingLog { path, file: None, state }
    }

    /// Whether reading this content crashed too often to try again.
    pub(crate) fn is_blocked(&self, file: &str, hash: &str) -> bool {
        self.state.interrupted.get(file).is_some_and(|known| known.hash == hash && known.times >= INTERRUPTIONS_MAX)
    }

    /// Records that the file is being read. With `is_synced` the record survives a crash of the machine too.
    pub(crate) fn begin(&mut self, file: &str, hash: &str, is_synced: bool) -> io::Result<()> {
        self.state.reading = Some(Attempt { file: file.to_owned(), hash: hash.to_owned() });
        self.write(is_synced)
    }

    /// The file was read, or skipped for a known reason.
    pub(crate) fn end(&mut self) {
        if let Some(attempt) = self.state.reading.take() {
            self.state.interrupted.remove(&attempt.file);
        }
    }

    /// Nothing is being read any more.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.state.reading = None;
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
            log.end();
            assert_eq!(log.is_blocked("b.pdf", "2"), is_blocked);
            assert!(!log.is_blocked("b.pdf", "3") && !log.is_blocked("a.pdf", "1"));
            log.begin("b.pdf", "2", true).unwrap();
        }
        let mut log = ReadingLog::open(home.path());
        log.begin("b.pdf", "3", false).unwrap();
        log.end();
        log.close().unwrap();
        assert!(!ReadingLog::open(home.path()).is_blocked("b.pdf", "2"));
    }
}

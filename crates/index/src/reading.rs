//! Which file is being read, written down before it is read: a file whose reading ended the process is known at the next start.
//!
//! A crash of a reader process is seen by its parent. This log is for the other case, that the indexing process itself ended. It may have
//! been stopped by a person, so a file is skipped only after it happened twice with the same content.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const INTERRUPTIONS_MAX: u32 = 2;

/// Kept beside the index; to be opened only by the process that may write the index.
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
        // One that cannot be parsed was being written; nothing was being read then.
        let mut state: State = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        if let Some(Attempt { file, hash }) = state.reading.take() {
            let known = state.interrupted.get(&file).filter(|known| known.hash == hash).map_or(0, |known| known.times);
            state.interrupted.insert(file, Interrupted { hash, times: known + 1 });
        }
        ReadingLog { path, file: None, state }
    }

    /// Whether this process ended so often while it read this content that it is not read again.
    pub(crate) fn is_blocked(&self, file: &str, hash: &str) -> bool {
        self.state.interrupted.get(file).is_some_and(|known| known.hash == hash && known.times >= INTERRUPTIONS_MAX)
    }

    /// Writes down that the file is being read. With `is_synced` it survives a crash of the machine too.
    pub(crate) fn begin(&mut self, file: &str, hash: &str, is_synced: bool) -> io::Result<()> {
        self.state.reading = Some(Attempt { file: file.to_owned(), hash: hash.to_owned() });
        self.write(is_synced)
    }

    /// The file was read, or left out for a reason that is known.
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
        // In place, since it is written for every file. A process that ends in between was reading nothing.
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

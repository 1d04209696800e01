//! Adding lines, one process at a time, and removing the oldest files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::event::{ChainStart, Event, EventKind, Line};

/// The longest line; the texts in it are cut.
pub(crate) const LINE_BYTES_MAX: u64 = 16 << 10;
/// The smallest `file_bytes_max`.
const FILE_BYTES_MIN: u64 = 1 << 10;
const LOCK: &str = "lock";
const ENDING: &str = "jsonl";
/// The user in lines that the log writes itself.
const ITSELF: &str = "baton";

/// Section `[audit]` of the configuration: when a new file begins and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// A file that is this long is followed by another.
    pub file_bytes_max: u64,
    /// Files that are kept.
    pub files_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { file_bytes_max: 8 << 20, files_max: 64 }
    }
}

/// Why a line could not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum AuditError {
    #[error("the audit log {} cannot be written: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("the audit log {} ends with a line that is broken ({why}); `baton audit verify` shows where, and moving the folder away starts a new log", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("the recorder of the audit log has stopped; the server's log says why")]
    Stopped,
}

/// The log of one folder. Several processes may use it at once.
pub struct Log {
    folder: PathBuf,
    settings: Settings,
    end: Mutex<Option<LogEnd>>,
}

/// The newest file and its last line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogEnd {
    file: u64,
    bytes: u64,
    seq: u64,
    hash: String,
}

/// `prev` of the first line.
pub(crate) const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

impl Log {
    /// Creates no file before the first line.
    pub fn new(folder: PathBuf, settings: Settings) -> Log {
        let settings = Settings { file_bytes_max: settings.file_bytes_max.max(FILE_BYTES_MIN), ..settings };
        Log { folder, settings, end: Mutex::new(None) }
    }

    /// The folder of the log's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds lines, in this order. They are on the disk when this returns. Blocks.
    pub fn append(&self, events: &[Event], now_ms: i64) -> Result<(), AuditError> {
        let mut known = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(|error| self.io_error(error))?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.join(LOCK)).map_err(|error| self.io_error(error))?;
        lock.lock().map_err(|error| self.io_error(error))?;
        // Another process may have added lines since.
        let (mut end, repaired) = match known.take() {
            Some(end) if self.is_end(&end) => (end, None),
            _ => self.find_end()?,
        };
        let mut lines = Vec::with_capacity(events.len() + 1);
        lines.extend(repaired.map(|bytes| Event::new(EventKind::LogRepaired, ITSELF).detail(format!("{bytes} bytes of a line that was cut off"))));
        lines.extend(events.iter().cloned());
        end = self.write(end, &lines, now_ms)?;
        end = self.drop_oldest(end, now_ms)?;
        *known = Some(end);
        Ok(())
    }

    fn write(&self, mut end: LogEnd, events: &[Event], now_ms: i64) -> Result<LogEnd, AuditError> {
        let mut at = 0;
        while at < events.len() {
            if end.bytes >= self.settings.file_bytes_max {
                end = LogEnd { file: end.file + 1, bytes: 0, ..end };
            }
            let mut text = String::new();
            while at < events.len() && end.bytes + (text.len() as u64) < self.settings.file_bytes_max {
                let (line, hash) = Line::new(&events[at], end.seq + 1, now_ms, &end.hash).sealed().map_err(|error| self.io_error(error.into()))?;
                text.push_str(&line);
                (end.seq, end.hash, at) = (end.seq + 1, hash, at + 1);
            }
            self.put(end.file, &text)?;
            end.bytes += text.len() as u64;
        }
        Ok(end)
    }

    /// Adds text to a file, and waits until it is on the disk.
    fn put(&self, number: u64, text: &str) -> Result<(), AuditError> {
        let path = file_name(&self.folder, number);
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(|error| self.io_error(error))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(|error| self.io_error(error))?;
        if is_new {
            File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(|error| self.io_error(error))?;
        }
        Ok(())
    }

    /// Removes the oldest files, each after a line that states where the chain begins then.
    fn drop_oldest(&self, mut end: LogEnd, now_ms: i64) -> Result<LogEnd, AuditError> {
        let mut files = files(&self.folder).map_err(|error| self.io_error(error))?;
        while files.len() > self.settings.files_max.max(2) {
            let oldest = files.remove(0);
            let (last, hash) = self.last_line(oldest)?.0.ok_or_else(|| self.broken("the oldest file is empty".to_owned()))?;
            let dropped = Some(ChainStart { through: last.seq, hash });
            let event = Event::new(EventKind::LogDropped, ITSELF).detail(format!("lines up to {} were removed", last.seq));
            let line = Line { dropped, ..Line::new(&event, end.seq + 1, now_ms, &end.hash) };
            let (text, hash) = line.sealed().map_err(|error| self.io_error(error.into()))?;
            self.put(end.file, &text)?;
            end = LogEnd { bytes: end.bytes + text.len() as u64, seq: line.seq, hash, ..end };
            fs::remove_file(file_name(&self.folder, oldest)).map_err(|error| self.io_error(error))?;
        }
        Ok(end)
    }

    fn is_end(&self, end: &LogEnd) -> bool {
        let has_bytes = |number: u64| fs::metadata(file_name(&self.folder, number)).ok().map(|found| found.len());
        has_bytes(end.file) == Some(end.bytes) && has_bytes(end.file + 1).is_none()
    }

    /// The last line of all, after half a line that a crash left was removed. The second value is how many bytes that were.
    fn find_end(&self) -> Result<(LogEnd, Option<u64>), AuditError> {
        let all = files(&self.folder).map_err(|error| self.io_error(error))?;
        let mut repaired = None;
        for number in all.iter().rev().copied() {
            let path = file_name(&self.folder, number);
            let (last, torn_bytes) = self.last_line(number)?;
            let bytes = fs::metadata(&path).map_err(|error| self.io_error(error))?.len();
            if torn_bytes > 0 {
                let file = OpenOptions::new().write(true).open(&path).map_err(|error| self.io_error(error))?;
                file.set_len(bytes - torn_bytes).and_then(|()| file.sync_all()).map_err(|error| self.io_error(error))?;
                repaired = Some(torn_bytes);
            }
            if let Some((line, hash)) = last {
                return Ok((LogEnd { file: number, bytes: bytes - torn_bytes, seq: line.seq, hash }, repaired));
            }
        }
        let file = all.first().copied().unwrap_or(1);
        Ok((LogEnd { file, bytes: 0, seq: 0, hash: NO_HASH.to_owned() }, repaired))
    }

    /// The last whole line of a file with its hash, and how many bytes come after it.
    fn last_line(&self, number: u64) -> Result<(Option<(Line, String)>, u64), AuditError> {
        let read = || -> io::Result<String> {
            let mut file = File::open(file_name(&self.folder, number))?;
            let bytes = file.metadata()?.len();
            file.seek(SeekFrom::Start(bytes.saturating_sub(2 * LINE_BYTES_MAX)))?;
            let mut tail = Vec::new();
            file.read_to_end(&mut tail)?;
            Ok(String::from_utf8_lossy(&tail).into_owned())
        };
        let tail = read().map_err(|error| self.io_error(error))?;
        let (whole, torn) = tail.rsplit_once('\n').unwrap_or(("", &tail));
        let torn_bytes = torn.len() as u64;
        match whole.rsplit('\n').next().filter(|line| !line.is_empty()) {
            None => Ok((None, torn_bytes)),
            Some(text) => Line::opened(text).map(|line| (Some(line), torn_bytes)).map_err(|why| self.broken(why)),
        }
    }

    fn io_error(&self, error: io::Error) -> AuditError {
        AuditError::Io { path: self.folder.clone(), error }
    }

    fn broken(&self, why: String) -> AuditError {
        AuditError::Broken { path: self.folder.clone(), why }
    }
}

pub(crate) fn file_name(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.{ENDING}"))
}

/// The numbers of the files there are, in order. A folder that is not there has none.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let number: Option<u64> = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if path.extension().is_some_and(|ending| ending == ENDING) {
            numbers.extend(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

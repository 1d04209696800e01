//! State of each file when it was read: size, time, hash, and why it was skipped. Stored beside the index.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::read::Skipped;

/// A file changed this shortly before it was read can change again within the same timestamp.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

/// A file's metadata from a folder scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FileStamp {
    pub(crate) size: u64,
    /// Nanoseconds since 1970.
    pub(crate) time: i128,
}

impl FileStamp {
    pub(crate) fn of(about: &fs::Metadata) -> Self {
        let time = about.modified().ok().map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        });
        FileStamp { size: about.len(), time }
    }

    pub(crate) fn seconds(&self) -> Option<i64> {
        i64::try_from(self.time.div_euclid(1_000_000_000)).ok().filter(|seconds| *seconds != 0)
    }

    /// Old enough that a later change will have a different time.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        now - self.time > CLOCK_GRAIN.as_nanos() as i128
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) version: u32,
    pub(crate) files: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) size: u64,
    pub(crate) time: i128,
    pub(crate) is_settled: bool,
    pub(crate) hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<Skipped>,
}

impl Manifest {
    /// An unreadable manifest counts as missing: the folders are read again.
    pub(crate) fn read(home: &Path) -> Self {
        let text = fs::read(home.join("files.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn write(&self, home: &Path) -> std::io::Result<()> {
        let new = home.join("files.json.new");
        fs::write(&new, serde_json::to_vec(self)?)?;
        File::open(&new)?.sync_all()?;
        fs::rename(new, home.join("files.json"))
    }

    /// Whether the file is unchanged since it was read.
    pub(crate) fn is_current(&self, file: &str, seen: &FileStamp) -> bool {
        self.files.get(file).is_some_and(|entry| entry.is_settled && entry.size == seen.size && entry.time == seen.time)
    }
}

//! Traces that survive a kill: a log to which each performed effect adds a line before and after, and a folder with a file for each effect
//! with side effects, to which it adds a line each time it happens.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use graph::Key;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    Begin {
        #[serde(with = "key_text")]
        key: Key,
        attempt: u32,
        name: String,
    },
    End {
        #[serde(with = "key_text")]
        key: Key,
        attempt: u32,
    },
    /// A start was confirmed, so this run must never be lost.
    Started { number: u64 },
    /// The person's decision about an effect of unknown outcome.
    Verdict {
        #[serde(with = "key_text")]
        key: Key,
        attempt: u32,
        happened: bool,
    },
}

/// The trace files.
pub struct Traces {
    log: File,
    outside: PathBuf,
    life: u64,
}

impl Traces {
    pub fn open(folder: &Path, life: u64) -> std::io::Result<Traces> {
        let outside = folder.join("outside");
        fs::create_dir_all(&outside)?;
        Ok(Traces { log: OpenOptions::new().create(true).append(true).open(folder.join("log"))?, outside, life })
    }

    /// One line in one write: a kill leaves all of it or nothing.
    pub fn log(&self, trace: &Trace) {
        let line = format!("{}\n", serde_json::to_string(&(self.life, trace)).expect("it is plain data"));
        (&self.log).write_all(line.as_bytes()).expect("the log can be written");
    }

    pub fn happen(&self, key: Key, value: &Value) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.outside.join(key.to_string())).expect("the outside can be changed");
        file.write_all(format!("{value}\n").as_bytes()).expect("the outside can be changed");
    }

    pub fn happened(&self, key: Key) -> Option<Value> {
        let text = fs::read_to_string(self.outside.join(key.to_string())).ok()?;
        serde_json::from_str(text.lines().next()?).ok()
    }
}

/// The whole log, each line with the life that wrote it.
pub fn read_log(folder: &Path) -> Vec<(u64, Trace)> {
    let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("every line is whole")).collect()
}

/// How often each effect happened.
pub fn read_outside(folder: &Path) -> Vec<(Key, usize)> {
    let Ok(files) = fs::read_dir(folder.join("outside")) else { return Vec::new() };
    let files = files.map(|file| file.expect("the folder can be read"));
    let happened = files.filter_map(|file| {
        let key = file.file_name().to_str()?.parse().ok()?;
        Some((key, fs::read_to_string(file.path()).ok()?.lines().count()))
    });
    happened.collect()
}

mod key_text {
    use graph::Key;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(key)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

//! The outbox: a folder per key, with the mail and its state.
//!
//! ```text
//!                  ┌────────────── refused ◄─────────────┐ the server rejected it: nothing was sent
//!                  ▼                                     │
//! (nothing) → intended ──► handed over ──► confirmed     │
//!                  ▲            │  │                     │
//!                  └────────────┘  └─────────────────────┘
//!          looked up, or a person said: it is not there
//! ```
//!
//! Each state is durable (temporary file, sync, rename, folder sync) before the next step. So a mail that is `intended` was certainly not
//! sent, one that is `confirmed` certainly was, and `handed over` is the only state in which a crash leaves the outcome unknown.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::MailError;

const STATE_FILE: &str = "state.json";
const MAIL_FILE: &str = "mail.eml";

#[derive(Clone, Debug)]
pub(super) struct Outbox {
    folder: PathBuf,
}

/// The slot of a key, locked by this process until dropped (or until it exits).
#[derive(Debug)]
pub(super) struct Slot {
    folder: PathBuf,
    _lock: File,
    pub(super) record: Option<Record>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) key: String,
    /// Digest of the request, so that one key cannot mean two mails.
    pub(super) asked: String,
    pub(super) message_id: String,
    pub(super) transport: String,
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) subject: String,
    pub(super) bytes: u64,
    #[serde(flatten)]
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum State {
    Intended {
        /// Gmail's draft, once it exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
    HandedOver {
        at_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
    Confirmed {
        at_ms: u64,
        reply: String,
    },
    Refused {
        at_ms: u64,
        reply: String,
        /// Whether a retry may help.
        again: bool,
    },
}

impl Outbox {
    pub(super) fn open(folder: &Path) -> Result<Self, MailError> {
        crate::workspace::make_private(folder).map_err(|e| MailError::Outbox(format!("make the folder {} writable ({e})", folder.display())))?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Locks a key's slot; creates it only if `make` is set, since a lookup must leave no trace.
    pub(super) fn take(&self, key: &str, make: bool) -> Result<Option<Slot>, MailError> {
        let folder = self.folder.join(digest(key));
        if !folder.is_dir() {
            if !make {
                return Ok(None);
            }
            let made = fs::create_dir(&folder).or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) });
            made.and_then(|()| sync_folder(&self.folder)).map_err(|e| storage_error(&folder, &e))?;
        }
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(|e| storage_error(&folder, &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(MailError::Busy),
            Err(TryLockError::Error(e)) => return Err(storage_error(&folder, &e)),
        }
        let record = match fs::read(folder.join(STATE_FILE)) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|e| {
                MailError::Outbox(format!(
                    "{} is not a state of a mail ({e}); see what happened to it before sending",
                    folder.join(STATE_FILE).display()
                ))
            })?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(storage_error(&folder, &e)),
        };
        Ok(Some(Slot { folder, _lock: lock, record }))
    }
}

impl Slot {
    pub(super) fn mail_path(&self) -> PathBuf {
        self.folder.join(MAIL_FILE)
    }

    pub(super) fn read_mail(&self) -> Result<Vec<u8>, MailError> {
        fs::read(self.mail_path()).map_err(|e| storage_error(&self.folder, &e))
    }

    /// The mail first and then its record, so that no record exists without its mail.
    pub(super) fn begin(&mut self, mail: &[u8], record: Record) -> Result<(), MailError> {
        write_durably(&self.folder, MAIL_FILE, mail).map_err(|e| storage_error(&self.folder, &e))?;
        self.save(record)
    }

    pub(super) fn turn(&mut self, state: State) -> Result<(), MailError> {
        let Some(record) = &self.record else { return Err(MailError::Outbox("there is no mail to note the state of".into())) };
        self.save(Record { state, ..record.clone() })
    }

    fn save(&mut self, record: Record) -> Result<(), MailError> {
        let bytes = serde_json::to_vec_pretty(&record).map_err(|e| MailError::Outbox(e.to_string()))?;
        write_durably(&self.folder, STATE_FILE, &bytes).map_err(|e| storage_error(&self.folder, &e))?;
        self.record = Some(record);
        Ok(())
    }
}

/// A name for a key that is valid in a file system and in a Message-ID.
pub(super) fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

pub(super) fn write_durably(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = folder.join(format!("{name}.new"));
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, folder.join(name))?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn storage_error(folder: &Path, e: &io::Error) -> MailError {
    MailError::Outbox(format!("{} cannot be used ({e}); check its disk and permissions", folder.display()))
}

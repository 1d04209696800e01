//! The outbox: a folder per key, with the mail and its state.
//!
//! ```text
//!                  ┌────────────── refused ◄─────────────┐ the server rejected it: nothing was sent
//!                  ▼                                     │
//! (nothing) → intended ──► handed over ──► confirmed     │
//!                  ▲            │  │                     │
//!                  └────────────┘  └─────────────────────┘
//!          looked up, or a person recorded: it is not there
//! ```
//!
//! Each state is durable (temporary file, sync, rename, folder sync) before the next step. So a mail that is `intended` was certainly not
//! sent, one that is `confirmed` certainly was, and `handed over` is the only state in which a crash leaves the outcome unknown.
//!
//! Where several servers share an outbox ([`SharedOutbox`]), a state is written there first, in place of the one that was read: of two servers
//! that work on the same mail, only one can hand it over. The folder is then a copy.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{MailError, blocking};

const STATE_FILE: &str = "state.json";
const MAIL_FILE: &str = "mail.eml";

/// The outbox of several servers. Names are digests of keys.
#[async_trait]
pub trait SharedOutbox: Send + Sync {
    /// The state of a mail and its version.
    async fn state(&self, name: &str) -> Result<Option<(u64, Vec<u8>)>, String>;
    /// Writes a state in place of the one with this version, 0 where there was none. Returns the new version, or `None` and writes nothing if another
    /// server has written one meanwhile.
    async fn put_state(&self, name: &str, version: u64, state: &[u8]) -> Result<Option<u64>, String>;
    /// The mail, until it is confirmed.
    async fn mail(&self, name: &str) -> Result<Option<Vec<u8>>, String>;
    /// Keeps a mail, or with `None` drops it.
    async fn put_mail(&self, name: &str, mail: Option<&[u8]>) -> Result<(), String>;
}

#[derive(Clone)]
pub(super) struct Outbox {
    folder: PathBuf,
    shared: Option<Arc<dyn SharedOutbox>>,
}

/// The slot of a key, locked by this process until dropped (or until it exits).
pub(super) struct Slot {
    name: String,
    folder: PathBuf,
    _lock: File,
    /// With the version of its state.
    shared: Option<(Arc<dyn SharedOutbox>, u64)>,
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
    pub(super) fn open(folder: &Path, shared: Option<Arc<dyn SharedOutbox>>) -> Result<Self, MailError> {
        crate::workspace::make_private(folder).map_err(|e| MailError::Outbox(format!("make the folder {} writable ({e})", folder.display())))?;
        Ok(Self { folder: folder.to_owned(), shared })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Locks a key's slot; creates it only if `make` is set, since a lookup must leave no trace.
    pub(super) async fn take(&self, key: &str, make: bool) -> Result<Option<Slot>, MailError> {
        let name = digest(key);
        let (outbox, here) = (self.clone(), name.clone());
        let Some(shared) = &self.shared else { return blocking(move || outbox.take_here(here, make)).await };
        let is_known = shared.state(&name).await.map_err(shared_error)?.is_some();
        let Some(mut slot) = blocking(move || outbox.take_here(here, make || is_known)).await? else { return Ok(None) };
        // Read again under the lock: another call of this process may have just ended.
        let known = shared.state(&name).await.map_err(shared_error)?;
        slot.shared = Some((shared.clone(), known.as_ref().map_or(0, |(version, _)| *version)));
        // A mail that is known here alone was begun before the outbox was shared.
        if let Some((_, state)) = known {
            slot.record = Some(read_record(&state, "the shared outbox")?);
        }
        Ok(Some(slot))
    }

    fn take_here(&self, name: String, make: bool) -> Result<Option<Slot>, MailError> {
        let folder = self.folder.join(&name);
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
            Ok(bytes) => Some(read_record(&bytes, &folder.join(STATE_FILE).display().to_string())?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(storage_error(&folder, &e)),
        };
        Ok(Some(Slot { name, folder, _lock: lock, shared: None, record }))
    }
}

impl Slot {
    pub(super) fn mail_path(&self) -> PathBuf {
        self.folder.join(MAIL_FILE)
    }

    pub(super) async fn read_mail(&self) -> Result<Vec<u8>, MailError> {
        match (fs::read(self.mail_path()), &self.shared) {
            (Ok(mail), _) => Ok(mail),
            (Err(e), Some((shared, _))) if e.kind() == io::ErrorKind::NotFound => {
                let mail = shared.mail(&self.name).await.map_err(shared_error)?;
                let mail = mail.ok_or_else(|| MailError::Outbox("the text of this mail is neither here nor in the shared outbox".into()))?;
                write_durably(&self.folder, MAIL_FILE, &mail).map_err(|e| storage_error(&self.folder, &e))?;
                Ok(mail)
            }
            (Err(e), _) => Err(storage_error(&self.folder, &e)),
        }
    }

    /// The mail first and then its record, so that no record exists without its mail.
    pub(super) async fn begin(&mut self, mail: &[u8], record: Record) -> Result<(), MailError> {
        write_durably(&self.folder, MAIL_FILE, mail).map_err(|e| storage_error(&self.folder, &e))?;
        if let Some((shared, _)) = &self.shared {
            shared.put_mail(&self.name, Some(mail)).await.map_err(shared_error)?;
        }
        self.save(record).await
    }

    pub(super) async fn turn(&mut self, state: State) -> Result<(), MailError> {
        let Some(record) = &self.record else { return Err(MailError::Outbox("there is no mail to note the state of".into())) };
        self.save(Record { state, ..record.clone() }).await
    }

    async fn save(&mut self, record: Record) -> Result<(), MailError> {
        let bytes = serde_json::to_vec_pretty(&record).map_err(|e| MailError::Outbox(e.to_string()))?;
        if let Some((shared, version)) = &mut self.shared {
            let written = shared.put_state(&self.name, *version, &bytes).await.map_err(shared_error)?;
            *version = written.ok_or(MailError::Busy)?;
        }
        write_durably(&self.folder, STATE_FILE, &bytes).map_err(|e| storage_error(&self.folder, &e))?;
        if let (Some((shared, _)), State::Confirmed { .. }) = (&self.shared, &record.state)
            && let Err(error) = shared.put_mail(&self.name, None).await
        {
            tracing::warn!("the text of a sent mail stays in the shared outbox: {error}");
        }
        self.record = Some(record);
        Ok(())
    }
}

fn read_record(bytes: &[u8], place: &str) -> Result<Record, MailError> {
    let wrong = |e: serde_json::Error| MailError::Outbox(format!("{place} is not a state of a mail ({e}); see what happened to it before sending"));
    serde_json::from_slice(bytes).map_err(wrong)
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn shared_error(why: String) -> MailError {
    MailError::Outbox(format!("the database that servers share cannot be used ({why})"))
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

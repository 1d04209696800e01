//! Keeps the folder of uploads equal to the files in the store, where several servers share one. The folder is then a copy: what is indexed and read.
//!
//! A list in the folder has which files came from the store, in which version. A file that is not in it was there before the store was shared, and is
//! given to the store; one that is in it and no longer in the store was deleted on another server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use graph::UserId;
use serde::{Deserialize, Serialize};
use store::{Change, FileVersion, NewFile, SharedFiles, Store, StoreError};
use tokio::sync::Mutex;
use tokio::sync::broadcast::error::RecvError;

use crate::private;
use crate::uploads::{folder_name, user_of};

/// Changes are announced; this interval is for lost announcements.
const POLL: Duration = Duration::from_secs(5);
const LIST: &str = ".shared.json";

pub(crate) struct SharedUploads {
    store: Arc<dyn Store>,
    folder: PathBuf,
    known: Mutex<SyncedVersions>,
}

/// What the folder has of the store, by user and name.
#[derive(Default, Serialize, Deserialize)]
struct SyncedVersions {
    versions: BTreeMap<UserId, BTreeMap<String, u64>>,
    /// The state of the store when all of it was last compared. Not kept: after a start everything is compared.
    #[serde(skip)]
    seen: u64,
}

impl SharedUploads {
    /// `None` where the store keeps no files.
    pub(crate) fn open(store: Arc<dyn Store>, folder: &Path) -> std::io::Result<Option<SharedUploads>> {
        if store.files().is_none() {
            return Ok(None);
        }
        let known = match fs::read(folder.join(LIST)) {
            Ok(text) => serde_json::from_slice(&text).map_err(std::io::Error::other)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => SyncedVersions::default(),
            Err(error) => return Err(error),
        };
        Ok(Some(SharedUploads { store, folder: folder.to_owned(), known: Mutex::new(known) }))
    }

    fn files(&self) -> Result<&dyn SharedFiles, StoreError> {
        self.store.files().ok_or(StoreError::Closed)
    }

    /// Keeps a file for all servers. `false`, and nothing is kept, when the user would have more than is allowed.
    pub(crate) async fn put(&self, user: &UserId, name: &str, bytes: &[u8], files_max: u64, bytes_max: u64) -> Result<bool, StoreError> {
        let mut known = self.known.lock().await;
        let file = NewFile { user: user.clone(), name: name.to_owned(), bytes: bytes.to_vec(), at_ms: wall_ms(), files_max, bytes_max };
        let Some(version) = self.files()?.put(file).await? else { return Ok(false) };
        // A large file takes the disk for a while.
        engine::in_place(bytes.len(), || {
            self.write_copy(&mut known, user, name, version, bytes)?;
            self.save(&known)
        })?;
        Ok(true)
    }

    /// Deletes a file for all servers and returns whether there was one.
    pub(crate) async fn remove(&self, user: &UserId, name: &str) -> Result<bool, StoreError> {
        let mut known = self.known.lock().await;
        let was_there = self.files()?.remove(user, name).await?;
        self.remove_copy(&mut known, user, name)?;
        self.save(&known)?;
        Ok(was_there)
    }

    /// Makes the folder equal to the store. Returns whether anything changed here.
    pub(crate) async fn sync(&self) -> Result<bool, StoreError> {
        let mut known = self.known.lock().await;
        let Some((seen, listed)) = self.files()?.changed_since(known.seen).await? else { return Ok(false) };
        let mut has_changed = self.fetch(&mut known, &listed).await?;
        let there: BTreeSet<(&UserId, &str)> = listed.iter().map(|file| (&file.user, file.name.as_str())).collect();
        let gone: Vec<(UserId, String)> = known
            .versions
            .iter()
            .flat_map(|(user, files)| files.keys().map(move |name| (user, name)))
            .filter(|(user, name)| !there.contains(&(*user, name.as_str())))
            .map(|(user, name)| (user.clone(), name.clone()))
            .collect();
        for (user, name) in gone {
            self.remove_copy(&mut known, &user, &name)?;
            has_changed = true;
        }
        // Once, after a start: later every file comes through here.
        if known.seen == 0 {
            self.give(&mut known).await?;
        }
        known.seen = seen;
        self.save(&known)?;
        Ok(has_changed)
    }

    async fn fetch(&self, known: &mut SyncedVersions, listed: &[FileVersion]) -> Result<bool, StoreError> {
        let mut has_changed = false;
        for file in listed {
            let have = known.versions.get(&file.user).and_then(|files| files.get(&file.name));
            let is_here = self.path(&file.user, &file.name).is_some_and(|path| path.is_file());
            if have == Some(&file.version) && is_here {
                continue;
            }
            // Deleted meanwhile: the next comparison finds that.
            let Some((version, bytes)) = self.files()?.get(&file.user, &file.name).await? else { continue };
            engine::in_place(bytes.len(), || self.write_copy(known, &file.user, &file.name, version, &bytes))?;
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Gives the store what was uploaded before it was shared.
    async fn give(&self, known: &mut SyncedVersions) -> Result<(), StoreError> {
        for folder in fs::read_dir(&self.folder).map_err(broken)?.flatten() {
            let Some(user) = folder.file_name().to_str().and_then(user_of) else { continue };
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let Some(name) = file.file_name().to_str().map(str::to_owned) else { continue };
                let is_known = known.versions.get(&user).is_some_and(|files| files.contains_key(&name));
                if name.starts_with('.') || is_known || !file.path().is_file() {
                    continue;
                }
                let bytes = fs::read(file.path()).map_err(broken)?;
                let at_ms = file.metadata().and_then(|about| about.modified()).map_or_else(|_| wall_ms(), since_1970_ms);
                let new = NewFile { user: user.clone(), name: name.clone(), bytes, at_ms, files_max: u64::MAX, bytes_max: u64::MAX };
                if let Some(version) = self.files()?.put(new).await? {
                    known.versions.entry(user.clone()).or_default().insert(name, version);
                }
            }
        }
        Ok(())
    }

    fn write_copy(&self, known: &mut SyncedVersions, user: &UserId, name: &str, version: u64, bytes: &[u8]) -> Result<(), StoreError> {
        // Another version of Baton may have allowed other names; such a file is not written anywhere.
        let Some(path) = self.path(user, name) else { return Ok(()) };
        let folder = self.folder.join(folder_name(user.as_str()));
        private::make_folder(&folder).map_err(broken)?;
        // Whole or not at all, and the index does not look at hidden files.
        let mut file = tempfile::Builder::new().prefix(".upload-").tempfile_in(&folder).map_err(broken)?;
        file.write_all(bytes).map_err(broken)?;
        file.persist(path).map_err(|error| broken(error.error))?;
        known.versions.entry(user.clone()).or_default().insert(name.to_owned(), version);
        Ok(())
    }

    fn remove_copy(&self, known: &mut SyncedVersions, user: &UserId, name: &str) -> Result<(), StoreError> {
        if let Some(path) = self.path(user, name)
            && let Err(error) = fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(broken(error));
        }
        if let Some(files) = known.versions.get_mut(user) {
            files.remove(name);
        }
        Ok(())
    }

    /// `None` for a name that is no file of this folder.
    fn path(&self, user: &UserId, name: &str) -> Option<PathBuf> {
        let name = server::name::plain(name).ok()?;
        Some(self.folder.join(folder_name(user.as_str())).join(name))
    }

    fn save(&self, known: &SyncedVersions) -> Result<(), StoreError> {
        let text = serde_json::to_string(known).map_err(|error| StoreError::Database(error.to_string()))?;
        private::write(&self.folder.join(LIST), &text).map_err(broken)
    }

    /// Returns when files of another server may have changed.
    pub(crate) async fn next_change(changes: &mut Option<tokio::sync::broadcast::Receiver<Change>>) {
        let notified = async {
            while let Some(receiver) = changes {
                match receiver.recv().await {
                    Ok(Change::Files) | Err(RecvError::Lagged(_)) => return,
                    Ok(_) => {}
                    Err(RecvError::Closed) => *changes = None,
                }
            }
            std::future::pending::<()>().await;
        };
        // Both mean: compare.
        let _ = tokio::time::timeout(POLL, notified).await;
    }

    pub(crate) fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<Change>> {
        self.store.changes()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn broken(error: std::io::Error) -> StoreError {
    StoreError::Database(format!("the copy of uploaded files cannot be written: {error}"))
}

pub(crate) fn wall_ms() -> i64 {
    since_1970_ms(SystemTime::now())
}

fn since_1970_ms(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

//! Visibility of indexed files: all except those in another user's folder.
//!
//! ```text
//!   OWNED/ada/notes.md    visible to ada
//!   OWNED/bob/notes.md    visible to bob
//!   everything else       visible to everybody
//! ```
//!
//! Paths are compared after links and `..` are resolved: an indexed path has neither, and other paths are resolved first.

use std::path::{Path, PathBuf};

use crate::Error;

/// A folder in which each subfolder belongs to one user.
#[derive(Clone, Debug)]
pub struct OwnedFolder {
    folder: PathBuf,
    name_of: fn(&str) -> String,
}

impl OwnedFolder {
    /// `name_of` gives a user's subfolder: one path component, different for different users.
    pub fn new(folder: &Path, name_of: fn(&str) -> String) -> Result<Self, Error> {
        let folder = std::fs::canonicalize(folder).map_err(|error| Error::folder(folder, &error))?;
        Ok(OwnedFolder { folder, name_of })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of one user.
    pub(crate) fn folder_of(&self, user: &str) -> PathBuf {
        self.folder.join(self.name_of(user))
    }

    /// The name of a user's folder.
    pub(crate) fn name_of(&self, user: &str) -> String {
        (self.name_of)(user)
    }

    /// The name of the folder that a file is in, by its resolved path: whose it is. `None` for files without an owner.
    pub(crate) fn owner_of(&self, path: &Path) -> Option<String> {
        let first = path.strip_prefix(&self.folder).ok()?.components().next()?;
        Some(first.as_os_str().to_string_lossy().into_owned())
    }

    /// Whether a user may see a file, by its resolved path. Without a user, only files without an owner.
    pub(crate) fn may_see(&self, user: Option<&str>, path: &Path) -> bool {
        match path.strip_prefix(&self.folder) {
            Err(_) => true,
            Ok(below) => user.is_some_and(|user| below.components().next().is_some_and(|first| first.as_os_str() == (self.name_of)(user).as_str())),
        }
    }
}

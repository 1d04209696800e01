//! Which of the indexed files a user may see: all but those in another user's folder.
//!
//! ```text
//!   OWNED/ada/notes.md    seen by ada
//!   OWNED/bob/notes.md    seen by bob
//!   everything else       seen by everybody
//! ```
//!
//! Paths are compared after links and `..` are resolved: an indexed file's path has neither, and a path that comes from elsewhere is resolved first.

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
        self.folder.join((self.name_of)(user))
    }

    /// Whether a user may see a file, by its resolved path. Without a user, only what is everybody's.
    pub(crate) fn may_see(&self, user: Option<&str>, path: &Path) -> bool {
        match path.strip_prefix(&self.folder) {
            Err(_) => true,
            Ok(below) => user.is_some_and(|user| below.components().next().is_some_and(|first| first.as_os_str() == (self.name_of)(user).as_str())),
        }
    }
}

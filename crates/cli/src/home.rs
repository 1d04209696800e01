//! The files beside a database: which are backed up, restored, and not overwritten.

use std::path::{Path, PathBuf};

use crate::exit::{Result, ServiceError};
use service::global_args::GlobalArgs;
use service::hub;

/// The name of the database in a backup, whatever its file is called.
pub(crate) const DATABASE: &str = "baton.db";
/// Folders and files beside the database. Tokens of running servers (`access`) are left out, because they expire with their
/// server, and so are tokens for remote tool servers (`oauth`), which others can use.
pub(crate) const KEPT: [&str; 9] = ["agents", "audit", "documents", "imported.json", "mcp.json", "outbox", "tools.json", "uploads", "workspaces"];

pub(crate) struct DataHome {
    pub(crate) database: PathBuf,
    pub(crate) folder: PathBuf,
}

impl DataHome {
    pub(crate) fn of(globals: &GlobalArgs) -> Result<DataHome> {
        let (database, folder) = (globals.path()?, hub::folder(globals)?);
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        Ok(DataHome { database, folder })
    }

    /// The files that exist, with SQLite's files beside the database.
    pub(crate) fn existing(&self) -> Vec<PathBuf> {
        let beside = ["", "-wal", "-shm"].map(|ending| {
            let mut name = self.database.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        });
        beside.into_iter().chain(KEPT.iter().map(|name| self.folder.join(name))).filter(|path| path.exists()).collect()
    }

    /// An error while another process has the database open.
    pub(crate) fn must_be_unused(&self) -> Result<()> {
        match self.database.exists() && store::is_in_use(&self.database)? {
            false => Ok(()),
            true => Err(ServiceError::Failed(format!(
                "another process has {} open, such as `baton serve`; stop it first, and start it again afterwards",
                self.database.display()
            ))),
        }
    }
}

/// All regular files below a folder, or the file itself, with their paths relative to `folder`, in order. Links and special files are
/// skipped.
pub(crate) fn files_below(folder: &Path, name: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(name)];
    while let Some(path) = open.pop() {
        let about = match std::fs::symlink_metadata(folder.join(&path)) {
            Ok(about) => about,
            // Deleted in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if about.is_file() {
            found.push(path);
        } else if about.is_dir() {
            for entry in std::fs::read_dir(folder.join(&path))? {
                open.push(path.join(entry?.file_name()));
            }
        }
    }
    found.sort();
    Ok(found)
}

//! Keys that operators store through the page: one file each, in a folder that only this account can read. The environment counts before them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::private;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Says where keys are stored. The first place stays.
pub(crate) fn open(data: &Path) {
    FOLDER.get_or_init(|| data.join("keys"));
}

pub(crate) fn stored(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(FOLDER.get()?.join(name)).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Stores a key, or removes it. Says whether there was one to remove.
pub(crate) fn set(name: &str, value: Option<&str>) -> std::io::Result<bool> {
    let folder = FOLDER.get().ok_or_else(|| std::io::Error::other("there is no folder for keys"))?;
    match value {
        Some(value) => {
            private::make_folder(folder)?;
            private::write(&folder.join(name), value)?;
            Ok(true)
        }
        None => match std::fs::remove_file(folder.join(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        },
    }
}

/// Names of the keys that are stored.
pub(crate) fn names() -> Vec<String> {
    let Some(folder) = FOLDER.get() else { return Vec::new() };
    let mut names: Vec<String> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

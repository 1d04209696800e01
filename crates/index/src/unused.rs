//! Removes indexes that were not opened for a long time: the cache has one for every set of folders that was ever searched.
//!
//! Every open index holds a shared lock on its file `in-use`, whose time is that of the last opening. An index is removed only under an
//! exclusive lock.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

const MARKER: &str = "in-use";

/// Held while an index is open.
pub(crate) struct InUse {
    _lock: File,
}

impl InUse {
    pub(crate) fn mark(home: &Path) -> io::Result<InUse> {
        let file = File::options().create(true).truncate(false).write(true).open(home.join(MARKER))?;
        file.lock_shared()?;
        file.set_modified(SystemTime::now())?;
        Ok(InUse { _lock: file })
    }
}

/// Removes the indexes below `indexes` that were not opened for `age` and are not open now; returns their number.
pub fn remove_unused(indexes: &Path, age: Duration) -> io::Result<usize> {
    let entries = match fs::read_dir(indexes) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() && is_unused(&entry.path(), age)? {
            fs::remove_dir_all(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Indexes of versions that wrote no marker are judged by the time of their folder.
fn is_unused(home: &Path, age: Duration) -> io::Result<bool> {
    let marker = match File::open(home.join(MARKER)) {
        Ok(marker) => Some(marker),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let used = marker.as_ref().map_or_else(|| fs::metadata(home), File::metadata)?.modified()?;
    let is_old = used.elapsed().is_ok_and(|elapsed| elapsed > age);
    Ok(is_old && marker.is_none_or(|marker| marker.try_lock().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn aged(home: &Path, age: Duration) {
        File::options().write(true).open(home.join(MARKER)).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn only_what_is_old_and_not_open_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [old, open, recent] = ["old", "open", "recent"].map(|name| folder.path().join(name));
        for home in [&old, &open, &recent] {
            fs::create_dir(home).unwrap();
            drop(InUse::mark(home).unwrap());
        }
        let held = InUse::mark(&open).unwrap();
        for home in [&old, &open] {
            aged(home, 3 * DAY);
        }
        assert_eq!(remove_unused(folder.path(), 2 * DAY).unwrap(), 1);
        assert_eq!([&old, &open, &recent].map(|home| home.exists()), [false, true, true]);
        drop(held);
        assert_eq!(remove_unused(folder.path(), 2 * DAY).unwrap(), 1);
        assert!(!open.exists());
        assert_eq!(remove_unused(&folder.path().join("absent"), DAY).unwrap(), 0);
    }
}

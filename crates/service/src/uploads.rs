//! The folders that users upload documents to.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use graph::UserId;

/// A user's name if it is a plain one, as `baton tokens add` requires; otherwise its bytes in hex, after a colon that no plain name has.
pub fn folder_name(user: &str) -> String {
    match server::name::plain(user) {
        Ok(name) => name.to_owned(),
        Err(_) => format!("x:{}", user.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// The owner of the folder; `None` if it has none.
pub(crate) fn user_of(folder: &str) -> Option<UserId> {
    if let Ok(name) = server::name::plain(folder) {
        return Some(UserId::from(name));
    }
    let digits = folder.strip_prefix("x:")?;
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok().map(UserId::from)
}

/// The files in the folders of all users that were written longer ago than this.
pub(crate) fn older_than(uploads: &Path, age_max: Duration, now: SystemTime) -> Vec<(UserId, String)> {
    let Some(oldest) = now.checked_sub(age_max) else { return Vec::new() };
    let mut old = Vec::new();
    let folders = fs::read_dir(uploads).into_iter().flatten().flatten();
    // Links are not followed: neither those of folders nor those of files.
    for folder in folders.filter(|folder| folder.file_type().is_ok_and(|kind| kind.is_dir())) {
        let Some(user) = folder.file_name().to_str().and_then(user_of) else { continue };
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let is_old = file.metadata().is_ok_and(|about| about.is_file() && about.modified().is_ok_and(|written| written < oldest));
            old.extend(file.file_name().into_string().ok().filter(|_| is_old).map(|name| (user.clone(), name)));
        }
    }
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_are_found() {
        let home = tempfile::tempdir().unwrap();
        let (uploads, outside) = (home.path().join("uploads"), home.path().join("outside.md"));
        let now = SystemTime::now();
        let write = |path: &Path, days: u64| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap().set_modified(now - Duration::from_secs(days * 86_400)).unwrap();
        };
        write(&outside, 100);
        for (path, days) in [("ada/old.md", 31), ("ada/new.md", 29), ("bob/old.md", 400)] {
            write(&uploads.join(path), days);
        }
        std::os::unix::fs::symlink(&outside, uploads.join("bob/link.md")).unwrap();
        let mut old = older_than(&uploads, Duration::from_secs(30 * 86_400), now);
        old.sort();
        assert_eq!(old, [("ada".into(), "old.md".to_owned()), ("bob".into(), "old.md".to_owned())]);
    }

    #[test]
    fn different_users_have_different_folders() {
        assert_eq!((folder_name("ada").as_str(), folder_name("x2e").as_str(), folder_name(".").as_str()), ("ada", "x2e", "x:2e"));
        for user in ["..", "a/b", "/etc", "", "x:2e"] {
            let name = folder_name(user);
            assert!(name.starts_with("x:") && !name.contains('/'), "{user}: {name}");
            assert_eq!(user_of(&name).as_ref().map(UserId::as_str), Some(user));
        }
    }
}

//! The folders that users upload documents to.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A user's name where it is a plain one, as `baton tokens add` requires; of any other its bytes in hex, after a colon that no plain name has.
pub fn folder_name(user: &str) -> String {
    match server::name::plain(user) {
        Ok(name) => name.to_owned(),
        Err(_) => format!("x:{}", user.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// Deletes the files in the folders of all users that were written before then, and returns their number. What cannot be deleted is logged and stays.
pub(crate) fn expire(uploads: &Path, age_max: Duration, now: SystemTime) -> usize {
    let Some(oldest) = now.checked_sub(age_max) else { return 0 };
    let mut count = 0;
    let folders = fs::read_dir(uploads).into_iter().flatten().flatten();
    // Links are not followed: neither those of folders nor those of files.
    for folder in folders.filter(|folder| folder.file_type().is_ok_and(|kind| kind.is_dir())) {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let is_old = file.metadata().is_ok_and(|about| about.is_file() && about.modified().is_ok_and(|written| written < oldest));
            match is_old.then(|| fs::remove_file(file.path())) {
                Some(Ok(())) => count += 1,
                Some(Err(error)) => tracing::warn!("{} is too old and cannot be deleted: {error}", file.path().display()),
                None => {}
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_are_deleted_and_others_stay() {
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
        assert_eq!(expire(&uploads, Duration::from_secs(30 * 86_400), now), 2);
        assert!(uploads.join("ada/new.md").exists() && !uploads.join("ada/old.md").exists() && !uploads.join("bob/old.md").exists());
        assert!(outside.exists() && uploads.join("bob/link.md").exists());
    }

    #[test]
    fn different_users_have_different_folders() {
        assert_eq!((folder_name("ada").as_str(), folder_name("x2e").as_str(), folder_name(".").as_str()), ("ada", "x2e", "x:2e"));
        for user in ["..", "a/b", "/etc", "", "x:2e"] {
            let name = folder_name(user);
            assert!(name.starts_with("x:") && !name.contains('/'), "{user}: {name}");
        }
    }
}

//! Keys that operators store through the page: one file each, in a folder that only this account can read. The environment counts before them.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::env;
use crate::private;

/// The keys of one data folder. Without a folder, only the environment has keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    folder: Option<PathBuf>,
}

impl Keys {
    pub(crate) fn below(data: &Path) -> Keys {
        Keys { folder: Some(data.join("keys")) }
    }

    /// From the environment, or as it is stored.
    pub(crate) fn find(&self, name: &str) -> Option<String> {
        env(name).or_else(|| self.stored(name))
    }

    pub(crate) fn stored(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.file(name).ok()?).ok()?;
        text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    }

    /// Stores a key, or removes it. Returns whether there was one to remove.
    pub(crate) fn set(&self, name: &str, value: Option<&str>) -> io::Result<bool> {
        let file = self.file(name)?;
        match value {
            Some(value) => {
                self.folder.as_deref().map_or(Ok(()), private::make_folder)?;
                private::write(&file, value)?;
                Ok(true)
            }
            None => match std::fs::remove_file(file) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// Names of the keys that are stored.
    pub(crate) fn names(&self) -> Vec<String> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let mut names: Vec<String> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| is_name(name));
        names.sort();
        names
    }

    fn file(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.folder.as_ref().ok_or_else(|| io::Error::other("there is no folder for keys"))?;
        match is_name(name) {
            true => Ok(folder.join(name)),
            false => Err(io::Error::other(format!("{name:?} is not the name of a variable"))),
        }
    }
}

/// A name never leads out of the folder.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_services_in_one_process_have_their_own_keys() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, second) = (Keys::below(one.path()), Keys::below(other.path()));
        assert!(first.set("HARD_TEST_KEY", Some("secret of one")).unwrap());
        assert_eq!(first.find("HARD_TEST_KEY").as_deref(), Some("secret of one"));
        assert_eq!((second.find("HARD_TEST_KEY"), second.names().len()), (None, 0));
        assert!(second.set("HARD_TEST_KEY", Some("secret of the other")).unwrap());
        assert_eq!(first.stored("HARD_TEST_KEY").as_deref(), Some("secret of one"));
        assert!(first.set("HARD_TEST_KEY", None).unwrap() && !first.set("HARD_TEST_KEY", None).unwrap());
        assert_eq!((first.names().len(), second.names()), (0, vec!["HARD_TEST_KEY".to_owned()]));
    }

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join("X_KEY"), "outside").unwrap();
        let keys = Keys::below(data.path());
        for name in ["../X_KEY", "/etc/passwd", "", "a/b", ".", ".."] {
            assert!(keys.stored(name).is_none() && keys.set(name, Some("x")).is_err() && keys.set(name, None).is_err(), "{name}");
        }
        assert!(Keys::default().set("X_KEY", Some("x")).is_err() && Keys::default().stored("X_KEY").is_none());
    }
}

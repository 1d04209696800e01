//! A folder of documents and the folder of its index, for one test.

#![allow(clippy::unwrap_used)]

use std::fs;

use tempfile::TempDir;

pub(crate) struct TestFolder {
    pub(crate) folder: TempDir,
    pub(crate) home: TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        TestFolder { folder: TempDir::new().unwrap(), home: TempDir::new().unwrap() }
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

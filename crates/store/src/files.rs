//! Files of users that several servers share. Each server keeps a copy of them on its disk and compares versions.

use async_trait::async_trait;
use graph::UserId;

use crate::Result;

/// A file to keep.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// The user it belongs to.
    pub user: UserId,
    /// Its name, unique for the user.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// When it is written.
    pub at_ms: i64,
    /// How many files the user may have, this one included.
    pub files_max: u64,
    /// How many bytes all files of the user may have, this one included.
    pub bytes_max: u64,
}

/// A file without its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileVersion {
    /// The user it belongs to.
    pub user: UserId,
    /// Its name, unique for the user.
    pub name: String,
    /// Never used twice.
    pub version: u64,
}

/// Files of users in a store that several servers share.
#[async_trait]
pub trait SharedFiles: Send + Sync {
    /// Keeps a file in place of one of the same user and name, and returns its version; `None`, and nothing is kept, when the user would have too much.
    async fn put(&self, file: NewFile) -> Result<Option<u64>>;
    /// The newest content with its version.
    async fn get(&self, user: &UserId, name: &str) -> Result<Option<(u64, Vec<u8>)>>;
    /// Deletes a file and returns whether there was one.
    async fn remove(&self, user: &UserId, name: &str) -> Result<bool>;
    /// All files of all users, if something changed since `seen`; `None` otherwise. `seen` is what the last call returned, 0 at first.
    async fn changed_since(&self, seen: u64) -> Result<Option<(u64, Vec<FileVersion>)>>;
}

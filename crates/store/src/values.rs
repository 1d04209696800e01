//! Small values that several servers share, each with a version. A value is replaced only by a server that has seen the last one.

use async_trait::async_trait;

use crate::Result;

/// A value to keep.
#[derive(Clone, Debug)]
pub struct NewValue {
    /// What it is used for.
    pub space: String,
    /// Its name, unique in its space.
    pub name: String,
    /// The version that it replaces; 0 where there must be none.
    pub version: u64,
    /// Its content.
    pub bytes: Vec<u8>,
    /// When it is written.
    pub at_ms: i64,
}

/// Values in a store that several servers share.
#[async_trait]
pub trait SharedValues: Send + Sync {
    /// A value with its version.
    async fn value(&self, space: &str, name: &str) -> Result<Option<(u64, Vec<u8>)>>;
    /// Keeps a value and returns its version, which is never used twice; `None`, and nothing is kept, if the version to be replaced is not the last.
    async fn put_value(&self, value: NewValue) -> Result<Option<u64>>;
    /// Deletes a value and returns whether there was one.
    async fn drop_value(&self, space: &str, name: &str) -> Result<bool>;
}

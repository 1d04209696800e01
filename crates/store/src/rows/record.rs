//! Documents that protocols keep for users.

use graph::UserId;
use serde_json::Value;

use crate::StoreError;

/// Documents of one kind that a user can have, and the bytes of one.
pub const RECORDS_MAX: usize = 20_000;
/// Bytes of one document.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// Bytes of documents that are listed at once: what is listed is in memory.
pub const RECORDS_LISTED_BYTES_MAX: usize = 32 << 20;

/// A JSON document that a protocol keeps for a user beside runs and threads.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    /// The user it belongs to.
    pub user: UserId,
    /// Its kind.
    pub kind: String,
    /// Its key, unique within user and kind.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// When it is written.
    pub at_ms: i64,
}

impl NewRecord {
    /// Refuses a document of so many bytes if that is too large.
    pub fn must_fit(&self, bytes: usize) -> Result<(), StoreError> {
        match bytes <= RECORD_BYTES_MAX {
            true => Ok(()),
            false => Err(StoreError::TooLarge { bytes, bytes_max: RECORD_BYTES_MAX }),
        }
    }
}

/// A stored document.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    /// The user it belongs to.
    pub user: UserId,
    /// Its kind.
    pub kind: String,
    /// Its key, unique within user and kind.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// When it was created.
    pub created_ms: i64,
    /// When it was last changed.
    pub updated_ms: i64,
}

/// Which documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFilter {
    /// The kind of document.
    pub kind: String,
    /// Only those of this user; those of all users otherwise.
    pub user: Option<UserId>,
    /// Empty is any.
    pub key_prefix: String,
    /// Only those behind this key and user in the list, which is sorted by key and user.
    pub after: Option<(String, UserId)>,
    /// How many at most.
    pub limit: usize,
}

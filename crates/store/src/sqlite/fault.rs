//! SQLite's errors in this crate's words.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::{Result, StoreError};

/// Why a write did not happen.
pub(super) enum Fault {
    /// It was not allowed, and was found so before anything was written.
    Refused(StoreError),
    /// SQLite failed; what was written so far must be rolled back.
    Sql(rusqlite::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

/// Adds which file it was: people with two databases need to know.
pub(super) trait WithPath<T> {
    fn named(self, path: &Path) -> Result<T>;
}

impl<T> WithPath<T> for rusqlite::Result<T> {
    fn named(self, path: &Path) -> Result<T> {
        self.map_err(|error| to_store_error(&error, path))
    }
}

impl<T> WithPath<T> for std::result::Result<T, Fault> {
    fn named(self, path: &Path) -> Result<T> {
        self.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Sql(error) => to_store_error(&error, path),
        })
    }
}

pub(super) fn to_store_error(error: &rusqlite::Error, path: &Path) -> StoreError {
    let name = || path.display().to_string();
    match error {
        // What SQLite gives back but we cannot read was not written by us.
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::IntegralValueOutOfRange(..) | rusqlite::Error::InvalidColumnType(..) => {
            StoreError::Damaged { path: name(), why: error.to_string() }
        }
        other => match other.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { path: name(), why: error.to_string() },
            Some(ErrorCode::DiskFull) => StoreError::Full { path: name() },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                StoreError::Open { path: name(), why: error.to_string() }
            }
            _ => StoreError::Database(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn errors_a_person_can_act_on_are_marked() {
        let path = Path::new("a.db");
        let name = || path.display().to_string();
        let error = |code| to_store_error(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None), path);
        assert_eq!(error(ffi::SQLITE_FULL), StoreError::Full { path: name() });
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CORRUPT_INDEX] {
            assert!(matches!(error(code), StoreError::Damaged { .. }), "{code}");
        }
        for code in [ffi::SQLITE_CANTOPEN, ffi::SQLITE_PERM, ffi::SQLITE_READONLY_DIRECTORY] {
            assert!(matches!(error(code), StoreError::Open { .. }), "{code}");
        }
        assert!(matches!(error(ffi::SQLITE_IOERR), StoreError::Database(_)));
    }
}

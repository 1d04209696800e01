//! A database as a file: copied while others write to it, checked, and compacted without deleted rows.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::fault::WithPath;
use super::open;
use crate::{Result, StoreError};

/// Writes a whole copy, as it is at one moment, to a file that does not exist yet. Others may go on writing meanwhile. What was deleted is not in the copy.
pub fn copy_database(path: &Path, to: &Path) -> Result<()> {
    let connection = existing(path)?;
    let text = to.to_str().ok_or_else(|| StoreError::Open { path: to.display().to_string(), why: "its name is not UTF-8".to_owned() })?;
    connection.execute("VACUUM INTO ?1", [text]).named(path)?;
    let synced = std::fs::File::open(to).and_then(|file| file.sync_all());
    synced.map_err(|error| StoreError::Open { path: to.display().to_string(), why: error.to_string() })
}

/// What a database that was found whole holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedDatabase {
    /// The version of its tables.
    pub schema: i64,
    /// How many threads it has.
    pub threads: u64,
    /// How many runs it has.
    pub runs: u64,
    /// Runs that go on when a server is started with it.
    pub unfinished: u64,
}

/// Whether a file is a database of ours, of a version that is known here, and undamaged. It is only read.
pub fn check_database(path: &Path) -> Result<CheckedDatabase> {
    if open::file_bytes(path) == 0 {
        return Err(StoreError::Damaged { path: path.display().to_string(), why: "it is empty".to_owned() });
    }
    open::examine(path)?;
    let connection = existing(path)?;
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).named(path)?;
    if found != "ok" {
        return Err(StoreError::Damaged { path: path.display().to_string(), why: found });
    }
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).named(path);
    let unsigned = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok(CheckedDatabase {
        schema: count("PRAGMA user_version")?,
        threads: unsigned(count("SELECT count(*) FROM threads")?),
        runs: unsigned(count("SELECT count(*) FROM runs")?),
        unfinished: unsigned(count("SELECT count(*) FROM runs WHERE status NOT IN ('done', 'failed', 'cancelled')")?),
    })
}

/// Whether another process, or another store of this one, has the database open.
pub fn is_in_use(path: &Path) -> Result<bool> {
    if open::file_bytes(path) == 0 {
        return Ok(false);
    }
    let connection = existing(path)?;
    connection.busy_timeout(Duration::ZERO).named(path)?;
    // Everybody who has a database in WAL mode open holds a lock that keeps this one out.
    match connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK;") {
        Ok(()) => Ok(false),
        Err(error) if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => Ok(true),
        Err(error) => Err(error).named(path),
    }
}

/// Rewrites the file, so that no deleted row is left in free pages or in the WAL. No other process may have it open.
pub fn compact_database(path: &Path) -> Result<()> {
    let connection = existing(path)?;
    connection.execute_batch("PRAGMA secure_delete = ON; VACUUM;").named(path)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).named(path)
}

fn existing(path: &Path) -> Result<Connection> {
    // Not read-only: a WAL that a crash left has to be read, for which files beside the database may have to be made.
    open::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

//! Opening a database file: is it ours, is it whole, is it of an age we know; only then is it touched.
//!
//! ```text
//! absent or empty ──────────────────────────► made
//! raw header (no WAL beside it), or a ──┬───► ours ──► migrated
//! read-only look (WAL beside it)        ├───► Newer, Foreign
//!                                       └───► Damaged
//! ```
//!
//! The look at the raw header is for files at rest: even a read-only SQLite connection would leave files beside another program's
//! database. Where there is a WAL, the header may be older than the truth and SQLite has to be asked.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};

use super::Durability;
use super::fault::WithPath;
use crate::{Result, StoreError};

/// "Batn": the mark in the header of every database of ours.
const APPLICATION_ID: i32 = 0x4261_746e;

/// One per schema version, in order. What was released is never edited.
const MIGRATIONS: [&str; 7] = [
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
    include_str!("migrations/7.sql"),
];

/// How long to wait for another process that is writing, before giving up.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// How often a writer looks whether another process has finished its transaction. SQLite's own handler waits up to 100 ms between two looks, and so misses
/// the moments between the transactions of a process that writes one after the other.
const BUSY_LOOK: Duration = Duration::from_millis(1);
/// Together about `BUSY_MAX`.
const BUSY_LOOKS_MAX: i32 = 10_000;
/// Pages in the WAL before it is worked into the file in the midst of writing. When writing pauses it happens sooner.
const WAL_PAGES_MAX: u32 = 4_000;
const PAGE_BYTES: u32 = 4_096;
const STATEMENTS_MAX: usize = 64;
/// Reads are single pages of small rows; a big cache for each connection would only be memory.
const READER_CACHE_KIB: u32 = 512;

/// The connection that writes. The file exists and is up to date when this returns.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection> {
    examine(path)?;
    let is_new = file_bytes(path) == 0;
    make_private(path).map_err(|error| StoreError::Open { path: path.display().to_string(), why: error.to_string() })?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    if connection.is_readonly("main").named(path)? {
        return Err(StoreError::Open { path: path.display().to_string(), why: "it may only be read".to_owned() });
    }
    prepare(&connection, path, durability)?;
    wait_for_others(&mut connection).named(path)?;
    if is_new && durability == Durability::Full {
        settle(path).map_err(|error| StoreError::Open { path: path.display().to_string(), why: error.to_string() })?;
    }
    Ok(connection)
}

/// Only this account may read what people asked. SQLite gives the files beside the database the same mode.
fn make_private(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
        let file = match File::options().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => File::open(path)?,
            Err(error) => return Err(error),
        };
        let found = file.metadata()?;
        let is_shared = found.is_file() && found.mode() & 0o077 != 0;
        // Another account's file keeps the mode that it was given; whether it can be written is found when it is opened.
        if is_shared && let Err(error) = file.set_permissions(std::fs::Permissions::from_mode(found.mode() & 0o700)) {
            tracing::warn!("other accounts may read {}: {error}", path.display());
        }
        for beside in ["-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(beside);
            if is_shared && let Err(error) = std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o600)) {
                tracing::debug!("{}: {error}", Path::new(&name).display());
            }
        }
    }
    Ok(())
}

/// Makes a new file and its name durable: SQLite only syncs the WAL from here on, and that is nothing without the file.
fn settle(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()?;
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

/// A connection that only reads, and never waits for the writer.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.execute_batch(&format!("PRAGMA cache_size = -{READER_CACHE_KIB}; PRAGMA query_only = ON;")).named(path)?;
    Ok(connection)
}

pub(super) fn wal_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

pub(super) fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    // No mutex inside SQLite: a connection is used by one thread at a time, and Rust sees to it.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).named(path)?;
    connection.busy_timeout(BUSY_MAX).named(path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Waits for the transactions of other processes as a writer does. Replaces a timeout that was set.
pub(super) fn wait_for_others(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(|looks| {
        std::thread::sleep(BUSY_LOOK);
        looks < BUSY_LOOKS_MAX
    }))
}

fn prepare(connection: &Connection, path: &Path, durability: Durability) -> Result<()> {
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Off => "OFF",
    };
    // The first two only matter to a file that is being made, and must come before its first page. Nothing is in such a file yet, so
    // it is not synced on the way to WAL, but once at the end by `settle`; a file that has a WAL already is not written to here.
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}; PRAGMA journal_size_limit = {}; PRAGMA temp_store = MEMORY;",
            WAL_PAGES_MAX * PAGE_BYTES
        ))
        .named(path)?;
    migrate(connection, path)
}

fn migrate(connection: &Connection, path: &Path) -> Result<()> {
    let known = MIGRATIONS.len() as i64;
    if user_version(connection).named(path)? == known {
        return Ok(());
    }
    // A file that others made, though empty, may have been made to never shrink.
    const INCREMENTAL: i64 = 2;
    if connection.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0)).named(path)? != INCREMENTAL {
        connection.execute_batch("VACUUM").named(path)?;
    }
    // Asked again inside: another process may have been quicker.
    let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate).named(path)?;
    let found = user_version(&transaction).named(path)?;
    check_version(path, found)?;
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration).named(path)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).named(path)?;
    transaction.pragma_update(None, "user_version", known).named(path)?;
    transaction.commit().named(path)
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn check_version(path: &Path, found: i64) -> Result<()> {
    let known = MIGRATIONS.len() as i64;
    match found {
        found if found > known => Err(StoreError::Newer { path: path.display().to_string(), found, known }),
        found if found < 0 => Err(damaged(path, format!("schema version {found}"))),
        _ => Ok(()),
    }
}

/// Refuses what must not be touched, without touching it.
pub(super) fn examine(path: &Path) -> Result<()> {
    let has_wal = file_bytes(&wal_of(path)) > 0;
    let open_error = |error: std::io::Error| StoreError::Open { path: path.display().to_string(), why: error.to_string() };
    let found = match File::open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(open_error(error)),
    };
    let length = found.as_ref().map_or(Ok(0), |file| file.metadata().map(|found| found.len())).map_err(open_error)?;
    let Some(mut file) = found.filter(|_| length > 0) else {
        return if has_wal { Err(damaged(path, "it is empty, but its WAL is not".to_owned())) } else { Ok(()) };
    };
    let mut head = [0; HEAD_BYTES];
    match file.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(damaged(path, format!("it is only {length} bytes long"))),
        Err(error) => return Err(open_error(error)),
    }
    if &head[..MAGIC.len()] != MAGIC {
        return Err(damaged(path, "it is not a SQLite file".to_owned()));
    }
    let seen = if has_wal { ask(path)? } else { read_header(path, &head, length)? };
    match seen {
        FileHeader { is_empty: true, application_id: 0, user_version: 0 } => Ok(()),
        FileHeader { application_id: APPLICATION_ID, user_version, .. } => check_version(path, user_version),
        FileHeader { .. } => Err(StoreError::Foreign { path: path.display().to_string() }),
    }
}

struct FileHeader {
    is_empty: bool,
    application_id: i32,
    user_version: i64,
}

const MAGIC: &[u8] = b"SQLite format 3\0";
/// The file header and the start of the root page of the schema, after which comes the number of its rows.
const HEAD_BYTES: usize = 105;

/// Offsets are those of <https://sqlite.org/fileformat.html>.
fn read_header(path: &Path, head: &[u8; HEAD_BYTES], length: u64) -> Result<FileHeader> {
    let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let u32_at = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let page_bytes = match u16_at(16) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let (pages, changes, pages_valid_for) = (u64::from(u32_at(28)), u32_at(24), u32_at(92));
    // Very old SQLite did not keep the number of pages up to date; then the length cannot be compared.
    if changes == pages_valid_for && length < pages * page_bytes {
        return Err(damaged(path, format!("{length} bytes are left of {}", pages * page_bytes)));
    }
    const LEAF: u8 = 0x0d;
    Ok(FileHeader { is_empty: head[100] == LEAF && u16_at(103) == 0, application_id: u32_at(68) as i32, user_version: i64::from(u32_at(60) as i32) })
}

fn ask(path: &Path) -> Result<FileHeader> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let is_empty = connection.query_row("SELECT 1 FROM sqlite_master LIMIT 1", [], |_| Ok(())).optional().named(path)?.is_none();
    let application_id = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).named(path)?;
    Ok(FileHeader { is_empty, application_id, user_version: user_version(&connection).named(path)? })
}

fn damaged(path: &Path, why: String) -> StoreError {
    StoreError::Damaged { path: path.display().to_string(), why }
}

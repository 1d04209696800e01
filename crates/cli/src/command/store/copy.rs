//! `baton store copy FROM TO`: copies every row in key order, and verifies the result.
//!
//! ```text
//! TO must be empty, or hold the beginning of FROM (an interrupted copy) ─► missing rows ─► sums and counts ─► both sides read and compared
//! ```

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use service::{Config, GlobalArgs, store_at, wiring};
use sha2::{Digest as _, Sha256};
use store::transfer::{Cell, TABLES, Table, Transfer};
use store::{SqliteSettings, SqliteStore};
use terminal::{now_ms, remark};

use crate::exit::{self, Exit, Result, ServiceError};

/// Rows read and written at once; journal lines are bounded by `graph::Limits`.
const PAGE_ROWS: usize = 500;

/// Copy a store into another, in either direction; repeat the command to continue an interrupted copy
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(AFTER_HELP))]
pub(crate) struct Copy {
    /// A database file or postgres://USER@HOST/DATABASE
    from: String,
    /// A database file or postgres://USER@HOST/DATABASE; empty, or holding an unfinished copy
    to: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  baton store copy ~/.local/share/baton/baton.db postgres://baton@db.example/baton
  baton store copy postgres://baton@db.example/baton backup.db

Stop the servers that use either store first. Passwords come from BATON_STORE_PASSWORD or a file (BATON_STORE_PASSWORD_FILE), not from the command line.
Copied are threads, messages, runs with their journals, notes, preferences, tokens and permissions; files that tools made are in the data folder and are not.";

impl Copy {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            if self.from == self.to {
                return Err(ServiceError::Usage("FROM and TO are the same".to_owned()));
            }
            let from = open(&self.from, globals, true).await?;
            let to = open(&self.to, globals, false).await?;
            for (side, name) in [(&from, &self.from), (&to, &self.to)] {
                if let Some(owner) = side.live_owner(now_ms()).await? {
                    return Err(ServiceError::Usage(format!("{name} is in use by {owner}; stop it first")));
                }
            }
            let mut done = Vec::new();
            for table in &TABLES {
                done.push(CopyProgress::find(&*from, &*to, table, &self.to).await?);
            }
            let mut copied = 0;
            for (table, started) in TABLES.iter().zip(&done) {
                let rows = copy(&*from, &*to, table, started.last.clone()).await?;
                if rows > 0 && !self.json {
                    remark(&format!("{}: {rows} rows", table.name));
                }
                copied += rows;
            }
            to.finish_copy(from.highest_fence().await?).await?;
            self.report(&*from, &*to, copied).await
        })
    }

    async fn report(&self, from: &dyn Transfer, to: &dyn Transfer, copied: u64) -> Result<Exit> {
        let mut tables = serde_json::Map::new();
        let mut rows = 0;
        for table in &TABLES {
            let (here, there) = (TableDigest::of(from, table, None).await?, TableDigest::of(to, table, None).await?);
            if (here.rows, &here.digest) != (there.rows, &there.digest) {
                return Err(ServiceError::Failed(format!(
                    "{} differs after the copy: {} rows with digest {}, and {} rows with digest {}; was one of the stores used meanwhile?",
                    table.name, here.rows, here.digest, there.rows, there.digest
                )));
            }
            rows += here.rows;
            tables.insert(table.name.to_owned(), json!({ "rows": here.rows, "sha256": here.digest }));
        }
        let mut out = anstream::stdout();
        match self.json {
            true => writeln!(out, "{}", json!({ "copied": copied, "rows": rows, "tables": tables }))?,
            false => writeln!(out, "copied {copied} of {rows} rows; counts and SHA-256 of all tables are the same")?,
        }
        Ok(Exit::Well)
    }
}

async fn open(named: &str, globals: &GlobalArgs, must_exist: bool) -> Result<Arc<dyn Transfer>> {
    if store_at::is_url(named) {
        let section = Config::read(globals)?.store;
        return Ok(Arc::new(store_at::parse(named, &section)?.connect().await?));
    }
    if must_exist && !Path::new(named).exists() {
        return Err(ServiceError::Usage(format!("there is no database {named}; FROM is a file or postgres://USER@HOST/DATABASE")));
    }
    Ok(Arc::new(SqliteStore::open(named, SqliteSettings::default())?))
}

/// Progress of an earlier copy of a table.
struct CopyProgress {
    last: Option<Vec<Cell>>,
}

impl CopyProgress {
    async fn find(from: &dyn Transfer, to: &dyn Transfer, table: &Table, name: &str) -> Result<CopyProgress> {
        let there = TableDigest::of(to, table, None).await?;
        if there.rows > 0 {
            let here = TableDigest::of(from, table, there.last.as_deref()).await?;
            if (here.rows, &here.digest) != (there.rows, &there.digest) {
                return Err(ServiceError::Usage(format!("{name} has {} of its own; copy into an empty database", table.name)));
            }
        }
        Ok(CopyProgress { last: there.last })
    }
}

async fn copy(from: &dyn Transfer, to: &dyn Transfer, table: &Table, mut last: Option<Vec<Cell>>) -> Result<u64> {
    let mut copied = 0;
    loop {
        let rows = from.rows(table, last.as_deref(), PAGE_ROWS).await?;
        let count = rows.len();
        let Some(end) = rows.last() else { return Ok(copied) };
        last = Some(end[..table.keys].to_vec());
        to.put_rows(table, rows).await?;
        copied += count as u64;
        if count < PAGE_ROWS {
            return Ok(copied);
        }
    }
}

/// Count and hash of a table's rows, in key order.
struct TableDigest {
    rows: u64,
    digest: String,
    last: Option<Vec<Cell>>,
}

impl TableDigest {
    /// Up to and including a key, or all.
    async fn of(side: &dyn Transfer, table: &Table, up_to: Option<&[Cell]>) -> Result<TableDigest> {
        let mut hash = Sha256::new();
        let (mut count, mut last) = (0, None);
        loop {
            let rows = side.rows(table, last.as_deref(), PAGE_ROWS).await?;
            let is_last = rows.len() < PAGE_ROWS;
            for row in &rows {
                add(&mut hash, row);
                count += 1;
                last = Some(row[..table.keys].to_vec());
                if up_to.is_some() && last.as_deref() == up_to {
                    return Ok(TableDigest { rows: count, digest: hex(hash), last });
                }
            }
            if is_last {
                return Ok(TableDigest { rows: count, digest: hex(hash), last });
            }
        }
    }
}

/// Each cell with its kind and length, so that different rows have different bytes.
fn add(hash: &mut Sha256, row: &[Cell]) {
    for cell in row {
        let number;
        let (kind, bytes): (u8, &[u8]) = match cell {
            Cell::Null => (0, &[]),
            Cell::Int(value) => {
                number = value.to_be_bytes();
                (1, &number[..])
            }
            Cell::Text(text) => (2, text.as_bytes()),
            Cell::Bytes(bytes) => (3, bytes),
        };
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

//! All rows of a store, as they are, to copy one store into another of another kind.
//!
//! The stores have the same tables, so a row is a list of cells. Leases are not copied: a copy is made while neither store is in use.

use async_trait::async_trait;

use crate::Result;

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// No value.
    Null,
    /// An integer.
    Int(i64),
    /// Text.
    Text(String),
    /// Binary data.
    Bytes(Vec<u8>),
}

/// A table, and its columns in the order of cells; the first `keys` of them are its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in the order of cells.
    pub columns: &'static [&'static str],
    /// How many of the first columns are its key.
    pub keys: usize,
}

const fn table(name: &'static str, keys: usize, columns: &'static [&'static str]) -> Table {
    Table { name, columns, keys }
}

/// All tables that are copied, with what is referred to before what refers to it.
pub const TABLES: [Table; 14] = [
    table("threads", 1, &["id", "name", "title", "messages", "created_ms", "updated_ms", "user", "bytes", "fence"]),
    table("runs", 1, &["id", "name", "thread", "flow", "parent", "title", "status", "outcome", "created_ms", "updated_ms"]),
    table("journal", 2, &["run", "seq", "at_ms", "bytes"]),
    table("snapshots", 1, &["run", "entries", "bytes"]),
    table("intents", 3, &["run", "step", "place", "attempt", "key"]),
    table("messages", 2, &["thread", "seq", "run", "role", "content", "created_ms"]),
    table("signals", 1, &["id", "run", "kind"]),
    table("notes", 1, &["id", "user", "flow", "thread", "run", "is_local", "kind", "key", "value", "bytes", "created_ms", "until_ms"]),
    table("preferences", 2, &["user", "name", "value"]),
    table("tokens", 1, &["id", "digest", "user", "made_with", "created_ms", "until_ms", "scope"]),
    table("permissions", 1, &["id", "user", "scope", "name", "thread", "created_ms", "definition"]),
    table("records", 3, &["user", "kind", "key", "value", "created_ms", "updated_ms"]),
    table("swept_threads", 1, &["thread"]),
    table("swept_runs", 1, &["run"]),
];

/// A store whose rows can be read and written as they are.
#[async_trait]
pub trait Transfer: Send + Sync {
    /// Rows after a key, in the order of keys. The first ones without a key.
    async fn rows(&self, table: &Table, after: Option<&[Cell]>, limit: usize) -> Result<Vec<Vec<Cell>>>;
    /// Writes rows in one transaction.
    async fn put_rows(&self, table: &Table, rows: Vec<Vec<Cell>>) -> Result<()>;
    /// A process that holds a lease at this time.
    async fn live_owner(&self, now_ms: i64) -> Result<Option<String>>;
    /// No fence that was given out is higher.
    async fn highest_fence(&self) -> Result<i64>;
    /// Brings what is derived from the rows up to date: sums, and numbers to be given out, fences among them.
    async fn finish_copy(&self, highest_fence: i64) -> Result<()>;
}

/// `SELECT` of a page of rows; `column` writes a column's name and `mark` the place of the n-th value, from 1.
pub fn select_sql(table: &Table, has_after: bool, column: impl Fn(&str) -> String, mark: impl Fn(usize) -> String) -> String {
    let columns: Vec<String> = table.columns.iter().map(|name| column(name)).collect();
    let keys = columns[..table.keys].join(", ");
    let after = match has_after {
        true => format!(" WHERE ({keys}) > ({})", (1..=table.keys).map(&mark).collect::<Vec<_>>().join(", ")),
        false => String::new(),
    };
    let limit = mark(if has_after { table.keys + 1 } else { 1 });
    format!("SELECT {} FROM {}{after} ORDER BY {keys} LIMIT {limit}", columns.join(", "), table.name)
}

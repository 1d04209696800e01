//! A SQLite file with a caller's own tables, apart from Baton's database. `baton eval tasks` serves one over MCP.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use serde::Serialize;
use serde_json::{Value, json};

/// Rows that one query returns.
const ROWS_MAX: usize = 500;
/// How long a statement waits for another process that writes.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// The kinds of statement that may change a table. Others (`ATTACH`, `VACUUM INTO`, `PRAGMA`) reach beyond the file.
const CHANGING: [&str; 8] = ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "CREATE", "ALTER", "DROP"];

/// A SQLite file on which queries of a tool run.
pub struct Scratch(Connection);

/// What a query found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The cells of each row, in the order of the columns.
    pub rows: Vec<Vec<Value>>,
    /// There are more than are returned.
    pub is_cut: bool,
}

impl Scratch {
    /// Opens the file, creating it if there is none.
    pub fn open(path: &Path) -> Result<Scratch, String> {
        let cannot = |error: rusqlite::Error| format!("{}: {error}", path.display());
        let connection = Connection::open(path).map_err(cannot)?;
        connection.busy_timeout(BUSY_MAX).map_err(cannot)?;
        Ok(Scratch(connection))
    }

    /// Runs several statements, as a file of SQL has them. For a caller's own text only.
    pub fn load(&self, sql: &str) -> Result<(), String> {
        self.0.execute_batch(sql).map_err(|error| error.to_string())
    }

    /// Runs one statement that reads.
    pub fn query(&self, sql: &str) -> Result<Rows, String> {
        let mut statement = self.prepare(sql)?;
        if !statement.readonly() || statement.column_count() == 0 {
            return Err("this statement does not only read; send it to `execute`".to_owned());
        }
        rows(&mut statement)
    }

    /// Runs one statement that changes something; returns how many rows it changed.
    pub fn execute(&self, sql: &str) -> Result<usize, String> {
        let first = sql.split_whitespace().next().unwrap_or_default().to_uppercase();
        if !CHANGING.contains(&first.as_str()) {
            return Err(format!("{first:?} is not a statement that may run here; these may: {}", CHANGING.join(", ")));
        }
        let mut statement = self.prepare(sql)?;
        if statement.readonly() {
            return Err("this statement only reads; send it to `query`".to_owned());
        }
        statement.execute([]).map_err(|error| error.to_string())
    }

    /// Each table with the statement that created it.
    pub fn tables(&self) -> Result<Vec<(String, String)>, String> {
        let found = self.query("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(found.rows.iter().map(|row| (text(&row[0]), text(&row[1]))).collect())
    }

    /// Everything in every table, to compare two moments.
    pub fn dump(&self) -> Result<Value, String> {
        let mut all = serde_json::Map::new();
        for (name, sql) in self.tables()? {
            let mut statement = self.prepare(&format!("SELECT * FROM \"{}\" ORDER BY rowid", name.replace('"', "\"\"")))?;
            all.insert(name, json!({ "sql": sql, "rows": rows(&mut statement)?.rows }));
        }
        Ok(Value::Object(all))
    }

    fn prepare(&self, sql: &str) -> Result<Statement<'_>, String> {
        self.0.prepare(sql).map_err(|error| error.to_string())
    }
}

fn rows(statement: &mut Statement<'_>) -> Result<Rows, String> {
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = Rows { rows: Vec::new(), is_cut: false, columns };
    let count = found.columns.len();
    let mut cursor = statement.query([]).map_err(|error| error.to_string())?;
    while let Some(row) = cursor.next().map_err(|error| error.to_string())? {
        if found.rows.len() == ROWS_MAX {
            found.is_cut = true;
            break;
        }
        let cells: Result<Vec<Value>, rusqlite::Error> = (0..count).map(|index| row.get_ref(index).map(json_of)).collect();
        found.rows.push(cells.map_err(|error| error.to_string())?);
    }
    Ok(found)
}

fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(format!("{} bytes", bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Scratch) {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(&folder.path().join("shop.db")).unwrap();
        scratch.load("CREATE TABLE orders (id INTEGER, amount REAL, note TEXT); INSERT INTO orders VALUES (1, 2.5, 'a'), (2, 4.0, NULL);").unwrap();
        (folder, scratch)
    }

    #[test]
    fn reading_and_changing_are_kept_apart() {
        let (_folder, scratch) = scratch();
        let found = scratch.query("SELECT id, amount, note FROM orders ORDER BY id DESC").unwrap();
        assert_eq!(found.columns, ["id", "amount", "note"]);
        assert_eq!(json!(found.rows), json!([[2, 4.0, null], [1, 2.5, "a"]]));
        assert!(scratch.query("DELETE FROM orders").unwrap_err().contains("execute"));
        assert!(scratch.query("ATTACH DATABASE 'x.db' AS x").is_err());
        assert!(scratch.execute("ATTACH DATABASE 'x.db' AS x").is_err() && scratch.execute("VACUUM INTO 'x.db'").is_err());
        let before = scratch.dump().unwrap();
        assert_eq!(scratch.execute("UPDATE orders SET amount = 5 WHERE id = 2"), Ok(1));
        assert_ne!(scratch.dump().unwrap(), before);
        assert_eq!(scratch.tables().unwrap()[0].0, "orders");
    }

    #[test]
    fn many_rows_are_cut_and_marked() {
        let (_folder, scratch) = scratch();
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i FROM n";
        let found = scratch.query(many).unwrap();
        assert_eq!((found.rows.len(), found.is_cut), (ROWS_MAX, true));
    }
}

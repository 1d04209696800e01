//! Reading and writing rows as they are, for copies.

use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{OptionalExtension, Row, ToSql, params_from_iter};

use super::SqliteStore;
use super::read::number;
use super::write::{SqlResult, Tables};
use crate::transfer::{Cell, Table, Transfer, select_sql};
use crate::{Result, StoreError};

#[async_trait]
impl Transfer for SqliteStore {
    async fn rows(&self, table: &Table, after: Option<&[Cell]>, limit: usize) -> Result<Vec<Vec<Cell>>> {
        let table = *table;
        let sql = select_sql(&table, after.is_some(), |name| name.to_owned(), |place| format!("?{place}"));
        let mut values: Vec<Cell> = after.unwrap_or_default().to_vec();
        values.push(Cell::Int(number(limit as u64)));
        self.readers
            .read(move |rows| {
                let mut select = rows.prepare_cached(&sql)?;
                let found = select.query_map(params_from_iter(&values), |row| cells(row, table.columns.len()))?;
                Ok(found.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    async fn put_rows(&self, table: &Table, rows: Vec<Vec<Cell>>) -> Result<()> {
        let table = *table;
        self.writer.write(0, move |tables| tables.put_rows(&table, &rows)).await
    }

    async fn live_owner(&self, now_ms: i64) -> Result<Option<String>> {
        let sql = "SELECT name FROM owners WHERE until_ms >= ?1 AND id IN (SELECT owner FROM leases) LIMIT 1";
        self.readers.read(move |rows| Ok(rows.query_row(sql, [now_ms], |row| row.get(0)).optional()?)).await
    }

    async fn highest_fence(&self) -> Result<i64> {
        let sql = "SELECT max(floor, coalesce((SELECT max(fence) FROM threads), 0)) FROM fences";
        self.readers.read(move |rows| Ok(rows.query_row(sql, [], |row| row.get(0))?)).await
    }

    async fn finish_copy(&self, highest_fence: i64) -> Result<()> {
        self.writer.write(0, move |tables| tables.finish_copy(highest_fence)).await
    }
}

impl Tables {
    fn put_rows(&mut self, table: &Table, rows: &[Vec<Cell>]) -> SqlResult<()> {
        self.forget();
        let marks = vec!["?"; table.columns.len()].join(", ");
        let sql = format!("INSERT INTO {} ({}) VALUES ({marks})", table.name, table.columns.join(", "));
        let mut insert = self.connection.prepare_cached(&sql)?;
        for row in rows {
            if row.len() != table.columns.len() {
                return Err(StoreError::Database(format!("a row of {} has {} cells", table.name, row.len())).into());
            }
            insert.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    fn finish_copy(&mut self, highest_fence: i64) -> SqlResult<()> {
        self.connection.execute("UPDATE fences SET floor = max(floor, ?1)", [highest_fence])?;
        self.connection.execute_batch(
            "DELETE FROM stored;
             INSERT INTO stored SELECT user, sum(bytes) FROM (SELECT user, bytes FROM threads WHERE user IS NOT NULL
                 UNION ALL SELECT user, octet_length(value) FROM records) GROUP BY user;",
        )?;
        Ok(())
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Null => ToSqlOutput::Owned(Value::Null),
            Cell::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Cell::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Cell::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

fn cells(row: &Row<'_>, count: usize) -> rusqlite::Result<Vec<Cell>> {
    let cell = |column: usize| {
        Ok(match row.get::<_, Value>(column)? {
            Value::Null => Cell::Null,
            Value::Integer(number) => Cell::Int(number),
            Value::Text(text) => Cell::Text(text),
            Value::Blob(bytes) => Cell::Bytes(bytes),
            // No column holds one.
            Value::Real(number) => Cell::Text(number.to_string()),
        })
    };
    (0..count).map(cell).collect()
}

//! Reading and writing rows as they are, for copies.

use async_trait::async_trait;
use store::Result;
use store::transfer::{Cell, Table, Transfer, select_sql};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::PostgresStore;
use crate::error::to_store_error;
use crate::read::number;
use crate::text::{decode, encode};

/// Rows in one statement; it may have 65535 values.
const ROWS_MAX: usize = 500;

#[async_trait]
impl Transfer for PostgresStore {
    async fn rows(&self, table: &Table, after: Option<&[Cell]>, limit: usize) -> Result<Vec<Vec<Cell>>> {
        let sql = select_sql(table, after.is_some(), column, |place| format!("${place}"));
        let mut values: Vec<Value> = after.unwrap_or_default().iter().cloned().map(Value).collect();
        values.push(Value(Cell::Int(number(limit as u64))));
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        Ok(self.database.query(&sql, &values).await?.iter().map(cells).collect())
    }

    async fn put_rows(&self, table: &Table, rows: Vec<Vec<Cell>>) -> Result<()> {
        let name = self.database.name();
        let failed = |error: tokio_postgres::Error| to_store_error(&error, &name);
        let mut session = self.database.session().await.map_err(failed)?;
        let transaction = session.client.transaction().await.map_err(failed)?;
        let columns: Vec<String> = table.columns.iter().map(|name| column(name)).collect();
        for piece in rows.chunks(ROWS_MAX) {
            let width = table.columns.len();
            let marks = |row: usize| format!("({})", (1..=width).map(|place| format!("${}", row * width + place)).collect::<Vec<_>>().join(", "));
            let all: Vec<String> = (0..piece.len()).map(marks).collect();
            let sql = format!("INSERT INTO {} ({}) VALUES {}", table.name, columns.join(", "), all.join(", "));
            let values: Vec<Value> = piece.iter().flatten().cloned().map(Value).collect();
            let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
            transaction.execute(&sql, &values).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }

    async fn live_owner(&self, now_ms: i64) -> Result<Option<String>> {
        let sql = "SELECT name FROM owners WHERE until_ms >= $1 AND EXISTS (SELECT 1 FROM threads WHERE owner = owners.name) LIMIT 1";
        Ok(self.database.query_opt(sql, &[&now_ms]).await?.map(|row| decode(row.get(0))))
    }

    async fn highest_fence(&self) -> Result<i64> {
        let sql = "SELECT greatest(last_value, (SELECT max(fence) FROM threads), 0) FROM fences";
        Ok(self.database.query_opt(sql, &[]).await?.map_or(0, |row| row.get(0)))
    }

    async fn finish_copy(&self, highest_fence: i64) -> Result<()> {
        self.database.query("SELECT setval('fences', greatest($1, (SELECT last_value FROM fences)))", &[&highest_fence]).await?;
        for table in ["threads", "runs", "signals", "notes", "tokens", "permissions"] {
            let sql = format!("SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) IS NOT NULL");
            self.database.query(&sql, &[]).await?;
        }
        self.database.query("DELETE FROM stored", &[]).await?;
        let sql = "INSERT INTO stored SELECT user_name, 0, sum(bytes) FROM (SELECT user_name, bytes FROM threads WHERE user_name IS NOT NULL
                       UNION ALL SELECT user_name, octet_length(value) FROM records) AS kept GROUP BY user_name";
        self.database.query(sql, &[]).await?;
        // The planner knows nothing yet of tables that were filled in one go.
        self.database.query("ANALYZE", &[]).await.map(drop)
    }
}

/// The one name that is reserved in Postgres.
fn column(name: &str) -> String {
    if name == "user" { "user_name".to_owned() } else { name.to_owned() }
}

fn cells(row: &Row) -> Vec<Cell> {
    let cell = |(place, column): (usize, &tokio_postgres::Column)| match *column.type_() {
        Type::INT8 => row.get::<_, Option<i64>>(place).map(Cell::Int),
        Type::BYTEA => row.get::<_, Option<Vec<u8>>>(place).map(Cell::Bytes),
        _ => row.get::<_, Option<String>>(place).map(decode).map(Cell::Text),
    };
    row.columns().iter().enumerate().map(|at| cell(at).unwrap_or(Cell::Null)).collect()
}

#[derive(Debug)]
struct Value(Cell);

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            Cell::Null => Ok(IsNull::Yes),
            Cell::Int(number) => number.to_sql(kind, out),
            Cell::Text(text) => {
                let encoded = encode(text);
                (&*encoded).to_sql(kind, out)
            }
            Cell::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::TEXT | Type::BYTEA)
    }

    to_sql_checked!();
}

//! Small values that servers share, in the database.

use async_trait::async_trait;
use store::{NewValue, Result, SharedValues};
use tokio_postgres::types::ToSql;

use crate::read::{number, unsigned};
use crate::text::encode;
use crate::write::no_reply;
use crate::{PostgresStore, first};

#[async_trait]
impl SharedValues for PostgresStore {
    async fn value(&self, space: &str, name: &str) -> Result<Option<(u64, Vec<u8>)>> {
        let sql = "SELECT version, bytes FROM shared_values WHERE space = $1 AND name = $2";
        let row = self.database.query_opt(sql, &[&encode(space), &encode(name)]).await?;
        Ok(row.map(|row| (unsigned(row.get(0)), row.get(1))))
    }

    async fn put_value(&self, value: NewValue) -> Result<Option<u64>> {
        let (space, name) = (encode(&value.space), encode(&value.name));
        // The statement may be repeated after a lost connection.
        let writer = uuid::Uuid::now_v7().simple().to_string();
        let version = number(value.version);
        let params: [&(dyn ToSql + Sync); 6] = [&space, &name, &version, &writer, &value.bytes, &value.at_ms];
        let row = self.database.query_opt("SELECT baton_put_value($1, $2, $3, $4, $5, $6)", &params).await?;
        Ok(row.ok_or_else(no_reply)?.get::<_, Option<i64>>(0).map(unsigned))
    }

    async fn drop_value(&self, space: &str, name: &str) -> Result<bool> {
        let sql = "WITH gone AS (DELETE FROM shared_values WHERE space = $1 AND name = $2 RETURNING 1) SELECT count(*) > 0 FROM gone";
        first(self.database.query_opt(sql, &[&encode(space), &encode(name)]).await?.as_ref())
    }
}

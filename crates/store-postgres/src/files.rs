//! Files of users, in the database.

use async_trait::async_trait;
use graph::UserId;
use store::{Change, FileVersion, NewFile, Result, SharedFiles, Store as _};

use crate::read::{number, string, unsigned};
use crate::text::encode;
use crate::write::no_reply;
use crate::{PostgresStore, first};

// These statements use connections of the pool: a large file must not keep the commits of runs waiting, and each may be repeated.
#[async_trait]
impl SharedFiles for PostgresStore {
    async fn put(&self, file: NewFile) -> Result<Option<u64>> {
        let (user, name) = (encode(file.user.as_str()).into_owned(), encode(&file.name).into_owned());
        let (files_max, bytes_max) = (number(file.files_max), number(file.bytes_max));
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] = [&user, &name, &file.bytes, &file.at_ms, &files_max, &bytes_max];
        let row = self.database.query_opt("SELECT baton_put_file($1, $2, $3, $4, $5, $6)", &params).await?;
        let version: Option<i64> = row.ok_or_else(no_reply)?.get(0);
        self.notify(Change::Files);
        Ok(version.map(unsigned))
    }

    async fn get(&self, user: &UserId, name: &str) -> Result<Option<(u64, Vec<u8>)>> {
        let sql = "SELECT version, bytes FROM files WHERE user_name = $1 AND name = $2";
        let row = self.database.query_opt(sql, &[&encode(user.as_str()), &encode(name)]).await?;
        Ok(row.map(|row| (unsigned(row.get(0)), row.get(1))))
    }

    async fn remove(&self, user: &UserId, name: &str) -> Result<bool> {
        let row = self.database.query_opt("SELECT baton_remove_file($1, $2)", &[&encode(user.as_str()), &encode(name)]).await?;
        self.notify(Change::Files);
        first(row.as_ref())
    }

    async fn changed_since(&self, seen: u64) -> Result<Option<(u64, Vec<FileVersion>)>> {
        let row = self.database.query_opt("SELECT version FROM files_version", &[]).await?;
        // Read before the list: what changes in between is found again the next time.
        let now: i64 = first(row.as_ref())?;
        if unsigned(now) == seen {
            return Ok(None);
        }
        let rows = self.database.query("SELECT user_name, name, version FROM files", &[]).await?;
        let file =
            |row: &tokio_postgres::Row| FileVersion { user: UserId::from(string(row, 0)), name: string(row, 1), version: unsigned(row.get(2)) };
        Ok(Some((unsigned(now), rows.iter().map(file).collect())))
    }
}

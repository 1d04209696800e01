//! Bringing the tables up to date. Several servers may start at once: one migrates, the others wait for it.

use store::{Result, StoreError};
use tokio_postgres::Client;

use crate::error::to_store_error;

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
/// Postgres 13, the oldest that its makers still maintain.
const SERVER_VERSION_MIN: i32 = 130_000;
/// How long to wait for another server that migrates.
const WAIT_S_MAX: u32 = 120;

const VERSION: &str = "SELECT version FROM baton_schema";

pub(crate) async fn migrate(client: &mut Client, name: &str) -> Result<()> {
    check_server(client, name).await?;
    let failed = |error: tokio_postgres::Error| to_store_error(&error, name);
    if version(client, name).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(failed)?;
    transaction
        .batch_execute(&format!("SET LOCAL statement_timeout = '{WAIT_S_MAX}s'; SET LOCAL lock_timeout = '{WAIT_S_MAX}s'"))
        .await
        .map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock(hashtextextended('baton ' || current_schema(), 0))", &[]).await.map_err(failed)?;
    // Asked again: another server may have been quicker.
    let found = version(transaction.client(), name).await?.unwrap_or(0);
    for migration in &MIGRATIONS[found..] {
        transaction.batch_execute(migration).await.map_err(|error| match error.code().map(tokio_postgres::error::SqlState::code) {
            Some("42P07" | "42723") => foreign(name),
            Some("42501") => {
                StoreError::Open { path: name.to_owned(), why: "this user may not create tables in it; grant CREATE on the schema".to_owned() }
            }
            _ => to_store_error(&error, name),
        })?;
    }
    let sql = "CREATE TABLE IF NOT EXISTS baton_schema (version integer NOT NULL); DELETE FROM baton_schema";
    transaction.batch_execute(sql).await.map_err(failed)?;
    transaction.execute("INSERT INTO baton_schema VALUES ($1)", &[&(MIGRATIONS.len() as i32)]).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}

fn foreign(name: &str) -> StoreError {
    let why = "its schema has tables or functions of the same names that are not Baton's; use a database of its own".to_owned();
    StoreError::Open { path: name.to_owned(), why }
}

/// `None` where there are no tables yet.
async fn version(client: &Client, name: &str) -> Result<Option<usize>> {
    let failed = |error: tokio_postgres::Error| to_store_error(&error, name);
    // Reads the catalog itself: a look-up by name alone may answer from the session's cache, which knows nothing of tables that another server made since.
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'baton_schema'
                   AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()))";
    let exists: bool = client.query_one(sql, &[]).await.map_err(failed)?.get(0);
    if !exists {
        return Ok(None);
    }
    let found: i32 = client.query_opt(VERSION, &[]).await.map_err(failed)?.map_or(0, |row| row.get(0));
    match usize::try_from(found) {
        Ok(version) if version <= MIGRATIONS.len() => Ok(Some(version)),
        _ => Err(StoreError::Newer { path: name.to_owned(), found: i64::from(found), known: MIGRATIONS.len() as i64 }),
    }
}

async fn check_server(client: &Client, name: &str) -> Result<()> {
    let sql = "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'), coalesce(current_schema(), '')";
    let row = client.query_one(sql, &[]).await.map_err(|error| to_store_error(&error, name))?;
    let (version, encoding, schema): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
    let why = match () {
        () if version < SERVER_VERSION_MIN => format!("it is Postgres {}; Baton needs 13 or newer", version / 10_000),
        () if encoding != "UTF8" => format!("its encoding is {encoding}; create the database with ENCODING 'UTF8'"),
        () if schema.is_empty() => "none of the schemas in its search_path exists".to_owned(),
        () => return Ok(()),
    };
    Err(StoreError::Open { path: name.to_owned(), why })
}

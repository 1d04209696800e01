//! What a database can do without Baton, for benchmarks: plain commits, in a schema that is dropped afterwards.

use std::time::{Duration, Instant};

use store::Result;
use tokio_postgres::Client;

use crate::database::connect_to;
use crate::error::to_store_error;
use crate::{Address, PostgresSettings, PostgresStore};

/// A schema for a benchmark. Call `drop_schema` at the end.
pub struct BenchSchema {
    base: Address,
    name: String,
}

impl BenchSchema {
    /// Creates a schema with a new name in this database.
    pub async fn new(base: Address) -> Result<BenchSchema> {
        let name = format!("baton_bench_{}", uuid::Uuid::now_v7().simple());
        let schema = BenchSchema { base, name };
        schema.run(&format!("CREATE SCHEMA {}", schema.name)).await?;
        Ok(schema)
    }

    fn address(&self) -> Address {
        self.base.clone().with_schema(&self.name)
    }

    /// Opens a store in the schema.
    pub async fn open(&self) -> Result<PostgresStore> {
        PostgresStore::open(self.address(), PostgresSettings::default()).await
    }

    /// Drops the schema with all that is in it.
    pub async fn drop_schema(self) -> Result<()> {
        self.run(&format!("DROP SCHEMA {} CASCADE", self.name)).await
    }

    /// How long so many clients take to insert so many rows each, every row a transaction of its own.
    pub async fn commits(&self, clients: usize, rows: usize, row_bytes: usize) -> Result<Duration> {
        let name = self.base.to_string();
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS {}.bare (run bigint, seq bigint, at_ms bigint, bytes bytea, PRIMARY KEY (run, seq))",
            self.name
        ))
        .await?;
        let mut ready = Vec::new();
        for run in 0..clients as i64 {
            let client = connect_to(&self.address()).await?;
            // Every round has rows of its own.
            let first: i64 = client.query_one("SELECT count(*) FROM bare", &[]).await.map_err(|error| to_store_error(&error, &name))?.get(0);
            let insert = client.prepare("INSERT INTO bare VALUES ($1, $2, $3, $4)").await.map_err(|error| to_store_error(&error, &name))?;
            ready.push((client, insert, run, first));
        }
        let begun = Instant::now();
        let work = ready.iter().map(|(client, insert, run, first)| async move {
            let bytes = vec![0x5a_u8; row_bytes];
            for seq in 0..rows as i64 {
                client.execute(insert, &[run, &(first + seq), &0_i64, &bytes]).await?;
            }
            Ok::<(), tokio_postgres::Error>(())
        });
        for end in futures::future::join_all(work).await {
            end.map_err(|error| to_store_error(&error, &name))?;
        }
        Ok(begun.elapsed())
    }

    async fn run(&self, sql: &str) -> Result<()> {
        let client: Client = connect_to(&self.base).await?;
        client.batch_execute(sql).await.map_err(|error| to_store_error(&error, &self.base.to_string()))
    }
}

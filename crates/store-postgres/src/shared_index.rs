//! Passages and vectors of uploaded files, in the database.

use async_trait::async_trait;
use store::{KeyedVector, Result, Share, SharedIndex, StoreError};

use crate::PostgresStore;
use crate::text::encode;
use crate::write::no_reply;

/// A server that takes over something and keeps nothing has lost it after this time: longer than reading a document may take.
const CLAIM_S: i64 = 60;

#[async_trait]
impl SharedIndex for PostgresStore {
    async fn take_passages(&self, hash: &[u8], content: &str, server: &str) -> Result<Share> {
        let sql = "SELECT state, known FROM baton_take_passages($1, $2, $3, $4)";
        let row = self.database.query_opt(sql, &[&hash, &encode(content), &server, &CLAIM_S]).await?.ok_or_else(no_reply)?;
        share(row.get(0), row.get(1))
    }

    async fn keep_passages(&self, hash: &[u8], content: &str, passages: Vec<u8>, keys: Vec<Vec<u8>>) -> Result<()> {
        let sql = "SELECT baton_keep_passages($1, $2, $3, $4)";
        self.database.query(sql, &[&hash, &encode(content), &passages, &keys]).await.map(drop)
    }

    async fn release_passages(&self, hash: &[u8], content: &str, server: &str) -> Result<()> {
        let sql = "DELETE FROM file_passages WHERE hash = $1 AND content = $2 AND claimed_by = $3 AND passages IS NULL";
        self.database.query(sql, &[&hash, &encode(content), &server]).await.map(drop)
    }

    async fn take_vectors(&self, model: &str, keys: Vec<Vec<u8>>, server: &str) -> Result<Vec<(Vec<u8>, Share)>> {
        let sql = "SELECT taken, state, known FROM baton_take_vectors($1, $2, $3, $4)";
        let rows = self.database.query(sql, &[&model, &keys, &server, &CLAIM_S]).await?;
        rows.iter().map(|row| Ok((row.get(0), share(row.get(1), row.get(2))?))).collect()
    }

    async fn keep_vectors(&self, model: &str, vectors: Vec<KeyedVector>) -> Result<()> {
        let (keys, values): (Vec<Vec<u8>>, Vec<Vec<u8>>) = vectors.into_iter().unzip();
        self.database.query("SELECT baton_keep_vectors($1, $2, $3)", &[&model, &keys, &values]).await.map(drop)
    }
}

fn share(state: &str, known: Option<Vec<u8>>) -> Result<Share> {
    match (state, known) {
        ("known", Some(known)) => Ok(Share::Known(known)),
        ("ours", _) => Ok(Share::Ours),
        ("elsewhere", _) => Ok(Share::Elsewhere),
        ("unshared", _) => Ok(Share::Unshared),
        (other, _) => Err(StoreError::Database(format!("{other:?} is no state of shared work"))),
    }
}

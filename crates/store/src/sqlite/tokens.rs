//! Tokens for a server, stored as digests.

use graph::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::read::{number, unsigned};
use super::write::{SqlResult, Tables};
use crate::{NewToken, SESSIONS_MAX, TokenRow};

impl Tables {
    pub(super) fn keep_token(&self, token: &NewToken) -> SqlResult<u64> {
        // Sessions are made often; those that are over go when the next one comes.
        self.connection.prepare_cached("DELETE FROM tokens WHERE until_ms <= ?1")?.execute([token.created_ms])?;
        let sql = "INSERT INTO tokens (digest, user, made_with, created_ms, until_ms, scope) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let made_with = token.made_with.as_ref().map(<[u8; 32]>::as_slice);
        let row = params![token.digest.as_slice(), token.user.as_str(), made_with, token.created_ms, token.until_ms, token.scope];
        let number = self.connection.prepare_cached(sql)?.insert(row)? as u64;
        if made_with.is_some() {
            let sql = "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE made_with = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2)";
            self.connection.prepare_cached(sql)?.execute(params![made_with, SESSIONS_MAX as i64])?;
        }
        Ok(number)
    }

    pub(super) fn expire_token(&self, token: u64, until_ms: i64) -> SqlResult<bool> {
        let mut update = self.connection.prepare_cached("UPDATE tokens SET until_ms = ?2 WHERE id = ?1")?;
        Ok(update.execute(params![number(token), until_ms])? > 0)
    }

    /// With everything that was made with it.
    pub(super) fn drop_token(&self, token: u64) -> SqlResult<bool> {
        let id = number(token);
        let sql = "DELETE FROM tokens WHERE made_with = (SELECT digest FROM tokens WHERE id = ?1)";
        self.connection.prepare_cached(sql)?.execute([id])?;
        Ok(self.connection.prepare_cached("DELETE FROM tokens WHERE id = ?1")?.execute([id])? > 0)
    }
}

const COLUMNS: &str = "id, user, made_with, created_ms, until_ms, scope";

pub(super) fn token(rows: &Connection, digest: &[u8; 32], now_ms: i64) -> SqlResult<Option<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM tokens WHERE digest = ?1 AND (until_ms IS NULL OR until_ms > ?2)");
    Ok(rows.prepare_cached(&sql)?.query_row(params![digest.as_slice(), now_ms], row).optional()?)
}

/// The tokens that people were given; sessions are not listed.
pub(super) fn tokens(rows: &Connection) -> SqlResult<Vec<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM tokens WHERE made_with IS NULL ORDER BY id");
    Ok(rows.prepare_cached(&sql)?.query_map([], row)?.collect::<rusqlite::Result<_>>()?)
}

fn row(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow {
        token: unsigned(row, 0)?,
        user: UserId::from(row.get::<_, String>(1)?),
        made_with: row.get(2)?,
        created_ms: row.get(3)?,
        until_ms: row.get(4)?,
        scope: row.get(5)?,
    })
}

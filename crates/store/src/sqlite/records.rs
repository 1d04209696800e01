//! JSON documents of users, by kind and key.

use graph::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::notes::json;
use super::read::number;
use super::write::{SqlResult, Tables};
use crate::{NewRecord, RECORDS_LISTED_BYTES_MAX, RECORDS_MAX, RecordFilter, RecordRow, StoreError};

impl Tables {
    pub(super) fn put_record(&self, new: &NewRecord) -> SqlResult<()> {
        let (user, value) = (new.user.as_str(), new.value.to_string());
        new.must_fit(value.len())?;
        let sql = "UPDATE records SET value = ?4, updated_ms = ?5 WHERE user = ?1 AND kind = ?2 AND key = ?3";
        if self.connection.prepare_cached(sql)?.execute(params![user, new.kind, new.key, value, new.at_ms])? > 0 {
            return Ok(());
        }
        let sql = "SELECT count(*) FROM records WHERE user = ?1 AND kind = ?2";
        let count: i64 = self.connection.prepare_cached(sql)?.query_row(params![user, new.kind], |row| row.get(0))?;
        if count >= RECORDS_MAX as i64 {
            return Err(StoreError::TooMany { kind: new.kind.clone(), count_max: RECORDS_MAX }.into());
        }
        let sql = "INSERT INTO records (user, kind, key, value, created_ms, updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
        self.connection.prepare_cached(sql)?.execute(params![user, new.kind, new.key, value, new.at_ms])?;
        Ok(())
    }

    pub(super) fn drop_record(&self, user: &UserId, kind: &str, key: &str) -> SqlResult<bool> {
        let mut delete = self.connection.prepare_cached("DELETE FROM records WHERE user = ?1 AND kind = ?2 AND key = ?3")?;
        Ok(delete.execute(params![user.as_str(), kind, key])? > 0)
    }
}

const COLUMNS: &str = "user, kind, key, value, created_ms, updated_ms";

pub(super) fn record(rows: &Connection, user: &UserId, kind: &str, key: &str) -> SqlResult<Option<RecordRow>> {
    let sql = format!("SELECT {COLUMNS} FROM records WHERE user = ?1 AND kind = ?2 AND key = ?3");
    Ok(rows.prepare_cached(&sql)?.query_row(params![user.as_str(), kind, key], row).optional()?)
}

pub(super) fn records(rows: &Connection, filter: &RecordFilter) -> SqlResult<Vec<RecordRow>> {
    // Each form has an index of its own.
    let whose = if filter.user.is_some() { "user = ?2" } else { "?2 IS NULL" };
    let behind = if filter.after.is_some() { "(key, user) > (?5, ?6)" } else { "?5 IS NULL AND ?6 IS NULL" };
    let wanted = format!("FROM records WHERE kind = ?1 AND {whose} AND substr(key, 1, length(?3)) = ?3 AND {behind} ORDER BY key, user LIMIT ?4");
    let user = filter.user.as_ref().map(UserId::as_str);
    let after = filter.after.as_ref().map(|(key, user)| (key.as_str(), user.as_str())).unzip();
    let limit = number(filter.limit as u64);
    let values = params![filter.kind, user, filter.key_prefix, limit, after.0, after.1];
    // Lengths are read without the texts.
    let sql = format!(
        "SELECT {COLUMNS} FROM records JOIN
             (SELECT id AS place, sum(octet_length(value)) OVER (ORDER BY key, user) - octet_length(value) AS bytes_before {wanted}) ON id = place
         WHERE bytes_before < {RECORDS_LISTED_BYTES_MAX} ORDER BY key, user"
    );
    Ok(rows.prepare_cached(&sql)?.query_map(values, row)?.collect::<rusqlite::Result<_>>()?)
}

fn row(row: &Row<'_>) -> rusqlite::Result<RecordRow> {
    Ok(RecordRow {
        user: UserId::from(row.get::<_, String>(0)?),
        kind: row.get(1)?,
        key: row.get(2)?,
        value: json(row, 3)?,
        created_ms: row.get(4)?,
        updated_ms: row.get(5)?,
    })
}

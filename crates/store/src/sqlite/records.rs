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
    let user = filter.user.as_ref().map(UserId::as_str);
    let after = filter.after.as_ref().map(|(key, user)| (key.as_str(), user.as_str())).unzip();
    let limit = number(filter.limit as u64);
    let prefix_end = format!("{}{}", filter.key_prefix, char::MAX);
    let values = params![filter.kind, user, filter.key_prefix, prefix_end, limit, after.0, after.1];
    Ok(rows.prepare_cached(&listing(filter))?.query_map(values, row)?.collect::<rusqlite::Result<_>>()?)
}

/// Each form finds its rows as a range of an index.
fn listing(filter: &RecordFilter) -> String {
    let whose = if filter.user.is_some() { "user = ?2" } else { "?2 IS NULL" };
    let behind = if filter.after.is_some() { "(key, user) > (?6, ?7)" } else { "?6 IS NULL AND ?7 IS NULL" };
    let wanted = format!("FROM records WHERE kind = ?1 AND {whose} AND key >= ?3 AND key < ?4 AND {behind} ORDER BY key, user LIMIT ?5");
    // Lengths are read without the texts.
    format!(
        "SELECT {COLUMNS} FROM records JOIN
             (SELECT id AS place, sum(octet_length(value)) OVER (ORDER BY key, user) - octet_length(value) AS bytes_before {wanted}) ON id = place
         WHERE bytes_before < {RECORDS_LISTED_BYTES_MAX} ORDER BY key, user"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Anybody may ask for a record by its key, as links to shared conversations do, so that no request may look through all of a kind.
    #[test]
    fn keys_with_a_prefix_are_found_by_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("migrations/6.sql")).unwrap();
        for (user, expected) in
            [(None, "records_by_kind (kind=? AND key>? AND key<?)"), (Some("ada"), "records_once (user=? AND kind=? AND key>? AND key<?)")]
        {
            let filter = RecordFilter { kind: "k".into(), user: user.map(UserId::from), key_prefix: "abc".into(), limit: 1, after: None };
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", listing(&filter))).unwrap();
            let nothing = None::<String>;
            let lines = plan.query_map(params!["k", user, "abc", "abd", 1, nothing, nothing], |row| row.get::<_, String>(3)).unwrap();
            let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>().unwrap();
            assert!(lines.iter().any(|line| line.contains(expected)), "{user:?}: {lines:?}");
        }
    }
}

//! What runs leave for later ones, and what users like.

use std::collections::BTreeMap;

use graph::{NoteScope, RunId, ThreadId, UserId};
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::read::{number, unreadable, unsigned};
use super::write::{SqlResult, Tables};
use crate::{Commit, NOTES_BYTES_MAX, NOTES_MAX, NoteFilter, NoteRow};

impl Tables {
    /// In the same transaction as all else of the commit: what a run taught is there exactly when its end is.
    pub(super) fn keep_notes(&self, run: i64, thread: i64, commit: &Commit) -> SqlResult<()> {
        if commit.notes.is_empty() {
            return Ok(());
        }
        self.connection.prepare_cached("DELETE FROM notes WHERE until_ms <= ?1")?.execute([commit.at_ms])?;
        for note in &commit.notes {
            let (user, flow, is_local) = (note.user.as_str(), note.flow.as_str(), note.reach == NoteScope::Thread);
            let (key, value) = note.texts();
            let sql = "DELETE FROM notes WHERE user = ?1 AND flow = ?2 AND kind = ?3 AND key = ?4 AND is_local = ?5 AND (NOT ?5 OR thread = ?6)";
            self.connection.prepare_cached(sql)?.execute(params![user, flow, note.kind, key, is_local, thread])?;
            let Some(value) = value else { continue };
            let bytes = (key.len() + value.len()) as i64;
            let sql = "INSERT INTO notes (user, flow, thread, run, is_local, kind, key, value, bytes, created_ms, until_ms)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
            let row = params![user, flow, thread, run, is_local, note.kind, key, value, bytes, commit.at_ms, note.until_ms];
            self.connection.prepare_cached(sql)?.execute(row)?;
            let sql = "DELETE FROM notes WHERE id IN (SELECT id FROM (
                           SELECT id, row_number() OVER newest AS place, sum(bytes) OVER newest AS total FROM notes
                           WHERE user = ?1 AND flow = ?2 WINDOW newest AS (ORDER BY id DESC)) WHERE place > ?3 OR total > ?4)";
            self.connection.prepare_cached(sql)?.execute(params![user, flow, NOTES_MAX as i64, NOTES_BYTES_MAX as i64])?;
        }
        Ok(())
    }

    pub(super) fn forget_notes(&self, user: &UserId, note: Option<u64>) -> SqlResult<u64> {
        let sql = "DELETE FROM notes WHERE user = ?1 AND (?2 IS NULL OR id = ?2)";
        Ok(self.connection.prepare_cached(sql)?.execute(params![user.as_str(), note.map(number)])? as u64)
    }

    pub(super) fn prefer(&self, user: &UserId, name: &str, value: Option<&Value>) -> SqlResult<()> {
        match value {
            Some(value) => {
                let sql = "INSERT OR REPLACE INTO preferences (user, name, value) VALUES (?1, ?2, ?3)";
                self.connection.prepare_cached(sql)?.execute(params![user.as_str(), name, value.to_string()])?
            }
            None => self.connection.prepare_cached("DELETE FROM preferences WHERE user = ?1 AND name = ?2")?.execute([user.as_str(), name])?,
        };
        Ok(())
    }
}

pub(super) fn notes(rows: &Connection, filter: &NoteFilter) -> SqlResult<Vec<NoteRow>> {
    let sql = "SELECT id, flow, kind, key, value, is_local, (SELECT name FROM threads WHERE id = thread), (SELECT name FROM runs WHERE id = run),
                   created_ms, until_ms
               FROM notes WHERE user = ?1 AND (?2 IS NULL OR flow = ?2) AND until_ms > ?4
                   AND (?3 IS NULL OR NOT is_local OR thread = (SELECT id FROM threads WHERE name = ?3)) ORDER BY id DESC LIMIT ?5";
    let read = |row: &Row<'_>| {
        Ok(NoteRow {
            note: unsigned(row, 0)?,
            flow: row.get(1)?,
            kind: row.get(2)?,
            key: json(row, 3)?,
            value: json(row, 4)?,
            reach: if row.get(5)? { NoteScope::Thread } else { NoteScope::User },
            thread: ThreadId::from(row.get::<_, String>(6)?),
            run: RunId::from(row.get::<_, String>(7)?),
            created_ms: row.get(8)?,
            until_ms: row.get(9)?,
        })
    };
    let thread = filter.thread.as_ref().map(ThreadId::as_str);
    let values = params![filter.user.as_str(), filter.flow, thread, filter.now_ms, number(filter.limit as u64)];
    Ok(rows.prepare_cached(sql)?.query_map(values, read)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn preferences(rows: &Connection, user: &UserId) -> SqlResult<BTreeMap<String, Value>> {
    let mut select = rows.prepare_cached("SELECT name, value FROM preferences WHERE user = ?1")?;
    Ok(select.query_map([user.as_str()], |row| Ok((row.get(0)?, json(row, 1)?)))?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| unreadable(column, error))
}

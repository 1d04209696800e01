//! Threads as a list shows them: what was asked, how the last answer begins, how its newest run stands.

use graph::{RunId, ThreadId, UserId};
use rusqlite::types::Value;
use rusqlite::{Connection, MAIN_DB, OptionalExtension, Row, params_from_iter};

use super::read::{number, unreadable, unsigned};
use super::write::SqlResult;
use crate::{CardFilter, CardRow, NewestRun, PREVIEW_CHARS_MAX, Status, StoreError, ThreadRow};

pub(super) fn cards(rows: &Connection, filter: &CardFilter) -> SqlResult<Vec<CardRow>> {
    let mut sql = "SELECT threads.name, threads.title, messages, threads.created_ms, threads.updated_ms, user,
             (SELECT id FROM messages WHERE thread = threads.id AND role = 'assistant' ORDER BY seq DESC LIMIT 1),
             runs.name, runs.flow, runs.status
         FROM threads LEFT JOIN runs
             ON runs.id = (SELECT max(id) FROM runs WHERE thread = threads.id AND parent IS NULL)
         WHERE user IS NOT NULL"
        .to_owned();
    let mut values: Vec<Value> = Vec::new();
    if let Some(user) = &filter.user {
        sql += " AND user = ?";
        values.push(Value::from(user.as_str().to_owned()));
    }
    if let Some(thread) = &filter.thread {
        sql += " AND threads.name = ?";
        values.push(Value::from(thread.as_str().to_owned()));
    }
    if let Some(since_ms) = filter.since_ms {
        sql += " AND threads.updated_ms >= ?";
        values.push(Value::from(since_ms));
    }
    for word in &filter.words {
        sql += " AND (threads.title LIKE ? ESCAPE '\\' OR EXISTS (SELECT 1 FROM messages WHERE thread = threads.id AND content LIKE ? ESCAPE '\\'))";
        let pattern = format!("%{}%", word.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"));
        values.extend([Value::from(pattern.clone()), Value::from(pattern)]);
    }
    if let Some(before) = &filter.before {
        sql += " AND (threads.updated_ms, threads.id) < (?, ?)";
        let (used_ms, id) = place(rows, before)?;
        values.extend([Value::from(used_ms), Value::from(id)]);
    }
    sql += " ORDER BY threads.updated_ms DESC, threads.id DESC LIMIT ?";
    values.push(Value::from(number(filter.limit as u64)));
    let found: Vec<(CardRow, Option<i64>)> =
        rows.prepare_cached(&sql)?.query_map(params_from_iter(values), card)?.collect::<rusqlite::Result<_>>()?;
    found.into_iter().map(|(card, answer)| Ok(CardRow { preview: answer.map_or(Ok(String::new()), |id| preview(rows, id))?, ..card })).collect()
}

/// How a message begins. Of a long one, nothing else is read: as a column it would be read as a whole.
fn preview(rows: &Connection, message: i64) -> rusqlite::Result<String> {
    const CHAR_BYTES_MAX: usize = 4;
    let content = rows.blob_open(MAIN_DB, "messages", "content", message, true)?;
    let mut begin = [0; PREVIEW_CHARS_MAX * CHAR_BYTES_MAX];
    let read = content.read_at(&mut begin, 0)?;
    // The last character may have been cut.
    Ok(String::from_utf8_lossy(&begin[..read]).chars().take(PREVIEW_CHARS_MAX).collect())
}

fn place(rows: &Connection, thread: &ThreadId) -> SqlResult<(i64, i64)> {
    let found = rows
        .prepare_cached("SELECT updated_ms, id FROM threads WHERE name = ?1")?
        .query_row([thread.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?)
}

/// Without the preview, but with the message that it is of.
fn card(row: &Row<'_>) -> rusqlite::Result<(CardRow, Option<i64>)> {
    let thread = ThreadRow {
        thread: ThreadId::from(row.get::<_, String>(0)?),
        title: row.get(1)?,
        messages: unsigned(row, 2)?,
        created_ms: row.get(3)?,
        updated_ms: row.get(4)?,
        user: row.get::<_, Option<String>>(5)?.map(UserId::from),
    };
    let newest = match row.get::<_, Option<String>>(7)? {
        None => None,
        Some(run) => {
            let status: String = row.get(9)?;
            let unknown = || unreadable(9, StoreError::Database(format!("there is no status {status:?}")));
            Some(NewestRun { run: RunId::from(run), flow: row.get(8)?, status: Status::parse(&status).ok_or_else(unknown)? })
        }
    };
    Ok((CardRow { thread, preview: String::new(), newest }, row.get(6)?))
}

//! Reading what belongs to users: cards, notes, preferences, tokens, permissions.

use std::collections::BTreeMap;

use graph::{NoteScope, RunId, ThreadId, UserId};
use serde_json::Value;
use store::{
    CardFilter, CardRow, Grant, NewestRun, NoteFilter, NoteRow, PREVIEW_CHARS_MAX, PermissionRow, RECORDS_LISTED_BYTES_MAX, RecordFilter, RecordRow,
    Result, TokenRow,
};
use tokio_postgres::Row;

use crate::database::Database;
use crate::read::{Query, damaged, number, owned, place, status, string, thread_row, unsigned};
use crate::text::{decode, encode};

pub(crate) async fn cards(database: &Database, filter: &CardFilter) -> Result<Vec<CardRow>> {
    let mut query = Query::new(format!(
        "SELECT threads.name, threads.title, messages, threads.created_ms, threads.updated_ms, user_name,
             (SELECT left(content, {PREVIEW_CHARS_MAX}) FROM messages WHERE thread = threads.id AND role = 'assistant' ORDER BY seq DESC LIMIT 1),
             newest.name, newest.flow, newest.status
         FROM threads LEFT JOIN LATERAL
             (SELECT name, flow, status FROM runs WHERE thread = threads.id AND parent IS NULL ORDER BY id DESC LIMIT 1) AS newest ON TRUE
         WHERE user_name IS NOT NULL"
    ));
    if let Some(user) = &filter.user {
        query.and("user_name = $", owned(user.as_str()));
    }
    if let Some(thread) = &filter.thread {
        query.and("threads.name = $", owned(thread.as_str()));
    }
    if let Some(since_ms) = filter.since_ms {
        query.and("threads.updated_ms >= $", since_ms);
    }
    if !filter.words.is_empty() {
        // With this collation ILIKE ignores the case of ASCII letters only.
        let patterns: Vec<String> = filter.words.iter().map(|word| pattern(word)).collect();
        query.and(
            "NOT EXISTS (SELECT 1 FROM unnest($::text[]) AS word WHERE threads.title COLLATE \"C\" NOT ILIKE word
                 AND NOT EXISTS (SELECT 1 FROM messages WHERE thread = threads.id AND content COLLATE \"C\" ILIKE word))",
            patterns,
        );
    }
    if let Some(before) = &filter.before {
        let (used_ms, id) = place(database, before).await?;
        query.and("(threads.updated_ms < $", used_ms);
        query.end("OR threads.updated_ms = $", used_ms);
        query.and("threads.id < $)", id);
    }
    query.end("ORDER BY threads.updated_ms DESC, threads.id DESC LIMIT $", number(filter.limit as u64));
    query.rows(database).await?.iter().map(card).collect()
}

/// Matches text that contains the word as it is.
fn pattern(word: &str) -> String {
    format!("%{}%", encode(word).replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

fn card(row: &Row) -> Result<CardRow> {
    let newest = match row.get::<_, Option<String>>(7).map(decode) {
        None => None,
        Some(run) => Some(NewestRun { run: RunId::from(run), flow: string(row, 8), status: status(row.get(9))? }),
    };
    Ok(CardRow { thread: thread_row(row), preview: row.get::<_, Option<String>>(6).map(decode).unwrap_or_default(), newest })
}

pub(crate) async fn notes(database: &Database, filter: &NoteFilter) -> Result<Vec<NoteRow>> {
    let mut query = Query::new(
        "SELECT id, flow, kind, key, value, is_local, (SELECT name FROM threads WHERE id = thread), (SELECT name FROM runs WHERE id = run),
             created_ms, until_ms FROM notes WHERE TRUE"
            .to_owned(),
    );
    query.and("user_name = $", owned(filter.user.as_str()));
    query.and("until_ms > $", filter.now_ms);
    if let Some(flow) = &filter.flow {
        query.and("flow = $", owned(flow));
    }
    if let Some(thread) = &filter.thread {
        query.and("(is_local = 0 OR thread = (SELECT id FROM threads WHERE name = $))", owned(thread.as_str()));
    }
    query.end("ORDER BY id DESC LIMIT $", number(filter.limit as u64));
    let note = |row: &Row| {
        Ok(NoteRow {
            note: unsigned(row.get(0)),
            flow: string(row, 1),
            kind: string(row, 2),
            key: json(database, row, 3)?,
            value: json(database, row, 4)?,
            reach: if row.get::<_, i64>(5) == 1 { NoteScope::Thread } else { NoteScope::User },
            thread: ThreadId::from(string(row, 6)),
            run: RunId::from(string(row, 7)),
            created_ms: row.get(8),
            until_ms: row.get(9),
        })
    };
    query.rows(database).await?.iter().map(note).collect()
}

/// Everybody of whom something is kept, by name.
pub(crate) async fn users(database: &Database) -> Result<Vec<UserId>> {
    let sql = "SELECT user_name COLLATE \"C\" FROM threads WHERE user_name IS NOT NULL UNION SELECT user_name FROM notes UNION SELECT user_name FROM preferences
               UNION SELECT user_name FROM permissions UNION SELECT user_name FROM tokens UNION SELECT user_name FROM records ORDER BY 1";
    Ok(database.query(sql, &[]).await?.iter().map(|row| UserId::from(string(row, 0))).collect())
}

pub(crate) async fn preferences(database: &Database, user: &UserId) -> Result<BTreeMap<String, Value>> {
    let rows = database.query("SELECT name, value FROM preferences WHERE user_name = $1", &[&encode(user.as_str())]).await?;
    rows.iter().map(|row| Ok((string(row, 0), json(database, row, 1)?))).collect()
}

fn json(database: &Database, row: &Row, column: usize) -> Result<Value> {
    serde_json::from_str(&string(row, column)).map_err(|error| damaged(database, &error.to_string()))
}

const TOKEN_COLUMNS: &str = "id, user_name, made_with, created_ms, until_ms, scope";

pub(crate) async fn token(database: &Database, digest: &[u8; 32], now_ms: i64) -> Result<Option<TokenRow>> {
    let sql = format!("SELECT {TOKEN_COLUMNS} FROM tokens WHERE digest = $1 AND (until_ms IS NULL OR until_ms > $2)");
    database.query_opt(&sql, &[&digest.as_slice(), &now_ms]).await?.map(|row| token_row(database, &row)).transpose()
}

/// The tokens that people were given; sessions are not listed.
pub(crate) async fn tokens(database: &Database) -> Result<Vec<TokenRow>> {
    let sql = format!("SELECT {TOKEN_COLUMNS} FROM tokens WHERE made_with IS NULL ORDER BY id");
    database.query(&sql, &[]).await?.iter().map(|row| token_row(database, row)).collect()
}

fn token_row(database: &Database, row: &Row) -> Result<TokenRow> {
    let made_with = row.get::<_, Option<&[u8]>>(2).map(<[u8; 32]>::try_from).transpose();
    let made_with = made_with.map_err(|_| damaged(database, "a token's digest is not 32 bytes long"))?;
    let scope = row.get::<_, Option<String>>(5).map(decode);
    Ok(TokenRow { token: unsigned(row.get(0)), user: UserId::from(string(row, 1)), made_with, created_ms: row.get(3), until_ms: row.get(4), scope })
}

pub(crate) async fn permissions(database: &Database, user: &UserId) -> Result<Vec<PermissionRow>> {
    let sql = "SELECT id, scope, name, (SELECT name FROM threads WHERE threads.id = permissions.thread), created_ms, definition
               FROM permissions WHERE user_name = $1 ORDER BY id";
    Ok(database.query(sql, &[&encode(user.as_str())]).await?.iter().filter_map(permission).collect())
}

/// `None` for a scope that this version does not know: what is not understood allows nothing.
fn permission(row: &Row) -> Option<PermissionRow> {
    let name = string(row, 2);
    let thread = row.get::<_, Option<String>>(3).map(decode).map(ThreadId::from);
    let grant = match (row.get::<_, &str>(1), thread) {
        ("conversation", Some(thread)) => Grant::Conversation { thread, tool: name },
        ("tool", None) => Grant::Tool { tool: name },
        ("server", None) => Grant::Server { server: name },
        _ => return None,
    };
    let definition = row.get::<_, Option<String>>(5).map(decode);
    let definition = PermissionRow::read_definition(definition.as_deref());
    Some(PermissionRow { permission: unsigned(row.get(0)), grant, definition, created_ms: row.get(4) })
}

const RECORD_COLUMNS: &str = "user_name, kind, key, value, created_ms, updated_ms";

pub(crate) async fn record(database: &Database, user: &UserId, kind: &str, key: &str) -> Result<Option<RecordRow>> {
    let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE user_name = $1 AND kind = $2 AND key = $3");
    let row = database.query_opt(&sql, &[&encode(user.as_str()), &encode(kind), &encode(key)]).await?;
    row.map(|row| record_row(database, &row)).transpose()
}

pub(crate) async fn records(database: &Database, filter: &RecordFilter) -> Result<Vec<RecordRow>> {
    let sum = "sum(octet_length(value)) OVER (ORDER BY key, user_name) - octet_length(value) AS bytes_before";
    let mut query = wanted_records(filter, &format!("{RECORD_COLUMNS}, {sum}"));
    query.within(
        &format!("SELECT {RECORD_COLUMNS} FROM ("),
        &format!(") AS listed WHERE bytes_before < {RECORDS_LISTED_BYTES_MAX} ORDER BY key, user_name"),
    );
    query.rows(database).await?.iter().map(|row| record_row(database, row)).collect()
}

fn wanted_records(filter: &RecordFilter, columns: &str) -> Query {
    let mut query = Query::new(format!("SELECT {columns} FROM records WHERE TRUE"));
    query.and("kind = $", owned(&filter.kind));
    if let Some(user) = &filter.user {
        query.and("user_name = $", owned(user.as_str()));
    }
    if !filter.key_prefix.is_empty() {
        let prefix = owned(&filter.key_prefix);
        query.and("key < $", format!("{prefix}{}", char::MAX));
        query.and("key >= $", prefix);
    }
    if let Some((key, user)) = &filter.after {
        query.and("key >= $", owned(key));
        query.and("(key > $", owned(key));
        query.end("OR user_name > $)", owned(user.as_str()));
    }
    query.end("ORDER BY key, user_name LIMIT $", number(filter.limit as u64));
    query
}

fn record_row(database: &Database, row: &Row) -> Result<RecordRow> {
    Ok(RecordRow {
        user: UserId::from(string(row, 0)),
        kind: string(row, 1),
        key: string(row, 2),
        value: json(database, row, 3)?,
        created_ms: row.get(4),
        updated_ms: row.get(5),
    })
}

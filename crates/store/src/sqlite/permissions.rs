//! Tool calls that users allowed for good.

use graph::{ThreadId, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::read::{number, unsigned};
use super::write::{SqlResult, Tables};
use crate::{Grant, NewPermission, PERMISSIONS_MAX, PermissionRow, StoreError};

impl Tables {
    /// Written once: the same grant again changes nothing, unless it is for another definition.
    pub(super) fn keep_permission(&self, new: &NewPermission) -> SqlResult<u64> {
        let thread: Option<i64> = match &new.grant {
            Grant::Tool { .. } | Grant::Server { .. } => None,
            Grant::Conversation { thread, .. } => {
                let mut select = self.connection.prepare_cached("SELECT id FROM threads WHERE name = ?1")?;
                let found = select.query_row([thread.as_str()], |row| row.get(0)).optional()?;
                Some(found.ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?)
            }
        };
        let (user, scope, name) = (new.user.as_str(), new.grant.scope(), new.grant.name());
        let definition = new.definition_text();
        let sql = "INSERT INTO permissions (user, scope, name, thread, created_ms, definition) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT (user, scope, name, coalesce(thread, 0)) DO UPDATE SET definition = excluded.definition, created_ms = excluded.created_ms
                   WHERE definition IS NOT excluded.definition";
        self.connection.prepare_cached(sql)?.execute(params![user, scope, name, thread, new.created_ms, definition])?;
        let sql = "DELETE FROM permissions WHERE user = ?1 AND id <= (SELECT id FROM permissions WHERE user = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        self.connection.prepare_cached(sql)?.execute(params![user, PERMISSIONS_MAX as i64])?;
        let sql = "SELECT id FROM permissions WHERE user = ?1 AND scope = ?2 AND name = ?3 AND thread IS ?4";
        Ok(self.connection.prepare_cached(sql)?.query_row(params![user, scope, name, thread], |row| unsigned(row, 0))?)
    }

    pub(super) fn revoke_permission(&self, user: &UserId, permission: u64) -> SqlResult<bool> {
        let mut delete = self.connection.prepare_cached("DELETE FROM permissions WHERE user = ?1 AND id = ?2")?;
        Ok(delete.execute(params![user.as_str(), number(permission)])? > 0)
    }
}

pub(super) fn permissions(rows: &Connection, user: &UserId) -> SqlResult<Vec<PermissionRow>> {
    let sql = "SELECT id, scope, name, (SELECT name FROM threads WHERE threads.id = permissions.thread), created_ms, definition
               FROM permissions WHERE user = ?1 ORDER BY id";
    let rows: Vec<Option<PermissionRow>> = rows.prepare_cached(sql)?.query_map([user.as_str()], row)?.collect::<rusqlite::Result<_>>()?;
    Ok(rows.into_iter().flatten().collect())
}

/// `None` for a scope that this version does not know: what is not understood allows nothing.
fn row(row: &Row<'_>) -> rusqlite::Result<Option<PermissionRow>> {
    let (scope, name): (String, String) = (row.get(1)?, row.get(2)?);
    let thread = row.get::<_, Option<String>>(3)?.map(ThreadId::from);
    let grant = match (scope.as_str(), thread) {
        ("conversation", Some(thread)) => Grant::Conversation { thread, tool: name },
        ("tool", None) => Grant::Tool { tool: name },
        ("server", None) => Grant::Server { server: name },
        _ => return Ok(None),
    };
    let definition = PermissionRow::read_definition(row.get::<_, Option<String>>(5)?.as_deref());
    Ok(Some(PermissionRow { permission: unsigned(row, 0)?, grant, definition, created_ms: row.get(4)? }))
}

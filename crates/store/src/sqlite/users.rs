//! Everything of a user: who there are, and deleting one.

use graph::{ThreadId, UserId};
use rusqlite::Connection;

use super::SqliteStore;
use super::write::{SqlResult, Tables};
use crate::{DeletionReport, Result};

impl SqliteStore {
    /// Deletes everything of a user: threads with their messages, runs and journals, notes, preferences, permissions, tokens and sessions. Unfinished runs too.
    /// The caller makes sure that no other process has the database open ([`crate::is_in_use`]), and calls [`crate::compact_database`] afterwards.
    pub async fn delete_user(&self, user: &UserId) -> Result<DeletionReport> {
        let files_bytes = self.files_bytes();
        let user = user.clone();
        let (deleted, runs) = self.writer.write(0, move |tables| tables.delete_user(&user)).await?;
        let threads = deleted.len() as u64;
        self.give_back(files_bytes, DeletionReport { deleted, threads, runs, bytes: 0 }).await
    }
}

impl Tables {
    fn delete_user(&mut self, user: &UserId) -> SqlResult<(Vec<ThreadId>, u64)> {
        let mut select = self.connection.prepare("SELECT id, name FROM threads WHERE user = ?1")?;
        let threads: Vec<(i64, String)> =
            select.query_map([user.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        drop(select);
        let mut runs = 0;
        for (thread, _) in &threads {
            runs += self.detach(*thread)?;
        }
        for table in ["notes", "preferences", "permissions", "tokens", "records", "stored"] {
            self.connection.execute(&format!("DELETE FROM {table} WHERE user = ?1"), [user.as_str()])?;
        }
        Ok((threads.into_iter().map(|(_, name)| ThreadId::from(name)).collect(), runs))
    }
}

pub(super) fn users(rows: &Connection) -> SqlResult<Vec<UserId>> {
    let sql = "SELECT user FROM threads WHERE user IS NOT NULL UNION SELECT user FROM notes UNION SELECT user FROM preferences
               UNION SELECT user FROM permissions UNION SELECT user FROM tokens UNION SELECT user FROM records ORDER BY 1";
    let all = rows.prepare_cached(sql)?.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(all.into_iter().map(UserId::from).collect())
}

//! Deleting threads, and giving their space back.
//!
//! A deletion is a moment: the thread and its runs are gone from every list at once. Their journals, messages and snapshots
//! may be large, so they are swept afterwards, a piece per transaction; then the free pages are moved to the file's end, again
//! in pieces, and cut off. A crash in between costs nothing: what is left is on a list, and swept when next it is quiet.

use std::time::Duration;

use graph::ThreadId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::open::wait_for_others;
use super::write::{Claimable, SqlResult, Tables};
use crate::{Retention, StoreError};

/// Threads looked at in one transaction.
const THREADS_MAX: usize = 128;
/// Rows swept in one transaction, and bytes of journal lines and messages: everybody else's writes wait meanwhile.
const ROWS_MAX: usize = 512;
const SWEPT_BYTES_MAX: i64 = 4 << 20;
/// Pages moved in one transaction.
const PAGES_MAX: u32 = 256;
/// How long cutting the files waits for readers to look away.
const READERS_MAX: Duration = Duration::from_millis(500);

/// Threads are kept from this place on, in the order of use.
#[derive(Clone, Copy)]
pub(super) struct RetainedFrom(ThreadPosition);

/// When a thread was last used, and its number to tell equals apart.
type ThreadPosition = (i64, i64);

/// What a step of a retention deleted, and where the next one begins.
pub(super) struct Piece {
    pub(super) threads: Vec<ThreadId>,
    pub(super) runs: u64,
    pub(super) next: Option<ThreadPosition>,
}

impl RetainedFrom {
    pub(super) const NOTHING: ThreadPosition = (i64::MIN, i64::MIN);

    pub(super) fn of(rows: &Connection, retention: Retention) -> SqlResult<RetainedFrom> {
        let from = match retention {
            Retention::KeepSince { ms } => (ms, i64::MIN),
            Retention::KeepLast(0) => (i64::MAX, i64::MAX),
            Retention::KeepLast(count) => {
                let skipped = i64::try_from(count - 1).unwrap_or(i64::MAX);
                let sql = "SELECT updated_ms, id FROM threads ORDER BY updated_ms DESC, id DESC LIMIT 1 OFFSET ?1";
                rows.query_row(sql, [skipped], place).optional()?.unwrap_or(Self::NOTHING)
            }
        };
        Ok(RetainedFrom(from))
    }
}

impl Tables {
    /// Deletes those of the next few threads that may go.
    pub(super) fn delete_some(&mut self, from: ThreadPosition, kept: RetainedFrom, now_ms: i64) -> SqlResult<Piece> {
        let sql =
            "SELECT updated_ms, id, name, EXISTS (SELECT 1 FROM runs WHERE thread = threads.id AND status NOT IN ('done', 'failed', 'cancelled'))
                       OR EXISTS (SELECT 1 FROM leases JOIN owners ON owners.id = leases.owner WHERE leases.thread = threads.id AND until_ms >= ?5)
                   FROM threads WHERE (updated_ms, id) > (?1, ?2) AND (updated_ms, id) < (?3, ?4) ORDER BY updated_ms, id LIMIT ?6";
        let mut select = self.connection.prepare(sql)?;
        let limits = params![from.0, from.1, kept.0.0, kept.0.1, now_ms, THREADS_MAX as i64];
        let read = |row: &Row<'_>| Ok((place(row)?, row.get(2)?, row.get(3)?));
        let seen: Vec<(ThreadPosition, String, bool)> = select.query_map(limits, read)?.collect::<rusqlite::Result<_>>()?;
        drop(select);

        let next = (seen.len() == THREADS_MAX).then(|| seen.last().map(|(place, _, _)| *place)).flatten();
        let mut piece = Piece { threads: Vec::new(), runs: 0, next };
        for ((_, thread), name, _) in seen.into_iter().filter(|(_, _, is_needed)| !is_needed) {
            piece.runs += self.detach(thread)?;
            piece.threads.push(ThreadId::from(name));
        }
        Ok(piece)
    }

    pub(super) fn delete_thread(&mut self, thread: &ThreadId, now_ms: i64) -> SqlResult<u64> {
        match self.claimable(thread)? {
            None => Err(StoreError::NoThread { thread: thread.clone() }.into()),
            Some(Claimable { holder: Some((owner, until_ms)), .. }) if until_ms >= now_ms => {
                Err(StoreError::Held { thread: thread.clone(), owner, until_ms }.into())
            }
            Some(found) => self.detach(found.id),
        }
    }

    /// Takes a thread out of every list, and leaves its rows to be swept.
    pub(super) fn detach(&mut self, thread: i64) -> SqlResult<u64> {
        self.forget();
        let _zeroing = Zeroing::begin(&self.connection)?;
        let run = |sql: &str| self.connection.prepare_cached(sql)?.execute([thread]);
        run("UPDATE fences SET floor = max(floor, (SELECT fence FROM threads WHERE id = ?1))")?;
        run("DELETE FROM leases WHERE thread = ?1")?;
        run("DELETE FROM notes WHERE thread = ?1")?;
        run("DELETE FROM permissions WHERE thread = ?1")?;
        run(
            "UPDATE stored SET bytes = max(0, bytes - (SELECT bytes FROM threads WHERE id = ?1)) WHERE user = (SELECT user FROM threads WHERE id = ?1)",
        )?;
        run("DELETE FROM threads WHERE id = ?1")?;
        run("INSERT INTO swept_threads VALUES (?1)")?;
        run("INSERT INTO swept_runs SELECT id FROM runs WHERE thread = ?1")?;
        Ok(run("DELETE FROM runs WHERE thread = ?1")? as u64)
    }

    /// Sweeps a piece of what was detached. Returns whether there may be more.
    pub(super) fn sweep(&mut self) -> SqlResult<bool> {
        let _zeroing = Zeroing::begin(&self.connection)?;
        let (mut left, mut bytes_left) = (ROWS_MAX, SWEPT_BYTES_MAX);
        while left > 0 {
            let run: Option<i64> =
                self.connection.prepare_cached("SELECT run FROM swept_runs LIMIT 1")?.query_row([], |row| row.get(0)).optional()?;
            let Some(run) = run else { break };
            let (rows, is_all) = self.sweep_rows("journal", ("run", run), "bytes", left, &mut bytes_left)?;
            left -= rows;
            if !is_all {
                return Ok(true);
            }
            if left > 0 {
                for table in ["snapshots", "intents", "signals", "swept_runs"] {
                    self.connection.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([run])?;
                }
                left -= 1;
            }
        }
        while left > 0 {
            let mut select = self.connection.prepare_cached("SELECT thread FROM swept_threads LIMIT 1")?;
            let Some(thread) = select.query_row([], |row| row.get(0)).optional()? else { break };
            let (rows, is_all) = self.sweep_rows("messages", ("thread", thread), "content", left, &mut bytes_left)?;
            left -= rows;
            if !is_all {
                return Ok(true);
            }
            if left > 0 {
                self.connection.prepare_cached("DELETE FROM swept_threads WHERE thread = ?1")?.execute([thread])?;
                left -= 1;
            }
        }
        Ok(left == 0)
    }

    /// Deletes rows that belong to one run or thread: at most so many, and until the bytes in one of their columns are used up. Says how many, and whether these
    /// were all.
    fn sweep_rows(&self, table: &str, (column, of): (&str, i64), text: &str, rows_max: usize, bytes_left: &mut i64) -> SqlResult<(usize, bool)> {
        // Lengths are read without the texts.
        let mut select = self.connection.prepare_cached(&format!("SELECT id, octet_length({text}) FROM {table} WHERE {column} = ?1 LIMIT ?2"))?;
        let mut delete = self.connection.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?;
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let rows: Vec<(i64, i64)> = select.query_map([of, rows_max as i64], read)?.collect::<rusqlite::Result<_>>()?;
        for (at, (id, bytes)) in rows.iter().enumerate() {
            if *bytes_left <= 0 {
                return Ok((at, false));
            }
            delete.execute([id])?;
            *bytes_left -= bytes;
        }
        Ok((rows.len(), rows.len() < rows_max))
    }

    /// Moves some free pages to the end of the file. Returns whether there are more, and whether trying again makes sense.
    pub(super) fn vacuum(&mut self) -> SqlResult<bool> {
        let free_pages = || self.connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
        let before = free_pages()?;
        // Each row is a page; the work happens as they are read.
        let mut moved = self.connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_MAX})"))?;
        let mut rows = moved.query([])?;
        while rows.next()?.is_some() {}
        let after = free_pages()?;
        Ok(after > 0 && after < before)
    }

    /// Works the WAL into the file and cuts both. Readers that look on for long keep the WAL from being cut; it is cut later.
    pub(super) fn checkpoint(&mut self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(READERS_MAX)?;
        let end = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        wait_for_others(&mut self.connection)?;
        end
    }

    /// The same without waiting for readers. Says whether the files were cut.
    pub(super) fn cut(&mut self) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let is_busy = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        // A timeout replaces the writer's way of waiting.
        wait_for_others(&mut self.connection)?;
        is_busy.map(|is_busy| !is_busy)
    }

    /// Moves as much of the WAL into the file as is possible without waiting.
    pub(super) fn checkpoint_passively(&self) -> rusqlite::Result<()> {
        self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }
}

/// Until it is dropped, SQLite writes zeros over what it deletes. Elsewhere that would only cost time: snapshots are replaced often.
struct Zeroing<'c>(&'c Connection);

impl Zeroing<'_> {
    fn begin(connection: &Connection) -> rusqlite::Result<Zeroing<'_>> {
        connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
        Ok(Zeroing(connection))
    }
}

impl Drop for Zeroing<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.query_row("PRAGMA secure_delete = OFF", [], |_| Ok(())) {
            tracing::warn!("deleting goes on zeroing: {error}");
        }
    }
}

fn place(row: &Row<'_>) -> rusqlite::Result<ThreadPosition> {
    Ok((row.get(0)?, row.get(1)?))
}

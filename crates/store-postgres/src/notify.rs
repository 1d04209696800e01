//! Telling other servers what changed (NOTIFY), and hearing it from them (LISTEN). Nothing depends on it: whoever waits for a change also polls.
//!
//! NOTIFY is sent apart from the commits it is about: in Postgres all transactions that notify commit one after the other.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use graph::{RunId, TaskId};
use serde::{Deserialize, Serialize};
use store::{Change, Delta};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::{AsyncMessage, Client, Notification};

use crate::database::Database;
use crate::error::detail;

/// Changes are gathered for this long, so that a busy server sends at most 100 messages a second.
const GATHER: Duration = Duration::from_millis(10);
/// Postgres allows 8000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_000;
/// Of a piece of an answer, before it is written as JSON.
const PIECE_BYTES_MAX: usize = 800;
const CHANGES_MAX: usize = 4_096;
const RECONNECT: Duration = Duration::from_secs(2);
/// How often leftovers of deletions are removed and the clock is compared.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Rows removed in one transaction.
pub(crate) const SWEEP_ROWS: i64 = 512;

/// A message between servers.
#[derive(Default, Serialize, Deserialize)]
struct Payload {
    #[serde(default)]
    runs: Vec<String>,
    /// Runs that somebody left a signal for.
    #[serde(default)]
    signals: Vec<String>,
    /// Pieces of answers, in order.
    #[serde(default)]
    deltas: Vec<Piece>,
}

/// A piece of an answer: run, step and index of the effect, attempt, text.
type Piece = (String, u64, u32, u32, String);

pub(crate) struct Notifier {
    pub(crate) outgoing: mpsc::Sender<Change>,
    pub(crate) incoming: broadcast::Sender<Change>,
    task: JoinHandle<()>,
}

impl Notifier {
    pub(crate) fn start(database: Arc<Database>, clock_offset_ms: Arc<AtomicI64>) -> Notifier {
        let (outgoing, changes) = mpsc::channel(CHANGES_MAX);
        let incoming = broadcast::channel(CHANGES_MAX).0;
        let work = Work { database, incoming: incoming.clone(), changes, clock_offset_ms, tidied: None };
        Notifier { outgoing, incoming, task: tokio::spawn(work.run()) }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Work {
    database: Arc<Database>,
    incoming: broadcast::Sender<Change>,
    changes: mpsc::Receiver<Change>,
    clock_offset_ms: Arc<AtomicI64>,
    tidied: Option<Instant>,
}

impl Work {
    async fn run(mut self) {
        loop {
            match self.serve().await {
                Ok(()) => return,
                Err(error) => tracing::info!(
                    "changes of other servers are found by polling until {} is reached again: {}",
                    self.database.name(),
                    detail(&error)
                ),
            }
            sleep(RECONNECT).await;
            // Old news: watchers have polled meanwhile.
            while self.changes.try_recv().is_ok() {}
        }
    }

    /// One connection's time. Ends well when the store is closed.
    async fn serve(&mut self) -> Result<(), tokio_postgres::Error> {
        let (client, mut connection) = self.database.connect().await?;
        let incoming = self.incoming.clone();
        let own_pid = Arc::new(AtomicI64::new(0));
        let heard_pid = own_pid.clone();
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message
                    && i64::from(notification.process_id()) != heard_pid.load(Ordering::Relaxed)
                {
                    hear(&incoming, &notification);
                }
            }
        });
        let end = self.work(&client, &own_pid).await;
        driver.abort();
        end
    }

    async fn work(&mut self, client: &Client, own_pid: &AtomicI64) -> Result<(), tokio_postgres::Error> {
        client.batch_execute(self.database.session_sql()).await?;
        // What is told is durable already; the telling need not wait for the disk.
        client.batch_execute("SET synchronous_commit = off").await?;
        let row = client.query_one("SELECT pg_backend_pid(), 'baton_' || md5(current_schema())", &[]).await?;
        own_pid.store(i64::from(row.get::<_, i32>(0)), Ordering::Relaxed);
        let channel: String = row.get(1);
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        loop {
            if self.tidied.is_none_or(|tidied| tidied.elapsed() >= TIDY_EVERY) {
                self.tidied = Some(Instant::now());
                self.tidy(client).await?;
            }
            let wake = Instant::now() + TIDY_EVERY;
            let first = match timeout_at(wake, self.changes.recv()).await {
                Ok(Some(first)) => first,
                Ok(None) => return Ok(()),
                Err(_) => continue,
            };
            for payload in self.gather(first).await {
                client.execute("SELECT pg_notify($1, $2)", &[&channel, &payload]).await?;
            }
        }
    }

    /// What is changed within a moment, in as few messages as hold it.
    async fn gather(&mut self, first: Change) -> Vec<String> {
        let end = Instant::now() + GATHER;
        let mut all = vec![first];
        while all.len() < CHANGES_MAX {
            match timeout_at(end, self.changes.recv()).await {
                Ok(Some(change)) => all.push(change),
                Ok(None) | Err(_) => break,
            }
        }
        let (deltas, mut changes): (Vec<Change>, Vec<Change>) = all.into_iter().partition(|change| matches!(change, Change::Delta(_)));
        changes.sort();
        changes.dedup();
        changes.extend(deltas);
        payloads(&changes)
    }

    async fn tidy(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        while client.query_one("SELECT baton_sweep($1)", &[&SWEEP_ROWS]).await?.get::<_, bool>(0) {}
        client.execute("SELECT baton_tidy()", &[]).await?;
        if let Ok(offset_ms) = self.database.clock_offset_ms().await {
            self.clock_offset_ms.store(offset_ms, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn payloads(changes: &[Change]) -> Vec<String> {
    let mut done = Vec::new();
    let (mut payload, mut bytes) = (Payload::default(), 0);
    let mut finish = |payload: &mut Payload| done.push(serde_json::to_string(&std::mem::take(payload)).expect("strings can be written as JSON"));
    for change in changes {
        if let Change::Delta(delta) = change {
            for text in pieces(&delta.text) {
                let more = escaped_max(delta.run.as_str()) + escaped_max(text) + 64;
                if more > PAYLOAD_BYTES_MAX {
                    continue;
                }
                if bytes + more > PAYLOAD_BYTES_MAX {
                    finish(&mut payload);
                    bytes = 0;
                }
                bytes += more;
                payload.deltas.push((delta.run.to_string(), delta.task.step, delta.task.index, delta.attempt, text.to_owned()));
            }
            continue;
        }
        let (Change::Run(run) | Change::Signal(run)) = change else { continue };
        let more = escaped_max(run.as_str()) + 3;
        if more > PAYLOAD_BYTES_MAX {
            continue;
        }
        if bytes + more > PAYLOAD_BYTES_MAX {
            finish(&mut payload);
            bytes = 0;
        }
        bytes += more;
        match change {
            Change::Run(run) => payload.runs.push(run.to_string()),
            Change::Signal(run) => payload.signals.push(run.to_string()),
            Change::Delta(_) => {}
        }
    }
    if bytes > 0 {
        finish(&mut payload);
    }
    done
}

/// As JSON a character takes six bytes at most.
fn escaped_max(text: &str) -> usize {
    text.len() * 6
}

/// A text in parts that fit into one message each.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE_BYTES_MAX));
        all.push(piece);
        text = rest;
    }
    all
}

fn hear(incoming: &broadcast::Sender<Change>, notification: &Notification) {
    match serde_json::from_str::<Payload>(notification.payload()) {
        Ok(payload) => {
            // Fails if nobody listens at the moment.
            let tell = |change| drop(incoming.send(change));
            payload.runs.into_iter().map(|run| Change::Run(RunId::from(run))).for_each(tell);
            payload.signals.into_iter().map(|run| Change::Signal(RunId::from(run))).for_each(tell);
            let delta = |(run, step, index, attempt, text): Piece| {
                Change::Delta(Delta { run: RunId::from(run), task: TaskId { step, index }, attempt, text: text.into() })
            };
            payload.deltas.into_iter().map(delta).for_each(tell);
        }
        Err(error) => tracing::debug!("a notification of another program was ignored: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_stay_below_the_limit_of_postgres() {
        let changes: Vec<Change> = (0..1_000).map(|n| Change::Run(RunId::from(format!("run-\u{1}{n}")))).collect();
        let made = payloads(&changes);
        assert!(made.len() > 1 && made.iter().all(|payload| payload.len() < 8_000));
        let back: usize = made.iter().map(|payload| serde_json::from_str::<Payload>(payload).unwrap().runs.len()).sum();
        assert_eq!(back, 1_000);
        assert!(payloads(&[Change::Run(RunId::from("x".repeat(9_000)))]).is_empty());
        let task = TaskId { step: 1, index: 2 };
        let text = "ä\u{1}".repeat(5_000);
        let made = payloads(&[Change::Delta(Delta { run: RunId::from("run"), task, attempt: 1, text: text.as_str().into() })]);
        assert!(made.len() > 1 && made.iter().all(|payload| payload.len() < 8_000));
        let back: String = made.iter().flat_map(|payload| serde_json::from_str::<Payload>(payload).unwrap().deltas).map(|piece| piece.4).collect();
        assert_eq!(back, text);
    }
}

//! Announces changes to other servers (NOTIFY) and receives theirs (LISTEN). Nothing depends on it: waiters also poll.
//!
//! NOTIFY is sent apart from the commits it is about: in Postgres all transactions that notify commit one after the other.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use graph::RunId;
use serde::{Deserialize, Serialize};
use store::{Change, Piece};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::{AsyncMessage, Client, Notification};

use crate::database::Database;
use crate::error::detail;

/// Changes are gathered for this long, so that a busy server sends at most 100 messages a second.
const GATHER: Duration = Duration::from_millis(10);
/// Pieces of answers are gathered for longer: what generates them sends many small ones.
const GATHER_PIECES: Duration = Duration::from_millis(50);
/// Bytes of one piece in a message. As JSON a byte takes six at most.
const PIECE_BYTES_MAX: usize = 1_000;
/// Bytes of pieces that are sent of what was gathered at once; the rest is dropped, and watchers get it with the whole answer.
const PIECES_BYTES_MAX: usize = 256 << 10;
/// Postgres allows 8000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_000;
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
    /// Runs that are watched by the sender and driven elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    watched: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pieces: Vec<Piece>,
    /// Whether files changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    files: bool,
}

pub(crate) struct Notifier {
    pub(crate) outgoing: mpsc::Sender<Change>,
    pub(crate) incoming: broadcast::Sender<Change>,
    task: JoinHandle<()>,
}

impl Notifier {
    pub(crate) fn start(database: Arc<Database>, clock_offset_ms: Arc<AtomicI64>) -> Notifier {
        let (outgoing, changes) = mpsc::channel(CHANGES_MAX);
        let incoming = broadcast::channel(CHANGES_MAX).0;
        let work = NotifyTask { database, incoming: incoming.clone(), changes, clock_offset_ms, tidied: None };
        Notifier { outgoing, incoming, task: tokio::spawn(work.run()) }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct NotifyTask {
    database: Arc<Database>,
    incoming: broadcast::Sender<Change>,
    changes: mpsc::Receiver<Change>,
    clock_offset_ms: Arc<AtomicI64>,
    tidied: Option<Instant>,
}

impl NotifyTask {
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
        let own = own_pid.clone();
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message
                    && i64::from(notification.process_id()) != own.load(Ordering::Relaxed)
                {
                    forward(&incoming, &notification);
                }
            }
        });
        let end = self.work(&client, &own_pid).await;
        driver.abort();
        end
    }

    async fn work(&mut self, client: &Client, own_pid: &AtomicI64) -> Result<(), tokio_postgres::Error> {
        client.batch_execute(self.database.session_sql()).await?;
        // The announced data is durable already; the announcement need not wait for the disk.
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
        let mut end = Instant::now() + GATHER_PIECES;
        let (mut all, mut pieces) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(change) = next.take() {
            match change {
                Change::Piece(piece) => add_piece(&mut pieces, piece),
                change => {
                    end = end.min(Instant::now() + GATHER);
                    all.push(change);
                }
            }
            if all.len() < CHANGES_MAX {
                next = timeout_at(end, self.changes.recv()).await.ok().flatten();
            }
        }
        all.sort();
        all.dedup();
        // Pieces first: the commit that ends an answer is announced after its pieces.
        let mut payloads = piece_payloads(pieces);
        payloads.extend(change_payloads(&all));
        payloads
    }

    async fn tidy(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        while client.query_one("SELECT baton_sweep($1)", &[&SWEEP_ROWS]).await?.get::<_, bool>(0) {}
        client.execute("SELECT baton_tidy(), baton_tidy_calls()", &[]).await?;
        if let Ok(offset_ms) = self.database.clock_offset_ms().await {
            self.clock_offset_ms.store(offset_ms, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Joins what belongs together, up to the size of a piece.
fn add_piece(pieces: &mut Vec<Piece>, piece: Piece) {
    let follows = |last: &&mut Piece| {
        (&last.watched, &last.run, last.task, last.attempt) == (&piece.watched, &piece.run, piece.task, piece.attempt)
            && last.text.len() + piece.text.len() <= PIECE_BYTES_MAX
    };
    // The last one of the same answer: pieces of several answers alternate.
    match pieces.iter_mut().rev().find(|known| known.watched == piece.watched && known.run == piece.run && known.task == piece.task).filter(follows) {
        Some(last) => last.text.push_str(&piece.text),
        None => pieces.push(piece),
    }
}

fn piece_payloads(pieces: Vec<Piece>) -> Vec<String> {
    let mut sent = 0;
    let mut done = Vec::new();
    for piece in pieces {
        for part in parts(&piece.text) {
            sent += part.len();
            if sent > PIECES_BYTES_MAX {
                return done;
            }
            let payload = Payload { pieces: vec![Piece { text: part.to_owned(), ..piece.clone() }], ..Payload::default() };
            let text = serde_json::to_string(&payload).expect("strings can be written as JSON");
            // Longer only with names of runs that are longer than those of the engine.
            if text.len() <= PAYLOAD_BYTES_MAX + 900 {
                done.push(text);
            }
        }
    }
    done
}

/// The text in parts of at most `PIECE_BYTES_MAX` bytes, between characters.
fn parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = text.split_at(text.floor_char_boundary(PIECE_BYTES_MAX));
        parts.push(part);
        text = rest;
    }
    parts
}

fn change_payloads(changes: &[Change]) -> Vec<String> {
    let mut done = Vec::new();
    let (mut payload, mut bytes) = (Payload::default(), 0);
    let mut finish = |payload: &mut Payload| done.push(serde_json::to_string(&std::mem::take(payload)).expect("strings can be written as JSON"));
    for change in changes {
        let run = match change {
            Change::Run(run) | Change::Signal(run) | Change::Watched(run) => run,
            Change::Files => {
                payload.files = true;
                bytes += 16;
                continue;
            }
            Change::Piece(_) => continue,
        };
        // As JSON a character takes six bytes at most.
        let more = run.as_str().len() * 6 + 3;
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
            Change::Watched(run) => payload.watched.push(run.to_string()),
            Change::Piece(_) | Change::Files => {}
        }
    }
    if bytes > 0 {
        finish(&mut payload);
    }
    done
}

fn forward(incoming: &broadcast::Sender<Change>, notification: &Notification) {
    match serde_json::from_str::<Payload>(notification.payload()) {
        Ok(payload) => {
            // Fails if nobody listens at the moment.
            let publish = |change| drop(incoming.send(change));
            payload.runs.into_iter().map(|run| Change::Run(RunId::from(run))).for_each(publish);
            payload.signals.into_iter().map(|run| Change::Signal(RunId::from(run))).for_each(publish);
            payload.watched.into_iter().map(|run| Change::Watched(RunId::from(run))).for_each(publish);
            payload.pieces.into_iter().map(Change::Piece).for_each(publish);
            if payload.files {
                publish(Change::Files);
            }
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
        let made = change_payloads(&changes);
        assert!(made.len() > 1 && made.iter().all(|payload| payload.len() < 8_000));
        let back: usize = made.iter().map(|payload| serde_json::from_str::<Payload>(payload).unwrap().runs.len()).sum();
        assert_eq!(back, 1_000);
        assert!(change_payloads(&[Change::Run(RunId::from("x".repeat(9_000)))]).is_empty());
    }

    #[test]
    fn pieces_are_joined_and_cut_and_none_is_too_long() {
        let piece = |run: &str, text: String| Piece {
            watched: RunId::from("root"),
            run: RunId::from(run),
            task: graph::TaskId { step: 1, index: 0 },
            attempt: 1,
            text,
        };
        let mut gathered = Vec::new();
        for n in 0..400 {
            add_piece(&mut gathered, piece("a", format!("{n}\u{1}é")));
            add_piece(&mut gathered, piece("b", "x".to_owned()));
        }
        assert!(gathered.len() < 10, "{}", gathered.len());
        add_piece(&mut gathered, piece("c", "\u{1}".repeat(5_000)));
        let made = piece_payloads(gathered);
        assert!(made.iter().all(|payload| payload.len() < 8_000));
        let text_of = |run: &str| -> String {
            let all = made.iter().flat_map(|payload| serde_json::from_str::<Payload>(payload).unwrap().pieces);
            all.filter(|piece| piece.run.as_str() == run).map(|piece| piece.text).collect()
        };
        assert_eq!(text_of("a"), (0..400).map(|n| format!("{n}\u{1}é")).collect::<String>());
        assert_eq!((text_of("b").len(), text_of("c").len()), (400, 5_000));
        assert!(piece_payloads(vec![piece("d", "y".repeat(1 << 20))]).len() <= PIECES_BYTES_MAX / PIECE_BYTES_MAX);
    }
}

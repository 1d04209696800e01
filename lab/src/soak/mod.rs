//! A long mixed load: the real `baton serve` as a process, and clients that ask, watch, disconnect, reconnect, approve, edit, stop, fork,
//! upload, delete, and send invalid requests, over real HTTP. Afterwards the server must look as it did before.
//!
//! ```text
//!   start ─► every act once ─► idle: a sample ─► N clients for M minutes, a sample every 10 s ─► all leave ─► idle: a sample ─► judged
//! ```
//!
//! Threads are deleted as fast as they are created, so any growth is a leak. [`report`] documents the criteria.

mod client;
mod process;
pub mod report;
mod tally;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use client::Client;
pub use process::Sample;
use process::Server;
use report::Report;
use tally::Tally;

pub struct Order {
    /// The program.
    pub baton: PathBuf,
    pub minutes: f64,
    pub clients: u64,
    pub seed: u64,
    /// Prints progress now and then.
    pub is_telling: bool,
}

const SAMPLED: Duration = Duration::from_secs(10);
/// Longer than hubs, connections and leases are kept after the last use.
const QUIET_MAX: Duration = Duration::from_secs(90);
/// Allowed difference: a closing connection, a file the store keeps open.
const FILES_MORE_MAX: u64 = 4;
const TASKS_MORE_MAX: u64 = 4;

/// The report. An error: it could not be started.
pub async fn soak(order: &Order) -> Result<Report, String> {
    let mut server = Server::start(&order.baton)?;
    let tally = Arc::new(Tally::default());
    // Everything created on first use is created now, and belongs to the start.
    let (stop, stopped) = watch::channel(false);
    Client::new(&server.url, order.seed, 0, tally.clone(), stopped.clone()).every_act_once().await;
    let start = settled(&mut server, None).await?;

    let started = Instant::now();
    let lasting = Duration::from_secs_f64(order.minutes * 60.0);
    let mut clients = JoinSet::new();
    for number in 1..=order.clients {
        clients.spawn(Client::new(&server.url, order.seed, number, tally.clone(), stopped.clone()).go());
    }
    let mut samples = Vec::new();
    let mut exited = None;
    while started.elapsed() < lasting {
        tokio::time::sleep(SAMPLED.min(lasting.saturating_sub(started.elapsed()))).await;
        if let Some(how) = server.ended() {
            exited = Some(how);
            break;
        }
        match server.sample(started.elapsed()).await {
            Ok(sample) => {
                if order.is_telling {
                    eprintln!("{}", report::line(&sample, tally.requests()));
                }
                samples.push(sample);
            }
            Err(why) => tally.wrong("metrics", why),
        }
    }
    // The receivers may be gone.
    let _ = stop.send(true);
    while clients.join_next().await.is_some() {}
    let end = match exited {
        None => settled(&mut server, Some(&start)).await.ok(),
        Some(_) => None,
    };
    if exited.is_none() {
        exited = server.ended();
    }
    Ok(Report {
        minutes: order.minutes,
        clients: order.clients,
        seed: order.seed,
        start,
        samples,
        end,
        exited,
        kinds: tally.kinds(),
        wrong: tally.all_wrong(),
        warned: server.warnings(),
    })
}

/// Waits until nothing is active any more; with `start`, until it is as it was then, if it ever is.
async fn settled(server: &mut Server, start: Option<&Sample>) -> Result<Sample, String> {
    let started = Instant::now();
    let mut before: Option<Sample> = None;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        if let Some(how) = server.ended() {
            return Err(format!("the server exited: {how}"));
        }
        let sample = server.sample(started.elapsed()).await?;
        let is_idle = sample.runs == 0 && sample.streams == 0;
        let is_steady = before.as_ref().is_some_and(|before| before.tasks == sample.tasks && before.files == sample.files);
        let is_as_before = start.is_none_or(|start| report::leaks(start, &sample).is_empty());
        if (is_idle && is_steady && is_as_before) || started.elapsed() > QUIET_MAX {
            return Ok(sample);
        }
        before = Some(sample);
    }
}

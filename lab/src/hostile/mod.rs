//! Some hostile users beside many others, against one real server with a limit on its memory.
//!
//! ```text
//!   start ─► tokens ─► calm: the others alone ─► hostile: the same, and those who attack ─► judged
//! ```
//!
//! The attacks are those of `lab/hostile`. What is wanted: nobody else gets an error, waits twice as long, or sees a word of somebody else; the memory stays below its
//! limit and does not grow; the server keeps running.

mod attacker;
mod calm;
pub mod report;
mod server;

#[path = "../../hostile/documents.rs"]
#[allow(clippy::unwrap_used, dead_code, reason = "it is written for tests, and each includes what it needs")]
mod documents;
#[path = "../../hostile/requests.rs"]
mod requests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use attacker::Attack;
use attacker::Attacker;
use calm::RegularUser;
use report::{Phase, Report};
use server::Server;

pub struct Order {
    pub baton: PathBuf,
    pub lasting: Duration,
    pub users: usize,
    pub hostile: usize,
    /// What the hostile ones do.
    pub attacks: Vec<Attack>,
    /// Limit on the data of the server's process, in bytes.
    pub memory_bytes_max: u64,
}

/// What was seen, of all users together.
#[derive(Default)]
pub(crate) struct Observations {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    latencies: Vec<Duration>,
    by_route: BTreeMap<String, Vec<Duration>>,
    errors: Vec<String>,
    errors_count: u64,
    leaks: Vec<String>,
    attacks: u64,
    server_errors: Vec<String>,
}

/// Complaints that are kept word for word; all are counted.
const WORDS_MAX: usize = 10;

impl Observations {
    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answered(&self, took: Duration, what: &str) {
        self.with(|inner| {
            inner.latencies.push(took);
            inner.by_route.entry(route(what)).or_default().push(took);
        });
    }

    fn error(&self, words: String) {
        self.with(|inner| {
            inner.errors_count += 1;
            if inner.errors.len() < WORDS_MAX {
                inner.errors.push(words);
            }
        });
    }

    fn attacked(&self) {
        self.with(|inner| inner.attacks += 1);
    }

    /// The server failed at an attack, instead of refusing it.
    fn failed_at(&self, words: String) {
        self.with(|inner| {
            if inner.server_errors.len() < WORDS_MAX {
                inner.server_errors.push(words);
            }
        });
    }

    /// Looks for marks of others in what a user got.
    fn look(&self, user: &str, path: &str, text: &str) {
        let own = marker(user);
        for (at, _) in text.match_indices(MARK) {
            if !text[at..].starts_with(&own) {
                self.with(|inner| inner.leaks.push(format!("{user} got at {path}: {}", text[at..].chars().take(40).collect::<String>())));
                return;
            }
        }
    }
}

/// The name of a request without what follows `?`, and with `_` in place of an id.
fn route(what: &str) -> String {
    let path = what.split('?').next().unwrap_or(what);
    let is_id = |at: usize, part: &str| at == 3 && part != "notes.md";
    path.split('/').enumerate().map(|(at, part)| if is_id(at, part) { "_" } else { part }).collect::<Vec<_>>().join("/")
}

const MARK: &str = "MARK-OF-";

/// What stands in everything a user writes, and nowhere else. The end keeps `u1` apart from `u11`.
fn marker(user: &str) -> String {
    format!("{MARK}{user}-")
}

/// An error: it could not even be begun.
pub async fn run(order: &Order) -> Result<Report, String> {
    let mut server = Server::start(&order.baton, order.memory_bytes_max)?;
    let names: Vec<String> = (1..=order.users).map(|number| format!("u{number}")).collect();
    let mut tokens = Vec::new();
    for name in &names {
        tokens.push(server.token(name)?);
    }
    let (hostile, calm) = (&names[..order.hostile], &names[order.hostile..]);
    let calm_for = order.lasting / 4;
    let url = server.url.clone();
    let users = |seen: &Arc<Observations>, stop: &watch::Receiver<bool>| -> Vec<RegularUser> {
        let of = |(at, name): (usize, &String)| RegularUser::new(&url, name, &tokens[order.hostile + at], seen.clone(), stop.clone());
        calm.iter().enumerate().map(of).collect()
    };

    // Whatever is made on first use is made now.
    let warm = Arc::new(Observations::default());
    let (stop, stopped) = watch::channel(false);
    let mut first = users(&warm, &stopped);
    for user in &mut first {
        user.every_act_once().await;
    }
    drop(stop);

    let seen = Arc::new(Observations::default());
    let before = phase(&mut server, &seen, users(&seen, &stopped), Vec::new(), calm_for).await;
    let attacked = Arc::new(Observations::default());
    let (_stop, stopped) = watch::channel(false);
    let attackers: Vec<Attacker> = hostile
        .iter()
        .enumerate()
        .map(|(at, name)| Attacker::new(&url, (name.as_str(), tokens[at].as_str()), at, &order.attacks, &first[at % first.len()], attacked.clone()))
        .collect();
    let under = phase(&mut server, &attacked, users(&attacked, &stopped), attackers, order.lasting - calm_for).await;
    Ok(Report {
        order: format!("{} users, {} of them hostile, {} s, {:?}", order.users, order.hostile, order.lasting.as_secs(), order.attacks),
        warm_errors: warm.with(|inner| std::mem::take(&mut inner.errors)),
        before,
        under,
        memory_kib_max: order.memory_bytes_max >> 10,
        exited: server.ended(),
    })
}

/// Attackers are on machines of their own in life. Here each has a thread that yields to the others, so that the time it takes to prepare attacks and to read
/// answers is not counted as waiting of those who are attacked. Relative to the priority of the whole.
#[cfg(target_os = "linux")]
const ATTACKER_NICE: i32 = 10;

fn attack(attacker: Attacker, end: Instant) -> tokio::task::AbortHandle {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let task = runtime.spawn(attacker.until(end));
    let handle = task.abort_handle();
    std::thread::spawn(move || {
        // Elsewhere the priority is that of the whole process.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(ATTACKER_NICE) {
            eprintln!("an attacker keeps its priority: {error}");
        }
        // An error here is the end of the phase.
        let _ = runtime.block_on(task);
    });
    handle
}

const SAMPLED: Duration = Duration::from_secs(2);

async fn phase(server: &mut Server, seen: &Arc<Observations>, users: Vec<RegularUser>, attackers: Vec<Attacker>, lasting: Duration) -> Phase {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for user in users {
        tasks.spawn(user.until(started + lasting));
    }
    let attacks: Vec<_> = attackers.into_iter().map(|attacker| attack(attacker, started + lasting)).collect();
    let mut memory_kib = Vec::new();
    while started.elapsed() < lasting && server.ended().is_none() {
        tokio::time::sleep(SAMPLED.min(lasting.saturating_sub(started.elapsed()))).await;
        memory_kib.extend(server.memory_kib());
    }
    while tasks.join_next().await.is_some() {}
    for attack in attacks {
        attack.abort();
    }
    let peak_kib = server.peak_kib();
    seen.with(|inner| Phase {
        seconds: started.elapsed().as_secs_f64(),
        latencies: std::mem::take(&mut inner.latencies),
        by_route: std::mem::take(&mut inner.by_route),
        errors: std::mem::take(&mut inner.errors),
        errors_count: inner.errors_count,
        leaks: std::mem::take(&mut inner.leaks),
        attacks: inner.attacks,
        server_errors: std::mem::take(&mut inner.server_errors),
        memory_kib,
        peak_kib,
    })
}

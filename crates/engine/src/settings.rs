use std::sync::Arc;

use graph::{Start, ThreadId, Waiting};
use serde_json::Value;

use crate::remote::{Dispatcher, RemoteEffects};

/// How an engine behaves; the defaults suit one process on one machine.
#[derive(Clone)]
pub struct Settings {
    /// Runs in memory at the same time. Children do not count: they would wait for the permit that their parent holds.
    pub runs_max: usize,
    /// Callers that may wait for a permit.
    pub queue_max: usize,
    /// The name of this process in leases.
    pub owner: String,
    /// Whether the process of that name has certainly exited; then its leases are taken over before they expire.
    pub is_gone: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// How long a lease lasts without being renewed. After a crash that `is_gone` cannot see, another process waits this long.
    pub lease_ms: i64,
    /// How often to look for runs whose process ended without giving them back, once their leases have run out.
    pub sweep_ms: i64,
    /// How often in a row a run's process may end before the run makes progress; after that it is ended as crashed.
    pub takeovers_max: u32,
    /// Interval at which signals of other processes, and runs that other processes drive, are read from the store.
    pub poll_ms: u64,
    /// A snapshot is written when the journal has grown by this many bytes since the last, and by four times its size.
    pub snapshot_bytes_min: usize,
    /// Notes are deleted after this time; 0 keeps none.
    pub notes_ms: i64,
    /// Threads that were not used for this time are deleted with their runs, unless one is unfinished; 0 keeps them.
    pub threads_ms: i64,
    /// The model that is recorded for runs which are started without one.
    pub default_model: Option<String>,
    /// A model that answers in place of those that runs were started with. For a user who resumes a run with another model.
    pub model_override: Option<String>,
    /// Called with the threads that were deleted because they were not used for `threads_ms`.
    pub on_expired: Option<OnExpired>,
    /// Called for every answer of a person that a run took, for the audit log.
    pub on_answer: Option<OnAnswer>,
    /// Performs effects outside of this process; by default this process performs them.
    pub remote: Option<Arc<dyn RemoteEffects>>,
    /// Submits runs to other processes: this one only writes their beginning, and messages to them.
    pub dispatcher: Option<Arc<dyn Dispatcher>>,
    /// What time it is; tests set their own.
    pub clock: Clock,
}

/// Called with the run, the question and the answer. It must not block.
pub type OnAnswer = Arc<dyn Fn(&Start, &Waiting, &Value) + Send + Sync>;

/// Called with the threads. It must not block.
pub type OnExpired = Arc<dyn Fn(Vec<ThreadId>) + Send + Sync>;

/// Milliseconds since 1970, for rows and leases. Runs themselves read no clock.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            runs_max: 1_024,
            queue_max: 4_096,
            owner: uuid::Uuid::now_v7().simple().to_string(),
            is_gone: Arc::new(never_exited),
            lease_ms: 15_000,
            sweep_ms: 15_000,
            takeovers_max: 10,
            poll_ms: 250,
            snapshot_bytes_min: 64 << 10,
            notes_ms: 30 * 86_400_000,
            threads_ms: 0,
            default_model: None,
            model_override: None,
            on_answer: None,
            on_expired: None,
            remote: None,
            dispatcher: None,
            clock: Arc::new(wall_ms),
        }
    }
}

/// A random name, for processes that cannot check one another.
fn never_exited(_owner: &str) -> bool {
    false
}

fn wall_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

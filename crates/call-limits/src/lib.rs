//! How many calls may be made to a provider with one key: at once, per minute, and none while the provider is down. Decided for all users
//! of all processes that share an implementation, with equal shares for users who wait.
//!
//! ```text
//!   process ── Report: running and waiting calls per user, how calls ended ──► CallLimits
//!           ◄── Decision: which waiting calls may begin, or that none may ────
//! ```
//!
//! A report has the whole state of its process (a member), so one that is lost, or whose decision is lost, is repaired by the next. A member
//! that stops reporting loses its calls after [`LEASE_MS`].
//!
//! ```text
//!             failures_max in a row             open_ms passed: one call may try
//!   closed ───────────────────────▶ open ───────────────────────────────▶ half-open
//!     ▲                              ▲                                      │    │
//!     │                              └────────────── failed ────────────────┘    │
//!     └───────────────────────────────── answered ───────────────────────────────┘
//! ```
//!
//! Whichever member reports, the free calls are given to the users of all members: first to the user with the fewest calls at work, then to the one
//! whose last call was given longest ago. What is given to another member waits there as an offer until that one reports.
//!
//! Deliberately absent: queues of calls, and when to report; that is `models`.

#![warn(missing_docs)]

mod local;

use std::collections::BTreeMap;

use async_trait::async_trait;

pub use local::LocalLimits;

/// After this time without a report, the calls of a member no longer count.
pub const LEASE_MS: u64 = 15_000;
/// When a member whose calls wait for those of other members should report again.
pub const POLL_MS: u64 = 100;

/// The limit of one provider with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The same for all who share it. It is stored, so it must not reveal the key.
    pub name: String,
    /// Calls at work at the same time.
    pub calls_max: u32,
    /// Calls begun within any 60 s.
    pub calls_per_minute_max: Option<u32>,
    /// Failures in a row after which no call is made for a while.
    pub failures_max: u32,
    /// How long no call is made then.
    pub open_ms: u64,
}

impl Limit {
    /// Calls that may begin at once after a pause, and how many more may begin in each millisecond after them. Chosen so that no window of
    /// 60 s has more than `calls_per_minute_max`.
    pub fn rate(&self) -> Option<(f64, f64)> {
        let per_minute = f64::from(self.calls_per_minute_max?.max(1));
        let burst = (per_minute / 10.0).floor().max(1.0);
        Some((burst, (per_minute - burst + 1.0) / 60_000.0))
    }

    /// After how many milliseconds a caller that was refused while one call probes the endpoint should try again.
    pub fn retry_ms(&self) -> u64 {
        (self.open_ms / 5).max(1)
    }

    /// How long the call that tries may take until another one may. The first may be gone with its process.
    pub fn probe_ms(&self) -> u64 {
        self.open_ms.saturating_mul(2)
    }
}

/// What one member does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The limit that it is about.
    pub limit: Limit,
    /// The reporting process. A new name means a new member.
    pub member: String,
    /// Users with calls; others have none.
    pub users: Vec<UserCalls>,
    /// How calls ended since the last report.
    pub ended: Ended,
}

/// The calls of one user in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserCalls {
    /// The user's name; empty for calls that belong to none.
    pub user: String,
    /// Calls at work.
    pub running: u32,
    /// Calls that wait for a decision.
    pub waiting: u32,
}

/// How calls ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Whether the provider answered any.
    pub has_answer: bool,
    /// Calls after the last answer that show that the provider is down.
    pub failures: u32,
}

impl Ended {
    /// One more call ended.
    pub fn add(&mut self, is_failure: bool) {
        match is_failure {
            true => self.failures = self.failures.saturating_add(1),
            false => *self = Ended { has_answer: true, failures: 0 },
        }
    }
}

/// What the reporting member may do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// How many of each user's waiting calls begin now.
    pub grants: BTreeMap<String, u32>,
    /// The one granted call tries whether the provider is up again.
    pub is_probe: bool,
    /// The provider is down: calls that wait and were not granted should be refused, and may come again after this time.
    pub open_for_ms: Option<u64>,
    /// When to report again although nothing changed in this process.
    pub again_ms: Option<u64>,
}

/// The implementation cannot be reached at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Decides about calls. The tests in `tests/promises.rs` hold for every implementation.
#[async_trait]
pub trait CallLimits: Send + Sync {
    /// Takes a report and decides. Reports of one member must not overlap.
    async fn exchange(&self, report: Report) -> Result<Decision, Unavailable>;
}

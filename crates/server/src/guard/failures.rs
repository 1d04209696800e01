//! Wrong tokens, counted by the network they come from. Only further wrong ones are slowed down: a valid token is never refused because of somebody else's
//! failures, as many people can share the address of one proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::listen::network;

/// Wrong tokens from one network before further ones are answered with 429, and for how long at first and at most.
pub(super) const FAILURES_MAX: u32 = 10;
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(300);
const NETWORKS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Failures(Mutex<HashMap<IpAddr, Failed>>);

struct Failed {
    count: u32,
    until: Instant,
}

impl Failures {
    /// Counts a failure. If there were too many, returns how long to wait. Each further one doubles the time; a network without failures for the longest
    /// time starts anew.
    pub(super) fn count(&self, from: IpAddr) -> Option<Duration> {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= NETWORKS_MAX {
            all.retain(|_, failed| failed.until + WAIT_MAX > now);
        }
        let failed = all.entry(network(from)).or_insert(Failed { count: 0, until: now });
        if failed.until + WAIT_MAX < now {
            failed.count = 0;
        }
        failed.count = failed.count.saturating_add(1);
        tracing::warn!(%from, count = failed.count, "a refused sign-in");
        if failed.count <= FAILURES_MAX {
            return None;
        }
        let doublings = (failed.count - FAILURES_MAX).min(16);
        failed.until = now + (WAIT_MIN * 2_u32.saturating_pow(doublings)).min(WAIT_MAX);
        Some(failed.until - now)
    }
}

//! The limits of one process, in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::{CallLimits, Decision, Ended, LEASE_MS, Limit, POLL_MS, Report, Unavailable};

/// Decides with a clock of the caller's, in milliseconds, that does not go back.
pub struct LocalLimits {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    states: Mutex<BTreeMap<String, State>>,
}

impl LocalLimits {
    /// No calls so far.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> LocalLimits {
        LocalLimits { clock: Box::new(clock), states: Mutex::default() }
    }

    /// Decides without waiting.
    pub fn decide(&self, report: &Report) -> Decision {
        let now_ms = (self.clock)();
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(report.limit.name.clone()).or_insert_with(|| State::new(now_ms));
        state.decide(report, now_ms)
    }
}

#[async_trait]
impl CallLimits for LocalLimits {
    async fn exchange(&self, report: Report) -> Result<Decision, Unavailable> {
        Ok(self.decide(&report))
    }
}

struct State {
    /// Calls that may begin now, as far as the rate is concerned.
    tokens: f64,
    refilled_ms: u64,
    breaker: Breaker,
    /// Counts what was given.
    turn: u64,
    /// By user and member.
    shares: BTreeMap<(String, String), Share>,
}

#[derive(Clone, Copy, Debug)]
enum Breaker {
    Closed {
        failures: u32,
    },
    Open {
        until_ms: u64,
    },
    /// One call tries; another one may after `until_ms`.
    HalfOpen {
        until_ms: u64,
    },
}

#[derive(Default)]
struct Share {
    running: u32,
    waiting: u32,
    /// Given to a member that does not know it yet.
    offered: u32,
    /// When something was last given.
    turn: u64,
    until_ms: u64,
}

impl Share {
    fn busy(&self) -> u32 {
        self.running + self.offered
    }
}

impl State {
    fn new(now_ms: u64) -> State {
        State { tokens: 1.0, refilled_ms: now_ms, breaker: Breaker::Closed { failures: 0 }, turn: 0, shares: BTreeMap::new() }
    }

    fn decide(&mut self, report: &Report, now_ms: u64) -> Decision {
        let limit = &report.limit;
        self.shares.retain(|_, share| share.until_ms > now_ms);
        if let Some((burst, per_ms)) = limit.rate() {
            self.tokens = (self.tokens + now_ms.saturating_sub(self.refilled_ms) as f64 * per_ms).min(burst);
        }
        self.refilled_ms = now_ms;
        self.breaker = self.breaker.after(report.ended, limit, now_ms);
        let is_closed = matches!(self.breaker, Breaker::Closed { .. });
        let mut grants = self.take(report, is_closed, now_ms);
        match self.breaker {
            Breaker::Closed { .. } => {
                self.share_out(report, &mut grants);
                let waits = self.shares.iter().any(|((_, member), share)| *member == report.member && share.waiting > 0);
                let again_ms = if waits { self.again_ms(report) } else { None };
                Decision { grants, again_ms, ..Decision::default() }
            }
            Breaker::Open { until_ms } | Breaker::HalfOpen { until_ms } if until_ms > now_ms => {
                let is_open = matches!(self.breaker, Breaker::Open { .. });
                self.refuse(&report.member);
                Decision { open_for_ms: Some(if is_open { until_ms - now_ms } else { limit.retry_ms() }), ..Decision::default() }
            }
            Breaker::Open { .. } | Breaker::HalfOpen { .. } => self.probe(report, now_ms),
        }
    }

    /// Takes over what the member reports, with what it was offered since the last time.
    fn take(&mut self, report: &Report, takes_offers: bool, now_ms: u64) -> BTreeMap<String, u32> {
        let mut grants = BTreeMap::new();
        let mut known: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for calls in &report.users {
            let all = known.entry(&calls.user).or_default();
            *all = (all.0 + calls.running, all.1 + calls.waiting);
        }
        for ((user, member), share) in &mut self.shares {
            if *member == report.member && !known.contains_key(user.as_str()) {
                // Kept without calls, so that its turn is known.
                (share.running, share.waiting, share.offered) = (0, 0, 0);
            }
        }
        for (user, (running, waiting)) in known {
            let share = self.shares.entry((user.to_owned(), report.member.clone())).or_default();
            let given = if takes_offers { share.offered.min(waiting) } else { 0 };
            (share.running, share.waiting, share.offered, share.until_ms) = (running + given, waiting - given, 0, now_ms + LEASE_MS);
            if given > 0 {
                grants.insert(user.to_owned(), given);
            }
        }
        grants
    }

    fn share_out(&mut self, report: &Report, grants: &mut BTreeMap<String, u32>) {
        let has_rate = report.limit.calls_per_minute_max.is_some();
        let busy: u32 = self.shares.values().map(Share::busy).sum();
        let mut free = report.limit.calls_max.saturating_sub(busy);
        while free > 0 && (!has_rate || self.tokens >= 1.0) {
            let mut users: BTreeMap<&str, (u32, u64)> = BTreeMap::new();
            for ((user, _), share) in &self.shares {
                let all = users.entry(user).or_default();
                *all = (all.0 + share.busy(), all.1.max(share.turn));
            }
            let waiting = self.shares.iter().filter(|(_, share)| share.waiting > 0);
            let best =
                waiting.min_by_key(|((user, _), share)| (users.get(user.as_str()).copied(), share.busy(), share.turn)).map(|(at, _)| at.clone());
            let Some(at) = best else { return };
            self.turn += 1;
            let Some(share) = self.shares.get_mut(&at) else { return };
            share.waiting -= 1;
            share.turn = self.turn;
            if at.1 == report.member {
                share.running += 1;
                *grants.entry(at.0).or_default() += 1;
            } else {
                share.offered += 1;
            }
            free -= 1;
            self.tokens -= if has_rate { 1.0 } else { 0.0 };
        }
    }

    /// One call of the reporting member tries whether the provider is up.
    fn probe(&mut self, report: &Report, now_ms: u64) -> Decision {
        let limit = &report.limit;
        let own = self.shares.iter().filter(|((_, member), share)| *member == report.member && share.waiting > 0);
        let Some(at) = own.min_by_key(|(_, share)| (share.busy(), share.turn)).map(|(at, _)| at.clone()) else { return Decision::default() };
        if limit.calls_per_minute_max.is_some() {
            if self.tokens < 1.0 {
                return Decision { again_ms: self.again_ms(report), ..Decision::default() };
            }
            self.tokens -= 1.0;
        }
        self.turn += 1;
        if let Some(share) = self.shares.get_mut(&at) {
            (share.running, share.turn) = (share.running + 1, self.turn);
        }
        self.refuse(&report.member);
        self.breaker = Breaker::HalfOpen { until_ms: now_ms + limit.probe_ms() };
        Decision { grants: BTreeMap::from([(at.0, 1)]), is_probe: true, open_for_ms: Some(limit.retry_ms()), again_ms: None }
    }

    fn refuse(&mut self, member: &str) {
        self.shares.iter_mut().filter(|((_, of), _)| of == member).for_each(|(_, share)| share.waiting = 0);
    }

    fn again_ms(&self, report: &Report) -> Option<u64> {
        match report.limit.rate() {
            Some((_, per_ms)) if self.tokens < 1.0 => Some((((1.0 - self.tokens) / per_ms).ceil() as u64).max(1)),
            // Calls of this member end with a report; those of others do not.
            _ => self.shares.keys().any(|(_, member)| *member != report.member).then_some(POLL_MS),
        }
    }
}

impl Breaker {
    fn after(self, ended: Ended, limit: &Limit, now_ms: u64) -> Breaker {
        let known = if ended.has_answer { Breaker::Closed { failures: 0 } } else { self };
        let open = Breaker::Open { until_ms: now_ms + limit.open_ms };
        match (known, ended.failures) {
            (_, 0) => known,
            (Breaker::Closed { failures }, more) if failures.saturating_add(more) < limit.failures_max => {
                Breaker::Closed { failures: failures + more }
            }
            (Breaker::Closed { .. } | Breaker::HalfOpen { .. }, _) => open,
            // Calls that were at work when it opened do not keep it open longer.
            (Breaker::Open { until_ms }, _) if until_ms > now_ms => known,
            (Breaker::Open { .. }, _) => open,
        }
    }
}

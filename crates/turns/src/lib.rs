//! Who may do the next piece of work that takes a processor or a disk for a while: parsing a document, rendering an answer, reading a list.
//!
//! ```text
//!   take(owner) ── queue of the owner ──► a turn, when one is free: first to the owner with the fewest turns, then to the one who used least lately
//!                        └─ full: refused
//! ```
//!
//! Each owner has a few turns at once. Owners who used much time lately are heavy: all of them together have only some of the turns, so that
//! one is free or soon free for everybody else, whatever the heavy ones ask for.
//!
//! Deliberately absent: a runtime (waiting is a future that any runtime polls, or blocks a thread), and the work itself.

#![warn(missing_docs)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Whose work it is; `None` for work without an owner, which counts as one more owner.
pub type Owner = Option<String>;

/// Owners that are remembered.
const OWNERS_MAX: usize = 10_000;

/// How turns are shared.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Turns at once.
    pub at_once_max: usize,
    /// Turns at once of one owner.
    pub of_owner_max: usize,
    /// Turns at once of all heavy owners together.
    pub of_heavy_max: usize,
    /// An owner who used more than this lately is heavy.
    pub light_max: Duration,
    /// After this time, half of what an owner used is forgotten.
    pub half_life: Duration,
    /// Requests of one owner that may wait.
    pub waiting_max: usize,
    /// Whether an owner may have all turns as long as nobody else had or wanted one within `half_life`.
    pub all_for_one: bool,
}

impl TurnLimits {
    /// So many turns at once, one of each owner; the last one is not for heavy owners.
    pub fn one_each(at_once_max: usize) -> TurnLimits {
        let at_once_max = at_once_max.max(1);
        TurnLimits {
            at_once_max,
            of_owner_max: 1,
            of_heavy_max: (at_once_max - 1).max(1),
            light_max: Duration::from_secs(10),
            half_life: Duration::from_secs(300),
            waiting_max: 64,
            all_for_one: false,
        }
    }
}

/// As many requests of this owner wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Turns, handed out to owners.
pub struct Turns {
    limits: TurnLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    heavy_running: usize,
    owners: HashMap<Owner, Use>,
    /// The tickets of each owner who waits, in the order of arrival.
    queues: BTreeMap<Owner, VecDeque<u64>>,
    tickets: HashMap<u64, Ticket>,
    next_ticket: u64,
    /// The last two owners who asked, the newest first, and when.
    recent: [Option<(Owner, Instant)>; 2],
}

enum Ticket {
    Waiting(Option<Waker>),
    Granted { is_heavy: bool },
}

/// What an owner has and had.
struct Use {
    running: usize,
    /// As of `at`.
    used: Duration,
    at: Instant,
}

impl Use {
    fn lately(&self, now: Instant, half_life: Duration) -> Duration {
        let since = now.saturating_duration_since(self.at);
        if since.is_zero() {
            return self.used;
        }
        let running = since * u32::try_from(self.running).unwrap_or(u32::MAX);
        self.used.mul_f64(0.5_f64.powf(since.as_secs_f64() / half_life.as_secs_f64())) + running
    }
}

/// The right to work, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
    owner: Owner,
    is_heavy: bool,
}

impl Turn {
    /// Whether its owner used much lately, so that the work should give way to that of others.
    pub fn is_heavy(&self) -> bool {
        self.is_heavy
    }
}

/// A request that waits for its turn. Dropping it takes it out of the queue.
pub struct Waiting {
    turns: Arc<Turns>,
    owner: Owner,
    /// `None` when it is over, and before the first poll of one that is refused.
    ticket: Option<u64>,
}

impl Turns {
    /// Nobody works so far.
    pub fn new(limits: TurnLimits) -> Arc<Turns> {
        Arc::new(Turns { limits, state: Mutex::default() })
    }

    /// A turn for this owner, if one is free for them now.
    pub fn try_take(self: &Arc<Self>, owner: &Owner) -> Option<Turn> {
        let mut state = self.lock();
        state.asked(owner);
        let is_heavy = self.may_begin(&state, owner, Instant::now())?;
        state.begin(owner, is_heavy, self.limits.half_life);
        Some(Turn { turns: self.clone(), owner: owner.clone(), is_heavy })
    }

    /// Waits for a turn.
    pub fn take(self: &Arc<Self>, owner: Owner) -> Waiting {
        let mut state = self.lock();
        state.asked(&owner);
        let waiting = state.queues.get(&owner).map_or(0, VecDeque::len);
        let ticket = (waiting < self.limits.waiting_max).then(|| {
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.queues.entry(owner.clone()).or_default().push_back(ticket);
            state.tickets.insert(ticket, Ticket::Waiting(None));
            ticket
        });
        self.grant(state);
        Waiting { turns: self.clone(), owner, ticket }
    }

    /// The same on a thread that may block; `None` when that takes too long, or too many wait.
    pub fn take_blocking(self: &Arc<Self>, owner: Owner, wait_max: Duration) -> Option<Turn> {
        let deadline = Instant::now() + wait_max;
        let mut waiting = pin!(self.take(owner));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Poll::Ready(turn) = waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
                return turn.ok();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    /// What this owner used lately.
    pub fn used(&self, owner: &Owner) -> Duration {
        self.lock().owners.get(owner).map(|of| of.lately(Instant::now(), self.limits.half_life)).unwrap_or_default()
    }

    /// Whether a turn is free for this owner, and then whether the owner is heavy.
    fn may_begin(&self, state: &State, owner: &Owner, now: Instant) -> Option<bool> {
        let TurnLimits { at_once_max, of_owner_max, of_heavy_max, light_max, half_life, all_for_one, .. } = self.limits;
        if state.running >= at_once_max {
            return None;
        }
        let of = state.owners.get(owner);
        let is_heavy = of.is_some_and(|of| of.lately(now, half_life) > light_max);
        if all_for_one && state.is_alone(owner, now, half_life) {
            return Some(is_heavy);
        }
        let may = of.is_none_or(|of| of.running < of_owner_max) && !(is_heavy && state.heavy_running >= of_heavy_max);
        may.then_some(is_heavy)
    }

    /// Gives the free turns to those who wait.
    fn grant(&self, mut state: MutexGuard<'_, State>) {
        let mut wakers = Vec::new();
        while state.running < self.limits.at_once_max && !state.queues.is_empty() {
            let now = Instant::now();
            let best = state.queues.iter().filter_map(|(owner, tickets)| {
                let is_heavy = self.may_begin(&state, owner, now)?;
                let (running, used) = state.owners.get(owner).map_or((0, Duration::ZERO), |of| (of.running, of.lately(now, self.limits.half_life)));
                Some(((running, used, *tickets.front()?), owner, is_heavy))
            });
            let Some(((_, _, ticket), owner, is_heavy)) = best.min_by_key(|(key, _, _)| *key) else { break };
            let owner = owner.clone();
            state.leave(&owner, ticket);
            state.begin(&owner, is_heavy, self.limits.half_life);
            if let Some(Ticket::Waiting(Some(waker))) = state.tickets.insert(ticket, Ticket::Granted { is_heavy }) {
                wakers.push(waker);
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn end(&self, owner: &Owner, is_heavy: bool) {
        let mut state = self.lock();
        state.running -= 1;
        state.heavy_running -= usize::from(is_heavy);
        if let Some(of) = state.owners.get_mut(owner) {
            let now = Instant::now();
            (of.used, of.at) = (of.lately(now, self.limits.half_life), now);
            of.running -= 1;
        }
        if state.owners.len() > OWNERS_MAX {
            let (now, limits) = (Instant::now(), self.limits);
            state.owners.retain(|_, of| of.running > 0 || of.lately(now, limits.half_life) > limits.light_max);
        }
        self.grant(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn asked(&mut self, owner: &Owner) {
        let now = Instant::now();
        match &mut self.recent {
            [Some((newest, at)), _] if newest == owner => *at = now,
            recent => {
                recent.swap(0, 1);
                recent[0] = Some((owner.clone(), now));
            }
        }
    }

    /// Whether nobody else asked within this time.
    fn is_alone(&self, owner: &Owner, now: Instant, within: Duration) -> bool {
        self.recent.iter().flatten().all(|(other, at)| other == owner || now.saturating_duration_since(*at) > within)
    }

    fn begin(&mut self, owner: &Owner, is_heavy: bool, half_life: Duration) {
        let now = Instant::now();
        let of = self.owners.entry(owner.clone()).or_insert(Use { running: 0, used: Duration::ZERO, at: now });
        (of.used, of.at) = (of.lately(now, half_life), now);
        of.running += 1;
        self.running += 1;
        self.heavy_running += usize::from(is_heavy);
    }

    /// Takes a ticket out of the queue of its owner.
    fn leave(&mut self, owner: &Owner, ticket: u64) {
        if let Some(queue) = self.queues.get_mut(owner) {
            queue.retain(|queued| *queued != ticket);
            if queue.is_empty() {
                self.queues.remove(owner);
            }
        }
    }
}

impl Future for Waiting {
    type Output = Result<Turn, Full>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(ticket) = self.ticket else { return Poll::Ready(Err(Full)) };
        let mut state = self.turns.lock();
        match state.tickets.get_mut(&ticket) {
            Some(Ticket::Waiting(waker)) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(Ticket::Granted { is_heavy }) => {
                let is_heavy = *is_heavy;
                state.tickets.remove(&ticket);
                drop(state);
                self.ticket = None;
                let (turns, owner) = (self.turns.clone(), self.owner.clone());
                Poll::Ready(Ok(Turn { turns, owner, is_heavy }))
            }
            None => Poll::Ready(Err(Full)),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.turns.lock();
        state.leave(&self.owner, ticket);
        if let Some(Ticket::Granted { is_heavy }) = state.tickets.remove(&ticket) {
            drop(state);
            self.turns.end(&self.owner, is_heavy);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.end(&self.owner, self.is_heavy);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How much [`give_way`] adds: threads with the normal priority then have about nine tenths of a processor that both want.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lowers the priority of the calling thread, and of the threads and processes that it starts. It cannot be raised again, so the thread should end with its work.
pub fn give_way() {
    // Relative to the priority of the process: one that was started with a low priority must not be overtaken by its own background work.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "background work has the normal priority");
    }
}

#[cfg(test)]
mod tests;

//! Limits the calls to an endpoint: so many at once and per minute, and none while it is known to be down.
//!
//! ```text
//!   call ── queue of its user ── pump ── Report ──► CallLimits: of all servers, or of this process while those cannot be reached
//!             ▲                    └──── Decision ◄──┘
//!             └── a permit, or a refusal while the breaker is open
//! ```
//!
//! The pump is a task that exists while calls wait or run. It reports when something changes, so a call that need not wait costs one report
//! before it begins; the report of its end waits for nobody. What a breaker and equal shares are is in `call_limits`.
//!
//! Only what shows that the endpoint is down counts as failed: no connection, a 5xx, a call that hung until it was dropped.
//! A refusal (a bad key, too many requests) is an answer of an endpoint that is up.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use call_limits::{CallLimits, Decision, Ended, LEASE_MS, Limit, LocalLimits, Report, UserCalls};
use graph::FailureKind;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{ModelError, Remedy};

pub(crate) const FAILURES_MAX: u32 = 5;
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(15);
/// A call dropped after so long without an answer counts as a failure of the endpoint, not as a cancellation.
const HUNG_AFTER: Duration = Duration::from_secs(10);
/// Calls that may wait at one endpoint in this process. Further ones are refused.
const WAITING_MAX: usize = 10_000;
/// Users in one report; the calls of others wait until theirs have ended.
const USERS_MAX: usize = 256;
/// Calls at once, whatever the configuration has: the sum of two servers' must fit, too.
const CALLS_MAX: usize = 10_000;
/// How long to wait for a decision of the shared limits; after that this process decides alone.
const SHARED_WAIT_MAX: Duration = Duration::from_secs(2);
/// And for so long, before the shared ones are asked again.
const ALONE_FOR: Duration = Duration::from_secs(5);
/// How often calls at work are reported, so that they go on counting.
const REPORT_EVERY: Duration = Duration::from_millis(LEASE_MS / 3);

/// One endpoint's.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Inner>);

struct Inner {
    /// The endpoint, for messages.
    name: String,
    limit: Limit,
    local: LocalLimits,
    /// The limits of all servers, where there are any.
    shared: OnceLock<Arc<dyn CallLimits>>,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    /// By user, in the order of arrival.
    waiting: BTreeMap<String, VecDeque<oneshot::Sender<Result<Permit, ModelError>>>>,
    waiting_count: usize,
    running: BTreeMap<String, u32>,
    ended: Ended,
    has_pump: bool,
    /// The name of this process for the shared limits.
    member: String,
    /// While this is set, the shared limits did not answer the last time; they are not asked before then.
    alone_until: Option<Instant>,
}

impl Guard {
    /// `identity` is the same wherever the same key is used for the same provider.
    pub(crate) fn new(name: &str, identity: &str, calls_max: usize, calls_per_minute_max: Option<u32>) -> Self {
        let limit = Limit {
            name: identity.to_owned(),
            calls_max: u32::try_from(calls_max.clamp(1, CALLS_MAX)).unwrap_or(1),
            calls_per_minute_max: calls_per_minute_max.map(|max| max.max(1)),
            failures_max: FAILURES_MAX,
            open_ms: OPEN_FOR.as_millis() as u64,
        };
        let start = Instant::now();
        let local = LocalLimits::new(move || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let queue = Mutex::new(Queue { member: new_member(), ..Queue::default() });
        let (shared, changed) = (OnceLock::new(), Notify::new());
        Guard(Arc::new(Inner { name: name.to_owned(), limit, local, shared, queue, changed }))
    }

    /// From now on, calls count together with those of all servers on these limits. The first limits stay.
    pub(crate) fn share(&self, limits: Arc<dyn CallLimits>) {
        // Set before: the engine of the same process shares the same store.
        let _ = self.0.shared.set(limits);
    }

    pub(crate) async fn through<T>(&self, user: &str, call: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
        let permit = self.enter(user).await?;
        let result = call.await;
        permit.settle(result.as_ref().err().is_some_and(is_down));
        result
    }

    async fn enter(&self, user: &str) -> Result<Permit, ModelError> {
        let (sender, decided) = oneshot::channel();
        {
            let mut queue = self.0.lock();
            if queue.waiting_count >= WAITING_MAX {
                return Err(ModelError::again(FailureKind::Network, format!("{WAITING_MAX} calls already wait for {}", self.0.name)));
            }
            queue.waiting.entry(user.to_owned()).or_default().push_back(sender);
            queue.waiting_count += 1;
            if !std::mem::replace(&mut queue.has_pump, true) {
                tokio::spawn(pump(PumpGuard { inner: self.0.clone(), is_done: false }));
            }
        }
        self.0.changed.notify_one();
        let mut waiting = Waiting { inner: &self.0, is_decided: false };
        let decision = decided.await;
        waiting.is_decided = true;
        decision.unwrap_or_else(|_| Err(ModelError::again(FailureKind::Internal, "the endpoint's queue is closed")))
    }
}

/// Has a call that is dropped while it waits taken out of the queue.
struct Waiting<'a> {
    inner: &'a Inner,
    is_decided: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_decided {
            self.inner.changed.notify_one();
        }
    }
}

fn is_down(trouble: &ModelError) -> bool {
    matches!(trouble.remedy, Remedy::Again { .. }) && matches!(trouble.kind, FailureKind::Network | FailureKind::Timeout)
}

/// The right to make one call. Also notices a call that is dropped, as the engine does when the deadline passes.
struct Permit {
    inner: Arc<Inner>,
    user: String,
    began: Instant,
    is_probe: bool,
    is_settled: bool,
}

impl Permit {
    fn settle(mut self, is_failure: bool) {
        self.is_settled = true;
        self.inner.lock().ended.add(is_failure);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut queue = self.inner.lock();
        // The one that was let in to try has shown nothing; another must be able to.
        if !self.is_settled && (self.is_probe || self.began.elapsed() >= HUNG_AFTER) {
            queue.ended.add(true);
        }
        if let Some(running) = queue.running.get_mut(&self.user) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                queue.running.remove(&self.user);
            }
        }
        drop(queue);
        self.inner.changed.notify_one();
    }
}

/// Cleans up after a pump that is dropped with its runtime.
struct PumpGuard {
    inner: Arc<Inner>,
    is_done: bool,
}

impl Drop for PumpGuard {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut queue = self.inner.lock();
        queue.has_pump = false;
        queue.waiting_count = 0;
        // Nobody would decide about these: their callers get an error.
        queue.waiting.clear();
    }
}

async fn pump(mut guard: PumpGuard) {
    let inner = guard.inner.clone();
    let mut has_reported_calls = false;
    loop {
        let users = {
            let mut queue = inner.lock();
            let users = queue.users();
            if users.is_empty() && !has_reported_calls && queue.ended == Ended::default() {
                // Under the lock, so that a call that comes next starts another pump.
                queue.has_pump = false;
                guard.is_done = true;
                return;
            }
            users
        };
        has_reported_calls = !users.is_empty();
        let ended = std::mem::take(&mut inner.lock().ended);
        let decision = exchange(&inner, users, ended).await;
        let again = decision.again_ms.map_or(REPORT_EVERY, |ms| Duration::from_millis(ms).min(REPORT_EVERY));
        apply(&inner, decision);
        if has_reported_calls {
            // Either is a reason to report.
            let _ = tokio::time::timeout(again, inner.changed.notified()).await;
        }
    }
}

/// Lets calls begin, or refuses them.
fn apply(inner: &Arc<Inner>, decision: Decision) {
    let (mut granted, mut refused) = (Vec::new(), Vec::new());
    {
        let mut queue = inner.lock();
        for (user, count) in decision.grants {
            for _ in 0..count {
                let Some(sender) = queue.next_of(&user) else { break };
                *queue.running.entry(user.clone()).or_default() += 1;
                granted.push((user.clone(), sender));
            }
        }
        if decision.open_for_ms.is_some() {
            refused = std::mem::take(&mut queue.waiting).into_values().flatten().collect();
            queue.waiting_count = 0;
        }
    }
    // Without the lock: a permit that nobody receives is dropped, which takes it.
    for (user, sender) in granted {
        let permit = Permit { inner: inner.clone(), user, began: Instant::now(), is_probe: decision.is_probe, is_settled: false };
        let _ = sender.send(Ok(permit));
    }
    let after_ms = decision.open_for_ms.unwrap_or_default().max(1);
    for sender in refused {
        let message = format!("{} failed {FAILURES_MAX} times in a row; it is tried again in {} s", inner.name, after_ms.div_ceil(1_000));
        let error = ModelError { remedy: Remedy::Again { after_ms: Some(after_ms) }, kind: FailureKind::Network, message };
        let _ = sender.send(Err(error));
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The calls of every user, without those that were dropped while they waited.
    fn users(&mut self) -> Vec<UserCalls> {
        self.waiting.retain(|_, calls| {
            calls.retain(|sender| !sender.is_closed());
            !calls.is_empty()
        });
        self.waiting_count = self.waiting.values().map(VecDeque::len).sum();
        let mut users: BTreeMap<&str, UserCalls> = BTreeMap::new();
        for (user, running) in &self.running {
            users.insert(user, UserCalls { user: user.clone(), running: *running, waiting: 0 });
        }
        for (user, calls) in &self.waiting {
            // Those with calls at work are always reported.
            if users.len() >= USERS_MAX && !users.contains_key(user.as_str()) {
                continue;
            }
            let all = users.entry(user).or_insert_with(|| UserCalls { user: user.clone(), ..UserCalls::default() });
            all.waiting = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        }
        users.into_values().collect()
    }

    fn next_of(&mut self, user: &str) -> Option<oneshot::Sender<Result<Permit, ModelError>>> {
        let calls = self.waiting.get_mut(user)?;
        while let Some(sender) = calls.pop_front() {
            self.waiting_count = self.waiting_count.saturating_sub(1);
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }
}

/// Asks the shared limits, or those of this process while the shared ones cannot be reached.
async fn exchange(inner: &Inner, users: Vec<UserCalls>, ended: Ended) -> Decision {
    let (member, alone_until) = {
        let queue = inner.lock();
        (queue.member.clone(), queue.alone_until)
    };
    let mut report = Report { limit: inner.limit.clone(), member, users, ended };
    let is_alone = alone_until.is_some_and(|until| until > Instant::now());
    if let Some(shared) = inner.shared.get().filter(|_| !is_alone) {
        let why = match tokio::time::timeout(SHARED_WAIT_MAX, shared.exchange(report.clone())).await {
            Ok(Ok(decision)) => {
                if inner.lock().alone_until.take().is_some() {
                    tracing::info!(endpoint = inner.name, "calls are counted together with those of other servers again");
                }
                return decision;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no decision within {} s", SHARED_WAIT_MAX.as_secs()),
        };
        if alone_until.is_none() {
            tracing::warn!(endpoint = inner.name, "calls are counted by this server alone until the database answers: {why}");
        }
        // A report that still arrives must not be taken for a newer one; what it reported ends with its lease.
        report.member = new_member();
        let mut queue = inner.lock();
        queue.alone_until = Some(Instant::now() + ALONE_FOR);
        queue.member.clone_from(&report.member);
    }
    let mut decision = inner.local.decide(&report);
    if let Some(until) = inner.lock().alone_until {
        let shared_ms = u64::try_from(until.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX).max(1);
        decision.again_ms = Some(decision.again_ms.map_or(shared_ms, |ms| ms.min(shared_ms)));
    }
    decision
}

/// A name that no other process has.
fn new_member() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:08x}{:016x}{:016x}", std::process::id(), random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn guard(calls_max: usize, calls_per_minute_max: Option<u32>) -> Guard {
        Guard::new("there", "identity", calls_max, calls_per_minute_max)
    }

    fn down() -> ModelError {
        ModelError::again(FailureKind::Network, "down")
    }

    async fn fail(guard: &Guard, trouble: ModelError) -> ModelError {
        guard.through("ada", async { Err::<(), _>(trouble) }).await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_lets_one_try_later() {
        let guard = guard(4, None);
        for _ in 0..FAILURES_MAX {
            assert_eq!(fail(&guard, down()).await, down());
        }
        let refused = guard.through("ada", async { Ok(1) }).await.unwrap_err();
        assert!(matches!(refused.remedy, Remedy::Again { after_ms: Some(ms) } if ms > 0), "{refused:?}");
        assert!(refused.message.contains("there"));
        tokio::time::sleep(OPEN_FOR).await;
        assert_eq!(fail(&guard, down()).await, down());
        assert!(guard.through("ada", async { Ok(1) }).await.is_err(), "a failed try opens it again");
        tokio::time::sleep(OPEN_FOR).await;
        assert_eq!(guard.through("ada", async { Ok(1) }).await, Ok(1));
        assert_eq!(fail(&guard, down()).await, down());
        assert_eq!(guard.through("ada", async { Ok(2) }).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_do_not_open_it() {
        let guard = guard(4, None);
        for _ in 0..20 {
            fail(&guard, ModelError::user("no key")).await;
            fail(&guard, ModelError::again(FailureKind::Refused, "429")).await;
        }
        assert_eq!(guard.through("ada", async { Ok(1) }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_until_they_are_dropped_count() {
        let guard = guard(4, None);
        for _ in 0..FAILURES_MAX {
            let hang = guard.through("ada", std::future::pending::<Result<(), ModelError>>());
            assert!(tokio::time::timeout(HUNG_AFTER * 2, hang).await.is_err());
        }
        assert!(guard.through("ada", async { Ok(1) }).await.is_err());
        tokio::time::sleep(OPEN_FOR).await;
        let hang = guard.through("ada", std::future::pending::<Result<(), ModelError>>());
        assert!(tokio::time::timeout(Duration::from_millis(1), hang).await.is_err());
        tokio::time::sleep(OPEN_FOR).await;
        assert_eq!(guard.through("ada", async { Ok(1) }).await, Ok(1), "a dropped try does not keep it half-open for ever");
    }

    /// The highest number of calls in flight at the same time, of `count` calls that are made through the guards in turn.
    async fn most_at_once(guards: &[Guard], count: usize) -> usize {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut calls = Vec::new();
        for guard in guards.iter().cycle().take(count) {
            let (guard, now, most) = (guard.clone(), now.clone(), most.clone());
            calls.push(tokio::spawn(async move {
                let call = async {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                guard.through("ada", call).await
            }));
        }
        for call in calls {
            call.await.unwrap().unwrap();
        }
        most.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_calls_max_at_once() {
        assert_eq!(most_at_once(&[guard(3, None)], 20).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_begin_in_a_minute() {
        let guard = guard(100, Some(30));
        let began = Instant::now();
        let mut calls = Vec::new();
        for _ in 0..90 {
            let guard = guard.clone();
            calls.push(tokio::spawn(async move { guard.through("ada", async { Ok(Instant::now()) }).await.unwrap() }));
        }
        let mut times = Vec::new();
        for call in calls {
            times.push((call.await.unwrap() - began).as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        for (n, from) in times.iter().enumerate() {
            let within = times[n..].iter().filter(|at| **at < from + 60.0).count();
            assert!(within <= 30, "{within} calls in the minute from {from} s on");
        }
        assert!((150.0..210.0).contains(times.last().unwrap()), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn users_who_wait_get_equal_shares() {
        let guard = guard(2, None);
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut calls = Vec::new();
        for (user, count) in [("ada", 40), ("bob", 4)] {
            for _ in 0..count {
                let (guard, ended) = (guard.clone(), ended.clone());
                calls.push(tokio::spawn(async move {
                    let call = async {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        ended.lock().unwrap().push(user);
                        Ok(())
                    };
                    guard.through(user, call).await
                }));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for call in calls {
            call.await.unwrap().unwrap();
        }
        let last = ended.lock().unwrap().iter().rposition(|user| *user == "bob").unwrap();
        assert!(last < 12, "the last of bob's 4 calls was number {last}, after more than as many of ada's");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_are_dropped_while_they_wait_leave_the_queue() {
        let guard = guard(1, None);
        let busy = guard.clone();
        let busy = tokio::spawn(async move {
            busy.through("ada", async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok(())
            })
            .await
        });
        for _ in 0..10 {
            let waits = guard.through("bob", async { Ok(()) });
            assert!(tokio::time::timeout(Duration::from_millis(1), waits).await.is_err());
        }
        busy.await.unwrap().unwrap();
        assert_eq!(guard.through("ada", async { Ok(1) }).await, Ok(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let queue = guard.0.lock();
        assert!(queue.waiting.is_empty() && queue.running.is_empty() && queue.waiting_count == 0 && !queue.has_pump);
    }

    /// Shared limits that can be cut off.
    struct Cut {
        limits: LocalLimits,
        fault: Arc<Mutex<Option<Fault>>>,
        asked: AtomicUsize,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        Error,
        Silence,
    }

    #[async_trait::async_trait]
    impl CallLimits for Cut {
        async fn exchange(&self, report: Report) -> Result<Decision, call_limits::Unavailable> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let fault = *self.fault.lock().unwrap();
            match fault {
                None => Ok(self.limits.decide(&report)),
                Some(Fault::Error) => Err(call_limits::Unavailable("cut off".to_owned())),
                Some(Fault::Silence) => std::future::pending().await,
            }
        }
    }

    fn cut() -> (Arc<Cut>, Arc<Mutex<Option<Fault>>>) {
        let (start, fault) = (Instant::now(), Arc::new(Mutex::new(None)));
        let limits = LocalLimits::new(move || start.elapsed().as_millis() as u64);
        (Arc::new(Cut { limits, fault: fault.clone(), asked: AtomicUsize::new(0) }), fault)
    }

    #[tokio::test(start_paused = true)]
    async fn guards_of_two_servers_share_their_limits() {
        let (shared, _) = cut();
        let (left, right) = (guard(3, None), guard(3, None));
        left.share(shared.clone());
        right.share(shared);
        assert_eq!(most_at_once(&[left.clone(), right.clone()], 30).await, 3);
        for _ in 0..FAILURES_MAX {
            fail(&left, down()).await;
        }
        // The report of the last failure is on its way.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let refused = right.through("ada", async { Ok(1) }).await.unwrap_err();
        assert!(refused.message.contains("failed 5 times"), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_shared_limits_the_own_ones_decide() {
        for fault in [Fault::Error, Fault::Silence] {
            let (shared, state) = cut();
            let guard = guard(2, None);
            guard.share(shared.clone());
            assert_eq!(guard.through("ada", async { Ok(1) }).await, Ok(1));
            *state.lock().unwrap() = Some(fault);
            let began = Instant::now();
            for n in 0..4 {
                assert_eq!(guard.through("ada", async { Ok(n) }).await, Ok(n));
            }
            assert!(began.elapsed() <= SHARED_WAIT_MAX, "{:?}", began.elapsed());
            *state.lock().unwrap() = None;
            let asked = shared.asked.load(Ordering::SeqCst);
            let slow = guard.through("ada", async {
                tokio::time::sleep(ALONE_FOR * 2).await;
                Ok(())
            });
            slow.await.unwrap();
            assert!(shared.asked.load(Ordering::SeqCst) > asked, "the shared limits are asked again");
        }
    }
}

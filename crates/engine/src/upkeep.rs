//! Background work of an engine: renews leases, delivers messages from other processes, resumes runs that no process drives.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use graph::RunId;
use store::{Change, Retention, RunFilter, RunRow, SignalKind, Status, StoreError};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::store_changes::StoreChanges;
use crate::{Control, Engine, EngineError, Inner, Result};

/// Runs read at once.
const PAGE_RUNS: usize = 256;
/// How often expired threads are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(3_600);
const SWEEP_ALL_MIN: Duration = Duration::from_secs(15);

pub(crate) fn spawn(engine: &Arc<Inner>) {
    let renew_every = Duration::from_millis((engine.settings.lease_ms.max(3) / 3) as u64);
    let poll = Duration::from_millis(engine.settings.poll_ms.max(1));
    tokio::spawn(renew(Arc::downgrade(engine), renew_every));
    if let Some(changes) = engine.store.changes() {
        tokio::spawn(note_watched(Arc::downgrade(engine), changes));
    }
    let (abandoned, lease) = (Duration::from_millis(engine.settings.sweep_ms.max(1) as u64), 3 * renew_every);
    // If abandoned runs are searched often, all unfinished runs are not: there may be many, and most are driven by another process or wait for a person.
    let all = if abandoned < lease { lease.max(SWEEP_ALL_MIN) } else { lease };
    let sweeps = Sweeps { abandoned, all };
    tokio::spawn(run_upkeep(Arc::downgrade(engine), poll, sweeps));
    if engine.settings.threads_ms > 0 {
        tokio::spawn(expire_threads(Arc::downgrade(engine)));
    }
}

/// Notes which runs of this process are watched in others. Ends when the engine is dropped or the store closed.
async fn note_watched(engine: Weak<Inner>, mut changes: Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(Change::Watched(run)) => {
                let Some(engine) = engine.upgrade() else { return };
                match engine.active(&run) {
                    Some(active) => active.feed.mark_watched_remotely(),
                    // A worker may be given the run in a moment.
                    None if engine.settings.remote.is_some() => engine.feed_of(&run).mark_watched_remotely(),
                    None => {}
                }
            }
            // A watcher that was missed announces itself again.
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// How often runs that others left are looked for.
struct Sweeps {
    /// Runs whose lease has expired.
    abandoned: Duration,
    /// All that are unfinished: those whose process is known to have ended, and children whose parent is over.
    all: Duration,
}

/// Deletes threads that were not used for `Settings::threads_ms`, at once and then from time to time. Runs do not wait for it: the store deletes in
/// small transactions, and what a process that ends early leaves is deleted by the next. Ends when the engine is dropped.
async fn expire_threads(engine: Weak<Inner>) {
    let mut ticks = interval(EXPIRE_EVERY);
    loop {
        ticks.tick().await;
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_stopping()) else { return };
        let now_ms = (engine.settings.clock)();
        let ms = now_ms.saturating_sub(engine.settings.threads_ms);
        match engine.store.retain(Retention::KeepSince { ms }, now_ms).await {
            Ok(freed) if freed.threads > 0 => {
                tracing::info!(threads = freed.threads, runs = freed.runs, "expired conversations were deleted");
                if let Some(on_expired) = &engine.settings.on_expired {
                    on_expired(freed.deleted);
                }
            }
            Ok(_) => {}
            Err(e) => tracing::warn!("expired conversations could not be deleted: {e}"),
        }
    }
}

/// Renews the leases and does nothing else, because a late renewal loses them. Ends when the engine is dropped, or stopped and without leases.
async fn renew(engine: Weak<Inner>, every: Duration) {
    let mut ticks = interval(every);
    loop {
        ticks.tick().await;
        let Some(engine) = engine.upgrade() else { return };
        if engine.is_stopping() && !engine.holds_any() {
            return;
        }
        if engine.holds_any() {
            let until_ms = (engine.settings.clock)() + engine.settings.lease_ms;
            let renewed = engine.store.renew(&engine.settings.owner, until_ms).await;
            engine.health.wrote(&renewed);
            if let Err(e) = renewed {
                tracing::warn!("leases could not be renewed: {e}");
            }
        }
    }
}

/// Delivers signals of other processes and resumes their runs after they exit. Ends when the engine is stopped or dropped.
async fn run_upkeep(engine: Weak<Inner>, poll: Duration, every: Sweeps) {
    let Some(mut changes) = engine.upgrade().map(|engine| StoreChanges::of(&engine.store)) else { return };
    let (mut swept, mut swept_all) = (Instant::now(), Instant::now());
    loop {
        changes.wait(poll, |change| matches!(change, Change::Signal(_))).await;
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_stopping()) else { return };
        let sweeps = engine.sweeping.load(Ordering::Relaxed);
        if (sweeps || engine.holds_any())
            && let Err(e) = pass_on(&engine, sweeps).await
        {
            tracing::warn!("word from other processes could not be read: {e}");
        }
        // A process on another machine that exited is noticed only when its leases expire.
        if sweeps && swept.elapsed() >= every.abandoned.min(every.all) {
            swept = Instant::now();
            let is_all = swept_all.elapsed() >= every.all;
            let found = match is_all {
                true => recover(&engine).await,
                false => recover_abandoned(&engine).await,
            };
            if is_all {
                swept_all = Instant::now();
            }
            if let Err(e) = found {
                tracing::warn!("unfinished runs could not be looked for: {e}");
            }
        }
    }
}

fn interval(every: Duration) -> Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Delivers signals for runs in memory here and, when sweeping, for runs that no process drives.
async fn pass_on(engine: &Arc<Inner>, sweeps: bool) -> Result<()> {
    if let Some(dispatcher) = engine.dispatcher() {
        return engine.dispatch_undelivered(&*dispatcher).await;
    }
    let signals = engine.store.signals(&engine.settings.owner).await;
    engine.health.read(&signals);
    let mut signals = signals?;
    if sweeps {
        signals.extend(engine.store.undelivered_signals((engine.settings.clock)()).await?);
    }
    for signal in signals {
        let delivered = Engine(engine.clone()).deliver_signal(&signal.run, signal.kind).await;
        match delivered {
            Ok(()) | Err(EngineError::Over { .. } | EngineError::Feed(_) | EngineError::Store(StoreError::NoRun { .. })) => {
                if let Err(e) = &delivered {
                    tracing::info!(run = %signal.run, "word came too late or does not fit: {e}");
                }
                engine.store.accept(signal.id).await?;
            }
            Err(e) => tracing::warn!(run = %signal.run, "word could not be passed on, trying again: {e}"),
        }
    }
    Ok(())
}

pub(crate) async fn recover(engine: &Arc<Inner>) -> Result<usize> {
    engine.sweeping.store(true, Ordering::Relaxed);
    if let Some(dispatcher) = engine.dispatcher() {
        return engine.dispatch_forgotten(&*dispatcher).await;
    }
    let mut found = 0;
    let mut before = None;
    loop {
        let filter = RunFilter {
            statuses: vec![Status::Running, Status::Waiting, Status::Asking],
            before: before.take(),
            limit: PAGE_RUNS,
            ..RunFilter::default()
        };
        let rows = engine.store.runs(filter).await?;
        let full = rows.len() == PAGE_RUNS;
        before = rows.last().map(|row| row.run.clone());
        for row in rows {
            // A run that waits for a person is left alone, unless its parent has ended.
            let may_be_an_orphan = row.parent.is_some();
            if engine.active(&row.run).is_none() && (row.status != Status::Asking || may_be_an_orphan) {
                found += usize::from(resume_or_cancel(engine, row).await?);
            }
        }
        if !full {
            return Ok(found);
        }
    }
}

/// Resumes runs whose lease has expired, of which there are few. More of them are found the next time.
async fn recover_abandoned(engine: &Arc<Inner>) -> Result<usize> {
    if let Some(dispatcher) = engine.dispatcher() {
        return engine.dispatch_forgotten(&*dispatcher).await;
    }
    let unheld_at_ms = Some((engine.settings.clock)());
    let filter = RunFilter { statuses: vec![Status::Running], roots_only: true, unheld_at_ms, limit: PAGE_RUNS, ..RunFilter::default() };
    let mut found = 0;
    for row in engine.store.runs(filter).await? {
        if engine.active(&row.run).is_none() {
            found += usize::from(resume_or_cancel(engine, row).await?);
        }
    }
    Ok(found)
}

/// Resumes a run, or cancels it if its parent has ended. A child of an unfinished parent is resumed by the parent.
async fn resume_or_cancel(engine: &Arc<Inner>, row: RunRow) -> Result<bool> {
    if let Some(parent) = &row.parent {
        let is_wanted = engine.store.run(parent).await?.is_some_and(|parent| !parent.status.is_over());
        if !is_wanted {
            engine.cancel_child(&row.run, "the parent run has ended").await;
        }
        return Ok(false);
    }
    if !engine.seen().insert(row.run.clone()) {
        return Ok(false);
    }
    let taking = engine.clone();
    engine.spawn_background(async move {
        let (engine, run) = (taking, row.run.clone());
        let taken = engine.take_over(&row).await;
        match taken {
            // Another process drives it, or it ended meanwhile.
            Ok(()) | Err(EngineError::Over { .. } | EngineError::Stopping | EngineError::Store(_)) => {
                if let Err(EngineError::Store(e)) = &taken
                    && !matches!(e, StoreError::Held { .. })
                {
                    tracing::warn!(%run, "an unfinished run could not be resumed now: {e}");
                }
                engine.seen().remove(&run);
            }
            // Its journal does not match the current flow. This is logged once, because it does not change.
            Err(e) => tracing::error!(%run, "an unfinished run cannot be resumed: {e}"),
        }
    });
    Ok(true)
}

impl Inner {
    fn seen(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    async fn deliver_signal(&self, run: &RunId, kind: SignalKind) -> Result<()> {
        self.deliver(run, kind.clone(), |done| match kind.clone() {
            SignalKind::Cancel { reason } => Control::Cancel { reason, done: Some(done) },
            SignalKind::Answer { task, attempt, value } => Control::Answer { task, attempt, value, done: Some(done) },
        })
        .await
        .map(drop)
    }
}

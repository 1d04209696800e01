//! One attempt at one effect: the delay before it, the call, and the reply.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use effects::{LookUp, Progress, Repeatability};
use futures::FutureExt;
use graph::{Effect, Failure, FailureKind, Job, Reply, TaskId};
use store::{Change, Piece};
use tokio::time::Instant;

use crate::active::Active;
use crate::open::panic_message;
use crate::remote::Performed;
use crate::watch::FeedItem;
use crate::{EngineError, Inner};

/// Upper limit for deadlines: one year, which can be added to any clock value.
const DEADLINE_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// How an attempt ended.
pub(crate) enum AttemptResult {
    Replied {
        task: TaskId,
        attempt: u32,
        reply: Reply,
    },
    /// It is unknown whether the effect happened.
    InDoubt {
        task: TaskId,
        attempt: u32,
    },
    /// The child run waits for a person.
    ChildParked {
        task: TaskId,
    },
    /// This process no longer drives the child run, or gets no reply of a remote effect, so it cannot drive this run either.
    Lost(EngineError),
}

/// Whether this attempt was started before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriorAttempt {
    None,
    /// It was started before a crash, and its result is unknown.
    Interrupted,
}

pub(crate) async fn perform_attempt(engine: Arc<Inner>, active: Arc<Active>, mut job: Job, past: PriorAttempt) -> AttemptResult {
    let (task, attempt) = (job.task, job.attempt);
    if let Some(model) = &engine.settings.model_override {
        job.context.model = Some(model.clone());
    }
    if let Effect::CallAgent(call) = &*job.effect
        && engine.flows.contains_key(&call.agent)
    {
        // Boxed, because the future that starts a child is large, and there may be a thousand attempts.
        return Box::pin(engine.child(&job, call)).await;
    }
    if let Some(remote) = &engine.settings.remote {
        // Whether it was begun before is known where it is performed.
        let watched = active.watched_remotely().cloned().collect();
        return of_performed(task, attempt, remote.perform(job, watched).await);
    }
    let notifies_others = engine.has_others;
    let progress = match active.is_watched() || notifies_others {
        true => {
            let (active, store) = (active.clone(), engine.store.clone());
            Progress::to(move |text| {
                if notifies_others {
                    for watched in active.watched_remotely() {
                        let piece = Piece { watched: watched.clone(), run: active.run.clone(), task, attempt, text: text.to_owned() };
                        store.notify(Change::Piece(piece));
                    }
                }
                active.publish(FeedItem::Delta { task, attempt, text: text.into() });
            })
        }
        false => Progress::nowhere(),
    };
    of_performed(task, attempt, perform_here(&engine, &job, past, &progress).await)
}

fn of_performed(task: TaskId, attempt: u32, performed: Performed) -> AttemptResult {
    match performed {
        Performed::Replied(reply) => AttemptResult::Replied { task, attempt, reply },
        Performed::InDoubt => AttemptResult::InDoubt { task, attempt },
        Performed::Lost(why) => AttemptResult::Lost(EngineError::DrivenElsewhere { why }),
    }
}

/// Performs an effect in this process.
pub(crate) async fn perform_here(engine: &Inner, job: &Job, past: PriorAttempt, progress: &Progress) -> Performed {
    if past == PriorAttempt::Interrupted {
        match guarded(engine.handler.look_up(job)).await {
            Ok(LookUp::Done(reply)) => return Performed::Replied(reply),
            Ok(LookUp::NotDone) => {}
            Ok(LookUp::Unknown) | Err(_) => return Performed::InDoubt,
        }
    }
    if job.after_ms > 0 {
        tokio::time::sleep(Duration::from_millis(job.after_ms)).await;
    }
    let begun = Instant::now();
    let performed = guarded(engine.handler.perform(job, progress));
    let deadline = begun + Duration::from_millis(job.deadline_ms.min(DEADLINE_MS_MAX));
    let reply = match tokio::time::timeout_at(deadline, performed).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(why)) => {
            Reply::failed(Failure::new(FailureKind::Internal, format!("performing {} {} crashed: {why}", job.effect.kind(), job.effect.name())))
        }
        Err(_) => Reply::failed(timed_out(job, engine.handler.repeatability(job))),
    };
    // Recordings and scripts report their own duration.
    Performed::Replied(if reply.took_us > 0 { reply } else { reply.taking_us(begun.elapsed().as_micros() as u64) })
}

fn timed_out(job: &Job, repeatability: Repeatability) -> Failure {
    let words = format!("{} {} did not answer within {} ms", job.effect.kind(), job.effect.name(), job.deadline_ms);
    match repeatability {
        Repeatability::Repeatable => Failure::new(FailureKind::Timeout, words).retry(),
        // It may have happened, so it is not retried automatically.
        Repeatability::Checkable | Repeatability::Once => Failure::new(FailureKind::InDoubt, format!("{words}; it may have happened")),
    }
}

/// A panic of a handler fails one effect and not the run.
async fn guarded<T>(performed: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(performed).catch_unwind().await.map_err(|panic| panic_message(&*panic))
}

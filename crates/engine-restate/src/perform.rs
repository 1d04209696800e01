//! The handler `perform`: one attempt at one effect.
//!
//! ```text
//!   note "begun" ─► perform ─► keep the reply ─► return it
//!        │ noted before: a worker or a server of the cluster was lost
//!        └─► the effect still goes on in this worker: wait for it
//!            its reply was kept: return that
//!            it may be performed twice: perform it; otherwise look it up, or it is in doubt
//! ```
//!
//! An attempt that is not the first is counted first (`crashes.rs`).

use std::sync::Arc;

use effects::{Progress, Repeatability};
use engine::Performed;
use graph::{Effect, Job, RunId};
use store::{Change, Piece};

use crate::crashes::{self, ALONE_MAX, Admission};
use crate::job::{PayloadStore, call_key, decode_job, encode_reply, prefix};
use crate::memo;
use crate::protocol::{self, Invocation, InvocationEnd};
use crate::worker::Shared;

pub(crate) async fn perform(mut invocation: Invocation, shared: Arc<Shared>) -> Result<(), InvocationEnd> {
    let input = invocation.input().await?;
    let (job, watched) = match decode_job(&input.input, &**shared.engine.store()).await {
        Ok(decoded) => decoded,
        Err(error) => return invocation.end(Err((422, error.to_string()))).await,
    };
    let repeatability = shared.engine.repeatability(&job);
    // A model call may be repeated, but is paid for each time.
    let is_noted = repeatability != Repeatability::Repeatable || matches!(&*job.effect, Effect::CallModel(_));
    let was_begun = match is_noted {
        false => false,
        true => match invocation.note("begun").await? {
            Some(was_begun) => was_begun,
            None => return invocation.end(Err((409, "cancelled".to_owned()))).await,
        },
    };
    let (key, user, thread) = (call_key(&job), job.context.user.clone(), job.thread.clone());
    let attempt = Attempt { was_begun, is_noted, is_retried: was_begun || invocation.is_retried() };
    let work = work(shared.clone(), job, watched, attempt);
    let mut going = shared.in_progress.join(&key, work);
    let performed = loop {
        invocation.flush().await?;
        tokio::select! {
            performed = going.performed() => match performed {
                Some(performed) => break performed,
                // Stopped by an invocation of the same call that was cancelled.
                None => return invocation.end(Err((409, "cancelled".to_owned()))).await,
            },
            received = invocation.receive() => received?,
        }
        if invocation.is_open() && matches!(invocation.progress(Vec::new()).await?, Some(protocol::Progress::Cancelled)) {
            going.task.abort();
            return invocation.end(Err((409, "cancelled".to_owned()))).await;
        }
    };
    let place = PayloadStore { store: &**shared.engine.store(), user, key: format!("{}{key}-reply", prefix(&thread)), now_ms: (shared.clock)() };
    match encode_reply(performed, &place).await {
        Ok(reply) => invocation.end(Ok(reply)).await,
        Err(error) => invocation.fail(error.to_string()).await,
    }
}

/// What is known of an attempt.
#[derive(Clone, Copy)]
struct Attempt {
    /// An attempt before it noted that it begins.
    was_begun: bool,
    /// It is noted when it begins, and its reply is kept.
    is_noted: bool,
    /// There was an attempt before it.
    is_retried: bool,
}

async fn work(shared: Arc<Shared>, job: Job, watched: Vec<RunId>, attempt: Attempt) -> Performed {
    let Attempt { was_begun, is_noted, is_retried } = attempt;
    let store = shared.engine.store().clone();
    if was_begun {
        match memo::recall(&*store, &job).await {
            Ok(Some(performed)) => return performed,
            Ok(None) => {}
            Err(error) => tracing::warn!(run = %job.run, "whether an earlier attempt was answered cannot be read: {error}"),
        }
    }
    let mut alone = None;
    if is_retried {
        match crashes::admit(&shared, &job).await {
            Ok(Admission::Begin(permit)) => alone = permit,
            Ok(Admission::GivenUp(crashes)) => {
                shared.engine.report_given_up(&job.run, crashes).await;
                return crashes::reply_given_up(crashes);
            }
            Err(error) => tracing::warn!(run = %job.run, "an attempt is made without being counted: {error}"),
        }
    }
    let is_repeatable = shared.engine.repeatability(&job) == Repeatability::Repeatable;
    let (run, task, attempt) = (job.run.clone(), job.task, job.attempt);
    let notified = store.clone();
    let progress = match watched.is_empty() {
        true => Progress::nowhere(),
        false => Progress::to(move |text| {
            for watched in &watched {
                let piece = Piece { watched: watched.clone(), run: run.clone(), task, attempt, text: text.to_owned() };
                notified.notify(Change::Piece(piece));
            }
        }),
    };
    let mut performing = Box::pin(shared.engine.perform_attempt(&job, was_begun && !is_repeatable, &progress));
    let performed = match alone {
        None => performing.await,
        Some(alone) => match tokio::time::timeout(ALONE_MAX, &mut performing).await {
            Ok(performed) => performed,
            Err(_) => {
                // It has lasted; the next suspect may go.
                drop(alone);
                performing.await
            }
        },
    };
    if is_noted {
        memo::keep(&*store, &job, &performed, (shared.clock)()).await;
    }
    performed
}

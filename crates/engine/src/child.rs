//! A local flow called as an agent: a run of its own, with its own journal, under a name derived from the effect's key. A parent
//! that is resumed after a crash finds the same child, whatever its state.

use std::sync::Arc;
use std::time::Duration;

use effects::Repeatability;
use graph::{AgentCall, Effect, Event, Failure, FailureKind, Job, Outcome, Parent, Reply, Run, RunId, Start, child_run};
use store::{Status, StoreError};
use tokio::sync::oneshot;

use crate::attempt::AttemptResult;
use crate::driver::{Driver, RunSource};
use crate::{Control, EngineError, Inner, Result, RunResult, RunState, result_of, title_of};

impl Inner {
    pub(crate) async fn child(self: &Arc<Self>, job: &Job, call: &AgentCall) -> AttemptResult {
        let child = child_run(job.key);
        let (task, attempt) = (job.task, job.attempt);
        let replied = |reply| AttemptResult::Replied { task, attempt, reply };
        let deadline = Duration::from_millis(job.deadline_ms);
        match tokio::time::timeout(deadline, self.wait_for_child(&child, job, call)).await {
            Ok(Ok(RunState::Over(closing))) => replied(self.with_acts(reply_of(&closing), &child, job).await),
            Ok(Ok(RunState::Parked(_))) => AttemptResult::ChildParked { task },
            Ok(Ok(RunState::Going)) => AttemptResult::Lost(EngineError::Restless { run: child }),
            Ok(Ok(RunState::Lost(e))) => AttemptResult::Lost(e),
            Ok(Err(EngineError::Run(e))) => replied(Reply::failed(Failure::new(FailureKind::Invalid, e.to_string()))),
            Ok(Err(e)) => AttemptResult::Lost(e),
            Err(_) => {
                let words = format!("agent {} did not finish within {} ms", call.agent, job.deadline_ms);
                self.cancel_child(&child, &words).await;
                let reply = Reply::failed(Failure::new(FailureKind::Timeout, words)).taking_us(job.deadline_ms.saturating_mul(1_000));
                replied(self.with_acts(reply, &child, job).await)
            }
        }
    }

    /// The reply of a failed child states whether the child, or a run below it, had started an effect that is not repeatable.
    async fn with_acts(self: &Arc<Self>, mut reply: Reply, child: &RunId, job: &Job) -> Reply {
        if let Err(failure) = &mut reply.result {
            let engine = crate::Engine(self.clone());
            let past = crate::tree_watcher::tree_history(&engine, child).await;
            let mut asked = past.iter().flat_map(|(_, events)| events).filter_map(|numbered| match &numbered.event {
                Event::Asked { effect, .. } => Some(effect),
                _ => None,
            });
            // An effect whose journal cannot be read is assumed to have changed something.
            failure.has_acted = past.is_empty()
                || asked.any(|effect| {
                    let is_local = matches!(&**effect, Effect::CallAgent(call) if self.graph(&call.agent).is_ok());
                    let is_outside = matches!(&**effect, Effect::CallTool(_) | Effect::CallAgent(_)) && !is_local;
                    is_outside && self.handler.repeatability(&Job { effect: effect.clone(), ..job.clone() }) != Repeatability::Repeatable
                });
        }
        reply
    }

    /// Cancels a child whose parent has ended. A failure is logged: recovery at the next start cancels the child.
    pub(crate) async fn cancel_child(self: &Arc<Self>, child: &RunId, reason: &str) {
        match crate::Engine(self.clone()).cancel(child, reason).await {
            Ok(_) | Err(EngineError::Over { .. } | EngineError::Stopping | EngineError::Store(StoreError::NoRun { .. } | StoreError::Closed)) => {}
            Err(e) => tracing::warn!(%child, "the child run could not be cancelled: {e}"),
        }
    }

    /// Notifies the parent of a child that has ended. A parent in memory gets the message at once, before it can see the child's outcome and end
    /// itself; a parked parent is resumed. If the engine stops first, the parent is resumed at the next start.
    pub(crate) fn notify_parent(self: &Arc<Self>, parent: &Parent, child: RunId) {
        let (done, received) = oneshot::channel();
        let active = self.active(&parent.run);
        let is_sent = active.is_some_and(|active| active.control.try_send(Control::ChildOver { child: child.clone(), done }).is_ok());
        let (engine, parent) = (self.clone(), parent.run.clone());
        self.spawn_background(async move {
            if is_sent && received.await.is_ok() {
                return;
            }
            if let Err(e) = engine.resume_parent(&parent, &child).await {
                tracing::warn!(%parent, %child, "the parent could not be resumed: {e}");
            }
        });
    }

    async fn resume_parent(self: &Arc<Self>, parent: &RunId, child: &RunId) -> Result<()> {
        if self.is_stopping() {
            return Ok(());
        }
        // Its queue was full, or it became active meanwhile.
        if let Some(active) = self.active(parent) {
            let (done, received) = oneshot::channel();
            if active.control.send(Control::ChildOver { child: child.clone(), done }).await.is_ok() && received.await.is_ok() {
                return Ok(());
            }
        }
        match Box::pin(self.resume_stored(parent, None, None)).await {
            Ok(()) | Err(EngineError::Over { .. } | EngineError::Stopping | EngineError::Store(StoreError::Closed)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Starts the child, or finds it, and waits until it has ended or is parked.
    async fn wait_for_child(self: &Arc<Self>, child: &RunId, job: &Job, call: &AgentCall) -> Result<RunState> {
        let mut was_resumed = false;
        for _ in 0..8 {
            if let Some(active) = self.active(child) {
                let mut at = active.at.subscribe();
                drop(active);
                if let Ok(at) = at.wait_for(|at| !matches!(at, RunState::Going)).await {
                    return Ok(at.clone());
                }
            }
            match self.store.run(child).await? {
                None => match self.start_child(child, job, call).await {
                    Ok(()) | Err(EngineError::Store(StoreError::Exists { .. })) => {}
                    Err(e) => return Err(e),
                },
                Some(row) => match (row.status, result_of(&row)) {
                    (_, Some(closing)) => return Ok(RunState::Over(Arc::new(closing))),
                    (Status::Asking, None) => return Ok(RunState::Parked(Vec::new())),
                    // It waits for a child of its own, which may have ended while this run was not in memory.
                    (Status::Waiting, None) if was_resumed => return Ok(RunState::Parked(Vec::new())),
                    _ => match self.resume_stored(child, None, None).await {
                        Ok(()) | Err(EngineError::Over { .. }) => was_resumed = true,
                        Err(e) => return Err(e),
                    },
                },
            }
        }
        Ok(RunState::Going)
    }

    async fn start_child(self: &Arc<Self>, child: &RunId, job: &Job, call: &AgentCall) -> Result<()> {
        let graph = self.graph(&call.agent)?;
        let mut input = call.input.clone();
        let has_recalled = self.recall(&graph, &job.context.user, &job.thread, None, &mut input).await?;
        let start = Start {
            budget: job.budget,
            context: job.context.clone(),
            parent: Some(Parent { run: job.run.clone(), task: job.task }),
            depth: job.depth + 1,
            is_tainted: job.is_tainted || !job.filled.is_empty() || has_recalled,
            addresses: (*job.addresses).clone(),
            ..Start::new(&call.agent, job.thread.clone(), child.clone(), input)
        };
        let machine = Box::new(Run::start(&graph, start)?);
        let source = RunSource::New { machine, title: title_of(&call.input), past: Vec::new() };
        Driver::begin(self, source, None).await?.started.await.unwrap_or(Err(EngineError::Stopping))
    }
}

fn reply_of(closing: &RunResult) -> Reply {
    let result = match &closing.outcome {
        Outcome::Done { output } => Ok(output.clone()),
        Outcome::Failed { fault } => Err(Failure::new(FailureKind::Tool, fault.to_string())),
        Outcome::Cancelled { reason } => Err(Failure::new(FailureKind::Cancelled, reason.clone())),
    };
    // Only the time in which the child was driven: time spent waiting for a person does not count against a budget.
    Reply { result, usage: closing.spent, took_us: closing.elapsed_us, about: None }
}

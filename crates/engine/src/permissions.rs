//! Whether a tool call that the world objects to was allowed before, and what an answer allows from now on.
//!
//! | allowed by | where it is kept | for |
//! |---|---|---|
//! | an answer `once` | the run's journal | that call |
//! | `Order::allowed` | the run's start entry | the run and its children |
//! | an answer `conversation`, `tool`, `server` | the store, in the commit of the answer | the user's runs from their next call on |
//!
//! Standing permissions are read each time the world objects, so a permission given or revoked in another process counts at once.

use graph::{ALLOW_ALL, Consent, HeldCall, Job, Objection, Reply, RunId, Start, ThreadId, Waiting};
use serde_json::{Value, json};
use store::{Grant, NewPermission, RunFilter, Status};

use crate::{Engine, EngineError, Inner, Result};

/// Runs of one thread that are looked at for questions which a new permission answers.
const RUNS_MAX: usize = 1_000;

impl Inner {
    /// Why a person must be asked before this is performed, if one must.
    pub(crate) async fn objection(&self, job: &Job) -> Result<Option<Objection>> {
        if job.is_allowed {
            return Ok(None);
        }
        let Some(objection) = self.handler.objection(job) else { return Ok(None) };
        let is_allowed = match &objection.call {
            None => job.context.allowed.iter().any(|name| name == ALLOW_ALL),
            Some(call) => {
                call.is_allowed_by(&job.context.allowed) || {
                    let standing = self.store.permissions(&job.context.user).await?;
                    standing.iter().any(|row| covers_call(&row.grant, &job.thread, call))
                }
            }
        };
        Ok((!is_allowed).then_some(objection))
    }
}

impl Engine {
    /// Answers the questions of other runs in the thread that the user's standing permissions cover now: parallel children often ask the same. What
    /// fails is logged; those questions stay open.
    pub(crate) async fn answer_covered(&self, run: &RunId) {
        if let Err(error) = self.try_answer_covered(run).await {
            tracing::warn!(%run, "questions that the permission covers stay open: {error}");
        }
    }

    async fn try_answer_covered(&self, run: &RunId) -> Result<()> {
        let thread = self.0.row(run).await?.thread;
        let Some(user) = self.store().thread(&thread).await?.and_then(|row| row.user) else { return Ok(()) };
        let standing = self.store().permissions(&user).await?;
        let filter = RunFilter { thread: Some(thread.clone()), statuses: vec![Status::Asking], limit: RUNS_MAX, ..RunFilter::default() };
        for other in self.store().runs(filter).await?.into_iter().filter(|row| row.run != *run) {
            let open = match self.waiting(&other.run).await {
                Ok(open) => open,
                // It went on meanwhile.
                Err(EngineError::Over { .. }) => continue,
                Err(error) => return Err(error),
            };
            for waiting in open.iter().filter(|waiting| standing.iter().any(|row| covers(&row.grant, &thread, waiting))) {
                match self.give(&other.run, waiting.task, waiting.attempt, &json!(Consent::Once)).await {
                    Ok(_) | Err(EngineError::Over { .. } | EngineError::Feed(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Whether an answer to a question about a tool call allows more than that call.
pub(crate) fn is_standing(value: &Value) -> bool {
    value.get("allow").and_then(Value::as_str).and_then(Consent::parse).is_some_and(Consent::is_standing)
}

/// What an answer allows for good, if it does.
pub(crate) fn given(run: &Start, asked: &Waiting, value: &Value, now_ms: i64) -> Option<NewPermission> {
    let call = asked.call.as_ref()?;
    let grant = match Consent::of(&Reply::ok(value.clone()), Some(call)).ok()? {
        Consent::Once | Consent::No => return None,
        Consent::Conversation => Grant::Conversation { thread: run.thread.clone(), tool: call.tool.clone() },
        Consent::Tool => Grant::Tool { tool: call.tool.clone() },
        Consent::Server => Grant::Server { server: call.server.clone() },
    };
    Some(NewPermission { user: run.context.user.clone(), grant, created_ms: now_ms })
}

/// Whether a permission answers an open question of a run in this thread.
pub(crate) fn covers(grant: &Grant, thread: &ThreadId, open: &Waiting) -> bool {
    open.call.as_ref().is_some_and(|call| covers_call(grant, thread, call))
}

fn covers_call(grant: &Grant, thread: &ThreadId, call: &HeldCall) -> bool {
    match grant {
        Grant::Conversation { thread: of, tool } => of == thread && *tool == call.tool,
        Grant::Tool { tool } => *tool == call.tool,
        Grant::Server { server } => *server == call.server,
    }
}

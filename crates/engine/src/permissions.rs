//! Whether a tool call that the world objects to was allowed before, and what an answer allows from now on.
//!
//! | allowed by | where it is kept | for |
//! |---|---|---|
//! | an answer `once` | the run's journal | that call |
//! | `Order::allowed` | the run's start entry | the run and its children |
//! | an answer `conversation`, `tool`, `server` | the store, in the commit of the answer | the user's runs from their next call on |
//!
//! A standing permission is for what the tool and its server were when the person was asked (`graph::ToolDefinition`): when that has changed, the person is
//! asked again and shown what changed. Standing permissions are read each time the world objects, so a permission given or revoked in another process counts at once.

use graph::{ALLOW_ALL, Consent, HeldCall, Job, Objection, Reply, RunId, Start, ThreadId, ToolDefinition, Waiting};
use serde_json::{Value, json};
use store::{Grant, NewPermission, PermissionCheck, RunFilter, Status};

use crate::{Engine, EngineError, Inner, Result};

/// Runs of one thread that are looked at for questions which a new permission answers.
const RUNS_MAX: usize = 1_000;

impl Inner {
    /// Why a person must be asked before this is performed, if one must.
    pub(crate) async fn objection(&self, job: &Job) -> Result<Option<Objection>> {
        if job.is_allowed {
            return Ok(None);
        }
        let Some(mut objection) = self.handler.objection(job) else { return Ok(None) };
        let Some(call) = &objection.call else {
            let is_allowed = job.context.allowed.iter().any(|name| name == ALLOW_ALL);
            return Ok((!is_allowed).then_some(objection));
        };
        if call.is_allowed_by(&job.context.allowed) {
            return Ok(None);
        }
        let standing = self.store.permissions(&job.context.user).await?;
        let checks = standing.iter().filter(|row| is_for(&row.grant, &job.thread, call)).map(|row| (row, row.check(&call.definition)));
        let mut outdated = None;
        for (row, check) in checks {
            match check {
                PermissionCheck::Valid => return Ok(None),
                PermissionCheck::Changed(_) | PermissionCheck::Unbound => outdated = Some(outdated_note(&row.grant, &check)),
            }
        }
        if let Some(note) = outdated {
            objection.why = format!("{} {note}", objection.why);
        }
        Ok(Some(objection))
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
            for waiting in open.iter().filter(|waiting| standing.iter().any(|row| covers(&row.grant, row.definition.as_ref(), &thread, waiting))) {
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
    Some(NewPermission { user: run.context.user.clone(), grant, definition: Some((*call.definition).clone()), created_ms: now_ms })
}

/// Whether a permission for a tool of this definition answers an open question of a run in this thread: the question must be about the same definition.
pub(crate) fn covers(grant: &Grant, definition: Option<&ToolDefinition>, thread: &ThreadId, open: &Waiting) -> bool {
    let (Some(call), Some(definition)) = (&open.call, definition) else { return false };
    is_for(grant, thread, call) && definition.changes(&call.definition, grant.parts()).is_empty()
}

/// Why a permission that names the call does not cover it, for the person who is asked again.
fn outdated_note(grant: &Grant, check: &PermissionCheck) -> String {
    let what = match grant {
        Grant::Conversation { .. } | Grant::Tool { .. } => "this tool",
        Grant::Server { .. } => "all tools of this server",
    };
    match check {
        PermissionCheck::Changed(parts) => {
            let parts: Vec<&str> = parts.iter().map(|part| part.as_text()).collect();
            format!("You allowed {what} before, but since then this changed: {}.", parts.join(", "))
        }
        PermissionCheck::Unbound => {
            format!("You allowed {what} before definitions of tools were recorded, so you are asked once more.")
        }
        PermissionCheck::Valid => String::new(),
    }
}

/// Whether a permission names the call, whatever the tool is now.
fn is_for(grant: &Grant, thread: &ThreadId, call: &HeldCall) -> bool {
    match grant {
        Grant::Conversation { thread: of, tool } => of == thread && *tool == call.tool,
        Grant::Tool { tool } => *tool == call.tool,
        Grant::Server { server } => *server == call.server,
    }
}

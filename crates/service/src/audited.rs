//! Records in the audit log: tool calls that may change something, answers of people, and commands. The log itself is in `audit`.

use std::sync::Arc;

use async_trait::async_trait;
use audit::{Event, EventKind, Log, Recorder};
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use engine::OnAnswer;
use graph::{Effect, Failure, FailureKind, Job, Objection, Reply, UserId};
use serde_json::Value;

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub;

/// Beside the database.
pub const FOLDER: &str = "audit";

/// The audit log beside the database.
pub fn log(globals: &GlobalArgs) -> Result<Log> {
    Ok(Log::new(hub::folder(globals)?.join(FOLDER), Config::for_run(globals)?.audit))
}

/// Starts the thread that writes the audit log.
pub fn recorder(globals: &GlobalArgs) -> Result<Recorder> {
    Recorder::start(log(globals)?).map_err(|error| ServiceError::Failed(format!("the audit log cannot be written: {error}")))
}

/// Records a command of the local user. If that fails, the command must not run.
pub fn record(globals: &GlobalArgs, what: EventKind, event: impl FnOnce(Event) -> Event) -> Result<()> {
    let event = event(Event::new(what, UserId::default().as_str()));
    let now_ms = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    log(globals)?.append(&[event], now_ms).map_err(|error| ServiceError::Failed(error.to_string()))
}

/// Records answers of people: the decision about a tool call, and only a digest of anything else.
pub fn on_answer(recorder: Recorder) -> OnAnswer {
    Arc::new(move |run, asked, value| {
        let event = Event::new(EventKind::Approval, run.context.user.as_str()).run(run.thread.as_str(), run.run.as_str());
        recorder.note(match &asked.call {
            Some(call) => event.tool(call.tool.as_str()).detail(value.get("allow").and_then(Value::as_str).unwrap_or("not understood")),
            None => event.arguments(value).detail("a question of the run"),
        });
    })
}

/// An effect handler that records calls that may change something before they are performed.
pub struct AuditedHandler {
    handler: Arc<dyn EffectHandler>,
    recorder: Recorder,
}

impl AuditedHandler {
    /// Records the tool calls of `handler` that may change something.
    pub fn new(handler: Arc<dyn EffectHandler>, recorder: Recorder) -> Arc<AuditedHandler> {
        Arc::new(AuditedHandler { handler, recorder })
    }
}

#[async_trait]
impl EffectHandler for AuditedHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        self.handler.repeatability(job)
    }

    fn objection(&self, job: &Job) -> Option<Objection> {
        self.handler.objection(job)
    }

    fn may_change(&self, job: &Job) -> bool {
        self.handler.may_change(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let Effect::CallTool(call) = &*job.effect else { return self.handler.perform(job, progress).await };
        if !self.handler.may_change(job) {
            return self.handler.perform(job, progress).await;
        }
        let event = |what| Event::new(what, job.context.user.as_str()).run(job.thread.as_str(), job.run.as_str()).tool(call.tool.as_str());
        let by = if job.is_allowed { "a person agreed to this call" } else { "without a question" };
        if let Err(error) = self.recorder.record(event(EventKind::ToolCall).arguments(&call.arguments).detail(by)).await {
            return Reply::failed(Failure::new(FailureKind::Refused, format!("{} was not called: {error}", call.tool)));
        }
        let reply = self.handler.perform(job, progress).await;
        let end = match &reply.result {
            Ok(_) => "done".to_owned(),
            Err(failure) => format!("failed: {}", failure.kind),
        };
        self.recorder.note(event(EventKind::ToolCallEnded).detail(end));
        reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.handler.look_up(job).await
    }

    async fn abandon(&self, job: &Job) {
        self.handler.abandon(job).await;
    }
}

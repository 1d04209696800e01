//! The hub as a world: tool calls are performed, and looked up after a crash.

use std::time::Duration;

use async_trait::async_trait;
use evidence::Trust;
use graph::{Effect, Failure, FailureKind, Job, Reply, ToolCall};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::entry::Entry;
use super::{CallOptions, Tools, call, private_text, repeatability, source};
use effects::{EffectHandler, LookUp, Progress, Repeatability};

#[async_trait]
impl EffectHandler for Tools {
    fn repeatability(&self, job: &Job) -> Repeatability {
        let Effect::CallTool(call) = &*job.effect else { return Repeatability::Once };
        self.0.known(&call.tool).map_or(Repeatability::Once, |(_, entry)| entry.repeatability)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let Effect::CallTool(ToolCall { tool, arguments }) = &*job.effect else {
            return Reply::failed(Failure::new(FailureKind::Internal, format!("a hub of tools performs no {} calls", job.effect.kind())));
        };
        let began = Instant::now();
        // The engine drops the future at its own deadline; ours only keeps a call without one from waiting for ever.
        let deadline = Duration::from_millis(job.deadline_ms.max(1));
        let options = CallOptions {
            key: Some(job.key.to_string()),
            is_allowed: job.is_allowed,
            deadline,
            progress: progress.clone(),
            thread: Some(job.thread.to_string()),
            user: Some(job.context.user.to_string()),
        };
        let result = self.call(tool, arguments, &options).await;
        let known = self.0.known(tool);
        let public = match (&known, &result) {
            (Some((server, entry)), Ok(found)) => private_text::public_addresses(server, entry, found),
            _ => None,
        };
        let value = result.and_then(|found| {
            serde_json::to_value(found).map_err(|error| Failure::new(FailureKind::Internal, format!("the result cannot be kept: {error}")))
        });
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let server = tool.split_once('.').map_or(tool.as_str(), |(server, _)| server);
        let reply = Reply { result: value, ..Reply::ok(Value::Null) }.taking_us(took_us).about(json!({ "server": server }));
        match public {
            Some(addresses) => reply.without_private_text(addresses),
            // The message of a failure may be the server's own text.
            None if reply.result.is_err() && known.is_some_and(|(server, _)| !server.is_trusted()) => reply.with_foreign_error(),
            None => reply,
        }
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        let Effect::CallTool(call) = &*job.effect else { return LookUp::Unknown };
        // A server that was switched off meanwhile is not started for a lookup.
        let Ok((server, entry)) = self.0.find_enabled(&call.tool).await else { return LookUp::Unknown };
        let Some(look_up) = repeatability::look_up(&entry.tool).filter(|_| server.is_trusted()) else { return LookUp::Unknown };
        let look_up = match source::server_of(&entry.tool.name).filter(|_| server.is_registry()) {
            Some(behind) => format!("{behind}.{look_up}"),
            None => look_up.to_owned(),
        };
        let Some(by) = server.tools().iter().find(|entry| *entry.tool.name == *look_up).cloned() else { return LookUp::Unknown };
        let key = job.key.to_string();
        let Ok(result) = call::call(&server, &by, &json!({ "key": key }), &CallOptions::default()).await else { return LookUp::Unknown };
        let structured = result.structured_content.unwrap_or_default();
        match structured.get("done").and_then(Value::as_bool) {
            Some(true) => LookUp::Done(remembered(&entry, server.trust(), structured.get("result").unwrap_or(&Value::Null))),
            Some(false) => LookUp::NotDone,
            None => LookUp::Unknown,
        }
    }
}

/// The reply that was lost, as far as the tool remembers it.
fn remembered(entry: &Entry, trust: Trust, result: &Value) -> Reply {
    let text = match result {
        Value::String(text) => text.clone(),
        Value::Null => "it was done before".to_owned(),
        other => other.to_string(),
    };
    let data = Some(result).filter(|result| result.is_object());
    Reply::ok(serde_json::to_value(evidence::found(&entry.name, trust, &text, data)).unwrap_or_default())
}

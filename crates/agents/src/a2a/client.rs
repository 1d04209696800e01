//! Operations over JSON-RPC and HTTP+JSON; those over gRPC are in [`super::grpc`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use effects::Progress;
use futures::StreamExt as _;
use graph::{Failure, FailureKind};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use wire::a2a::error::{self, ErrorKind};
use wire::a2a::{Message, SendMessage, StreamResponse, TaskStatus};

use super::card::{Binding, Endpoint};
use crate::exchange::Exchange;

/// Calls whose tasks are remembered.
const TASKS_MAX: usize = 4_096;
const MESSAGE_CHARS_MAX: usize = 400;

#[derive(Clone, Copy)]
pub(super) enum Op<'a> {
    Send(&'a SendMessage),
    Stream(&'a SendMessage),
    Get(&'a str),
    /// The tasks of a context.
    List(&'a str),
    Subscribe(&'a str),
    Cancel(&'a str),
}

/// Why an operation has no result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The agent refused it with an error of A2A.
    Refused {
        kind: Option<ErrorKind>,
        message: String,
    },
    Failed(Failure),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        CallError::Failed(failure)
    }
}

impl CallError {
    pub(super) fn failure(self, name: &str) -> Failure {
        match self {
            CallError::Failed(failure) => failure,
            CallError::Refused { kind, message } => {
                let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
                let failure = |kind| Failure::new(kind, format!("{name} refused: {message}"));
                match kind {
                    Some(error::INTERNAL) => failure(FailureKind::Tool).retry(),
                    Some(error::INVALID_PARAMS | error::INVALID_REQUEST | error::CONTENT_TYPE_NOT_SUPPORTED) => failure(FailureKind::Invalid),
                    _ => failure(FailureKind::Refused),
                }
            }
        }
    }
}

/// The result of a message: a task, or an answer without one.
#[derive(Debug, Default)]
pub(super) struct SendResult {
    pub(super) task: Option<String>,
    pub(super) message: Option<Message>,
    /// The task has ended, or waits for an answer.
    is_stopped: bool,
}

impl SendResult {
    pub(super) fn of(task: &str) -> SendResult {
        SendResult { task: Some(task.to_owned()), ..SendResult::default() }
    }

    pub(super) fn read(reply: &Value) -> Option<SendResult> {
        let mut sent = SendResult::default();
        sent.apply(serde_json::from_value(reply.clone()).ok()?, &Progress::nowhere());
        (sent.task.is_some() || sent.message.is_some()).then_some(sent)
    }

    /// Whether the stream can be closed; not every agent closes it when its task ends or waits.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn apply(&mut self, update: StreamResponse, progress: &Progress) {
        let is_stopped = |status: &TaskStatus| status.state.is_terminal() || status.state.is_interrupted();
        let id = match update {
            StreamResponse::Task(task) => {
                self.is_stopped = is_stopped(&task.status);
                task.id
            }
            StreamResponse::StatusUpdate(update) => {
                self.is_stopped = is_stopped(&update.status);
                update.task_id
            }
            StreamResponse::ArtifactUpdate(update) => {
                for text in update.artifact.parts.into_iter().filter_map(|part| part.text).filter(|text| !text.is_empty()) {
                    progress.send(&text);
                }
                update.task_id
            }
            StreamResponse::Message(message) => {
                self.is_stopped = true;
                self.message = Some(message);
                return;
            }
        };
        if !id.is_empty() {
            self.task = Some(id);
        }
    }
}

/// One agent, for the requests of one call.
pub(super) struct AgentClient<'a> {
    pub(super) exchange: Exchange<'a>,
    pub(super) endpoint: Endpoint,
    /// The effect's key.
    pub(super) key: String,
    pub(super) tasks: &'a Tasks,
}

/// The tasks of calls in flight, by the effect's key, for agents that do not list their tasks.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<String, String>>);

impl Tasks {
    pub(super) fn note(&self, key: &str, task: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= TASKS_MAX {
            all.clear();
        }
        if all.get(key).is_none_or(|known| known != task) {
            all.insert(key.to_owned(), task.to_owned());
        }
    }

    pub(super) fn take(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

impl AgentClient<'_> {
    fn request(&self, op: Op<'_>) -> Result<RequestBuilder, Failure> {
        let Endpoint { url, binding, tenant, .. } = &self.endpoint;
        let exchange = &self.exchange;
        if *binding == Binding::JsonRpc {
            let (method, mut params) = match op {
                Op::Send(request) => ("SendMessage", json!(request)),
                Op::Stream(request) => ("SendStreamingMessage", json!(request)),
                Op::Get(task) => ("GetTask", json!({ "id": task })),
                Op::List(context) => ("ListTasks", json!({ "contextId": context, "pageSize": 10 })),
                Op::Subscribe(task) => ("SubscribeToTask", json!({ "id": task })),
                Op::Cancel(task) => ("CancelTask", json!({ "id": task })),
            };
            if !tenant.is_empty() {
                params["tenant"] = json!(tenant);
            }
            return exchange.post(url.clone(), &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        }
        let base = if tenant.is_empty() { url.clone() } else { format!("{url}/{}", percent_encoded(tenant)) };
        Ok(match op {
            Op::Send(request) => exchange.post(format!("{base}/message:send"), &json!(request))?,
            Op::Stream(request) => exchange.post(format!("{base}/message:stream"), &json!(request))?,
            Op::Get(task) => exchange.client()?.get(format!("{base}/tasks/{}", percent_encoded(task))),
            Op::List(context) => exchange.client()?.get(format!("{base}/tasks?contextId={}&pageSize=10", percent_encoded(context))),
            Op::Subscribe(task) => exchange.client()?.get(format!("{base}/tasks/{}:subscribe", percent_encoded(task))),
            Op::Cancel(task) => exchange.post(format!("{base}/tasks/{}:cancel", percent_encoded(task)), &json!({}))?,
        })
    }

    pub(super) async fn call(&self, op: Op<'_>) -> Result<Value, CallError> {
        if self.endpoint.binding == Binding::Grpc {
            return self.call_grpc(op).await;
        }
        let response = match self.exchange.request(self.request(op)?).await? {
            Ok(response) => response,
            Err(refusal) => {
                let body: Value = serde_json::from_slice(&refusal.body).unwrap_or_default();
                return Err(match refused(&body) {
                    // For these statuses the status decides, whatever the body contains.
                    Some(error) if !matches!(refusal.status, 401 | 403 | 408 | 429 | 500..) => error,
                    _ => CallError::Failed(self.exchange.refused(&refusal)),
                });
            }
        };
        let reply = self.exchange.body(response).await?;
        self.result(reply)
    }

    fn result(&self, mut reply: Value) -> Result<Value, CallError> {
        match (refused(&reply), self.endpoint.binding == Binding::JsonRpc) {
            (Some(error), _) => Err(error),
            (None, false) => Ok(reply),
            (None, true) => match reply.get_mut("result") {
                Some(result) => Ok(result.take()),
                None => Err(self.invalid_reply("answered with neither a result nor an error")),
            },
        }
    }

    pub(super) fn invalid_reply(&self, why: &str) -> CallError {
        CallError::Failed(self.exchange.invalid_reply(why))
    }

    /// Reads a stream until it ends in any way; the state of the task is read afterwards. An error is a refusal before the first event.
    pub(super) async fn stream(&self, op: Op<'_>, progress: &Progress) -> Result<SendResult, CallError> {
        if self.endpoint.binding == Binding::Grpc {
            return self.stream_grpc(op, progress).await;
        }
        let request = self.request(op)?.header("accept", "text/event-stream");
        let response = match self.exchange.request(request).await? {
            Ok(response) => response,
            Err(refusal) => {
                let body: Value = serde_json::from_slice(&refusal.body).unwrap_or_default();
                return Err(refused(&body).filter(|_| refusal.status < 500).unwrap_or_else(|| self.exchange.refused(&refusal).into()));
            }
        };
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        if !kind.starts_with("text/event-stream") {
            let reply = self.result(self.exchange.body(response).await?)?;
            return SendResult::read(&reply).ok_or_else(|| self.invalid_reply("answered a stream with neither a task nor a message"));
        }
        let mut sent = SendResult::default();
        let mut events = self.exchange.events(response);
        while let Some(event) = events.next().await {
            let data = event.data.unwrap_or_default();
            let Ok(update) = serde_json::from_str::<Value>(&data) else { continue };
            match self.result(update) {
                Ok(update) => {
                    if let Ok(update) = serde_json::from_value(update) {
                        sent.apply(update, progress);
                    }
                    if let Some(task) = &sent.task {
                        self.tasks.note(&self.key, task);
                    }
                    if sent.is_stopped {
                        break;
                    }
                }
                Err(error) if sent.task.is_none() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }
}

fn refused(body: &Value) -> Option<CallError> {
    let (kind, message) = error::read(body.get("error")?.as_object()?);
    Some(CallError::Refused { kind, message })
}

/// An id within an address.
fn percent_encoded(id: &str) -> String {
    id.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

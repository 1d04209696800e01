//! One call of one tool: checked before, bounded while it runs, checked after.
//!
//! ```text
//!   name ── server ── connection ── tool ── arguments fit ── sent ──┬── result ── fits, not too large ── value
//!                                                                   ├── questions ── answered ── sent again
//!                                                                   └── error
//! ```
//!
//! A failure before `sent` is safe to try again. After it, only what is repeatable is; anything else is in doubt. Dropping the
//! call cancels it at the server.

use std::sync::Arc;
use std::time::Duration;

use evidence::{Found, Trust};
use graph::{Failure, FailureKind};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest, ErrorCode, MetaObject, RequestId,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::Value;

use super::auth::{Refusal, refusal};
use super::bounded::TOO_LARGE;
use super::entry::Entry;
use super::repeatability::{AGAIN, KEY, THREAD, USER};
use super::reply::{self, RESULT_BYTES_MAX};
use super::server::{Link, Server, error_text};
use effects::clip;
use effects::{Progress, Repeatability};

/// How a call is to be made.
#[derive(Clone)]
pub struct CallOptions {
    /// The effect's key, for tools that know what they did.
    pub key: Option<String>,
    /// A person has agreed to exactly this, even if it might happen twice.
    pub is_allowed: bool,
    /// How long the call may take.
    pub deadline: Duration,
    /// Where the tool's progress is reported.
    pub progress: Progress,
    /// The thread it is made for; sent to built-in servers only.
    pub thread: Option<String>,
    /// The user it is made for; sent to built-in servers only.
    pub user: Option<String>,
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions { key: None, is_allowed: false, deadline: Duration::from_secs(60), progress: Progress::nowhere(), thread: None, user: None }
    }
}

/// Questions a server may put before it answers, in rounds.
const ROUNDS_MAX: usize = 8;
/// A server that only needs time is called again, each time after a longer pause.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// How often a call is tried again with more rights.
const STEP_UPS_MAX: usize = 2;
const ERROR_BYTES_MAX: usize = 4_000;

/// Makes the call and returns the server's whole result, after it was validated against the declared schema.
pub(crate) async fn call(server: &Arc<Server>, entry: &Entry, arguments: &Value, options: &CallOptions) -> Result<CallToolResult, Failure> {
    let mut arguments = match arguments {
        Value::Object(arguments) => arguments.clone(),
        Value::Null => serde_json::Map::new(),
        other => {
            let message = format!("the arguments of {} must be an object, not {}", entry.name, clip(&other.to_string(), 100));
            return Err(Failure::new(FailureKind::Invalid, message));
        }
    };
    entry.prune(&mut arguments);
    let arguments = Value::Object(arguments);
    entry.check_arguments(&arguments).map_err(|why| Failure::new(FailureKind::Invalid, why))?;
    let Value::Object(arguments) = arguments else { unreachable!("made above") };
    let mut params = CallToolRequestParams::new(entry.tool.name.clone()).with_arguments(arguments);
    let mut meta = MetaObject::new();
    if let Some(key) = &options.key {
        meta.0.insert(KEY.to_owned(), key.clone().into());
        if options.is_allowed {
            meta.0.insert(AGAIN.to_owned(), true.into());
        }
    }
    for (name, value) in [(THREAD, &options.thread), (USER, &options.user)] {
        if let Some(value) = value.as_ref().filter(|_| server.is_local()) {
            meta.0.insert(name.to_owned(), value.clone().into());
        }
    }
    if !meta.0.is_empty() {
        params.meta = Some(RequestMetaObject(meta));
    }
    let whole = tokio::time::timeout(options.deadline, rounds(server, entry, params, options));
    let result = whole.await.unwrap_or_else(|_| Err(late(entry, options.deadline)))?;
    checked(entry, result)
}

/// The same result as evidence, each span labelled with this call; an error that the tool reports is a failure.
pub(crate) fn found(entry: &Entry, trust: Trust, arguments: &Value, result: &CallToolResult) -> Result<Found, Failure> {
    let text = reply::text(result);
    if result.is_error == Some(true) {
        let message = if text.trim().is_empty() { "it failed and does not say why".to_owned() } else { clip(&text, ERROR_BYTES_MAX) };
        return Err(Failure::new(FailureKind::Tool, format!("{}: {message}", entry.name)));
    }
    let mut found = evidence::found(&entry.name, trust, &text, result.structured_content.as_ref());
    let label = evidence::task_label(&entry.name, arguments);
    found.spans.iter_mut().for_each(|span| span.task = Some(label.clone()));
    Ok(found)
}

fn late(entry: &Entry, deadline: Duration) -> Failure {
    let message = format!("{} did not answer within {} ms", entry.name, deadline.as_millis());
    match entry.repeatability {
        Repeatability::Repeatable => Failure::new(FailureKind::Timeout, message).retry(),
        Repeatability::Checkable | Repeatability::Once => Failure::new(FailureKind::InDoubt, format!("{message}; it may have happened")),
    }
}

async fn rounds(server: &Arc<Server>, entry: &Entry, mut params: CallToolRequestParams, options: &CallOptions) -> Result<CallToolResult, Failure> {
    let (mut step_ups, mut pause) = (0, PAUSE_FIRST);
    for round in 0..ROUNDS_MAX + STEP_UPS_MAX {
        let link = server.link().await?;
        if round == 0 {
            check_unchanged(server, entry)?;
        }
        let reply = match once(&link, params.clone(), options).await {
            Ok(reply) => reply,
            Err(error) => {
                match more_rights(server, &error, step_ups).await {
                    Some(Ok(())) => step_ups += 1,
                    Some(Err(why)) => return Err(Failure::new(FailureKind::Refused, format!("{}: {why}", entry.name))),
                    None => return Err(failure(server, entry, &error).await),
                }
                continue;
            }
        };
        match reply {
            ServerResult::CallToolResult(result) => return Ok(result),
            ServerResult::InputRequiredResult(input_required) => {
                let requests = input_required.input_requests.unwrap_or_default();
                if requests.is_empty() {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                let answers = link.service.service().answers(requests).await;
                let answers = answers.map_err(|error| Failure::new(FailureKind::Refused, format!("{}: {}", entry.name, error.message)))?;
                params.input_responses = (!answers.is_empty()).then_some(answers);
                params.request_state = input_required.request_state;
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(Failure::new(FailureKind::Invalid, format!("{} continued in the background, which was not requested", entry.name)));
            }
            _ => return Err(Failure::new(FailureKind::Invalid, format!("{} sent something that is not the result of a tool", entry.name))),
        }
    }
    Err(Failure::new(FailureKind::Limit, format!("{} asked for input more than {ROUNDS_MAX} times", entry.name)))
}

/// The definition that was checked before the call may be one that was remembered, and connecting has brought the current one. A call for another definition
/// is not sent: it is tried again, and permission is checked for what the tool is now.
fn check_unchanged(server: &Server, entry: &Entry) -> Result<(), Failure> {
    let tools = server.tools();
    let is_changed = tools.iter().find(|now| now.tool.name == entry.tool.name).is_some_and(|now| now.digests() != entry.digests());
    match is_changed {
        false => Ok(()),
        true => Err(Failure::new(FailureKind::Network, format!("{}: its definition changed before it was called", entry.name)).retry()),
    }
}

/// One request, cancelled at the server when nobody waits for it any more.
async fn once(link: &Link, params: CallToolRequestParams, options: &CallOptions) -> Result<ServerResult, ServiceError> {
    let _busy = link.busy();
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = link.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let _listening = options.progress.has_listener().then(|| link.listeners.add(handle.progress_token.clone(), options.progress.clone()));
    let mut waiting = Waiting { peer: link.peer().clone(), id: Some(handle.id.clone()) };
    let result = handle.await_response().await;
    waiting.id = None;
    result
}

struct Waiting {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            // The server may be gone, and then there is nothing left to cancel.
            let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".into()))).await;
        });
    }
}

/// Whether the call failed for want of rights, and whether there are more of them now.
async fn more_rights(server: &Server, error: &ServiceError, step_ups: usize) -> Option<Result<(), String>> {
    let ServiceError::TransportSend(sent) = error else { return None };
    let refusal = refusal(&*sent.error)?;
    if step_ups >= STEP_UPS_MAX {
        return Some(Err("it still refuses, with all the rights it asked for".into()));
    }
    Some(match refusal {
        Refusal::TooLittle { challenge } => server.step_up(&challenge).await,
        Refusal::Nobody(challenge) => server.authorize_again(&challenge).await,
    })
}

async fn failure(server: &Server, entry: &Entry, error: &ServiceError) -> Failure {
    let failed = |kind, message: String| Failure::new(kind, server.stderr_tail().redact(&clip(&message, ERROR_BYTES_MAX)));
    match error {
        ServiceError::McpError(error) if error.code == ErrorCode(TOO_LARGE) => {
            failed(FailureKind::Limit, format!("{}: {}", entry.name, error.message))
        }
        ServiceError::McpError(error) if error.code == ErrorCode::INVALID_PARAMS => {
            failed(FailureKind::Invalid, format!("{} refused its arguments: {}", entry.name, error.message))
        }
        ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            failed(FailureKind::Refused, format!("{}: {}", entry.name, error.message))
        }
        ServiceError::McpError(error) => failed(FailureKind::Tool, format!("{}: {}", entry.name, error.message)),
        other => {
            server.doubt();
            server.stderr_tail().complete().await;
            let message = format!("{}: the call broke off ({})", entry.name, server.stderr_tail().after(&error_text(other)));
            match entry.repeatability {
                Repeatability::Repeatable => failed(FailureKind::Network, message).retry(),
                Repeatability::Checkable | Repeatability::Once => failed(FailureKind::InDoubt, format!("{message}; it may have happened")),
            }
        }
    }
}

fn checked(entry: &Entry, result: CallToolResult) -> Result<CallToolResult, Failure> {
    let data = result.structured_content.as_ref().unwrap_or(&Value::Null);
    let bytes = reply::bytes(&reply::text(&result), data);
    if bytes > RESULT_BYTES_MAX {
        let message = format!("{} answered with {bytes} bytes, and at most {RESULT_BYTES_MAX} are taken; ask for less", entry.name);
        return Err(Failure::new(FailureKind::Limit, message));
    }
    if result.is_error != Some(true) {
        if entry.tool.output_schema.is_some() && result.structured_content.is_none() {
            return Err(Failure::new(FailureKind::Invalid, format!("{} promises structured results and gave none", entry.name)));
        }
        entry.check_result(data).map_err(|why| Failure::new(FailureKind::Invalid, why))?;
    }
    Ok(result)
}

//! Operations over gRPC.

use effects::Progress;
use graph::{Failure, FailureKind};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use wire::a2a::error::{INVALID_PARAMS, METHOD_NOT_FOUND, TASK_NOT_FOUND, UNSUPPORTED_OPERATION};
use wire::a2a::grpc::{self, Ending, FrameError, Frames};
use wire::a2a::{Task, proto};

use super::client::{AgentClient, CallError, Op, SendResult};
use crate::exchange::{REPLY_BYTES_MAX, STREAM_BYTES_MAX};
use crate::langserve::failure_of_status;

/// Tasks of a context that are listed.
const LISTED_MAX: i32 = 10;

/// A reply as it arrives.
struct Reply {
    frames: Frames,
    body: reqwest::Body,
    bytes_left: usize,
    /// How the call ended, once that is known.
    ending: Option<Ending>,
}

impl AgentClient<'_> {
    pub(super) async fn call_grpc(&self, op: Op<'_>) -> Result<Value, CallError> {
        let tenant = self.endpoint.tenant.clone();
        Ok(match op {
            Op::Send(request) => {
                let update: proto::StreamResponse = self.unary("SendMessage", &proto::SendMessageRequest::from(request.clone())).await?;
                update.into_update().map_or(Value::Null, |update| json!(update))
            }
            Op::Get(task) => {
                let request = proto::GetTaskRequest { tenant, id: task.to_owned(), history_length: None };
                json!(Task::from(self.unary::<proto::Task>("GetTask", &request).await?))
            }
            Op::List(context) => {
                let request = proto::ListTasksRequest {
                    tenant,
                    context_id: context.to_owned(),
                    page_size: Some(LISTED_MAX),
                    ..proto::ListTasksRequest::default()
                };
                let listed: proto::ListTasksResponse = self.unary("ListTasks", &request).await?;
                json!({ "tasks": listed.tasks.into_iter().map(Task::from).collect::<Vec<_>>() })
            }
            Op::Cancel(task) => {
                let request = proto::CancelTaskRequest { tenant, id: task.to_owned() };
                json!(Task::from(self.unary::<proto::Task>("CancelTask", &request).await?))
            }
            Op::Stream(_) | Op::Subscribe(_) => return Err(self.invalid_reply("has no unary form of a streaming method")),
        })
    }

    /// Reads a stream until it ends in any way; the state of the task is read afterwards. An error is a refusal before the first event.
    pub(super) async fn stream_grpc(&self, op: Op<'_>, progress: &Progress) -> Result<SendResult, CallError> {
        let mut reply = match op {
            Op::Stream(request) => self.begin("SendStreamingMessage", &proto::SendMessageRequest::from(request.clone()), STREAM_BYTES_MAX).await?,
            Op::Subscribe(task) => {
                let request = proto::GetTaskRequest { tenant: self.endpoint.tenant.clone(), id: task.to_owned(), history_length: None };
                self.begin("SubscribeToTask", &request, STREAM_BYTES_MAX).await?
            }
            Op::Send(_) | Op::Get(_) | Op::List(_) | Op::Cancel(_) => {
                return self.call_grpc(op).await.map(|reply| SendResult::read(&reply).unwrap_or_default());
            }
        };
        let mut sent = SendResult::default();
        loop {
            match self.next::<proto::StreamResponse>(&mut reply).await {
                Ok(Some(update)) => {
                    if let Some(update) = update.into_update() {
                        sent.apply(update, progress);
                    }
                    if let Some(task) = &sent.task {
                        self.tasks.note(&self.key, task);
                    }
                    if sent.is_stopped() {
                        return Ok(sent);
                    }
                }
                Ok(None) => return Ok(sent),
                Err(error @ CallError::Refused { .. }) if sent.task.is_none() => return Err(error),
                Err(error) => {
                    tracing::debug!(agent = self.exchange.name, "a stream ended early: {error:?}");
                    return Ok(sent);
                }
            }
        }
    }

    async fn unary<M: prost::Message + Default>(&self, method: &str, request: &impl prost::Message) -> Result<M, CallError> {
        let mut reply = self.begin(method, request, REPLY_BYTES_MAX).await?;
        let message = self.next(&mut reply).await?.ok_or_else(|| self.invalid_reply("answered with no message"))?;
        // The message counts only if the status after it is success.
        match self.next::<M>(&mut reply).await? {
            None => Ok(message),
            Some(_) => Err(self.invalid_reply("answered with more than one message")),
        }
    }

    async fn begin(&self, method: &str, request: &impl prost::Message, bytes_max: usize) -> Result<Reply, CallError> {
        let url = format!("{}{}/{method}", self.endpoint.url, grpc::SERVICE);
        let client = self.exchange.service.http2_client().map_err(|why| Failure::new(FailureKind::Internal, why))?;
        let request = client.post(url).header(CONTENT_TYPE, grpc::CONTENT_TYPE).header("te", "trailers").body(grpc::frame(request));
        let response = match self.exchange.request(request).await? {
            Ok(response) => response,
            Err(refusal) => return Err(self.exchange.refused(&refusal).into()),
        };
        let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with(grpc::CONTENT_TYPE) {
            return Err(self.invalid_reply("answered with something that is not gRPC"));
        }
        // A call that is refused at once has its status here.
        let ending = ending_in(&parts.headers);
        if let Some(ending) = &ending {
            self.check(ending)?;
        }
        Ok(Reply { frames: Frames::new(REPLY_BYTES_MAX), body, bytes_left: bytes_max.saturating_mul(2), ending })
    }

    /// The next message; `None` after the last one of a call that succeeded.
    async fn next<M: prost::Message + Default>(&self, reply: &mut Reply) -> Result<Option<M>, CallError> {
        loop {
            let read = reply.frames.next_message().map_err(|why| self.frame_error(&why))?;
            if read.is_some() {
                return Ok(read);
            }
            let frame = match reply.body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Err(Failure::new(
                        FailureKind::Network,
                        format!("{}: the connection closed before the end of its reply: {}", self.exchange.name, error.without_url()),
                    )
                    .retry()
                    .into());
                }
                None if !reply.frames.is_empty() => return Err(self.frame_error(&FrameError::Cut)),
                None => {
                    let no_status =
                        || Failure::new(FailureKind::Network, format!("{}: its answer ended without a status", self.exchange.name)).retry();
                    return self.check(reply.ending.as_ref().ok_or_else(no_status)?).map(|()| None);
                }
            };
            match frame.into_data() {
                Ok(bytes) => {
                    reply.bytes_left = reply.bytes_left.checked_sub(bytes.len()).ok_or_else(|| self.frame_error(&FrameError::TooLong))?;
                    reply.frames.push(&bytes);
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        reply.ending = ending_in(&trailers).or(reply.ending.take());
                    }
                }
            }
        }
    }

    fn frame_error(&self, why: &FrameError) -> CallError {
        match why {
            FrameError::TooLong => {
                Failure::new(FailureKind::Invalid, format!("{}: its answer has more than {REPLY_BYTES_MAX} bytes", self.exchange.name)).into()
            }
            _ => self.invalid_reply(&format!("answered with something that cannot be read: {why}")),
        }
    }

    /// An error if the call ended with one.
    fn check(&self, ending: &Ending) -> Result<(), CallError> {
        let refused = |kind| Err(CallError::Refused { kind: Some(kind), message: ending.message.clone() });
        let status = match (ending.code, ending.kind) {
            (0, _) => return Ok(()),
            (_, Some(kind)) => return refused(kind),
            (3, None) => return refused(INVALID_PARAMS),
            (5, None) => return refused(TASK_NOT_FOUND),
            (9, None) => return refused(UNSUPPORTED_OPERATION),
            (12, None) => return refused(METHOD_NOT_FOUND),
            (7, None) => 403,
            (8, None) => 429,
            (16, None) => 401,
            (14, None) => 503,
            _ => 500,
        };
        Err(failure_of_status(self.exchange.name, status, &HeaderMap::new(), &ending.message).into())
    }
}

fn ending_in(headers: &HeaderMap) -> Option<Ending> {
    grpc::ending(|name| headers.get(name).and_then(|value| value.to_str().ok()))
}

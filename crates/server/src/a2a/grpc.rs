//! gRPC: `POST /lf.a2a.v1.A2AService/{method}` over HTTP/2, on the same port as everything else. Each request is one message; a stream ends with its status in the
//! trailers. The tenant of a request names a flow, as the card of a flow does.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Router};
use http_body_util::StreamBody;
use hyper::body::Frame;
use wire::a2a::error::{ErrorKind, METHOD_NOT_FOUND, VERSION_NOT_SUPPORTED};
use wire::a2a::{ListTasks, PushConfig, PushQuery, SendMessage, StreamResponse, TaskQuery, grpc, proto};

use super::stream::Form;
use super::task::Shape;
use super::{A2a, Caller, card, kind_of, named, push, refusal, wrong};
use crate::api::params;
use crate::guard::Identity;
use crate::problem::{Problem, StatusCode};
use crate::turn::Source;

pub(super) fn routes() -> Router<A2a> {
    Router::new().route(&format!("{}/{{method}}", grpc::SERVICE), post(answer))
}

/// A reply that has nothing but the status: status 200 of HTTP, the status of gRPC in its headers.
pub(super) fn refused(problem: &Problem) -> Response {
    let mut headers = trailers(problem);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(grpc::CONTENT_TYPE));
    headers.into_response()
}

/// The status of a call that failed.
pub(super) fn trailers(problem: &Problem) -> HeaderMap {
    let kind = match problem.status {
        // Protobuf has no other way to say that the method or its form is not known here.
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::HTTP_VERSION_NOT_SUPPORTED => unimplemented(),
        _ if problem.kind == METHOD_NOT_FOUND.reason => unimplemented(),
        _ if problem.kind == VERSION_NOT_SUPPORTED.reason => ErrorKind { status: "UNIMPLEMENTED", ..VERSION_NOT_SUPPORTED },
        _ => kind_of(problem),
    };
    let named = grpc::trailers(kind, &problem.message);
    named.into_iter().filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?))).collect()
}

fn unimplemented() -> ErrorKind {
    ErrorKind { status: "UNIMPLEMENTED", ..METHOD_NOT_FOUND }
}

/// A response that sends frames as they are written. A response without trailers of its own ends with success.
pub(super) fn streamed(source: Source) -> Response {
    let stream = futures::stream::unfold(Some(source), |source| async move {
        let mut source = source?;
        Some(match source.next().await {
            Some(frame) if frame.is_data() => (Ok::<_, Infallible>(frame), Some(source)),
            Some(trailers) => (Ok(trailers), None),
            None => (Ok(Frame::trailers(succeeded())), None),
        })
    });
    headed(Body::new(StreamBody::new(stream)))
}

fn succeeded() -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(grpc::STATUS), HeaderValue::from_static("0"))])
}

fn headed(body: Body) -> Response {
    ([(header::CONTENT_TYPE, grpc::CONTENT_TYPE)], body).into_response()
}

fn done(message: &impl prost::Message) -> Response {
    let frames = [Frame::data(Bytes::from(grpc::frame(message))), Frame::trailers(succeeded())];
    headed(Body::new(StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)))))
}

fn read<M: prost::Message + Default>(body: &[u8]) -> Result<M, Problem> {
    grpc::read_one(body).map_err(|why| match why {
        grpc::FrameError::Compressed => Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid", why.to_string()),
        _ => wrong(why.to_string()),
    })
}

async fn answer(
    State(a2a): State<A2a>,
    Extension(who): Extension<Identity>,
    Path(method): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    // Trailers need it; a reply over HTTP/1 would lack its status.
    if request.version() != Version::HTTP_2 {
        return Err(Problem::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "invalid", "gRPC needs HTTP/2"));
    }
    params::must_be_one_of(request.headers(), &[grpc::CONTENT_TYPE, grpc::CONTENT_TYPE_PROTO])?;
    let headers = request.headers().clone();
    let base = a2a.api().0.guard.base_of(&request)?;
    let body = params::read_within(request, |limits| limits.body_bytes_max, params::JSON_WITHIN).await?;
    let caller = Caller::of(who, &headers, None, None)?;
    Box::pin(perform(&a2a, &caller, &base, &method, &body)).await
}

async fn perform(a2a: &A2a, caller: &Caller, base: &str, method: &str, body: &[u8]) -> Result<Response, Problem> {
    let who = &caller.who;
    Ok(match method {
        "SendMessage" => {
            let request = SendMessage::from(read::<proto::SendMessageRequest>(body)?);
            let task = a2a.send_and_wait(caller, request).await?;
            done(&proto::StreamResponse::from(StreamResponse::Task(Box::new(task))))
        }
        "SendStreamingMessage" => a2a.stream(caller, read::<proto::SendMessageRequest>(body)?.into(), Form::Grpc).await?,
        "GetTask" => {
            let TaskQuery { id, history_length } = read::<proto::GetTaskRequest>(body)?.into();
            let shape = Shape::of(history_length)?;
            done(&proto::Task::from(a2a.task(who, a2a.row(who, named(&id)?).await?, shape).await?))
        }
        "ListTasks" => {
            let query = ListTasks::from(read::<proto::ListTasksRequest>(body)?);
            done(&proto::ListTasksResponse::from(a2a.list(who, &query).await?))
        }
        "CancelTask" => done(&proto::Task::from(a2a.cancel(who, named(&read::<proto::CancelTaskRequest>(body)?.id)?).await?)),
        "SubscribeToTask" => a2a.subscribe(who, named(&read::<proto::GetTaskRequest>(body)?.id)?, Form::Grpc).await?,
        "CreateTaskPushNotificationConfig" => {
            let config = PushConfig::from(read::<proto::TaskPushNotificationConfig>(body)?);
            let row = a2a.row(who, named(&config.task_id)?).await?;
            push::check(a2a, &config).await?;
            done(&proto::TaskPushNotificationConfig::from(push::put(a2a, &who.user, row.run.as_str(), config).await?))
        }
        "GetTaskPushNotificationConfig" => {
            let PushQuery { task_id, id } = read::<proto::GetTaskPushNotificationConfigRequest>(body)?.into();
            let row = a2a.row(who, named(&task_id)?).await?;
            done(&proto::TaskPushNotificationConfig::from(push::get(a2a, &who.user, row.run.as_str(), &id).await?))
        }
        "ListTaskPushNotificationConfigs" => {
            let row = a2a.row(who, named(&read::<proto::ListTaskPushNotificationConfigsRequest>(body)?.task_id)?).await?;
            let configs = push::all(a2a, &who.user, row.run.as_str()).await?.into_iter().map(Into::into).collect();
            done(&proto::ListTaskPushNotificationConfigsResponse { configs, next_page_token: String::new() })
        }
        "DeleteTaskPushNotificationConfig" => {
            let PushQuery { task_id, id } = read::<proto::GetTaskPushNotificationConfigRequest>(body)?.into();
            let row = a2a.row(who, named(&task_id)?).await?;
            push::remove(a2a, &who.user, row.run.as_str(), &id).await?;
            done(&proto::Empty {})
        }
        "GetExtendedAgentCard" => {
            let tenant = read::<proto::GetExtendedAgentCardRequest>(body)?.tenant;
            let flow = Some(tenant.as_str()).filter(|tenant| !tenant.is_empty());
            done(&proto::AgentCard::from(card::extended(a2a.api(), flow, base).await?))
        }
        _ => return Err(refusal(METHOD_NOT_FOUND, "there is no such method")),
    })
}

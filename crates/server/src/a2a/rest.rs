//! HTTP+JSON below `/a2a/v1`, and below `/a2a/v1/{flow}` for one flow, which is where a client puts a tenant.

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use wire::a2a::error::METHOD_NOT_FOUND;
use wire::a2a::{ListTasks, MEDIA_TYPE, PushConfig, SendMessage, StreamResponse, TaskQuery, TaskState};

use super::stream::Form;
use super::task::Shape;
use super::{A2a, Caller, card, kind_of, push, refusal, wrong};
use crate::api::params::{self, QueryParams};
use crate::guard::Identity;
use crate::problem::{Problem, StatusCode};

pub(super) fn routes() -> Router<A2a> {
    let below = |prefix: &str| {
        Router::new()
            .route(&format!("{prefix}/message:send"), post(send))
            .route(&format!("{prefix}/message:stream"), post(stream))
            .route(&format!("{prefix}/tasks"), get(list))
            .route(&format!("{prefix}/tasks/{{task}}"), any(task))
            .route(&format!("{prefix}/tasks/{{task}}/pushNotificationConfigs"), get(configs).post(add_config))
            .route(&format!("{prefix}/tasks/{{task}}/pushNotificationConfigs/{{config}}"), get(config).delete(remove_config))
            .route(&format!("{prefix}/extendedAgentCard"), get(extended_card))
    };
    below("/a2a/v1").merge(below("/a2a/v1/{flow}"))
}

/// In the form of `google.rpc.Status`.
pub(super) fn refused(problem: &Problem) -> Response {
    let kind = kind_of(problem);
    (StatusCode::from_u16(kind.http).unwrap_or(problem.status), Json(kind.of_http(&problem.message))).into_response()
}

/// The parts of an address that a handler may have.
#[derive(serde::Deserialize)]
struct PathParams {
    flow: Option<String>,
    #[serde(default)]
    task: String,
    #[serde(default)]
    config: String,
}

type Answer = Result<Response, Problem>;

fn shown(value: impl Serialize) -> Answer {
    let mut response = Json(value).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}

fn caller(who: Identity, headers: &HeaderMap, query: Option<&str>, place: &PathParams) -> Result<Caller, Problem> {
    Caller::of(who, headers, query, place.flow.clone())
}

async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    params::must_be_one_of(request.headers(), &[MEDIA_TYPE, "application/json"])?;
    let body = params::read_within(request, |limits| limits.body_bytes_max, params::JSON_WITHIN).await?;
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(wrong("the body must be a JSON object"));
    }
    serde_json::from_slice(&body).map_err(|error| wrong(format!("the body: {error}")))
}

/// What a handler needs to take a message.
type Sending = (State<A2a>, Extension<Identity>, Path<PathParams>, RawQuery, Request);

async fn receive((State(a2a), Extension(who), Path(place), RawQuery(query), request): Sending) -> Result<(A2a, Caller, SendMessage), Problem> {
    let caller = caller(who, request.headers(), query.as_deref(), &place)?;
    Ok((a2a, caller, read(request).await?))
}

async fn send(sending: Sending) -> Answer {
    let (a2a, caller, message) = receive(sending).await?;
    shown(StreamResponse::Task(Box::new(Box::pin(a2a.send_and_wait(&caller, message)).await?)))
}

async fn stream(sending: Sending) -> Answer {
    let (a2a, caller, message) = receive(sending).await?;
    Box::pin(a2a.stream(&caller, message, Form::Http)).await
}

/// `GET /tasks/{id}`, `POST /tasks/{id}:cancel`, and `/tasks/{id}:subscribe` by either.
async fn task(
    State(a2a): State<A2a>,
    Extension(who): Extension<Identity>,
    Path(place): Path<PathParams>,
    RawQuery(query): RawQuery,
    fields: Result<QueryParams<TaskFields>, Problem>,
    request: Request,
) -> Answer {
    caller(who.clone(), request.headers(), query.as_deref(), &place)?;
    let (id, verb) = place.task.rsplit_once(':').unwrap_or((&place.task, ""));
    match (request.method(), verb) {
        (&Method::GET, "") => {
            let QueryParams(TaskFields { history_length }) = fields?;
            let TaskQuery { id, history_length } = TaskQuery { id: id.to_owned(), history_length };
            shown(a2a.task(&who, a2a.row(&who, &id).await?, Shape::of(history_length)?).await?)
        }
        (&Method::POST, "cancel") => shown(a2a.cancel(&who, id).await?),
        (&Method::GET | &Method::POST, "subscribe") => a2a.subscribe(&who, id, Form::Http).await,
        _ => Err(refusal(METHOD_NOT_FOUND, "there are GET /tasks/{id}, POST /tasks/{id}:cancel and GET /tasks/{id}:subscribe")),
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskFields {
    history_length: Option<i32>,
}

/// The query of a list; each value is a text there.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListFields {
    #[serde(default)]
    context_id: String,
    status: Option<TaskState>,
    page_size: Option<i32>,
    #[serde(default)]
    page_token: String,
    history_length: Option<i32>,
    #[serde(default)]
    status_timestamp_after: String,
    include_artifacts: Option<bool>,
}

async fn list(
    State(a2a): State<A2a>,
    Extension(who): Extension<Identity>,
    Path(place): Path<PathParams>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    QueryParams(fields): QueryParams<ListFields>,
) -> Answer {
    caller(who.clone(), &headers, query.as_deref(), &place)?;
    let ListFields { context_id, status, page_size, page_token, history_length, status_timestamp_after, include_artifacts } = fields;
    let query = ListTasks { context_id, status, page_size, page_token, history_length, status_timestamp_after, include_artifacts };
    shown(a2a.list(&who, &query).await?)
}

async fn configs(State(a2a): State<A2a>, Extension(who): Extension<Identity>, Path(place): Path<PathParams>) -> Answer {
    let row = a2a.row(&who, &place.task).await?;
    shown(json!({ "configs": push::all(&a2a, &who.user, row.run.as_str()).await? }))
}

async fn add_config(State(a2a): State<A2a>, Extension(who): Extension<Identity>, Path(place): Path<PathParams>, request: Request) -> Answer {
    let row = a2a.row(&who, &place.task).await?;
    let config: PushConfig = read(request).await?;
    push::check(&a2a, &config).await?;
    shown(push::put(&a2a, &who.user, row.run.as_str(), config).await?)
}

async fn config(State(a2a): State<A2a>, Extension(who): Extension<Identity>, Path(place): Path<PathParams>) -> Answer {
    let row = a2a.row(&who, &place.task).await?;
    shown(push::get(&a2a, &who.user, row.run.as_str(), &place.config).await?)
}

async fn remove_config(State(a2a): State<A2a>, Extension(who): Extension<Identity>, Path(place): Path<PathParams>) -> Answer {
    let row = a2a.row(&who, &place.task).await?;
    push::remove(&a2a, &who.user, row.run.as_str(), &place.config).await?;
    shown(json!({}))
}

async fn extended_card(State(a2a): State<A2a>, Path(place): Path<PathParams>, request: Request) -> Answer {
    let base = a2a.api().0.guard.base_of(&request)?;
    shown(card::extended(a2a.api(), place.flow.as_deref(), &base).await?)
}

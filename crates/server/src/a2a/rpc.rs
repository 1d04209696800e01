//! JSON-RPC: `POST /a2a`, or `/a2a/{flow}` for one flow. What a method refuses is an error of JSON-RPC with status 200.

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::a2a::error::{INVALID_REQUEST, METHOD_NOT_FOUND, PARSE, VERSION_NOT_SUPPORTED};
use wire::a2a::{ListTasks, PushConfig, PushQuery, StreamResponse, TaskQuery, VERSION};

use super::stream::Form;
use super::task::Shape;
use super::{A2a, Caller, card, kind_of, named, push, refusal, wrong};
use crate::api::params;
use crate::guard::Identity;
use crate::problem::Problem;

pub(super) fn routes() -> Router<A2a> {
    // Some clients put a slash after the address that the card names.
    ["", "/"]
        .iter()
        .fold(Router::new(), |routes, end| routes.route(&format!("/a2a{end}"), post(of_all)).route(&format!("/a2a/{{flow}}{end}"), post(of_flow)))
}

/// What was refused before there was a request to answer.
pub(super) fn refused(problem: &Problem) -> Response {
    (problem.status, Json(kind_of(problem).of_rpc(&Value::Null, &problem.message))).into_response()
}

async fn of_all(a2a: State<A2a>, who: Extension<Identity>, query: RawQuery, request: Request) -> Result<Response, Problem> {
    answer(a2a, who, query, None, request).await
}

async fn of_flow(
    a2a: State<A2a>,
    who: Extension<Identity>,
    Path(flow): Path<String>,
    query: RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    answer(a2a, who, query, Some(flow), request).await
}

async fn answer(
    State(a2a): State<A2a>,
    Extension(who): Extension<Identity>,
    RawQuery(query): RawQuery,
    flow: Option<String>,
    request: Request,
) -> Result<Response, Problem> {
    params::must_be_one_of(request.headers(), &["application/json", wire::a2a::MEDIA_TYPE])?;
    let headers = request.headers().clone();
    let base = a2a.api().0.guard.base_of(&request)?;
    let body = params::read_within(request, |limits| limits.body_bytes_max, params::JSON_WITHIN).await?;
    let (id, called) = match Call::read(&body) {
        Ok(Call { id, method, params }) => {
            let called = async {
                let caller = Caller::of(who, &headers, query.as_deref(), flow)?;
                Box::pin(perform(&a2a, &caller, &base, &id, &method, params)).await
            };
            let called = called.await;
            (id, called)
        }
        Err(refused) => {
            let (id, problem) = *refused;
            (id, Err(problem))
        }
    };
    Ok(called.unwrap_or_else(|problem| failed(&id, &problem)))
}

fn failed(id: &Value, problem: &Problem) -> Response {
    let mut headers = HeaderMap::new();
    headers.extend(problem.retry_after_s.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
    (headers, Json(kind_of(problem).of_rpc(id, &problem.message))).into_response()
}

#[derive(Debug)]
struct Call {
    id: Value,
    method: String,
    params: Value,
}

impl Call {
    /// An error has the id that the reply is for, as far as it could be read.
    fn read(body: &Bytes) -> Result<Call, Box<(Value, Problem)>> {
        let parsed =
            serde_json::from_slice(body).map_err(|error| Box::new((Value::Null, refusal(PARSE, format!("the body is no JSON: {error}")))))?;
        let no_request = |id: Value, why: &str| Box::new((id, refusal(INVALID_REQUEST, format!("that is no request of JSON-RPC 2.0: {why}"))));
        let Value::Object(mut fields) = parsed else { return Err(no_request(Value::Null, "it is one object; batches are not taken")) };
        let id = match fields.remove("id") {
            None | Some(Value::Null) => return Err(no_request(Value::Null, "id is missing")),
            Some(id @ (Value::String(_) | Value::Number(_))) => id,
            Some(_) => return Err(no_request(Value::Null, "id is a text or a number")),
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(no_request(id, "jsonrpc is \"2.0\""));
        }
        let Some(Value::String(method)) = fields.remove("method") else { return Err(no_request(id, "method is missing")) };
        match fields.remove("params").unwrap_or_default() {
            Value::Null => Ok(Call { id, method, params: json!({}) }),
            params @ Value::Object(_) => Ok(Call { id, method, params }),
            _ => Err(Box::new((id, wrong("params is an object")))),
        }
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Problem> {
    serde_json::from_value(params).map_err(|error| wrong(format!("params: {error}")))
}

async fn perform(a2a: &A2a, caller: &Caller, base: &str, id: &Value, method: &str, params: Value) -> Result<Response, Problem> {
    let who = &caller.who;
    let form = || Form::Rpc(id.clone());
    match method {
        "SendMessage" => done(id, StreamResponse::Task(Box::new(a2a.send_and_wait(caller, read(params)?).await?))),
        "SendStreamingMessage" => a2a.stream(caller, read(params)?, form()).await,
        "GetTask" => {
            let TaskQuery { id: task, history_length } = read(params)?;
            let shape = Shape::of(history_length)?;
            done(id, a2a.task(who, a2a.row(who, named(&task)?).await?, shape).await?)
        }
        "ListTasks" => done(id, a2a.list(who, &read::<ListTasks>(params)?).await?),
        "CancelTask" => done(id, a2a.cancel(who, named(&read::<TaskQuery>(params)?.id)?).await?),
        "SubscribeToTask" => a2a.subscribe(who, named(&read::<TaskQuery>(params)?.id)?, form()).await,
        "CreateTaskPushNotificationConfig" => {
            let config: PushConfig = read(params)?;
            let row = a2a.row(who, named(&config.task_id)?).await?;
            push::check(a2a, &config).await?;
            done(id, push::put(a2a, &who.user, row.run.as_str(), config).await?)
        }
        "GetTaskPushNotificationConfig" => {
            let PushQuery { task_id, id: config } = read(params)?;
            let row = a2a.row(who, named(&task_id)?).await?;
            done(id, push::get(a2a, &who.user, row.run.as_str(), &config).await?)
        }
        "ListTaskPushNotificationConfigs" => {
            let row = a2a.row(who, named(&read::<PushQuery>(params)?.task_id)?).await?;
            done(id, json!({ "configs": push::all(a2a, &who.user, row.run.as_str()).await? }))
        }
        "DeleteTaskPushNotificationConfig" => {
            let PushQuery { task_id, id: config } = read(params)?;
            let row = a2a.row(who, named(&task_id)?).await?;
            push::remove(a2a, &who.user, row.run.as_str(), &config).await?;
            done(id, Value::Null)
        }
        "GetExtendedAgentCard" => done(id, card::extended(a2a.api(), caller.flow.as_deref(), base).await?),
        older if ["message/", "tasks/", "agent/"].iter().any(|group| older.starts_with(group)) => Err(refusal(
            VERSION_NOT_SUPPORTED,
            format!("{older:?} is a method of A2A 0.3; this server supports {VERSION}, whose methods are named like SendMessage"),
        )),
        _ => Err(refusal(METHOD_NOT_FOUND, "there is no such method")),
    }
}

fn done(id: &Value, result: impl Serialize) -> Result<Response, Problem> {
    let result = serde_json::to_value(result).map_err(|error| Problem::internal(&error))?;
    Ok(Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response())
}

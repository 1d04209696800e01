//! A2A 1.0: each flow is an agent at `/a2a/{flow}`, by JSON-RPC and by HTTP with JSON. A task is a run, its context the thread.
//!
//! ```text
//! GET  /a2a/{flow}/.well-known/agent-card.json       and /.well-known/agent-card.json for the flow that picks one
//! POST /a2a/{flow}                                   JSON-RPC: SendMessage, SendStreamingMessage, GetTask, CancelTask, SubscribeToTask
//! POST /a2a/{flow}/message:send | message:stream · GET /a2a/{flow}/tasks/{id} | tasks/{id}:subscribe · POST /a2a/{flow}/tasks/{id}:cancel
//! ```
//!
//! A run that asks a person is a task in `TASK_STATE_INPUT_REQUIRED`; a message that names the task answers it.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use store::RunRow;
use wire::a2a::{Call, Reason, SendMessage, TaskById, http_error, rpc_error};

use crate::api::Api;
use crate::api::said::Said;
use crate::guard::Who;
use crate::problem::Problem;
use crate::turn::{self, Begun, Events, Happened, Rest, Sink, Terms, Turn};

/// The flow whose card is the server's.
const DEFAULT_FLOW: &str = "auto";

pub(crate) fn routes(api: &Api) -> Router {
    Router::new()
        .route("/.well-known/agent-card.json", get(default_card))
        .route("/a2a/{flow}", post(rpc))
        .route("/a2a/{flow}/.well-known/agent-card.json", get(card))
        .route("/a2a/{flow}/message:send", post(send_http))
        .route("/a2a/{flow}/message:stream", post(stream_http))
        .route("/a2a/{flow}/tasks/{task}", get(task_http).post(cancel_http))
        .with_state(api.clone())
}

/// What was refused before the protocol's own words began, in the form of the HTTP binding.
pub(crate) fn error(problem: &Problem) -> Response {
    let reason = reason_of(problem);
    let status = if problem.status == StatusCode::UNPROCESSABLE_ENTITY { StatusCode::BAD_REQUEST } else { problem.status };
    (status, Json(http_error(status.as_u16(), reason, &problem.message))).into_response()
}

fn reason_of(problem: &Problem) -> Reason {
    match (problem.status, problem.kind) {
        (StatusCode::NOT_FOUND, "model_not_found") => Reason::InvalidParams,
        (StatusCode::NOT_FOUND, _) => Reason::TaskNotFound,
        (StatusCode::CONFLICT, NOT_CANCELABLE) => Reason::TaskNotCancelable,
        (StatusCode::CONFLICT, _) => Reason::UnsupportedOperation,
        (status, _) if status.is_client_error() => Reason::InvalidParams,
        _ => Reason::Internal,
    }
}

const NOT_CANCELABLE: &str = "task_not_cancelable";

async fn default_card(api: State<Api>, headers: HeaderMap) -> Result<Json<Value>, Problem> {
    card(api, Path(DEFAULT_FLOW.to_owned()), headers).await
}

async fn card(State(api): State<Api>, Path(flow): Path<String>, headers: HeaderMap) -> Result<Json<Value>, Problem> {
    turn::must_know(&api, &flow)?;
    let flows = api.0.desk.flows();
    let about = flows.iter().find(|known| known.name == flow).ok_or_else(|| Problem::not_found("flow"))?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let scheme = headers.get("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok()).filter(|scheme| *scheme == "https").unwrap_or("http");
    let url = format!("{scheme}://{host}/a2a/{flow}");
    let interface = |binding: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": "1.0" });
    Ok(Json(json!({
        "name": about.title,
        "description": about.about,
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [interface("JSONRPC"), interface("HTTP+JSON")],
        "capabilities": { "streaming": true, "pushNotifications": false },
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/markdown", "application/json"],
        "skills": [{ "id": flow, "name": about.title, "description": about.about, "tags": ["baton"] }],
        "securitySchemes": { "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } },
        "securityRequirements": [{ "schemes": { "bearer": { "list": [] } } }],
    })))
}

async fn rpc(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(flow): Path<String>,
    headers: HeaderMap,
    Said(call): Said<Call>,
) -> Result<Response, Problem> {
    let id = call.id.clone();
    let fail = |reason: Reason, message: &str| (StatusCode::OK, Json(rpc_error(&id, reason, message))).into_response();
    let answered = match call.method.as_str() {
        "SendMessage" => match sent(&api, &who, &flow, &headers, &call.params).await {
            Ok(task) => Ok(json!({ "task": task })),
            Err(problem) => Err(problem),
        },
        "SendStreamingMessage" => match streamed(&api, &who, &flow, &headers, &call.params, Some(id.clone())).await {
            Ok(response) => return Ok(response),
            Err(problem) => Err(problem),
        },
        "GetTask" => found(&api, &who, &flow, &call.params).await,
        "CancelTask" => cancelled(&api, &who, &flow, &call.params).await,
        "SubscribeToTask" => match subscribed(&api, &who, &flow, &call.params, Some(id.clone())).await {
            Ok(response) => return Ok(response),
            Err(problem) => Err(problem),
        },
        "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig" => {
            return Ok(fail(Reason::PushNotificationNotSupported, "this agent sends no notifications; subscribe to the task"));
        }
        other => return Ok(fail(Reason::MethodNotFound, &format!("there is no method {other:?}"))),
    };
    Ok(match answered {
        Ok(result) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
        Err(problem) => fail(reason_of(&problem), &problem.message),
    })
}

async fn send_http(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(flow): Path<String>,
    headers: HeaderMap,
    Said(body): Said<Value>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(json!({ "task": sent(&api, &who, &flow, &headers, &body).await? })))
}

async fn stream_http(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(flow): Path<String>,
    headers: HeaderMap,
    Said(body): Said<Value>,
) -> Result<Response, Problem> {
    streamed(&api, &who, &flow, &headers, &body, None).await
}

async fn task_http(State(api): State<Api>, Extension(who): Extension<Who>, Path((flow, task)): Path<(String, String)>) -> Result<Response, Problem> {
    match task.strip_suffix(":subscribe") {
        Some(id) => subscribed(&api, &who, &flow, &json!({ "id": id }), None).await,
        None => Ok(Json(found(&api, &who, &flow, &json!({ "id": task })).await?).into_response()),
    }
}

async fn cancel_http(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((flow, task)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let id = task.strip_suffix(":cancel").ok_or_else(|| Problem::not_found("operation on a task; there is :cancel"))?;
    Ok(Json(cancelled(&api, &who, &flow, &json!({ "id": id })).await?))
}

fn read<T: DeserializeOwned>(params: &Value) -> Result<T, Problem> {
    serde_json::from_value(params.clone()).map_err(|error| Problem::bad_request(format!("the parameters: {error}")))
}

/// Starts the run of a message, or answers the one it names.
async fn begun(api: &Api, who: &Who, flow: &str, headers: &HeaderMap, request: &SendMessage, is_watched: bool) -> Result<Begun, Problem> {
    turn::must_know(api, flow)?;
    let text = request.message.text().map_err(|why| Problem::bad_request(format!("message: {why}")))?;
    if let Some(task) = request.message.task_id.as_deref().filter(|task| !task.is_empty()) {
        let row = row_of(api, who, flow, task).await?;
        return turn::answer(api, who, row.run.as_str(), &text, is_watched).await;
    }
    let options: wire::openai::Options = match request.metadata.get("baton") {
        Some(options) => read(options)?,
        None => wire::openai::Options::default(),
    };
    let thread = request.message.context_id.clone().filter(|context| !context.is_empty());
    let wish = wire::api::NewRun { thread, ..turn::wish(flow, text, options) };
    // Another agent's words are not the user's own.
    let turn = Turn { wish, history: Vec::new(), is_tainted: true, wrapper: None };
    turn::begin(api, who, "a2a", &Terms::of(headers)?, turn, is_watched).await
}

async fn sent(api: &Api, who: &Who, flow: &str, headers: &HeaderMap, params: &Value) -> Result<Value, Problem> {
    let request: SendMessage = read(params)?;
    let begun = begun(api, who, flow, headers, &request, false).await?;
    let rest = match request.configuration.return_immediately {
        true => None,
        false => Some(turn::rest(api, &begun.run).await?),
    };
    Ok(task(begun.run.as_str(), begun.thread.as_str(), rest.as_ref()))
}

/// A task of this user's and this agent's.
async fn row_of(api: &Api, who: &Who, flow: &str, id: &str) -> Result<RunRow, Problem> {
    turn::must_know(api, flow)?;
    let row = api.run(who, id).await.map_err(|problem| match problem.status {
        StatusCode::NOT_FOUND => Problem::not_found("task"),
        _ => problem,
    })?;
    Ok(row)
}

async fn found(api: &Api, who: &Who, flow: &str, params: &Value) -> Result<Value, Problem> {
    let TaskById { id } = read(params)?;
    let row = row_of(api, who, flow, &id).await?;
    let rest = match row.status {
        store::Status::Running => None,
        _ => Some(turn::rest(api, &row.run).await?),
    };
    Ok(task(row.run.as_str(), row.thread.as_str(), rest.as_ref()))
}

async fn cancelled(api: &Api, who: &Who, flow: &str, params: &Value) -> Result<Value, Problem> {
    let TaskById { id } = read(params)?;
    let row = row_of(api, who, flow, &id).await?;
    if row.status.is_over() {
        return Err(Problem::new(StatusCode::CONFLICT, NOT_CANCELABLE, "the task is over"));
    }
    api.0.engine.cancel(&row.run, "cancelled by the client").await?;
    let rest = turn::rest(api, &row.run).await?;
    Ok(task(row.run.as_str(), row.thread.as_str(), Some(&rest)))
}

/// A message to or from the agent.
fn message(run: &str, thread: &str, text: &str) -> Value {
    json!({ "messageId": format!("{run}-agent"), "contextId": thread, "taskId": run, "role": "ROLE_AGENT", "parts": [{ "text": text }] })
}

fn status(run: &str, thread: &str, rest: Option<&Rest>) -> Value {
    match rest {
        None => json!({ "state": "TASK_STATE_WORKING" }),
        Some(Rest::Answered(_)) => json!({ "state": "TASK_STATE_COMPLETED" }),
        Some(Rest::Failed(why)) => json!({ "state": "TASK_STATE_FAILED", "message": message(run, thread, why) }),
        Some(Rest::Cancelled(why)) => json!({ "state": "TASK_STATE_CANCELED", "message": message(run, thread, why) }),
        Some(Rest::Asks(asks)) => {
            let words = format!("{}\n\n{}", asks.waiting.question.prompt.trim(), turn::hint(&asks.waiting));
            let mut asked = message(run, thread, &words);
            if let Some(schema) = &asks.waiting.question.schema {
                asked["metadata"] = json!({ "schema": schema });
            }
            json!({ "state": "TASK_STATE_INPUT_REQUIRED", "message": asked })
        }
    }
}

fn task(run: &str, thread: &str, rest: Option<&Rest>) -> Value {
    let artifacts = match rest {
        Some(Rest::Answered(answered)) => {
            let mut parts = vec![json!({ "text": answered.text, "mediaType": "text/markdown" })];
            if !answered.sources.is_empty() {
                parts.push(json!({ "data": { "sources": answered.sources }, "mediaType": "application/json" }));
            }
            vec![json!({ "artifactId": ARTIFACT, "name": ARTIFACT, "parts": parts })]
        }
        _ => Vec::new(),
    };
    json!({ "id": run, "contextId": thread, "status": status(run, thread, rest), "artifacts": artifacts })
}

const ARTIFACT: &str = "answer";

async fn streamed(api: &Api, who: &Who, flow: &str, headers: &HeaderMap, params: &Value, id: Option<Value>) -> Result<Response, Problem> {
    let request: SendMessage = read(params)?;
    let begun = begun(api, who, flow, headers, &request, true).await?;
    told(api, who, begun, id)
}

async fn subscribed(api: &Api, who: &Who, flow: &str, params: &Value, id: Option<Value>) -> Result<Response, Problem> {
    let TaskById { id: task } = read(params)?;
    let row = row_of(api, who, flow, &task).await?;
    if row.status.is_over() {
        return Err(Problem::conflict("the task is over; GetTask has its result"));
    }
    told(api, who, turn::found(api, who, row, true).await?, id)
}

/// A client that goes away leaves the task going: it can subscribe again.
fn told(api: &Api, who: &Who, mut begun: Begun, id: Option<Value>) -> Result<Response, Problem> {
    let (sink, response) = turn::channel(api, who)?;
    let events = begun.events().ok_or_else(|| Problem::internal(&"the run is not watched"))?;
    let teller = Teller { id, sink, run: begun.run.to_string(), thread: begun.thread.to_string() };
    let api = api.clone();
    tokio::spawn(async move { teller.tell(&api, &begun, events).await });
    Ok(response)
}

struct Teller {
    /// Of the JSON-RPC call; the HTTP binding sends results as they are.
    id: Option<Value>,
    sink: Sink,
    run: String,
    thread: String,
}

impl Teller {
    async fn send(&self, kind: &str, value: Value) -> bool {
        let event = json!({ kind: value });
        let event = match &self.id {
            Some(id) => json!({ "jsonrpc": "2.0", "id": id, "result": event }),
            None => event,
        };
        self.sink.send(format!("data: {event}\n\n")).await
    }

    async fn update(&self, status: Value) -> bool {
        self.send("statusUpdate", json!({ "taskId": self.run, "contextId": self.thread, "status": status })).await
    }

    async fn artifact(&self, parts: Value, is_more: bool, is_last: bool) -> bool {
        let artifact = json!({ "artifactId": ARTIFACT, "name": ARTIFACT, "parts": parts });
        let update = json!({ "taskId": self.run, "contextId": self.thread, "artifact": artifact, "append": is_more, "lastChunk": is_last });
        self.send("artifactUpdate", update).await
    }

    /// Whether it was heard to its end.
    async fn tell(&self, api: &Api, begun: &Begun, mut events: Events) -> bool {
        if !self.send("task", task(&self.run, &self.thread, None)).await {
            return false;
        }
        let mut has_text = false;
        loop {
            let happened = tokio::select! {
                happened = events.next() => happened,
                () = self.sink.closed() => return false,
            };
            let words = match happened {
                None => break,
                Some(Happened::Text(text)) => {
                    if !self.artifact(json!([{ "text": text }]), has_text, false).await {
                        return false;
                    }
                    has_text = true;
                    continue;
                }
                Some(Happened::StepStarted { step }) => step,
                Some(Happened::ToolStarted { tool, .. }) => format!("calls {tool}"),
                Some(Happened::StepFinished { .. } | Happened::ToolFinished { .. } | Happened::Noted { .. }) => continue,
            };
            let status = json!({ "state": "TASK_STATE_WORKING", "message": message(&self.run, &self.thread, &words) });
            if !self.update(status).await {
                return false;
            }
        }
        let rest = match turn::rest(api, &begun.run).await {
            Ok(rest) => rest,
            Err(problem) => Rest::Failed(problem.message),
        };
        if let Rest::Answered(answered) = &rest {
            let missing = events.missing(&answered.text);
            let mut parts = Vec::new();
            if !missing.is_empty() {
                parts.push(json!({ "text": missing }));
            }
            if !answered.sources.is_empty() {
                parts.push(json!({ "data": { "sources": answered.sources } }));
            }
            if !parts.is_empty() && !self.artifact(json!(parts), has_text, true).await {
                return false;
            }
        }
        self.update(status(&self.run, &self.thread, Some(&rest))).await
    }
}

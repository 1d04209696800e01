//! Flows as models of OpenAI's API, for its SDKs and for the programs that were written for it.
//!
//! ```text
//! GET  /v1/models · /v1/models/{model}                       the flows
//! POST /v1/chat/completions                                  a conversation that the client keeps
//! POST /v1/responses                                         one that is kept here; previous_response_id continues it
//! GET · DELETE /v1/responses/{id}, POST …/cancel, GET …/input_items
//! ```
//!
//! The model's name is a flow's. A question to a person is the assistant's message, and the next message answers it: in chat completions the message ends with a
//! Markdown comment that names the run ([`asks`]), which the client sends back with the conversation; a response is answered by `previous_response_id`.
//! Calls of the client's own functions, and answers in a form of the client's, are made by the flow `completion`.

mod asks;
mod chat;
mod object;
mod responses;
mod stored;

use std::sync::Arc;

use agents::langserve::SHOULD_RETRY;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use wire::openai::{Choice, Conversation, Function, Options, RequestError};

use crate::api::Api;
use crate::problem::Problem;
use crate::turn::{self, TurnOutcome, Wrapper};
pub(crate) use object::calls as call_list;
use stored::Streams;

/// What the routes stand on.
#[derive(Clone)]
struct OpenAi {
    api: Api,
    streams: Arc<Streams>,
}

pub(crate) fn routes(api: &Api) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::show).delete(responses::remove))
        .route("/v1/responses/{id}/cancel", post(responses::cancel))
        .route("/v1/responses/{id}/input_items", get(responses::input_items))
        .with_state(OpenAi { api: api.clone(), streams: Arc::default() })
}

async fn models(State(openai): State<OpenAi>) -> Json<Value> {
    let flows = openai.api.0.backend.flows();
    let data: Vec<Value> = flows.iter().filter(|flow| flow.is_shown).map(|flow| object::model(&flow.name, &flow.about)).collect();
    Json(json!({ "object": "list", "data": data }))
}

async fn model(State(openai): State<OpenAi>, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    turn::must_know(&openai.api, &name)?;
    let flows = openai.api.0.backend.flows();
    let about = flows.iter().find(|flow| flow.name == name).map(|flow| flow.about.clone()).unwrap_or_default();
    Ok(Json(object::model(&name, &about)))
}

/// What went wrong, as OpenAI's clients read it.
pub(crate) fn error(problem: &Problem) -> Response {
    let status = match (problem.status, problem.kind) {
        // What cannot be read or is of the wrong kind is a bad request there.
        (StatusCode::UNPROCESSABLE_ENTITY, "invalid") => StatusCode::BAD_REQUEST,
        (status, _) => status,
    };
    let mut response = (status, Json(json!({ "error": error_body(problem) }))).into_response();
    // A run that failed would fail again, and cost as much.
    if matches!(problem.kind, RUN_FAILED | CANCELLED | UNFIT) {
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if let Some(seconds) = problem.retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

const RUN_FAILED: &str = "run_failed";
const CANCELLED: &str = "cancelled";
/// The model kept to neither the client's tools nor its schema.
const UNFIT: &str = "unusable_reply";

fn error_body(problem: &Problem) -> Value {
    let kind = match problem.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    let code = match problem.kind {
        "limit" if problem.status == StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
        "refused" if problem.status == StatusCode::UNAUTHORIZED => "invalid_api_key",
        kind => kind,
    };
    json!({ "message": problem.message, "type": kind, "param": null, "code": code })
}

impl From<RequestError> for Problem {
    fn from(wrong: RequestError) -> Self {
        Problem::bad_request(format!("{}: {}", wrong.field, wrong.why))
    }
}

/// Why a run has no answer.
fn ended_badly(rest: &TurnOutcome) -> Option<Problem> {
    match rest {
        // `completion` fails if the model did not keep to the client's form.
        TurnOutcome::Failed(why) if why.contains("unusable reply") => Some(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, UNFIT, why.as_str())),
        TurnOutcome::Failed(why) => Some(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, RUN_FAILED, format!("the run failed: {why}"))),
        TurnOutcome::Cancelled(why) => Some(Problem::new(StatusCode::CONFLICT, CANCELLED, format!("the run was stopped: {why}"))),
        TurnOutcome::Answered(_) | TurnOutcome::Question(_) => None,
    }
}

/// The client's tools and form.
pub(crate) struct Form {
    functions: Vec<Function>,
    choice: Choice,
    schema: Option<Value>,
}

impl Form {
    pub(crate) fn of(tools: Option<&[Value]>, choice: Option<&Value>, field: &str, format: Option<&Value>) -> Result<Form, Problem> {
        let functions = wire::openai::functions(tools.unwrap_or_default())?;
        let schema = wire::openai::format_schema(field, format)?;
        let schemas = functions.iter().map(|function| ("tools", &function.schema)).chain(schema.iter().map(|schema| (field, schema)));
        for (field, schema) in schemas {
            if let Err(structured::NotJson::Schema(why)) = structured::check(Value::Null, schema) {
                return Err(Problem::bad_request(format!("{field}: that is no JSON schema: {why}")));
            }
        }
        let choice = wire::openai::choice(choice, &functions)?;
        Ok(Form { functions, choice, schema })
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.functions.is_empty() && self.schema.is_none()
    }

    /// As the flow `completion` takes it.
    pub(crate) fn wrapper(&self, request: Value) -> Wrapper {
        let tools: Vec<Value> =
            self.functions.iter().map(|one| json!({ "name": one.name, "description": one.description, "schema": one.schema })).collect();
        let choice = match &self.choice {
            Choice::Auto => json!("auto"),
            Choice::None => json!("none"),
            Choice::Required => json!("required"),
            Choice::Named(name) => json!({ "named": name }),
        };
        let fields = [("tools", json!(tools)), ("choice", choice), ("schema", json!(self.schema)), ("request", request)];
        Wrapper { flow: "completion", fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>() }
    }

    /// The answer fits the client's schema; that is checked although the model was given the schema.
    fn check(&self, output: &Value) -> Result<(), Problem> {
        let (Some(schema), None) = (&self.schema, output.get("tool_calls")) else { return Ok(()) };
        let parsed = output.get("parsed").cloned().unwrap_or_default();
        let checked = structured::check(parsed, schema);
        checked.map(|_| ()).map_err(|why| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, UNFIT, format!("the answer does not fit the schema: {why}")))
    }
}

/// What is to be started for a conversation.
pub(crate) fn turn_of(model: &str, conversation: Conversation, options: Option<Options>, wrapper: Option<Wrapper>) -> turn::Turn {
    let Conversation { instructions, history, mut question, results, is_tainted } = conversation;
    if !results.is_empty() {
        question = format!("{question}\n\nResults of the tools that were called for this:\n{}", results.join("\n"));
    }
    let new_run = turn::new_run_with(model, question, options.unwrap_or_default());
    turn::Turn { new_run, history: turn::with_instructions(&instructions, history), is_tainted, wrapper }
}

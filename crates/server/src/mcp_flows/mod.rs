//! Flows for MCP hosts: every flow is a tool and a prompt, and documents, answers and their sources are resources. At `/mcp` of `baton serve`, and over standard
//! input and output (`baton mcp flows`).
//!
//! A call of a flow is a run. Its steps and tools are sent as progress, and cancelling the call stops the run. A question to a person is put to the host by
//! elicitation: as a request of its own to hosts of the earlier revisions, as an `input_required` result to hosts of 2026-07-28, whose `requestState` names the run.
//! Hosts that cannot ask anybody receive the question as text, and the tool [`ANSWER`] takes the answer.

mod elicit;
mod resources;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use graph::UserId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, Resource, Role, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ServerHandler, model::ElicitationAction};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use turns::{Owner, TurnLimits, Turns};

use crate::api::Api;
use crate::guard::Identity;
use crate::mcp;
use crate::oidc;
use crate::problem::Problem;
use crate::turn::{self, Answered, StartedTurn, Turn, TurnEvent, TurnHeaders, TurnOutcome};

/// Sessions at the same time, of all users and of one; idle ones end after some minutes.
const SESSIONS_MAX: usize = 256;
const SESSIONS_OF_USER_MAX: usize = 32;
const SESSION_HEADER: &str = "mcp-session-id";
/// The tool that takes an answer to a question of a run.
const ANSWER: &str = "answer_question";
/// Questions in one call.
const QUESTIONS_MAX: usize = 20;

pub(crate) fn routes(api: &Api) -> Router {
    let (api, places) = (api.clone(), session_places());
    let of_sessions = places.clone();
    // Called while a request is handled, which is read for its user.
    let make = move || match of_sessions.try_take(&session_owner()) {
        Some(place) => Ok(Flows { api: api.clone(), who: None, _place: Some(place) }),
        None => Err(std::io::Error::other("too many sessions are open; try again later")),
    };
    Router::new().route_service("/mcp", mcp::fallible_service(make)).layer(from_fn_with_state(places, admitted))
}

fn session_places() -> Arc<Turns> {
    let (at_once_max, of_owner_max) = (SESSIONS_MAX, SESSIONS_OF_USER_MAX);
    Turns::new(TurnLimits { at_once_max, of_owner_max, light_max: Duration::MAX, ..TurnLimits::one_each(SESSIONS_MAX) })
}

fn session_owner() -> Owner {
    store::reader().map(|user| user.to_string())
}

/// Refuses a request that would need a session of its own where there is none left for its user: the transport has no status for that.
async fn admitted(State(places): State<Arc<Turns>>, request: Request, next: Next) -> Response {
    let has_session = request.headers().contains_key(SESSION_HEADER);
    if !has_session && places.try_take(&session_owner()).is_none() {
        let words = format!("{SESSIONS_OF_USER_MAX} of your sessions, or all {SESSIONS_MAX} of this server, are open; end one, or try again later");
        return Problem::too_many(words, 5).into_response();
    }
    next.run(request).await
}

/// Where hosts learn how to sign in, without a token.
pub(crate) fn open_routes(api: &Api) -> Router {
    oidc::resource_routes(api)
}

/// A refusal before the MCP session begins, as a JSON-RPC error.
pub(crate) fn error(problem: &Problem) -> Response {
    let message = match problem.status {
        StatusCode::NOT_FOUND => "there is no such session, or it has ended; initialize again",
        _ => problem.message.as_str(),
    };
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
    (problem.status, axum::Json(body)).into_response()
}

/// One session over a stream, for the account that runs this program.
pub async fn serve(api: &Api, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<(), String> {
    let who = Identity { user: UserId::default(), is_operator: true };
    let session = Flows { api: api.clone(), who: Some(who), _place: None }.serve(stream).await;
    let session = session.map_err(|error| format!("the session did not begin: {error}"))?;
    session.waiting().await.map(|_| ()).map_err(|error| format!("the session broke off: {error}"))
}

struct Flows {
    api: Api,
    /// The user of the session; over HTTP every request names its user.
    who: Option<Identity>,
    _place: Option<turns::Turn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    question: String,
    #[serde(default)]
    thread: Option<String>,
    #[serde(default)]
    approve: bool,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(default)]
    settings: std::collections::BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerArguments {
    run: String,
    answer: String,
}

fn failed(problem: &Problem) -> ErrorData {
    ErrorData::invalid_params(problem.message.clone(), Some(json!({ "kind": problem.kind, "status": problem.status.as_u16() })))
}

fn object(value: Value) -> Arc<Map<String, Value>> {
    Arc::new(match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    })
}

impl Flows {
    fn who(&self, context: &RequestContext<RoleServer>) -> Result<Identity, ErrorData> {
        let of_request = || context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Identity>().cloned());
        self.who.clone().or_else(of_request).ok_or_else(|| ErrorData::internal_error("the session has no user", None))
    }

    fn terms(context: &RequestContext<RoleServer>) -> Result<TurnHeaders, ErrorData> {
        let headers = context.extensions.get::<Parts>().map(|parts| parts.headers.clone()).unwrap_or_default();
        let key = context.meta.0.0.get(mcp_hub::repeatability::KEY).and_then(Value::as_str);
        Ok(TurnHeaders::of(&headers).map_err(|problem| failed(&problem))?.or_key(key))
    }

    fn tools(&self) -> Vec<Tool> {
        let flow = |flow: &wire::api::Flow| {
            let mut properties = json!({
                "question": { "type": "string", "description": "What to answer or do" },
                "thread": { "type": "string", "description": "The conversation it continues; a new one otherwise" },
                "strict": { "type": "boolean", "description": "Remove sentences that no source supports" },
                "settings": { "type": "object", "description": "Settings of the flow by name" },
            });
            if flow.can_approve {
                properties["approve"] = json!({ "type": "boolean", "description": "A person agrees to the plan first" });
            }
            let schema = json!({ "type": "object", "required": ["question"], "properties": properties, "additionalProperties": false });
            Tool::new(flow.name.clone(), description_of(flow), object(schema))
                .with_title(flow.title.clone())
                .with_raw_output_schema(object(output_schema()))
                .with_annotations(ToolAnnotations::new().read_only(false).open_world(true))
        };
        let mut tools: Vec<Tool> = self.api.0.backend.flows().iter().filter(|flow| flow.is_shown).map(flow).collect();
        let schema = json!({
            "type": "object",
            "required": ["run", "answer"],
            "properties": { "run": { "type": "string", "description": "The run that asks" }, "answer": { "type": "string", "description": "Plain words, or JSON that fits the question's schema" } },
            "additionalProperties": false,
        });
        let about = "Gives a person's answer to a run that asks something. Only for answers that a person gave.";
        tools.push(Tool::new(ANSWER, about, object(schema)).with_title("Answer a question of a run"));
        tools
    }

    /// Follows a run to its rest, telling its progress. Stops it when the call is cancelled.
    async fn follow(&self, begun: &mut StartedTurn, context: &RequestContext<RoleServer>, steps: &mut f64) -> Result<TurnOutcome, ErrorData> {
        let token = context.meta.get_progress_token();
        if let Some(mut events) = begun.events() {
            loop {
                let happened = tokio::select! {
                    happened = events.next() => happened,
                    () = context.ct.cancelled() => {
                        // One that is over by now is not stopped.
                        let _ = self.api.0.engine.cancel(&begun.run, "the call was cancelled").await;
                        return Err(ErrorData::internal_error("cancelled", None));
                    }
                };
                let Some(happened) = happened else { break };
                let words = match happened {
                    TurnEvent::StepStarted { step } => step,
                    TurnEvent::ToolStarted { tool, .. } => format!("calls {tool}"),
                    TurnEvent::ToolFinished { tool, result: Err(why), .. } => format!("{tool} failed: {why}"),
                    TurnEvent::StepFinished { .. } | TurnEvent::Text(_) | TurnEvent::ToolFinished { .. } | TurnEvent::Noted { .. } => continue,
                };
                *steps += 1.0;
                if let Some(token) = token.clone() {
                    // Nobody may be listening any more.
                    let _ = context.peer.notify_progress(ProgressNotificationParam::new(token, *steps).with_message(words)).await;
                }
            }
        }
        turn::outcome(&self.api, &begun.run).await.map_err(|problem| failed(&problem))
    }

    /// Follows a run until it is answered, asking the host what it asks.
    async fn finish(&self, who: &Identity, mut begun: StartedTurn, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let mut steps = 0.0;
        for _ in 0..QUESTIONS_MAX {
            let asks = match self.follow(&mut begun, context, &mut steps).await? {
                TurnOutcome::Answered(answered) => return Ok(result(&begun, &answered).into()),
                TurnOutcome::Failed(why) => return Ok(CallToolResult::error(vec![ContentBlock::text(format!("the run failed: {why}"))]).into()),
                TurnOutcome::Cancelled(why) => {
                    return Ok(CallToolResult::error(vec![ContentBlock::text(format!("the run was stopped: {why}"))]).into());
                }
                TurnOutcome::Question(asks) => asks,
            };
            let has_rounds = context.peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28);
            if has_rounds {
                let requests = elicit::requests(&asks);
                return Ok(InputRequiredResult::new(Some(requests), Some(begun.run.to_string())).into());
            }
            if !elicit::can(&context.peer) {
                return Ok(elicit::question_result(&begun, &asks).into());
            }
            let answered = tokio::select! {
                answered = context.peer.create_elicitation(elicit::params(&asks)) => answered,
                () = context.ct.cancelled() => {
                    let _ = self.api.0.engine.cancel(&begun.run, "the call was cancelled").await;
                    return Err(ErrorData::internal_error("cancelled", None));
                }
            };
            let answered = answered.map_err(|error| ErrorData::internal_error(format!("the question was not answered: {error}"), None))?;
            begun = self.answer(who, begun.run.as_str(), &answered.action, answered.content).await?;
        }
        Err(ErrorData::internal_error(format!("the run asks more than {QUESTIONS_MAX} questions"), None))
    }

    /// Hands on what a person did with a question.
    async fn answer(&self, who: &Identity, run: &str, action: &ElicitationAction, content: Option<Value>) -> Result<StartedTurn, ErrorData> {
        let refused = |problem: Problem| failed(&problem);
        let (row, asks) = turn::open_question(&self.api, who, run).await.map_err(refused)?;
        let value = match action {
            ElicitationAction::Accept => elicit::value(&asks, &content.unwrap_or_default()),
            // A no where the question has one.
            ElicitationAction::Decline => turn::answer_value("no", &asks.waiting).ok().filter(|value| !value.is_string()),
            // It is not exhaustive: whatever else there will be is no answer.
            _ => None,
        };
        match value {
            Some(value) => turn::give(&self.api, who, row, &asks, value, true).await.map_err(refused),
            None => {
                let begun = turn::found(&self.api, who, row, false).await.map_err(refused)?;
                self.api.0.engine.cancel(&begun.run, "declined by the user").await.map_err(|error| refused(error.into()))?;
                Ok(begun)
            }
        }
    }
}

/// What hosts show of a flow. A flow of a library need not describe itself.
fn description_of(flow: &wire::api::Flow) -> String {
    if flow.about.is_empty() { flow.title.clone() } else { format!("{}: {}", flow.title, flow.about) }
}

fn output_schema() -> Value {
    json!({
        "type": "object",
        "required": ["run", "thread"],
        "properties": {
            "answer": { "type": "string" },
            "run": { "type": "string" },
            "thread": { "type": "string" },
            "sources": { "type": "array", "items": { "type": "object" } },
            "asks": { "type": "object", "description": "A question to a person; the tool answer_question takes the answer" },
        },
    })
}

fn result(begun: &StartedTurn, answered: &Answered) -> CallToolResult {
    let mut content = vec![ContentBlock::text(answered.text.clone())];
    for (at, source) in answered.sources.iter().enumerate() {
        let uri = resources::source_uri(begun.run.as_str(), at + 1);
        let link = Resource::new(uri, format!("[{}] {}", at + 1, source.title)).with_mime_type("text/plain");
        content.push(ContentBlock::resource_link(match &source.address {
            Some(address) => link.with_description(address.clone()),
            None => link,
        }));
    }
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(json!({ "answer": answered.text, "run": begun.run, "thread": begun.thread, "sources": answered.sources }));
    result
}

impl ServerHandler for Flows {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build())
            .with_server_info(Implementation::new("baton", env!("CARGO_PKG_VERSION")))
            .with_instructions("Each tool is a flow that answers a question or does a task, with its sources. `auto` picks one.")
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    /// The transport compares parameters with the headers they stand in.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let who = self.who(&context)?;
        let given = Value::Object(request.arguments.unwrap_or_default());
        let wrong = |error: serde_json::Error| ErrorData::invalid_params(format!("the arguments: {error}"), None);
        if request.name == ANSWER {
            let AnswerArguments { run, answer } = serde_json::from_value(given).map_err(wrong)?;
            let begun = turn::answer(&self.api, &who, &run, &answer, true).await.map_err(|problem| failed(&problem))?;
            return self.finish(&who, begun, &context).await;
        }
        if self.get_tool(&request.name).is_none() {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        }
        // A call that is repeated with an answer goes on where it asked.
        if let (Some(run), Some(answers)) = (&request.request_state, &request.input_responses) {
            let (action, content) = elicit::response(answers);
            let begun = self.answer(&who, run, &action, content).await?;
            return self.finish(&who, begun, &context).await;
        }
        let Arguments { question, thread, approve, strict, settings } = serde_json::from_value(given).map_err(wrong)?;
        let new_run = wire::api::NewRun { thread, approve, strict, settings, ..turn::new_run(&request.name, question) };
        // What a host's model wrote may not be the user's own words.
        let turn = Turn { new_run, history: Vec::new(), is_tainted: true, wrapper: None };
        let begun = turn::begin(&self.api, &who, "mcp", &Self::terms(&context)?, turn, true).await;
        match begun {
            Ok(begun) => self.finish(&who, begun, &context).await,
            // An error that the caller can correct.
            Err(problem) => Ok(CallToolResult::error(vec![ContentBlock::text(problem.message)]).into()),
        }
    }

    async fn list_prompts(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListPromptsResult, ErrorData> {
        let question = || vec![PromptArgument::new("question").with_description("What to answer or do").with_required(true)];
        let flows = self.api.0.backend.flows();
        let prompt =
            |flow: &wire::api::Flow| Prompt::new(flow.name.clone(), Some(description_of(flow)), Some(question())).with_title(flow.title.clone());
        Ok(ListPromptsResult::with_all_items(flows.iter().filter(|flow| flow.is_shown).map(prompt).collect()))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, _: RequestContext<RoleServer>) -> Result<GetPromptResponse, ErrorData> {
        let flows = self.api.0.backend.flows();
        let flow = flows.iter().find(|flow| flow.is_shown && flow.name == request.name);
        let flow = flow.ok_or_else(|| ErrorData::invalid_params(format!("there is no prompt {:?}", request.name), None))?;
        let question = request.arguments.as_ref().and_then(|arguments| arguments.get("question")).and_then(Value::as_str).unwrap_or_default();
        if question.trim().is_empty() {
            return Err(ErrorData::invalid_params("the argument question is missing", None));
        }
        let text = format!("Call the tool `{}` with this question, and pass on its answer with its sources:\n\n{question}", flow.name);
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description(description_of(flow)).into())
    }

    async fn list_resources(&self, _: Option<PaginatedRequestParams>, context: RequestContext<RoleServer>) -> Result<ListResourcesResult, ErrorData> {
        let who = self.who(&context)?;
        let listed = resources::list(&self.api, &who).await.map_err(|problem| failed(&problem))?;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let who = self.who(&context)?;
        resources::read(&self.api, &who, &request.uri).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, one user could have all of them, and nobody else one.
    #[tokio::test]
    async fn one_user_leaves_sessions_for_the_others() {
        let places = session_places();
        let open = |user: &str| store::reading_for(UserId::from(user), async { places.try_take(&session_owner()) });
        let mut held = Vec::new();
        for _ in 0..SESSIONS_MAX {
            held.extend(open("mallory").await);
        }
        assert_eq!(held.len(), SESSIONS_OF_USER_MAX);
        assert!(open("ada").await.is_some());
        held.pop();
        assert!(open("mallory").await.is_some());
    }
}

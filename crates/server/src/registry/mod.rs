//! The registry: every tool of every server in one place, over plain HTTP and as one MCP server.
//!
//! | | |
//! |---|---|
//! | `GET /health` | whether it responds |
//! | `GET /tools[?enabled=true]` · `GET /tools/{name}` | the list, from the cache · one tool |
//! | `POST /tools/{name}/call` | `{"arguments": {…}, "deadline_ms"?, "key"?}` |
//! | `POST /tools/{name}/enable` · `/disable` | kept between starts; a server that is a program wants `{"confirm": COMMAND LINE}` |
//! | `GET /search?q=…[&size=10]` | the tools that fit a question |
//! | `GET /servers` · `POST /servers/{name}/enable` · `/disable` | how each server is |
//! | `POST /servers/{name}/login` · `/logout` | signs in at a remote server with OAuth: `{"address"}` is opened in a browser · forgets its tokens |
//! | `POST /import` | `{"address": "https://registry…"}` or `{"list": …}`; what comes in is switched off |
//! | `/mcp` | all tools that are switched on, as one MCP server |
//!
//! Errors are `{"error": {"kind", "message"}}`.

mod export;
mod login;
mod loopback;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use audit::{Event, EventKind, Recorder};
use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use graph::{Failure, FailureKind, Retry};
use mcp_hub::{CallOptions, Config, Health, Kind, ServerStatus, SignIn, ToolInfo, Tools, import};
use serde::Deserialize;
use serde_json::json;
use wire::registry as wire_registry;

use crate::guard::{self, Guard, Identity};
use crate::mcp;
pub use loopback::Loopback;

const BODY_BYTES_MAX: usize = 32 << 20;
const DEADLINE: Duration = Duration::from_secs(60);
const DEADLINE_MAX: Duration = Duration::from_secs(600);
const SIZE: usize = 10;
const SIZE_MAX: usize = 200;

/// The caller that the guard admitted.
type Caller = Option<Extension<Identity>>;

/// The registry over a set of tools.
#[derive(Clone)]
pub struct Registry {
    tools: Tools,
    /// The `mcp.json` that imports are written to.
    imported: Option<PathBuf>,
    recorder: Option<Recorder>,
    /// Sign-ins at remote servers that were begun.
    pending: login::Pending,
}

impl Registry {
    /// The registry of these tools; without `imported`, imports are refused.
    pub fn new(tools: Tools, imported: Option<PathBuf>) -> Self {
        Registry { tools, imported, recorder: None, pending: login::Pending::default() }
    }

    /// Records imports, switches and calls in the audit log.
    pub fn with_audit(self, recorder: Recorder) -> Self {
        Registry { recorder: Some(recorder), ..self }
    }

    /// What cannot be recorded is refused.
    async fn record(&self, who: &Caller, what: EventKind, event: impl FnOnce(Event) -> Event) -> Result<(), Failure> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        let user = who.as_ref().map_or("local", |Extension(who)| who.user.as_str());
        let refused = |error| Failure::new(FailureKind::Internal, format!("nothing is done that cannot be recorded: {error}"));
        recorder.record(event(Event::new(what, user))).await.map_err(refused)
    }

    /// The routes of the registry, with access checks.
    pub fn router(self, guard: &Guard) -> Router {
        let open = login::open_routes(&self, false);
        self.routes(guard).layer(from_fn_with_state(guard.clone(), guard::check)).merge(open)
    }

    /// Where browsers are redirected to after a sign-in, beside a page and without a token.
    pub(crate) fn open_routes(&self) -> Router {
        login::open_routes(self, true)
    }

    /// The caller puts the guard before it.
    pub(crate) fn routes(self, guard: &Guard) -> Router {
        let signing = login::routes(&self, guard);
        let (tools, recorder) = (self.tools.clone(), self.recorder.clone());
        Router::new()
            .route("/health", get(health))
            .route("/tools", get(list))
            .route("/tools/{name}", get(describe))
            .route("/tools/{name}/call", post(call))
            .route("/tools/{name}/enable", post(enable))
            .route("/tools/{name}/disable", post(disable))
            .route("/search", get(search))
            .route("/servers", get(servers))
            .route("/servers/{name}/enable", post(enable))
            .route("/servers/{name}/disable", post(disable))
            .route("/import", post(import))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(self)
            .merge(signing)
            .route_service("/mcp", mcp::service(move || export::Export::new(tools.clone(), recorder.clone())))
            .fallback(|| async { problem(StatusCode::NOT_FOUND, "refused", "there is nothing here; GET /tools, /servers, /search, or MCP at /mcp") })
    }
}

async fn health(State(registry): State<Registry>) -> Response {
    let servers = registry.tools.health();
    let down = servers.iter().filter(|server| server.enabled && matches!(server.status, ServerStatus::Down { .. })).count();
    Json(json!({"status": "ok", "servers": servers.len(), "down": down, "version": env!("CARGO_PKG_VERSION")})).into_response()
}

#[derive(Deserialize)]
struct Filter {
    enabled: Option<bool>,
    server: Option<String>,
}

async fn list(State(registry): State<Registry>, Query(filter): Query<Filter>) -> Json<wire_registry::Tools> {
    let tools = registry.tools.list().await;
    let fits = |tool: &&std::sync::Arc<ToolInfo>| {
        filter.enabled.is_none_or(|enabled| tool.enabled == enabled) && filter.server.as_ref().is_none_or(|server| tool.server == *server)
    };
    Json(wire_registry::Tools { tools: tools.iter().filter(fits).map(|info| tool(info)).collect() })
}

async fn describe(State(registry): State<Registry>, Path(name): Path<String>) -> Result<Json<wire_registry::Tool>, Problem> {
    Ok(Json(tool(&registry.tools.describe(&name).await?)))
}

async fn call(
    State(registry): State<Registry>,
    who: Caller,
    Path(name): Path<String>,
    body: Result<Json<wire_registry::Call>, JsonRejection>,
) -> Result<Json<wire_registry::Called>, Problem> {
    let Json(call) = body?;
    let deadline = call.deadline_ms.map_or(DEADLINE, Duration::from_millis).min(DEADLINE_MAX);
    let began = Instant::now();
    let options = CallOptions { key: call.key, deadline, ..CallOptions::default() };
    registry.record(&who, EventKind::ToolCall, |event| event.tool(name.as_str()).arguments(&call.arguments).detail("through the registry")).await?;
    let found = registry.tools.call(&name, &call.arguments, &options).await?;
    let spans = found.spans.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(|error| internal(&error.to_string()))?;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Json(wire_registry::Called { text: found.text, data: found.data, spans, took_ms }))
}

/// Switching on a server that is a program starts it, as the account of this server. That is confirmed by repeating the command line, so that nobody starts
/// another program than the one that was shown.
async fn enable(State(registry): State<Registry>, who: Caller, Path(name): Path<String>, body: Bytes) -> Result<Json<serde_json::Value>, Problem> {
    let confirm = match body.is_empty() {
        true => None,
        false => serde_json::from_slice::<Enable>(&body).map_err(|error| Failure::new(FailureKind::Invalid, format!("the body: {error}")))?.confirm,
    };
    if let Some(program) = registry.tools.program_to_start(&name)
        && confirm.as_deref() != Some(program.as_str())
    {
        let message =
            format!("{name} is a program that this server would start: {program}. To start it, send {{\"confirm\": …}} with this command line");
        let error = json!({ "error": { "kind": "confirm", "message": message, "program": program } });
        return Err(Problem((StatusCode::CONFLICT, Json(error)).into_response()));
    }
    registry.record(&who, EventKind::ToolEnabled, |event| event.tool(name.as_str())).await?;
    registry.tools.enable(&name, true).await?;
    Ok(Json(json!({"name": name, "enabled": true})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enable {
    confirm: Option<String>,
}

async fn disable(State(registry): State<Registry>, who: Caller, Path(name): Path<String>) -> Result<Json<serde_json::Value>, Problem> {
    registry.record(&who, EventKind::ToolDisabled, |event| event.tool(name.as_str())).await?;
    registry.tools.enable(&name, false).await?;
    Ok(Json(json!({"name": name, "enabled": false})))
}

#[derive(Deserialize)]
struct Question {
    q: String,
    size: Option<usize>,
}

async fn search(State(registry): State<Registry>, Query(question): Query<Question>) -> Json<wire_registry::Hits> {
    let size = question.size.unwrap_or(SIZE).min(SIZE_MAX);
    let hits = registry.tools.search(&question.q, size).await;
    Json(wire_registry::Hits { tools: hits.iter().map(|(info, score)| wire_registry::Hit { score: *score, tool: tool(info) }).collect() })
}

async fn servers(State(registry): State<Registry>) -> Json<wire_registry::Servers> {
    Json(wire_registry::Servers { servers: registry.tools.health().into_iter().map(server).collect() })
}

async fn import(
    State(registry): State<Registry>,
    who: Caller,
    body: Result<Json<wire_registry::Import>, JsonRejection>,
) -> Result<Json<wire_registry::ImportReport>, Problem> {
    let Json(asked) = body?;
    let list = match asked {
        wire_registry::Import::Address(address) => import::fetch(&address).await.map_err(|why| Failure::new(FailureKind::Network, why))?,
        wire_registry::Import::List(list) => list,
    };
    let imported = registry.import(&list)?;
    registry.record(&who, EventKind::ServersImported, |event| event.detail(imported.added.join(", "))).await?;
    Ok(Json(imported))
}

impl Registry {
    /// Writes the servers of a list to the file and adds them, switched off.
    pub fn import(&self, list: &serde_json::Value) -> Result<wire_registry::ImportReport, Failure> {
        let Some(path) = &self.imported else {
            return Err(Failure::new(FailureKind::Refused, "this registry has no place to keep imports"));
        };
        let imported = import::into_file(list, path, &|name| self.tools.is_reserved(name)).map_err(|why| Failure::new(FailureKind::Invalid, why))?;
        let config = Config::read_imported(path, &|name| std::env::var(name).ok()).map_err(|why| Failure::new(FailureKind::Internal, why))?;
        for name in &imported.added {
            if let Some(server) = config.servers.get(name) {
                self.tools.add(name, server.clone())?;
            }
        }
        Ok(imported)
    }
}

/// A tool in the form of the registry.
pub fn tool(info: &ToolInfo) -> wire_registry::Tool {
    wire_registry::Tool {
        name: info.name.clone(),
        server: info.server.clone(),
        title: info.title.clone(),
        description: info.description.clone(),
        schema: info.schema.clone(),
        output_schema: info.output_schema.clone(),
        read_only: info.hints.read_only,
        destructive: info.hints.destructive,
        idempotent: info.hints.idempotent,
        open_world: info.hints.open_world,
        enabled: info.enabled,
        healthy: info.healthy,
    }
}

/// A server in the form of the registry.
pub fn server(health: Health) -> wire_registry::Server {
    let kind = match health.kind {
        Kind::Stdio => wire_registry::ServerKind::Stdio,
        Kind::Http => wire_registry::ServerKind::Http,
        Kind::Local => wire_registry::ServerKind::Local,
    };
    let is = match health.status {
        ServerStatus::Idle => wire_registry::Health::Idle,
        ServerStatus::Connecting => wire_registry::Health::Connecting,
        ServerStatus::Up { version, name } => wire_registry::Health::Up { version, software: name },
        ServerStatus::Down { why, retry_in_ms, failures } => wire_registry::Health::Down { why, retry_in_ms, failures },
    };
    let sign_in = match health.sign_in {
        SignIn::None => None,
        SignIn::Needed => Some(wire_registry::SignIn::Needed),
        SignIn::Done => Some(wire_registry::SignIn::Done),
    };
    wire_registry::Server { sign_in, name: health.server, kind, enabled: health.enabled, trusted: health.trusted, tools: health.tools, health: is }
}

/// A failure as an HTTP response.
struct Problem(Response);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.0
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.kind {
            FailureKind::Refused => StatusCode::NOT_FOUND,
            FailureKind::Invalid => StatusCode::BAD_REQUEST,
            FailureKind::Tool => StatusCode::UNPROCESSABLE_ENTITY,
            FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            FailureKind::Network => StatusCode::BAD_GATEWAY,
            FailureKind::Limit | FailureKind::Budget => StatusCode::PAYLOAD_TOO_LARGE,
            FailureKind::InDoubt => StatusCode::CONFLICT,
            FailureKind::Need | FailureKind::Reference | FailureKind::Cancelled | FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = problem(status, &failure.kind.to_string(), &failure.message);
        if let Retry::AfterMs(ms) = failure.retry
            && let Ok(seconds) = HeaderValue::from_str(&ms.div_ceil(1_000).to_string())
        {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        Problem(response)
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Problem(problem(rejection.status(), "invalid", &rejection.body_text()))
    }
}

fn internal(why: &str) -> Problem {
    Problem(problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", why))
}

pub(crate) fn problem(status: StatusCode, kind: &str, message: &str) -> Response {
    let error = wire_registry::ErrorBody { kind: kind.to_owned(), message: message.to_owned() };
    (status, Json(wire_registry::Error { error })).into_response()
}

#[cfg(test)]
mod tests;

//! Flows over LangServe's protocol, for its clients and for supervisors in other processes.
//!
//! ```text
//! POST /{path}/invoke | batch | stream | stream_log | stream_events        GET /{path}/input_schema | output_schema | config_schema
//! GET  /agent.json                                                         what this agent can do
//! ```
//!
//! A flow is served in one of three [`InputShape`]es: as an agent of a team, whose state is `messages`, `next`, `context`; as something that answers a question,
//! which takes the same state, or `{"question": …}`, or a text; or with its own input and output as they are.
//!
//! `Idempotency-Key` names the run: a second request with the same key returns the result of the first, also after a restart, and nothing is performed
//! twice. A run continues when its caller disconnects. `x-baton-depth` is the number of agents between a person and the call; agents that call one another
//! in a circle are stopped at the engine's `depth_max`. A run that waits for a person answers with its questions under `context.waiting`; the answers are
//! sent to the same endpoint under `context.answers`, each with the `value` beside the fields it came with.
//!
//! A run belongs to its authenticated caller, and so must the thread it names (`configurable.thread_id`) and what it answers.
//!
//! `config.configurable` holds the flow's settings by name; a wrong one is refused. Keys that LangChain's clients send for themselves are left alone.
//!
//! Errors have LangServe's forms: 422 with a `detail`, and `event: error` in a stream, whose status was sent before.

mod batch;
pub(crate) mod run_config;
mod state;
mod streams;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use agents::langserve::{DEPTH, KEY, SHOULD_RETRY};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::{Engine, EngineError, Order, RunState};
use graph::{Outcome, RunContext, RunId, UserId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use store::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use wire::langserve::{Config, Description, Filter, Invoke, InvokeResponse, Refusal, ResponseMetadata};

use crate::api::{Api, params};
use crate::guard::{self, Guard, Identity};
use crate::problem::Problem;
use crate::traced::traced;
use run_config::RunConfig;
pub use state::InputShape;
use state::RequestShape;

const KEY_BYTES_MAX: usize = 500;

/// A flow, and how it is served.
#[derive(Clone)]
pub struct ServedFlow {
    /// The name of the flow.
    pub flow: String,
    /// The form of its input.
    pub input_shape: InputShape,
    /// Input fields that every run receives; a caller cannot change them.
    pub base: Map<String, Value>,
    /// The settings that a caller may set.
    pub settings: FlowSettings,
}

/// Checks settings that a client sent for a flow, and puts them into the form its input takes.
type ResolveSettings = dyn Fn(Map<String, Value>) -> Result<Value, String> + Send + Sync;

/// What a caller may set for a run.
#[derive(Clone)]
pub struct FlowSettings {
    /// The schema of each setting, by name.
    pub schema: Map<String, Value>,
    /// What the flow is given under `settings` if its caller sets these; `null` if it takes none. An error lists what can be set.
    pub resolve: Arc<ResolveSettings>,
}

impl FlowSettings {
    /// The settings of a flow that has none.
    pub fn none(flow: &str) -> FlowSettings {
        let flow = flow.to_owned();
        let resolve = move |given: Map<String, Value>| match given.is_empty() {
            true => Ok(Value::Null),
            false => Err(format!("the flow {flow} has no settings")),
        };
        FlowSettings { schema: Map::new(), resolve: Arc::new(resolve) }
    }

    /// The settings among what a client configures.
    pub(crate) fn of(&self, config: &Config) -> Result<Value, Refused> {
        let is_setting = |key: &str| !CLIENT_KEYS.contains(&key) && !CLIENT_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        let configured = config.configurable.iter().flatten().filter(|(key, _)| is_setting(key));
        let given: Map<String, Value> = configured.map(|(key, value)| (key.clone(), value.clone())).collect();
        (self.resolve)(given).map_err(|why| Refused::wrong("value_error", &["config", "configurable"], why))
    }
}

/// What LangChain's and LangGraph's clients put into `configurable` for themselves and for checkpointers; none of it is a setting.
const CLIENT_KEYS: [&str; 11] = [
    "assistant_id",
    "checkpoint",
    "checkpoint_id",
    "checkpoint_map",
    "checkpoint_ns",
    "graph_id",
    "run_id",
    "session_id",
    "thread_id",
    "thread_ts",
    "user_id",
];
const CLIENT_PREFIXES: [&str; 2] = ["__", "langgraph_"];

/// What is served. Cheap to clone.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) served: BTreeMap<String, ServedFlow>,
    description: Option<Description>,
    /// The API it is served with, whose limits and counters it shares.
    pub(crate) api: Option<Api>,
}

impl Service {
    /// `served` by path: `graph` is where an agent's own flow is.
    pub fn new(engine: Engine, served: BTreeMap<String, ServedFlow>, description: Option<Description>) -> Service {
        Service(Arc::new(Inner { engine, served, description, api: None }))
    }

    /// As a part of what that serves, over the same engine.
    pub(crate) fn shared(self, api: &Api) -> Service {
        Service(Arc::new(Inner { api: Some(api.clone()), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The routes of the service, with access checks.
    pub fn router(self, guard: &Guard) -> Router {
        self.routes().layer(from_fn_with_state(guard.clone(), guard::check))
    }

    /// Without a guard; the caller adds one.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/{path}/invoke", post(invoke))
            .route("/{path}/batch", post(batch::batch))
            .route("/{path}/stream", post(streams::stream))
            .route("/{path}/stream_log", post(streams::stream_log))
            .route("/{path}/stream_events", post(streams::stream_events))
            .route("/{path}/input_schema", get(input_schema))
            .route("/{path}/output_schema", get(output_schema))
            .route("/{path}/config_schema", get(config_schema))
            .route("/agent.json", get(describe))
            .layer(from_fn(traced))
            .with_state(self)
    }

    fn served(&self, path: &str) -> Result<&ServedFlow, Refused> {
        self.0.served.get(path).ok_or_else(|| Refused::plain(StatusCode::NOT_FOUND, "Not Found"))
    }

    /// A permit for a new run, if the runs of its user are counted. A run of a batch waits for it.
    pub(crate) async fn place(&self, call: &Call) -> Result<Option<OwnedSemaphorePermit>, Refused> {
        let Some(api) = &self.0.api else { return Ok(None) };
        let is_begun = match &call.order.run {
            // The run waits for a person and holds no permit.
            _ if !call.answers.is_empty() => false,
            Some(run) => self.0.engine.store().run(run).await.map_err(|error| Refused::of(error.into()))?.is_some(),
            None => false,
        };
        if is_begun {
            return Ok(None);
        }
        let user = &call.order.context.user;
        api.check_storage(user).await?;
        let place = if call.is_one_of_many { api.0.quota.run_in_turn(user).await? } else { api.0.quota.run(user)? };
        if call.answers.is_empty() {
            api.check_allowance(user, call.order.context.model.as_deref()).await?;
            api.0.metrics.run_started(&call.order.flow);
        }
        Ok(Some(place))
    }

    /// Starts the run, finds it, or delivers answers to it, and waits until it has ended or waits for a person.
    async fn finish(&self, call: Call) -> Result<(RunId, Value), Refused> {
        let Some(place) = self.place(&call).await? else { return call.finish(&self.0.engine).await };
        // A separate task holds the permit until the run rests, also if the caller disconnects.
        let engine = self.0.engine.clone();
        let finishing = tokio::spawn(async move {
            let finished = call.finish(&engine).await;
            drop(place);
            finished
        });
        finishing.await.unwrap_or_else(|error| Err(Problem::internal(&error).into()))
    }
}

/// The caller and its headers.
pub(crate) struct Caller {
    pub(crate) who: Identity,
    pub(crate) headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let who = parts.extensions.get::<Identity>().cloned().ok_or_else(|| Problem::internal(&"LangServe's routes were mounted without a guard"))?;
        Ok(Caller { who, headers: parts.headers.clone() })
    }
}

/// A JSON body within a size and a time. The content type is required, because browsers preflight it across origins.
pub(crate) struct RawJson(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawJson {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        params::must_be(request.headers(), "application/json")?;
        Ok(RawJson(params::read_within(request, |limits| limits.langserve_body_bytes_max, params::JSON_WITHIN).await?))
    }
}

async fn invoke(State(service): State<Service>, Path(path): Path<String>, caller: Caller, RawJson(body): RawJson) -> Result<Response, Refused> {
    let (run, output) = invoked(&service, &path, &caller, &body).await?;
    Ok(json_of(StatusCode::OK, &InvokeResponse { output, metadata: Some(ResponseMetadata { run_id: uuid_of(&run), feedback_tokens: Vec::new() }) }))
}

async fn invoked(service: &Service, path: &str, caller: &Caller, body: &[u8]) -> Result<(RunId, Value), Refused> {
    let served = service.served(path)?;
    let Invoke { input, config, .. } = read(body)?;
    let config = RunConfig::of(service, served, caller, &config).await?;
    let call = Call::of(service, served, caller, input, &config, None)?;
    service.finish(call).await
}

/// One run that is about to be started or answered.
pub(crate) struct Call {
    pub(crate) order: Order,
    shape: RequestShape,
    answers: Vec<state::Answer>,
    settings: Arc<Value>,
    is_one_of_many: bool,
}

impl Call {
    /// `index` is its place in a batch.
    pub(crate) fn of(
        service: &Service,
        served: &ServedFlow,
        caller: &Caller,
        input: Value,
        config: &RunConfig,
        index: Option<usize>,
    ) -> Result<Call, Refused> {
        let Caller { who, headers } = caller;
        let mut base = served.base.clone();
        if let (Some(api), InputShape::Agent | InputShape::Question) = (&service.0.api, served.input_shape) {
            base.extend(api.0.backend.given(&who.user));
        }
        let (input, shape, answers) = state::taken(served.input_shape, base, input)?;
        let mut order = Order {
            is_tainted: shape.is_tainted(),
            depth: depth_of(headers)?,
            context: RunContext { user: who.user.clone(), ..RunContext::default() },
            ..Order::new(&served.flow, input)
        };
        order.title = shape.title();
        order.thread.clone_from(&config.thread);
        order.run = keyed(headers, &who.user, &served.flow, index)?;
        Ok(Call { order, shape, answers, settings: config.settings.clone(), is_one_of_many: index.is_some() })
    }

    /// The order with the settings in its input.
    pub(crate) fn take_order(&mut self) -> Order {
        let mut order = std::mem::replace(&mut self.order, Order::new("", Value::Null));
        if let (Value::Object(fields), false) = (&mut order.input, self.settings.is_null()) {
            fields.insert("settings".to_owned(), Value::clone(&self.settings));
        }
        order
    }

    async fn finish(mut self, engine: &Engine) -> Result<(RunId, Value), Refused> {
        let order = self.take_order();
        let shape = self.shape;
        let (flow, user) = (order.flow.clone(), order.context.user.clone());
        let (run, at) = match self.answers.as_slice() {
            [] => engine.perform(order).await.map_err(Refused::of)?,
            answers => {
                let run = state::answer(engine, &user, &flow, answers).await?;
                let at = engine.wait(&run).await.map_err(Refused::of)?;
                (run, at)
            }
        };
        let output = outcome(engine, &run, at, &shape).await?;
        Ok((run, output))
    }
}

/// The result of a run in the caller's form.
async fn outcome(engine: &Engine, run: &RunId, at: RunState, shape: &RequestShape) -> Result<Value, Refused> {
    match at {
        RunState::Over(closing) => match &closing.outcome {
            Outcome::Done { output } => Ok(shape.shaped_output(output)),
            Outcome::Failed { fault } => Err(Refused::failed(fault.to_string())),
            Outcome::Cancelled { reason } => Err(Refused::failed(format!("it was stopped: {reason}"))),
        },
        RunState::Parked(_) => Ok(shape.waiting(&state::questions(engine, run).await?)),
        RunState::Going => Err(Refused::plain(StatusCode::SERVICE_UNAVAILABLE, "another server drives the run; try again")),
        RunState::Lost(error) => Err(Refused::of(error)),
    }
}

/// The run that a key names. Different users, flows and places in a batch have different runs.
pub(crate) fn keyed(headers: &HeaderMap, user: &UserId, flow: &str, index: Option<usize>) -> Result<Option<RunId>, Refused> {
    let Some(key) = headers.get(KEY) else { return Ok(None) };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Refused::wrong("value_error", &[KEY], format!("a key has 1 to {KEY_BYTES_MAX} bytes")));
    }
    let mut hash = Sha256::new();
    for part in [user.as_str(), flow] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(index.map_or(u64::MAX, |index| index as u64).to_le_bytes());
    hash.update(key.as_bytes());
    let name: String = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(RunId::from(name)))
}

fn depth_of(headers: &HeaderMap) -> Result<u32, Refused> {
    let Some(depth) = headers.get(DEPTH) else { return Ok(0) };
    let depth = depth.to_str().ok().and_then(|depth| depth.trim().parse::<u32>().ok());
    let depth =
        depth.ok_or_else(|| Refused::wrong("int_parsing", &[DEPTH], "it is a number: how many agents stand between a person and this call"))?;
    if depth > DEPTH_MAX {
        let message = format!("this call is {depth} agents deep, and DEPTH_MAX = {DEPTH_MAX}; do these agents call one another in a circle?");
        return Err(Refused::wrong("recursion_loop", &[DEPTH], message));
    }
    Ok(depth)
}

/// As deep as runs may call runs.
const DEPTH_MAX: u32 = 8;

async fn input_schema(State(service): State<Service>, Path(path): Path<String>) -> Response {
    schema(&service, &path, |served| served.input_shape.input_schema(&served.flow))
}

async fn output_schema(State(service): State<Service>, Path(path): Path<String>) -> Response {
    schema(&service, &path, |served| served.input_shape.output_schema(&served.flow))
}

async fn config_schema(State(service): State<Service>, Path(path): Path<String>) -> Response {
    schema(&service, &path, |served| wire::langserve::config_schema(&format!("{}Config", served.flow), &served.settings.schema))
}

fn schema(service: &Service, path: &str, of: impl Fn(&ServedFlow) -> Value) -> Response {
    match service.served(path) {
        Ok(served) => json_of(StatusCode::OK, &of(served)),
        Err(refused) => refused.into_response(),
    }
}

async fn describe(State(service): State<Service>) -> Response {
    match &service.0.description {
        Some(description) => json_of(StatusCode::OK, description),
        None => Refused::plain(StatusCode::NOT_FOUND, "Not Found").into_response(),
    }
}

/// Why a request is refused, with its status.
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    body: Value,
    /// When a retry may succeed.
    again: bool,
    after_s: Option<u64>,
}

impl Refused {
    pub(crate) fn plain(status: StatusCode, message: impl Into<String>) -> Refused {
        Refused { status, body: json!({ "detail": message.into() }), again: status.is_server_error(), after_s: None }
    }

    pub(crate) fn wrong(kind: &str, at: &[&str], message: impl Into<String>) -> Refused {
        let body = serde_json::to_value(Refusal::of(kind, at, message)).unwrap_or_default();
        Refused { status: StatusCode::UNPROCESSABLE_ENTITY, body, again: false, after_s: None }
    }

    /// The run failed. It is stored under its key, so a retry returns the same error.
    fn failed(message: impl Into<String>) -> Refused {
        Refused { again: false, ..Refused::plain(StatusCode::INTERNAL_SERVER_ERROR, message) }
    }

    pub(crate) fn of(error: EngineError) -> Refused {
        match error {
            EngineError::Run(error) => Refused::wrong("value_error", &["input"], error.to_string()),
            EngineError::Busy { .. } | EngineError::Stopping => Refused::plain(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            EngineError::Store(store_error @ StoreError::NotYours { .. }) => Problem::from(store_error).into(),
            EngineError::Store(store_error) => {
                tracing::warn!("a run could not be kept: {store_error}");
                Refused::plain(StatusCode::SERVICE_UNAVAILABLE, store_error.to_string())
            }
            other => Refused::plain(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
        }
    }

    pub(crate) fn message(&self) -> String {
        wire::langserve::error_words(&self.body.to_string(), 2_000)
    }
}

/// Converts a refusal of the API to LangServe's form, with the same message.
impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        let plain = Refused::plain(problem.status, problem.message);
        Refused { again: plain.again || problem.retry_after_s.is_some(), after_s: problem.retry_after_s, ..plain }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = json_of(self.status, &self.body);
        if !self.again {
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if let Some(seconds) = self.after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    engine::in_place(body.len(), || read_here(body))
}

fn read_here<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    if let Ok(read) = serde_json::from_slice(body) {
        return Ok(read);
    }
    // Parsed a second time only after an error, to describe it.
    let value: Value = serde_json::from_slice(body).map_err(|_| Refused {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        body: json!({ "detail": ["Invalid JSON body"] }),
        again: false,
        after_s: None,
    })?;
    let error = serde_json::from_value::<T>(value.clone()).err().map_or_else(|| "it cannot be read".to_owned(), |error| error.to_string());
    Err(match (&value, error.strip_prefix("missing field `").and_then(|rest| rest.split('`').next())) {
        (Value::Object(_), Some(field)) => Refused::wrong("missing", &[field], "Field required"),
        (Value::Object(_), None) => Refused::wrong("value_error", &[], error),
        _ => Refused::wrong("model_type", &[], "Input should be a valid dictionary"),
    })
}

pub(crate) fn json_of(status: StatusCode, value: &impl Serialize) -> Response {
    let (status, body) = match serde_json::to_vec(value) {
        Ok(body) => (status, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, json!({ "detail": error.to_string() }).to_string().into_bytes()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Clients of LangServe read the id of a run as a UUID; ours are the same digits without the dashes.
pub(crate) fn uuid_of(run: &RunId) -> String {
    let text = run.as_str();
    match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]),
        false => text.to_owned(),
    }
}

/// What `/stream_log` and `/stream_events` are asked with beside the rest.
#[derive(serde::Deserialize)]
struct StreamRequest {
    input: Value,
    #[serde(default)]
    config: Config,
    #[serde(flatten)]
    filter: Filter,
}

//! Calls one LangServe service: `POST {service}/graph/invoke` with a state; the response is the new state.
//!
//! | reply | result |
//! |---|---|
//! | no connection, closed early, late, 408, 425, 429, 5xx, no JSON | retry, after `Retry-After` if there is one; with the same key |
//! | 404, 405, 410, 413, an answer too large | permanent failure: the service is not a usable agent |
//! | 400, 401, 403, 422, a schema that does not fit | permanent failure that the user must correct |
//!
//! Each call has the effect's key (`Idempotency-Key`), so that a service that supports it does the work once for all attempts, and the nesting depth of
//! calls (`x-baton-depth`), so that agents that call each other in a circle reach a limit. The response is converted to the form flows use; a response
//! that cannot be converted is passed on unchanged, and the flow decides what to do with it.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use graph::{Failure, FailureKind, Job, Reply};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use wire::langserve::{Description, Message, error_words};

use crate::traceparent;
use structured;

/// The header with the effect's key, the same for every attempt.
pub const KEY: &str = "idempotency-key";
/// The header with the number of agent calls above this one.
pub const DEPTH: &str = "x-baton-depth";
/// The header with which a service declares that a retry is useless.
pub const SHOULD_RETRY: &str = "x-should-retry";

const CONNECT_MAX: Duration = Duration::from_secs(5);
const REPLY_BYTES_MAX: usize = 6 << 20;
const ERROR_BYTES_MAX: usize = 16 << 10;
const SCHEMA_BYTES_MAX: usize = 512 << 10;
const SCHEMA_TIME_MAX: Duration = Duration::from_secs(3);
/// After this time the schema is fetched again, because the agent may have been updated.
const SCHEMA_AGE_MAX: Duration = Duration::from_secs(300);
const MESSAGE_CHARS_MAX: usize = 400;

pub(crate) struct Service {
    base: String,
    path: String,
    token: Option<HeaderValue>,
    /// It is on this machine, so no proxy is used.
    is_here: bool,
    /// Created on first use: most processes call no agent.
    client: OnceLock<reqwest::Client>,
    http2_client: OnceLock<reqwest::Client>,
    /// Its input schema and when it was fetched; an inner `None`: the service has none.
    schema: Mutex<Option<(Instant, Option<Value>)>>,
}

/// Why a service at a default port counts as an agent of the team.
pub(crate) enum Proof {
    /// Its `agent.json` names the capability.
    Described { about: String },
    /// A LangServe graph whose input has messages.
    TakesMessages,
}

impl Service {
    pub(crate) fn new(url: &str, path: &str, token: Option<String>) -> Result<Service, String> {
        let parsed = reqwest::Url::parse(url).map_err(|error| format!("{url:?} is not a URL: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(format!("{url:?} is not a URL of the form http://host:port"));
        }
        let token = match token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                    .map_err(|_| "its token has characters that are not allowed in a header")?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let is_here = parsed
            .host_str()
            .is_some_and(|host| host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()));
        let base = url.trim_end_matches('/').to_owned();
        Ok(Service {
            base,
            path: path.trim_matches('/').to_owned(),
            token,
            is_here,
            client: OnceLock::new(),
            http2_client: OnceLock::new(),
            schema: Mutex::new(None),
        })
    }

    pub(crate) fn client(&self) -> Result<&reqwest::Client, String> {
        self.client_in(&self.client, |builder| builder)
    }

    /// A client that uses HTTP/2 from the first byte, as gRPC needs.
    pub(crate) fn http2_client(&self) -> Result<&reqwest::Client, String> {
        self.client_in(&self.http2_client, reqwest::ClientBuilder::http2_prior_knowledge)
    }

    /// The client in `slot`, created on first use.
    fn client_in<'c>(
        &self,
        slot: &'c OnceLock<reqwest::Client>,
        set: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<&'c reqwest::Client, String> {
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        // Fails if a provider is installed already, which is fine.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let builder = reqwest::Client::builder().connect_timeout(CONNECT_MAX).redirect(reqwest::redirect::Policy::none()).tcp_nodelay(true);
        let builder = if self.is_here { builder.no_proxy() } else { builder };
        let client = set(builder).build().map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(slot.get_or_init(|| client))
    }

    pub(crate) fn at(&self, what: &str) -> String {
        if self.path.is_empty() { format!("{}/{what}", self.base) } else { format!("{}/{}/{what}", self.base, self.path) }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The token without `Bearer`, for services that expect it in another header.
    pub(crate) fn api_key(&self) -> Option<HeaderValue> {
        let token = self.token.as_ref()?.to_str().ok()?.strip_prefix("Bearer ")?;
        let mut key = HeaderValue::from_str(token).ok()?;
        key.set_sensitive(true);
        Some(key)
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        headers
    }

    /// Its description. `None`: it has none but is reachable. The error is why it is not reachable.
    pub(crate) async fn describe(&self) -> Result<Option<Description>, String> {
        let described = self.get(&format!("{}/agent.json", self.base)).await?;
        if let Some(body) = described {
            return Ok(serde_json::from_slice(&body).ok());
        }
        match self.get(&self.at("input_schema")).await? {
            Some(_) => Ok(None),
            None => Err(format!("nothing is served at {}", self.at(""))),
        }
    }

    /// Whether it is an agent with a wanted capability. `None`: it is not, or cannot show it.
    pub(crate) async fn prove(&self, is_wanted: &(dyn Fn(&str) -> bool + Send + Sync)) -> Option<Proof> {
        if let Some(body) = self.get(&format!("{}/agent.json", self.base)).await.ok()? {
            let description: Description = serde_json::from_slice(&body).ok()?;
            let capability = description.capabilities.into_iter().find(|capability| is_wanted(&capability.name))?;
            return Some(Proof::Described { about: capability.about });
        }
        let schema = self.get(&self.at("input_schema")).await.ok()??;
        let schema: Value = serde_json::from_slice(&schema).ok()?;
        let state = match schema.get("$ref").and_then(Value::as_str).and_then(|place| place.strip_prefix('#')) {
            Some(place) => schema.pointer(place)?,
            None => &schema,
        };
        state.pointer("/properties/messages").map(|_| Proof::TakesMessages)
    }

    /// Where it is, as `host:port`: nothing else of its address is shown, which may hold a password.
    pub(crate) fn address(&self) -> String {
        let Ok(url) = reqwest::Url::parse(&self.base) else { return String::new() };
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        }
    }

    /// A small document; `None` if there is none.
    pub(crate) async fn get(&self, url: &str) -> Result<Option<Vec<u8>>, String> {
        let response = self.client()?.get(url).headers(self.headers()).send().await.map_err(|error| unreachable_message(&error))?;
        match response.status().as_u16() {
            200 => read(response, SCHEMA_BYTES_MAX).await.map(Some).map_err(|(_, why)| why),
            401 | 403 => Err(format!("status {}; check its token", response.status().as_u16())),
            404 | 405 | 410 => Ok(None),
            status => Err(format!("status {status}")),
        }
    }

    pub(crate) async fn invoke(&self, name: &str, input: &Value, job: &Job) -> Reply {
        let state = state_of(input);
        if let Err(why) = self.validate(&state).await {
            return Reply::failed(Failure::new(FailureKind::Invalid, format!("{name} does not accept a state of messages, next and context: {why}")));
        }
        let body = json!({
            "input": state,
            "config": { "tags": [], "metadata": {}, "recursion_limit": 25, "configurable": {} },
            "kwargs": {},
        });
        let mut headers = self.headers();
        traceparent::carry(&mut headers);
        let client = match self.client() {
            Ok(client) => client,
            Err(why) => return Reply::failed(Failure::new(FailureKind::Internal, why)),
        };
        let request = client
            .post(self.at("invoke"))
            .headers(headers)
            .header(CONTENT_TYPE, "application/json")
            .header(KEY, job.key.to_string())
            .header(DEPTH, (job.depth + 1).to_string())
            .timeout(Duration::from_millis(job.deadline_ms.max(1)))
            .body(body.to_string());
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Reply::failed(Failure::new(FailureKind::Network, format!("{name} {}", unreachable_message(&error))).retry()),
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        if status != 200 {
            let body = read(response, ERROR_BYTES_MAX).await.unwrap_or_default();
            return Reply::failed(failure_of_status(name, status, &headers, &String::from_utf8_lossy(&body)));
        }
        let body = match read(response, REPLY_BYTES_MAX).await {
            Ok(body) => body,
            Err((BodyError::Cut, why)) => return Reply::failed(Failure::new(FailureKind::Network, format!("{name}: {why}")).retry()),
            Err((BodyError::TooLarge, why)) => return Reply::failed(Failure::new(FailureKind::Invalid, format!("{name}: {why}"))),
        };
        match read_reply(&body) {
            Ok(output) => Reply::ok(output).about(json!({ "agent": name, "service": self.base })),
            Err(why) => Reply::failed(
                Failure::new(FailureKind::Invalid, format!("{name} {why}"))
                    .retry()
                    .with_output(String::from_utf8_lossy(&body[..body.len().min(2_000)])),
            ),
        }
    }

    /// Validates a state against the service's own schema, if it has one.
    async fn validate(&self, state: &Value) -> Result<(), String> {
        let cached = || self.schema.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let schema = match cached() {
            Some((at, schema)) if at.elapsed() < SCHEMA_AGE_MAX => schema,
            _ => {
                let fetched = tokio::time::timeout(SCHEMA_TIME_MAX, self.get(&self.at("input_schema"))).await;
                // An agent that does not describe itself now is still called; the call reports the error.
                let Ok(Ok(body)) = fetched else { return Ok(()) };
                let schema: Option<Value> = body.and_then(|body| serde_json::from_slice(&body).ok());
                *self.schema.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((Instant::now(), schema.clone()));
                schema
            }
        };
        let Some(schema) = schema.filter(Value::is_object) else { return Ok(()) };
        match structured::check(state.clone(), &schema) {
            Ok(_) => Ok(()),
            Err(structured::NotJson::Unfit { errors, .. }) => Err(errors.join("; ").chars().take(MESSAGE_CHARS_MAX).collect()),
            // An invalid schema is ignored.
            Err(_) => Ok(()),
        }
    }
}

/// The state that is sent: its three fields, with LangChain's messages.
pub(crate) fn state_of(input: &Value) -> Value {
    let messages: Vec<Message> = input.get("messages").and_then(Value::as_array).into_iter().flatten().map(Message::of_turn).collect();
    let next = input.get("next").and_then(Value::as_str).unwrap_or_default();
    let context = input.get("context").filter(|context| context.is_object()).cloned().unwrap_or_else(|| json!({}));
    json!({ "messages": messages, "next": next, "context": context })
}

/// The response with its messages in the form that flows use. A response that is not a state stays unchanged.
pub(crate) fn with_turns(output: Value) -> Value {
    let Value::Object(mut fields) = output else { return output };
    if let Some(Value::Array(messages)) = fields.get("messages") {
        let turns: Result<Vec<Value>, String> =
            messages.iter().map(|message| Message::try_from(message.clone()).map(|message| message.to_turn())).collect();
        if let Ok(turns) = turns {
            let mut state = Map::new();
            state.insert("messages".into(), Value::Array(turns));
            for name in ["next", "context"] {
                if let Some(value) = fields.remove(name) {
                    state.insert(name.into(), value);
                }
            }
            return Value::Object(state);
        }
    }
    Value::Object(fields)
}

/// The content of a body, in the form that flows use.
pub(super) fn read_reply(body: &[u8]) -> Result<Value, String> {
    output_of(body).map(with_turns)
}

fn output_of(body: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("answered with something that is not JSON ({error})"))?;
    match value {
        Value::Object(mut fields) => fields.remove("output").ok_or_else(|| "answered without an `output`".to_owned()),
        _ => Err("answered with JSON that is not an object".to_owned()),
    }
}

/// The failure of a call that was answered with an error status.
pub(crate) fn failure_of_status(name: &str, status: u16, headers: &HeaderMap, body: &str) -> Failure {
    let detail = error_words(body, MESSAGE_CHARS_MAX);
    let message =
        if detail.is_empty() { format!("{name} answered with status {status}") } else { format!("{name} answered with status {status}: {detail}") };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    match status {
        408 | 425 | 429 | 500..=599 => {
            let kind = if status == 429 { FailureKind::Refused } else { FailureKind::Tool };
            let failure = Failure::new(kind, message);
            match header("retry-after").and_then(|seconds| seconds.parse::<f64>().ok()).filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
                _ if header(SHOULD_RETRY) == Some("false") => failure,
                Some(seconds) => failure.retry_after_ms((seconds * 1_000.0) as u64),
                None => failure.retry(),
            }
        }
        401 | 403 => Failure::new(FailureKind::Refused, format!("{message}; check its token")),
        400 | 422 => Failure::new(FailureKind::Invalid, message),
        300..=399 => Failure::new(FailureKind::Refused, format!("{message}; name the address it redirects to")),
        404 | 405 | 410 => Failure::new(FailureKind::Refused, format!("{message}; check its url and path")),
        _ => Failure::new(FailureKind::Refused, message),
    }
}

/// Why a body could not be read.
pub(crate) enum BodyError {
    /// The connection closed before its end.
    Cut,
    TooLarge,
}

/// The body of a response of at most `bytes_max` bytes.
pub(crate) async fn read(mut response: reqwest::Response, bytes_max: usize) -> Result<Vec<u8>, (BodyError, String)> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > bytes_max => {
                return Err((BodyError::TooLarge, format!("its answer has more than {bytes_max} bytes")));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err((BodyError::Cut, format!("the connection closed before the end of its reply: {}", root(&error)))),
        }
    }
}

/// Why a request has no response, after the name of the agent.
pub(crate) fn unreachable_message(error: &reqwest::Error) -> String {
    match error.is_timeout() {
        true => "did not answer in time".to_owned(),
        false => format!("cannot be reached: {}", root(error)),
    }
}

/// The innermost cause: the outer ones repeat the address, which may hold a name and a password.
fn root(error: &reqwest::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string().chars().take(MESSAGE_CHARS_MAX).collect()
}

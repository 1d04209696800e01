//! The router of everything that `baton serve` serves.
//!
//! ```text
//!   request ─► counted and logged ─► headers that keep browsers strict ─► guard ─► quota ─► API, registry, metrics, LangServe's routes
//!                                                        └─► the page, health, session: without a token
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Json};
use tokio::sync::Mutex;
use wire::api::HealthStatus;

use crate::a2a;
use crate::api::Api;
use crate::bodies;
use crate::guard::{self, Identity};
use crate::guarded_body::GuardedBody;
use crate::langgraph;
use crate::langserve;
use crate::mcp_flows;
use crate::metrics::Gauges;
use crate::page::Page;
use crate::problem::Problem;
use crate::protocols;
use crate::registry::Registry;
use crate::traced::traced;

/// All routes. LangServe's `/graph/invoke` and `/{flow}/invoke` are beside the page: no path of the API or the page ends like that, and if one did, it
/// would take precedence over a flow's.
pub fn router(api: &Api, page: &Page, registry: Option<Registry>, flows: Option<langserve::Service>) -> Router {
    let mut inside = api.routes().layer(from_fn(traced)).merge(Router::new().route("/metrics", get(metrics)).with_state(api.clone()));
    let mut outside = Router::new().route("/healthz", get(healthy)).route("/readyz", get(ready)).with_state(Readiness::new(api));
    if let Some(registry) = registry {
        outside = outside.merge(registry.open_routes());
        inside = inside.nest("/api/registry", registry.routes(&api.0.guard).layer(from_fn(operators_change)));
    }
    inside = inside.merge(protocols::routes(api).layer(from_fn(traced)));
    if let Some(flows) = flows {
        let flows = flows.shared(api);
        inside = inside.merge(flows.clone().routes()).merge(langgraph::routes(&flows));
    }
    let inside = inside.layer(from_fn_with_state(api.clone(), quota)).layer(from_fn_with_state(api.0.guard.clone(), guard::check));
    Router::new()
        .merge(inside)
        .merge(outside)
        .merge(api.open_routes())
        .merge(a2a::card::open_routes(api))
        .merge(mcp_flows::open_routes(api))
        .merge(page.router())
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here; the API is under /api, see /api/openapi.json")
        })
        .layer(from_fn(strictly))
        .layer(from_fn(protocols::own_form))
        .layer(from_fn_with_state(api.clone(), counted))
}

async fn healthy() -> Json<HealthStatus> {
    Json(HealthStatus { ok: true })
}

/// Whether the store answers. Anybody may ask, so the store is asked once a second at most, by one request at a time.
#[derive(Clone)]
struct Readiness {
    api: Api,
    /// The last answer and when it was given.
    last: Arc<Mutex<Option<(bool, Instant)>>>,
}

const READY_FOR: Duration = Duration::from_secs(1);

impl Readiness {
    fn new(api: &Api) -> Readiness {
        Readiness { api: api.clone(), last: Arc::default() }
    }

    async fn is_ready(&self) -> bool {
        let api = &self.api;
        let mut known = self.last.lock().await;
        match *known {
            Some((is_ready, asked)) if asked.elapsed() < READY_FOR => is_ready,
            _ => {
                let answered = api.0.engine.store().threads(None, 1).await;
                let is_ready = answered.inspect_err(|error| tracing::error!("not ready: {error}")).is_ok();
                *known = Some((is_ready, Instant::now()));
                is_ready
            }
        }
    }
}

async fn ready(State(readiness): State<Readiness>) -> Result<Json<HealthStatus>, Problem> {
    match readiness.is_ready().await {
        true => Ok(Json(HealthStatus { ok: true })),
        false => Err(Problem::busy("the database does not answer")),
    }
}

async fn metrics(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Response, Problem> {
    if !who.is_operator {
        return Err(Problem::new(StatusCode::FORBIDDEN, "refused", "only the operator of this server may read numbers about all users"));
    }
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let now = Gauges {
        runs_followed: api.0.hubs.count(),
        runs_going: api.0.engine.going(),
        tasks,
        health: api.0.engine.health(),
        disk_free_bytes: api.0.backend.disk_free_bytes(),
    };
    let text = api.0.metrics.text(&now);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Counts a request until its response is complete, and the bytes of its body until it is answered.
async fn quota(State(api): State<Api>, Extension(who): Extension<Identity>, mut request: Request<Body>, next: Next) -> Response {
    let quota = &api.0.quota;
    let (place, body) = match quota.request(&who.user).and_then(|place| Ok((place, quota.body(&who.user)?))) {
        Ok(permits) => permits,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(quota.limits());
    let (request, kept) = bodies::counted(request, body);
    // What was changed must not be answered as if it was not; searches of LangGraph change nothing.
    let is_read = request.method() == Method::GET || ["/search", "/history", "/namespaces"].iter().any(|end| request.uri().path().ends_with(end));
    let response = store::reading_for(who.user.clone(), next.run(request)).await;
    drop(kept);
    // A stream has no length, and is counted as a stream.
    let bytes = response.body().size_hint().exact().filter(|_| is_read).unwrap_or(0);
    match quota.response(&who.user, bytes) {
        Ok(memory) => response.map(|body| Body::new(GuardedBody::new(body, (place, memory)))),
        Err(problem) => problem.into_response(),
    }
}

/// Tools are shared: every user can list them, and only operators enable and call them.
async fn operators_change(Extension(who): Extension<Identity>, request: Request<Body>, next: Next) -> Response {
    match who.is_operator || request.method() == Method::GET {
        true => next.run(request).await,
        false => Problem::new(StatusCode::FORBIDDEN, "refused", "only the operator of this server may change or call tools").into_response(),
    }
}

/// Sets security headers for browsers, and turns plain-text errors of other layers into this API's form.
async fn strictly(request: Request<Body>, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api");
    let is_head = request.method() == Method::HEAD;
    let mut response = next.run(request).await;
    let is_plain = response.headers().get(header::CONTENT_TYPE).is_none_or(|value| value.as_bytes().starts_with(b"text/plain"));
    if response.status().is_client_error() && is_plain && !is_head {
        let allow = response.headers().get(header::ALLOW).cloned();
        let status = response.status();
        let (kind, words) = match status {
            StatusCode::METHOD_NOT_ALLOWED => ("refused", "that cannot be done here; the Allow header says what can"),
            StatusCode::NOT_FOUND => ("not_found", "there is nothing here; the API is under /api, see /api/openapi.json"),
            _ => ("invalid", "the request is malformed"),
        };
        response = Problem::new(status, kind, words).into_response();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    let headers = response.headers_mut();
    let mut unless = |name: header::HeaderName, value: &'static str| {
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    };
    unless(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox");
    unless(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    unless(header::X_FRAME_OPTIONS, "DENY");
    unless(header::REFERRER_POLICY, "no-referrer");
    unless(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    unless(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    unless(header::HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    if is_api {
        unless(header::CACHE_CONTROL, "no-store");
    }
    response
}

async fn counted(State(api): State<Api>, request: Request<Body>, next: Next) -> Response {
    let (method, began) = (request.method().clone(), Instant::now());
    // Neither queries nor bodies are logged: they are what people ask.
    let path = tracing::enabled!(tracing::Level::DEBUG).then(|| request.uri().path().to_owned());
    let response = next.run(request).await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    api.0.metrics.request(method.as_str(), status, took);
    if let Some(path) = path {
        tracing::debug!(%method, path, status, took_us = took.as_micros() as u64, "answered");
    }
    response
}

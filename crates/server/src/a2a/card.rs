//! The cards: one with all flows as skills, and one for each flow.

use std::sync::LazyLock;
use std::time::SystemTime;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use wire::a2a::VERSION;
use wire::a2a::card::{self, AgentCard, Capabilities, GRPC, HTTP_JSON, Interface, JSON_RPC, Skill};
use wire::a2a::error::UNSUPPORTED_OPERATION;
use wire::api::Flow;

use super::refusal;
use crate::api::Api;
use crate::api::runs::digest_of;
use crate::problem::{Problem, StatusCode};

/// Clients may keep a card for so long.
const CACHED: &str = "max-age=60";

/// Needs no token: it describes what the server can do and how to call it.
pub(crate) fn open_routes(api: &Api) -> Router {
    Router::new()
        .route(card::PATH, get(of_all))
        .route(&format!("/a2a{}", card::PATH), get(of_all))
        .route(&format!("/a2a/{{flow}}{}", card::PATH), get(of_flow))
        .with_state(api.clone())
}

/// A card changes with the program and its configuration, which are read at the start; the first card is made soon after it.
static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

async fn of_all(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    shown(&api, None, request).await
}

async fn of_flow(State(api): State<Api>, Path(flow): Path<String>, request: Request) -> Result<Response, Problem> {
    shown(&api, Some(&flow), request).await
}

async fn shown(api: &Api, flow: Option<&str>, request: Request) -> Result<Response, Problem> {
    let base = api.0.guard.base_of(&request)?;
    let made = make(api, flow, &base).await?;
    let tag = format!("\"{}\"", digest_of(&[&serde_json::to_string(&made).unwrap_or_default()], 8));
    let is_known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut headers = HeaderMap::from_iter([
        (header::CACHE_CONTROL, HeaderValue::from_static(CACHED)),
        (header::VARY, HeaderValue::from_static("host, x-forwarded-proto")),
    ]);
    headers.extend(HeaderValue::from_str(&httpdate::fmt_http_date(*STARTED)).ok().map(|date| (header::LAST_MODIFIED, date)));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    Ok(match is_known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, Json(made)).into_response(),
    })
}

/// The card of all flows, or of one.
async fn make(api: &Api, flow: Option<&str>, base: &str) -> Result<AgentCard, Problem> {
    let flows: Vec<Flow> = api.0.backend.flows().into_iter().filter(|one| one.is_shown && flow.is_none_or(|name| name == one.name)).collect();
    let (name, description, below) = match (flow, flows.first()) {
        (None, _) => ("Baton".to_owned(), "Answers questions and does tasks with tools, and cites its sources.".to_owned(), String::new()),
        (Some(_), Some(one)) => (format!("Baton: {}", one.title), one.about.clone(), format!("/{}", one.name)),
        (Some(_), None) => return Err(Problem::not_found("agent")),
    };
    let interface = |path: &str, binding: &str| Interface {
        url: format!("{base}{path}{below}"),
        protocol_binding: binding.to_owned(),
        tenant: String::new(),
        protocol_version: VERSION.to_owned(),
    };
    // The paths of gRPC are those of its methods, so the tenant names the flow.
    let over_grpc = Interface { url: grpc_target(base), tenant: flow.unwrap_or_default().to_owned(), ..interface("", GRPC) };
    // On loopback programs of the same account need no token, so one is required only where there are users.
    let (schemes, required) = card::bearer();
    let has_users = api.0.guard.has_tokens().await?;
    let modes = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect();
    Ok(AgentCard {
        name,
        description,
        supported_interfaces: vec![interface("/a2a", JSON_RPC), interface("/a2a/v1", HTTP_JSON), over_grpc],
        provider: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: Capabilities { streaming: true, push_notifications: true, extended_agent_card: has_users },
        security_schemes: has_users.then_some(schemes),
        security_requirements: has_users.then_some(required),
        default_input_modes: modes(&["text/plain", "application/json"]),
        default_output_modes: modes(&["text/markdown", "application/json"]),
        skills: flows.into_iter().map(skill).collect(),
    })
}

/// An address as clients of gRPC take it: `host:port`, without a scheme.
fn grpc_target(base: &str) -> String {
    let (host, port) = match base.split_once("://") {
        Some(("https", host)) => (host, 443),
        Some((_, host)) => (host, 80),
        None => (base, 80),
    };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:{port}") }
}

/// The card for authenticated clients, with the same content.
pub(super) async fn extended(api: &Api, flow: Option<&str>, base: &str) -> Result<AgentCard, Problem> {
    let made = make(api, flow, base).await?;
    match made.capabilities.extended_agent_card {
        true => Ok(made),
        false => Err(refusal(UNSUPPORTED_OPERATION, "there is no other card than the public one")),
    }
}

fn skill(flow: Flow) -> Skill {
    let mut tags = vec![flow.name.clone(), "sources".to_owned()];
    if flow.can_approve {
        tags.push("plan approval".to_owned());
    }
    Skill { id: flow.name, name: flow.title, description: flow.about, tags, examples: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_grpc_get_a_host_and_a_port() {
        for (base, target) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("https://baton.example", "baton.example:443"),
            ("http://baton.example", "baton.example:80"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://[::1]", "[::1]:80"),
        ] {
            assert_eq!(grpc_target(base), target);
        }
    }
}

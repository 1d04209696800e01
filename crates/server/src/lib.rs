//! The protocols of the server, one module each, and the page.
//!
//! - [`api`]: our own, under `/api`: REST and streams of events. [`backend`] is what it needs beyond the engine.
//! - [`page`]: the page's files.
//! - [`conversation`]: what users add to threads: titles, tags, branches, links for readers.
//! - [`registry`]: the tools of all servers over plain HTTP, and as one MCP server.
//! - [`langserve`]: flows and agents, as LangServe serves graphs.
//! - [`langgraph`]: flows as assistants of a LangGraph server.
//! - [`mcp`]: any MCP server over streamable HTTP.
//! - [`mcp_flows`]: flows as tools, prompts and resources of MCP hosts.
//! - [`openai`]: flows as OpenAI's models: chat completions and responses.
//! - [`a2a`]: flows as skills of an A2A agent.
//! - [`agui`]: flows as agents of AG-UI front ends.
//! - [`protocols`]: the list of the protocols for flows.
//!
//! [`oidc`] signs people in at the page.
//!
//! Before all of them stands the [`guard`], and [`service`] puts them together. [`turn`] is one question and its run, as the protocols share it.

#![warn(missing_docs)]

mod a2a;
mod agui;
pub mod allowance;
pub mod api;
pub mod backend;
mod bodies;
pub mod conversation;
mod events;
mod feed;
pub mod guard;
mod guarded_body;
pub(crate) mod langgraph;
pub mod langserve;
pub mod limits;
pub mod listen;
pub mod mcp;
pub mod mcp_flows;
pub mod metrics;
pub mod name;
mod notice;
pub mod oidc;
mod openai;
mod outbound;
pub mod page;
mod peer_user;
pub mod problem;
mod protocols;
pub mod proxies;
pub mod quota;
mod records;
pub mod registry;
mod rendering;
pub mod rights;
pub mod service;
mod shared_bytes;
pub mod tls;
mod traced;
mod turn;

pub use axum::Router;

/// Every kind of document that the server keeps in the store for a user, beside runs and threads.
pub fn record_kinds() -> impl Iterator<Item = &'static str> {
    langgraph::RECORD_KINDS.into_iter().chain(a2a::RECORD_KINDS).chain(conversation::RECORD_KINDS).chain([oidc::RECORD_KIND, engine::TAKEOVER_KIND])
}

/// LangServe's and LangGraph's routes over flows alone, without the API and what it limits and counts.
pub fn protocols(flows: &langserve::Service, guard: &guard::Guard) -> Router {
    flows.clone().routes().merge(langgraph::routes(flows)).layer(axum::middleware::from_fn_with_state(guard.clone(), guard::check))
}

/// Serves until an error, with the default limits. Here, so that other crates need not depend on the HTTP libraries.
pub async fn serve(listener: tokio::net::TcpListener, router: Router) -> std::io::Result<()> {
    serve_within(limits::Limits::default(), listener, router).await
}

/// The same within these limits.
pub async fn serve_within(limits: limits::Limits, listener: tokio::net::TcpListener, router: Router) -> std::io::Result<()> {
    serve_with(limits, listener, None, router).await
}

/// The same, over TLS if there is a certificate.
pub async fn serve_with(
    limits: limits::Limits,
    listener: tokio::net::TcpListener,
    tls: Option<std::sync::Arc<tls::Tls>>,
    router: Router,
) -> std::io::Result<()> {
    let (_never, stop) = tokio::sync::watch::channel(false);
    listen::listen_with(listener, tls, router, limits, stop).await
}

//! One file per protocol, each a map to the engine and back; and the page.
//!
//! - [`api`]: our own, under `/api`: REST and streams of events. [`desk`] is what it needs of the house beyond the engine.
//! - [`page`]: the page's files.
//! - [`registry`]: the tools of all servers over plain HTTP, and as one MCP server.
//! - [`langserve`]: flows and agents, as LangServe serves graphs.
//! - [`langgraph`]: flows as assistants of a LangGraph server. [`protocols`] lists these two and others like them.
//! - [`mcp`]: any MCP server over streamable HTTP.
//!
//! Before all of them stands the [`guard`], and [`service`] puts them together.

pub mod api;
mod bodies;
pub mod desk;
mod events;
mod feed;
pub mod guard;
mod held;
pub(crate) mod langgraph;
pub mod langserve;
pub mod limits;
pub mod listen;
pub mod mcp;
pub mod metrics;
pub mod name;
pub mod page;
mod peer_user;
pub mod problem;
mod protocols;
pub mod quota;
pub mod registry;
pub mod service;
mod traced;

pub use axum::Router;

/// Every protocol over flows alone, without the API and what it limits and counts.
pub fn protocols(flows: &langserve::Service, guard: &guard::Guard) -> Router {
    protocols::routes(flows).layer(axum::middleware::from_fn_with_state(guard.clone(), guard::check))
}

/// Serves until an error, with the default limits. Here, so that other crates need not depend on the HTTP libraries.
pub async fn serve(listener: tokio::net::TcpListener, router: Router) -> std::io::Result<()> {
    serve_within(limits::Limits::default(), listener, router).await
}

/// The same within these limits.
pub async fn serve_within(limits: limits::Limits, listener: tokio::net::TcpListener, router: Router) -> std::io::Result<()> {
    let (_never, stop) = tokio::sync::watch::channel(false);
    listen::listen(listener, router, limits, stop).await
}

//! One file per protocol, each a map to the engine and back; and the page.
//!
//! - [`api`]: our own, under `/api`: REST and streams of events. [`desk`] is what it needs of the house beyond the engine.
//! - [`page`]: the page's files.
//! - [`registry`]: the tools of all servers over plain HTTP, and as one MCP server.
//! - [`langserve`]: flows and agents, as LangServe serves graphs.
//! - [`mcp`]: any MCP server over streamable HTTP.
//!
//! Before all of them stands the [`guard`], and [`service`] puts them together. Rooms are kept for other protocols; nothing is in them yet.

pub mod api;
pub mod desk;
mod events;
mod feed;
pub mod guard;
pub mod langserve;
pub mod listen;
pub mod mcp;
pub mod metrics;
pub mod name;
pub mod page;
pub mod problem;
pub mod quota;
pub mod registry;
pub mod service;
mod traced;

pub use axum::Router;

/// Serves until something breaks. Here, so that others need not know what HTTP is made with.
pub async fn serve(listener: tokio::net::TcpListener, router: Router) -> std::io::Result<()> {
    let (_never, stop) = tokio::sync::watch::channel(false);
    listen::listen(listener, router, quota::Limits::default().connections_max, stop).await
}

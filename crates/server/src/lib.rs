//! One file per protocol, each a map to the engine and back; and the page.
//!
//! - [`registry`]: the tools of all servers over plain HTTP, and as one MCP server.
//! - [`langserve`]: flows and agents, as LangServe serves graphs.
//! - [`mcp`]: any MCP server over streamable HTTP, with the same [`guard`] in front.
//!
//! Rooms are kept for the others; nothing is in them yet.

pub mod guard;
pub mod langserve;
pub mod mcp;
pub mod registry;

/// Serves until something breaks. Here, so that others need not know what HTTP is made with.
pub async fn serve(listener: tokio::net::TcpListener, router: axum::Router) -> std::io::Result<()> {
    axum::serve(listener, router).await
}

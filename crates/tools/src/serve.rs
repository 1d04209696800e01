//! A server as a separate process: over standard input and output, or over HTTP on this machine only.
//!
//! HTTP is MCP's streamable transport under `/mcp`: without sessions for revision 2026-07-28, with them for earlier ones. Only this machine
//! may call, and only local web pages: `Host` and `Origin` are checked against DNS rebinding.

use std::net::SocketAddr;
use std::sync::Arc;

use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use tokio::net::TcpListener;

use crate::Builtin;

/// A request contains at most one file to write, as JSON.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// One session, until standard input ends.
pub async fn stdio(builtin: Arc<Builtin>) -> Result<(), String> {
    let (input, output) = rmcp::transport::stdio();
    builtin.serve(tokio::io::join(input, output)).await
}

/// The router of `/mcp`. The caller decides about access.
pub fn router(builtin: &Arc<Builtin>) -> axum::Router {
    builtin.router(config())
}

/// Serves every account of this machine until it is dropped. `on_listening` receives the address, for port 0.
pub async fn http(builtin: Arc<Builtin>, address: SocketAddr, on_listening: impl FnOnce(SocketAddr)) -> Result<(), String> {
    if !address.ip().is_loopback() {
        return Err(format!("{address} is not of this machine; a built-in server listens on 127.0.0.1 or [::1] only"));
    }
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; choose another port with --port, or stop the program that uses this one"))?;
    let address = listener.local_addr().map_err(|error| format!("the address is not known: {error}"))?;
    on_listening(address);
    axum::serve(listener, router(&builtin)).await.map_err(|error| format!("serving broke off: {error}"))
}

/// Accepts requests from this machine only.
pub fn config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_allowed_hosts(["localhost", "127.0.0.1", "::1"])
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"])
        .enforce_origin_validation()
        .with_max_request_body_bytes(REQUEST_BYTES_MAX)
}

//! An MCP server over streamable HTTP: sessions for the earlier revisions, none for 2026-07-28.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::guard::{self, Guard};

const BODY_BYTES_MAX: usize = 4 << 20;
/// How soon a client that lost its stream may reconnect.
const RETRY: Duration = Duration::from_millis(500);

/// Answers at `/mcp`. `make` gives one handler for every session, and for every request without one.
pub fn router<H: ServerHandler>(make: impl Fn() -> H + Send + Sync + 'static, guard: &Guard) -> Router {
    Router::new().route_service("/mcp", service(make)).layer(from_fn_with_state(guard.clone(), guard::check))
}

/// Without a guard; the caller that mounts it adds one.
pub(crate) fn service<H: ServerHandler>(make: impl Fn() -> H + Send + Sync + 'static) -> StreamableHttpService<H, LocalSessionManager> {
    fallible_service(move || Ok(make()))
}

/// The same where a session may be refused.
pub(crate) fn fallible_service<H: ServerHandler>(
    make: impl Fn() -> std::io::Result<H> + Send + Sync + 'static,
) -> StreamableHttpService<H, LocalSessionManager> {
    let config = StreamableHttpServerConfig::default()
        // The guard checks both, and tokens.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_retry(Some(RETRY))
        .with_max_request_body_bytes(BODY_BYTES_MAX);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.sse_retry = Some(RETRY);
    StreamableHttpService::new(make, Arc::new(sessions), config)
}

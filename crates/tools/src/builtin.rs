//! A built-in server: its name, default port, trust level, and how a session is served.

use std::fmt;
use std::sync::Arc;

use evidence::Trust;
use futures::future::BoxFuture;
use rmcp::ServerHandler;
use rmcp::service::ServiceExt as _;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Settings;

/// A server before it is built: a row of [`KINDS`](crate::KINDS).
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The server's name: the part of a tool's name before the dot.
    pub name: &'static str,
    /// What its tools do, in one sentence.
    pub about: &'static str,
    /// Default port when it runs on its own.
    pub port: u16,
    /// Trust level of its passages.
    pub trust: Trust,
    /// Builds the server; the error names the missing setting.
    pub make: fn(&Kind, &Settings) -> Result<Builtin, String>,
}

impl Kind {
    /// Builds the server.
    pub fn build(&self, settings: &Settings) -> Result<Arc<Builtin>, UnavailableServer> {
        (self.make)(self, settings).map(Arc::new).map_err(|lacks| UnavailableServer { name: self.name, lacks })
    }

    /// Wraps any MCP handler; a [`Toolset`](crate::Toolset) is one.
    pub fn around<H: ServerHandler + Clone + Send + Sync>(&self, handler: H) -> Builtin {
        let held = handler.clone();
        let session = move |stream: Box<dyn Stream>| -> SessionFuture {
            let handler = held.clone();
            Box::pin(async move {
                let session = handler.serve(stream).await.map_err(|error| format!("the session did not begin: {error}"))?;
                session.waiting().await.map_err(|error| format!("the session broke off: {error}"))?;
                Ok(())
            })
        };
        let routes = move |config: StreamableHttpServerConfig| {
            let handler = handler.clone();
            let sessions = Arc::new(LocalSessionManager::default());
            axum::Router::new().nest_service("/mcp", StreamableHttpService::new(move || Ok(handler.clone()), sessions, config))
        };
        Builtin { name: self.name, about: self.about, port: self.port, trust: self.trust, session: Box::new(session), routes: Box::new(routes) }
    }
}

/// A server that is ready for any number of concurrent sessions.
pub struct Builtin {
    /// The server's name: the part of a tool's name before the dot.
    pub name: &'static str,
    /// What its tools do, in one sentence.
    pub about: &'static str,
    /// Default port when it runs on its own.
    pub port: u16,
    /// Trust level of its passages.
    pub trust: Trust,
    session: Box<dyn Fn(Box<dyn Stream>) -> SessionFuture + Send + Sync>,
    routes: Box<dyn Fn(StreamableHttpServerConfig) -> axum::Router + Send + Sync>,
}

impl Builtin {
    /// Serves one session until the peer closes it. In-process, pass one end of a `tokio::io::duplex`.
    pub fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> SessionFuture {
        (self.session)(Box::new(stream))
    }

    /// Streamable HTTP under `/mcp`.
    pub fn router(&self, config: StreamableHttpServerConfig) -> axum::Router {
        (self.routes)(config)
    }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builtin").field("name", &self.name).field("port", &self.port).field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// Why a server is not available with these settings, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server `{name}` is not ready: {lacks}")]
pub struct UnavailableServer {
    /// The server's name.
    pub name: &'static str,
    /// The missing setting and how to set it.
    pub lacks: String,
}

/// A running session, until it ends.
pub type SessionFuture = BoxFuture<'static, Result<(), String>>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

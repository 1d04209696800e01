//! How a server is reached: in this process, as a child, or over HTTP with or without authorization; and the messages of errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, RoleClient, RxJsonRpcMessage, ServiceError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use tokio::sync::{Notify, oneshot};

use super::{Link, Origin, Server};
use crate::auth;
use crate::bounded::{Bounded, LINE_BYTES_MAX};
use crate::config::{ServerConfig, ServerTransport};
use crate::host::{Host, Listeners};
use crate::http::BoundedHttp;
use crate::stdio::ChildTransport;
use effects::clip;

const DUPLEX_BYTES: usize = 256 << 10;

impl Server {
    pub(super) async fn connect(&self) -> Result<(Link, oneshot::Receiver<()>), String> {
        self.stderr_tail.clear();
        let mode = match self.revision() {
            None => ClientLifecycleMode::Auto {
                // The newest first; a server that supports the request may still use an earlier revision.
                preferred_versions: ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect(),
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            Some(revision) if revision.has_initialize() => ClientLifecycleMode::Initialize,
            Some(revision) => ClientLifecycleMode::Discover { preferred_versions: vec![revision] },
        };
        match self.open(mode).await {
            // Some older servers hang up on a question they do not know.
            Err(ClientInitializeError::ConnectionClosed(_)) => self.open(ClientLifecycleMode::Initialize).await,
            opened => opened,
        }
        .inspect(|_| self.needs_login.store(false, Ordering::Relaxed))
        .map_err(|error| {
            let needs_login = error.is_authorization_required();
            self.needs_login.store(needs_login, Ordering::Relaxed);
            self.stderr_tail.after(&if needs_login { auth::needs_login(&self.name) } else { opening(&error) })
        })
    }

    /// The revision that the configuration insists on.
    fn revision(&self) -> Option<ProtocolVersion> {
        let Origin::Configured(config) = &self.origin else { return None };
        let revision = config.revision.as_deref()?;
        ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == revision).cloned()
    }

    async fn open(&self, mode: ClientLifecycleMode) -> Result<(Link, oneshot::Receiver<()>), ClientInitializeError> {
        let cannot = |why: String| ClientInitializeError::ConnectionClosed(why);
        let (open, gone) = oneshot::channel();
        let changed = Arc::new(Notify::new());
        let listeners = Listeners::default();
        let revision = self.revision().filter(ProtocolVersion::has_initialize).unwrap_or(ProtocolVersion::V_2025_11_25);
        let host = Host {
            request_handler: self.request_handler.clone(),
            changed: changed.clone(),
            listeners: listeners.clone(),
            revision: revision.clone(),
        };
        let service = match &self.origin {
            Origin::Local { serve, .. } => {
                let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
                tokio::spawn(serve(theirs));
                let (read, write) = tokio::io::split(ours);
                let lines = AsyncRwTransport::new_client(Bounded::new(read, self.stderr_tail.clone()), write).with_max_line_length(LINE_BYTES_MAX);
                host.serve_with_lifecycle(WatchedTransport { inner: lines, _open: open }, mode).await?
            }
            Origin::Configured(ServerConfig { reach: ServerTransport::Stdio { command, args, env, cwd }, .. }) => {
                let child = ChildTransport::spawn(command, args, env, cwd.as_ref(), &self.stderr_tail).map_err(NotStarted::into_error)?;
                host.serve_with_lifecycle(WatchedTransport { inner: child, _open: open }, mode).await?
            }
            Origin::Configured(ServerConfig { reach: ServerTransport::Http { url, headers }, .. }) => {
                let http = BoundedHttp::new().map_err(cannot)?;
                let headers = headers.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.reveal().parse().ok()?))).collect();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers).max_sse_event_size(LINE_BYTES_MAX);
                match &self.authorized {
                    Some(authorized) => {
                        let client = authorized.client(http).await.map_err(cannot)?;
                        let transport = StreamableHttpClientTransport::with_client(client, config.clone());
                        let first =
                            Host { request_handler: self.request_handler.clone(), changed: changed.clone(), listeners: listeners.clone(), revision };
                        match first.serve_with_lifecycle(WatchedTransport { inner: transport, _open: open }, mode.clone()).await {
                            Err(error) if authorized.can_ask() && error.auth_challenge().is_some() => {
                                authorized.authorize(error.auth_challenge().unwrap_or_default()).await.map_err(cannot)?;
                                let (open, gone) = oneshot::channel();
                                let client = authorized.client(BoundedHttp::new().map_err(cannot)?).await.map_err(cannot)?;
                                let transport = StreamableHttpClientTransport::with_client(client, config);
                                let service = host.serve_with_lifecycle(WatchedTransport { inner: transport, _open: open }, mode).await?;
                                return Ok((Link { service, listeners, changed, busy: AtomicUsize::new(0) }, gone));
                            }
                            other => other?,
                        }
                    }
                    None => {
                        let transport = StreamableHttpClientTransport::with_client(http, config);
                        host.serve_with_lifecycle(WatchedTransport { inner: transport, _open: open }, mode).await?
                    }
                }
            }
        };
        Ok((Link { service, listeners, changed, busy: AtomicUsize::new(0) }, gone))
    }

    /// After a 403: rights for more, so that the same call may be tried once more over a new connection.
    pub(crate) async fn step_up(&self, challenge: &str) -> Result<(), String> {
        match &self.authorized {
            Some(authorized) => authorized.step_up(challenge).await,
            None => Err("no user is present who could grant more rights".into()),
        }
    }

    /// After a 401 in the middle: the token that was good is not any more.
    pub(crate) async fn authorize_again(&self, challenge: &str) -> Result<(), String> {
        self.needs_login.store(true, Ordering::Relaxed);
        match &self.authorized {
            Some(authorized) => authorized.authorize(challenge).await,
            None => Err(auth::needs_login(&self.name)),
        }
    }
}

/// A transport whose end can be noticed: the SDK drops it when the connection is over.
struct WatchedTransport<T> {
    inner: T,
    _open: oneshot::Sender<()>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for WatchedTransport<T> {
    type Error = T::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

/// A command that does not start need not be tried with another handshake.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotStarted(String);

impl NotStarted {
    fn into_error(why: String) -> ClientInitializeError {
        ClientInitializeError::TransportError {
            error: rmcp::transport::DynamicTransportError::from_parts("stdio", std::any::TypeId::of::<Self>(), Box::new(NotStarted(why))),
            context: "start the command".into(),
        }
    }
}

/// The last error of a chain is the most specific and the shortest.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    loop {
        // The SDK's error shows the client's without naming it as its source.
        if let Some(StreamableHttpError::Client(client)) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            error = client;
        }
        match error.source() {
            Some(source) => error = source,
            None => return error.to_string(),
        }
    }
}

/// The message of an error of a call.
pub(crate) fn error_text(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(sent) => deepest(&*sent.error),
        ServiceError::TransportClosed => "the connection was closed".into(),
        ServiceError::McpError(error) => error.message.to_string(),
        other => other.to_string(),
    }
}

fn opening(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => deepest(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => opening(fallback),
        ClientInitializeError::ConnectionClosed(why) => format!("it closed the connection ({why})"),
        ClientInitializeError::JsonRpcError(error) => format!("it refused: {}", error.message),
        other => clip(&other.to_string(), 300),
    }
}

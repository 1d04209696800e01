//! Takes connections and gives each to the router: HTTP/1.1 or HTTP/2, with limits on how many there are and on how long a request's headers may take.
//!
//! `axum::serve` has no such limits, so this is its loop again with hyper's own settings. A connection with a request that the guard admitted is kept until
//! its response is complete. Any other, idle or still sending headers, is closed when a new one needs its place, the oldest first: clients that open
//! connections and send nothing cannot keep others out.
//!
//! HTTP/2 is what clients of gRPC need. Over TLS it is agreed on with ALPN; without, a client that begins with the preface of HTTP/2 means it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OnceCell, watch};
use tower::{ServiceExt as _, service_fn};

use crate::guarded_body::GuardedBody;
use crate::limits::{Limits, count};
use crate::peer_user;
use crate::tls::{self, Tls};

const HEADERS_MAX: usize = 64;
/// Bytes that are read ahead: the headers of a request fit in here, or it is refused.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Requests at the same time on one connection of HTTP/2. Each is also counted for its user.
const STREAMS_MAX: u32 = 128;
/// Bytes that one request, and all requests of a connection, may send ahead of what is read.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of one response that wait to be sent.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;
/// A peer of HTTP/2 that is gone without a word is noticed after this time and a bit.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_MAX: Duration = Duration::from_secs(20);
/// How a connection of HTTP/2 begins; no method of HTTP/1 does.
const PREFACE: &[u8] = b"PRI";
/// Pause between two looks at a connection of which less than that has arrived.
const PREFACE_PAUSE: Duration = Duration::from_millis(10);
/// Pause after an error that is not one connection's, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// The connection that a request came over.
#[derive(Clone)]
pub struct Peer {
    /// The address of the client, or of the client before a trusted proxy.
    pub remote: SocketAddr,
    /// The address of the server.
    pub local: SocketAddr,
    /// Whether TLS ends here.
    pub(crate) is_tls: bool,
    state: Arc<ConnectionState>,
    request: Arc<RequestState>,
}

#[derive(Default)]
struct ConnectionState {
    /// Requests that were admitted and whose responses are not complete.
    admitted: AtomicUsize,
    /// The account at the other end, once it was looked up.
    account: OnceCell<Option<u32>>,
    close: Notify,
}

#[derive(Default)]
struct RequestState {
    is_admitted: AtomicBool,
}

impl Peer {
    /// The same connection, for a request that a proxy forwarded.
    pub(crate) fn from(self, remote: SocketAddr) -> Peer {
        Peer { remote, ..self }
    }

    /// A connection without TLS.
    pub fn new(remote: SocketAddr, local: SocketAddr) -> Peer {
        Peer { remote, local, is_tls: false, state: Arc::default(), request: Arc::default() }
    }

    /// The same connection, for another request on it.
    fn for_request(&self) -> Peer {
        Peer { request: Arc::default(), ..self.clone() }
    }

    /// The account of this machine that opened the connection, if that can be known.
    pub(crate) async fn account(&self) -> Option<u32> {
        *self.state.account.get_or_init(|| peer_user::owner(self.remote, self.local)).await
    }

    /// Keeps the connection until the response to its request is complete.
    pub(crate) fn admit(&self) {
        if !self.request.is_admitted.swap(true, Ordering::Relaxed) {
            self.state.admitted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends what [`Peer::admit`] began.
struct Response(Peer);

impl Drop for Response {
    fn drop(&mut self) {
        if self.0.request.is_admitted.swap(false, Ordering::Relaxed) {
            self.0.state.admitted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Serves until `stop` is dropped or changes. Open streams are not waited for: they would never end.
pub async fn listen(listener: TcpListener, router: Router, limits: Limits, stop: watch::Receiver<bool>) -> io::Result<()> {
    listen_with(listener, None, router, limits, stop).await
}

/// The same, over TLS if there is a certificate.
pub async fn listen_with(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let connections = Connections::new(within_files(limits.connections_max, files_max()), count(limits.connections_per_address_max));
    let header_time = Duration::from_secs(limits.header_seconds_max);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return Ok(()),
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!("no connection could be accepted: {error}");
                connections.make_room();
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let Ok(local) = stream.local_addr() else { continue };
        let peer = Peer { is_tls: tls.is_some(), ..Peer::new(remote, local) };
        // Without a slot the connection is dropped, which closes it.
        let Some(place) = connections.add(&peer) else {
            tracing::warn!(%remote, "a connection was refused: all places are taken by requests in progress");
            continue;
        };
        // Small responses are sent at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, "{error}");
        }
        let router = router.clone();
        let mut stop = stop.clone();
        let acceptor = tls.as_ref().map(|tls| tls.acceptor());
        tokio::spawn(async move {
            let state = peer.state.clone();
            let serving = async {
                let Some(acceptor) = acceptor else {
                    match tokio::time::timeout(header_time, begins_http2(&stream)).await {
                        Ok(Ok(is_http2)) => serve_stream(stream, is_http2, router, peer, header_time).await,
                        Ok(Err(error)) => tracing::debug!(%remote, "a connection ended: {error}"),
                        Err(_) => tracing::debug!(%remote, "a connection took too long to begin a request"),
                    }
                    return;
                };
                match tokio::time::timeout(header_time, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
                        serve_stream(stream, is_http2, router, peer, header_time).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%remote, "no TLS: {error}"),
                    Err(_) => tracing::debug!(%remote, "a connection took too long to begin TLS"),
                }
            };
            tokio::select! {
                () = serving => {}
                () = state.close.notified() => tracing::debug!(%remote, "a connection without a request was closed to make room"),
                _ = stop.changed() => {}
            }
            drop(place);
        });
    }
}

/// Whether a client means HTTP/2, by the first bytes it sends; they are left to be read again.
async fn begins_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let arrived = stream.peek(&mut first).await?;
        if arrived == PREFACE.len() || arrived == 0 || !PREFACE.starts_with(&first[..arrived]) {
            return Ok(first[..arrived] == *PREFACE);
        }
        // The rest is on its way; peeking again at once would find the same bytes.
        tokio::time::sleep(PREFACE_PAUSE).await;
    }
}

/// Answers the requests of one connection until it ends.
async fn serve_stream<S>(stream: S, is_http2: bool, router: Router, peer: Peer, header_time: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let remote = peer.remote;
    let service = TowerToHyperService::new(service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        let peer = peer.for_request();
        name_host(&mut request);
        request.extensions_mut().insert(peer.clone());
        let (router, ended) = (router.clone(), Response(peer));
        async move { router.oneshot(request).await.map(|response| response.map(|body| GuardedBody::new(body, ended))) }
    }));
    let stream = TokioIo::new(stream);
    let served = match is_http2 {
        false => {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(header_time).max_headers(HEADERS_MAX).max_buf_size(BUFFER_BYTES_MAX);
            builder.serve_connection(stream, service).await
        }
        true => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(BUFFER_BYTES_MAX as u32)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_MAX);
            builder.serve_connection(stream, service).await
        }
    };
    // The error concerns this connection only; hyper has answered it as far as that was possible.
    if let Err(error) = served {
        tracing::debug!(%remote, "a connection ended: {error}");
    }
}

/// HTTP/2 has the host in the address of the request. Everything here looks for it in `Host`, which therefore must not say anything else.
fn name_host(request: &mut Request) {
    if request.version() != Version::HTTP_2 {
        return;
    }
    match request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
        Some(host) => drop(request.headers_mut().insert(header::HOST, host)),
        None => drop(request.headers_mut().remove(header::HOST)),
    }
}

/// The open connections, in the order in which they were opened.
struct Connections(Arc<Table>);

struct Table {
    total_max: usize,
    per_network_max: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    opened: u64,
    by_number: BTreeMap<u64, (IpAddr, Arc<ConnectionState>)>,
    by_network: BTreeMap<IpAddr, usize>,
}

/// The slot of an open connection, which is freed on drop.
struct ConnectionSlot {
    number: u64,
    table: Arc<Table>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.lock().remove(self.number);
    }
}

impl Connections {
    fn new(total_max: usize, per_network_max: usize) -> Connections {
        Connections(Arc::new(Table { total_max, per_network_max, open: Mutex::default() }))
    }

    /// A place for a connection, if need be that of one without an admitted request. Connections of this machine are not counted by address: a proxy here
    /// passes on everybody's.
    fn add(&self, peer: &Peer) -> Option<ConnectionSlot> {
        let network = network(peer.remote.ip());
        let mut open = self.0.lock();
        let of_network = open.by_network.get(&network).copied().unwrap_or_default();
        if !network.is_loopback() && of_network >= self.0.per_network_max && !open.close_oldest(Some(network)) {
            return None;
        }
        if open.by_number.len() >= self.0.total_max && !open.close_oldest(None) {
            return None;
        }
        open.opened += 1;
        let number = open.opened;
        open.by_number.insert(number, (network, peer.state.clone()));
        *open.by_network.entry(network).or_default() += 1;
        Some(ConnectionSlot { number, table: self.0.clone() })
    }

    /// Closes a connection without an admitted request, if there is one.
    fn make_room(&self) {
        self.0.lock().close_oldest(None);
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    fn close_oldest(&mut self, of: Option<IpAddr>) -> bool {
        let is_closable = |(_, (network, state)): &(&u64, &(IpAddr, Arc<ConnectionState>))| {
            of.is_none_or(|of| of == *network) && state.admitted.load(Ordering::Relaxed) == 0
        };
        let Some((&number, (_, state))) = self.by_number.iter().find(is_closable) else { return false };
        state.close.notify_one();
        self.remove(number);
        true
    }

    fn remove(&mut self, number: u64) {
        let Some((network, _)) = self.by_number.remove(&number) else { return };
        if let Some(count) = self.by_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&network);
            }
        }
    }
}

/// What counts as one address: of IPv6 the /64 network, as one host has all addresses of it.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        other => other,
    }
}

/// Files are also needed for the database, indexes, models and tools.
fn within_files(connections_max: u64, files_max: u64) -> usize {
    count(connections_max.min(files_max / 4 * 3).max(1))
}

/// How many files this process may have open, after raising that as far as is permitted.
fn files_max() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_raised = current < maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if is_raised { maximum } else { current }.unwrap_or(u64::MAX)
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests;

//! Takes connections and gives each to the router: HTTP/1.1, with limits on how many there are and on how long a request's headers may take.
//!
//! `axum::serve` has no such limits, so this is its loop again with hyper's own settings. A connection whose request was admitted by the guard is kept until
//! its response is complete. Any other, idle or still sending headers, is closed when a new one needs its place, the oldest first: clients that open
//! connections and send nothing cannot keep others out.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, OnceCell, watch};
use tower::{ServiceExt as _, service_fn};

use crate::guarded_body::GuardedBody;
use crate::limits::{Limits, count};
use crate::peer_user;
use crate::tls::Tls;

const HEADERS_MAX: usize = 64;
/// Bytes that are read ahead: the headers of a request fit in here, or it is refused.
const BUFFER_BYTES_MAX: usize = 64 << 10;
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
}

#[derive(Default)]
struct ConnectionState {
    /// A request was admitted and its response is not complete.
    is_admitted: AtomicBool,
    /// The account at the other end, once it was looked up.
    account: OnceCell<Option<u32>>,
    close: Notify,
}

impl Peer {
    /// The same connection, for a request that a proxy forwarded.
    pub(crate) fn from(self, remote: SocketAddr) -> Peer {
        Peer { remote, ..self }
    }

    /// A connection without TLS.
    pub fn new(remote: SocketAddr, local: SocketAddr) -> Peer {
        Peer { remote, local, is_tls: false, state: Arc::default() }
    }

    /// The account of this machine that opened the connection, if that can be known.
    pub(crate) async fn account(&self) -> Option<u32> {
        *self.state.account.get_or_init(|| peer_user::owner(self.remote, self.local)).await
    }

    /// Keeps the connection until the response to its request is complete.
    pub(crate) fn admit(&self) {
        self.state.is_admitted.store(true, Ordering::Relaxed);
    }
}

/// Ends what [`Peer::admit`] began.
struct Response(Arc<ConnectionState>);

impl Drop for Response {
    fn drop(&mut self) {
        self.0.is_admitted.store(false, Ordering::Relaxed);
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
                let Some(acceptor) = acceptor else { return serve_stream(stream, router, peer, header_time).await };
                match tokio::time::timeout(header_time, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => serve_stream(stream, router, peer, header_time).await,
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

/// Answers the requests of one connection until it ends.
async fn serve_stream<S>(stream: S, router: Router, peer: Peer, header_time: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let remote = peer.remote;
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        let (router, ended) = (router.clone(), Response(peer.state.clone()));
        async move { router.oneshot(request).await.map(|response| response.map(|body| GuardedBody::new(body, ended))) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_time).max_headers(HEADERS_MAX).max_buf_size(BUFFER_BYTES_MAX);
    // The error concerns this connection only; hyper has answered it as far as that was possible.
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await {
        tracing::debug!(%remote, "a connection ended: {error}");
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
            of.is_none_or(|of| of == *network) && !state.is_admitted.load(Ordering::Relaxed)
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

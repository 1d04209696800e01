//! Takes connections and gives each to the router: HTTP/1.1, a limit on how many, and on how long anybody may take to ask.
//!
//! `axum::serve` has no such limits, so this is its loop again with hyper's own settings.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::{ServiceExt as _, service_fn};

/// For the line and the headers of a request, also while a connection lies idle between two.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
const HEADERS_MAX: usize = 64;
/// What is read ahead: the headers of a request fit in here, or it is refused.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// After an error that is not one connection's, such as too many open files.
const AFTER_TROUBLE: Duration = Duration::from_millis(50);

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves until `stop` is dropped or changes. Open streams are not waited for: they would never end.
pub async fn listen(listener: TcpListener, router: Router, connections_max: usize, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return Ok(()),
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!("no connection could be taken: {error}");
                tokio::time::sleep(AFTER_TROUBLE).await;
                continue;
            }
        };
        // Dropped, the connection is closed: whoever has one keeps it.
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "all {connections_max} connections are taken; one more was refused");
            continue;
        };
        // Small answers must not wait for more to say.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, "{error}");
        }
        let router = router.clone();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let mut request: Request = request.map(Body::new);
                request.extensions_mut().insert(Peer(peer));
                router.clone().oneshot(request)
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_headers(HEADERS_MAX).max_buf_size(BUFFER_BYTES_MAX);
            let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            tokio::select! {
                // Whatever went wrong, it was that connection's; hyper has answered it as far as that was possible.
                served = serving => if let Err(error) = served { tracing::debug!(%peer, "a connection ended: {error}"); },
                _ = stop.changed() => {}
            }
            drop(place);
        });
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

//! Accepts the connections of a Restate server: HTTP/2 without TLS, and without the delay that small packets have by default. Together with
//! delayed acknowledgements that costs 40 ms for each message.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};

use crate::worker::ResponseBody;

const BACKLOG: u32 = 1_024;
/// A Restate server uses few connections, with many invocations on each.
const CONNECTIONS_MAX: usize = 256;
const STREAMS_MAX: u32 = 2_000;
/// A server that is gone without a word is noticed after this time and a bit.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_MAX: Duration = Duration::from_secs(20);
/// Pause after an error that is not one connection's, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    #[cfg(all(unix, not(target_os = "solaris"), not(target_os = "illumos")))]
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

pub(crate) async fn serve(
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
    answer: impl Fn(Request<Incoming>) -> Response<ResponseBody> + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("no connection could be accepted: {error}");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        // One too many is closed at once.
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("a connection has small packets delayed: {error}");
        }
        let (answer, mut stop) = (answer.clone(), stop.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = answer(request);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_MAX)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A connection that is lost concerns its invocations, which notice it themselves.
                _ = connection => {}
                _ = stop.changed() => {}
            }
            drop(place);
        });
    }
}

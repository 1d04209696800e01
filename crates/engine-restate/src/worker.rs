//! A worker: the endpoint that a Restate server calls.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::{Clock, Engine};
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use restate_sdk_shared_core::ResponseHead;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::drive::drive;
use crate::identity::Identity;
use crate::memo::InProgress;
use crate::perform::perform;
use crate::protocol::{Invocation, InvocationEnd, Outgoing};
use crate::remote::Calls;
use crate::{DRIVE, EFFECT_SERVICE, PERFORM, THREAD_SERVICE, listen, manifest};

/// Who may call a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerSettings {
    /// Public keys of Restate servers (`publickeyv1_…`). With any of them, requests that are not signed by one are refused.
    pub identity_keys: Vec<String>,
}

/// What the handlers of a worker share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) calls: Calls,
    pub(crate) in_progress: InProgress,
    pub(crate) clock: Clock,
    /// One effect at a time that may be what ended its worker.
    pub(crate) suspects: Arc<Semaphore>,
    identity: Identity,
}

/// A worker that is bound to a port.
pub struct Worker {
    shared: Arc<Shared>,
    listener: TcpListener,
}

pub(crate) type ResponseBody = Either<Full<Bytes>, Outgoing>;

impl Worker {
    /// A worker at this address. `calls` is what the engine performs its effects with (`Settings::remote`). Several workers of one account can share a
    /// port of one machine.
    pub fn bind(address: SocketAddr, engine: Engine, calls: Calls, clock: Clock, settings: &WorkerSettings) -> Result<Worker, String> {
        let identity = Identity::new(&settings.identity_keys)?;
        if identity.is_open() && !address.ip().is_loopback() {
            return Err(format!(
                "anybody who reaches {address} could have effects performed; name the public key of the Restate server with --identity-key, or listen on 127.0.0.1"
            ));
        }
        let listener = listen::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
        let shared = Arc::new(Shared { engine, calls, in_progress: InProgress::default(), clock, suspects: Arc::new(Semaphore::new(1)), identity });
        Ok(Worker { shared, listener })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is dropped or changes.
    pub async fn serve(self, stop: watch::Receiver<bool>) {
        let shared = self.shared;
        listen::serve(self.listener, stop, move |request| answer(request, &shared)).await;
    }
}

fn answer(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    if let Err(error) = shared.identity.verify(&parts.headers, &path) {
        tracing::warn!("a request for {path} was refused: {error}");
        return plain(StatusCode::UNAUTHORIZED, "the request is not signed by a server whose key this worker has");
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let drives = match segments.as_slice() {
        [.., "health"] => return plain(StatusCode::OK, ""),
        [.., "discover"] => return discovered(&parts.headers, &manifest::manifest()),
        [.., "invoke", THREAD_SERVICE, DRIVE] => true,
        [.., "invoke", EFFECT_SERVICE, PERFORM] => false,
        _ => return plain(StatusCode::NOT_FOUND, "this worker has no such handler"),
    };
    // The store has the position of a run, so `drive` does not replay; `perform` must find out whether it was begun before.
    let (invocation, head, outgoing) = match Invocation::new(parts.headers, body, !drives) {
        Ok(begun) => begun,
        Err(error) => return plain(StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &error.to_string()),
    };
    let shared = shared.clone();
    run_detached(async move { if drives { Box::pin(drive(invocation, shared)).await } else { Box::pin(perform(invocation, shared)).await } });
    begun(head, outgoing)
}

/// Runs an invocation beside the response that carries its messages.
pub(crate) fn run_detached(invocation: impl Future<Output = Result<(), InvocationEnd>> + Send + 'static) {
    tokio::spawn(async move {
        match invocation.await {
            Ok(()) | Err(InvocationEnd::Disconnected | InvocationEnd::Suspended) => {}
            Err(error @ InvocationEnd::Protocol(_)) => tracing::warn!("an invocation failed and is tried again: {error}"),
        }
    });
}

/// The response to a request that began an invocation.
pub(crate) fn begun(head: ResponseHead, outgoing: Outgoing) -> Response<ResponseBody> {
    let mut response = Response::builder().status(head.status_code);
    for header in head.headers {
        response = response.header(&*header.key, &*header.value);
    }
    response.body(Either::Right(outgoing)).unwrap_or_else(|error| plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
}

pub(crate) fn discovered(headers: &http::HeaderMap, manifest: &Value) -> Response<ResponseBody> {
    let accepted = headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepted.contains(manifest::CONTENT_TYPE) {
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this worker needs Restate 1.5 or newer");
    }
    let body = Either::Left(Full::new(Bytes::from(manifest.to_string())));
    let response = Response::builder().header("content-type", manifest::CONTENT_TYPE).body(body);
    response.unwrap_or_else(|error| plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
}

pub(crate) fn plain(status: StatusCode, words: &str) -> Response<ResponseBody> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(words.to_owned()))));
    *response.status_mut() = status;
    response
}

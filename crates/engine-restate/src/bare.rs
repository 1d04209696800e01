//! What a Restate server can do without Baton, for benchmarks: a handler that makes one call after the other, and one that returns at once.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use restate_sdk_shared_core::{PayloadOptions, Target, VM as _};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::protocol::{Invocation, InvocationEnd, Progress};
use crate::worker::{ResponseBody, begun, discovered, plain, run_detached};
use crate::{listen, manifest};

pub(crate) const CALLER_SERVICE: &str = "BatonBenchCaller";
pub(crate) const CALLS: &str = "calls";
pub(crate) const NOOP_SERVICE: &str = "BatonBenchNoop";
pub(crate) const NOOP: &str = "noop";

/// The input of `calls`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallsInput {
    pub(crate) calls: u64,
    /// Bytes of the argument of each call.
    pub(crate) bytes: usize,
}

/// A service that a Restate server calls as it calls a worker, with the same protocol library, connections and retention, but without runs, journals and
/// idempotency keys.
pub struct BareService(TcpListener);

impl BareService {
    /// The service at this address.
    pub fn bind(address: SocketAddr) -> io::Result<BareService> {
        listen::bind(address).map(BareService)
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until `stop` is dropped or changes.
    pub async fn serve(self, stop: watch::Receiver<bool>) {
        listen::serve(self.0, stop, answer).await;
    }
}

fn answer(request: Request<Incoming>) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let segments: Vec<&str> = parts.uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let is_caller = match segments.as_slice() {
        [.., "health"] => return plain(StatusCode::OK, ""),
        [.., "discover"] => return discovered(&parts.headers, &manifest::bare()),
        [.., "invoke", CALLER_SERVICE, CALLS] => true,
        [.., "invoke", NOOP_SERVICE, NOOP] => false,
        _ => return plain(StatusCode::NOT_FOUND, "this service has no such handler"),
    };
    let (invocation, head, outgoing) = match Invocation::new(parts.headers, body, true) {
        Ok(begun) => begun,
        Err(error) => return plain(StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &error.to_string()),
    };
    run_detached(async move { if is_caller { Box::pin(call_in_turn(invocation)).await } else { Box::pin(do_nothing(invocation)).await } });
    begun(head, outgoing)
}

async fn call_in_turn(mut invocation: Invocation) -> Result<(), InvocationEnd> {
    let input = invocation.input().await?;
    let CallsInput { calls, bytes } = match serde_json::from_slice(&input.input) {
        Ok(input) => input,
        Err(error) => return invocation.end(Err((400, error.to_string()))).await,
    };
    let argument = Bytes::from(serde_json::Value::from("x".repeat(bytes)).to_string());
    for _ in 0..calls {
        let target = Target {
            service: NOOP_SERVICE.to_owned(),
            handler: NOOP.to_owned(),
            key: None,
            idempotency_key: None,
            scope: None,
            limit_key: None,
            headers: Vec::new(),
        };
        let handle = invocation.vm.sys_call(target, argument.clone(), None, PayloadOptions::default())?.call_notification_handle;
        loop {
            match invocation.progress(vec![handle]).await? {
                Some(Progress::Completed) => break,
                Some(Progress::Cancelled) => return invocation.end(Err((409, "cancelled".to_owned()))).await,
                Some(Progress::Execute(_)) | None => invocation.receive().await?,
            }
        }
        invocation.vm.take_notification(handle)?;
    }
    invocation.end(Ok(Bytes::from_static(b"null"))).await
}

async fn do_nothing(mut invocation: Invocation) -> Result<(), InvocationEnd> {
    invocation.input().await?;
    invocation.end(Ok(Bytes::from_static(b"null"))).await
}

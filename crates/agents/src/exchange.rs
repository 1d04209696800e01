//! Requests to one service for one call, within limits, and what their failures mean.

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use graph::{Failure, FailureKind, Job, Reply};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};

use crate::langserve::{BodyError, DEPTH, KEY, Service, failure_of_status, read, unreachable_message};
use crate::traceparent;

pub(crate) const REPLY_BYTES_MAX: usize = 6 << 20;
const ERROR_BYTES_MAX: usize = 16 << 10;
/// Bytes of one stream; a longer one is given up, and what became of the call is read instead.
pub(crate) const STREAM_BYTES_MAX: usize = 64 << 20;
/// Bytes of one event of a stream.
const EVENT_BYTES_MAX: usize = REPLY_BYTES_MAX;

/// The headers of every request of a call: the token, the trace, the effect's key and the nesting depth of calls.
pub(crate) fn headers(service: &Service, job: &Job) -> HeaderMap {
    let mut headers = service.headers();
    traceparent::carry(&mut headers);
    if let Ok(key) = HeaderValue::from_str(&job.key.to_string()) {
        headers.insert(HeaderName::from_static(KEY), key);
    }
    headers.insert(HeaderName::from_static(DEPTH), HeaderValue::from(job.depth + 1));
    headers
}

/// The reply to a call that has the deadline of its job. A call that is not answered in time can be repeated: the next attempt finds the same task or run.
pub(crate) async fn reply_in_time(name: &str, service: &Service, job: &Job, call: impl Future<Output = Result<Value, Failure>>) -> Reply {
    let within = Duration::from_millis(job.deadline_ms.max(1));
    match tokio::time::timeout(within, call).await {
        Ok(Ok(value)) => Reply::ok(value).about(json!({ "agent": name, "service": service.address() })),
        Ok(Err(failure)) => Reply::failed(failure),
        Err(_) => Reply::failed(Failure::new(FailureKind::Network, format!("{name} did not answer in time")).retry()),
    }
}

/// A UUID derived from a text of hexadecimal digits, the same in every process.
pub(crate) fn uuid_of(key: &str) -> String {
    let digits: String = key.chars().filter(char::is_ascii_hexdigit).map(|c| c.to_ascii_lowercase()).collect();
    let mut digits: String = digits.chars().chain(std::iter::repeat('0')).take(32).collect();
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "a");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

pub(crate) struct Exchange<'a> {
    pub(crate) service: &'a Service,
    /// The agent's name, for messages.
    pub(crate) name: &'a str,
    pub(crate) headers: HeaderMap,
}

/// A reply with an error status: its headers and the beginning of its body.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Why a request has no usable reply.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The service has nothing at that address (status 404).
    NotFound(Failure),
    Failed(Failure),
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        RequestError::Failed(failure)
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NotFound(failure) | RequestError::Failed(failure) => failure,
        }
    }
}

impl Exchange<'_> {
    pub(crate) fn client(&self) -> Result<&reqwest::Client, Failure> {
        self.service.client().map_err(|why| Failure::new(FailureKind::Internal, why))
    }

    /// The response, or the refusal; a connection that broke is a failure.
    pub(crate) async fn request(&self, request: reqwest::RequestBuilder) -> Result<Result<reqwest::Response, Refusal>, Failure> {
        let failed = |error: reqwest::Error| Failure::new(FailureKind::Network, format!("{} {}", self.name, unreachable_message(&error))).retry();
        let response = request.headers(self.headers.clone()).send().await.map_err(failed)?;
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = read(response, ERROR_BYTES_MAX).await.unwrap_or_default();
        Ok(Err(Refusal { status, headers, body }))
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failure> {
        self.request(request).await?.map_err(|refusal| self.refused(&refusal))
    }

    pub(crate) fn refused(&self, refusal: &Refusal) -> Failure {
        failure_of_status(self.name, refusal.status, &refusal.headers, &String::from_utf8_lossy(&refusal.body))
    }

    /// The body as JSON; an empty one is `null`.
    pub(crate) async fn body(&self, response: reqwest::Response) -> Result<Value, Failure> {
        let body = read(response, REPLY_BYTES_MAX).await.map_err(|(broken, why)| match broken {
            BodyError::Cut => Failure::new(FailureKind::Network, format!("{}: {why}", self.name)).retry(),
            BodyError::TooLarge => Failure::new(FailureKind::Invalid, format!("{}: {why}", self.name)),
        })?;
        if body.trim_ascii().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|error| self.invalid_reply(&format!("answered with something that is not JSON ({error})")))
    }

    /// The events of a stream until it ends, breaks off or becomes too long. Bytes are counted as they arrive: a line without an end must not fill the memory.
    pub(crate) fn events(&self, response: reqwest::Response) -> BoxStream<'static, Sse> {
        let (name, mut left) = (self.name.to_owned(), STREAM_BYTES_MAX);
        let of_event = Arc::new(AtomicUsize::new(0));
        let arrived = of_event.clone();
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            left = left.saturating_sub(chunk.len());
            let of_event = arrived.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            if left == 0 || of_event > EVENT_BYTES_MAX {
                tracing::warn!(
                    agent = name.as_str(),
                    "its stream is too long (at most {STREAM_BYTES_MAX} bytes, {EVENT_BYTES_MAX} of one event); its state is read instead"
                );
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            Ok(chunk)
        });
        let events = SseStream::from_bytes_stream(bytes).inspect(move |_| of_event.store(0, Ordering::Relaxed));
        events.take_while(|event| ready(event.is_ok())).filter_map(|event| ready(event.ok())).boxed()
    }

    pub(crate) async fn json(&self, request: reqwest::RequestBuilder) -> Result<Value, RequestError> {
        match self.request(request).await? {
            Ok(response) => Ok(self.body(response).await?),
            Err(refusal) if refusal.status == 404 => Err(RequestError::NotFound(self.refused(&refusal))),
            Err(refusal) => Err(RequestError::Failed(self.refused(&refusal))),
        }
    }

    pub(crate) fn invalid_reply(&self, why: &str) -> Failure {
        Failure::new(FailureKind::Invalid, format!("{} {why}", self.name)).retry()
    }

    pub(crate) fn post(&self, url: String, body: &Value) -> Result<reqwest::RequestBuilder, Failure> {
        Ok(self.client()?.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()))
    }
}

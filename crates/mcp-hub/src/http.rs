//! HTTP as the streamable transport needs it, with a limit on everything that is read.
//!
//! The SDK's own client reads a JSON body whole, whatever its size. This one stops at the limit, and what was too large becomes an
//! error for the request it answered, as it does on stdio.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::bounded::{LINE_BYTES_MAX, too_large};
use effects::clip;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REDIRECTS_MAX: usize = 5;
/// Bytes of an error page that are read.
const ERROR_BYTES_MAX: usize = 16 << 10;
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

#[derive(Clone)]
pub(crate) struct BoundedHttp(reqwest::Client);

type HttpError = StreamableHttpError<reqwest::Error>;

impl BoundedHttp {
    pub(crate) fn new() -> Result<Self, String> {
        // Fails when a provider is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // A message goes on only to the same origin and only with its body: another place must not get our headers.
        let redirects = reqwest::redirect::Policy::custom(|attempt| {
            let from = attempt.previous().last();
            let is_same = from.is_some_and(|from| from.origin() == attempt.url().origin());
            let keeps_body = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if is_same && keeps_body && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
        });
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirects)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(BoundedHttp(client))
    }
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let had_session = session_id.is_some();
        let request = with_headers(self.0.post(&*uri), session_id.as_deref(), auth_header, custom_headers);
        let response = request.json(&message).send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        challenge(status, &headers)?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
        let session = headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if !status.is_success() {
            return refused(&message, had_session, status, &headers, response).await;
        }
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let Some(id) = id else {
            // Nothing is awaited, so whatever the body holds is not read.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        if content_type.starts_with(STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(events(response, Some(id)), session));
        }
        if !content_type.starts_with(JSON) {
            return Err(StreamableHttpError::UnexpectedContentType(Some(content_type)));
        }
        let body = match body(response, LINE_BYTES_MAX).await? {
            Ok(body) => body,
            Err(bytes) => too_large(&id_json(&id), bytes).into_bytes(),
        };
        let reply: ServerJsonRpcMessage = serde_json::from_slice(&body).map_err(|error| {
            let shown = clip(&String::from_utf8_lossy(&body), 300);
            StreamableHttpError::UnexpectedServerResponse(Cow::Owned(format!("not a JSON-RPC message ({error}): {shown}")))
        })?;
        Ok(StreamableHttpPostResponse::Json(reply, session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let response = with_headers(self.0.delete(&*uri), Some(&session_id), auth_header, custom_headers).send().await?;
        // A server need not let clients end sessions.
        if response.status() != StatusCode::METHOD_NOT_ALLOWED {
            response.error_for_status()?;
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let mut request = with_headers(self.0.get(&*uri), session_id.as_deref(), auth_header, custom_headers);
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT, last);
        }
        let response = request.send().await?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        challenge(status, response.headers())?;
        if let Some(error) = busy(status, response.headers()) {
            return Err(error.into());
        }
        let response = response.error_for_status()?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
        if !content_type.starts_with(STREAM) {
            return Err(StreamableHttpError::UnexpectedContentType(Some(content_type)));
        }
        Ok(events(response, None))
    }
}

fn with_headers(
    request: reqwest::RequestBuilder,
    session: Option<&str>,
    token: Option<String>,
    custom: HashMap<HeaderName, HeaderValue>,
) -> reqwest::RequestBuilder {
    let mut request = request.header(ACCEPT, format!("{STREAM}, {JSON}"));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if let Some(session) = session {
        request = request.header(SESSION, session);
    }
    for (name, value) in custom {
        request = request.header(name, value);
    }
    request
}

/// A 401 or 403 that names what it requires.
fn challenge(status: StatusCode, headers: &HeaderMap) -> Result<(), HttpError> {
    let challenge_header = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    match (status, challenge_header) {
        // Some servers do not say how; where to sign in is then found at the well-known addresses.
        (StatusCode::UNAUTHORIZED, challenge_header) => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge_header.unwrap_or_default())))
        }
        (StatusCode::FORBIDDEN, Some(challenge_header)) => {
            let scope = scope_of(&challenge_header);
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge_header, scope)))
        }
        _ => Ok(()),
    }
}

fn scope_of(challenge: &str) -> Option<String> {
    let after = &challenge[challenge.find("scope=\"")? + 7..];
    after.split('"').next().filter(|scope| !scope.is_empty()).map(str::to_owned)
}

fn busy(status: StatusCode, headers: &HeaderMap) -> Option<HttpStatusError> {
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).filter(|text| text.len() < 64).map(str::to_owned);
    is_busy.then(|| HttpStatusError::new(status.as_u16(), retry_after))
}

/// What a status of 4xx or 5xx means: a JSON-RPC error when the body holds one.
async fn refused(
    message: &ClientJsonRpcMessage,
    had_session: bool,
    status: StatusCode,
    headers: &HeaderMap,
    response: reqwest::Response,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let body = body(response, ERROR_BYTES_MAX).await?.unwrap_or_default();
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let is_authorization = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let ClientJsonRpcMessage::Request(request) = message {
        // A server of an earlier revision refuses the question which revisions it supports in its own way, often without naming the
        // request. That is an answer too: it decides which handshake follows.
        let is_probe = matches!(request.request, ClientRequest::DiscoverRequest(_)) && !had_session && status.is_client_error();
        if is_probe && !is_authorization {
            let message = format!("server/discover was refused with HTTP {status}: {}", clip(&String::from_utf8_lossy(&body), 300));
            let error = error.map_or_else(|| ErrorData::invalid_request(message, None), |error| error.error);
            return Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(request.id.clone())), None));
        }
        if let (Some(error), false) = (error, is_authorization) {
            let id = error.id.or_else(|| Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error.error, id), None));
        }
    }
    if let Some(error) = busy(status, headers) {
        return Err(error.into());
    }
    let shown = clip(String::from_utf8_lossy(&body).trim(), 300);
    Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}: {shown}"))))
}

/// The whole body, or how much of it was read before it was too much.
async fn body(response: reqwest::Response, bytes_max: usize) -> Result<Result<Vec<u8>, u64>, reqwest::Error> {
    if let Some(bytes) = response.content_length().filter(|bytes| *bytes > bytes_max as u64) {
        return Ok(Err(bytes));
    }
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
        if body.len() > bytes_max {
            return Ok(Err(body.len() as u64));
        }
    }
    Ok(Ok(body))
}

/// The events of a body. One that grows too large ends the stream, with an error for the request it answered if that is known.
fn events(response: reqwest::Response, id: Option<RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut event = EventSize::default();
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(error.without_url()))?;
        if event.grow(&chunk) > LINE_BYTES_MAX {
            Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "an event is too large"))
        } else {
            Ok(chunk)
        }
    });
    let last = move |is_over: &mut bool, event: Result<Sse, SseError>| {
        if *is_over {
            return std::future::ready(None);
        }
        let event = match (event, &id) {
            (Err(SseError::Body(error)), id) if is_too_large(&*error) => {
                *is_over = true;
                match id {
                    Some(id) => Ok(Sse { data: Some(too_large(&id_json(id), LINE_BYTES_MAX as u64 + 1)), ..Sse::default() }),
                    None => Err(SseError::Body(error)),
                }
            }
            (event, _) => event,
        };
        std::future::ready(Some(event))
    };
    SseStream::from_bytes_stream(bytes).scan(false, last).boxed()
}

fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::FileTooLarge)
}

fn id_json(id: &RequestId) -> String {
    serde_json::to_string(id).unwrap_or_else(|_| "null".into())
}

/// How large the event is that is being read. It ends with an empty line.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    is_line_empty: bool,
}

impl EventSize {
    /// The largest it was while these bytes came.
    fn grow(&mut self, chunk: &[u8]) -> usize {
        let mut largest = 0;
        for byte in chunk {
            match byte {
                b'\n' if self.is_line_empty => self.bytes = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            self.bytes += 1;
            largest = largest.max(self.bytes);
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_an_empty_line() {
        let mut size = EventSize::default();
        assert_eq!(size.grow(b"data: 123\n"), 10);
        assert_eq!(size.grow(b"data: 45\r\n\r\nda"), 21);
        assert!(size.grow(b"ta: 6\n") < 12);
    }

    #[test]
    fn a_challenge_names_its_scope() {
        assert_eq!(scope_of(r#"Bearer error="insufficient_scope", scope="a b", x="y""#).as_deref(), Some("a b"));
        assert_eq!(scope_of("Bearer"), None);
    }
}

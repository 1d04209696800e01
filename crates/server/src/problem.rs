//! What went wrong, for HTTP: a status, a kind for programs, and a message for people with what to do.
//!
//! Internal details go to the log; the client receives only what helps it.

use axum::Json;
pub use axum::http::StatusCode;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use engine::EngineError;
use graph::RunError;
use store::StoreError;
use wire::api::{Error, ErrorBody};

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The status of the response.
    pub status: StatusCode,
    /// The kind in the body, a word for programs.
    pub kind: &'static str,
    /// The message in the body.
    pub message: String,
    /// The value of `Retry-After`.
    pub retry_after_s: Option<u64>,
}

impl Problem {
    /// A problem without `Retry-After`.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Problem { status, kind, message: message.into(), retry_after_s: None }
    }

    /// Also for things of another user: whether they exist is not revealed.
    pub fn not_found(what: &str) -> Self {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    /// 422: the request is well-formed, but its content is not accepted.
    pub fn invalid(message: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// 400: the request cannot be read.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// 409: the request does not fit the state of its target.
    pub fn conflict(message: impl Into<String>) -> Self {
        Problem::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// 429: the caller exceeds a limit.
    pub fn too_many(message: impl Into<String>, retry_after_s: u64) -> Self {
        Problem { retry_after_s: Some(retry_after_s), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", message) }
    }

    /// 503: the server cannot do it now; the client should retry after a second.
    pub fn busy(message: impl Into<String>) -> Self {
        Problem { retry_after_s: Some(1), ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message) }
    }

    /// The words are for the log.
    pub fn internal(why: &dyn std::fmt::Display) -> Self {
        tracing::error!("a request failed inside: {why}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something went wrong here; the server's log says what")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = ErrorBody { kind: self.kind.to_owned(), message: self.message.clone() };
        let mut response = (self.status, Json(Error { error })).into_response();
        let retry_after_s = self.retry_after_s;
        // Other protocols say it in their own form; see [`crate::protocols`].
        response.extensions_mut().insert(self);
        if let Some(seconds) = retry_after_s.and_then(|seconds| HeaderValue::from_str(&seconds.to_string()).ok()) {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let words = error.to_string();
        match error {
            StoreError::NoRun { .. } => Problem::not_found("run"),
            StoreError::NoThread { .. } | StoreError::NotYours { .. } => Problem::not_found("thread"),
            StoreError::Held { .. } => Problem::conflict("another process is running something in this thread; try again when it is done"),
            StoreError::Exists { .. } => Problem::conflict("that exists already"),
            StoreError::Unreachable { .. } => Problem::busy("the database cannot be reached at the moment; try again"),
            StoreError::Fenced { .. } | StoreError::Closed => Problem::busy("another server drives the run; try again"),
            StoreError::Full { .. } => {
                tracing::error!("{words}");
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "full", "the server's disk is full; try again when its operator has made room")
            }
            StoreError::TooLarge { .. } | StoreError::TooMany { .. } => Problem::new(StatusCode::INSUFFICIENT_STORAGE, "limit", words),
            other => Problem::internal(&other),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let words = error.to_string();
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Busy { .. } | EngineError::Restless { .. } | EngineError::DrivenElsewhere { .. } => {
                Problem::busy("the server is busy; try again in a moment")
            }
            EngineError::Stopping => Problem::busy("the server is stopping; unfinished runs continue after its restart"),
            EngineError::NoFlow { .. } | EngineError::NoStep { .. } => Problem::invalid(words),
            EngineError::Run(RunError::Input { why, .. } | RunError::Edit { why }) => Problem::invalid(why),
            EngineError::Over { .. } | EngineError::Feed(_) => Problem::conflict(words),
            // The flow has changed since; another request would not help.
            EngineError::Run(_) | EngineError::Crashed { .. } => Problem::conflict(words),
            EngineError::Entry { .. } => Problem::internal(&words),
        }
    }
}

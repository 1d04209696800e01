//! Extractors of the API: JSON bodies and files within a size and a time, and query parameters.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::bodies;
use crate::limits::{Limits, count};
use crate::problem::Problem;

pub(crate) const JSON_WITHIN: Duration = Duration::from_secs(20);
const FILE_WITHIN: Duration = Duration::from_secs(300);

/// A JSON body; an empty one is `{}`. The content type is required, because browsers preflight it across origins.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        must_be(request.headers(), "application/json")?;
        let bytes = read_within(request, |limits| limits.body_bytes_max, JSON_WITHIN).await?;
        let text = if bytes.is_empty() { b"{}" } else { &*bytes };
        // serde would read a list as the fields in their order.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::invalid("the body must be a JSON object"));
        }
        let read = engine::in_place(text.len(), || serde_json::from_slice(text));
        read.map(JsonBody).map_err(|error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Data => Problem::invalid(error.to_string()),
            _ => Problem::new(StatusCode::BAD_REQUEST, "invalid", format!("the body is no JSON: {error}")),
        })
    }
}

/// The body of an uploaded file.
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        must_be(request.headers(), "application/octet-stream")?;
        read_within(request, |limits| limits.upload_bytes_max, FILE_WITHIN).await.map(RawBody)
    }
}

/// The query parameters of an address.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::try_from_uri(&parts.uri).map(|Query(asked)| QueryParams(asked)).map_err(|error| Problem::invalid(error.body_text()))
    }
}

pub(crate) fn must_be(headers: &HeaderMap, wanted: &str) -> Result<(), Problem> {
    must_be_one_of(headers, &[wanted])
}

pub(crate) fn must_be_one_of(headers: &HeaderMap, wanted: &[&str]) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    match wanted.iter().any(|wanted| kind.eq_ignore_ascii_case(wanted)) {
        true => Ok(()),
        false => {
            let words = format!("send it with Content-Type: {}", wanted.join(" or "));
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid", words))
        }
    }
}

/// The body of a request, within a limit of the server that it came to; the server leaves its limits with the request.
pub(crate) async fn read_within(request: Request, limit: impl Fn(&Limits) -> u64, within: Duration) -> Result<Bytes, Problem> {
    let limits = request.extensions().get::<Limits>().copied().unwrap_or_default();
    read(request.into_body(), count(limit(&limits)), within).await
}

pub(crate) async fn read(body: Body, bytes_max: usize, within: Duration) -> Result<Bytes, Problem> {
    match tokio::time::timeout(within, axum::body::to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let is_too_long = std::error::Error::source(&error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
            match is_too_long {
                false if bodies::is_full(&error) => Err(Problem::too_many(
                    "too many bytes of request bodies are in memory (bodies_bytes_max and bodies_bytes_total_max of the server); wait for the answers",
                    1,
                )),
                true => Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", format!("more than {bytes_max} bytes"))),
                false => Err(Problem::new(StatusCode::BAD_REQUEST, "invalid", "the body broke off")),
            }
        }
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "limit", format!("the body took longer than {} s", within.as_secs()))),
    }
}

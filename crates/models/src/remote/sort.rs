//! Sorts what went wrong by who can do something about it.
//!
//! | reply | result |
//! |---|---|
//! | no connection, broken off, 408, 409, 425, 429, 5xx, "overloaded" in a stream | again, after `Retry-After` if there is one |
//! | 402 or no quota, 404, 410, 413 or too long, an answer that is not of the dialect | another model |
//! | 400, 401, 403, 422, anything of ours | the user |

use std::time::{Duration, SystemTime};

use genai::webc;
use graph::FailureKind;
use reqwest::header::HeaderMap;
use serde_json::Value;

use effects::clip;

use crate::{ModelError, Name, Remedy, Secret, name};

const WORDS_BYTES_MAX: usize = 500;

/// How servers say that a prompt is longer than the model holds: OpenAI and its like, vLLM, Anthropic, Gemini, llama.cpp.
const TOO_LONG: [&str; 6] =
    ["context_length", "context length", "maximum context", "too long", "exceeds the maximum number of tokens", "exceed_context_size"];

pub(super) fn sorted(error: &genai::Error, name: &Name, key: Option<&Secret>) -> ModelError {
    let mut trouble = sort(error, name);
    if let Some(key) = key {
        trouble.message = key.redact_in(&trouble.message);
    }
    trouble
}

fn sort(error: &genai::Error, name: &Name) -> ModelError {
    use genai::Error;
    if let Some(status) = error.status() {
        let (body, headers) = answer_of(error);
        return by_status(status.as_u16(), body, headers, name);
    }
    match error {
        Error::WebStream { error, cause, .. } => match error.downcast_ref::<Error>() {
            Some(inner) if inner.status().is_some() => sort(inner, name),
            _ => ModelError::again(
                FailureKind::Network,
                format!("the connection was lost: {}", clip(&root_of(error.as_ref(), cause), WORDS_BYTES_MAX)),
            ),
        },
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => match webc_error {
            webc::Error::Reqwest(error) if error.is_decode() || error.is_body() => {
                ModelError::again(FailureKind::Network, "the answer broke off before its end")
            }
            webc::Error::Reqwest(error) => {
                let root = root_of(error, "no connection");
                ModelError::again(FailureKind::Network, format!("it could not be reached: {}", clip(&root, WORDS_BYTES_MAX)))
            }
            webc::Error::ResponseFailedNotJson { content_type, body } => {
                let shown = clip(body.trim(), 200);
                ModelError::another(FailureKind::Invalid, format!("it answered with {content_type:?} instead of JSON: {shown:?}"))
            }
            webc::Error::ResponseFailedInvalidJson { body, cause } => {
                let shown = clip(body.trim(), 200);
                ModelError::another(FailureKind::Invalid, format!("its answer is not JSON ({cause}): {shown:?}"))
            }
            webc::Error::ResponseFailedStatus { .. } | webc::Error::JsonValueExt(_) => {
                ModelError::another(FailureKind::Invalid, "its answer does not have the form of its API")
            }
        },
        Error::ChatResponse { body, .. } => in_stream(body),
        Error::StreamParse { serde_error, .. } => {
            ModelError::another(FailureKind::Invalid, format!("its stream cannot be read: {}", clip(&serde_error.to_string(), WORDS_BYTES_MAX)))
        }
        // Its own words would repeat the whole request.
        Error::ChatResponseGeneration { cause, .. } => {
            ModelError::another(FailureKind::Invalid, format!("its answer does not have the form of its API: {}", clip(cause, WORDS_BYTES_MAX)))
        }
        Error::NoChatResponse { .. } | Error::InvalidJsonResponseElement { .. } | Error::JsonValueExt(_) | Error::SerdeJson(_) => {
            ModelError::another(FailureKind::Invalid, "its answer does not have the form of its API")
        }
        other => ModelError::user(clip(&other.to_string(), WORDS_BYTES_MAX)),
    }
}

fn answer_of(error: &genai::Error) -> (&str, Option<&HeaderMap>) {
    match error {
        genai::Error::HttpError { body, headers, .. } => (body, Some(headers)),
        genai::Error::WebModelCall { webc_error: webc::Error::ResponseFailedStatus { body, headers, .. }, .. }
        | genai::Error::WebAdapterCall { webc_error: webc::Error::ResponseFailedStatus { body, headers, .. }, .. } => (body, Some(headers)),
        _ => ("", None),
    }
}

fn by_status(status: u16, body: &str, headers: Option<&HeaderMap>, name: &Name) -> ModelError {
    let detail = error_message(body);
    let has_any = |words: &[&str]| words.iter().any(|word| body.contains(word));
    let message = if detail.is_empty() { format!("status {status}") } else { format!("status {status}: {detail}") };
    let after_ms = headers.and_then(|headers| retry_after_ms(headers, SystemTime::now()));
    let again = |kind| ModelError { remedy: Remedy::Again { after_ms }, kind, message: message.clone() };
    match status {
        402 => ModelError::another(FailureKind::Refused, message),
        429 if has_any(&["insufficient_quota", "billing"]) => ModelError::another(FailureKind::Refused, message),
        429 => again(FailureKind::Refused),
        408 | 409 | 425 | 500..=599 => again(FailureKind::Network),
        404 | 410 => {
            let whole = name.to_string();
            let nearest: Vec<String> = name::nearest(&whole, &[]).into_iter().filter(|near| *near != whole && !near.contains('…')).collect();
            let hint = if nearest.is_empty() { String::new() } else { format!(" {}", name::hint(&nearest)) };
            ModelError::another(FailureKind::Refused, format!("{message}; is there such a model?{hint}"))
        }
        413 => ModelError::another(FailureKind::Refused, message),
        400 | 422 if has_any(&TOO_LONG) => ModelError::another(FailureKind::Refused, message),
        401 | 403 => ModelError::user(format!("{message}; check the key")),
        _ => ModelError::user(message),
    }
}

/// An error in the middle of a stream, after the status was received.
fn in_stream(body: &Value) -> ModelError {
    let detail = error_message(&body.to_string());
    let text = body.to_string().to_lowercase();
    let passing = ["overloaded", "rate_limit", "server_error", "api_error", "timeout", "unavailable", "internal"];
    if passing.iter().any(|word| text.contains(word)) {
        ModelError::again(FailureKind::Network, format!("the stream ended with an error: {detail}"))
    } else if ["message", "error"].iter().any(|field| body.get(field).is_some()) || body.is_string() {
        ModelError::another(FailureKind::Refused, format!("the stream ended with an error: {detail}"))
    } else {
        ModelError::another(FailureKind::Invalid, format!("its stream does not have the form of its API: {detail}"))
    }
}

/// The sentence in an error body, wherever the dialect puts it.
fn error_message(body: &str) -> String {
    let message = serde_json::from_str::<Value>(body).ok().and_then(|value| {
        let places = ["/error/message", "/message", "/error", "/detail", "/0/error/message"];
        places.iter().find_map(|place| value.pointer(place).and_then(Value::as_str).map(str::to_owned))
    });
    clip(message.as_deref().unwrap_or(body).trim(), WORDS_BYTES_MAX)
}

/// `retry-after-ms`, `retry-after` in seconds, or `retry-after` as a date.
fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if let Some(ms) = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()).filter(|ms| ms.is_finite() && *ms >= 0.0) {
        return Some(ms.ceil() as u64);
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then(|| (seconds * 1_000.0).ceil() as u64);
    }
    let at = httpdate::parse_http_date(after).ok()?;
    Some(at.duration_since(now).map_or(0, millis))
}

/// The innermost cause: the outer ones repeat the address.
fn root_of(error: &(dyn std::error::Error + 'static), otherwise: &str) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let words = root.to_string();
    if words.trim().is_empty() { otherwise.to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now = httpdate::parse_http_date("Sun, 15 Nov 2026 04:00:00 GMT").unwrap();
        for (pairs, ms) in [
            (&[("retry-after", "2")][..], Some(2_000)),
            (&[("retry-after", "0.25")], Some(250)),
            (&[("retry-after-ms", "120"), ("retry-after", "9")], Some(120)),
            (&[("retry-after", "Sun, 15 Nov 2026 04:00:03 GMT")], Some(3_000)),
            (&[("retry-after", "Sun, 15 Nov 2026 03:00:00 GMT")], Some(0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[], None),
        ] {
            assert_eq!(retry_after_ms(&headers(pairs), now), ms, "{pairs:?}");
        }
    }

    #[test]
    fn statuses_are_sorted_by_who_can_help() {
        let name = "openai/gpt-4o-mni".parse().unwrap();
        let sort = |status, body: &str| by_status(status, body, None, &name);
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            assert!(matches!(sort(status, "").remedy, Remedy::Again { .. }), "{status}");
        }
        for status in [402, 404, 410, 413] {
            assert_eq!(sort(status, "").remedy, Remedy::Another, "{status}");
        }
        for status in [400, 401, 403, 422] {
            assert_eq!(sort(status, "").remedy, Remedy::User, "{status}");
        }
        assert_eq!(sort(429, r#"{"error":{"code":"insufficient_quota"}}"#).remedy, Remedy::Another);
        assert_eq!(sort(400, r#"{"error":{"code":"context_length_exceeded"}}"#).remedy, Remedy::Another);
        let llamacpp = r#"{"error":{"code":400,"message":"request (9030 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}"#;
        assert_eq!(sort(400, llamacpp).remedy, Remedy::Another);
        assert!(sort(404, "").message.contains("openai/gpt-4o-mini"));
        assert_eq!(sort(500, r#"{"error":{"message":"it hurts"}}"#).message, "status 500: it hurts");
    }
}

//! A stream of server-sent events that a task writes.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::mpsc;

use crate::api::Api;
use crate::guard::Identity;
use crate::problem::Problem;

/// Events that may wait for a reader; past that the writer waits for it, and the run does not.
const BEHIND_MAX: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The writer's end.
pub(crate) struct Sink(mpsc::Sender<Bytes>);

impl Sink {
    /// Whether anybody still reads.
    pub(crate) async fn send(&self, frame: String) -> bool {
        self.0.send(frame.into()).await.is_ok()
    }

    /// Ends when the client disconnects.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// A response that streams what is written to the sink. It counts as one of the user's streams until it is closed.
pub(crate) fn channel(api: &Api, who: &Identity) -> Result<(Sink, Response), Problem> {
    let place = (api.0.quota.stream(&who.user)?, api.0.metrics.stream_opened());
    let (to, from) = mpsc::channel::<Bytes>(BEHIND_MAX);
    let stream = futures::stream::unfold((from, place), |(mut from, place)| async move {
        let bytes = match tokio::time::timeout(KEEP_ALIVE, from.recv()).await {
            Ok(bytes) => bytes?,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<_, Infallible>(bytes), (from, place)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        // Asks proxies not to buffer.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((Sink(to), (headers, Body::from_stream(stream)).into_response()))
}

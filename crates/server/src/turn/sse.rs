//! A body that a task writes: as server-sent events, or in frames of another form.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::api::Api;
use crate::guard::Identity;
use crate::metrics::OpenStream;
use crate::problem::Problem;
use crate::quota::StreamPermit;

/// Events that may wait for a reader; past that the writer waits for it, and the run does not.
const BEHIND_MAX: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The writer's end.
pub(crate) struct Sink(mpsc::Sender<Frame<Bytes>>);

impl Sink {
    /// Whether anybody still reads.
    pub(crate) async fn send(&self, frame: String) -> bool {
        self.send_frame(Frame::data(frame.into())).await
    }

    pub(crate) async fn send_frame(&self, frame: Frame<Bytes>) -> bool {
        self.0.send(frame).await.is_ok()
    }

    /// Ends when the client disconnects.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// The reader's end. It counts as one of the user's streams until it is dropped.
pub(crate) struct Source {
    from: mpsc::Receiver<Frame<Bytes>>,
    _place: (StreamPermit, OpenStream),
}

impl Source {
    pub(crate) async fn next(&mut self) -> Option<Frame<Bytes>> {
        self.from.recv().await
    }
}

/// A sink for one more stream of this user's, and what is written to it.
pub(crate) fn frames(api: &Api, who: &Identity) -> Result<(Sink, Source), Problem> {
    let place = (api.0.quota.stream(&who.user)?, api.0.metrics.stream_opened());
    let (to, from) = mpsc::channel(BEHIND_MAX);
    Ok((Sink(to), Source { from, _place: place }))
}

/// A response that streams what is written to the sink as server-sent events.
pub(crate) fn channel(api: &Api, who: &Identity) -> Result<(Sink, Response), Problem> {
    let (sink, source) = frames(api, who)?;
    let stream = futures::stream::unfold(source, |mut source| async move {
        let frame = match tokio::time::timeout(KEEP_ALIVE, source.next()).await {
            Ok(frame) => frame?,
            Err(_) => Frame::data(Bytes::from_static(b":\n\n")),
        };
        Some((Ok::<_, Infallible>(frame), source))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        // Asks proxies not to buffer.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((sink, (headers, Body::new(StreamBody::new(stream))).into_response()))
}

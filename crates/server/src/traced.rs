//! A request whose caller keeps a trace is a span in that trace, and so are the runs it begins. Requests of others are no spans: a page asks for
//! much that nobody wants to see there.

use agents::traceparent::{self, TRACEPARENT};
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use engine::trace::TARGET;
use tracing::field::Empty;
use tracing::{Instrument as _, Level};

pub(crate) async fn traced(request: Request<Body>, next: Next) -> Response {
    if !request.headers().contains_key(TRACEPARENT) || !tracing::enabled!(target: TARGET, Level::TRACE) {
        return next.run(request).await;
    }
    // The route and never the path: that holds names of threads and documents.
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    let span = tracing::span!(
        target: TARGET,
        Level::TRACE,
        "request",
        otel.name = format!("{} {route}", request.method()),
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    traceparent::continue_trace(&span, request.headers());
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    response
}

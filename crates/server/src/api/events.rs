//! Streams of server-sent events: of a run and all below it, and of the user's threads.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use std::convert::Infallible;

use super::Api;
use super::params::QueryParams;
use crate::events::Cursor;
use crate::guard::Identity;
use crate::problem::Problem;

#[derive(Deserialize)]
pub(super) struct AfterQuery {
    after: Option<String>,
}

pub(super) async fn follow(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(run): Path<String>,
    headers: HeaderMap,
    QueryParams(from): QueryParams<AfterQuery>,
) -> Result<Response, Problem> {
    let row = api.run(&who, &run).await?;
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    let after = last.or(from.after).unwrap_or_default();
    let cursor = Cursor::parse(&after).ok_or_else(|| Problem::invalid("that is not the id of an event; leave it out to get all events"))?;
    let place = (api.0.quota.stream(&who.user)?, api.0.metrics.stream_opened());
    let follower = api.0.hubs.follow(&row.thread, &row.run, cursor);
    let stream = futures::stream::unfold((follower, place), |(mut follower, place)| async move {
        let chunk = follower.next().await?;
        Some((Ok::<_, Infallible>(chunk), (follower, place)))
    });
    Ok(as_events(Body::from_stream(stream)))
}

pub(super) async fn feed(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Response, Problem> {
    let place = (api.0.quota.stream(&who.user)?, api.0.metrics.stream_opened());
    let listener = api.0.feed.listen(who.user);
    let stream = futures::stream::unfold((listener, place), |(mut listener, place)| async move {
        let chunk = listener.next().await?;
        Some((Ok::<_, Infallible>(chunk), (listener, place)))
    });
    Ok(as_events(Body::from_stream(stream)))
}

fn as_events(body: Body) -> Response {
    // Asks proxies not to buffer.
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}

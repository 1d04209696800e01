use axum::extract::FromRequest as _;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use wire::api;

use super::Api;
use super::said::Said;
use crate::guard;
use crate::problem::Problem;

/// Shows a token once; a cookie from then on.
pub(super) async fn open(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let from = guard::peer(&request);
    let Said(api::NewSession { token }) = Said::from_request(request, &()).await?;
    let cookie = api.0.guard.open_session(&token, from).await?;
    with_cookie(&cookie)
}

pub(super) async fn close(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Problem> {
    with_cookie(&api.0.guard.close_session(&headers).await?)
}

fn with_cookie(cookie: &str) -> Result<Response, Problem> {
    let cookie = HeaderValue::from_str(cookie).map_err(|error| Problem::internal(&error))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

use axum::Json;
use axum::extract::{FromRequest as _, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use wire::api;

use super::Api;
use super::params::JsonBody;
use crate::limits::Limits;
use crate::listen::Peer;
use crate::problem::Problem;

/// Anybody may send this, so it is short.
const BODY_BYTES_MAX: u64 = 4 << 10;

/// How one can sign in here, for a page that is not signed in.
pub(super) async fn ways(State(api): State<Api>) -> Json<api::SignInWays> {
    let oidc = api.0.guard.oidc();
    Json(api::SignInWays {
        provider: oidc.map(|oidc| api::SignInProvider {
            title: oidc.title(),
            start: "/oidc/start".to_owned(),
            end: oidc.ends_provider_session().then(|| "/oidc/end".to_owned()),
        }),
    })
}

/// A cookie in exchange for a token.
pub(super) async fn open(State(api): State<Api>, mut request: Request) -> Result<Response, Problem> {
    request.extensions_mut().insert(Limits { body_bytes_max: BODY_BYTES_MAX, ..Limits::default() });
    let (peer, headers) = (api.0.guard.peer(&request), request.headers().clone());
    let JsonBody(api::NewSession { token }) = JsonBody::from_request(request, &()).await?;
    with_cookie(&session(&api, &token, &headers, peer.as_ref()).await?)
}

/// Sessions are written to the store, so that making one counts as a request of its user.
async fn session(api: &Api, token: &str, headers: &HeaderMap, peer: Option<&Peer>) -> Result<String, Problem> {
    let who = api.0.guard.of_token(token, peer).await?;
    let _request = api.0.quota.request(&who.user)?;
    api.0.guard.open_session(token, headers, peer).await
}

#[derive(Deserialize)]
struct Link {
    token: String,
}

/// The link that `baton serve` prints: the same exchange, and then the page, whose address has no token.
pub(super) async fn open_link(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let Query(Link { token }) = Query::try_from_uri(request.uri()).map_err(|error| Problem::invalid(error.body_text()))?;
    let peer = api.0.guard.peer(&request);
    let cookie = session(&api, &token, request.headers(), peer.as_ref()).await?;
    let mut response = with_cookie(&cookie)?;
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    Ok(response)
}

pub(super) async fn close(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Problem> {
    with_cookie(&api.0.guard.close_session(&headers).await?)
}

fn with_cookie(cookie: &str) -> Result<Response, Problem> {
    let cookie = HeaderValue::from_str(cookie).map_err(|error| Problem::internal(&error))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

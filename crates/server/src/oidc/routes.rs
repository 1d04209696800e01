//! The addresses that a browser visits to sign in and out.

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde::Deserialize;

use super::attempt::{AGE_MS_MAX, Attempt};
use super::{Oidc, users};
use crate::api::Api;
use crate::guard::{self, now_ms};
use crate::listen::Peer;
use crate::notice::notice;
use crate::problem::Problem;

/// Holds the secret of an attempt. Sent with the redirect from the provider's site, and only to these addresses.
const COOKIE: &str = "baton_sign_in";
const FOLDER: &str = "/oidc";
const CALLBACK: &str = "/oidc/callback";

pub(crate) fn routes(api: &Api) -> Router {
    Router::new().route("/oidc/start", get(start)).route(CALLBACK, get(callback)).route("/oidc/end", get(end)).with_state(api.clone())
}

#[derive(Deserialize)]
struct Start {
    to: Option<String>,
}

/// A request without its body, which cannot be kept while something is waited for.
struct RequestHead {
    uri: Uri,
    headers: HeaderMap,
    peer: Option<Peer>,
    /// This server's address, as the browser uses it.
    base: Result<String, Problem>,
}

impl RequestHead {
    fn of(api: &Api, request: &Request) -> RequestHead {
        RequestHead {
            uri: request.uri().clone(),
            headers: request.headers().clone(),
            peer: api.0.guard.peer(request),
            base: api.0.guard.base_of(request),
        }
    }
}

/// Sends the browser to the provider.
async fn start(State(api): State<Api>, request: Request) -> Response {
    let visit = RequestHead::of(&api, &request);
    drop(request);
    let begun = async {
        let oidc = provider(&api)?;
        let Query(Start { to }) = Query::try_from_uri(&visit.uri).map_err(|error| Problem::invalid(error.body_text()))?;
        let endpoints = oidc.0.provider.endpoints().await.map_err(unreachable)?;
        let site = ServerOrigin::of(oidc, &visit)?;
        let attempt = Attempt::new(to.as_deref(), now_ms())?;
        let settings = &oidc.0.settings;
        let mut url = endpoints.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", &site.callback())
            .append_pair("scope", &settings.scopes.join(" "))
            .append_pair("state", &attempt.state())
            .append_pair("nonce", &attempt.nonce())
            .append_pair("code_challenge", &attempt.challenge())
            .append_pair("code_challenge_method", "S256");
        redirect(url.as_str(), &[site.cookie(attempt.cookie(), AGE_MS_MAX / 1_000)])
    };
    begun.await.unwrap_or_else(|problem| page(&problem))
}

#[derive(Deserialize)]
struct Callback {
    code: Option<String>,
    state: Option<String>,
    /// The provider that answers, where it is named.
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Takes the provider's answer and lets the user in.
async fn callback(State(api): State<Api>, request: Request) -> Response {
    let visit = RequestHead::of(&api, &request);
    drop(request);
    let signed_in = finish(&api, &visit).await;
    let site = provider(&api).and_then(|oidc| ServerOrigin::of(oidc, &visit));
    let mut response = match signed_in {
        Ok((to, cookie)) => redirect(&to, &[cookie]).unwrap_or_else(|problem| page(&problem)),
        Err(problem) => {
            api.0.guard.refused(visit.peer.as_ref(), "OpenID Connect");
            page(&problem)
        }
    };
    // An attempt is used once, however it ended.
    if let Ok(gone) = site.map(|site| site.cookie("", 0))
        && let Ok(gone) = HeaderValue::from_str(&gone)
    {
        response.headers_mut().append(header::SET_COOKIE, gone);
    }
    response
}

async fn finish(api: &Api, visit: &RequestHead) -> Result<(String, String), Problem> {
    let oidc = provider(api)?;
    let Query(answer) = Query::<Callback>::try_from_uri(&visit.uri).map_err(|error| Problem::bad_request(error.body_text()))?;
    let cookie = guard::cookie_named(&visit.headers, COOKIE);
    let attempt = cookie.and_then(|cookie| Attempt::of_cookie(cookie, now_ms())).ok_or_else(|| {
        Problem::bad_request("this sign-in was not begun in this browser, or took longer than ten minutes, or cookies are off; try again")
    })?;
    if answer.state.as_deref() != Some(attempt.state().as_str()) {
        return Err(Problem::bad_request("this answer belongs to another attempt to sign in (state); try again"));
    }
    if answer.iss.as_ref().is_some_and(|issuer| *issuer != oidc.0.settings.issuer) {
        return Err(Problem::bad_request("this answer is of another provider (iss)"));
    }
    if let Some(error) = answer.error {
        let words = [Some(error), answer.error_description].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let words: String = words.chars().filter(|c| !c.is_control()).take(300).collect();
        return Err(forbidden(format!("the provider did not sign you in: {words}")));
    }
    let code = answer.code.ok_or_else(|| Problem::bad_request("the provider's answer has no code"))?;
    let _place = oidc.0.at_once.try_acquire().map_err(|_| Problem::busy("many people sign in at the moment; try again"))?;
    let site = ServerOrigin::of(oidc, visit)?;
    let refused = |why: String| {
        tracing::warn!("a sign-in was refused: {why}");
        forbidden("the provider's answer could not be verified; the server's log says why")
    };
    let provider = &oidc.0.provider;
    let tokens = provider.exchange(&code, &attempt.verifier(), &site.callback()).await.map_err(refused)?;
    let mut claims = provider.verify(&tokens, &attempt.nonce(), now_ms() / 1_000).await.map_err(refused)?;
    provider.complete(&mut claims, &tokens).await.map_err(refused)?;
    let settings = &oidc.0.settings;
    let who = users::read(settings, &claims)?;
    users::keep(&**api.0.engine.store(), settings, &claims, &who).await?;
    let cookie = api.0.guard.sign_in(&who, settings.session_hours, &visit.headers, visit.peer.as_ref()).await?;
    Ok((attempt.return_to.clone(), cookie))
}

/// Ends the session at the provider too, where the operator wants that. The session here is over already.
async fn end(State(api): State<Api>, request: Request) -> Response {
    let visit = RequestHead::of(&api, &request);
    drop(request);
    let ended = async {
        let oidc = provider(&api)?;
        let settings = &oidc.0.settings;
        let endpoints = oidc.0.provider.endpoints().await.map_err(unreachable)?;
        let Some(mut url) = endpoints.end_session.clone().filter(|_| settings.end_provider_session) else { return redirect("/", &[]) };
        let site = ServerOrigin::of(oidc, &visit)?;
        url.query_pairs_mut().append_pair("client_id", &settings.client_id).append_pair("post_logout_redirect_uri", &format!("{}/", site.url));
        redirect(url.as_str(), &[])
    };
    ended.await.unwrap_or_else(|problem| page(&problem))
}

fn provider(api: &Api) -> Result<&Oidc, Problem> {
    api.0.guard.oidc().ok_or_else(|| Problem::not_found("sign-in; this server has no [server.oidc] in its configuration"))
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreachable(why: String) -> Problem {
    tracing::error!("the OpenID provider cannot be used: {why}");
    Problem::new(StatusCode::BAD_GATEWAY, "unavailable", "the provider for signing in cannot be reached or is not set up; the server's log says why")
}

fn forbidden(words: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "refused", words)
}

/// This server as browsers see it.
struct ServerOrigin {
    /// Without a slash at its end.
    url: String,
    is_over_tls: bool,
}

impl ServerOrigin {
    /// The provider compares the address with the registered ones, so that a request cannot redirect the code to another server.
    fn of(oidc: &Oidc, visit: &RequestHead) -> Result<ServerOrigin, Problem> {
        let is_over_tls = guard::is_over_tls(&visit.headers, visit.peer.as_ref());
        if let Some(url) = &oidc.0.settings.public_url {
            return Ok(ServerOrigin { url: url.clone(), is_over_tls: is_over_tls || url.starts_with("https://") });
        }
        Ok(ServerOrigin { url: visit.base.clone()?, is_over_tls })
    }

    fn callback(&self) -> String {
        format!("{}{CALLBACK}", self.url)
    }

    fn cookie(&self, value: &str, seconds: i64) -> String {
        let secure = if self.is_over_tls { "; Secure" } else { "" };
        format!("{COOKIE}={value}; Path={FOLDER}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }
}

fn redirect(to: &str, cookies: &[String]) -> Result<Response, Problem> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| Problem::internal(&error));
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, value(to)?), (header::CACHE_CONTROL, value("no-store")?)]).into_response();
    for cookie in cookies {
        response.headers_mut().append(header::SET_COOKIE, value(cookie)?);
    }
    Ok(response)
}

/// What people see whose sign-in failed.
fn page(problem: &Problem) -> Response {
    notice(problem.status, "Sign-in failed", &problem.message, Some(("/", "Back to Baton")))
}

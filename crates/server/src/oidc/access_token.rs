//! Access tokens (JWT) of the provider as credentials of MCP hosts: their checks, and where hosts learn of the provider (RFC 9728).
//!
//! A token counts only if it was issued for this server (`aud`). The configuration has the names of this server. A name from a request counts only on
//! loopback: elsewhere a server that was given a token of its own could send it here under its own name.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use reqwest::Url;
use serde_json::{Value, json};
use store::Store;

use super::{Oidc, SignedIn, url_host, users};
use crate::api::Api;
use crate::guard::{digest, now_ms};
use crate::problem::Problem;

/// What is protected, below the server's address.
pub(crate) const RESOURCE: &str = "/mcp";
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// How long a token that was checked is not checked again.
const KNOWN_FOR: Duration = Duration::from_secs(60);
const KNOWN_MAX: usize = 10_000;
/// Longer ones are not read.
pub(super) const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Tokens that were checked, by digest.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<[u8; 32], (SignedIn, Instant)>>);

impl Known {
    fn get(&self, key: &[u8; 32]) -> Option<SignedIn> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|(_, until)| Instant::now() < *until).map(|(who, _)| who.clone())
    }

    fn keep(&self, key: [u8; 32], who: &SignedIn, left: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(key, (who.clone(), Instant::now() + left.min(KNOWN_FOR)));
    }
}

/// Why a token does not count.
#[derive(Debug)]
pub(crate) enum AccessError {
    /// It is one of the provider's, and it has expired: a host gets another and tries again.
    Expired,
    /// It is none that counts here. Words for the log.
    Refused(String),
    /// It is genuine, and its user may not use this server; or the server could not tell.
    Problem(Problem),
}

impl From<Problem> for AccessError {
    fn from(problem: Problem) -> Self {
        AccessError::Problem(problem)
    }
}

impl Oidc {
    /// The address of this server as tokens name it. `base` is its address in a request.
    pub(crate) fn resource(&self, base: Option<&str>) -> Option<String> {
        let settings = &self.0.settings;
        let is_loopback = |base: &&str| Url::parse(base).is_ok_and(|url| url_host(&url).is_some_and(|host| host.is_loopback()));
        settings.public_url.as_deref().or(base.filter(is_loopback)).map(str::to_owned)
    }

    /// The `WWW-Authenticate` header of a refusal, by which hosts find the provider.
    pub(crate) fn challenge(&self, base: Option<&str>, had_token: bool) -> Option<String> {
        let resource = self.resource(base)?;
        let invalid = if had_token { "error=\"invalid_token\", " } else { "" };
        Some(format!("Bearer {invalid}resource_metadata=\"{resource}{METADATA}{RESOURCE}\""))
    }

    /// The user of an access token.
    pub(crate) async fn of_access_token(&self, token: &str, base: Option<&str>, store: &dyn Store) -> Result<SignedIn, AccessError> {
        let settings = &self.0.settings;
        let mut audiences = settings.mcp_audiences.clone();
        if let Some(resource) = self.resource(base) {
            audiences.extend([format!("{resource}{RESOURCE}"), resource.clone(), format!("{resource}/")]);
        }
        if audiences.is_empty() {
            return Err(AccessError::Refused(
                "access tokens need public_url or mcp_audiences in [server.oidc], so that it is known what this server is called".to_owned(),
            ));
        }
        let key = digest(&format!("{token}\n{}", audiences.join("\n")));
        if let Some(who) = self.0.known.get(&key) {
            return Ok(who);
        }
        // Requests with the same new token wait for the first of them.
        let _place = self.0.at_once.acquire().await.map_err(|_| Problem::busy("the server is stopping"))?;
        if let Some(who) = self.0.known.get(&key) {
            return Ok(who);
        }
        let now_s = now_ms() / 1_000;
        let claims = self.0.provider.verify_access_token(token, &audiences, now_s).await?;
        let who = users::of_access_token(store, settings, &claims).await?;
        let left_s = claims.get("exp").and_then(Value::as_f64).map_or(0, |exp| (exp as i64).saturating_sub(now_s).max(0));
        self.0.known.keep(key, &who, Duration::from_secs(u64::try_from(left_s).unwrap_or_default()));
        Ok(who)
    }
}

/// RFC 9728 asks for the metadata of `/mcp` at the longer address; some hosts look at the shorter one.
pub(crate) fn routes(api: &Api) -> Router {
    Router::new().route(METADATA, get(metadata)).route(&format!("{METADATA}{RESOURCE}"), get(metadata)).with_state(api.clone())
}

async fn metadata(State(api): State<Api>, request: Request) -> Response {
    let base = api.0.guard.base_of(&request).ok();
    drop(request);
    let Some(oidc) = api.0.guard.oidc() else {
        return Problem::not_found(
            "resource with OAuth; this server has no [server.oidc] in its configuration, and takes tokens of `baton tokens add`",
        )
        .into_response();
    };
    let Some(resource) = oidc.resource(base.as_deref()) else {
        return Problem::not_found("resource with OAuth; public_url is missing in [server.oidc]").into_response();
    };
    let settings = &oidc.0.settings;
    let mut described = json!({
        "resource": format!("{resource}{RESOURCE}"),
        "resource_name": "Baton",
        "authorization_servers": [settings.issuer],
        "bearer_methods_supported": ["header"],
    });
    if !settings.mcp_scopes.is_empty() {
        described["scopes_supported"] = json!(settings.mcp_scopes);
    }
    // Nothing in it is secret, and hosts in a browser read it too.
    let headers = [(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"), (header::CACHE_CONTROL, "max-age=300")];
    (StatusCode::OK, headers, axum::Json(described)).into_response()
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    fn oidc(public_url: Option<&str>) -> Oidc {
        let settings = Settings {
            issuer: "https://login.example".into(),
            client_id: "baton".into(),
            public_url: public_url.map(str::to_owned),
            ..Settings::default()
        };
        Oidc::new(settings, None).unwrap()
    }

    #[test]
    fn a_name_from_a_request_counts_on_loopback_only() {
        for (public_url, base, wanted) in [
            (None, Some("http://127.0.0.1:8080"), Some("http://127.0.0.1:8080")),
            (None, Some("http://localhost:8080"), Some("http://localhost:8080")),
            (None, Some("https://evil.example"), None),
            (None, None, None),
            (Some("https://baton.example"), Some("https://evil.example"), Some("https://baton.example")),
        ] {
            assert_eq!(oidc(public_url).resource(base).as_deref(), wanted, "{base:?}");
        }
        let challenge = oidc(Some("https://baton.example")).challenge(None, true).unwrap();
        assert_eq!(challenge, "Bearer error=\"invalid_token\", resource_metadata=\"https://baton.example/.well-known/oauth-protected-resource/mcp\"");
    }

    #[tokio::test]
    async fn without_a_name_of_this_server_no_token_counts() {
        let refused = oidc(None).of_access_token("a.b.c", Some("https://evil.example"), &store::MemoryStore::new()).await;
        assert!(matches!(refused, Err(AccessError::Refused(why)) if why.contains("public_url")));
    }
}

//! The provider over HTTP: its description, keys, tokens and what it knows of a user. Everything it answers is bounded and none of it is followed elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{RequestBuilder, Url};
use secret::Secret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::access_token::{AccessError, TOKEN_BYTES_MAX};
use super::id_token::{self, Claims, Expected, TokenError};
use super::settings::{Settings, web_address};
use super::signature::Key;
use super::url_host;
use crate::problem::Problem;

const TIME_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 512 << 10;
/// How long the description and the keys are used before they are read again.
const FRESH_FOR: Duration = Duration::from_secs(600);
/// The keys are read again for a token with an unknown key, but not more often than this.
const KEYS_AGAIN_AFTER: Duration = Duration::from_secs(2);
const KEYS_MAX: usize = 100;

/// Where the provider's endpoints are.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    pub(super) authorization: Url,
    token: Url,
    keys: Url,
    user_info: Option<Url>,
    pub(super) end_session: Option<Url>,
    /// Whether the secret goes into the body of a request instead of its header.
    has_secret_in_body: bool,
}

/// As the specification names its parts.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// What came in exchange for a code.
#[derive(Deserialize)]
pub(super) struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

pub(super) struct Provider {
    settings: Settings,
    secret: Option<Secret>,
    client: reqwest::Client,
    endpoints: Mutex<Option<(Arc<Endpoints>, Instant)>>,
    keys: Mutex<Option<(Arc<Vec<Key>>, Instant)>>,
}

impl Provider {
    pub(super) fn new(settings: Settings, secret: Option<Secret>) -> Result<Provider, String> {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(TIME_MAX);
        // What is on this machine is not reached through a proxy.
        let client = if is_loopback(&settings.issuer) { client.no_proxy() } else { client };
        let client = client.build().map_err(|error| error.to_string())?;
        Ok(Provider { settings, secret, client, endpoints: Mutex::default(), keys: Mutex::default() })
    }

    /// Fetched again when it is old. One request fetches it while others wait.
    pub(super) async fn endpoints(&self) -> Result<Arc<Endpoints>, String> {
        let mut known = self.endpoints.lock().await;
        if let Some((endpoints, read)) = &*known
            && read.elapsed() < FRESH_FOR
        {
            return Ok(endpoints.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", self.settings.issuer.trim_end_matches('/'));
        let described: Description = self.ask(self.client.get(&url)).await.map_err(|why| format!("{url}: {why}"))?;
        let endpoints = Arc::new(self.check(described)?);
        *known = Some((endpoints.clone(), Instant::now()));
        Ok(endpoints)
    }

    fn check(&self, described: Description) -> Result<Endpoints, String> {
        let issuer = &self.settings.issuer;
        if described.issuer != *issuer {
            return Err(format!("the provider calls itself {:?}, and `issuer` is {issuer:?}; they must be the same", described.issuer));
        }
        let may_be_loopback = is_loopback(issuer);
        let address = |name: &str, text: &str| web_address(text, may_be_loopback).map_err(|why| format!("the provider's {name} {text:?} {why}"));
        let optional = |name: &str, text: Option<String>| text.map(|text| address(name, &text)).transpose();
        let methods = described.token_endpoint_auth_methods_supported.unwrap_or_default();
        let has = |method: &str| methods.iter().any(|one| one == method);
        Ok(Endpoints {
            authorization: address("authorization_endpoint", &described.authorization_endpoint)?,
            token: address("token_endpoint", &described.token_endpoint)?,
            keys: address("jwks_uri", &described.jwks_uri)?,
            user_info: optional("userinfo_endpoint", described.userinfo_endpoint)?,
            end_session: optional("end_session_endpoint", described.end_session_endpoint)?,
            has_secret_in_body: has("client_secret_post") && !has("client_secret_basic"),
        })
    }

    /// Exchanges the code of an attempt.
    pub(super) async fn exchange(&self, code: &str, verifier: &str, redirect: &str) -> Result<Tokens, String> {
        let endpoints = self.endpoints().await?;
        let client_id = &self.settings.client_id;
        let mut form = vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", redirect), ("code_verifier", verifier)];
        let mut request = self.client.post(endpoints.token.clone()).header("content-type", "application/x-www-form-urlencoded");
        match &self.secret {
            // Both parts are encoded before they are joined, as OAuth requires.
            Some(secret) if !endpoints.has_secret_in_body => request = request.basic_auth(encoded(client_id), Some(encoded(secret.reveal()))),
            Some(secret) => form.extend([("client_id", client_id.as_str()), ("client_secret", secret.reveal())]),
            None => form.push(("client_id", client_id)),
        }
        let exchanged = self.ask(request.body(query(&form))).await;
        exchanged.map_err(|why| match &self.secret {
            Some(secret) => secret.redact_in(&why),
            None => why,
        })
    }

    /// The claims of an ID token, once all of it was checked.
    pub(super) async fn verify(&self, tokens: &Tokens, nonce: &str, now_s: i64) -> Result<Claims, String> {
        let Settings { issuer, client_id, .. } = &self.settings;
        let expected = Expected { issuer, client_id, nonce, clock_skew_s: self.clock_skew_s(), now_s };
        let verified = self.with_keys(|keys| id_token::verify(&tokens.id_token, keys, &expected)).await?;
        verified.map_err(|error| match error {
            TokenError::UnknownKey => "the ID token is signed with a key that the provider does not publish".to_owned(),
            TokenError::Expired => "the ID token has expired; compare the clocks of both machines".to_owned(),
            TokenError::Refused(why) => format!("the ID token is refused: {why}"),
        })
    }

    /// The claims of an access token for one of these audiences.
    pub(super) async fn verify_access_token(&self, token: &str, audiences: &[String], now_s: i64) -> Result<Claims, AccessError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AccessError::Refused(format!("it has more than {TOKEN_BYTES_MAX} bytes")));
        }
        let skew_s = self.clock_skew_s();
        let verified = self.with_keys(|keys| id_token::verify_access(token, keys, &self.settings.issuer, audiences, skew_s, now_s)).await;
        let verified = verified.map_err(|why| {
            tracing::error!("access tokens cannot be checked: {why}");
            Problem::busy("the provider's keys cannot be read, so that access tokens cannot be checked; the server's log says why")
        })?;
        verified.map_err(|error| match error {
            TokenError::UnknownKey => AccessError::Refused("it is signed with a key that the provider does not publish".to_owned()),
            TokenError::Expired => AccessError::Expired,
            TokenError::Refused(why) => AccessError::Refused(why),
        })
    }

    /// An unknown key is looked for once more at the provider. The outer error is that its keys cannot be read.
    async fn with_keys(&self, verify: impl Fn(&[Key]) -> Result<Claims, TokenError>) -> Result<Result<Claims, TokenError>, String> {
        let keys = self.keys(FRESH_FOR).await?;
        match verify(keys.as_slice()) {
            Err(TokenError::UnknownKey) => {
                let keys = self.keys(KEYS_AGAIN_AFTER).await?;
                Ok(verify(keys.as_slice()))
            }
            verified => Ok(verified),
        }
    }

    fn clock_skew_s(&self) -> i64 {
        i64::try_from(self.settings.clock_skew_seconds).unwrap_or_default()
    }

    /// The provider's keys, not older than this.
    async fn keys(&self, age_max: Duration) -> Result<Arc<Vec<Key>>, String> {
        let mut known = self.keys.lock().await;
        if let Some((keys, read)) = &*known
            && read.elapsed() < age_max
        {
            return Ok(keys.clone());
        }
        #[derive(Deserialize)]
        struct KeySet {
            keys: Vec<Value>,
        }
        let endpoints = self.endpoints().await?;
        let KeySet { keys } = self.ask(self.client.get(endpoints.keys.clone())).await.map_err(|why| format!("the provider's keys: {why}"))?;
        // Kinds of keys that are not known here are for others.
        let keys: Vec<Key> = keys.into_iter().take(KEYS_MAX).filter_map(Key::read).collect();
        let keys = Arc::new(keys);
        *known = Some((keys.clone(), Instant::now()));
        Ok(keys)
    }

    /// Adds claims of the provider's userinfo endpoint that are not in the token.
    pub(super) async fn complete(&self, claims: &mut Claims, tokens: &Tokens) -> Result<(), String> {
        let Settings { user_claim, groups_claim, .. } = &self.settings;
        let is_complete = claims.contains_key(user_claim) && (groups_claim.is_empty() || claims.contains_key(groups_claim));
        let endpoints = self.endpoints().await?;
        let (Some(url), Some(access_token), false) = (&endpoints.user_info, &tokens.access_token, is_complete) else { return Ok(()) };
        let about: Map<String, Value> =
            self.ask(self.client.get(url.clone()).bearer_auth(access_token)).await.map_err(|why| format!("userinfo: {why}"))?;
        if about.get("sub") != claims.get("sub") {
            return Err("userinfo: that is about another user (sub)".to_owned());
        }
        for (name, value) in about {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, String> {
        let broken = |error: reqwest::Error| error.without_url().to_string();
        let mut response = request.header("accept", "application/json").send().await.map_err(broken)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
            }
            bytes.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            // OAuth's errors are a word and a sentence.
            let error: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let words = ["error", "error_description"].iter().filter_map(|name| error[name].as_str()).collect::<Vec<_>>().join(": ");
            return Err(format!("status {status} {}", words.chars().take(300).collect::<String>()));
        }
        // What could not be read may hold tokens, so it is not shown.
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("the answer is not what was expected (line {}, column {})", error.line(), error.column()))
    }
}

fn is_loopback(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url_host(&url).is_some_and(|host| host.is_loopback()))
}

/// As forms and queries write it.
fn query(pairs: &[(&str, &str)]) -> String {
    Url::parse_with_params("http://form.invalid", pairs).ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default()
}

fn encoded(text: &str) -> String {
    query(&[("", text)]).trim_start_matches('=').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(issuer: &str) -> Provider {
        Provider::new(Settings { issuer: issuer.to_owned(), client_id: "baton".to_owned(), ..Settings::default() }, None).unwrap()
    }

    fn described(issuer: &str, token: &str) -> Description {
        Description {
            issuer: issuer.to_owned(),
            authorization_endpoint: format!("{issuer}/auth"),
            token_endpoint: token.to_owned(),
            jwks_uri: format!("{issuer}/keys"),
            userinfo_endpoint: None,
            end_session_endpoint: None,
            token_endpoint_auth_methods_supported: None,
        }
    }

    #[test]
    fn a_provider_cannot_send_this_server_to_its_neighbours() {
        let (public, local) = ("https://login.example", "http://127.0.0.1:9");
        for (issuer, token, wanted) in [
            (public, "https://login.example/token", true),
            (public, "https://tokens.example/token", true),
            (public, "http://login.example/token", false),
            (public, "http://127.0.0.1:8080/api/runs", false),
            (public, "https://localhost:8443/token", false),
            (public, "file:///etc/passwd", false),
            (local, "http://127.0.0.1:9/token", true),
            (local, "http://192.168.0.1/token", false),
        ] {
            assert_eq!(provider(issuer).check(described(issuer, token)).is_ok(), wanted, "{issuer} {token}");
        }
        let other = provider(public).check(described("https://evil.example", "https://evil.example/token"));
        assert!(other.unwrap_err().contains("they must be the same"));
    }

    #[test]
    fn secrets_are_encoded_before_they_are_joined() {
        assert_eq!((encoded("a:b c+ü").as_str(), encoded("=x").as_str()), ("a%3Ab+c%2B%C3%BC", "%3Dx"));
    }
}

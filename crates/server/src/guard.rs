//! Who may come in: this machine, or whoever has a token.
//!
//! A server on loopback can be reached by any page in a browser on the same machine, by way of a name that points there. So
//! the `Host` a request names, and its `Origin` if it has one, must be ones this server goes by.
//!
//! With tokens, each belongs to a user; the one of the command line to the user of this machine, who is also the operator. A page shows its
//! token once and has a cookie from then on, which is a token of its own. The store keeps digests, nobody keeps the tokens.
//!
//! ```text
//!   request ─► host and origin ─► bearer or cookie ─► digest ─► the flag's, or in the store ─► Who
//!                                                       └─ neither ─► 401, and after some of them 429 for that address
//! ```

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use graph::UserId;
use sha2::{Digest as _, Sha256};
use store::{NewToken, Store};
use tokio::net::TcpListener;

use crate::listen::Peer;
use crate::problem::Problem;

/// The name of the page's cookie.
pub const COOKIE: &str = "baton_session";
/// A page that was not opened for so long shows its token again.
const SESSION_MS: i64 = 30 * 86_400_000;
/// Who somebody is, is asked again after this; so a token that was taken back works no longer than that.
const KNOWN_FOR: Duration = Duration::from_secs(2);
const KNOWN_MAX: usize = 10_000;
/// Wrong tokens from one address before it has to wait, and how long at first and at most.
const GUESSES_MAX: u32 = 10;
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(300);
const GUESSERS_MAX: usize = 10_000;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub user: UserId,
    /// Whoever runs this server: they may change what is everybody's.
    pub is_operator: bool,
}

#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    /// A digest, so that comparing takes as long whatever was guessed.
    token: Option<[u8; 32]>,
    /// Where users' tokens are; without it there is one user.
    users: Option<Arc<dyn Store>>,
    known: Mutex<HashMap<[u8; 32], (Who, Instant)>>,
    /// Others than this machine can reach it, so that nobody comes in without a token, not even when the last one is taken away.
    is_reachable: AtomicBool,
    /// Whether anybody has a token, and when that was asked.
    has_users: Mutex<Option<(bool, Instant)>>,
    guesses: Mutex<HashMap<IpAddr, Guesses>>,
}

struct Guesses {
    wrong: u32,
    until: Instant,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "{address} can be reached from other machines; give a token (--token or BATON_TOKEN, or `baton tokens add USER`), or listen on 127.0.0.1"
    )]
    Open { address: SocketAddr },
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

impl Guard {
    /// One token for one user. An empty token is none.
    pub fn new(token: Option<&str>) -> Self {
        Guard::of(token, None)
    }

    /// The same, and users with tokens of their own.
    pub fn with_users(token: Option<&str>, store: Arc<dyn Store>) -> Self {
        Guard::of(token, Some(store))
    }

    fn of(token: Option<&str>, users: Option<Arc<dyn Store>>) -> Self {
        let token = token.map(str::trim).filter(|token| !token.is_empty()).map(digest);
        Guard(Arc::new(Inner {
            token,
            users,
            is_reachable: AtomicBool::new(false),
            known: Mutex::default(),
            has_users: Mutex::default(),
            guesses: Mutex::default(),
        }))
    }

    /// Listens, unless that would let in anybody.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, BindError> {
        if !address.ip().is_loopback() && !self.has_tokens().await? {
            return Err(BindError::Open { address });
        }
        self.0.is_reachable.fetch_or(!address.ip().is_loopback(), Ordering::Relaxed);
        TcpListener::bind(address).await.map_err(|error| BindError::Listen { address, error })
    }

    /// Whether one needs a token. One that is made while the server runs counts from then on.
    pub async fn has_tokens(&self) -> Result<bool, store::StoreError> {
        if self.0.token.is_some() {
            return Ok(true);
        }
        let Some(store) = &self.0.users else { return Ok(false) };
        if let Some((has_users, asked)) = *lock(&self.0.has_users)
            && asked.elapsed() < KNOWN_FOR
        {
            return Ok(has_users);
        }
        let has_users = !store.tokens().await?.is_empty();
        *lock(&self.0.has_users) = Some((has_users, Instant::now()));
        Ok(has_users)
    }

    /// Who this is, or why they may not come in.
    async fn who(&self, headers: &HeaderMap, method: &Method, from: Option<IpAddr>) -> Result<Who, Problem> {
        let operator = Who { user: UserId::default(), is_operator: true };
        // Browsers say so even where they send no origin, as with a picture; a page elsewhere could fill up places with those.
        if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
            return Err(forbidden("pages of other origins may not call this server"));
        }
        if !self.has_tokens().await? && !self.0.is_reachable.load(Ordering::Relaxed) {
            let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
            if !text(header::HOST).is_some_and(is_here) {
                return Err(forbidden("this server answers to localhost and 127.0.0.1 only"));
            }
            let is_ours = |origin: &str| origin.split_once("://").is_some_and(|(scheme, host)| matches!(scheme, "http" | "https") && is_here(host));
            return match origin(headers).is_none_or(is_ours) {
                true => Ok(operator),
                false => Err(forbidden("pages of other origins may not call this server")),
            };
        }
        let (given, is_cookie) = match (bearer(headers), cookie(headers)) {
            (Some(given), _) => (given, false),
            (None, Some(given)) => (given, true),
            (None, None) => return Err(unauthorized("a token is needed: Authorization: Bearer …")),
        };
        // A cookie comes along by itself, so the page that uses it must be ours. Without tokens in cookies there is nothing to ride on.
        if is_cookie && !is_same_origin(headers, method) {
            return Err(forbidden("pages of other origins may not call this server"));
        }
        self.of_token(given, from).await
    }

    /// Whose token this is. Wrong ones are counted by where they come from.
    pub(crate) async fn of_token(&self, given: &str, from: Option<IpAddr>) -> Result<Who, Problem> {
        if let Some(wait) = from.and_then(|from| self.must_wait(from)) {
            return Err(Problem::too_many("too many wrong tokens came from there; wait", wait.as_secs().max(1)));
        }
        let digest = digest(given.trim());
        match self.find(&digest).await? {
            Some(who) => Ok(who),
            None => {
                if let Some(from) = from {
                    self.note_wrong(from);
                }
                Err(unauthorized("that token is not known here; `baton tokens add USER` makes one"))
            }
        }
    }

    async fn find(&self, digest: &[u8; 32]) -> Result<Option<Who>, Problem> {
        if self.0.token.as_ref() == Some(digest) {
            return Ok(Some(Who { user: UserId::default(), is_operator: true }));
        }
        if let Some((who, asked)) = lock(&self.0.known).get(digest)
            && asked.elapsed() < KNOWN_FOR
        {
            return Ok(Some(who.clone()));
        }
        let Some(store) = &self.0.users else { return Ok(None) };
        let now_ms = now_ms();
        let Some(row) = store.token(digest, now_ms).await? else { return Ok(None) };
        // A session is good for as long as what it was made with.
        let is_operator = row.made_with.is_some() && row.made_with == self.0.token;
        if let Some(made_with) = row.made_with
            && !is_operator
            && store.token(&made_with, now_ms).await?.is_none()
        {
            return Ok(None);
        }
        let who = Who { user: row.user, is_operator };
        let mut known = lock(&self.0.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(*digest, (who.clone(), Instant::now()));
        Ok(Some(who))
    }

    /// A cookie for the page of whoever shows this token.
    pub(crate) async fn open_session(&self, token: &str, from: Option<IpAddr>) -> Result<String, Problem> {
        let who = self.of_token(token, from).await?;
        let Some(store) = &self.0.users else { return Err(Problem::not_found("session here")) };
        let secret = secret()?;
        let now_ms = now_ms();
        let made_with = Some(digest(token.trim()));
        store
            .keep_token(NewToken { digest: digest(&secret), user: who.user, made_with, created_ms: now_ms, until_ms: Some(now_ms + SESSION_MS) })
            .await?;
        Ok(format!("{COOKIE}={secret}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict", SESSION_MS / 1_000))
    }

    pub(crate) async fn close_session(&self, headers: &HeaderMap) -> Result<String, Problem> {
        if let (Some(store), Some(secret)) = (&self.0.users, cookie(headers)) {
            let digest = digest(secret);
            lock(&self.0.known).remove(&digest);
            if let Some(row) = store.token(&digest, now_ms()).await?
                && row.made_with.is_some()
            {
                store.drop_token(row.token).await?;
            }
        }
        Ok(format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"))
    }

    fn must_wait(&self, from: IpAddr) -> Option<Duration> {
        let guesses = lock(&self.0.guesses);
        guesses.get(&from).filter(|guesses| guesses.wrong >= GUESSES_MAX)?.until.checked_duration_since(Instant::now())
    }

    /// Each further one doubles the time, and an address that was quiet for the longest wait begins anew.
    fn note_wrong(&self, from: IpAddr) {
        let now = Instant::now();
        let mut guesses = lock(&self.0.guesses);
        if guesses.len() >= GUESSERS_MAX {
            guesses.retain(|_, guesses| guesses.until + WAIT_MAX > now);
        }
        let of = guesses.entry(from).or_insert(Guesses { wrong: 0, until: now });
        if of.until + WAIT_MAX < now {
            of.wrong = 0;
        }
        of.wrong = of.wrong.saturating_add(1);
        let over = of.wrong.saturating_sub(GUESSES_MAX).min(16);
        of.until = now + (WAIT_MIN * 2_u32.saturating_pow(over)).min(WAIT_MAX);
        tracing::warn!(%from, wrong = of.wrong, "a wrong token");
    }
}

/// The layer itself: `from_fn_with_state(guard, guard::check)`. Whoever comes in is an extension of the request.
pub async fn check(State(guard): State<Guard>, mut request: Request<Body>, next: Next) -> Response {
    let (headers, method, from) = (request.headers().clone(), request.method().clone(), peer(&request));
    match guard.who(&headers, &method, from).await {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(problem) => {
            let is_unknown = problem.status == StatusCode::UNAUTHORIZED;
            let mut response = problem.into_response();
            if is_unknown {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

/// A token for a user, and its digest. It is shown once and kept nowhere.
pub fn secret() -> Result<String, Problem> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&format!("no random bytes: {error}")))?;
    Ok(format!("baton_{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

pub fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

pub(crate) fn peer(request: &Request<Body>) -> Option<IpAddr> {
    request.extensions().get::<Peer>().map(|peer| peer.0.ip())
}

fn forbidden(words: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "refused", words)
}

fn unauthorized(words: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "refused", words)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, given)| given.trim())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or_default())
}

/// Whether the page that sends this is the one we served. Browsers send `Origin` with everything that can change something.
fn is_same_origin(headers: &HeaderMap, method: &Method) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (origin(headers), host) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host)),
        (Some(_), None) => false,
        // Programs send none; a browser that sends none is only looking, and then from a page of ours, or the cookie would not be there.
        (None, _) => method.is_safe() || headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin"),
    }
}

/// Whether a `host[:port]` is this machine by a name that nobody else can give to it.
fn is_here(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now_ms() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;

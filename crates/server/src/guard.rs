//! Who may use a server: the account that started it, and callers with a token.
//!
//! A server on loopback can be reached by every account of the machine, and by any page in a browser there through a name that points to loopback. So without
//! configured tokens
//!
//! - a caller is the operator if its end of the connection belongs, according to the kernel, to the account of the server ([`crate::peer_user`]), the `Host` is a name
//!   of loopback, no proxy passed the request on, and a browser's page is one of this server;
//! - everybody else needs the token that was generated for this start. It is in a file that only the account can read, and in a link for browsers.
//!
//! With configured tokens (`--token`, `baton tokens add`) everybody needs one. Each belongs to a user; the one of the command line and the one of the start
//! belong to the user of this machine, who is the operator. A page shows its token once and has a cookie from then on, which is a token of its own. The store
//! keeps digests; tokens themselves are not kept. With a provider of OpenID Connect ([`crate::oidc`]) people get such a cookie by signing in there, and MCP
//! hosts may send its access tokens to `/mcp`.
//!
//! ```text
//!   request ─► bearer or cookie ─► digest ─► configured, of the start, or in the store ─► Who
//!                  │ none, or not valid
//!                  ├─► no configured tokens, the server's own account, no proxy, own page ─► Who (operator)
//!                  └─► 401; after some wrong tokens from a network 429 for further wrong ones
//! ```

mod access_tokens;
mod failures;
mod origin;
mod sessions;
mod sign_ins;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use audit::Event;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use graph::UserId;
use sha2::{Digest as _, Sha256};
use store::Store;
use tokio::net::TcpListener;

use crate::allowance::Allowances;
use crate::listen::Peer;
use crate::oidc::Oidc;
use crate::peer_user;
use crate::problem::Problem;
use crate::proxies::Proxies;
use crate::rights::Role;
use access_tokens::Resource;
use failures::Failures;
use sign_ins::SignIns;

/// The name of the page's cookie.
pub const COOKIE: &str = "baton_session";
/// How long a token's user is remembered before the store is asked again; a removed token works no longer than that.
const KNOWN_FOR: Duration = Duration::from_secs(2);
const KNOWN_MAX: usize = 10_000;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: UserId,
    /// Whether this user runs the server and may change what all users share.
    pub is_operator: bool,
}

/// Authenticates requests and checks their origin. Cheap to clone.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    /// The digest of the token of the command line. Digests are compared, so that the time does not depend on what was guessed.
    token: Option<[u8; 32]>,
    /// The digest of the token that was made for this start.
    start_token: Option<[u8; 32]>,
    /// The account whose connections need no token, if there is one.
    account: Option<u32>,
    /// Where users' tokens are; without it there is one user.
    users: Option<Arc<dyn Store>>,
    known: Mutex<HashMap<[u8; 32], (Identity, Instant)>>,
    /// Other machines can reach the server, so that everybody needs a token, also after the last one was removed.
    is_reachable: AtomicBool,
    /// Whether any user has a token, and when that was asked.
    has_users: Mutex<Option<(bool, Instant)>>,
    failures: Failures,
    /// Where sign-ins are recorded, if they are.
    sign_ins: SignIns,
    /// Rights and budgets of users; without it every user has all rights of a user and no limits.
    allowances: OnceLock<Allowances>,
    /// Proxies that say whose request they pass on.
    proxies: OnceLock<Proxies>,
    /// The provider with which people sign in at the page, if there is one.
    oidc: OnceLock<Oidc>,
}

/// Why the server does not listen.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum BindError {
    #[error(
        "{address} can be reached from other machines; set a token (--token-file, BATON_TOKEN, or `baton tokens add USER`), let people sign in ([server.oidc] in the configuration), or listen on 127.0.0.1"
    )]
    Open { address: SocketAddr },
    #[error("cannot listen on {address}: {error}; choose another port with --port, or stop what listens there")]
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
            start_token: None,
            account: peer_user::own(),
            users,
            is_reachable: AtomicBool::new(false),
            known: Mutex::default(),
            has_users: Mutex::default(),
            failures: Failures::default(),
            sign_ins: SignIns::default(),
            allowances: OnceLock::new(),
            proxies: OnceLock::new(),
            oidc: OnceLock::new(),
        }))
    }

    /// Also accepts a token that was made for this start. Called before the guard is shared.
    pub fn with_start_token(mut self, token: &str) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.start_token = Some(digest(token));
        }
        self
    }

    /// As if the server ran under this account; `None` if accounts cannot be distinguished.
    #[cfg(test)]
    fn with_account(mut self, account: Option<u32>) -> Self {
        Arc::get_mut(&mut self.0).unwrap().account = account;
        self
    }

    /// Listens, unless that would allow access without a token from other machines.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, BindError> {
        if !address.ip().is_loopback() && !self.has_tokens().await? {
            return Err(BindError::Open { address });
        }
        self.0.is_reachable.fetch_or(!address.ip().is_loopback(), Ordering::Relaxed);
        TcpListener::bind(address).await.map_err(|error| BindError::Listen { address, error })
    }

    /// Whether a token is needed. A token that is added while the server runs counts immediately.
    pub async fn has_tokens(&self) -> Result<bool, store::StoreError> {
        if self.0.token.is_some() || self.0.oidc.get().is_some() {
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

    /// The sender of a request, or why it is refused.
    ///
    /// `resource` is this server's address in a request that may bring an access token of the provider.
    async fn who(&self, headers: &HeaderMap, peer: Option<&Peer>, resource: Option<&Resource>) -> Result<Identity, Problem> {
        // Browsers send this even without an origin, as with a picture; a page of another site could use up limits with such requests.
        if origin::is_cross_site(headers) {
            return Err(foreign_page());
        }
        let given = match (bearer(headers), cookie(headers)) {
            (Some(given), _) => Some(given),
            // A browser sends the cookie by itself, so the page must be one of this server.
            (None, Some(given)) if origin::is_same_origin(headers) => Some(given),
            (None, Some(_)) => return Err(foreign_page()),
            (None, None) => None,
        };
        if let Some(given) = given {
            let digest = digest(given);
            if let Some(who) = self.find(&digest).await? {
                self.0.sign_ins.seen(digest, &who.user, "a token", peer).await?;
                return Ok(who);
            }
            if let Some(resource) = resource
                && let Some(who) = self.of_access_token(given, resource, peer).await?
            {
                return Ok(who);
            }
        }
        let is_open = !self.0.is_reachable.load(Ordering::Relaxed) && !self.has_tokens().await?;
        if is_open && self.is_own_account(headers, peer).await? {
            let who = Identity { user: UserId::default(), is_operator: true };
            self.0.sign_ins.seen(digest("account"), &who.user, "the account of the server", peer).await?;
            return Ok(who);
        }
        match given {
            Some(_) => Err(self.wrong_token(peer)),
            None if is_open => Err(unauthorized(NEEDS_START_TOKEN)),
            None => Err(unauthorized("a token is needed: Authorization: Bearer …")),
        }
    }

    /// Whether the caller is the account of this server and no proxy is between. An error if it is, but the request comes from a page of another site.
    async fn is_own_account(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<bool, Problem> {
        let (Some(account), Some(peer)) = (self.0.account, peer) else { return Ok(false) };
        if !peer.remote.ip().to_canonical().is_loopback() || origin::is_forwarded(headers) {
            return Ok(false);
        }
        if !origin::is_for_loopback(headers) {
            return Err(forbidden("without a token this server answers to localhost and 127.0.0.1 only"));
        }
        if !origin::is_same_origin(headers) {
            return Err(foreign_page());
        }
        Ok(peer.account().await == Some(account))
    }

    /// The user of a token. Wrong tokens are counted by network.
    pub(crate) async fn of_token(&self, given: &str, peer: Option<&Peer>) -> Result<Identity, Problem> {
        match self.find(&digest(given.trim())).await? {
            Some(who) => Ok(who),
            None => Err(self.wrong_token(peer)),
        }
    }

    fn wrong_token(&self, peer: Option<&Peer>) -> Problem {
        match peer.and_then(|peer| self.0.failures.count(peer.remote.ip())) {
            Some(wait) => Problem::too_many("too many wrong tokens came from this address; wait", wait.as_secs().max(1)),
            None => {
                self.0.sign_ins.refused(peer, "a wrong token");
                unauthorized("that token is not valid here; `baton tokens add USER` makes one, `baton tokens link` shows that of a running server")
            }
        }
    }

    /// Counts a secret that opened nothing. If there were too many from there, returns how long to wait.
    pub(crate) fn count_wrong(&self, peer: Option<&Peer>) -> Option<Duration> {
        peer.and_then(|peer| self.0.failures.count(peer.remote.ip()))
    }

    async fn find(&self, digest: &[u8; 32]) -> Result<Option<Identity>, Problem> {
        if self.is_operators(digest) {
            return Ok(Some(Identity { user: UserId::default(), is_operator: true }));
        }
        if let Some((who, asked)) = lock(&self.0.known).get(digest)
            && asked.elapsed() < KNOWN_FOR
        {
            return Ok(Some(who.clone()));
        }
        let Some(store) = &self.0.users else { return Ok(None) };
        let now_ms = now_ms();
        let Some(row) = store.token(digest, now_ms).await? else { return Ok(None) };
        // A session is valid for as long as the token it was made with.
        let is_operator = row.made_with.is_some_and(|made_with| self.is_operators(&made_with));
        if let Some(made_with) = row.made_with
            && !is_operator
            && store.token(&made_with, now_ms).await?.is_none()
        {
            return Ok(None);
        }
        self.learn_groups(&row.user).await?;
        let who = Identity { user: row.user, is_operator };
        let mut known = lock(&self.0.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(*digest, (who.clone(), Instant::now()));
        Ok(Some(who))
    }

    /// Records sign-ins from now on, and what [`Guard::record`] is given.
    pub fn record_to(&self, recorder: audit::Recorder) {
        self.0.sign_ins.record_to(recorder);
    }

    /// Adds a line to the audit log, if there is one, and waits until it is on the disk.
    pub(crate) async fn record(&self, event: Event) -> Result<(), Problem> {
        self.0.sign_ins.record(event).await
    }

    /// Trusts these proxies from now on.
    pub fn trust_proxies(&self, proxies: Proxies) {
        // The first ones stay.
        let _ = self.0.proxies.set(proxies);
    }

    /// Lets people sign in with this provider from now on. Everybody then needs a session or a token.
    pub fn sign_in_with(&self, oidc: Oidc) {
        // The first one stays.
        let _ = self.0.oidc.set(oidc);
    }

    pub(crate) fn oidc(&self) -> Option<&Oidc> {
        self.0.oidc.get()
    }

    /// The address of this server as the client of a request uses it: `http://host:port`.
    pub(crate) fn base_of(&self, request: &Request<Body>) -> Result<String, Problem> {
        let headers = request.headers();
        let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or_else(|| request.uri().authority().map(|host| host.as_str()));
        let host = named.and_then(|host| host.parse::<axum::http::uri::Authority>().ok()).filter(|host| !host.as_str().contains('@'));
        let host = host.ok_or_else(|| Problem::bad_request("the Host header names no host"))?;
        let is_tls = origin::is_over_tls(headers) || self.peer(request).is_some_and(|peer| peer.is_tls);
        Ok(format!("{}://{host}", if is_tls { "https" } else { "http" }))
    }

    /// The address of this server for browsers: the configured one, or that of the request.
    pub(crate) fn site_of(&self, request: &Request<Body>) -> Result<String, Problem> {
        match self.oidc().and_then(Oidc::public_url) {
            Some(url) => Ok(url.to_owned()),
            None => self.base_of(request),
        }
    }

    /// Where a request comes from.
    pub(crate) fn peer(&self, request: &Request<Body>) -> Option<Peer> {
        let peer = request.extensions().get::<Peer>().cloned()?;
        Some(match self.0.proxies.get() {
            Some(proxies) => proxies.peer(peer, request.headers()),
            None => peer,
        })
    }

    /// What users may do and spend from now on.
    pub fn limit_by(&self, allowances: Allowances) {
        // The first one stays.
        let _ = self.0.allowances.set(allowances);
    }

    pub(crate) fn allowances(&self) -> Option<&Allowances> {
        self.0.allowances.get()
    }

    /// The role of the sender. A read-only token makes any user a viewer.
    pub(crate) fn role(&self, who: &Identity, headers: &HeaderMap) -> Role {
        let only_reads = bearer(headers).or_else(|| cookie(headers)).is_some_and(|given| given.starts_with(READING));
        match self.allowances() {
            _ if only_reads => Role::Viewer,
            Some(allowances) => allowances.rights(&who.user).role,
            None if who.is_operator => Role::Operator,
            None => Role::User,
        }
    }

    fn is_operators(&self, digest: &[u8; 32]) -> bool {
        self.0.token.as_ref() == Some(digest) || self.0.start_token.as_ref() == Some(digest)
    }
}

/// The layer itself: `from_fn_with_state(guard, guard::check)`. The [`Identity`] is an extension of the request.
pub async fn check(State(guard): State<Guard>, mut request: Request<Body>, next: Next) -> Response {
    let (headers, peer) = (request.headers().clone(), guard.peer(&request));
    let resource = Resource::of(&guard, &request);
    match guard.who(&headers, peer.as_ref(), resource.as_ref()).await {
        Ok(who) => {
            if let Some(peer) = &peer {
                peer.admit();
            }
            let role = guard.role(&who, &headers);
            let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
            if role == Role::Viewer && !is_reading {
                return forbidden(
                    "you may look at what is yours, and start or change nothing: the role of the user or the scope of the token is to read",
                )
                .into_response();
            }
            let is_operator = role != Role::Viewer && (who.is_operator || role == Role::Operator);
            let who = Identity { is_operator, ..who };
            request.extensions_mut().insert(role);
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(problem) => {
            let is_unknown = problem.status == StatusCode::UNAUTHORIZED;
            let mut response = problem.into_response();
            if is_unknown {
                let challenge = resource.and_then(|resource| resource.challenge(&guard, bearer(&headers).is_some()));
                let challenge = challenge.unwrap_or(header::HeaderValue::from_static("Bearer"));
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

/// A router behind this guard.
pub fn protected(router: axum::Router, guard: &Guard) -> axum::Router {
    router.layer(axum::middleware::from_fn_with_state(guard.clone(), check))
}

/// The rights of a token. They are part of the token itself, whose digest covers them, so that they cannot be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All that its user may do.
    #[default]
    All,
    /// Only to look at what is the user's.
    Read,
}

/// How tokens that only read begin.
const READING: &str = "baton_read_";

/// A token for a user. It is shown once and not stored.
pub fn secret() -> Result<String, Problem> {
    secret_for(Scope::All)
}

/// A random token with this scope. It is shown once and not stored.
pub fn secret_for(scope: Scope) -> Result<String, Problem> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&format!("no random bytes: {error}")))?;
    let beginning = match scope {
        Scope::All => "baton_",
        Scope::Read => READING,
    };
    Ok(format!("{beginning}{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// The SHA-256 of a text.
pub fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

const NEEDS_START_TOKEN: &str = "a token is needed, because this caller is not known to be the account that started the server; \
     `baton tokens link` (as that account) prints a link for browsers and the file of the token for Authorization: Bearer …";

fn foreign_page() -> Problem {
    forbidden("pages of other origins may not call this server")
}

fn forbidden(words: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "refused", words)
}

fn unauthorized(words: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "refused", words)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, given)| given.trim());
    // Where clients of LangGraph send theirs. A browser sends neither by itself.
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()).map(str::trim).filter(|given| !given.is_empty()))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    cookie_named(headers, COOKIE)
}

pub(crate) fn cookie_named<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Whether the browser reaches this server over TLS, which ends here or at a proxy.
pub(crate) fn is_over_tls(headers: &HeaderMap, peer: Option<&Peer>) -> bool {
    origin::is_over_tls(headers) || peer.is_some_and(|peer| peer.is_tls)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now_ms() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;

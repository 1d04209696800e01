//! Sign-in of the page with OpenID Connect: authorization code with PKCE, state and nonce.
//!
//! ```text
//!   page ─► /oidc/start ─► cookie of the attempt, redirect ─► provider ─► /oidc/callback?code,state
//!                                                                              │ state and cookie fit
//!                                                                              ├─► code and verifier for an ID token
//!                                                                              ├─► signature, issuer, audience, times, nonce
//!                                                                              ├─► claims ─► user and groups, kept in the store
//!                                                                              └─► session cookie, redirect to the page
//! ```
//!
//! Programs go on with tokens; MCP hosts may also send access tokens of the provider ([`access_token`]). What a group may do is in `[groups]` of the configuration ([`crate::rights`]).

mod access_token;
mod attempt;
mod id_token;
mod provider;
mod routes;
mod settings;
mod signature;
mod users;

use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Url;
use secret::Secret;
use tokio::sync::Semaphore;

pub(crate) use access_token::{AccessError, RESOURCE, routes as resource_routes};
use provider::Provider;
pub(crate) use routes::routes;
pub use settings::Settings;
pub(crate) use users::{KIND as RECORD_KIND, SignedIn, groups_of, load};

/// Exchanges with the provider at the same time; anybody may begin one.
const AT_ONCE_MAX: usize = 16;

/// The provider with which people sign in. Cheap to clone.
#[derive(Clone)]
pub struct Oidc(Arc<Inner>);

struct Inner {
    settings: Settings,
    provider: Provider,
    at_once: Semaphore,
    /// Access tokens that were checked.
    known: access_token::Known,
}

impl Oidc {
    /// Settings that were checked, and the client's secret.
    pub fn new(settings: Settings, secret: Option<Secret>) -> Result<Oidc, String> {
        settings.check()?;
        let provider = Provider::new(settings.clone(), secret)?;
        Ok(Oidc(Arc::new(Inner { settings, provider, at_once: Semaphore::new(AT_ONCE_MAX), known: access_token::Known::default() })))
    }

    /// What the page calls it.
    pub(crate) fn title(&self) -> String {
        self.0.settings.title()
    }

    /// The address of this server for browsers, if the configuration has it.
    pub(crate) fn public_url(&self) -> Option<&str> {
        self.0.settings.public_url.as_deref()
    }

    pub(crate) fn ends_provider_session(&self) -> bool {
        self.0.settings.end_provider_session
    }
}

/// The address of a URL's host: a literal one, or loopback's name.
fn url_host(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?.trim_matches(['[', ']']);
    match host.eq_ignore_ascii_case("localhost") {
        true => Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)),
        false => host.parse::<IpAddr>().ok().map(|address| address.to_canonical()),
    }
}

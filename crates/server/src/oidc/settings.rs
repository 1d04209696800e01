//! `[server.oidc]` of the configuration: the provider, and what its claims mean here.

use std::collections::BTreeMap;

use reqwest::Url;
use secret::KeySource;
use serde::Deserialize;

use super::url_host;

/// Section `[oidc]` of the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The provider's address, exactly as it names itself; `/.well-known/openid-configuration` is read below it.
    pub issuer: String,
    /// The client that was registered with the provider.
    pub client_id: String,
    /// Absent for a public client.
    pub client_secret: Option<KeySource>,
    /// Scopes to request.
    pub scopes: Vec<String>,
    /// What the button on the page calls the provider [default: its host].
    pub title: Option<String>,
    /// The claim that is the user's name here.
    pub user_claim: String,
    /// The claim with the groups that the user is in.
    pub groups_claim: String,
    /// Names of groups here, by the provider's; a group that is not in it keeps its name.
    pub groups: BTreeMap<String, String>,
    /// Only members of one of these groups may sign in; if empty, all users of the provider.
    pub required_groups: Vec<String>,
    /// The address of this server for browsers, where it cannot be taken from their requests.
    pub public_url: Option<String>,
    /// Hours after which one has to sign in again.
    pub session_hours: u32,
    /// By how much the provider's clock may differ from ours.
    pub clock_skew_seconds: u64,
    /// Whether signing out here also ends the session at the provider.
    pub end_provider_session: bool,
    /// Audiences (`aud`) of the provider's access tokens that MCP hosts may send to `/mcp`, beside `public_url`.
    pub mcp_audiences: Vec<String>,
    /// The scopes that MCP hosts should request.
    pub mcp_scopes: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            issuer: String::new(),
            client_id: String::new(),
            client_secret: None,
            scopes: ["openid", "profile", "email"].map(str::to_owned).to_vec(),
            title: None,
            user_claim: "preferred_username".to_owned(),
            groups_claim: "groups".to_owned(),
            groups: BTreeMap::new(),
            required_groups: Vec::new(),
            public_url: None,
            session_hours: 12,
            clock_skew_seconds: 60,
            end_provider_session: false,
            mcp_audiences: Vec::new(),
            mcp_scopes: Vec::new(),
        }
    }
}

const SESSION_HOURS_MAX: u32 = 30 * 24;
const CLOCK_SKEW_SECONDS_MAX: u64 = 300;

impl Settings {
    /// What is wrong with them, if anything.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |words: String| Err(format!("[server.oidc]: {words}"));
        if let Err(why) = web_address(&self.issuer, true) {
            return wrong(format!("issuer {:?} {why}", self.issuer));
        }
        if self.client_id.trim().is_empty() {
            return wrong("client_id is missing; the provider gives it when this server is registered there".to_owned());
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            return wrong("scopes must have \"openid\" among them".to_owned());
        }
        if self.user_claim.is_empty() {
            return wrong("user_claim names the claim that is the user's name, such as preferred_username, email or sub".to_owned());
        }
        if !(1..=SESSION_HOURS_MAX).contains(&self.session_hours) {
            return wrong(format!("session_hours is an integer from 1 to {SESSION_HOURS_MAX}, not {}", self.session_hours));
        }
        if self.clock_skew_seconds > CLOCK_SKEW_SECONDS_MAX {
            return wrong(format!("clock_skew_seconds is an integer from 0 to {CLOCK_SKEW_SECONDS_MAX}, not {}", self.clock_skew_seconds));
        }
        if self.mcp_audiences.iter().any(|audience| audience.trim().is_empty() || *audience == self.client_id) {
            return wrong(
                "mcp_audiences names what access tokens are issued for, such as api://baton; client_id is in ID tokens, which are none".to_owned(),
            );
        }
        match self.public_url.as_deref().map(|url| (url, web_address(url, true))) {
            Some((url, Err(why))) => wrong(format!("public_url {url:?} {why}")),
            Some((url, Ok(_))) if url.ends_with('/') => wrong("public_url has no slash at its end".to_owned()),
            _ => Ok(()),
        }
    }

    /// What the button on the page calls the provider.
    pub(super) fn title(&self) -> String {
        let host = || Url::parse(&self.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        self.title.clone().or_else(host).unwrap_or_default()
    }
}

/// An address that keys and codes may be sent to or read from: https, or http on this machine. Addresses that a provider names are allowed on this machine only
/// if the provider is there itself, so that none can make this server call its own neighbours.
pub(super) fn web_address(text: &str, may_be_loopback: bool) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|_| "is no address; write https://host/path".to_owned())?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("has a user name, a password or a fragment; leave it out".to_owned());
    }
    let is_loopback = url_host(&url).is_some_and(|host| host.is_loopback());
    match url.scheme() {
        "https" if !is_loopback || may_be_loopback => Ok(url),
        "http" if is_loopback && may_be_loopback => Ok(url),
        "http" | "https" if is_loopback => Err("is on this machine, but the issuer is not".to_owned()),
        _ => Err("must begin with https:// (http:// is accepted on this machine only)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(issuer: &str) -> Settings {
        Settings { issuer: issuer.to_owned(), client_id: "baton".to_owned(), ..Settings::default() }
    }

    #[test]
    fn an_issuer_is_reached_over_tls_or_on_this_machine() {
        for good in [
            "https://login.example.org",
            "https://login.example.org/realms/a",
            "http://127.0.0.1:9000",
            "http://localhost:9000/x",
            "http://[::1]:9000",
        ] {
            assert_eq!(settings(good).check(), Ok(()), "{good}");
        }
        for bad in [
            "",
            "login.example.org",
            "http://login.example.org",
            "http://10.0.0.1",
            "http://169.254.169.254/latest",
            "http://localhost.example.org",
            "file:///etc/passwd",
            "https://user:key@login.example.org",
            "ftp://127.0.0.1",
        ] {
            assert!(settings(bad).check().is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_on_this_machine_need_an_issuer_there() {
        for (url, may_be_loopback, wanted) in [
            ("http://127.0.0.1:1/token", true, true),
            ("http://127.0.0.1:1/token", false, false),
            ("https://127.0.0.1:1/token", false, false),
            ("https://localhost/token", false, false),
            ("https://login.example.org/token", false, true),
            ("http://login.example.org/token", true, false),
        ] {
            assert_eq!(web_address(url, may_be_loopback).is_ok(), wanted, "{url}");
        }
    }

    #[test]
    fn invalid_settings_are_errors_with_a_reason() {
        let good = settings("https://login.example.org");
        for (wrong, words) in [
            (Settings { client_id: " ".into(), ..good.clone() }, "client_id is missing"),
            (Settings { scopes: vec!["email".into()], ..good.clone() }, "\"openid\""),
            (Settings { session_hours: 0, ..good.clone() }, "session_hours"),
            (Settings { clock_skew_seconds: 301, ..good.clone() }, "0 to 300"),
            (Settings { public_url: Some("http://baton.example".into()), ..good.clone() }, "public_url"),
            (Settings { mcp_audiences: vec!["baton".into()], ..good.clone() }, "ID tokens"),
            (Settings { public_url: Some("https://baton.example/".into()), ..good }, "no slash"),
        ] {
            let why = wrong.check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}

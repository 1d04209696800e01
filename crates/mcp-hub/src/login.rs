//! Signing in at a remote server, in two halves: the address at which a person agrees, and the address the browser is sent to afterwards. The command line
//! receives the latter on loopback, the page at a route of the server.

use std::sync::Arc;

use graph::{Failure, FailureKind};
use reqwest::Url;
use rmcp::transport::auth::{AuthorizationSession, CredentialStore as _};

use super::auth::Authorized;
use super::config::server_name;
use super::server::Server;
use super::{Logout, SignIn, Tools};

/// A sign-in that a person has not agreed to yet.
pub struct Login {
    server: Arc<Server>,
    authorized: Arc<Authorized>,
    session: AuthorizationSession,
}

impl Login {
    /// The address to open in a browser.
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// The secret that the browser returns with, which identifies this sign-in.
    pub fn state(&self) -> Option<String> {
        state_of(self.address())
    }

    /// The server that is signed in to.
    pub fn server(&self) -> &str {
        &self.server.name
    }

    /// Exchanges the code in the address that the browser was sent to, keeps the tokens and connects again.
    pub async fn finish(self, callback: &str) -> Result<(), Failure> {
        if let Some(refusal) = refusal(callback) {
            return Err(Failure::new(FailureKind::Refused, format!("{} did not sign you in: {refusal}", self.server.name)));
        }
        self.authorized.finish(&self.session, callback).await.map_err(|why| Failure::new(FailureKind::Refused, why))?;
        self.server.reconnect();
        Ok(())
    }
}

impl Tools {
    /// Begins to sign in at a remote server. The browser is sent to `redirect` when the person has decided.
    pub async fn begin_login(&self, server: &str, redirect: &str) -> Result<Login, Failure> {
        let (server, authorized) = self.remote(server)?;
        is_safe(server.url().unwrap_or_default()).map_err(|why| Failure::new(FailureKind::Invalid, format!("{}: {why}", server.name)))?;
        let session = authorized.begin(redirect, None).await.map_err(|why| Failure::new(FailureKind::Network, why))?;
        Ok(Login { server, authorized, session })
    }

    /// Removes the tokens of a remote server, after the grant was revoked where its authorization server offers that.
    pub async fn logout(&self, server: &str) -> Result<Logout, Failure> {
        let (server, authorized) = self.remote(server)?;
        let had_tokens = authorized.credentials.has_tokens().await;
        let revocation = authorized.revoke().await;
        authorized.credentials.clear().await.map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        server.stop();
        Ok(Logout { had_tokens, revocation })
    }

    /// Whether an account is signed in at this server.
    pub fn sign_in(&self, server: &str) -> Option<SignIn> {
        self.0.own_server(&server_name(server)).map(|server| self.0.health(&server).sign_in)
    }

    fn remote(&self, name: &str) -> Result<(Arc<Server>, Arc<Authorized>), Failure> {
        let refused = |message: String| Failure::new(FailureKind::Refused, message);
        let Some(server) = self.0.own_server(&server_name(name)) else {
            let known: Vec<String> = self.0.all().iter().filter(|server| server.url().is_some()).map(|server| server.name.clone()).collect();
            let known = if known.is_empty() { "no server in mcp.json has a \"url\"".to_owned() } else { format!("there are {}", known.join(", ")) };
            return Err(refused(format!("there is no server {name:?}; {known}")));
        };
        match &server.authorized {
            Some(authorized) => Ok((server.clone(), authorized.clone())),
            None => Err(refused(format!("{name} is not reached over HTTP, so there is nothing to sign in at"))),
        }
    }
}

/// The `state` of an address.
pub fn state_of(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned())
}

/// Why the authorization server sent the browser back without a code.
fn refusal(callback: &str) -> Option<String> {
    let url = Url::parse(callback).ok()?;
    let value = |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
    let message = [value("error")?, value("error_description").unwrap_or_default()].join(" ");
    Some(message.trim().chars().filter(|c| !c.is_control()).take(300).collect())
}

/// Tokens are sent to this address with every request.
fn is_safe(url: &str) -> Result<(), String> {
    let parsed = Url::parse(url).map_err(|error| format!("{url:?} is no address: {error}"))?;
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match parsed.scheme() {
        "https" => Ok(()),
        "http" if is_loopback => Ok(()),
        _ => Err(format!("{url} is not encrypted, and tokens are sent over https only (http on this machine); use its https address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ServerConfig};

    #[test]
    fn tokens_travel_encrypted_or_stay_on_the_machine() {
        for good in ["https://a.example/mcp", "http://127.0.0.1:1/mcp", "http://localhost/mcp", "http://[::1]:9/mcp"] {
            assert!(is_safe(good).is_ok(), "{good}");
        }
        for bad in ["http://a.example/mcp", "http://10.0.0.1/mcp", "http://localhost.evil.example/", "ftp://127.0.0.1/"] {
            assert!(is_safe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_is_read_from_the_address() {
        let refused = "http://127.0.0.1:1/callback?error=access_denied&error_description=no%0Athanks&state=s";
        assert_eq!((refusal(refused).as_deref(), state_of(refused).as_deref()), (Some("access_denied nothanks"), Some("s")));
        assert_eq!(refusal("http://127.0.0.1:1/callback?code=c&state=s"), None);
    }

    #[tokio::test]
    async fn servers_that_cannot_be_signed_in_at_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let config =
            Config::parse(r#"{"mcpServers": {"far": {"url": "http://far.example/mcp"}, "near": {"command": "x"}}}"#, None, &|_| None).unwrap();
        let tools = Tools::builder().with_config(config).with_credentials(folder.path()).build();
        for (server, message) in [("nobody", "there are far"), ("near", "not reached over HTTP"), ("far", "not encrypted")] {
            let Err(failure) = tools.begin_login(server, "http://127.0.0.1:1/callback").await else { panic!("{server}") };
            assert!(failure.message.contains(message), "{failure}");
        }
        assert_eq!((tools.sign_in("far"), tools.logout("far").await.unwrap().had_tokens), (Some(SignIn::None), false));
        let without = Tools::builder().with_server("far", ServerConfig::http("https://far.example/mcp")).build();
        assert!(without.begin_login("far", "http://127.0.0.1:1/callback").await.is_err());
    }
}

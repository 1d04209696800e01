//! Rights at a remote server: OAuth as MCP profiles it.
//!
//! The SDK finds the authorization server, registers or names this client, and keeps the tokens fresh; [`super::credentials`] stores them. A person agrees in a
//! browser: by [`super::login`] (`baton tools login`, the page), or where a [`Consent`] is set, when the server refuses a request.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationMetadataSource, AuthorizationRequest, AuthorizationSession, OAuthClientConfig};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use rmcp::transport::{AuthClient, AuthError, AuthorizationManager, WWWAuthenticateParams};

use super::config::{OAuth, RedactedText, ServerConfig, ServerTransport};
use super::credentials::Credentials;
use super::http::BoundedHttp;

/// Gets a person's yes.
#[async_trait]
pub trait Consent: Send + Sync + 'static {
    /// Where the browser is sent afterwards.
    fn redirect(&self) -> String;

    /// Shows the address to the person, and returns the one the browser was sent to.
    async fn agree(&self, address: &str) -> Result<String, String>;
}

/// What is known about this account at one server.
pub(crate) struct Authorized {
    name: String,
    url: String,
    oauth: OAuth,
    consent: Option<Arc<dyn Consent>>,
    pub(crate) credentials: Credentials,
    /// All scopes that were ever requested: a new token must not lose old rights.
    scopes: Mutex<Vec<String>>,
}

/// How the server refused.
pub(crate) enum Refusal {
    /// No token, or none that counts.
    Nobody(String),
    /// A good token that does not reach so far.
    TooLittle { challenge: String },
}

impl Authorized {
    /// None for a server that is not reached over HTTP, or if nobody can agree and no tokens are kept.
    pub(crate) fn new(name: &str, config: &ServerConfig, consent: Option<Arc<dyn Consent>>, folder: Option<&Path>) -> Option<Self> {
        let ServerTransport::Http { url, .. } = &config.reach else { return None };
        if consent.is_none() && folder.is_none() {
            return None;
        }
        let oauth = config.oauth.clone().unwrap_or_default();
        let scopes = Mutex::new(oauth.scopes.clone());
        Some(Authorized { name: name.to_owned(), url: url.clone(), oauth, consent, credentials: Credentials::of(folder, name, url), scopes })
    }

    /// A client that sends the token there is, if there is one.
    pub(crate) async fn client(&self, http: BoundedHttp) -> Result<AuthClient<BoundedHttp>, String> {
        let mut manager = self.manager().await?;
        // Nothing is kept yet, or it belongs to another authorization server: then the refusal that follows begins anew.
        match manager.initialize_from_store().await {
            Ok(true) => self.add_client_secret(&mut manager),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "kept credentials cannot be used"),
        }
        Ok(AuthClient::new(http, manager))
    }

    /// The store has the client's id only, and a confidential client needs its secret to refresh.
    fn add_client_secret(&self, manager: &mut AuthorizationManager) {
        let (Some(id), Some(secret)) = (&self.oauth.client_id, &self.oauth.client_secret) else { return };
        let configured = OAuthClientConfig::new(id, self.url.as_str()).with_client_secret(secret.reveal());
        if let Err(error) = manager.configure_client(configured) {
            tracing::warn!(server = %self.name, %error, "the client secret cannot be used; tokens are not refreshed");
        }
    }

    /// Finds out whom to ask, and the address at which a person agrees. The browser is sent to `redirect` afterwards.
    pub(crate) async fn begin(&self, redirect: &str, challenge: Option<&str>) -> Result<AuthorizationSession, String> {
        let mut manager = self.manager().await?;
        let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(|error| self.failed(&error))?;
        if challenge.is_none() && found.source == AuthorizationMetadataSource::LegacyEndpointFallback {
            return Err(format!(
                "{} names no authorization server, so there is nowhere to sign in; a server that takes a key has it under \"headers\" in mcp.json",
                self.name
            ));
        }
        manager.set_metadata(found.metadata);
        let mut request = AuthorizationRequest::new(redirect).with_client_name("Baton");
        let scopes = self.scopes();
        request = if scopes.is_empty() { request.with_initial_scope_selection() } else { request.with_scopes(scopes) };
        if redirect.starts_with("https://") {
            request = request.with_application_type("web");
        }
        if let Some(id) = &self.oauth.client_id {
            request = request.with_preregistered_client(id);
        }
        if let Some(secret) = &self.oauth.client_secret {
            request = request.with_client_secret(secret.reveal());
        }
        if let Some(metadata) = &self.oauth.metadata_url {
            request = request.with_client_metadata_url(metadata);
        }
        AuthorizationSession::new(manager, request).await.map_err(|(_, error)| self.failed(&error))
    }

    /// Takes the address that the browser was sent to, and keeps the tokens.
    pub(crate) async fn finish(&self, session: &AuthorizationSession, callback: &str) -> Result<(), String> {
        session.handle_callback_url(callback).await.map_err(|error| self.failed(&error))?;
        // Granted rights are requested again with the next ones.
        if let Ok(Some(stored)) = rmcp::transport::auth::CredentialStore::load(&self.credentials).await {
            self.add_scopes(stored.granted_scopes);
        }
        Ok(())
    }

    /// The metadata of the authorization server.
    pub(crate) async fn metadata(&self) -> Result<AuthorizationMetadata, String> {
        let manager = self.manager().await?;
        let found = manager.resolve_metadata_from_challenge(None).await;
        found.map(|found| found.metadata).map_err(|error| format!("its authorization server was not found: {error}"))
    }

    pub(crate) fn client_secret(&self) -> Option<&str> {
        self.oauth.client_secret.as_ref().map(RedactedText::reveal)
    }

    /// After a refusal: has a person agree at once, where that is possible.
    pub(crate) async fn authorize(&self, challenge: &str) -> Result<(), String> {
        let Some(consent) = &self.consent else { return Err(needs_login(&self.name)) };
        let session = self.begin(&consent.redirect(), Some(challenge)).await?;
        let callback = consent.agree(session.get_authorization_url()).await?;
        self.finish(&session, &callback).await
    }

    /// After a refusal for want of rights: asks for those there were and those that were missing.
    pub(crate) async fn step_up(&self, challenge: &str) -> Result<(), String> {
        let base = self.url.parse().map_err(|_| format!("{:?} is no address", self.url))?;
        let wanted = WWWAuthenticateParams::parse(challenge, &base).scope.unwrap_or_default();
        let before = self.scopes();
        self.add_scopes(wanted.split_whitespace().map(str::to_owned).collect());
        if self.scopes() == before {
            return Err(format!("it refuses a token with the rights it asked for ({})", before.join(" ")));
        }
        match self.can_ask() {
            true => self.authorize(challenge).await,
            false => Err(format!(
                "it wants more rights ({wanted}): sign in again on the page under Tools, or add them to \"scopes\" of its \"oauth\" in mcp.json and run `baton tools login {}`",
                self.name
            )),
        }
    }

    pub(crate) fn can_ask(&self) -> bool {
        self.consent.is_some()
    }

    async fn manager(&self) -> Result<AuthorizationManager, String> {
        let made = match self.oauth.private_addresses {
            true => AuthorizationManager::new_allowing_private_addresses(self.url.as_str()).await,
            false => AuthorizationManager::new(self.url.as_str()).await,
        };
        let mut manager = made.map_err(|error| error.to_string())?;
        manager.set_credential_store(self.credentials.clone());
        Ok(manager)
    }

    fn failed(&self, error: &AuthError) -> String {
        format!("signing in at {} failed: {error}", self.name)
    }

    fn scopes(&self) -> Vec<String> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add_scopes(&self, more: Vec<String>) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        for scope in more {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
    }
}

/// What to do about a server that refuses for want of a token.
pub(crate) fn needs_login(server: &str) -> String {
    format!(
        "it wants a sign-in: run `baton tools login {server}`, or sign in on the page under Tools; a server that takes a key has it under \"headers\" in mcp.json"
    )
}

/// The missing right that a failed call reports, if it reports one.
pub(crate) fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<Refusal> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<AuthRequiredError>() {
            return Some(Refusal::Nobody(error.www_authenticate_header.clone()));
        }
        if let Some(error) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(Refusal::TooLittle { challenge: error.www_authenticate_header.clone() });
        }
        next = error.source();
    }
    None
}

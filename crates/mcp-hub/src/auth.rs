//! Rights at a remote server: OAuth as MCP profiles it, begun by the server's own refusal.
//!
//! The SDK finds the authorization server, registers or names this client, and keeps the tokens fresh. What remains here is to
//! have a person (or whoever stands in for one) agree, and to ask for more rights when a call is refused for want of them.
//! Tokens live as long as the process.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthorizationRequest, InMemoryCredentialStore, OAuthState};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use rmcp::transport::{AuthClient, AuthorizationManager, WWWAuthenticateParams};

use super::config::{OAuth, ServerConfig};
use super::http::BoundedHttp;

/// Gets a person's yes.
#[async_trait]
pub trait Consent: Send + Sync + 'static {
    /// Where the browser is sent afterwards.
    fn redirect(&self) -> String;

    /// Shows the address to the person, and returns the one the browser was sent to.
    async fn agree(&self, address: &str) -> Result<String, String>;
}

pub(crate) struct Authorized {
    oauth: OAuth,
    consent: Arc<dyn Consent>,
    tokens: InMemoryCredentialStore,
    /// Everything that was ever asked for: a new token must not lose old rights.
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
    pub(crate) fn new(config: &ServerConfig, consent: Arc<dyn Consent>) -> Self {
        let oauth = config.oauth.clone().unwrap_or_default();
        let scopes = Mutex::new(oauth.scopes.clone());
        Authorized { oauth, consent, tokens: InMemoryCredentialStore::new(), scopes }
    }

    /// A client that shows the token there is, if there is one.
    pub(crate) async fn client(&self, http: BoundedHttp, url: &str) -> Result<AuthClient<BoundedHttp>, String> {
        let mut manager = self.manager(url).await?;
        // Nothing is kept yet, or it belongs to another authorization server: then the refusal that follows begins anew.
        if let Err(error) = manager.initialize_from_store().await {
            tracing::debug!(%error, "kept credentials cannot be used");
        }
        Ok(AuthClient::new(http, manager))
    }

    /// After a refusal: finds out whom to ask, asks, and keeps the token.
    pub(crate) async fn authorize(&self, url: &str, challenge: Option<&str>) -> Result<(), String> {
        let mut state = OAuthState::Unauthorized(self.manager(url).await?);
        let mut request = AuthorizationRequest::new(self.consent.redirect()).with_client_name("Baton");
        let scopes = self.scopes();
        request = if scopes.is_empty() { request.with_initial_scope_selection() } else { request.with_scopes(scopes) };
        if let Some(challenge) = challenge {
            request = request.with_challenge(challenge);
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
        let told = |error: rmcp::transport::AuthError| format!("authorization failed: {error}");
        state.start_authorization(request).await.map_err(told)?;
        let address = state.get_authorization_url().await.map_err(told)?;
        let back = self.consent.agree(&address).await?;
        state.handle_callback_url(&back).await.map_err(told)?;
        if let Some(manager) = state.into_authorization_manager() {
            self.add_scopes(manager.get_current_scopes().await);
        }
        Ok(())
    }

    /// After a refusal for want of rights: asks for those there were and those that were missing.
    pub(crate) async fn step_up(&self, url: &str, challenge: &str) -> Result<(), String> {
        let base = url.parse().map_err(|_| format!("{url:?} is no address"))?;
        let wanted = WWWAuthenticateParams::parse(challenge, &base).scope.unwrap_or_default();
        let before = self.scopes();
        self.add_scopes(wanted.split_whitespace().map(str::to_owned).collect());
        if self.scopes() == before {
            return Err(format!("it refuses a token with the rights it asked for ({})", before.join(" ")));
        }
        self.authorize(url, Some(challenge)).await
    }

    async fn manager(&self, url: &str) -> Result<AuthorizationManager, String> {
        let mut manager = AuthorizationManager::new(url).await.map_err(|error| error.to_string())?;
        manager.set_credential_store(self.tokens.clone());
        Ok(manager)
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

/// What a failed call says about rights, if it says something.
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

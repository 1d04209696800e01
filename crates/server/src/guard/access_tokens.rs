//! Access tokens of the provider at `/mcp`, and the response that names where a host without one gets it.

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;

use super::{Guard, Identity, digest, unauthorized};
use crate::listen::Peer;
use crate::oidc::{AccessError, RESOURCE};
use crate::problem::Problem;

/// A request to what access tokens are for.
pub(super) struct Resource {
    /// This server's address in the request, where it has one.
    base: Option<String>,
}

impl Resource {
    /// None if the path is another, or no provider is configured.
    pub(super) fn of(guard: &Guard, request: &Request<Body>) -> Option<Resource> {
        let rest = request.uri().path().strip_prefix(RESOURCE)?;
        let is_below = rest.is_empty() || rest.starts_with('/');
        (is_below && guard.oidc().is_some()).then(|| Resource { base: guard.base_of(request).ok() })
    }

    /// The header of a refusal.
    pub(super) fn challenge(&self, guard: &Guard, had_token: bool) -> Option<HeaderValue> {
        HeaderValue::from_str(&guard.oidc()?.challenge(self.base.as_deref(), had_token)?).ok()
    }
}

impl Guard {
    /// The user of an access token. None if it is none, which then counts as a wrong token.
    pub(super) async fn of_access_token(&self, given: &str, resource: &Resource, peer: Option<&Peer>) -> Result<Option<Identity>, Problem> {
        let (Some(oidc), Some(store)) = (self.oidc(), &self.0.users) else { return Ok(None) };
        // A JWT has three parts; Baton's own tokens have one.
        if given.split('.').count() != 3 {
            return Ok(None);
        }
        let who = match oidc.of_access_token(given, resource.base.as_deref(), &**store).await {
            Ok(who) => who,
            Err(AccessError::Expired) => return Err(unauthorized("the access token has expired; get another one from the provider")),
            Err(AccessError::Problem(problem)) => return Err(problem),
            Err(AccessError::Refused(why)) => {
                tracing::warn!("an access token was refused: {why}");
                return Ok(None);
            }
        };
        if let Some(allowances) = self.allowances() {
            allowances.set_groups(&who.user, &who.groups);
        }
        self.0.sign_ins.seen(digest(given), &who.user, "an access token of OpenID Connect", peer).await?;
        Ok(Some(Identity { user: who.user, is_operator: false }))
    }
}

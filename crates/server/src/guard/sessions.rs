//! Sessions of the page: a cookie in exchange for a token or for a sign-in at a provider, and signing out.

use audit::{Event, EventKind};
use axum::http::HeaderMap;
use graph::UserId;
use store::NewToken;

use super::{COOKIE, Guard, READING, Scope, cookie, digest, foreign_page, is_over_tls, lock, now_ms, origin, secret_for};
use crate::listen::Peer;
use crate::oidc::{self, SignedIn};
use crate::problem::Problem;

/// How long a cookie is valid that was made with a token.
const SESSION_MS: i64 = 30 * 86_400_000;

impl Guard {
    /// A cookie in exchange for a token. The page must be one of this server.
    pub(crate) async fn open_session(&self, token: &str, headers: &HeaderMap, peer: Option<&Peer>) -> Result<String, Problem> {
        if origin::is_cross_site(headers) || !origin::is_same_origin(headers) {
            return Err(foreign_page());
        }
        let who = self.of_token(token, peer).await?;
        let Some(store) = &self.0.users else { return Err(Problem::not_found("session here")) };
        // A session may do what its token may.
        let scope = if token.trim().starts_with(READING) { Scope::Read } else { Scope::All };
        let secret = secret_for(scope)?;
        self.0.sign_ins.seen(digest(&secret), &who.user, "a session of the page", peer).await?;
        let now_ms = now_ms();
        let session = NewToken {
            digest: digest(&secret),
            user: who.user,
            made_with: Some(digest(token.trim())),
            created_ms: now_ms,
            until_ms: Some(now_ms + SESSION_MS),
            scope: None,
        };
        store.keep_token(session).await?;
        Ok(cookie_with(&secret, SESSION_MS / 1_000, is_over_tls(headers, peer)))
    }

    /// A cookie for a user of the provider. Sessions belong to an entry of the user, which `baton tokens` lists; removing it ends all of them.
    pub(crate) async fn sign_in(&self, who: &SignedIn, hours: u32, headers: &HeaderMap, peer: Option<&Peer>) -> Result<String, Problem> {
        let Some(store) = &self.0.users else { return Err(Problem::not_found("session here")) };
        let (now_ms, session_ms) = (now_ms(), i64::from(hours) * 3_600_000);
        if store.token(&who.subject, now_ms).await?.is_none() {
            let entry = NewToken {
                digest: who.subject,
                user: who.user.clone(),
                made_with: None,
                created_ms: now_ms,
                until_ms: None,
                scope: Some("all".to_owned()),
            };
            store.keep_token(entry).await?;
        }
        let secret = secret_for(Scope::All)?;
        self.0.sign_ins.seen(digest(&secret), &who.user, "OpenID Connect", peer).await?;
        let session = NewToken {
            digest: digest(&secret),
            user: who.user.clone(),
            made_with: Some(who.subject),
            created_ms: now_ms,
            until_ms: Some(now_ms + session_ms),
            scope: None,
        };
        store.keep_token(session).await?;
        if let Some(allowances) = self.allowances() {
            allowances.set_groups(&who.user, &who.groups);
        }
        Ok(cookie_with(&secret, session_ms / 1_000, is_over_tls(headers, peer)))
    }

    /// Counts and records a sign-in that failed.
    pub(crate) fn refused(&self, peer: Option<&Peer>, how: &str) {
        let is_first_few = peer.is_none_or(|peer| self.0.failures.count(peer.remote.ip()).is_none());
        if is_first_few {
            self.0.sign_ins.refused(peer, how);
        }
    }

    /// Takes over the groups of a user's last sign-in, which may have been at another server.
    pub(super) async fn learn_groups(&self, user: &UserId) -> Result<(), Problem> {
        if let (Some(_), Some(allowances), Some(store)) = (self.oidc(), self.allowances(), &self.0.users) {
            allowances.set_groups(user, &oidc::groups_of(&**store, user).await?);
        }
        Ok(())
    }

    pub(crate) async fn close_session(&self, headers: &HeaderMap) -> Result<String, Problem> {
        if !origin::is_same_origin(headers) {
            return Err(foreign_page());
        }
        if let (Some(store), Some(secret)) = (&self.0.users, cookie(headers)) {
            let digest = digest(secret);
            lock(&self.0.known).remove(&digest);
            if let Some(row) = store.token(&digest, now_ms()).await?
                && row.made_with.is_some()
            {
                store.drop_token(row.token).await?;
                self.record(Event::new(EventKind::SignOut, row.user.as_str())).await?;
            }
        }
        Ok(cookie_with("", 0, false))
    }
}

fn cookie_with(secret: &str, seconds: i64, is_over_tls: bool) -> String {
    let secure = if is_over_tls { "; Secure" } else { "" };
    format!("{COOKIE}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

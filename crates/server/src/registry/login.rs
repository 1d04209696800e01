//! Signing in at remote MCP servers from the page. The page sends the browser to the authorization server, which sends it back to [`CALLBACK`].
//!
//! That address needs no token: the browser comes from another site, without the session's cookie. What it brings is the `state` of a sign-in that an operator
//! began here: a secret that is used once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use audit::EventKind;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use axum::{Json, Router};
use graph::{Failure, FailureKind};
use mcp_hub::{Login, Logout, Revocation};
use serde_json::json;
use wire::registry as wire_registry;

use super::{Caller, Problem, Registry};
use crate::guard::Guard;
use crate::notice::notice;

pub(super) const CALLBACK: &str = "/oauth/callback";
/// Where the page lists the servers.
const PAGE: &str = "/#/tools";
/// Time for the sign-in at the authorization server.
const PENDING_FOR: Duration = Duration::from_secs(600);
const PENDING_MAX: usize = 32;

/// Sign-ins that were begun, by their `state`.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<HashMap<String, PendingLogin>>>);

struct PendingLogin {
    login: Login,
    redirect: String,
    since: Instant,
}

impl Pending {
    fn add(&self, state: String, login: PendingLogin) {
        let mut all = self.fresh();
        if all.len() >= PENDING_MAX
            && let Some(oldest) = all.iter().min_by_key(|(_, begun)| begun.since).map(|(state, _)| state.clone())
        {
            all.remove(&oldest);
        }
        all.insert(state, login);
    }

    fn take(&self, state: &str) -> Option<PendingLogin> {
        self.fresh().remove(state)
    }

    fn fresh(&self) -> MutexGuard<'_, HashMap<String, PendingLogin>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, begun| begun.since.elapsed() < PENDING_FOR);
        all
    }
}

#[derive(Clone)]
struct Site {
    registry: Registry,
    guard: Guard,
}

/// Beside the other routes of the registry, behind the guard.
pub(super) fn routes(registry: &Registry, guard: &Guard) -> Router {
    let site = Site { registry: registry.clone(), guard: guard.clone() };
    Router::new().route("/servers/{name}/login", post(begin)).route("/servers/{name}/logout", post(end)).with_state(site)
}

/// At the root of the server, without the guard.
pub(super) fn open_routes(registry: &Registry, has_page: bool) -> Router {
    let registry = registry.clone();
    let callback = move |uri: Uri| async move {
        match finish(&registry, &uri).await {
            Ok(_) if has_page => (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static(PAGE))]).into_response(),
            Ok(server) => notice(StatusCode::OK, "Signed in", &format!("Baton can use the tools of {server} now. You may close this tab."), None),
            Err(failure) => {
                let back = has_page.then_some((PAGE, "Back to Baton"));
                notice(StatusCode::BAD_REQUEST, "Sign-in failed", &failure.message, back)
            }
        }
    };
    Router::new().route(CALLBACK, get(callback))
}

async fn begin(State(site): State<Site>, who: Caller, Path(name): Path<String>, request: Request) -> Result<Json<wire_registry::Login>, Problem> {
    let base = site.guard.site_of(&request).map_err(|problem| Problem(problem.into_response()));
    drop(request);
    let redirect = format!("{}{CALLBACK}", base?);
    let registry = &site.registry;
    registry.record(&who, EventKind::ServerSignIn, |event| event.tool(name.as_str()).detail("begun")).await?;
    let login = registry.tools.begin_login(&name, &redirect).await?;
    let address = login.address().to_owned();
    let state = login.state().ok_or_else(|| Failure::new(FailureKind::Internal, "the sign-in has no state"))?;
    registry.pending.add(state, PendingLogin { login, redirect, since: Instant::now() });
    Ok(Json(wire_registry::Login { address }))
}

async fn end(State(site): State<Site>, who: Caller, Path(name): Path<String>) -> Result<Json<serde_json::Value>, Problem> {
    site.registry.record(&who, EventKind::ServerSignOut, |event| event.tool(name.as_str())).await?;
    let Logout { had_tokens, revocation } = site.registry.tools.logout(&name).await?;
    let (revoked, why) = match revocation {
        Revocation::Done => (true, None),
        Revocation::NotOffered => (false, None),
        Revocation::Failed(why) => (false, Some(why)),
    };
    Ok(Json(json!({ "name": name, "had_tokens": had_tokens, "revoked": revoked, "why_not_revoked": why })))
}

/// The server of the current sign-in.
async fn finish(registry: &Registry, uri: &Uri) -> Result<String, Failure> {
    let query = uri.query().unwrap_or_default();
    let begun = mcp_hub::state_of(&format!("http://callback.invalid/?{query}")).and_then(|state| registry.pending.take(&state));
    let Some(PendingLogin { login, redirect, .. }) = begun else {
        let words = "this sign-in was not begun here, or took longer than ten minutes, or is over already; begin again on the page under Tools";
        return Err(Failure::new(FailureKind::Refused, words));
    };
    let server = login.server().to_owned();
    login.finish(&format!("{redirect}?{query}")).await?;
    registry.record(&None, EventKind::ServerSignIn, |event| event.tool(server.as_str()).detail("done")).await?;
    Ok(server)
}

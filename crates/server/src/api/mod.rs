//! Our own API under `/api`: a file a subject, and this list names them all. `wire::api` has the data, `openapi.rs` describes it.

pub(crate) mod answer;
mod conversation;
mod documents;
mod events;
mod flows;
mod inspect;
mod keys;
mod memory;
mod models;
pub mod openapi;
pub(crate) mod params;
pub mod permissions;
mod query;
pub(crate) mod runs;
mod session;
mod settings;
mod short_outcomes;
mod status;
pub(crate) mod threads;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post, put};
use engine::Engine;
use graph::{RunId, ThreadId, UserId};
use store::{RunRow, ThreadRow};

use crate::backend::Backend;
use crate::conversation::reading;
use crate::events::Hubs;
use crate::feed::Feed;
use crate::guard::{Guard, Identity};
use crate::metrics::Metrics;
use crate::problem::{Problem, StatusCode};
use crate::quota::Quota;
pub use runs::breakpoints;
use short_outcomes::ShortOutcomes;

/// What the API stands on.
#[derive(Clone)]
pub struct Api(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) guard: Guard,
    pub(crate) quota: Quota,
    pub(crate) hubs: Arc<Hubs>,
    pub(crate) feed: Feed,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) short_outcomes: ShortOutcomes,
}

impl Api {
    /// The API over an engine; starts nothing.
    pub fn new(engine: Engine, backend: Arc<dyn Backend>, guard: Guard, quota: Quota, metrics: Arc<Metrics>) -> Self {
        let (hubs, feed) = (Hubs::new(engine.clone()), Feed::new(engine.store().clone()));
        Api(Arc::new(Inner { engine, backend, guard, quota, hubs, feed, metrics, short_outcomes: ShortOutcomes::default() }))
    }

    /// What needs no token: a page without one asks for it.
    pub(crate) fn open_routes(&self) -> Router {
        Router::new()
            .route("/api/session", get(session::ways).post(session::open).delete(session::close))
            .route("/open", get(session::open_link))
            .route("/share/{token}", get(reading::show))
            .route("/api/openapi.json", get(openapi::get))
            .with_state(self.clone())
            .merge(crate::oidc::routes(self))
    }

    pub(crate) fn routes(&self) -> Router {
        Router::new()
            .route("/api/status", get(status::get))
            .route("/api/flows", get(flows::list))
            .route("/api/flows/{name}/graph.mmd", get(flows::drawn))
            .route("/api/threads", get(threads::list))
            .route("/api/threads/{thread}", get(threads::show).patch(conversation::change).delete(threads::remove))
            .route("/api/threads/{thread}/shares", get(conversation::shares).post(conversation::share))
            .route("/api/threads/{thread}/shares/{id}", delete(conversation::unshare))
            .route("/api/threads/{thread}/export/{ending}", get(conversation::file))
            .route("/api/threads/{thread}/files/{*path}", get(threads::file))
            .route("/api/feed", get(events::feed))
            .route("/api/runs", get(runs::list).post(runs::start))
            .route("/api/runs/{run}", get(runs::show))
            .route("/api/runs/{run}/events", get(events::follow))
            .route("/api/runs/{run}/cancel", post(runs::cancel))
            .route("/api/runs/{run}/resume", post(runs::resume))
            .route("/api/runs/{run}/fork", post(runs::fork))
            .route("/api/runs/{run}/answer", get(answer::show).post(runs::answer))
            .route("/api/runs/{run}/answer.md", get(answer::markdown))
            .route("/api/runs/{run}/answer.html", get(answer::html))
            .route("/api/runs/{run}/answer.docx", get(answer::docx))
            .route("/api/runs/{run}/answer.pdf", get(answer::pdf))
            .route("/api/runs/{run}/spans/{number}", get(answer::span))
            .route("/api/runs/{run}/steps", get(inspect::steps))
            .route("/api/runs/{run}/steps/{step}", get(inspect::state))
            .route("/api/runs/{run}/journal", get(inspect::journal))
            .route("/api/query", post(query::ask))
            .route("/api/models", get(models::list))
            .route("/api/models/test", post(keys::test))
            .route("/api/keys", get(keys::list))
            .route("/api/keys/{name}", put(keys::put).merge(delete(keys::remove)))
            .route("/api/memory", get(memory::list).delete(memory::forget_all))
            .route("/api/memory/{note}", delete(memory::forget))
            .route("/api/documents", get(documents::list))
            .route("/api/documents/{name}", get(documents::text).put(documents::put).merge(delete(documents::remove)))
            .route("/api/permissions", get(permissions::list))
            .route("/api/permissions/{id}", delete(permissions::revoke))
            .route("/api/settings", get(settings::show).patch(settings::change))
            .with_state(self.clone())
    }

    /// A run of this user; those of others are reported as not found.
    pub(crate) async fn run(&self, who: &Identity, run: &str) -> Result<RunRow, Problem> {
        let store = self.0.engine.store();
        let row = store.run(&RunId::from(run)).await?;
        // A run that does not exist costs the same work as another user's.
        let thread = row.as_ref().map_or_else(|| ThreadId::from(run), |row| row.thread.clone());
        let is_theirs = store.thread(&thread).await?.is_some_and(|thread| thread.user.as_ref() == Some(&who.user));
        row.filter(|_| is_theirs).ok_or_else(|| Problem::not_found("run"))
    }

    /// A thread of this user's, by its id or by the name under which the user started it.
    pub(crate) async fn thread(&self, who: &Identity, thread: &str) -> Result<ThreadRow, Problem> {
        let store = self.0.engine.store();
        let is_theirs = |row: &ThreadRow| row.user.as_ref() == Some(&who.user);
        let (by_id, by_name) = (store.thread(&ThreadId::from(thread)).await?, store.thread(&own_name(&who.user, thread)).await?);
        by_id.filter(is_theirs).or(by_name.filter(is_theirs)).ok_or_else(|| Problem::not_found("thread"))
    }

    /// Refuses to start a run for a user who has as many bytes stored as allowed.
    pub(crate) async fn check_storage(&self, user: &UserId) -> Result<(), Problem> {
        let stored_bytes_max = self.0.quota.limits().stored_bytes_max;
        match self.0.engine.store().stored_bytes(user).await? < stored_bytes_max {
            true => Ok(()),
            false => Err(Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "limit",
                format!("your conversations take more than {stored_bytes_max} bytes; delete some first (stored_bytes_max of the server)"),
            )),
        }
    }

    /// Refuses to start a run for a user who may not use its model, or has spent what a day allows. Counts it otherwise.
    pub(crate) async fn check_allowance(&self, user: &UserId, model: Option<&str>) -> Result<(), Problem> {
        let Some(allowances) = self.0.guard.allowances() else { return Ok(()) };
        allowances.may_use_model(user, model).map_err(|why| Problem::new(StatusCode::FORBIDDEN, "refused", why))?;
        match allowances.begin(user, 1).await? {
            None => Ok(()),
            Some(why) => Err(Problem::new(StatusCode::PAYMENT_REQUIRED, "budget", why)),
        }
    }

    /// The thread that a run may be started in: one of the user's, or a new one.
    pub(crate) async fn thread_for(&self, who: &Identity, thread: Option<&str>) -> Result<ThreadId, Problem> {
        match thread {
            Some(name) => thread_named(&self.0.engine, who, name).await,
            None => Ok(ThreadId::from(engine::new_run_id().as_str())),
        }
    }
}

/// The id of a thread that a user started under a name of their own. Names of different users never meet, so that nobody learns from a name whether somebody
/// else uses it. The user of this machine has names as they are.
fn own_name(user: &UserId, name: &str) -> ThreadId {
    match *user == UserId::default() {
        true => ThreadId::from(name),
        false => ThreadId::from(format!("{name}-{}", runs::digest_of(&["thread", user.as_str(), name], 8))),
    }
}

/// A thread as its user named it; by its id if the user did not.
pub(crate) fn shown_name(user: &UserId, thread: &ThreadId) -> String {
    let named = thread.as_str().rsplit_once('-').map(|(name, _)| name).filter(|name| own_name(user, name) == *thread);
    named.unwrap_or(thread.as_str()).to_owned()
}

/// The thread that a user means by a name: one that they have, or one that is started with the first run in it.
pub(crate) async fn thread_named(engine: &Engine, who: &Identity, name: &str) -> Result<ThreadId, Problem> {
    const NAME_BYTES_MAX: usize = 200;
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(Problem::invalid(format!(
            "a thread's name has 1 to {NAME_BYTES_MAX} bytes and no control characters; leave it out for a new thread"
        )));
    }
    let thread = ThreadId::from(name);
    let row = engine.store().thread(&thread).await?;
    let is_theirs = row.is_some_and(|row| row.user.as_ref() == Some(&who.user));
    Ok(if is_theirs { thread } else { own_name(&who.user, name) })
}

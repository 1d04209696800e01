//! The document's own way to ask: one query, by intent, with what each executed stage found.
//!
//! A query that names no thread continues its client's conversation. Conversations that were begun here are threads named
//! `query-<digest of user and client>`, followed by an id for each one that `"thread": "new"` began; the one that was made last is continued. So the
//! store knows which it is, also after a restart, and two first queries at once begin the same conversation.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use engine::RunState;
use graph::{Outcome, ThreadId, UserId};
use serde_json::Value;
use wire::api;

use super::Api;
use super::params::JsonBody;
use super::runs::{begin, digest_of, header_text};
use crate::guard::Identity;
use crate::problem::Problem;

const FLOW: &str = "chat";
/// Names one of several clients of a user; those that send none share a conversation.
pub(super) const CLIENT: &str = "x-client-id";
/// What a client sends in place of a thread's name to begin another conversation.
const NEW: &str = "new";

pub(super) async fn ask(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    headers: HeaderMap,
    JsonBody(query): JsonBody<api::Query>,
) -> Result<Json<api::QueryAnswer>, Problem> {
    let thread = match query.thread.as_deref() {
        Some(name) if name != NEW => api.thread_for(&who, Some(name)).await?,
        wanted => {
            let client = header_text(&headers, CLIENT)?.unwrap_or_default();
            conversation(&api, &who.user, client, wanted.is_some()).await?
        }
    };
    let new_run = api::NewRun { question: query.query, flow: Some(FLOW.into()), ..api::NewRun::default() };
    let order = api.0.backend.order(&who.user, &thread, &new_run)?;
    let (run, thread, place) = begin(&api, &who.user, order).await?;
    let at = api.0.engine.wait(&run).await?;
    drop(place);
    let RunState::Over(closing) = at else {
        return Err(Problem::conflict(format!("the run {run} waits for a person; GET /api/runs/{run} says for what")));
    };
    let output = match &closing.outcome {
        Outcome::Done { output } => output,
        Outcome::Failed { fault } => return Err(Problem::conflict(format!("the run {run} failed: {fault}"))),
        Outcome::Cancelled { reason } => return Err(Problem::conflict(format!("the run {run} was stopped: {reason}"))),
    };
    let words = |name: &str| output[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let results = serde_json::from_value(output["results"].clone()).map_err(|error| Problem::internal(&error))?;
    let messages = serde_json::from_value(output["last_messages"].clone()).map_err(|error| Problem::internal(&error))?;
    Ok(Json(api::QueryAnswer {
        intent: output["intent"].as_str().unwrap_or_default().to_owned(),
        planned_stages: words("planned_stages"),
        executed_stages: words("executed_stages"),
        results,
        messages,
        thread: thread.to_string(),
        run: run.to_string(),
    }))
}

/// The thread that a client's query belongs to if it names none.
async fn conversation(api: &Api, user: &UserId, client: &str, is_new: bool) -> Result<ThreadId, Problem> {
    let first = format!("query-{}", digest_of(&["query", user.as_str(), client], 8));
    if is_new {
        return Ok(ThreadId::from(format!("{first}-{}", engine::new_run_id())));
    }
    let newest = api.0.engine.store().newest_thread(user, &first).await?;
    Ok(newest.map_or_else(|| ThreadId::from(first), |row| row.thread))
}

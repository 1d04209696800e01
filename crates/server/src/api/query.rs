//! The document's own way to ask: one query, by intent, with what each executed stage found.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use engine::At;
use graph::Outcome;
use serde_json::Value;
use wire::api;

use super::Api;
use super::runs::begin;
use super::said::Said;
use crate::guard::Who;
use crate::problem::Problem;

const FLOW: &str = "chat";

pub(super) async fn ask(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Said(query): Said<api::Query>,
) -> Result<Json<api::QueryAnswer>, Problem> {
    let thread = api.thread_for(&who, query.thread.as_deref()).await?;
    let wish = api::NewRun {
        question: query.query,
        flow: Some(FLOW.into()),
        thread: None,
        model: None,
        approve: false,
        strict: None,
        budget: None,
        settings: BTreeMap::new(),
    };
    let order = api.0.desk.order(&who.user, &thread, &wish)?;
    let (run, thread, place) = begin(&api, &who.user, order).await?;
    let at = api.0.engine.wait(&run).await?;
    drop(place);
    let At::Over(closing) = at else {
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

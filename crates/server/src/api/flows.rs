use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use wire::api;

use super::Api;
use crate::problem::Problem;

/// The flows, with what can be set for each.
pub(super) async fn list(State(api): State<Api>) -> Json<api::Flows> {
    Json(api::Flows { flows: api.0.backend.flows() })
}

/// A flow's graph for Mermaid.
pub(super) async fn drawn(State(api): State<Api>, Path(name): Path<String>) -> Result<impl IntoResponse, Problem> {
    let graph = api.0.engine.flows().get(&name).ok_or_else(|| Problem::not_found("flow"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], graph.mermaid()))
}

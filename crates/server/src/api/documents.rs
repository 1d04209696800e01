use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use wire::api;

use super::Api;
use super::params::{QueryParams, RawBody};
use crate::guard::Identity;
use crate::name;
use crate::problem::Problem;

pub(super) async fn list(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Json<api::Documents>, Problem> {
    Ok(Json(api.0.backend.documents(&who.user).await?))
}

#[derive(Deserialize)]
pub(super) struct Part {
    from: Option<u32>,
}

pub(super) async fn text(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(given): Path<String>,
    QueryParams(part): QueryParams<Part>,
) -> Result<Json<api::DocumentText>, Problem> {
    let name = name::plain(&given).map_err(Problem::invalid)?;
    Ok(Json(api.0.backend.document_text(&who.user, name, part.from.unwrap_or(1)).await?))
}

pub(super) async fn put(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(given): Path<String>,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<api::Uploaded>), Problem> {
    let name = name::plain(&given).map_err(Problem::invalid)?;
    let uploaded = api.0.backend.put_document(&who.user, name, bytes.to_vec()).await?;
    tracing::info!(user = %who.user, name, bytes = uploaded.bytes, "a document was given");
    Ok((StatusCode::CREATED, Json(uploaded)))
}

pub(super) async fn remove(State(api): State<Api>, Extension(who): Extension<Identity>, Path(given): Path<String>) -> Result<StatusCode, Problem> {
    let name = name::plain(&given).map_err(Problem::invalid)?;
    api.0.backend.delete_document(&who.user, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use wire::api;

use super::Api;
use super::said::Raw;
use crate::guard::Who;
use crate::name;
use crate::problem::Problem;

pub(super) async fn list(State(api): State<Api>, Extension(who): Extension<Who>) -> Result<Json<api::Documents>, Problem> {
    Ok(Json(api.0.desk.documents(&who.user).await?))
}

pub(super) async fn put(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(given): Path<String>,
    Raw(bytes): Raw,
) -> Result<(StatusCode, Json<api::Uploaded>), Problem> {
    let name = name::plain(&given).map_err(Problem::invalid)?;
    let uploaded = api.0.desk.put_document(&who.user, name, bytes.to_vec()).await?;
    tracing::info!(user = %who.user, name, bytes = uploaded.bytes, "a document was given");
    Ok((StatusCode::CREATED, Json(uploaded)))
}

pub(super) async fn remove(State(api): State<Api>, Extension(who): Extension<Who>, Path(given): Path<String>) -> Result<StatusCode, Problem> {
    let name = name::plain(&given).map_err(Problem::invalid)?;
    api.0.desk.delete_document(&who.user, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

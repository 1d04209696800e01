use axum::Json;
use axum::extract::State;
use wire::api;

use super::Api;
use crate::problem::Problem;

pub(super) async fn list(State(api): State<Api>) -> Result<Json<api::Models>, Problem> {
    Ok(Json(api.0.backend.models().await?))
}

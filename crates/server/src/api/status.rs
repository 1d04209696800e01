use axum::extract::State;
use axum::{Extension, Json};
use store::CardFilter;
use wire::api;

use super::Api;
use crate::guard::Who;
use crate::problem::Problem;

pub(super) async fn get(State(api): State<Api>, Extension(who): Extension<Who>) -> Result<Json<api::Status>, Problem> {
    let inner = &api.0;
    let documents = inner.desk.documents(&who.user).await?;
    let mine = CardFilter { user: Some(who.user.clone()), limit: 1, ..CardFilter::default() };
    let first_run = inner.engine.store().cards(mine).await?.is_empty();
    Ok(Json(api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        user: who.user.to_string(),
        needs_token: inner.guard.has_tokens().await?,
        flows: inner.desk.flows(),
        model: inner.desk.chosen(),
        documents: api::Shelf { folders: documents.folders, passages: documents.index.passages },
        first_run,
    }))
}

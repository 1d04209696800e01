//! What a user does with a thread as a whole: names it, shares it, takes it out as a file.

use audit::{Event, EventKind};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use graph::RunId;
use serde::Deserialize;
use store::CardFilter;
use wire::api;

use super::Api;
use super::answer::{exported, file_name};
use super::params::{JsonBody, QueryParams};
use crate::backend::Format;
use crate::conversation::{details, export, shares};
use crate::guard::Identity;
use crate::problem::Problem;

pub(super) async fn change(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(thread): Path<String>,
    JsonBody(wanted): JsonBody<api::ChangeThread>,
) -> Result<Json<api::Thread>, Problem> {
    let store = &**api.0.engine.store();
    let row = api.thread(&who, &thread).await?;
    let changed = details::change(store, &row, &wanted).await?;
    let filter = CardFilter { user: Some(who.user.clone()), thread: Some(row.thread), limit: 1, ..CardFilter::default() };
    let card = store.cards(filter).await?.pop().ok_or_else(|| Problem::not_found("thread"))?;
    let shown = details::shown(&card, changed);
    api.0.feed.changed(&who.user, &shown);
    Ok(Json(shown))
}

pub(super) async fn shares(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(thread): Path<String>,
) -> Result<Json<api::Shares>, Problem> {
    let row = api.thread(&who, &thread).await?;
    Ok(Json(api::Shares { shares: shares::list(&**api.0.engine.store(), &who.user, &row.thread).await? }))
}

pub(super) async fn share(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(thread): Path<String>,
    JsonBody(wanted): JsonBody<api::NewShare>,
) -> Result<(StatusCode, Json<api::Share>), Problem> {
    let row = api.thread(&who, &thread).await?;
    api.0.guard.record(Event::new(EventKind::ThreadShared, who.user.as_str()).thread(row.thread.as_str())).await?;
    let share = shares::make(&**api.0.engine.store(), &row, wanted.runs.as_deref()).await?;
    Ok((StatusCode::CREATED, Json(share)))
}

pub(super) async fn unshare(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path((thread, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let row = api.thread(&who, &thread).await?;
    match shares::revoke(&**api.0.engine.store(), &who.user, &row.thread, Some(&id)).await? {
        0 => Err(Problem::not_found("link")),
        _ => {
            api.0.guard.record(Event::new(EventKind::ThreadUnshared, who.user.as_str()).thread(row.thread.as_str())).await?;
            Ok(StatusCode::NO_CONTENT)
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ExportQuery {
    /// With commas between them.
    runs: Option<String>,
}

pub(super) async fn file(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path((thread, ending)): Path<(String, String)>,
    QueryParams(wanted): QueryParams<ExportQuery>,
) -> Result<Response, Problem> {
    let known = || Format::ALL.map(|(ending, _)| ending).join(", ");
    let format = Format::ALL.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format);
    let format = format.ok_or_else(|| Problem::invalid(format!("a conversation is exported as one of: {}", known())))?;
    let store = &**api.0.engine.store();
    let row = api.thread(&who, &thread).await?;
    let runs = wanted.runs.filter(|runs| !runs.is_empty()).map(|runs| runs.split(',').map(RunId::from).collect());
    let turns = export::turns_beside(&api, &who.user, &row, runs).await?;
    if turns.is_empty() {
        return Err(Problem::conflict("this conversation has no turn to export yet"));
    }
    let title = details::of(store, &row).await?.title.unwrap_or_else(|| row.title.clone());
    let document = export::put_together(&who.user, &title, turns, format).await?;
    let bytes = exported(&api, &who.user, document).await?;
    // Never shown in our own origin, whatever is in it.
    let disposition = format!("attachment; filename=\"{}.{ending}\"", file_name(&title));
    Ok(([(header::CONTENT_TYPE, format.media_type().to_owned()), (header::CONTENT_DISPOSITION, disposition)], bytes).into_response())
}

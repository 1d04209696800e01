//! What runs left for later runs of the same user.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use store::NoteFilter;
use wire::api;

use super::Api;
use crate::guard::{Identity, now_ms};
use crate::problem::Problem;

/// Notes that are listed, the newest.
const NOTES_MAX: usize = 200;

pub(super) async fn list(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Json<api::Memory>, Problem> {
    let filter = NoteFilter { user: who.user, flow: None, thread: None, now_ms: now_ms(), limit: NOTES_MAX };
    let rows = api.0.engine.store().notes(filter).await?;
    let note = |row: store::NoteRow| api::MemoryNote {
        id: row.note,
        flow: row.flow,
        kind: row.kind,
        key: row.key,
        value: row.value,
        thread: row.thread.to_string(),
        created_ms: row.created_ms,
        until_ms: row.until_ms,
    };
    Ok(Json(api::Memory { notes: rows.into_iter().map(note).collect() }))
}

pub(super) async fn forget(State(api): State<Api>, Extension(who): Extension<Identity>, Path(note): Path<u64>) -> Result<StatusCode, Problem> {
    match api.0.engine.store().forget(&who.user, Some(note)).await? {
        0 => Err(Problem::not_found("note")),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

pub(super) async fn forget_all(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<StatusCode, Problem> {
    api.0.engine.store().forget(&who.user, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

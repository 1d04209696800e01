//! Standing permissions of a user: listing and revoking.

use audit::{Event, EventKind};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use store::{Grant, PermissionRow};
use wire::api;

use super::Api;
use crate::guard::Identity;
use crate::problem::Problem;

pub(super) async fn list(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Json<api::Permissions>, Problem> {
    let rows = api.0.engine.store().permissions(&who.user).await?;
    Ok(Json(api::Permissions { permissions: rows.iter().map(described).collect() }))
}

/// A permission as it is listed.
pub fn described(row: &PermissionRow) -> api::Permission {
    api::Permission {
        id: row.permission,
        scope: match &row.grant {
            Grant::Conversation { .. } => api::PermissionScope::Conversation,
            Grant::Tool { .. } => api::PermissionScope::Tool,
            Grant::Server { .. } => api::PermissionScope::Server,
        },
        name: row.grant.name().to_owned(),
        thread: row.grant.thread().map(ToString::to_string),
        created_ms: row.created_ms,
    }
}

/// Only the user's own; those of others are reported as not found.
pub(super) async fn revoke(State(api): State<Api>, Extension(who): Extension<Identity>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let missing = || Problem::not_found("permission");
    let id: u64 = id.parse().map_err(|_| missing())?;
    if !api.0.engine.store().revoke_permission(&who.user, id).await? {
        return Err(missing());
    }
    api.0.guard.record(Event::new(EventKind::PermissionRevoked, who.user.as_str()).detail(format!("permission {id}"))).await?;
    tracing::info!(user = %who.user, id, "a permission was revoked");
    Ok(StatusCode::NO_CONTENT)
}

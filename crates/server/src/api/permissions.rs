//! Standing permissions of a user: listing and revoking.

use audit::{Event, EventKind};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use graph::{DefinitionPart, ToolDefinition};
use store::{Grant, PermissionCheck, PermissionRow};
use wire::api;

use super::Api;
use crate::guard::Identity;
use crate::problem::Problem;

pub(super) async fn list(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Json<api::Permissions>, Problem> {
    let rows = api.0.engine.store().permissions(&who.user).await?;
    Ok(Json(api::Permissions {
        permissions: rows.iter().map(|row| described(row, api.0.backend.tool_definition(row.grant.name()).as_ref())).collect(),
    }))
}

/// A permission as it is listed, with what its tool and server are now, where that is known.
pub fn described(row: &PermissionRow, now: Option<&ToolDefinition>) -> api::Permission {
    let check = match (now, &row.definition) {
        (Some(now), _) => Some(row.check(now)),
        (None, Some(_)) => None,
        (None, None) => Some(PermissionCheck::Unbound),
    };
    let (state, changed) = match check {
        Some(PermissionCheck::Valid) => (api::PermissionState::Valid, Vec::new()),
        Some(PermissionCheck::Changed(parts)) => (api::PermissionState::Changed, parts.into_iter().map(part).collect()),
        Some(PermissionCheck::Unbound) => (api::PermissionState::Unbound, Vec::new()),
        None => (api::PermissionState::Unknown, Vec::new()),
    };
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
        state,
        changed,
    }
}

fn part(part: DefinitionPart) -> api::DefinitionPart {
    match part {
        DefinitionPart::Server => api::DefinitionPart::Server,
        DefinitionPart::Tools => api::DefinitionPart::Tools,
        DefinitionPart::Description => api::DefinitionPart::Description,
        DefinitionPart::Arguments => api::DefinitionPart::Arguments,
        DefinitionPart::Results => api::DefinitionPart::Results,
        DefinitionPart::Hints => api::DefinitionPart::Hints,
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

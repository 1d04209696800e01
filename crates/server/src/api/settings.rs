use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use serde_json::Value;

use super::Api;
use super::params::JsonBody;
use crate::guard::Identity;
use crate::problem::Problem;

type Settings = BTreeMap<String, Value>;

pub(super) async fn show(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Json<Settings>, Problem> {
    Ok(Json(api.0.engine.store().preferences(&who.user).await?))
}

/// All of them, or none.
pub(super) async fn change(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    JsonBody(wanted): JsonBody<Settings>,
) -> Result<Json<Settings>, Problem> {
    let backend = &api.0.backend;
    let checked = wanted.iter().map(|(name, value)| Ok((name, backend.preference(name, value)?))).collect::<Result<Vec<_>, Problem>>()?;
    let store = api.0.engine.store();
    for (name, value) in checked {
        store.prefer(&who.user, name, value).await?;
    }
    Ok(Json(store.preferences(&who.user).await?))
}

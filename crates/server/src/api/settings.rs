use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use serde_json::Value;

use super::Api;
use super::said::Said;
use crate::guard::Who;
use crate::problem::Problem;

type Settings = BTreeMap<String, Value>;

pub(super) async fn show(State(api): State<Api>, Extension(who): Extension<Who>) -> Result<Json<Settings>, Problem> {
    Ok(Json(api.0.engine.store().preferences(&who.user).await?))
}

/// All of them, or none.
pub(super) async fn change(State(api): State<Api>, Extension(who): Extension<Who>, Said(wanted): Said<Settings>) -> Result<Json<Settings>, Problem> {
    let desk = &api.0.desk;
    let checked = wanted.iter().map(|(name, value)| Ok((name, desk.preference(name, value)?))).collect::<Result<Vec<_>, Problem>>()?;
    let store = api.0.engine.store();
    for (name, value) in checked {
        store.prefer(&who.user, name, value).await?;
    }
    Ok(Json(store.preferences(&who.user).await?))
}

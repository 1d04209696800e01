use axum::extract::State;
use axum::{Extension, Json};
use store::CardFilter;
use wire::api;

use super::Api;
use crate::allowance::Spent;
use crate::guard::Identity;
use crate::problem::Problem;
use crate::rights::Role;

pub(super) async fn get(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Extension(role): Extension<Role>,
) -> Result<Json<api::Status>, Problem> {
    let inner = &api.0;
    let documents = inner.backend.documents(&who.user).await?;
    let mine = CardFilter { user: Some(who.user.clone()), limit: 1, ..CardFilter::default() };
    let first_run = inner.engine.store().cards(mine).await?.is_empty();
    Ok(Json(api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        user: who.user.to_string(),
        needs_token: inner.guard.has_tokens().await?,
        flows: inner.backend.flows(),
        model: inner.backend.chosen(),
        documents: api::IndexInfo { folders: documents.folders, passages: documents.index.passages },
        first_run,
        role: role.as_str().to_owned(),
        allowance: allowance(&api, &who).await?,
    }))
}

async fn allowance(api: &Api, who: &Identity) -> Result<Option<api::Allowance>, Problem> {
    let Some(allowances) = api.0.guard.allowances() else { return Ok(None) };
    let rights = allowances.rights(&who.user);
    let is_limited = rights.has_budget() || rights.models.is_some() || rights.tools.is_some();
    if !is_limited {
        return Ok(None);
    }
    let spent = if rights.has_budget() { allowances.spent(&who.user).await? } else { Spent::default() };
    Ok(Some(api::Allowance {
        usd_per_day: rights.usd_per_day,
        tokens_per_day: rights.tokens_per_day,
        runs_per_day: rights.runs_per_day,
        usd_today: spent.usd_micros as f64 / 1e6,
        tokens_today: spent.tokens,
        runs_today: spent.runs,
        models: rights.models.clone(),
        tools: rights.tools.clone(),
    }))
}

//! Keys of models and tools. They can be set and removed, by operators only, and are never given back.

use audit::{Event, EventKind};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use wire::api;

use super::Api;
use super::params::JsonBody;
use crate::guard::Identity;
use crate::problem::Problem;

const NAME_CHARS_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 4_096;

pub(super) async fn list(State(api): State<Api>, Extension(who): Extension<Identity>) -> Result<Json<api::Keys>, Problem> {
    must_operate(&who)?;
    Ok(Json(api::Keys { keys: api.0.backend.keys().await? }))
}

pub(super) async fn put(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    JsonBody(given): JsonBody<api::SetKey>,
) -> Result<StatusCode, Problem> {
    must_operate(&who)?;
    let value = given.value.trim();
    if value.is_empty() || value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(Problem::invalid(format!("a key is one line of 1 to {VALUE_BYTES_MAX} bytes")));
    }
    let name = checked(&name)?;
    set(&api, &who, EventKind::KeyStored, name, Some(value)).await
}

pub(super) async fn remove(State(api): State<Api>, Extension(who): Extension<Identity>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    must_operate(&who)?;
    let name = checked(&name)?;
    set(&api, &who, EventKind::KeyRemoved, name, None).await
}

/// Two lines in the audit log: one before, because what cannot be recorded is not done, and one with how it ended.
async fn set(api: &Api, who: &Identity, kind: EventKind, name: &str, value: Option<&str>) -> Result<StatusCode, Problem> {
    let line = |state: &str| Event::new(kind, who.user.as_str()).detail(format!("{name}: {state}"));
    api.0.guard.record(line("begun")).await?;
    let done = api.0.backend.set_key(name, value).await;
    let is_recorded = api.0.guard.record(line(if done.is_ok() { "done" } else { "failed" })).await;
    done?;
    is_recorded?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn test(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    JsonBody(wanted): JsonBody<api::TestModel>,
) -> Result<Json<api::TestedModel>, Problem> {
    must_operate(&who)?;
    Ok(Json(api.0.backend.test_model(wanted.model.trim()).await?))
}

fn must_operate(who: &Identity) -> Result<(), Problem> {
    match who.is_operator {
        true => Ok(()),
        false => Err(Problem::new(StatusCode::FORBIDDEN, "refused", "only the operator of this server may see and change its keys and models")),
    }
}

/// Names of other variables, such as `PATH` or `LD_PRELOAD`, are refused.
fn checked(name: &str) -> Result<&str, Problem> {
    let is_plain = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') && name.len() <= NAME_CHARS_MAX;
    match is_plain && name.starts_with(|c: char| c.is_ascii_uppercase()) && (name.ends_with("_KEY") || name.ends_with("_TOKEN")) {
        true => Ok(name),
        false => {
            Err(Problem::invalid(format!("{name:?} is not the name of a key: use capital letters, digits and _, and end it with _KEY or _TOKEN")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_keys_are_taken() {
        for (name, expected) in
            [("OPENAI_API_KEY", true), ("X_TOKEN", true), ("PATH", false), ("a_KEY", false), ("../X_KEY", false), ("_KEY", false), ("", false)]
        {
            assert_eq!(checked(name).is_ok(), expected, "{name}");
        }
    }
}

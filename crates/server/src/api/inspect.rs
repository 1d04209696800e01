//! What authors of flows look at: the state of a run at each step and what changed, what its nodes used, and its journal.

use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use engine::Steps;
use serde::Deserialize;
use serde_json::Value;
use store::RunRow;
use wire::inspect as api;

use super::Api;
use super::params::QueryParams;
use crate::guard::Identity;
use crate::problem::Problem;
use crate::rendering::Renderer;

/// Lines of a journal in one answer.
const LINES_MAX: usize = 200;
/// Lines that are read from the store at once.
const READ_AT_ONCE: usize = 4;
/// Bytes of a journal in one answer; a longer line stands alone.
const LINES_BYTES_MAX: usize = 4 << 20;
/// One run is followed at once: each may take much memory, and a processor for a while.
/// So are pages of journals parsed: one of each user.
static JOURNALS: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));
static FOLLOWER: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(1));

pub(super) async fn steps(State(api): State<Api>, Extension(who): Extension<Identity>, Path(run): Path<String>) -> Result<Json<api::Steps>, Problem> {
    let row = api.run(&who, &run).await?;
    let found = followed(&api, &who, &row, |found| found).await?;
    let mut nodes: Vec<api::NodeCost> = Vec::new();
    let mut steps = Vec::with_capacity(found.steps.len());
    for step in found.steps {
        let engine::Step { step, node, used, took_us, .. } = step;
        if !nodes.iter().any(|one| one.node == node) {
            nodes.push(api::NodeCost { node: node.clone(), ..api::NodeCost::default() });
        }
        if let Some(cost) = nodes.iter_mut().find(|one| one.node == node) {
            cost.visits += 1;
            cost.calls += used.calls;
            cost.tokens_in += used.tokens_in;
            cost.tokens_out += used.tokens_out;
            cost.usd_micros += used.usd_micros;
            cost.took_us += took_us;
        }
        let (calls, tokens_in, tokens_out, usd_micros) = (used.calls, used.tokens_in, used.tokens_out, used.usd_micros);
        steps.push(api::Step { step, node, calls, tokens_in, tokens_out, usd_micros, took_us });
    }
    Ok(Json(api::Steps { steps, nodes, is_cut: found.is_cut }))
}

pub(super) async fn state(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path((run, step)): Path<(String, String)>,
) -> Result<Json<api::StepState>, Problem> {
    let row = api.run(&who, &run).await?;
    let number: u64 = step.parse().map_err(|_| Problem::not_found("step"))?;
    let shown = followed(&api, &who, &row, move |found| {
        let mut steps = found.steps;
        let at = steps.iter().position(|step| step.step == number)?;
        let before = at.checked_sub(1).map(|before| std::mem::take(&mut steps[before].state));
        let engine::Step { node, state, .. } = steps.swap_remove(at);
        let changes = before.map(|before| engine::changes(&before, &state)).unwrap_or_default();
        let changes = changes.into_iter().map(|one| api::StateChange { path: one.path, before: one.before, after: one.after }).collect();
        Some(api::StepState { step: number, node, state, changes })
    });
    shown.await?.map(Json).ok_or_else(|| Problem::not_found("step"))
}

/// What `then` makes of the steps of a run, beside the runtime: states have megabytes each.
async fn followed<T, F>(api: &Api, who: &Identity, row: &RunRow, then: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce(Steps) -> T + Send + 'static,
{
    let (api, run) = (api.clone(), row.run.clone());
    let follow = async move { Steps::of(&**api.0.engine.store(), api.0.engine.flows(), &run).await.map(then) };
    Ok(FOLLOWER.place(&who.user).await?.run_async(follow).await??)
}

/// Lines from a number on, and where to go on. A few are read at a time: each may have megabytes, and only so many are shown.
async fn journal_page(store: &dyn store::Store, run: &graph::RunId, from: u64) -> Result<(Vec<store::JournalLine>, Option<u64>), Problem> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while lines.len() < LINES_MAX {
        let page = store.journal(run, from + lines.len() as u64, READ_AT_ONCE).await?;
        let is_last = store::JournalLine::is_last_page(&page, READ_AT_ONCE);
        for line in page {
            bytes += line.bytes.len();
            if bytes > LINES_BYTES_MAX && !lines.is_empty() {
                let next = Some(from + lines.len() as u64);
                return Ok((lines, next));
            }
            lines.push(line);
        }
        if is_last {
            return Ok((lines, None));
        }
    }
    let next = Some(from + lines.len() as u64);
    Ok((lines, next))
}

#[derive(Deserialize)]
pub(super) struct Page {
    from: Option<u64>,
}

pub(super) async fn journal(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(run): Path<String>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Response, Problem> {
    let row = api.run(&who, &run).await?;
    let from = page.from.unwrap_or(0);
    // Beside the runtime, and one page of each user at a time: each has megabytes, and more once it is parsed.
    let place = JOURNALS.place(&who.user).await?;
    let page = place.run_async(async move {
        let (lines, next) = journal_page(&**api.0.engine.store(), &row.run, from).await?;
        let line = |line: store::JournalLine| {
            let entry = serde_json::from_slice(&line.bytes).unwrap_or_else(|error| Value::String(format!("the line cannot be read: {error}")));
            api::JournalLine { seq: line.seq, at_ms: line.at_ms, entry }
        };
        let journal = api::Journal { lines: lines.into_iter().map(line).collect(), next };
        Ok::<_, Problem>(Json(journal).into_response())
    });
    page.await?
}

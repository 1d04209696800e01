use audit::{Event, EventKind};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use graph::{Entry, RunId, ThreadId, UserId};
use serde::Deserialize;
use store::{CardFilter, CardRow, RunFilter, Store, StoreError};
use wire::api;

use super::Api;
use super::params::QueryParams;
use super::runs::{OUTCOME_BYTES_MAX, listed, status};
use crate::conversation::details::{self, AllDetails};
use crate::conversation::{self, branches};
use crate::guard::{Identity, now_ms};
use crate::problem::Problem;

const PAGE: usize = 50;
const PAGE_MAX: usize = 500;
const WORDS_MAX: usize = 8;
const WORDS_BYTES_MAX: usize = 400;
const MESSAGES: usize = 200;
const MESSAGES_MAX: usize = 1_000;
/// Bytes of the messages of one response; `next` is where to continue.
const MESSAGES_BYTES_MAX: usize = 2 << 20;
/// Runs shown with a thread, the newest.
const RUNS_MAX: usize = 500;

#[derive(Deserialize)]
pub(super) struct Page {
    limit: Option<usize>,
    before: Option<String>,
    q: Option<String>,
    tag: Option<String>,
    pinned: Option<bool>,
}

pub(super) async fn list(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Json<api::Threads>, Problem> {
    let _place = api.0.quota.listing(&who.user).await?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let wanted = page.q.unwrap_or_default();
    if wanted.len() > WORDS_BYTES_MAX {
        return Err(Problem::invalid(format!("look for fewer words: at most {WORDS_BYTES_MAX} bytes")));
    }
    let before = match page.before.filter(|before| !before.is_empty()) {
        Some(before) => Some(api.thread(&who, &before).await?.thread),
        None => None,
    };
    let words: Vec<String> = wanted.split_whitespace().take(WORDS_MAX).map(str::to_owned).collect();
    let store = &**api.0.engine.store();
    let all = AllDetails::of(store, &who.user).await?;
    let is_first = before.is_none();
    let named = match (page.pinned, &page.tag) {
        (Some(true), _) => Some(all.pinned()),
        (_, Some(tag)) => Some(all.tagged(tag)),
        _ => None,
    };
    if let Some(named) = named {
        let threads = cards_of(store, &who.user, &named, PAGE_MAX).await?;
        return Ok(Json(api::Threads { threads: threads.iter().map(|row| details::shown(row, all.get(&row.thread))).collect(), next: None }));
    }
    let by_details = if is_first { all.with(&words) } else { Vec::new() };
    let filter = CardFilter { user: Some(who.user.clone()), words, before, limit: limit + 1, ..CardFilter::default() };
    let mut rows = store.cards(filter).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|last| last.thread.thread.to_string());
    // What the user called a thread is not in the store's own title, by which it searches.
    let others: Vec<ThreadId> = by_details.into_iter().filter(|thread| rows.iter().all(|row| row.thread.thread != *thread)).collect();
    rows.extend(cards_of(store, &who.user, &others, limit).await?);
    Ok(Json(api::Threads { threads: rows.iter().map(|row| details::shown(row, all.get(&row.thread))).collect(), next }))
}

/// These threads of a user as lists show them, most recently used first.
async fn cards_of(store: &dyn Store, user: &UserId, threads: &[ThreadId], limit: usize) -> Result<Vec<CardRow>, Problem> {
    let mut rows = Vec::new();
    for thread in threads.iter().take(limit) {
        let filter = CardFilter { user: Some(user.clone()), thread: Some(thread.clone()), limit: 1, ..CardFilter::default() };
        rows.extend(store.cards(filter).await?);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.thread.updated_ms));
    Ok(rows)
}

#[derive(Deserialize)]
pub(super) struct Part {
    from: Option<u64>,
    limit: Option<usize>,
}

/// A file that a run of the thread wrote. Never shown in our own origin, whatever is in it.
pub(super) async fn file(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path((thread, path)): Path<(String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let row = api.thread(&who, &thread).await?;
    let bytes = api.0.backend.workspace_file(&row.thread, &path).await?;
    let name: String = path.rsplit('/').next().unwrap_or_default().chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream".to_owned()), (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))];
    Ok((headers, bytes))
}

/// Whether a run was started with the past of another one.
async fn is_forked(store: &dyn Store, run: &str) -> Result<bool, Problem> {
    let first = store.journal(&RunId::from(run), 0, 1).await?.pop();
    let entry = first.and_then(|line| Entry::decode(&line.bytes).ok());
    Ok(matches!(entry, Some(Entry::Started(start)) if start.forked_from.is_some()))
}

/// What every header and every file system takes.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

pub(super) async fn show(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(thread): Path<String>,
    QueryParams(part): QueryParams<Part>,
) -> Result<Json<api::Conversation>, Problem> {
    let _place = api.0.quota.listing(&who.user).await?;
    let store = api.0.engine.store();
    let thread = api.thread(&who, &thread).await?.thread;
    let filter = CardFilter { user: Some(who.user), thread: Some(thread.clone()), limit: 1, ..CardFilter::default() };
    let row = store.cards(filter).await?.pop().ok_or_else(|| Problem::not_found("thread"))?;
    let (from, limit) = (part.from.unwrap_or(0), part.limit.unwrap_or(MESSAGES).clamp(1, MESSAGES_MAX));
    let rows = conversation::messages::page(&**store, &thread, from, limit, MESSAGES_BYTES_MAX).await?;
    let next = rows.last().map(|last| last.seq + 1).filter(|next| *next < row.thread.messages);
    let messages = rows
        .into_iter()
        .map(|row| api::Message { seq: row.seq, run: row.run.to_string(), role: row.role, content: row.content, created_ms: row.created_ms })
        .collect();
    let mut runs = Vec::new();
    let filter =
        RunFilter { thread: Some(thread), roots_only: true, limit: RUNS_MAX, outcome_bytes_max: Some(OUTCOME_BYTES_MAX), ..RunFilter::default() };
    for row in store.runs(filter).await? {
        runs.push(listed(&api, row).await?);
    }
    for at in 1..runs.len() {
        // The newest is first.
        if matches!(runs[at].status, api::RunStatus::Cancelled | api::RunStatus::Failed) {
            runs[at - 1].is_resumed = is_forked(&**store, &runs[at - 1].run).await?;
        }
    }
    let after = branches::of(&**store, &row.thread).await?;
    let thread = details::shown(&row, details::of(&**store, &row.thread).await?);
    Ok(Json(api::Conversation { thread, messages, runs, next, after }))
}

pub(super) async fn remove(State(api): State<Api>, Extension(who): Extension<Identity>, Path(thread): Path<String>) -> Result<StatusCode, Problem> {
    let row = api.thread(&who, &thread).await?;
    match api.0.engine.store().delete_thread(&row.thread, now_ms()).await {
        Ok(_) => {}
        Err(StoreError::Held { .. }) => return Err(Problem::conflict("a run of this thread is not finished; stop it first")),
        Err(error) => return Err(error.into()),
    }
    conversation::forget(&**api.0.engine.store(), &who.user, &row.thread).await?;
    api.0.backend.thread_deleted(&row.thread).await?;
    api.0.guard.record(Event::new(EventKind::ThreadDeleted, who.user.as_str()).thread(row.thread.as_str())).await?;
    api.0.feed.gone(&who.user, &row.thread);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) fn card(row: &CardRow) -> api::Thread {
    let CardRow { thread, preview, newest } = row;
    api::Thread {
        thread: thread.thread.to_string(),
        title: thread.title.clone(),
        preview: preview.clone(),
        messages: thread.messages,
        flow: newest.as_ref().map(|newest| newest.flow.clone()),
        status: newest.as_ref().map(|newest| status(newest.status)),
        run: newest.as_ref().map(|newest| newest.run.to_string()),
        created_ms: thread.created_ms,
        updated_ms: thread.updated_ms,
        is_pinned: false,
        tags: Vec::new(),
    }
}

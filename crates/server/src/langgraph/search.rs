//! Finding threads and assistants by what they hold.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::CardFilter;
use wire::langgraph::ThreadStatus;

use super::records::{self, StoredRecord, THREAD};
use super::state_api::{beside, json_bytes};
use super::threads::{Thread, ThreadRecord, status_of};
use super::{Answer, LangGraph, contains, ids, invalid, limit_of, page, read_or_default};
use crate::guard::Identity;
use crate::langserve::{Caller, RawJson, Refused, json_of};
use crate::problem::Problem;

/// Of the threads of one response; further ones come with an offset.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Conversations that are looked through, the most recently used.
const CARDS_MAX: usize = 5_000;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Search {
    metadata: Option<Map<String, Value>>,
    values: Option<Map<String, Value>>,
    ids: Option<Vec<String>>,
    status: Option<ThreadStatus>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    sort_order: Option<String>,
    select: Option<Vec<String>>,
}

pub(super) async fn threads(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let search: Search = read_or_default(&body)?;
    let who = caller.who.clone();
    // Each has its whole conversation.
    beside(&who, async move {
        let found = found(&graph, &caller.who, &search).await?;
        let total = found.len();
        let (mut shown, mut bytes) = (Vec::new(), 0);
        for thread in found.into_iter().skip(search.offset.unwrap_or(0)).take(limit_of(search.limit)) {
            let Value::Object(mut thread) = graph.thread_json(&thread).await? else { continue };
            if let Some(select) = &search.select {
                thread.retain(|name, _| select.contains(name));
            }
            bytes += json_bytes(&thread);
            if bytes > PAGE_BYTES_MAX && !shown.is_empty() {
                break;
            }
            shown.push(thread);
        }
        Ok(page(total, &shown))
    })
    .await
}

pub(super) async fn count_threads(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Result<Response, Refused> {
    let search: Search = read_or_default(&body)?;
    Ok(json_of(StatusCode::OK, &json!(found(&graph, &caller.who, &search).await?.len())))
}

/// The threads of the user that match, in the requested order.
async fn found(graph: &LangGraph, who: &Identity, search: &Search) -> Result<Vec<Thread>, Refused> {
    let _place = graph.listing(who).await?;
    let stored: Vec<StoredRecord<ThreadRecord>> = records::list(graph.store(), &who.user, THREAD, "").await?;
    let filter = CardFilter { user: Some(who.user.clone()), limit: CARDS_MAX, ..CardFilter::default() };
    let mut rows: BTreeMap<String, _> = BTreeMap::new();
    for card in graph.store().cards(filter).await.map_err(Problem::from)? {
        rows.insert(card.thread.thread.to_string(), card.thread);
    }
    let mut all = Vec::new();
    for record in stored {
        let row = rows.remove(&record.value.thread);
        all.push(Thread { id: record.key.clone(), engine: record.value.thread.as_str().into(), record: Some(record), row });
    }
    all.extend(rows.into_values().map(|row| Thread {
        id: ids::shown(row.thread.as_str()),
        engine: row.thread.clone(),
        record: None,
        row: Some(row),
    }));
    // A request can name a hundred thousand ids and megabytes of metadata, so neither is gone through or copied for each thread.
    let wanted: Option<BTreeSet<String>> = search.ids.as_ref().map(|wanted| wanted.iter().map(|id| ids::shown(id)).collect());
    let nothing = Map::new();
    all.retain(|thread| {
        let metadata = thread.record.as_ref().map_or(&nothing, |record| &record.value.metadata);
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&thread.id)) && search.metadata.as_ref().is_none_or(|filter| contains(metadata, filter))
    });
    if search.status.is_some() || search.values.is_some() {
        let mut fitting = Vec::new();
        for thread in all {
            let head = graph.head(&thread).await?;
            if search.status.is_some_and(|status| status != status_of(head.as_ref())) {
                continue;
            }
            if let Some(filter) = &search.values
                && !contains(&graph.values(&thread, head.as_ref()).await?, filter)
            {
                continue;
            }
            fitting.push(thread);
        }
        all = fitting;
    }
    match search.sort_by.as_deref() {
        None | Some("created_at" | "updated_at" | "state_updated_at" | "status") => all.sort_by_key(|thread| std::cmp::Reverse(thread.updated_ms())),
        Some("thread_id") => all.sort_by(|a, b| b.id.cmp(&a.id)),
        Some(other) => return Err(invalid(format!("threads are sorted by thread_id, created_at or updated_at, not by {other:?}"))),
    }
    if search.sort_order.as_deref() == Some("asc") {
        all.reverse();
    }
    Ok(all)
}

//! LangGraph's store: items by namespace and key, each user's own.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::{post, put};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::records::{self, ITEM, StoredRecord};
use super::{Answer, LangGraph, all_of, calendar, invalid, limit_of, not_found, read_or_default};
use crate::langserve::{Caller, RawJson, Refused, json_of, read};
use crate::problem::Problem;

/// Between the labels of a namespace, and before the key; no label has it.
const BETWEEN: char = '\u{1f}';
const LABELS_MAX: usize = 20;
const LABEL_BYTES_MAX: usize = 200;
const KEY_BYTES_MAX: usize = 500;
/// Words of a query that are looked for.
const WORDS_MAX: usize = 100;

pub(super) fn routes() -> Router<LangGraph> {
    Router::new()
        .route("/store/items", put(keep).get(show).delete(remove))
        .route("/store/items/search", post(search))
        .route("/store/namespaces", post(namespaces))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ItemRecord {
    namespace: Vec<String>,
    key: String,
    value: Map<String, Value>,
}

#[derive(Deserialize)]
struct ItemKey {
    #[serde(default)]
    namespace: Vec<String>,
    key: String,
}

#[derive(Deserialize)]
struct PutItem {
    #[serde(flatten)]
    named: ItemKey,
    value: Map<String, Value>,
}

fn prefix(namespace: &[String]) -> String {
    namespace.iter().fold(String::new(), |text, label| text + label + &BETWEEN.to_string())
}

fn check_labels(namespace: &[String]) -> Result<(), Refused> {
    let is_label = |label: &String| !label.is_empty() && label.len() <= LABEL_BYTES_MAX && !label.contains(['.', BETWEEN]);
    match namespace.len() <= LABELS_MAX && namespace.iter().all(is_label) {
        true => Ok(()),
        false => Err(invalid(format!("a namespace has at most {LABELS_MAX} labels of 1 to {LABEL_BYTES_MAX} bytes, without dots"))),
    }
}

impl ItemKey {
    /// The key under which it is kept. The empty label before the item's key sets it apart from namespaces.
    fn place(&self) -> Result<String, Refused> {
        check_labels(&self.namespace)?;
        if self.key.is_empty() || self.key.len() > KEY_BYTES_MAX || self.key.contains(BETWEEN) {
            return Err(invalid(format!("a key has 1 to {KEY_BYTES_MAX} bytes")));
        }
        Ok(format!("{}{BETWEEN}{}", prefix(&self.namespace), self.key))
    }
}

fn shown(stored: &StoredRecord<ItemRecord>) -> Value {
    let ItemRecord { namespace, key, value } = &stored.value;
    json!({
        "namespace": namespace, "key": key, "value": value,
        "created_at": calendar::shown(stored.created_ms), "updated_at": calendar::shown(stored.updated_ms),
    })
}

async fn keep(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Result<StatusCode, Refused> {
    let PutItem { named, value } = read(&body)?;
    let place = named.place()?;
    if let Some(api) = &graph.0.service.0.api {
        api.check_storage(&caller.who.user).await?;
    }
    let record = ItemRecord { namespace: named.namespace, key: named.key, value };
    records::put(graph.store(), &caller.who.user, ITEM, &place, &record).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn show(State(graph): State<LangGraph>, caller: Caller, uri: Uri) -> Answer {
    // `?namespace=a.b&key=k`, or `namespace` several times.
    let named = all_of(&uri, "namespace");
    let namespace = named.iter().flat_map(|text| text.split('.')).filter(|label| !label.is_empty()).map(str::to_owned).collect();
    let key = all_of(&uri, "key").pop().ok_or_else(|| Refused::wrong("missing", &["key"], "Field required"))?;
    let named = ItemKey { namespace, key };
    let stored = records::get::<ItemRecord>(graph.store(), &caller.who.user, ITEM, &named.place()?).await?;
    Ok(json_of(StatusCode::OK, &shown(&stored.ok_or_else(|| not_found("Item", &named.key))?)))
}

async fn remove(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Result<StatusCode, Refused> {
    let named: ItemKey = read(&body)?;
    records::remove(graph.store(), &caller.who.user, ITEM, &named.place()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Search {
    namespace_prefix: Option<Vec<String>>,
    filter: Option<Map<String, Value>>,
    query: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn search(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let place = graph.listing(&caller.who).await?;
    let search: Search = read_or_default(&body)?;
    let namespace = search.namespace_prefix.clone().unwrap_or_default();
    check_labels(&namespace)?;
    let all: Vec<StoredRecord<ItemRecord>> = records::list(graph.store(), &caller.who.user, ITEM, &prefix(&namespace)).await?;
    // Megabytes may have to be looked through, which would hold up everybody else's requests.
    let found = tokio::task::spawn_blocking(move || {
        let _place = place;
        json_of(StatusCode::OK, &json!({ "items": ranked(all, &search) }))
    })
    .await;
    found.map_err(|error| Problem::internal(&error).into())
}

/// Newest first; with a query, by how many of its words an item has, and only those that have one.
fn ranked(mut all: Vec<StoredRecord<ItemRecord>>, search: &Search) -> Vec<Value> {
    let filter = search.filter.as_ref();
    all.retain(|stored| filter.is_none_or(|filter| filter.iter().all(|(name, wanted)| fits(stored.value.value.get(name), wanted))));
    all.sort_by_key(|stored| Reverse(stored.updated_ms));
    let words: BTreeSet<String> = search.query.as_deref().unwrap_or_default().split_whitespace().map(str::to_lowercase).take(WORDS_MAX).collect();
    let score = |stored: &StoredRecord<ItemRecord>| {
        if words.is_empty() {
            return 0;
        }
        let text = serde_json::to_string(&stored.value.value).unwrap_or_default().to_lowercase();
        words.iter().filter(|word| text.contains(word.as_str())).count()
    };
    let mut scored: Vec<(usize, StoredRecord<ItemRecord>)> = all.into_iter().map(|stored| (score(&stored), stored)).collect();
    if !words.is_empty() {
        scored.retain(|(score, _)| *score > 0);
        scored.sort_by_key(|(score, _)| Reverse(*score));
    }
    let part = scored.iter().skip(search.offset.unwrap_or(0)).take(limit_of(search.limit)).map(|(score, stored)| {
        let mut item = shown(stored);
        item["score"] = if words.is_empty() { Value::Null } else { json!(*score as f64 / words.len() as f64) };
        item
    });
    part.collect()
}

/// A value, or one of LangGraph's comparisons (`{"$gt": 1}`).
fn fits(found: Option<&Value>, wanted: &Value) -> bool {
    let Value::Object(operators) = wanted else { return found == Some(wanted) };
    if !operators.keys().any(|name| name.starts_with('$')) {
        return found == Some(wanted);
    }
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    operators.iter().all(|(name, limit)| match (name.as_str(), number(found), limit.as_f64()) {
        ("$eq", ..) => found == Some(limit),
        ("$ne", ..) => found != Some(limit),
        ("$gt", Some(found), Some(limit)) => found > limit,
        ("$gte", Some(found), Some(limit)) => found >= limit,
        ("$lt", Some(found), Some(limit)) => found < limit,
        ("$lte", Some(found), Some(limit)) => found <= limit,
        _ => false,
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Namespaces {
    prefix: Option<Vec<String>>,
    suffix: Option<Vec<String>>,
    max_depth: Option<usize>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn namespaces(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let _place = graph.listing(&caller.who).await?;
    let wanted: Namespaces = read_or_default(&body)?;
    let (before, after) = (wanted.prefix.unwrap_or_default(), wanted.suffix.unwrap_or_default());
    let all: Vec<StoredRecord<ItemRecord>> = records::list(graph.store(), &caller.who.user, ITEM, &prefix(&before)).await?;
    let mut found = BTreeSet::new();
    for stored in all {
        let mut namespace = stored.value.namespace;
        if namespace.ends_with(&after) {
            namespace.truncate(wanted.max_depth.unwrap_or(usize::MAX));
            found.insert(namespace);
        }
    }
    let part: Vec<Vec<String>> = found.into_iter().skip(wanted.offset.unwrap_or(0)).take(limit_of(wanted.limit)).collect();
    Ok(json_of(StatusCode::OK, &json!({ "namespaces": part })))
}

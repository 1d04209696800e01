//! Crons: runs that begin by a schedule, in a thread or each in its own. They are documents of the store and go on after a restart.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{delete, post};
use graph::RunId;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::langgraph::{MultitaskStrategy, OnCompletion, RunCreate};

use super::begin::BeginRequest;
use super::calendar::{self, Schedule};
use super::records::{self, CRON, Pages, StoredRecord};
use super::{Answer, LangGraph, contains, ids, invalid, merged, not_found, page_of, read_or_default, stream, webhook};
use crate::api::runs::digest_of;
use crate::guard::{Identity, now_ms};
use crate::langserve::{Caller, RawJson, Refused, json_of, read};

pub(super) fn routes() -> Router<LangGraph> {
    Router::new()
        .route("/runs/crons", post(create_stateless))
        .route("/runs/crons/search", post(search))
        .route("/runs/crons/count", post(count))
        .route("/runs/crons/{cron}", delete(remove).patch(change))
        .route("/threads/{thread}/runs/crons", post(create))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct CronRecord {
    schedule: String,
    timezone: Option<String>,
    end_ms: Option<i64>,
    enabled: bool,
    thread: Option<String>,
    is_operator: bool,
    next_ms: Option<i64>,
    request: RunCreate,
    /// What the client sent, as it is shown.
    payload: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Body {
    schedule: Option<String>,
    timezone: Option<String>,
    end_time: Option<String>,
    enabled: Option<bool>,
    on_run_completed: Option<OnCompletion>,
}

fn zone_of(timezone: Option<&str>) -> Result<TimeZone, Refused> {
    calendar::zone(timezone).map_err(|why| invalid(format!("timezone: {why}")))
}

/// When a schedule is due next.
fn next_ms(schedule: &str, timezone: Option<&str>) -> Result<Option<i64>, Refused> {
    Ok(schedule_of(schedule)?.after(now_ms(), &zone_of(timezone)?))
}

fn read_end(end: Option<&str>) -> Result<Option<i64>, Refused> {
    end.map(|end| calendar::parse(end).ok_or_else(|| invalid("end_time is a time such as 2026-12-31T23:59:00Z"))).transpose()
}

fn schedule_of(text: &str) -> Result<Schedule, Refused> {
    Schedule::parse(text).map_err(|why| invalid(format!("schedule: {why}")))
}

async fn create_stateless(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    made(&graph, &caller, None, &body).await
}

async fn create(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let thread = graph.thread(&caller.who, &id).await?;
    made(&graph, &caller, Some(thread.id), &body).await
}

async fn made(graph: &LangGraph, caller: &Caller, thread: Option<String>, body: &[u8]) -> Answer {
    let (settings, payload): (Body, Value) = (read(body)?, read(body)?);
    let mut request: RunCreate = read(body)?;
    if graph.assistant(&caller.who, &request.assistant_id).await?.is_none() {
        return Err(invalid(format!("there is no assistant or graph {:?}", request.assistant_id)));
    }
    if request.input.as_ref().is_none_or(Value::is_null) {
        return Err(Refused::wrong("missing", &["input"], "a cron needs the input of its runs"));
    }
    if let Some(url) = &request.webhook {
        webhook::check(graph, url).await?;
    }
    let text = settings.schedule.ok_or_else(|| Refused::wrong("missing", &["schedule"], "Field required"))?;
    request.on_completion = settings.on_run_completed.or(request.on_completion);
    // A run of a schedule waits for its turn.
    request.multitask_strategy = Some(MultitaskStrategy::Enqueue);
    let record = CronRecord {
        next_ms: next_ms(&text, settings.timezone.as_deref())?,
        schedule: text,
        timezone: settings.timezone,
        end_ms: read_end(settings.end_time.as_deref())?,
        enabled: settings.enabled.unwrap_or(true),
        thread,
        is_operator: caller.who.is_operator,
        request,
        payload,
    };
    let id = ids::shown(engine::new_run_id().as_str());
    records::put(graph.store(), &caller.who.user, CRON, &id, &record).await?;
    graph.0.due.notify_one();
    let stored = own(graph, &caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &shown(&stored)))
}

async fn own(graph: &LangGraph, who: &Identity, id: &str) -> Result<StoredRecord<CronRecord>, Refused> {
    records::get(graph.store(), &who.user, CRON, &ids::shown(id)).await?.ok_or_else(|| not_found("Cron", id))
}

fn shown(stored: &StoredRecord<CronRecord>) -> Value {
    let cron = &stored.value;
    json!({
        "cron_id": stored.key,
        "assistant_id": cron.request.assistant_id,
        "thread_id": cron.thread,
        "on_run_completed": cron.request.on_completion,
        "end_time": cron.end_ms.map(calendar::shown),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "created_at": calendar::shown(stored.created_ms),
        "updated_at": calendar::shown(stored.updated_ms),
        "payload": cron.payload,
        "user_id": stored.user.as_str(),
        "next_run_date": cron.next_ms.filter(|_| cron.enabled).map(calendar::shown),
        "metadata": cron.request.metadata,
        "enabled": cron.enabled,
    })
}

async fn change(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let (settings, fields): (Body, Map<String, Value>) = (read_or_default(&body)?, read_or_default(&body)?);
    let mut stored = own(&graph, &caller.who, &id).await?;
    let cron = &mut stored.value;
    let is_other = settings.schedule.is_some() || settings.timezone.is_some();
    cron.schedule = settings.schedule.unwrap_or_else(|| std::mem::take(&mut cron.schedule));
    cron.timezone = settings.timezone.or(cron.timezone.take());
    cron.end_ms = read_end(settings.end_time.as_deref())?.or(cron.end_ms);
    if is_other || (settings.enabled == Some(true) && !cron.enabled) {
        cron.next_ms = next_ms(&cron.schedule, cron.timezone.as_deref())?;
    }
    cron.enabled = settings.enabled.unwrap_or(cron.enabled);
    // What else is sent takes the place of what the runs were started with.
    let mut request = serde_json::to_value(&cron.request).map_err(|error| crate::problem::Problem::internal(&error))?;
    if let Some(request) = request.as_object_mut() {
        request.extend(fields.clone());
    }
    cron.request = serde_json::from_value(request).map_err(|error| invalid(error.to_string()))?;
    cron.request.on_completion = settings.on_run_completed.or(cron.request.on_completion);
    if let Some(url) = &cron.request.webhook {
        webhook::check(&graph, url).await?;
    }
    if let Value::Object(payload) = &cron.payload {
        cron.payload = Value::Object(merged(payload.clone(), fields));
    }
    records::put(graph.store(), &caller.who.user, CRON, &stored.key, &stored.value).await?;
    graph.0.due.notify_one();
    let stored = own(&graph, &caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &shown(&stored)))
}

async fn remove(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    let stored = own(&graph, &caller.who, &id).await?;
    records::remove(graph.store(), &caller.who.user, CRON, &stored.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Search {
    assistant_id: Option<String>,
    thread_id: Option<String>,
    enabled: Option<bool>,
    metadata: Option<Map<String, Value>>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn found(graph: &LangGraph, who: &Identity, search: &Search) -> Result<Vec<Value>, Refused> {
    let _place = graph.listing(who).await?;
    let all: Vec<StoredRecord<CronRecord>> = records::list(graph.store(), &who.user, CRON, "").await?;
    let fits = |stored: &&StoredRecord<CronRecord>| {
        let cron = &stored.value;
        search.assistant_id.as_ref().is_none_or(|id| *id == cron.request.assistant_id)
            && search.thread_id.as_ref().is_none_or(|id| Some(ids::shown(id)) == cron.thread)
            && search.enabled.is_none_or(|enabled| enabled == cron.enabled)
            && search.metadata.as_ref().is_none_or(|filter| contains(&cron.request.metadata, filter))
    };
    Ok(all.iter().filter(fits).map(shown).collect())
}

async fn search(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let search: Search = read_or_default(&body)?;
    Ok(page_of(&found(&graph, &caller.who, &search).await?, search.offset, search.limit))
}

async fn count(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let search: Search = read_or_default(&body)?;
    Ok(json_of(StatusCode::OK, &json!(found(&graph, &caller.who, &search).await?.len())))
}

/// Begins every run whose time has come. What was missed while no server ran is begun once.
pub(super) async fn begin_due(graph: &LangGraph) -> Result<(), Refused> {
    let mut pages = Pages::<CronRecord>::of(CRON);
    while let Some(page) = pages.next(graph.store()).await? {
        for stored in page {
            let (key, user) = (stored.key.clone(), stored.user.clone());
            // The others must not wait for one that cannot begin.
            if let Err(refused) = Box::pin(begin_if_due(graph, stored)).await {
                tracing::warn!(cron = key, %user, "a schedule could not be looked at: {}", refused.message());
            }
        }
    }
    Ok(())
}

async fn begin_if_due(graph: &LangGraph, mut stored: StoredRecord<CronRecord>) -> Result<(), Refused> {
    let (now, cron) = (now_ms(), &mut stored.value);
    let Some(due_ms) = cron.next_ms.filter(|due_ms| cron.enabled && *due_ms <= now) else { return Ok(()) };
    if cron.end_ms.is_some_and(|end_ms| due_ms > end_ms) {
        cron.enabled = false;
        return Ok(records::put(graph.store(), &stored.user, CRON, &stored.key, &stored.value).await?);
    }
    let run = RunId::from(digest_of(&["cron", &stored.key, &due_ms.to_string()], 16));
    let is_new = graph.store().run(&run).await.map_err(crate::problem::Problem::from)?.is_none();
    if is_new {
        Box::pin(begin(graph, &stored, run)).await;
    }
    stored.value.next_ms = schedule_of(&stored.value.schedule)?.after(now, &zone_of(stored.value.timezone.as_deref())?);
    Ok(records::put(graph.store(), &stored.user, CRON, &stored.key, &stored.value).await?)
}

async fn begin(graph: &LangGraph, stored: &StoredRecord<CronRecord>, run: RunId) {
    let caller = Caller { who: Identity { user: stored.user.clone(), is_operator: stored.value.is_operator }, headers: HeaderMap::new() };
    let wanted = BeginRequest {
        caller: &caller,
        thread: stored.value.thread.as_deref(),
        request: stored.value.request.clone(),
        run: Some(run.clone()),
        is_watched: true,
    };
    match Box::pin(graph.begin(wanted)).await {
        Ok(started) => {
            tracing::info!(cron = stored.key, %run, user = %stored.user, "a run of a schedule began");
            if let Some(family) = started.family {
                stream::expect(family);
            }
            if started.is_deleted_after {
                let graph = graph.clone();
                tokio::spawn(async move {
                    let _ = graph.engine().wait(&run).await;
                    graph.discard(&run).await;
                });
            }
        }
        Err(refused) => tracing::warn!(cron = stored.key, user = %stored.user, "a run of a schedule could not begin: {}", refused.message()),
    }
}

//! Assistants: each flow is one, and users keep configured ones of their own, with every version.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::langgraph::RunCreate;
use wire::langserve::{Config, config_schema};

use super::records::{self, ASSISTANT, StoredRecord};
use super::{
    Answer, LangGraph, Query, calendar, check_metadata, contains, drawing, ids, invalid, limit_of, merged, not_found, page, page_of, read_or_default,
};
use crate::guard::Identity;
use crate::langserve::{Caller, InputShape, RawJson, Refused, ServedFlow, json_of, read};

const VERSIONS_MAX: usize = 100;

pub(super) fn routes() -> Router<LangGraph> {
    Router::new()
        .route("/assistants", post(create))
        .route("/assistants/search", post(search))
        .route("/assistants/count", post(count))
        .route("/assistants/{assistant}", get(show).patch(change).delete(remove))
        .route("/assistants/{assistant}/graph", get(drawn))
        .route("/assistants/{assistant}/schemas", get(schemas))
        .route("/assistants/{assistant}/subgraphs", get(subgraphs))
        .route("/assistants/{assistant}/subgraphs/{namespace}", get(subgraphs_in))
        .route("/assistants/{assistant}/versions", post(versions))
        .route("/assistants/{assistant}/latest", post(set_latest))
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Version {
    config: Config,
    context: Map<String, Value>,
    metadata: Map<String, Value>,
    name: String,
    description: Option<String>,
    version: u64,
    created_ms: i64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct AssistantRecord {
    graph_id: String,
    /// The one that runs are started with.
    latest: u64,
    versions: Vec<Version>,
}

impl AssistantRecord {
    fn current(&self) -> Version {
        self.versions.iter().find(|version| version.version == self.latest).or(self.versions.last()).cloned().unwrap_or_default()
    }
}

/// What runs are started with.
#[derive(Clone, Debug)]
pub(super) struct Assistant {
    pub(super) assistant_id: String,
    pub(super) graph_id: String,
    pub(super) is_built_in: bool,
    current: Version,
    updated_ms: i64,
}

impl Assistant {
    /// The configuration of a run: the assistant's, and over it what the client sends.
    pub(super) fn configure(&self, request: &RunCreate) -> Config {
        let mut configurable = Map::new();
        let of_assistant = self.current.config.configurable.iter().flatten().chain(&self.current.context);
        let of_run = request.config.configurable.iter().flatten().chain(request.context.iter().flatten());
        configurable.extend(of_assistant.chain(of_run).map(|(name, value)| (name.clone(), value.clone())));
        // Threads are named by the path.
        configurable.remove("thread_id");
        Config { configurable: Some(configurable), tags: request.config.tags.clone(), ..Config::default() }
    }

    fn json(&self) -> Value {
        self.version_json(&self.current)
    }

    fn version_json(&self, version: &Version) -> Value {
        json!({
            "assistant_id": self.assistant_id,
            "graph_id": self.graph_id,
            "config": version.config,
            "context": version.context,
            "metadata": version.metadata,
            "name": version.name,
            "description": version.description,
            "version": version.version,
            "created_at": calendar::shown(version.created_ms),
            "updated_at": calendar::shown(self.updated_ms),
        })
    }
}

impl LangGraph {
    pub(super) fn graph_ids(&self) -> Vec<&str> {
        self.0.service.0.served.keys().map(String::as_str).collect()
    }

    pub(super) fn built_in(&self, graph_id: &str) -> Assistant {
        let metadata = Map::from_iter([("created_by".to_owned(), json!("system"))]);
        let version = Version { metadata, name: graph_id.to_owned(), version: 1, created_ms: self.0.began_ms, ..Version::default() };
        let (assistant_id, graph_id) = (built_in_id(graph_id), graph_id.to_owned());
        Assistant { assistant_id, graph_id, is_built_in: true, current: version, updated_ms: self.0.began_ms }
    }

    /// By the name of a graph, by the id of its own assistant, or by the id of one that the user made.
    pub(super) async fn assistant(&self, who: &Identity, id: &str) -> Result<Option<Assistant>, Refused> {
        let shown = ids::shown(id);
        if let Some(graph_id) = self.graph_ids().into_iter().find(|graph_id| *graph_id == id || built_in_id(graph_id) == shown) {
            return Ok(Some(self.built_in(graph_id)));
        }
        let stored = records::get::<AssistantRecord>(self.store(), &who.user, ASSISTANT, &shown).await?;
        Ok(stored.map(made).filter(|assistant| self.0.service.0.served.contains_key(&assistant.graph_id)))
    }

    async fn known_assistant(&self, who: &Identity, id: &str) -> Result<(Assistant, &ServedFlow), Refused> {
        let assistant = self.assistant(who, id).await?.ok_or_else(|| not_found("Assistant", id))?;
        let served = self.0.service.0.served.get(&assistant.graph_id).ok_or_else(|| not_found("Graph", &assistant.graph_id))?;
        Ok((assistant, served))
    }

    /// One that a user made and may change.
    async fn own_assistant(&self, who: &Identity, id: &str) -> Result<StoredRecord<AssistantRecord>, Refused> {
        let id = ids::shown(id);
        if let Some(stored) = records::get(self.store(), &who.user, ASSISTANT, &id).await? {
            return Ok(stored);
        }
        match self.assistant(who, &id).await? {
            Some(_) => {
                Err(Refused::plain(StatusCode::FORBIDDEN, "this assistant belongs to its graph and cannot be changed; create one of your own"))
            }
            None => Err(not_found("Assistant", &id)),
        }
    }

    /// A configuration that the flow refuses is refused when it is kept, not when it is used.
    fn check_config(&self, graph_id: &str, version: &Version) -> Result<(), Refused> {
        check_metadata(&version.metadata)?;
        let served = self
            .0
            .service
            .0
            .served
            .get(graph_id)
            .ok_or_else(|| invalid(format!("there is no graph {graph_id:?}; there are: {}", self.graph_ids().join(", "))))?;
        let assistant =
            Assistant { assistant_id: String::new(), graph_id: graph_id.to_owned(), is_built_in: false, current: version.clone(), updated_ms: 0 };
        served.settings.of(&assistant.configure(&RunCreate::default())).map(drop)
    }
}

fn built_in_id(graph_id: &str) -> String {
    ids::derived(&["assistant", graph_id])
}

fn made(stored: StoredRecord<AssistantRecord>) -> Assistant {
    let current = stored.value.current();
    Assistant { assistant_id: stored.key, graph_id: stored.value.graph_id, is_built_in: false, current, updated_ms: stored.updated_ms }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Body {
    assistant_id: Option<String>,
    graph_id: Option<String>,
    config: Option<Config>,
    context: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
    name: Option<String>,
    description: Option<String>,
    if_exists: Option<String>,
    version: Option<u64>,
}

async fn create(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let body: Body = read(&body)?;
    let graph_id = body.graph_id.ok_or_else(|| Refused::wrong("missing", &["graph_id"], "Field required"))?;
    let id = body.assistant_id.as_deref().map_or_else(|| ids::shown(engine::new_run_id().as_str()), ids::shown);
    if let Some(known) = graph.assistant(&caller.who, &id).await? {
        return match body.if_exists.as_deref() {
            Some("do_nothing") => Ok(json_of(StatusCode::OK, &known.json())),
            _ => Err(Refused::plain(StatusCode::CONFLICT, format!("Assistant {id:?} already exists"))),
        };
    }
    let version = Version {
        config: body.config.unwrap_or_default(),
        context: body.context.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default(),
        name: body.name.unwrap_or_else(|| "Untitled".to_owned()),
        description: body.description,
        version: 1,
        created_ms: crate::guard::now_ms(),
    };
    graph.check_config(&graph_id, &version)?;
    let record = AssistantRecord { graph_id, latest: 1, versions: vec![version] };
    records::put(graph.store(), &caller.who.user, ASSISTANT, &id, &record).await?;
    let (assistant, _) = graph.known_assistant(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &assistant.json()))
}

async fn change(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let body: Body = read_or_default(&body)?;
    let mut stored = graph.own_assistant(&caller.who, &id).await?;
    let old = stored.value.current();
    let number = stored.value.versions.iter().map(|version| version.version).max().unwrap_or(0) + 1;
    let version = Version {
        config: body.config.unwrap_or(old.config),
        context: body.context.unwrap_or(old.context),
        metadata: merged(old.metadata, body.metadata.unwrap_or_default()),
        name: body.name.unwrap_or(old.name),
        description: body.description.or(old.description),
        version: number,
        created_ms: crate::guard::now_ms(),
    };
    if let Some(graph_id) = body.graph_id {
        stored.value.graph_id = graph_id;
    }
    graph.check_config(&stored.value.graph_id, &version)?;
    stored.value.latest = number;
    stored.value.versions.push(version);
    let too_many = stored.value.versions.len().saturating_sub(VERSIONS_MAX);
    stored.value.versions.drain(..too_many);
    records::put(graph.store(), &caller.who.user, ASSISTANT, &stored.key, &stored.value).await?;
    let (assistant, _) = graph.known_assistant(&caller.who, &stored.key).await?;
    Ok(json_of(StatusCode::OK, &assistant.json()))
}

async fn remove(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    let stored = graph.own_assistant(&caller.who, &id).await?;
    records::remove(graph.store(), &caller.who.user, ASSISTANT, &stored.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn show(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Answer {
    let (assistant, _) = graph.known_assistant(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &assistant.json()))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Search {
    metadata: Option<Map<String, Value>>,
    graph_id: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn found(graph: &LangGraph, who: &Identity, search: &Search) -> Result<Vec<Value>, Refused> {
    let _place = graph.listing(who).await?;
    let mut all: Vec<Assistant> = graph.graph_ids().into_iter().map(|graph_id| graph.built_in(graph_id)).collect();
    all.extend(records::list(graph.store(), &who.user, ASSISTANT, "").await?.into_iter().map(made));
    let fits = |assistant: &Assistant| {
        search.graph_id.as_ref().is_none_or(|graph_id| *graph_id == assistant.graph_id)
            && search.name.as_ref().is_none_or(|name| assistant.current.name.to_lowercase().contains(&name.to_lowercase()))
            && search.metadata.as_ref().is_none_or(|filter| contains(&assistant.current.metadata, filter))
    };
    Ok(all.iter().filter(|assistant| fits(assistant)).map(Assistant::json).collect())
}

async fn search(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let search: Search = read_or_default(&body)?;
    Ok(page_of(&found(&graph, &caller.who, &search).await?, search.offset, search.limit))
}

async fn count(State(graph): State<LangGraph>, caller: Caller, RawJson(body): RawJson) -> Answer {
    let search: Search = read_or_default(&body)?;
    Ok(json_of(StatusCode::OK, &json!(found(&graph, &caller.who, &search).await?.len())))
}

async fn versions(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let search: Search = read_or_default(&body)?;
    let (assistant, _) = graph.known_assistant(&caller.who, &id).await?;
    let all = match assistant.is_built_in {
        true => vec![assistant.current.clone()],
        false => graph.own_assistant(&caller.who, &id).await?.value.versions,
    };
    let newest_first = all.iter().rev().skip(search.offset.unwrap_or(0)).take(limit_of(search.limit));
    let part: Vec<Value> = newest_first.map(|version| assistant.version_json(version)).collect();
    Ok(page(all.len(), &part))
}

async fn set_latest(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let version = read::<Body>(&body)?.version.ok_or_else(|| Refused::wrong("missing", &["version"], "Field required"))?;
    let mut stored = graph.own_assistant(&caller.who, &id).await?;
    if !stored.value.versions.iter().any(|known| known.version == version) {
        return Err(not_found("Version", &version.to_string()));
    }
    stored.value.latest = version;
    records::put(graph.store(), &caller.who.user, ASSISTANT, &stored.key, &stored.value).await?;
    let (assistant, _) = graph.known_assistant(&caller.who, &stored.key).await?;
    Ok(json_of(StatusCode::OK, &assistant.json()))
}

#[derive(Deserialize)]
struct Xray {
    xray: Option<String>,
}

async fn drawn(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, Query(query): Query<Xray>) -> Answer {
    let (_, served) = graph.known_assistant(&caller.who, &id).await?;
    let levels = drawing::levels(query.xray.as_deref()).map_err(invalid)?;
    let drawn = drawing::drawn(graph.engine().flows(), &served.flow, levels).ok_or_else(|| not_found("Graph", &served.flow))?;
    Ok(json_of(StatusCode::OK, &drawn))
}

async fn schemas(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Answer {
    let (assistant, served) = graph.known_assistant(&caller.who, &id).await?;
    let state = match served.input_shape {
        InputShape::Agent | InputShape::Question => wire::langserve::state_schema(&format!("{}State", served.flow)),
        InputShape::Bare => served.input_shape.output_schema(&served.flow),
    };
    let settings = json!({ "title": format!("{}Settings", served.flow), "type": "object", "properties": served.settings.schema });
    Ok(json_of(
        StatusCode::OK,
        &json!({
            "graph_id": assistant.graph_id,
            "input_schema": served.input_shape.input_schema(&served.flow),
            "output_schema": state,
            "state_schema": state,
            "config_schema": config_schema(&format!("{}Config", served.flow), &served.settings.schema),
            "context_schema": settings,
        }),
    ))
}

/// Which flows a flow calls is decided while it runs, so none are named beforehand.
async fn subgraphs(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Answer {
    graph.known_assistant(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &json!({})))
}

async fn subgraphs_in(State(graph): State<LangGraph>, caller: Caller, Path((id, _)): Path<(String, String)>) -> Answer {
    graph.known_assistant(&caller.who, &id).await?;
    Ok(json_of(StatusCode::OK, &json!({})))
}

//! Implements the API's backend: questions become runs, models, documents, files.

use async_trait::async_trait;
use engine::Order;
use evidence::Span;
use flows::context::{PREFERENCES, Preference};
use flows::input::{ModelProfile, QUESTION_BYTES_MAX};
use flows::{InputKind, Registry, Visibility};
use graph::{Budget, RunContext, ThreadId, ToolDefinition, UserId};
use models::Name;
use models::choice::State;
use serde_json::{Map, Value, json};
use server::backend::{Backend, Export, Result};
use server::problem::{Problem, StatusCode};
use tools::document;
use tools::workspace::Workspaces;
use wire::api;

use crate::chosen_sources;
use crate::config::{self, Config};
use crate::error::{self, ServiceError};
use crate::excerpt;
use crate::export;
use crate::global_args::GlobalArgs;
use crate::hub;
use crate::library::Library;
use crate::model_options::{self, OllamaLookup};
use crate::model_test;
use crate::run_request::{self, RunRequest};
use crate::selected_model::SelectedModel;
use crate::settings::{self, Configured};
use crate::wiring;

/// The tool that flows ask for passages of documents.
const DOCS_SEARCH: &str = "docs.search";

pub(crate) struct ServiceBackend {
    /// The flow used if none is named.
    default_flow: String,
    registry: Registry,
    flows: Vec<api::Flow>,
    /// `None` where a script replaces models and tools.
    config: Option<Config>,
    settings: Configured,
    model_name: Option<String>,
    may_pull: bool,
    selected: SelectedModel,
    library: Library,
    workspaces: Workspaces,
    /// Not public, and notified all the same.
    notified: server::proxies::Proxies,
    /// `None` where a script replaces models and tools.
    tools: Option<mcp_hub::Tools>,
}

impl ServiceBackend {
    pub(crate) fn new(
        globals: &GlobalArgs,
        model_options: &model_options::ModelOptions,
        config: Config,
        selected: SelectedModel,
        library: Library,
        tools: Option<mcp_hub::Tools>,
    ) -> error::Result<ServiceBackend> {
        let is_scripted = globals.script.is_some();
        let flows = described(globals, &config)?;
        let workspaces = model_options.servers.workspaces(&hub::folder(globals)?, &config);
        Ok(ServiceBackend {
            default_flow: run_request::flow(None, globals)?,
            registry: globals.flows.clone(),
            flows,
            may_pull: config.embedded.pull && !model_options.no_pull,
            settings: config.settings.clone(),
            notified: config.notify.networks.clone(),
            config: (!is_scripted).then_some(config),
            model_name: model_options.model.clone(),
            selected,
            library,
            workspaces,
            tools,
        })
    }

    /// A model named by a request, and its profile for flows.
    fn named(&self, model: &str) -> Result<(String, ModelProfile)> {
        let Some(config) = &self.config else { return Err(Problem::invalid("no model can be named here: a script replaces models and tools")) };
        let name: Name = model.parse().map_err(|error: models::NameError| Problem::invalid(error.to_string()))?;
        Ok((name.to_string(), model_options::profile_of(&name, config)))
    }
}

/// The flows as listed by the API and the page.
fn described(globals: &GlobalArgs, config: &Config) -> error::Result<Vec<api::Flow>> {
    let graphs = wiring::flows(globals)?;
    let described = |flow: &flows::Descriptor| api::Flow {
        name: flow.name.to_owned(),
        title: flow.title.to_owned(),
        about: flow.description.to_owned(),
        icon: flow.icon.to_owned(),
        can_approve: globals.flows.can_approve(flow),
        is_shown: match flow.visibility {
            Visibility::Listed => true,
            Visibility::Sample => globals.script.is_some(),
            Visibility::Internal => false,
        },
        graph: graphs.get(flow.name).map(graph::Graph::json).unwrap_or_default(),
        settings: config.settings.list(flow.name).into_iter().map(settings::as_api).collect(),
    };
    Ok(globals.flows.iter().map(described).collect())
}

fn budget(wanted: &api::Budget) -> Result<Budget> {
    let usd_micros_max = match wanted.usd {
        Some(usd) if !usd.is_finite() || !(0.0..=1e9).contains(&usd) => return Err(Problem::invalid("usd wants an amount such as 0.05")),
        usd => usd.map(|usd| (usd * 1e6).round() as u64),
    };
    Ok(Budget { tokens_max: wanted.tokens, usd_micros_max, calls_max: wanted.calls, time_ms_max: wanted.time_ms, ..Budget::default() })
}

/// Maximum number of permissions that a run may be given in advance.
const ALLOWED_MAX: usize = 100;
const ALLOWED_BYTES_MAX: usize = 200;

fn allowed(names: &[String]) -> Result<Vec<String>> {
    let is_name = |name: &String| !name.trim().is_empty() && name.len() <= ALLOWED_BYTES_MAX;
    if names.len() > ALLOWED_MAX || !names.iter().all(is_name) {
        let why =
            format!("allow and only take at most {ALLOWED_MAX} names of tools (server.tool) or servers, each of 1 to {ALLOWED_BYTES_MAX} bytes");
        return Err(Problem::invalid(why));
    }
    Ok(names.to_vec())
}

#[async_trait]
impl Backend for ServiceBackend {
    fn flows(&self) -> Vec<api::Flow> {
        self.flows.clone()
    }

    fn order(&self, user: &UserId, thread: &ThreadId, new_run: &api::NewRun) -> Result<Order> {
        let named = new_run.flow.as_deref().filter(|flow| !flow.is_empty()).unwrap_or(&self.default_flow);
        // A client that names the router wants the default flow, which is a different one where a script replaces models and tools.
        let is_router = self.registry.router().is_some_and(|router| router.name == named);
        let named = if is_router && self.config.is_none() { self.default_flow.as_str() } else { named };
        let flow = self.registry.get(named).filter(|flow| flow.visibility != Visibility::Internal).ok_or_else(|| {
            let known: Vec<&str> = self.registry.iter().filter(|flow| flow.visibility == Visibility::Listed).map(|flow| flow.name).collect();
            Problem::invalid(format!("there is no flow {named:?}; there are: {}", known.join(", ")))
        })?;
        let question = evidence::visible(&new_run.question);
        let question = question.trim();
        if question.is_empty() {
            return Err(Problem::invalid("the question is empty; say what you want to know"));
        }
        if question.len() > QUESTION_BYTES_MAX {
            return Err(Problem::invalid(format!("the question has more than {QUESTION_BYTES_MAX} bytes; put long text into a document")));
        }
        let (model, profile) = match new_run.model.as_deref().filter(|model| !model.is_empty()) {
            Some(model) => self.named(model).map(|(name, profile)| (Some(name), profile))?,
            None => (None, self.selected.profile()),
        };
        let request = RunRequest {
            registry: &self.registry,
            flow,
            question,
            thread: Some(thread.clone()),
            approve: new_run.approve,
            strict: new_run.strict,
            budget: new_run.budget.as_ref().map(budget).transpose()?.unwrap_or_default(),
            has_docs: self.library.has_any(user) && new_run.only.as_deref().is_none_or(|only| chosen_sources::is_chosen(only, DOCS_SEARCH)),
            settings: self.settings.settings_for(flow.name, &json!(new_run.settings)).map_err(|error| Problem::invalid(error.to_string()))?,
            allowed: allowed(&new_run.allow)?,
            breakpoints: server::api::breakpoints(new_run.breakpoints.clone())?,
        };
        let order = request.order(profile).map_err(|trouble| match trouble {
            ServiceError::Engine(error) => error.into(),
            // The command line's wording, which also fits the API.
            other => Problem::invalid(other.to_string()),
        })?;
        let only = new_run.only.as_deref().map(allowed).transpose()?;
        let context = RunContext { user: user.clone(), model, only, ..order.context };
        Ok(Order { context, ..order })
    }

    fn has_flow(&self, name: &str) -> bool {
        self.registry.get(name).is_some_and(|flow| flow.visibility != Visibility::Internal)
    }

    fn takes_history(&self, flow: &str) -> bool {
        self.registry.get(flow).is_some_and(|flow| !matches!(flow.input, InputKind::Own(_)))
    }

    fn given(&self, user: &UserId) -> Map<String, Value> {
        let model = json!(self.selected.profile());
        Map::from_iter([("docs".to_owned(), Value::Bool(self.library.has_any(user))), ("model".to_owned(), model)])
    }

    fn chosen(&self) -> api::SelectedModel {
        match self.selected.choice() {
            Some((name, by)) => api::SelectedModel { name, why: model_options::reason(by).to_owned() },
            None if self.config.is_none() => api::SelectedModel { name: "script".into(), why: "a script replaces models and tools".into() },
            None => api::SelectedModel { name: "replay".into(), why: "a recording answers".into() },
        }
    }

    async fn models(&self) -> Result<api::Models> {
        let Some(config) = &self.config else { return Ok(api::Models { chosen: self.chosen(), options: Vec::new() }) };
        let choice = model_options::choose(self.model_name.clone(), config, self.may_pull, OllamaLookup::Always).await;
        let choice = choice.map_err(|trouble| Problem::conflict(trouble.to_string()))?;
        let option = |way: &models::choice::ModelCandidate| api::ModelOption {
            name: way.model.as_ref().map(ToString::to_string).unwrap_or_default(),
            title: model_options::word(way.source).to_owned(),
            state: match way.state {
                State::Ready => api::ModelState::Ready,
                State::Absent if way.model.is_some() => api::ModelState::Missing,
                State::Absent => api::ModelState::Off,
                State::Broken => api::ModelState::Failed,
            },
            detail: way.detail.clone(),
            todo: way.todo.clone(),
        };
        Ok(api::Models { chosen: self.chosen(), options: choice.ways.iter().map(option).collect() })
    }

    async fn keys(&self) -> Result<Vec<api::StoredKey>> {
        let Some(config) = &self.config else { return Ok(Vec::new()) };
        let mut names: Vec<String> = config.table().endpoints.values().filter_map(variable_of).collect();
        names.extend(config.keys.names());
        names.extend(tools::search::provider::NAMES.iter().map(|(_, needs)| (*needs).to_owned()).filter(|needs| needs.ends_with("_KEY")));
        names.sort();
        names.dedup();
        let state = |name: &str| match (config::env(name), config.keys.stored(name)) {
            (Some(_), _) => api::KeyState::Environment,
            (None, Some(_)) => api::KeyState::Stored,
            (None, None) => api::KeyState::Missing,
        };
        Ok(names.into_iter().map(|name| api::StoredKey { state: state(&name), name }).collect())
    }

    async fn set_key(&self, name: &str, value: Option<&str>) -> Result<()> {
        let Some(config) = &self.config else { return Err(Problem::invalid("no key can be stored here: a script replaces models and tools")) };
        match config.keys.set(name, value) {
            Ok(true) => {
                // Nothing is downloaded for it, and a model that was named stays.
                match model_options::choose(self.model_name.clone(), config, false, OllamaLookup::IfNeeded).await {
                    Ok(choice) => self.selected.replace(&choice, config),
                    Err(error) => tracing::warn!("after the key {name} was changed, the model cannot be used: {error}"),
                }
                Ok(())
            }
            Ok(false) => Err(Problem::not_found("stored key")),
            Err(error) => Err(Problem::internal(&format!("the key {name} could not be stored: {error}"))),
        }
    }

    async fn test_model(&self, model: &str) -> Result<api::TestedModel> {
        let Some(config) = &self.config else { return Err(Problem::invalid("no model can be tried here: a script replaces models and tools")) };
        let name: Name = model.parse().map_err(|error: models::NameError| Problem::invalid(error.to_string()))?;
        model_test::test(name, config).await
    }

    fn preference(&self, name: &str, value: &Value) -> Result<Option<Value>> {
        let Some(preference) = Preference::named(name) else {
            let known: Vec<&str> = PREFERENCES.iter().map(|one| one.name).collect();
            return Err(Problem::invalid(format!("there is no setting {name:?}; there are: {}", known.join(", "))));
        };
        let choice = match value {
            Value::Null => return Ok(None),
            Value::Bool(true) => "yes",
            Value::Bool(false) => "no",
            Value::String(choice) => choice.as_str(),
            Value::Number(_) | Value::Array(_) | Value::Object(_) => "",
        };
        match preference.value(choice) {
            Some(value) => Ok(Some(value)),
            None => Err(Problem::invalid(format!("{name} is {}, or null to take it back", preference.choices.join(" or ")))),
        }
    }

    async fn documents(&self, user: &UserId) -> Result<api::Documents> {
        // A user may have a thousand files, each of which is looked at.
        let (library, user) = (self.library.clone(), user.clone());
        blocking(move || Ok(library.list(&user))).await
    }

    async fn put_document(&self, user: &UserId, name: &str, bytes: Vec<u8>) -> Result<api::Uploaded> {
        self.library.put(user, name, bytes).await
    }

    async fn document(&self, user: &UserId, name: &str) -> Result<Vec<u8>> {
        let (library, user, name) = (self.library.clone(), user.clone(), name.to_owned());
        blocking(move || library.read(&user, &name)).await
    }

    async fn document_text(&self, user: &UserId, name: &str, from: u32) -> Result<api::DocumentText> {
        let (library, user, name) = (self.library.clone(), user.clone(), name.to_owned());
        blocking(move || library.text(&user, &name, from)).await
    }

    async fn delete_document(&self, user: &UserId, name: &str) -> Result<()> {
        self.library.remove(user, name).await
    }

    fn disk_free_bytes(&self) -> Option<u64> {
        let about = rustix::fs::statvfs(self.library.uploads()).ok()?;
        Some(about.f_bavail.saturating_mul(about.f_frsize))
    }

    async fn excerpt(&self, user: &UserId, span: &Span) -> Option<api::Excerpt> {
        let address = span.address.clone()?;
        let (folders, user, span) = (self.library.folders().clone(), user.clone(), span.clone());
        let found = move || {
            let title = span.title.clone().unwrap_or_else(|| address.clone());
            Ok(excerpt::of(&folders, &user, &address, &title, span.place.as_deref(), &span.text))
        };
        blocking(found).await.ok().flatten()
    }

    async fn workspace_file(&self, thread: &ThreadId, path: &str) -> Result<Vec<u8>> {
        let (workspaces, thread, path) = (self.workspaces.clone(), thread.to_string(), path.to_owned());
        // Any read error is reported as a missing file.
        blocking(move || workspaces.read(&thread, &path).map_err(|_| Problem::not_found("file"))).await
    }

    fn tool_definition(&self, name: &str) -> Option<ToolDefinition> {
        self.tools.as_ref()?.known_definition(name)
    }

    fn is_public(&self, address: std::net::IpAddr) -> bool {
        tools::fetch::is_public(address)
    }

    fn may_notify(&self, address: std::net::IpAddr) -> bool {
        self.is_public(address) || self.notified.has(address)
    }

    async fn thread_deleted(&self, thread: &ThreadId) -> Result<()> {
        let (workspaces, thread) = (self.workspaces.clone(), thread.to_string());
        blocking(move || workspaces.remove(&thread).map(drop).map_err(|error| Problem::internal(&error))).await
    }

    async fn export(&self, file: Export) -> Result<Vec<u8>> {
        match export::document(file).await {
            Ok(bytes) => Ok(bytes),
            Err(document::DocumentError::Invalid(why)) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", why)),
            Err(error) => Err(Problem::internal(&error)),
        }
    }

    fn html(&self, markdown: &str) -> String {
        flows::search::html::from_markdown(markdown)
    }
}

/// The variable of the environment that an endpoint's key is in.
fn variable_of(endpoint: &models::Endpoint) -> Option<String> {
    match endpoint.key.as_ref()? {
        models::KeySource::Env(name) => Some(name.clone()),
        models::KeySource::File(_) | models::KeySource::Command(_) => None,
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Problem::internal(&error)))
}

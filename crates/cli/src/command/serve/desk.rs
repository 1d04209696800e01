//! What the API needs of this program: how a question becomes a run, who thinks, documents, files.

use std::sync::Arc;

use async_trait::async_trait;
use engine::Order;
use evidence::Span;
use flows::context::{PREFERENCES, Preference};
use flows::input::{Mind, QUESTION_BYTES_MAX};
use graph::{Budget, ThreadId, UserId};
use serde_json::{Map, Value, json};
use server::desk::{Desk, Export, Format, Result};
use server::problem::{Problem, StatusCode};
use tools::document::{self, Document};
use tools::workspace::Workspaces;
use wire::api;
use world::model::Name;
use world::model::choice::{Choice, State};

use super::excerpt;
use super::library::Library;
use super::own::Own;
use crate::asking::{self, Asking, BEHIND_THE_FRONT_DOOR, FRONT_DOOR};
use crate::command::doctor;
use crate::command::flows::{SHOWN, capitalized};
use crate::config::Config;
use crate::exit::{self, Trouble};
use crate::hub;
use crate::mind::{self, Look};
use crate::place::Place;
use crate::settings::{self, Configured};
use crate::wiring;

pub(super) struct House {
    /// The flow that takes what names none.
    usual: String,
    flows: Vec<api::Flow>,
    /// None where a script plays the world.
    config: Option<Config>,
    settings: Configured,
    wish: Option<String>,
    may_pull: bool,
    mind: Mind,
    chosen: api::Chosen,
    library: Library,
    own: Arc<Own>,
    workspaces: Workspaces,
}

impl House {
    pub(super) fn new(
        place: &Place,
        thinking: &mind::Thinking,
        config: Config,
        mind: Mind,
        choice: Option<Choice>,
        library: Library,
        own: Arc<Own>,
    ) -> exit::Result<House> {
        let is_scripted = place.script.is_some();
        let flow = |graph: &graph::Graph| {
            let shown = SHOWN.iter().find(|(name, _, _)| *name == graph.name());
            let is_shown = shown.is_some() || (is_scripted && matches!(graph.name(), "research" | "team"));
            api::Flow {
                name: graph.name().to_owned(),
                title: shown.map_or_else(|| capitalized(graph.name()), |(_, title, _)| (*title).to_owned()),
                about: shown.map(|(_, _, about)| (*about).to_owned()).unwrap_or_default(),
                icon: graph.name().to_owned(),
                can_approve: asking::can_plan(graph),
                is_shown,
                graph: graph.json(),
                settings: config.settings.list(graph.name()).into_iter().map(settings::as_api).collect(),
            }
        };
        let mut flows: Vec<api::Flow> = wiring::flows()?.values().map(flow).collect();
        flows.sort_by_key(|flow| SHOWN.iter().position(|(name, _, _)| *name == flow.name).unwrap_or(SHOWN.len()));
        let chosen = match choice {
            Some(choice) => api::Chosen { name: choice.model.to_string(), why: doctor::reason(choice.by).to_owned() },
            None if is_scripted => api::Chosen { name: "script".into(), why: "a script plays the world".into() },
            None => api::Chosen { name: "replay".into(), why: "a recording answers".into() },
        };
        let workspaces = thinking.servers.workspaces(&hub::folder(place)?, &config);
        Ok(House {
            usual: asking::flow(None, place)?,
            flows,
            may_pull: config.embedded.pull && !thinking.no_pull,
            settings: config.settings.clone(),
            config: (!is_scripted).then_some(config),
            wish: thinking.model.clone(),
            mind,
            chosen,
            library,
            own,
            workspaces,
        })
    }

    /// A model that somebody names for a thread, and what flows may know of it.
    fn named(&self, model: &str) -> Result<(String, Mind)> {
        let Some(config) = &self.config else { return Err(Problem::invalid("no model can be named here: a script plays the world")) };
        let name: Name = model.parse().map_err(|error: world::model::NameError| Problem::invalid(error.to_string()))?;
        Ok((name.to_string(), mind::mind_of(&name, config)))
    }
}

fn budget(wanted: &api::Budget) -> Result<Budget> {
    let usd_micros_max = match wanted.usd {
        Some(usd) if !usd.is_finite() || !(0.0..=1e9).contains(&usd) => return Err(Problem::invalid("usd wants an amount such as 0.05")),
        usd => usd.map(|usd| (usd * 1e6).round() as u64),
    };
    Ok(Budget { tokens_max: wanted.tokens, usd_micros_max, calls_max: wanted.calls, time_ms_max: wanted.time_ms, ..Budget::default() })
}

/// Names that a run may be given beforehand.
const ALLOWED_MAX: usize = 100;
const ALLOWED_BYTES_MAX: usize = 200;

fn allowed(names: &[String]) -> Result<Vec<String>> {
    let is_name = |name: &String| !name.trim().is_empty() && name.len() <= ALLOWED_BYTES_MAX;
    if names.len() > ALLOWED_MAX || !names.iter().all(is_name) {
        let why = format!("allow takes at most {ALLOWED_MAX} names of tools (server.tool) or servers, each of 1 to {ALLOWED_BYTES_MAX} bytes");
        return Err(Problem::invalid(why));
    }
    Ok(names.to_vec())
}

#[async_trait]
impl Desk for House {
    fn flows(&self) -> Vec<api::Flow> {
        self.flows.clone()
    }

    fn order(&self, user: &UserId, thread: &ThreadId, wish: &api::NewRun) -> Result<Order> {
        let flow = wish.flow.as_deref().filter(|flow| !flow.is_empty()).map_or(self.usual.as_str(), |flow| {
            // What a program calls the usual one.
            if flow == FRONT_DOOR.flow && self.config.is_none() { self.usual.as_str() } else { flow }
        });
        if !self.flows.iter().any(|known| known.name == flow) {
            let known = BEHIND_THE_FRONT_DOOR.join(", ");
            return Err(Problem::invalid(format!("there is no flow {flow:?}; there are: {}, {known}", FRONT_DOOR.flow)));
        }
        let question = evidence::visible(&wish.question);
        let question = question.trim();
        if question.is_empty() {
            return Err(Problem::invalid("the question is empty; say what you want to know"));
        }
        if question.len() > QUESTION_BYTES_MAX {
            return Err(Problem::invalid(format!("the question has more than {QUESTION_BYTES_MAX} bytes; put long text into a document")));
        }
        let (model, mind) = match wish.model.as_deref().filter(|model| !model.is_empty()) {
            Some(model) => self.named(model).map(|(name, mind)| (Some(name), mind))?,
            None => (None, self.mind),
        };
        let asking = Asking {
            flow,
            question,
            thread: Some(thread.clone()),
            approve: wish.approve,
            strict: wish.strict,
            budget: wish.budget.as_ref().map(budget).transpose()?.unwrap_or_default(),
            has_docs: self.library.has_any(user),
            settings: self.settings.settings_for(flow, &json!(wish.settings)).map_err(|error| Problem::invalid(error.to_string()))?,
            allowed: allowed(&wish.allow)?,
        };
        let order = asking.order(mind).map_err(|trouble| match trouble {
            Trouble::Engine(error) => error.into(),
            // In words of the command line, which the page's are not far from.
            other => Problem::invalid(other.to_string()),
        })?;
        self.own.think_with(thread, model);
        Ok(Order { user: user.clone(), ..order })
    }

    fn given(&self, user: &UserId) -> Map<String, Value> {
        Map::from_iter([("docs".to_owned(), Value::Bool(self.library.has_any(user)))])
    }

    fn chosen(&self) -> api::Chosen {
        self.chosen.clone()
    }

    async fn models(&self) -> Result<api::Models> {
        let Some(config) = &self.config else { return Ok(api::Models { chosen: self.chosen.clone(), options: Vec::new() }) };
        let choice = mind::choose(self.wish.clone(), config, self.may_pull, Look::Always).await;
        let choice = choice.map_err(|trouble| Problem::conflict(trouble.to_string()))?;
        let option = |way: &world::model::choice::Way| api::ModelOption {
            name: way.model.as_ref().map(ToString::to_string).unwrap_or_default(),
            title: doctor::word(way.source).to_owned(),
            state: match way.state {
                State::Ready => api::ModelState::Ready,
                State::Absent if way.model.is_some() => api::ModelState::Missing,
                State::Absent => api::ModelState::Off,
                State::Broken => api::ModelState::Failed,
            },
            detail: way.detail.clone(),
            todo: way.todo.clone(),
        };
        Ok(api::Models { chosen: self.chosen.clone(), options: choice.ways.iter().map(option).collect() })
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
        Ok(self.library.list(user))
    }

    async fn put_document(&self, user: &UserId, name: &str, bytes: Vec<u8>) -> Result<api::Uploaded> {
        let (library, user, name) = (self.library.clone(), user.clone(), name.to_owned());
        blocking(move || library.put(&user, &name, &bytes)).await
    }

    async fn delete_document(&self, user: &UserId, name: &str) -> Result<()> {
        let (library, user, name) = (self.library.clone(), user.clone(), name.to_owned());
        blocking(move || library.remove(&user, &name)).await
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
        // Whatever keeps a file from being read, it is not there for whoever asks.
        blocking(move || workspaces.read(&thread, &path).map_err(|_| Problem::not_found("file"))).await
    }

    async fn export(&self, file: Export) -> Result<Vec<u8>> {
        // Made in a folder of its own, which goes when it was read.
        let folder = tempfile::tempdir().map_err(|error| Problem::internal(&error))?;
        let settings = document::Settings { folder: folder.path().to_owned(), ..document::Settings::default() };
        let made = async {
            let format = match file.format {
                Format::Markdown => document::Format::Markdown,
                Format::Html => document::Format::Html,
                Format::Docx => document::Format::Docx,
                Format::Pdf => document::Format::Pdf,
            };
            let sources = file.sources.into_iter().map(|(title, address)| document::Source { title, address }).collect();
            let asked = document::Asked { markdown: file.markdown, format, title: Some(file.title), name: Some("answer".into()), sources };
            Document::new(settings)?.create_document(asked).await
        };
        match made.await {
            Ok(created) => blocking(move || std::fs::read(&created.path).map_err(|error| Problem::internal(&error))).await,
            Err(document::DocumentError::Asked(why)) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", why)),
            Err(error) => Err(Problem::internal(&error)),
        }
    }

    fn html(&self, markdown: &str) -> String {
        flows::search::html::from_markdown(markdown)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Problem::internal(&error)))
}

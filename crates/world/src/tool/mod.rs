//! The MCP hub: every tool that a flow can call, wherever it lives, behind one list and one way to call.
//!
//! - [`config`]: which servers there are, from `mcp.json` files.
//! - `server`: one connection each: made when somebody needs it, kept, made again. `stdio`, `http` and in-process under it, each with a limit
//!   on everything that is read (`bounded`); `auth` for those who want a person's yes.
//! - `call`: one call. `entry`: a tool and its schemas. [`nature`]: what doing it twice would mean. `reply`: results as evidence.
//! - `source`: a registry elsewhere whose tools are used beside one's own.
//! - [`import`]: servers from an official-style registry. `memory`: what is switched off, and the lists as they last were. [`search`]: which tools fit a question.
//!
//! Tools are called `server.tool`. Nothing here decides whether to call: that is the flow's, and what a tool says is data.

mod auth;
mod bounded;
mod call;
pub mod config;
mod entry;
mod host;
mod http;
pub mod import;
mod memory;
pub mod nature;
pub(crate) mod permission;
mod reply;
mod room;
pub mod search;
mod server;
mod source;
mod stdio;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use evidence::Trust;
use futures::future::BoxFuture;
use graph::{Effect, Failure, FailureKind, Job, Reply, ToolCall};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::time::Instant;

pub use auth::Consent;
pub use call::CallOptions;
pub use config::{Config, ServerConfig};
pub use host::Asked;
pub use reply::RESULT_BYTES_MAX;
pub use room::{Judge, LIST, Room};
pub use search::{Lexical, Rank};
pub use server::{Pace, Serve};
pub use source::{REGISTRY, RegistrySource, is_registry_at};

use crate::{LookUp, Nature, Progress, World};
use entry::Entry;
use memory::Memory;
use server::{Origin, Server, State};

/// The hub. Clones are the same hub; when the last is gone, so are the connections and the children.
#[derive(Clone)]
pub struct Tools(Arc<Hub>);

struct Hub {
    servers: RwLock<BTreeMap<String, Arc<Server>>>,
    memory: Memory,
    rank: Box<dyn Rank>,
    pace: Pace,
    asked: Option<Arc<dyn Asked>>,
    consent: Option<Arc<dyn Consent>>,
    off: BTreeSet<String>,
    changed: watch::Sender<u64>,
    /// The list as it was at a version.
    snapshot: RwLock<Option<(u64, Vec<Arc<ToolInfo>>)>>,
    /// The version whose lists were written down.
    kept: AtomicU64,
    /// It was said that the registry cannot be reached.
    has_warned: AtomicBool,
}

/// A tool, as a planner or a person is told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolInfo {
    /// `server.tool`
    pub name: String,
    pub server: String,
    pub title: Option<String>,
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    pub output_schema: Option<Value>,
    pub hints: Hints,
    /// Its server is built in or trusted by the user, so that its hints count.
    pub is_trusted: bool,
    pub enabled: bool,
    /// Its server answers, as far as is known.
    pub healthy: bool,
}

impl ToolInfo {
    /// Known to change nothing: by the word of a server that is trusted.
    pub fn is_read_only(&self) -> bool {
        self.is_trusted && self.hints.read_only == Some(true)
    }

    /// Has to be taken to change or destroy something. What says nothing does, as MCP has it.
    pub fn is_destructive(&self) -> bool {
        let is_said_harmless = self.hints.read_only == Some(true) || self.hints.destructive == Some(false);
        !self.is_trusted || !is_said_harmless
    }
}

/// What the tool says about itself. Only of a trusted server does anything here decide by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    pub server: String,
    pub kind: Kind,
    pub enabled: bool,
    pub trusted: bool,
    pub is: Is,
    pub tools: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stdio,
    Http,
    Local,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Is {
    /// Nobody has needed it yet.
    Idle,
    Connecting,
    Up {
        /// The revision of MCP that is spoken.
        version: String,
        /// What it calls itself.
        name: Option<String>,
    },
    Down {
        why: String,
        retry_in_ms: u64,
        failures: u32,
    },
}

/// How long the first look at a list waits for servers that are still connecting.
const FIRST_LIST_MAX: Duration = Duration::from_secs(10);
/// The same for a registry: the hub has tools without it.
const REGISTRY_LIST_MAX: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Builder {
    servers: Vec<(String, Origin)>,
    memory: Option<PathBuf>,
    rank: Option<Box<dyn Rank>>,
    pace: Option<Pace>,
    asked: Option<Arc<dyn Asked>>,
    consent: Option<Arc<dyn Consent>>,
    off: BTreeSet<String>,
}

impl Builder {
    /// These wait until somebody switches them on.
    pub fn with_off(mut self, servers: &[&str]) -> Self {
        self.off.extend(servers.iter().map(|name| config::server_name(name)));
        self
    }

    pub fn with_config(mut self, config: Config) -> Self {
        self.servers.extend(config.servers.into_iter().map(|(name, server)| (name, Origin::Configured(server))));
        self
    }

    pub fn with_server(mut self, name: &str, server: ServerConfig) -> Self {
        self.servers.push((config::server_name(name), Origin::Configured(server)));
        self
    }

    /// A registry whose tools are used too, where this hub has no server of the same name.
    pub fn with_registry(mut self, source: &RegistrySource) -> Self {
        self.servers.push((REGISTRY.to_owned(), Origin::Configured(source.config())));
        self
    }

    /// A server in this process. `serve` is called for every connection with its end of a pipe, and serves it to its end;
    /// for an rmcp `ServerHandler`: `|pipe| async move { if let Ok(s) = handler.serve(pipe).await { let _ = s.waiting().await; } }.boxed()`.
    pub fn with_local(mut self, name: &str, trust: Trust, serve: impl Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        self.servers.push((config::server_name(name), Origin::Local { serve: Arc::new(serve), trust }));
        self
    }

    /// Where is kept what was switched off, and the lists of tools.
    pub fn with_memory(mut self, path: impl Into<PathBuf>) -> Self {
        self.memory = Some(path.into());
        self
    }

    pub fn with_rank(mut self, rank: impl Rank) -> Self {
        self.rank = Some(Box::new(rank));
        self
    }

    pub fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Who answers servers that ask back.
    pub fn with_asked(mut self, asked: impl Asked) -> Self {
        self.asked = Some(Arc::new(asked));
        self
    }

    /// Who gets a person's yes for remote servers that want one.
    pub fn with_consent(mut self, consent: impl Consent) -> Self {
        self.consent = Some(Arc::new(consent));
        self
    }

    /// Nothing is started by this.
    pub fn build(self) -> Tools {
        let hub = Hub {
            servers: RwLock::default(),
            memory: self.memory.map(Memory::open).unwrap_or_default(),
            rank: self.rank.unwrap_or_else(|| Box::new(Lexical)),
            pace: self.pace.unwrap_or_default(),
            asked: self.asked,
            consent: self.consent,
            off: self.off,
            changed: watch::Sender::new(1),
            snapshot: RwLock::default(),
            kept: AtomicU64::new(0),
            has_warned: AtomicBool::new(false),
        };
        for (name, origin) in self.servers {
            // What came first stays: built-in servers are not hidden by a file.
            if hub.own_server(&name).is_none() {
                hub.add(&name, origin);
            }
        }
        Tools(Arc::new(hub))
    }
}

impl Tools {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// All tools. The first time, servers are started and waited for; afterwards this is what is known, at once.
    pub async fn list(&self) -> Vec<Arc<ToolInfo>> {
        let waking: Vec<Arc<Server>> = self.0.all().into_iter().filter(|server| self.0.is_on(server)).collect();
        for server in &waking {
            server.wake();
        }
        // A list from before this process is good enough to begin with, and who takes too long is in the next list.
        let longest = |server: &Server| if server.is_registry() { REGISTRY_LIST_MAX } else { FIRST_LIST_MAX };
        let looks = waking.iter().filter_map(|server| Some((server, server.first_look(longest(server))?)));
        let looks: Vec<_> = looks.map(|(server, left)| tokio::time::timeout(left, server.link())).collect();
        futures::future::join_all(looks).await;
        self.0.warn_without_registry();
        self.0.keep_lists();
        self.cached()
    }

    /// All tools that are known without asking anybody.
    pub fn cached(&self) -> Vec<Arc<ToolInfo>> {
        let version = *self.0.changed.borrow();
        let snapshot = self.0.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((of, tools)) = snapshot
            && of == version
        {
            return tools;
        }
        let mut tools = Vec::new();
        for server in self.0.all() {
            let healthy = matches!(server.state(), State::Up(_));
            let entries = server.tools();
            let listed = entries.iter().filter(|entry| !self.0.is_hidden(&server, entry));
            tools.extend(listed.map(|entry| Arc::new(self.0.info(&server, entry, healthy))));
        }
        *self.0.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Some((version, tools.clone()));
        tools
    }

    /// One of them, if it is known.
    pub fn exported_one(&self, name: &str) -> Option<rmcp::model::Tool> {
        let (_, entry) = self.0.known(name).filter(|(server, entry)| !server.is_registry() && self.0.is_tool_on(server, entry))?;
        let mut tool = entry.tool.clone();
        tool.name = entry.name.clone().into();
        Some(tool)
    }

    /// The tools that are switched on, as MCP lists them, under their names here. For whoever passes them on. Those of a registry are not among them:
    /// it offers them itself.
    pub async fn exported(&self) -> Vec<rmcp::model::Tool> {
        self.list().await;
        let mut tools = Vec::new();
        for server in self.0.all().into_iter().filter(|server| !server.is_registry()) {
            let on = server.tools().iter().filter(|entry| self.0.is_tool_on(&server, entry)).cloned().collect::<Vec<_>>();
            tools.extend(on.into_iter().map(|entry| {
                let mut tool = entry.tool.clone();
                tool.name = entry.name.clone().into();
                tool
            }));
        }
        tools
    }

    /// A registry offers it, and none of the servers here.
    pub fn is_from_registry(&self, name: &str) -> bool {
        self.0.known(name).is_some_and(|(server, _)| server.is_registry())
    }

    pub async fn describe(&self, name: &str) -> Result<ToolInfo, Failure> {
        let (server, entry) = self.0.find(name).await?;
        Ok(self.0.info(&server, &entry, matches!(server.state(), State::Up(_))))
    }

    /// Calls a tool and gives its answer as evidence.
    pub async fn call(&self, name: &str, arguments: &Value, options: &CallOptions) -> Result<evidence::Found, Failure> {
        let (server, entry) = self.0.find_enabled(name).await?;
        let result = call::call(&server, &entry, arguments, options).await?;
        call::found(&entry, server.trust(), arguments, &result)
    }

    /// Calls a tool and gives its answer as the server gave it, errors of the tool's own included.
    pub async fn call_plain(&self, name: &str, arguments: &Value, options: &CallOptions) -> Result<rmcp::model::CallToolResult, Failure> {
        let (server, entry) = self.0.find_enabled(name).await?;
        call::call(&server, &entry, arguments, options).await
    }

    /// The tools that fit a question best, with their scores.
    pub async fn search(&self, query: &str, size: usize) -> Vec<(Arc<ToolInfo>, f32)> {
        let tools: Vec<Arc<ToolInfo>> = self.list().await.into_iter().filter(|tool| tool.enabled).collect();
        let version = *self.0.changed.borrow();
        let ranked = self.0.rank.rank(version, &tools, query, size);
        ranked.into_iter().filter_map(|(index, score)| Some((tools.get(index)?.clone(), score))).collect()
    }

    /// Switches a tool (`server.tool`) or a whole server on or off, for good.
    pub async fn enable(&self, name: &str, is_on: bool) -> Result<(), Failure> {
        let cannot = |why: String| Failure::new(FailureKind::Internal, why);
        if let Some(server) = self.0.own_server(name) {
            self.0.memory.switch(name, is_on).map_err(cannot)?;
            if !is_on {
                server.stop();
            }
        } else if self.0.is_behind_registry(name) {
            self.0.memory.switch(name, is_on).map_err(cannot)?;
        } else {
            let (_, entry) = self.0.find(name).await?;
            self.0.memory.switch(&entry.name, is_on).map_err(cannot)?;
        }
        self.0.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// How all servers are.
    pub fn health(&self) -> Vec<Health> {
        self.0.all().iter().map(|server| self.0.health(server)).collect()
    }

    /// Adds a server, or puts another in the place of one with this name. A built-in one stays.
    pub fn add(&self, name: &str, config: ServerConfig) -> Result<(), Failure> {
        let name = config::server_name(name);
        if let Some(old) = self.0.own_server(&name) {
            if matches!(old.origin, Origin::Local { .. }) {
                return Err(Failure::new(FailureKind::Refused, format!("{name} is built in")));
            }
            old.stop();
        }
        self.0.add(&name, Origin::Configured(config));
        self.0.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Does not wait for the next attempt at a server that is down.
    pub fn hurry(&self, server: &str) {
        if let Some(server) = self.0.own_server(server) {
            server.hurry();
        }
    }

    /// Changes whenever a tool or a server does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Learns what the servers in this process offer, so that what a call of theirs means is known before it is made. Others are
    /// known from the last time, or when somebody needs them.
    pub async fn meet_locals(&self) {
        for server in self.0.all() {
            if !matches!(server.origin, Origin::Local { .. }) || !self.0.is_on(&server) {
                continue;
            }
            let met = async {
                let link = server.link().await?;
                if server.tools().is_empty() { server.relist(&link).await.map(drop) } else { Ok(()) }
            };
            if let Err(failure) = met.await {
                tracing::warn!("the built-in server {} does not answer: {failure}", server.name);
            }
        }
    }

    /// Learns what the registry offers, if there is one, so that its tools can be called by their names.
    pub async fn meet_registry(&self) {
        let Some(registry) = self.0.own_server(REGISTRY) else { return };
        if registry.tools().is_empty() {
            let met = tokio::time::timeout(REGISTRY_LIST_MAX, registry.link()).await;
            tracing::debug!(is_reached = matches!(met, Ok(Ok(_))), "looked at the registry");
        }
        self.0.warn_without_registry();
    }

    /// Ends all connections and waits until the children are gone.
    pub async fn close(&self) {
        self.0.keep_lists();
        for server in self.0.all() {
            server.close().await;
        }
    }
}

#[async_trait]
impl World for Tools {
    fn nature(&self, job: &Job) -> Nature {
        let Effect::CallTool(call) = &*job.effect else { return Nature::Once };
        self.0.known(&call.tool).map_or(Nature::Once, |(_, entry)| entry.nature)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let Effect::CallTool(ToolCall { tool, arguments }) = &*job.effect else {
            return Reply::failed(Failure::new(FailureKind::Internal, format!("a hub of tools performs no {} calls", job.effect.kind())));
        };
        let began = Instant::now();
        // The engine drops the future at its own deadline; ours only keeps a call without one from waiting for ever.
        let deadline = Duration::from_millis(job.deadline_ms.max(1));
        let options = CallOptions {
            key: Some(job.key.to_string()),
            is_allowed: job.is_allowed,
            deadline,
            progress: progress.clone(),
            thread: Some(job.thread.to_string()),
        };
        let result = self.call(tool, arguments, &options).await;
        let value = result.and_then(|found| {
            serde_json::to_value(found).map_err(|error| Failure::new(FailureKind::Internal, format!("the result cannot be kept: {error}")))
        });
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let server = tool.split_once('.').map_or(tool.as_str(), |(server, _)| server);
        Reply { result: value, ..Reply::ok(Value::Null) }.taking_us(took_us).about(json!({ "server": server }))
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        let Effect::CallTool(call) = &*job.effect else { return LookUp::Unknown };
        let Ok((server, entry)) = self.0.find(&call.tool).await else { return LookUp::Unknown };
        let Some(look_up) = nature::look_up(&entry.tool).filter(|_| server.is_believed()) else { return LookUp::Unknown };
        let look_up = match source::server_of(&entry.tool.name).filter(|_| server.is_registry()) {
            Some(behind) => format!("{behind}.{look_up}"),
            None => look_up.to_owned(),
        };
        let Some(by) = server.tools().iter().find(|entry| *entry.tool.name == *look_up).cloned() else { return LookUp::Unknown };
        let key = job.key.to_string();
        let Ok(result) = call::call(&server, &by, &json!({ "key": key }), &CallOptions::default()).await else { return LookUp::Unknown };
        let said = result.structured_content.unwrap_or_default();
        match said.get("done").and_then(Value::as_bool) {
            Some(true) => LookUp::Done(remembered(&entry, server.trust(), said.get("result").unwrap_or(&Value::Null))),
            Some(false) => LookUp::NotDone,
            None => LookUp::Unknown,
        }
    }
}

/// The reply that was lost, as far as the tool remembers it.
fn remembered(entry: &Entry, trust: Trust, result: &Value) -> Reply {
    let text = match result {
        Value::String(text) => text.clone(),
        Value::Null => "it was done before".to_owned(),
        other => other.to_string(),
    };
    let data = Some(result).filter(|result| result.is_object());
    Reply::ok(serde_json::to_value(evidence::found(&entry.name, trust, &text, data)).unwrap_or_default())
}

impl Hub {
    fn add(&self, name: &str, origin: Origin) {
        let remembered = match &origin {
            Origin::Configured(config) => self.memory.list(name, config),
            Origin::Local { .. } => None,
        };
        let server = Server::new(name, origin, self.pace.clone(), self.asked.clone(), self.consent.clone(), self.changed.clone());
        server.remember(remembered.unwrap_or_default());
        self.servers.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(server));
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The server that tools called `name.…` come from: one here, or the registry that offers them.
    fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.own_server(name).or_else(|| self.own_server(REGISTRY).filter(|_| self.is_behind_registry(name)))
    }

    fn own_server(&self, name: &str) -> Option<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn is_on(&self, server: &Server) -> bool {
        self.memory.switched(&server.name).unwrap_or(match &server.origin {
            Origin::Configured(config) => config.enabled,
            Origin::Local { .. } => !self.off.contains(&server.name),
        })
    }

    fn is_tool_on(&self, server: &Server, entry: &Entry) -> bool {
        let configured = match &server.origin {
            Origin::Configured(config) => !config.tools_disabled.contains(&*entry.tool.name),
            Origin::Local { .. } => true,
        };
        let behind = source::server_of(&entry.tool.name).filter(|_| server.is_registry());
        let is_server_on = behind.is_none_or(|behind| self.memory.switched(behind).unwrap_or(true));
        self.is_on(server) && is_server_on && self.memory.switched(&entry.name).unwrap_or(configured)
    }

    /// What is known without asking anybody.
    fn known(&self, name: &str) -> Option<(Arc<Server>, Arc<Entry>)> {
        let (server, tool) = name.split_once('.')?;
        let (server, tool) = match self.own_server(server) {
            Some(server) => (server, tool),
            // A registry's tools have whole names. One that is not on its list yet is not asked for: nobody could have agreed to it.
            None => (self.own_server(REGISTRY)?, name),
        };
        let entry = server.tools().iter().find(|entry| entry.tool.name == tool)?.clone();
        Some((server, entry))
    }

    /// A registry has a server of this name, and this hub has none.
    fn is_behind_registry(&self, name: &str) -> bool {
        let has = |registry: &Server| registry.tools().iter().any(|entry| source::server_of(&entry.tool.name) == Some(name));
        self.own_server(name).is_none() && self.own_server(REGISTRY).is_some_and(|registry| has(&registry))
    }

    /// A tool of a registry that is down, or of a registry's server that this hub has itself.
    fn is_hidden(&self, server: &Server, entry: &Entry) -> bool {
        let is_here = || source::server_of(&entry.tool.name).is_none_or(|behind| self.own_server(behind).is_some());
        server.is_registry() && (matches!(server.state(), State::Down { .. }) || is_here())
    }

    /// Says once that only this hub's own tools are used.
    fn warn_without_registry(&self) {
        let Some(registry) = self.own_server(REGISTRY) else { return };
        if let State::Down { why, .. } = registry.state()
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            let url = registry.url().unwrap_or_default().trim_end_matches("/mcp");
            tracing::warn!("the registry {url} cannot be reached, so only the tools here are used: {why}");
        }
    }

    /// The tool with this name; its server is asked if nobody has yet.
    async fn find(&self, name: &str) -> Result<(Arc<Server>, Arc<Entry>), Failure> {
        if let Some(found) = self.known(name) {
            return Ok(found);
        }
        let refused = |words: String| Failure::new(FailureKind::Refused, words);
        let server = name.split_once('.').and_then(|(server, _)| self.server(server));
        let Some(server) = server else {
            let near = self.near(name);
            return Err(refused(format!("there is no tool {name:?}{near}")));
        };
        if !self.is_on(&server) {
            return Err(refused(format!("the server {} is switched off", server.name)));
        }
        let link = server.link().await?;
        if self.known(name).is_none() {
            // It may be newer than our list.
            server.relist(&link).await?;
        }
        self.known(name).ok_or_else(|| refused(format!("the server {} has no tool {name:?}{}", server.name, self.near(name))))
    }

    async fn find_enabled(&self, name: &str) -> Result<(Arc<Server>, Arc<Entry>), Failure> {
        let (server, entry) = self.find(name).await?;
        if !self.is_tool_on(&server, &entry) {
            return Err(Failure::new(FailureKind::Refused, format!("the tool {name} is switched off; `baton tools enable {name}` switches it on")));
        }
        Ok((server, entry))
    }

    /// `; did you mean …?`, if something is spelled much like it.
    fn near(&self, name: &str) -> String {
        let names: Vec<String> =
            self.all().iter().flat_map(|server| server.tools().iter().map(|entry| entry.name.clone()).collect::<Vec<_>>()).collect();
        let alike =
            |known: &String| strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(name, known.split_once('.').map_or("", |(_, tool)| tool)));
        let best = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).filter(|best| alike(best) > 0.8);
        match best {
            Some(best) => format!("; did you mean {best}?"),
            None if names.is_empty() => "; no server has any tool".to_owned(),
            None => format!("; there are {} others", names.len()),
        }
    }

    fn info(&self, server: &Server, entry: &Entry, healthy: bool) -> ToolInfo {
        let tool = &entry.tool;
        // A registry passes on what its servers say; none of it counts unless the user trusts the registry.
        let hints = tool.annotations.as_ref().filter(|_| !server.is_registry() || server.is_believed());
        ToolInfo {
            name: entry.name.clone(),
            server: source::server_of(&tool.name).filter(|_| server.is_registry()).unwrap_or(&server.name).to_owned(),
            title: tool.title.clone().or_else(|| hints.and_then(|hints| hints.title.clone())),
            description: tool.description.as_deref().unwrap_or_default().to_owned(),
            schema: Value::Object((*tool.input_schema).clone()),
            output_schema: tool.output_schema.as_ref().map(|schema| Value::Object((**schema).clone())),
            hints: Hints {
                read_only: hints.and_then(|hints| hints.read_only_hint),
                destructive: hints.and_then(|hints| hints.destructive_hint),
                idempotent: hints.and_then(|hints| hints.idempotent_hint),
                open_world: hints.and_then(|hints| hints.open_world_hint),
            },
            is_trusted: server.is_believed(),
            enabled: self.is_tool_on(server, entry),
            healthy,
        }
    }

    fn health(&self, server: &Server) -> Health {
        let (kind, trusted) = match &server.origin {
            Origin::Configured(config) => match config.reach {
                config::Reach::Stdio { .. } => (Kind::Stdio, config.trusted),
                config::Reach::Http { .. } => (Kind::Http, config.trusted),
            },
            Origin::Local { .. } => (Kind::Local, true),
        };
        let is = match server.state() {
            State::Idle => Is::Idle,
            State::Connecting => Is::Connecting,
            State::Up(link) => {
                let info = link.peer().peer_info();
                let name = info.as_ref().and_then(|info| info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version)));
                Is::Up { version: link.version().map(|version| version.to_string()).unwrap_or_default(), name }
            }
            State::Down { why, until, failures } => {
                let wait = until.saturating_duration_since(Instant::now());
                Is::Down { why, retry_in_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), failures }
            }
        };
        Health { server: server.name.clone(), kind, enabled: self.is_on(server), trusted, is, tools: server.tools().len() }
    }

    fn keep_lists(&self) {
        let version = *self.changed.borrow();
        if self.kept.swap(version, Ordering::Relaxed) == version {
            return;
        }
        let servers = self.all();
        let mut lists = HashMap::new();
        for server in &servers {
            if let (Origin::Configured(config), State::Up(_)) = (&server.origin, server.state()) {
                lists.insert(server.name.clone(), (config, server.tools().iter().map(|entry| entry.tool.clone()).collect()));
            }
        }
        self.memory.keep_lists(lists);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.all().iter().for_each(|server| server.stop());
    }
}

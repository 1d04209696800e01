//! The MCP hub: every tool that a flow can call, wherever it runs, behind one list and one way to call.
//!
//! - [`config`]: which servers there are, from `mcp.json` files.
//! - `hub`: how a name leads to a server and a tool. `perform`: the hub as a world. `permission`, `private_text`: which calls a person must agree to.
//! - `server`: one connection each: made when somebody needs it, kept, made again. `stdio`, `http` and in-process under it, each with a limit
//!   on everything that is read (`bounded`); `auth`, `login` and `credentials` for those who want a person's yes.
//! - `call`: one call. `entry`: a tool and its schemas. [`repeatability`]: what doing it twice would mean. `reply`: results as evidence.
//! - `source`: a registry elsewhere whose tools are used beside one's own.
//! - [`import`]: servers from an official-style registry. `memory`: what is switched off, and the lists as they last were. [`search`]: which tools fit a question.
//!
//! Tools are called `server.tool`. Nothing here decides whether to call: the flow does, and the output of a tool is data.

#![warn(missing_docs)]

mod auth;
mod bounded;
mod call;
pub mod config;
mod credentials;
mod definition;
mod entry;
mod host;
mod http;
mod hub;
pub mod import;
mod judging;
mod login;
mod memory;
mod perform;
pub(crate) mod permission;
mod private_text;
mod program;
pub mod repeatability;
mod reply;
mod revocation;
pub mod search;
mod server;
mod source;
mod stdio;
#[cfg(test)]
mod tests;
mod tool_handler;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evidence::Trust;
use futures::future::BoxFuture;
use graph::{Failure, FailureKind};
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::watch;

pub use auth::Consent;
pub use call::CallOptions;
pub use config::{Config, ServerConfig};
pub use host::ServerRequestHandler;
pub use judging::Judge;
pub use login::{Login, state_of};
pub use reply::RESULT_BYTES_MAX;
pub use revocation::{Logout, Revocation};
pub use search::{Lexical, Rank};
pub use server::{Pace, Serve};
pub use source::{REGISTRY, RegistrySource, is_registry_at};
pub use tool_handler::{LIST, ToolHandler};

use hub::Hub;
use memory::Memory;
use server::{Origin, Server, State};

/// The hub. Clones are the same hub; when the last is gone, so are the connections and the children.
#[derive(Clone)]
pub struct Tools(Arc<Hub>);

/// A tool as planners and people see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolInfo {
    /// `server.tool`
    pub name: String,
    /// The name of its server.
    pub server: String,
    /// The title that the server gives it.
    pub title: Option<String>,
    /// What it does, as the server describes it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// The JSON schema of its structured output.
    pub output_schema: Option<Value>,
    /// What the server states about its effects.
    pub hints: Hints,
    /// Its server is built in or trusted by the user, so that its hints count.
    pub is_trusted: bool,
    /// Whether flows may call it.
    pub enabled: bool,
    /// Whether its server is connected, as far as is known.
    pub healthy: bool,
}

impl ToolInfo {
    /// Whether it changes nothing, according to a trusted server.
    pub fn is_read_only(&self) -> bool {
        self.is_trusted && self.hints.read_only == Some(true)
    }

    /// Whether it must be assumed to change or delete something. That is so unless a trusted server states otherwise, as MCP prescribes.
    pub fn is_destructive(&self) -> bool {
        let is_declared_harmless = self.hints.read_only == Some(true) || self.hints.destructive == Some(false);
        !self.is_trusted || !is_declared_harmless
    }
}

/// What the server states about a tool's effects; `None` if it states nothing. Only hints of trusted servers are used for decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may delete or overwrite.
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It reaches systems outside of the server.
    pub open_world: Option<bool>,
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// The server's name.
    pub server: String,
    /// Its transport.
    pub kind: Kind,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Whether its hints count.
    pub trusted: bool,
    /// The state of the connection.
    pub status: ServerStatus,
    /// Whether there are OAuth credentials for it.
    pub sign_in: SignIn,
    /// The number of its tools.
    pub tools: usize,
}

/// Whether an account signed in at a remote server with OAuth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// The server has not required it.
    None,
    /// The server refuses requests until a user signs in; see [`Tools::begin_login`].
    Needed,
    /// There are credentials.
    Done,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// In this process.
    Local,
}

/// The state of the connection to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerStatus {
    /// It was not needed yet.
    Idle,
    /// The connection is being opened.
    Connecting,
    /// It is connected.
    Up {
        /// The negotiated revision of MCP.
        version: String,
        /// The name that the server reports.
        name: Option<String>,
    },
    /// The last attempt failed.
    Down {
        /// The error of that attempt.
        why: String,
        /// Milliseconds until the next attempt.
        retry_in_ms: u64,
        /// Attempts that failed in a row.
        failures: u32,
    },
}

/// How long the first look at a list waits for servers that are still connecting.
const FIRST_LIST_MAX: Duration = Duration::from_secs(10);
/// The same for a registry: the hub has tools without it.
const REGISTRY_LIST_MAX: Duration = Duration::from_secs(2);

/// Collects the servers and options of [`Tools`].
#[derive(Default)]
pub struct Builder {
    servers: Vec<(String, Origin)>,
    memory: Option<PathBuf>,
    rank: Option<Box<dyn Rank>>,
    pace: Option<Pace>,
    request_handler: Option<Arc<dyn ServerRequestHandler>>,
    consent: Option<Arc<dyn Consent>>,
    credentials: Option<PathBuf>,
    off: BTreeSet<String>,
    reserved: BTreeSet<String>,
    imported: Vec<(String, ServerConfig)>,
}

impl Builder {
    /// Names that no imported server may have, whether or not there is such a server now.
    pub fn with_reserved<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.reserved.extend(names.into_iter().map(config::server_name));
        self
    }

    /// Servers that were imported. One with a reserved name, or with that of another server, is left out with a warning.
    pub fn with_imported(mut self, config: Config) -> Self {
        self.imported.extend(config.servers);
        self
    }

    /// Servers that are switched off at first.
    pub fn with_off(mut self, servers: &[&str]) -> Self {
        self.off.extend(servers.iter().map(|name| config::server_name(name)));
        self
    }

    /// Adds the servers of a configuration.
    pub fn with_config(mut self, config: Config) -> Self {
        self.servers.extend(config.servers.into_iter().map(|(name, server)| (name, Origin::Configured(server))));
        self
    }

    /// Adds one server.
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

    /// The file that stores what was switched off, and the lists of tools.
    pub fn with_memory(mut self, path: impl Into<PathBuf>) -> Self {
        self.memory = Some(path.into());
        self
    }

    /// Replaces the ranking of searches; by default [`Lexical`].
    pub fn with_rank(mut self, rank: impl Rank) -> Self {
        self.rank = Some(Box::new(rank));
        self
    }

    /// Replaces the timings of connections.
    pub fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Handles requests of servers to the client.
    pub fn with_request_handler(mut self, request_handler: impl ServerRequestHandler) -> Self {
        self.request_handler = Some(Arc::new(request_handler));
        self
    }

    /// Sets what asks a person for consent to remote servers that require it.
    pub fn with_consent(mut self, consent: impl Consent) -> Self {
        self.consent = Some(Arc::new(consent));
        self
    }

    /// Keeps the tokens of remote servers in this folder.
    pub fn with_credentials(mut self, folder: impl Into<PathBuf>) -> Self {
        self.credentials = Some(folder.into());
        self
    }

    /// Nothing is started by this.
    pub fn build(self) -> Tools {
        let hub = Hub {
            servers: RwLock::default(),
            memory: self.memory.map(Memory::open).unwrap_or_default(),
            rank: self.rank.unwrap_or_else(|| Box::new(Lexical)),
            pace: self.pace.unwrap_or_default(),
            request_handler: self.request_handler,
            consent: self.consent,
            credentials: self.credentials,
            off: self.off,
            reserved: self.reserved,
            changed: watch::Sender::new(1),
            snapshot: RwLock::default(),
            saved_version: AtomicU64::new(0),
            has_warned: AtomicBool::new(false),
        };
        for (name, origin) in self.servers {
            // What came first stays: a server in the user's own file goes before a built-in one of the same name.
            if source::RESERVED.contains(&name.as_str()) {
                tracing::warn!("the server {name} is not used: the name is Baton's own; give it another one in its configuration");
            } else if hub.own_server(&name).is_none() {
                hub.add(&name, origin);
            }
        }
        for (name, server) in self.imported {
            if hub.is_reserved(&name) {
                tracing::warn!("the imported server {name} is not used: the name belongs to another server");
            } else {
                hub.add(&name, Origin::Configured(server));
            }
        }
        Tools(Arc::new(hub))
    }
}

impl Tools {
    /// A builder without servers.
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

    /// The tools that are switched on, as MCP lists them, under their names here. For a server that passes them on. Those of a registry are not among them:
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

    /// A tool by its full name; an error if no server has it.
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
            self.0.memory.switch(name, server.definition(), is_on).map_err(cannot)?;
            if !is_on {
                server.stop();
            }
        } else if self.0.is_behind_registry(name) {
            self.0.memory.switch(name, None, is_on).map_err(cannot)?;
        } else {
            let (server, entry) = self.0.find(name).await?;
            self.0.memory.switch(&entry.name, server.definition(), is_on).map_err(cannot)?;
        }
        self.0.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// What was switched on or off, by name, as it is stored.
    pub fn switches(&self) -> std::collections::BTreeMap<String, Value> {
        self.0.memory.switches()
    }

    /// Puts other switches in place of all, as another process stored them. Servers that are off then are stopped.
    pub fn set_switches(&self, switches: &std::collections::BTreeMap<String, Value>) -> Result<(), String> {
        let were_on: Vec<_> = self.0.all().into_iter().filter(|server| self.0.is_on(server)).collect();
        self.0.memory.set_switches(switches)?;
        were_on.iter().filter(|server| !self.0.is_on(server)).for_each(|server| server.stop());
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

    /// Whether an imported server may not have this name: a server here has it, or it is kept for one that comes with Baton.
    pub fn is_reserved(&self, name: &str) -> bool {
        self.0.is_reserved(&config::server_name(name))
    }

    /// What a server is reached by, for a person who decides whether to turn it on. None for servers that are built in.
    pub fn reached_by(&self, server: &str) -> Option<String> {
        self.0.own_server(server)?.reached_by()
    }

    /// Does not wait for the next attempt at a server that is down.
    pub fn retry_now(&self, server: &str) {
        if let Some(server) = self.0.own_server(server) {
            server.retry_now();
        }
    }

    /// Changes whenever a tool or a server does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Learns what the servers in this process offer, so that what a call of theirs means is known before it is made. Others are
    /// known from the last time, or when somebody needs them.
    pub async fn list_local_tools(&self) {
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
    pub async fn list_registry_tools(&self) {
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

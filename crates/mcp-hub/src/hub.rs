//! What the hub holds, and how a name leads to a server and a tool of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use graph::{Failure, FailureKind};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::entry::Entry;
use super::memory::Memory;
use super::server::{Origin, Server, State};
use super::{Consent, Health, Hints, Kind, Pace, REGISTRY, Rank, ServerRequestHandler, ServerStatus, SignIn, ToolInfo, config, source};

pub(super) struct Hub {
    pub(super) servers: RwLock<BTreeMap<String, Arc<Server>>>,
    pub(super) memory: Memory,
    pub(super) rank: Box<dyn Rank>,
    pub(super) pace: Pace,
    pub(super) request_handler: Option<Arc<dyn ServerRequestHandler>>,
    pub(super) consent: Option<Arc<dyn Consent>>,
    /// Where tokens of remote servers are kept.
    pub(super) credentials: Option<PathBuf>,
    pub(super) off: BTreeSet<String>,
    pub(super) reserved: BTreeSet<String>,
    pub(super) changed: watch::Sender<u64>,
    /// The list as it was at a version.
    pub(super) snapshot: RwLock<Option<(u64, Vec<Arc<ToolInfo>>)>>,
    /// The version whose lists were written down.
    pub(super) saved_version: AtomicU64,
    /// It was logged that the registry cannot be reached.
    pub(super) has_warned: AtomicBool,
}

impl Hub {
    pub(super) fn add(&self, name: &str, origin: Origin) {
        let remembered = match &origin {
            Origin::Configured(config) => self.memory.list(name, config),
            Origin::Local { .. } => None,
        };
        let server = Server::new(
            name,
            origin,
            self.pace.clone(),
            self.request_handler.clone(),
            self.consent.clone(),
            self.credentials.as_deref(),
            self.changed.clone(),
        );
        server.remember(remembered.unwrap_or_default());
        self.servers.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(server));
    }

    pub(super) fn all(&self) -> Vec<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The server that tools called `name.…` come from: one here, or the registry that offers them.
    pub(super) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.own_server(name).or_else(|| self.own_server(REGISTRY).filter(|_| self.is_behind_registry(name)))
    }

    pub(super) fn own_server(&self, name: &str) -> Option<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn is_on(&self, server: &Server) -> bool {
        self.memory.switched(&server.name, server.definition().as_deref()).unwrap_or(match &server.origin {
            Origin::Configured(config) => config.enabled,
            Origin::Local { .. } => !self.off.contains(&server.name),
        })
    }

    pub(super) fn why_off(&self, server: &Server) -> String {
        let name = &server.name;
        match self.memory.is_changed(name, server.definition().as_deref()) {
            true => format!("the definition of the server {name} changed after it was switched on; check it, then `baton tools enable {name}`"),
            false => format!("the server {name} is switched off"),
        }
    }

    pub(super) fn is_reserved(&self, name: &str) -> bool {
        name == REGISTRY || source::RESERVED.contains(&name) || self.reserved.contains(name) || self.own_server(name).is_some()
    }

    pub(super) fn is_tool_on(&self, server: &Server, entry: &Entry) -> bool {
        let configured = match &server.origin {
            Origin::Configured(config) => !config.tools_disabled.contains(&*entry.tool.name),
            Origin::Local { .. } => true,
        };
        let behind = source::server_of(&entry.tool.name).filter(|_| server.is_registry());
        let is_server_on = behind.is_none_or(|behind| self.memory.switched(behind, None).unwrap_or(true));
        self.is_on(server) && is_server_on && self.memory.switched(&entry.name, server.definition().as_deref()).unwrap_or(configured)
    }

    /// What is known without asking anybody.
    pub(super) fn known(&self, name: &str) -> Option<(Arc<Server>, Arc<Entry>)> {
        let (server, tool) = name.split_once('.')?;
        let (server, tool) = match self.own_server(server) {
            Some(server) => (server, tool),
            // A registry's tools have whole names. A tool that is not on its list yet is not requested: nobody could have agreed to it.
            None => (self.own_server(REGISTRY)?, name),
        };
        let entry = server.tools().iter().find(|entry| entry.tool.name == tool)?.clone();
        Some((server, entry))
    }

    /// A registry has a server of this name, and this hub has none.
    pub(super) fn is_behind_registry(&self, name: &str) -> bool {
        let has = |registry: &Server| registry.tools().iter().any(|entry| source::server_of(&entry.tool.name) == Some(name));
        self.own_server(name).is_none() && self.own_server(REGISTRY).is_some_and(|registry| has(&registry))
    }

    /// A tool of a registry that is down, or of a registry's server that this hub has itself.
    pub(super) fn is_hidden(&self, server: &Server, entry: &Entry) -> bool {
        let is_here = || source::server_of(&entry.tool.name).is_none_or(|behind| self.own_server(behind).is_some());
        server.is_registry() && (matches!(server.state(), State::Down { .. }) || is_here())
    }

    /// Logs once that only this hub's own tools are used.
    pub(super) fn warn_without_registry(&self) {
        let Some(registry) = self.own_server(REGISTRY) else { return };
        if let State::Down { why, .. } = registry.state()
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            let url = registry.url().unwrap_or_default().trim_end_matches("/mcp");
            tracing::warn!("the registry {url} cannot be reached, so only the tools here are used: {why}");
        }
    }

    /// The tool with this name; the tools of its server are listed if they were not yet.
    pub(super) async fn find(&self, name: &str) -> Result<(Arc<Server>, Arc<Entry>), Failure> {
        if let Some(found) = self.known(name) {
            return Ok(found);
        }
        let refused = |message: String| Failure::new(FailureKind::Refused, message);
        let server = name.split_once('.').and_then(|(server, _)| self.server(server));
        let Some(server) = server else {
            let near = self.near(name);
            return Err(refused(format!("there is no tool {name:?}{near}")));
        };
        if !self.is_on(&server) {
            return Err(refused(self.why_off(&server)));
        }
        let link = server.link().await?;
        if self.known(name).is_none() {
            // It may be newer than our list.
            server.relist(&link).await?;
        }
        self.known(name).ok_or_else(|| refused(format!("the server {} has no tool {name:?}{}", server.name, self.near(name))))
    }

    pub(super) async fn find_enabled(&self, name: &str) -> Result<(Arc<Server>, Arc<Entry>), Failure> {
        let (server, entry) = self.find(name).await?;
        if !self.is_tool_on(&server, &entry) {
            return Err(Failure::new(FailureKind::Refused, format!("the tool {name} is switched off; `baton tools enable {name}` switches it on")));
        }
        Ok((server, entry))
    }

    /// `; did you mean …?`, if something is spelled much like it.
    pub(super) fn near(&self, name: &str) -> String {
        let names: Vec<String> =
            self.all().iter().flat_map(|server| server.tools().iter().map(|entry| entry.name.clone()).collect::<Vec<_>>()).collect();
        let alike =
            |known: &String| strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(name, known.split_once('.').map_or("", |(_, tool)| tool)));
        let best = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).filter(|best| alike(best) > 0.8);
        match best {
            Some(best) => format!("; did you mean {best}?"),
            None => "; `baton tools list` and the page's Tools list those that there are".to_owned(),
        }
    }

    pub(super) fn info(&self, server: &Server, entry: &Entry, healthy: bool) -> ToolInfo {
        let tool = &entry.tool;
        // A registry passes on what its servers say; none of it counts unless the user trusts the registry.
        let hints = tool.annotations.as_ref().filter(|_| !server.is_registry() || server.is_trusted());
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
            is_trusted: server.is_trusted(),
            enabled: self.is_tool_on(server, entry),
            healthy,
        }
    }

    pub(super) fn health(&self, server: &Server) -> Health {
        let (kind, trusted) = match &server.origin {
            Origin::Configured(config) => match config.reach {
                config::ServerTransport::Stdio { .. } => (Kind::Stdio, config.trusted),
                config::ServerTransport::Http { .. } => (Kind::Http, config.trusted),
            },
            Origin::Local { .. } => (Kind::Local, true),
        };
        let status = match server.state() {
            State::Idle => ServerStatus::Idle,
            State::Connecting => ServerStatus::Connecting,
            State::Up(link) => {
                let info = link.peer().peer_info();
                let name = info.as_ref().and_then(|info| info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version)));
                ServerStatus::Up { version: link.version().map(|version| version.to_string()).unwrap_or_default(), name }
            }
            State::Down { why, until, failures } => {
                let wait = until.saturating_duration_since(Instant::now());
                ServerStatus::Down { why, retry_in_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), failures }
            }
        };
        let sign_in = match &server.authorized {
            _ if server.needs_login.load(Ordering::Relaxed) => SignIn::Needed,
            Some(authorized) if authorized.credentials.is_kept() => SignIn::Done,
            _ => SignIn::None,
        };
        Health { server: server.name.clone(), kind, enabled: self.is_on(server), trusted, status, sign_in, tools: server.tools().len() }
    }

    pub(super) fn keep_lists(&self) {
        let version = *self.changed.borrow();
        if self.saved_version.swap(version, Ordering::Relaxed) == version {
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

#[cfg(test)]
mod tests {
    use evidence::Trust;
    use futures::FutureExt as _;

    use crate::{CallOptions, Config, ServerConfig, Tools};

    fn imported(name: &str, entry: &str) -> Config {
        let config = Config::parse(&format!(r#"{{"mcpServers": {{"{name}": {entry}}}}}"#), None, &|_| None).unwrap();
        assert!(config.remarks.is_empty(), "{:?}", config.remarks);
        config
    }

    #[tokio::test]
    async fn an_imported_server_takes_no_name_of_another() {
        let evil = r#"{"command": "evil"}"#;
        let hub = |name: &str| {
            let builder = Tools::builder().with_imported(imported(name, evil)).with_reserved(["files"]);
            let builder = builder.with_local("calc", Trust::Computed, |_| async {}.boxed());
            builder.with_server("orders", ServerConfig::http("https://orders.example")).build()
        };
        for name in ["files", "calc", "orders", "registry", "evidence"] {
            assert!(!hub(name).reached_by(name).is_some_and(|how| how.contains("evil")), "{name}");
            assert!(hub("notes").is_reserved(name), "{name}");
        }
        assert_eq!(hub("notes").reached_by("notes").as_deref(), Some("starts evil "));
    }

    #[tokio::test]
    async fn a_server_that_was_switched_on_is_off_when_another_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let hub = |entry: &str| {
            let memory = folder.path().join("tools.json");
            Tools::builder().with_imported(imported("notes", entry)).with_memory(memory).build()
        };
        let (first, other) = (r#"{"command": "a", "args": ["1.0"], "disabled": true}"#, r#"{"command": "a", "args": ["2.0"], "disabled": true}"#);
        let is_on = |entry: &str| hub(entry).health()[0].enabled;
        assert!(!is_on(first));
        hub(first).enable("notes", true).await.unwrap();
        assert!(is_on(first) && !is_on(other));
        let failure = hub(other).call("notes.add", &serde_json::Value::Null, &CallOptions::default()).await.unwrap_err();
        assert!(failure.message.contains("definition of the server notes changed"), "{failure}");
        hub(other).enable("notes", true).await.unwrap();
        assert!(is_on(other) && !is_on(first));
        hub(other).enable("notes", false).await.unwrap();
        assert!(!is_on(other) && !is_on(first));
    }
}

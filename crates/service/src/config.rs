//! The configuration file. Missing values have defaults, unknown ones are an error with their line.
//!
//! It is read from the user's configuration folder or from `--config`, and never from the current folder: a file in somebody's repository
//! could send the user's keys to another address.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agents::TeamAgent;
use flows::Specialist;
use models::{Endpoint, Name, Row, Table};
use serde::Deserialize;
use server::rights::Users;

use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub;
use crate::keys::Keys;
use crate::server_section::ServerSection;
use crate::settings::Configured;

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    model: Option<Name>,
    fallbacks: Vec<Name>,
    endpoints: BTreeMap<String, Endpoint>,
    models: BTreeMap<String, Row>,
    /// Section `[embedded]`.
    pub embedded: Embedded,
    /// Section `[tools]`.
    pub tools: Tools,
    /// Section `[memory]`.
    pub memory: Memory,
    /// Section `[store]`.
    pub store: crate::store_at::Section,
    /// External agents, by name.
    agents: BTreeMap<String, agents::Agent>,
    /// Section `[team]`.
    pub team: Team,
    /// Limits of `baton serve`; `baton serve --help` lists them. `[server.oidc]` is how people sign in.
    pub server: ServerSection,
    /// Rights and daily budgets of the users of `baton serve`, by name; `default` applies to users who are not named.
    users: server::rights::Tables,
    /// The same for groups of users.
    groups: server::rights::Tables,
    /// Section `[proxy]`.
    pub proxy: Proxy,
    /// Section `[notify]`.
    pub notify: Notify,
    /// Size limit of the audit log.
    pub audit: audit::Settings,
    /// `[flows.NAME]`: settings of a flow by name; `baton flows show NAME` lists them.
    flows: BTreeMap<String, serde_json::Value>,
    /// The settings from `flows` and `team`, checked.
    #[serde(skip)]
    pub settings: Configured,
    /// The path it was read from, if any.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// Keys that operators stored.
    #[serde(skip)]
    pub(crate) keys: Keys,
}

/// Section `[embedded]`: the model that runs in this process.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embedded {
    /// Download the weights when first needed.
    pub pull: bool,
    /// Where weights are kept [default: baton/models in the user's cache folder].
    folder: Option<PathBuf>,
    /// Idle time after which memory is freed.
    idle_s: u64,
    context_tokens_max: usize,
    /// The kernels of the model, and of the encoder of passages and of the verifier: auto, avx512, avx2, neon-dot, neon, scalar or candle [default: auto, the fastest one available].
    pub kernels: embedded_model::Kernels,
    /// Whether common prompt prefixes are cached in files beside the weights, so that a new process starts faster.
    pub keep_prefixes: bool,
}

/// Reverse proxies.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Proxy {
    /// Addresses and networks of trusted proxies, whose `X-Forwarded-For` is used.
    pub trusted: server::proxies::Proxies,
}

/// Where webhooks and push notifications may be sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// Addresses and networks that are not public and may be sent to; every user with a token can name any of them.
    pub networks: server::proxies::Proxies,
}

/// The tools a flow may call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Files of MCP servers, as other hosts write them [default: mcp.json in Baton's data folder].
    pub mcp: Vec<PathBuf>,
    /// The folder in which `files` and `code` work [default: one of Baton's own for each thread].
    pub root: Option<PathBuf>,
    /// Hosts that `fetch` may reach although their addresses are private.
    pub private_hosts: Vec<String>,
    /// Tools that may change things and need no approval: `server.tool`, or a whole `server`.
    pub allowed: Vec<String>,
    /// Tools that the users of `baton serve` other than the operator may call: `server.tool`, or a whole `server` [default: all, except
    /// files and code where `root` or `--workspace` names the operator's folder].
    pub users: Option<Vec<String>>,
    /// A registry whose tools are used too, as http://host:8021; "off" uses none [default: one that answers at http://localhost:8021].
    pub registry: Option<String>,
    /// Trust the registry's annotations: a tool that it marks as read-only may be called without asking.
    pub registry_trusted: bool,
    /// The environment variable with the registry's bearer token [default: BATON_REGISTRY_TOKEN].
    pub(crate) registry_token_env: Option<String>,
    /// Folders that `docs` searches, beside those of `--docs`.
    pub docs: Vec<PathBuf>,
    /// Section `[tools.code]`.
    pub code: tools::code::Settings,
    /// Section `[tools.document]`.
    pub document: Option<tools::document::Settings>,
    /// Section `[tools.mail]`.
    pub mail: Option<tools::mail::Settings>,
}

/// The team of `baton up`, and its knowledge of the user.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Team {
    /// The address for "mail it to me".
    pub me: Option<String>,
    /// Port of each agent of the team [default: researcher 8001, writer 8002, mailer 8003].
    pub ports: BTreeMap<String, u16>,
    /// Port of the registry [default: 8021].
    pub registry_port: Option<u16>,
    /// Port of the page [default: 8080].
    pub page_port: Option<u16>,
    /// Only these agents of the team are started [default: all].
    pub agents: Option<Vec<String>>,
    /// Whether agents of the team that listen on this machine are used without being configured [default: true].
    discover: Option<bool>,
    /// Seconds that one call of an agent may take; `agent_ms_max` of the flow `supervise`.
    pub(crate) agent_s_max: Option<u64>,
    /// How often an agent that cannot be reached is called; `attempts_max` of the flow `supervise`.
    pub(crate) attempts_max: Option<u32>,
    /// How often an agent that replies without completing its task is called again; `retries_max` of the flow `supervise`.
    pub(crate) retries_max: Option<u32>,
}

/// The registry's port in specification 000.
const REGISTRY_PORT: u16 = 8021;

impl Team {
    /// Port of a team's agent on this machine. The configuration may use any of its names.
    pub fn port(&self, one: &Specialist) -> u16 {
        let configured = self.ports.iter().find(|(name, _)| one.is_named(name));
        configured.map_or(one.port, |(_, port)| *port)
    }

    /// The port of the team's registry.
    pub fn registry_port(&self) -> u16 {
        self.registry_port.unwrap_or(REGISTRY_PORT)
    }

    /// Whether `baton up` starts it.
    pub fn has(&self, one: &Specialist) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.iter().any(|name| one.is_named(name)))
    }
}

/// What is kept between runs.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Days after which notes are dropped; 0 keeps none.
    days: u32,
    /// Days without use after which conversations are deleted; 0 keeps them.
    pub conversation_days: u32,
    /// Uploaded documents are deleted after so many days; 0 keeps them.
    pub upload_days: u32,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { days: 30, conversation_days: 0, upload_days: 0 }
    }
}

const DAY_MS: i64 = 86_400_000;

impl Memory {
    pub(crate) fn notes_ms(&self) -> i64 {
        i64::from(self.days) * DAY_MS
    }

    /// How old an uploaded document may become, if there is a limit.
    pub(crate) fn uploads_age_max(&self) -> Option<Duration> {
        (self.upload_days > 0).then(|| Duration::from_secs(u64::from(self.upload_days) * 86_400))
    }

    pub(crate) fn threads_ms(&self) -> i64 {
        i64::from(self.conversation_days) * DAY_MS
    }
}

impl Default for Embedded {
    fn default() -> Self {
        let embedded_model::Options { idle_max, context_tokens_max, kernels, keeps_prefixes, .. } = embedded_model::Options::default();
        Embedded { pull: true, folder: None, idle_s: idle_max.as_secs(), context_tokens_max, kernels, keep_prefixes: keeps_prefixes }
    }
}

impl Config {
    /// Reads the file of `--config`, or the usual one if it exists.
    pub fn read(globals: &GlobalArgs) -> Result<Config> {
        let keys = Keys::below(&hub::folder(globals)?);
        let usual = dirs::config_dir().map(|folder| folder.join("baton").join("baton.toml")).filter(|path| path.exists());
        let Some(path) = globals.config.clone().or(usual) else { return Ok(Config { keys, ..Config::empty(globals) }) };
        let wrong = |why: String| ServiceError::Usage(format!("the configuration {} {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let config: Config = toml::from_str(&text).map_err(|error| wrong(format!("is wrong: {error}")))?;
        Users::new(config.users.clone(), config.groups.clone()).map_err(|error| wrong(format!("is wrong: {error}")))?;
        let settings = Configured::new(&globals.flows, &config.flows, &config.team).map_err(|error| wrong(format!("is wrong: {error}")))?;
        config.embedded.set_encoder_kernel();
        Ok(Config { path: Some(path), settings, keys, ..config })
    }

    fn empty(globals: &GlobalArgs) -> Config {
        Config { settings: Configured::empty(&globals.flows), ..Config::default() }
    }

    /// The configuration of a run. Where a script replaces models and tools, the user's default file is not read; one named explicitly is.
    pub fn for_run(globals: &GlobalArgs) -> Result<Config> {
        if globals.script.is_some() && globals.config.is_none() { Ok(Config::empty(globals)) } else { Config::read(globals) }
    }

    /// What users may do and spend. Checked when the file was read.
    pub fn users(&self) -> Result<Users> {
        Users::new(self.users.clone(), self.groups.clone()).map_err(ServiceError::Usage)
    }

    /// External agents: configured ones, those of the team whose address is in the environment, and those found on their default ports on
    /// this machine.
    pub fn agents(&self) -> Result<agents::Agents> {
        let as_agent = |one: &Specialist| TeamAgent {
            name: one.flow.to_owned(),
            capability: one.capability.to_owned(),
            aliases: one.aliases.iter().map(|&alias| alias.to_owned()).collect(),
            port: self.team.discover.unwrap_or(true).then(|| self.team.port(one)),
        };
        let team: Vec<TeamAgent> = self.settings.registry().specialists().iter().map(as_agent).collect();
        agents::Agents::new(&self.agents, &team, &|name| self.key(name)).map_err(ServiceError::Usage)
    }

    /// A key of a model, a tool or an agent: from the environment, or as an operator stored it.
    pub fn key(&self, name: &str) -> Option<String> {
        self.keys.find(name)
    }

    /// Endpoints and models, with built-in rows and the environment.
    pub fn table(&self) -> Table {
        let own =
            Table { model: self.model.clone(), fallbacks: self.fallbacks.clone(), endpoints: self.endpoints.clone(), models: self.models.clone() };
        own.with_defaults().with_environment(&env)
    }
}

impl Embedded {
    /// The folder of the weights.
    pub fn folder(&self) -> Result<PathBuf> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        let cache = dirs::cache_dir()
            .ok_or_else(|| ServiceError::Usage("this user has no cache folder; name one in the configuration: [embedded] folder = \"…\"".into()))?;
        Ok(cache.join("baton").join("models"))
    }

    /// Makes vectors of passages and the verifier use the same instructions as the model. `neon` and `candle` are sets of the model only.
    fn set_encoder_kernel(&self) {
        let name = match self.kernels {
            embedded_model::Kernels::Auto | embedded_model::Kernels::Candle => return,
            embedded_model::Kernels::NeonDot | embedded_model::Kernels::Neon | embedded_model::Kernels::Scalar => "portable",
            chosen => chosen.name(),
        };
        let kernel = encoder::Kernel::available().into_iter().find(|kernel| kernel.name() == name);
        if !kernel.is_some_and(encoder::Kernel::set_for_process) {
            tracing::warn!(
                kernels = name,
                "the encoder keeps its kernel: this processor does not have the one of the configuration, or it is in use"
            );
        }
    }

    /// The options of the embedded model.
    pub fn options(&self) -> embedded_model::Options {
        embedded_model::Options {
            idle_max: Duration::from_secs(self.idle_s.max(1)),
            context_tokens_max: self.context_tokens_max,
            kernels: self.kernels,
            keeps_prefixes: self.keep_prefixes,
            ..embedded_model::Options::default()
        }
    }
}

/// A variable of the environment. Where `NAME` is not set, `NAME_FILE` may name a file whose first line it is.
pub fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().or_else(|| {
        let path = PathBuf::from(std::env::var_os(format!("{name}_FILE"))?);
        match std::fs::read_to_string(&path) {
            Ok(text) => text.lines().next().map(|line| line.trim().to_owned()),
            Err(error) => {
                tracing::error!("{name}_FILE names {}, which cannot be read: {error}", path.display());
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_an_error_with_its_line() {
        let error = toml::from_str::<Config>("model = \"extract\"\nmodle = 1\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("modle"), "{error}");
        let error = toml::from_str::<Config>("[embedded]\nkernels = \"sse\"\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("avx2"), "{error}");
        let config: Config = toml::from_str("[embedded]\nkernels = \"scalar\"\n").unwrap();
        assert_eq!(config.embedded.options().kernels, embedded_model::Kernels::Scalar);
        let config: Config = toml::from_str("model = \"ollama/q\"\n[embedded]\npull = false\n").unwrap();
        let error = toml::from_str::<Config>("[server]\nruns_max = 0\n").unwrap_err().to_string();
        assert!(error.contains("[server]: runs_max is an integer from 1 to 100000, not 0"), "{error}");
        let error = toml::from_str::<Config>("[server]\nruns = 1\n").unwrap_err().to_string();
        assert!(error.contains("there is no limit \"runs\"; there are: requests_per_second_max"), "{error}");
        assert!(!config.embedded.pull && config.table().model.is_some_and(|name| name.to_string() == "ollama/q"));
    }
}

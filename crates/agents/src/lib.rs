//! Agents in other processes: discovers, describes and calls them over [`langserve`], LangGraph, A2A or OpenAI's chat completions.
//!
//! Flows call one as `langserve/NAME`, a prefix that no local flow has. This crate handles two effects:
//!
//! - the tool `registry.agents`: the agents and what each can do, from the configuration, their own descriptions and their health. It is an
//!   effect like any other, so that a plan is replayed with the agents it was made for;
//! - `CallAgent` for those names.
//!
//! Addresses come only from the configuration and the environment, never from the output of a model or a tool.
//! Agents of the team that are not configured are looked for at their default ports of this machine each time agents are listed. A service there
//! counts as an agent if its description names the capability, or if it is a LangServe graph whose input schema has messages.

#![warn(missing_docs)]

mod a2a;
mod exchange;
mod langgraph;
pub mod langserve;
mod openai;
mod report;
pub mod traceparent;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use evidence::Found;
use futures::future::join_all;
use graph::{Effect, Failure, FailureKind, Job, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use wire::langserve::Capability;

use effects::{EffectHandler, Progress, Repeatability};
use langserve::{Proof, Service};

/// The tool that lists agents.
pub use effects::AGENT_LIST_TOOL as LIST;
/// The prefix of agents behind LangServe.
pub const PREFIX: &str = "langserve/";
/// The prefix of discovered agents that may ignore the idempotency key. The name is in the run's journal, so that after a crash a person
/// is asked before such an agent is called again.
const ONCE_PREFIX: &str = "langserve-once/";

/// The prefix of graphs on LangGraph servers.
const GRAPH_PREFIX: &str = "langgraph/";

/// The prefix of agents with an A2A card.
const A2A_PREFIX: &str = "a2a/";

/// The prefix of agents that answer OpenAI's chat completions.
const OPENAI_PREFIX: &str = "openai/";

/// The protocol of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A graph served by LangServe.
    #[default]
    LangServe,
    /// A graph on a LangGraph server.
    LangGraph,
    /// An agent with an A2A card.
    A2a,
    /// An agent that answers OpenAI's chat completions.
    OpenAi,
}

/// An agent, as the configuration names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Its address: `http://localhost:8001`. Empty: the local flow of that name is used.
    pub url: String,
    /// `langserve`, `langgraph` for a graph on a LangGraph server, `a2a`, or `openai` for an agent that answers chat completions.
    pub protocol: Protocol,
    /// The path its graph is served at; on a LangGraph server the name of the graph or the id of the assistant; for A2A the path
    /// below which the agent's card is; for OpenAI the path below which `chat/completions` is, `v1` by default.
    pub path: Option<String>,
    /// For A2A, where it takes requests over gRPC: `http://localhost:50051`. Its card is still read at `url`.
    pub grpc_url: Option<String>,
    /// For OpenAI, the model that is asked for; by default the name of the agent.
    pub model: Option<String>,
    /// What it can do; by default the capabilities in its description, or its name.
    pub capabilities: Vec<String>,
    /// A description for the planner, one line.
    pub about: String,
    /// The environment variable that holds its bearer token.
    pub token_env: Option<String>,
    /// A second call does harm, and the agent ignores the idempotency key that Baton sends. After a crash a person is asked before it is called again.
    pub once: bool,
}

/// An agent of the team, which need not be configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamAgent {
    /// The name by which flows call it.
    pub name: String,
    /// What it can do, in one word of the planner's vocabulary.
    pub capability: String,
    /// Other names of it or of its capability.
    pub aliases: Vec<String>,
    /// The port of this machine where it is looked for if it has no address; `None`: it is not looked for.
    pub port: Option<u16>,
}

impl TeamAgent {
    /// Whether a name means this agent or what it can do, however it is spelled.
    fn is_called(&self, name: &str) -> bool {
        let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
        let wanted = plain(name);
        [&self.name, &self.capability].into_iter().chain(&self.aliases).any(|known| plain(known) == wanted)
    }
}

/// The effect handler for agents. Cheap to clone.
#[derive(Clone)]
pub struct Agents(Arc<Vec<KnownAgent>>);

struct KnownAgent {
    name: String,
    agent: Agent,
    service: Remote,
    /// The agent of the team that it is, if it is one.
    role: Option<TeamAgent>,
    /// It has no configured address and was looked for at its default port.
    is_discovered: bool,
}

/// An agent behind its protocol.
enum Remote {
    LangServe(Service),
    LangGraph(langgraph::Graph),
    A2a(Box<a2a::Agent>),
    OpenAi(openai::Agent),
}

impl Remote {
    fn of(name: &str, agent: &Agent, token: Option<String>) -> Result<Remote, String> {
        if agent.grpc_url.is_some() && agent.protocol != Protocol::A2a {
            return Err("grpc_url is for agents of protocol = \"a2a\"".to_owned());
        }
        if agent.model.is_some() && agent.protocol != Protocol::OpenAi {
            return Err("model is for agents of protocol = \"openai\"".to_owned());
        }
        match agent.protocol {
            Protocol::LangServe => Service::new(&agent.url, agent.path.as_deref().unwrap_or("graph"), token).map(Remote::LangServe),
            Protocol::LangGraph => {
                langgraph::Graph::new(&agent.url, agent.path.as_deref().unwrap_or(langgraph::ASSISTANT), token).map(Remote::LangGraph)
            }
            Protocol::A2a => {
                let path = agent.path.as_deref().unwrap_or_default();
                a2a::Agent::new(&agent.url, path, agent.grpc_url.as_deref(), token).map(|agent| Remote::A2a(Box::new(agent)))
            }
            Protocol::OpenAi => {
                let path = agent.path.as_deref().unwrap_or(openai::PATH);
                openai::Agent::new(&agent.url, path, agent.model.as_deref().unwrap_or(name), token).map(Remote::OpenAi)
            }
        }
    }

    fn prefix(&self) -> &'static str {
        match self {
            Remote::LangServe(_) => PREFIX,
            Remote::LangGraph(_) => GRAPH_PREFIX,
            Remote::A2a(_) => A2A_PREFIX,
            Remote::OpenAi(_) => OPENAI_PREFIX,
        }
    }

    fn address(&self) -> String {
        match self {
            Remote::LangServe(service) => service.address(),
            Remote::LangGraph(graph) => graph.address(),
            Remote::A2a(agent) => agent.address(),
            Remote::OpenAi(agent) => agent.address(),
        }
    }

    async fn describe(&self) -> Result<Option<wire::langserve::Description>, String> {
        let described = match self {
            Remote::LangServe(service) => service.describe().await,
            Remote::LangGraph(graph) => graph.describe().await,
            Remote::A2a(agent) => agent.describe().await,
            Remote::OpenAi(agent) => agent.describe().await,
        };
        Ok(described?.map(shorten))
    }
}

const NAME_CHARS_MAX: usize = 100;
const ABOUT_CHARS_MAX: usize = 400;
const CAPABILITIES_MAX: usize = 20;

/// A description is shown to users and models, so it is cut and invisible characters are removed.
fn shorten(description: wire::langserve::Description) -> wire::langserve::Description {
    let short = |text: &str, chars_max: usize| -> String { evidence::visible(text).chars().take(chars_max).collect() };
    let capability = |one: Capability| Capability { name: short(&one.name, NAME_CHARS_MAX), about: short(&one.about, ABOUT_CHARS_MAX) };
    wire::langserve::Description {
        name: short(&description.name, NAME_CHARS_MAX),
        about: short(&description.about, ABOUT_CHARS_MAX),
        capabilities: description.capabilities.into_iter().filter(|one| !one.name.is_empty()).take(CAPABILITIES_MAX).map(capability).collect(),
    }
}

/// How long an agent at a known address may take to describe itself.
const DESCRIBE_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a service at a default port may take to describe itself. All ports are tried at once.
const DISCOVER_TIME_MAX: Duration = Duration::from_millis(300);

impl Agents {
    /// The configured agents and those of the team; environment variables such as `RESEARCHER_SERVICE_URL` override addresses.
    pub fn new(configured: &BTreeMap<String, Agent>, team: &[TeamAgent], env: &dyn Fn(&str) -> Option<String>) -> Result<Agents, String> {
        let mut all = configured.clone();
        for one in team {
            if !configured.keys().any(|name| one.is_called(name)) {
                all.entry(one.name.clone()).or_default();
            }
        }
        let mut known = Vec::new();
        for (name, mut agent) in all {
            let role = team.iter().find(|one| one.is_called(&name)).cloned();
            let aliases = role.iter().flat_map(|role| std::iter::once(&role.name).chain(&role.aliases));
            let mut variables = std::iter::once(&name).chain(aliases).flat_map(|name| variables(name));
            if let Some(url) = variables.find_map(|variable| env(&variable).filter(|url| !url.trim().is_empty())) {
                agent.url = url.trim().to_owned();
            }
            let mut is_discovered = false;
            if agent.url.is_empty() {
                let Some(port) = role.as_ref().and_then(|role| role.port).filter(|_| !configured.contains_key(&name)) else { continue };
                agent.url = format!("http://127.0.0.1:{port}");
                is_discovered = true;
            }
            let token = match &agent.token_env {
                Some(variable) => Some(env(variable).ok_or_else(|| format!("the agent {name} needs a token: {variable} is not set"))?),
                None => None,
            };
            let service = Remote::of(&name, &agent, token).map_err(|why| format!("the agent {name}: {why}"))?;
            known.push(KnownAgent { name, agent, service, role, is_discovered });
        }
        // Configured agents come before discovered ones.
        known.sort_by_key(|known| known.is_discovered);
        Ok(Agents(Arc::new(known)))
    }

    /// The names of all agents that have an address.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|known| known.name.as_str()).collect()
    }

    fn find(&self, called: &str) -> Option<&KnownAgent> {
        let name = [PREFIX, ONCE_PREFIX, GRAPH_PREFIX, A2A_PREFIX, OPENAI_PREFIX].iter().find_map(|prefix| called.strip_prefix(prefix))?;
        self.0.iter().find(|known| known.name == name)
    }

    /// All agents with their addresses. Services at default ports are checked first.
    pub async fn list(&self) -> Found {
        let each = join_all(self.0.iter().map(KnownAgent::entries)).await;
        let agents: Vec<Value> = each.into_iter().flatten().collect();
        let text = |agent: &Value, name: &str| agent[name].as_str().unwrap_or_default().to_owned();
        let lines: Vec<String> =
            agents.iter().map(|agent| format!("{}: {} ({})", text(agent, "name"), text(agent, "capability"), text(agent, "why"))).collect();
        Found { text: lines.join("\n"), data: json!({ "agents": agents }), spans: Vec::new() }
    }
}

/// The variables of the environment that may say where an agent is: `RESEARCHER_SERVICE_URL`, `DOCUMENT_CREATOR_SERVICE_URL`.
fn variables(name: &str) -> Vec<String> {
    let mut snake_case = String::new();
    for c in name.chars() {
        if c.is_uppercase() && snake_case.chars().last().is_some_and(char::is_lowercase) {
            snake_case.push('_');
        }
        snake_case.push(if c == '-' { '_' } else { c });
    }
    let mut all: Vec<String> = [name.replace('-', "_"), snake_case].iter().map(|name| format!("{}_SERVICE_URL", name.to_uppercase())).collect();
    all.dedup();
    all
}

impl KnownAgent {
    /// One entry for each of its capabilities.
    async fn entries(&self) -> Vec<Value> {
        match (self.is_discovered, &self.role) {
            (true, Some(role)) => self.discover(role).await.into_iter().collect(),
            _ => self.described().await,
        }
    }

    /// An agent of the team at its default port, if there is one: nothing but what that agent can do is taken from it.
    async fn discover(&self, role: &TeamAgent) -> Option<Value> {
        let is_wanted = |capability: &str| role.is_called(capability);
        let proved = async {
            // A closed port, which is the usual case, is detected without an HTTP client.
            TcpStream::connect(self.service.address()).await.ok()?;
            match &self.service {
                Remote::LangServe(service) => service.prove(&is_wanted).await,
                Remote::LangGraph(_) | Remote::A2a(_) | Remote::OpenAi(_) => None,
            }
        };
        let proof = tokio::time::timeout(DISCOVER_TIME_MAX, proved).await.ok()??;
        let (prefix, about) = match proof {
            Proof::Described { about } => (PREFIX, about),
            Proof::TakesMessages => (ONCE_PREFIX, String::new()),
        };
        Some(json!({
            "capability": role.capability,
            "name": self.name,
            "agent": format!("{prefix}{}", self.name),
            "about": about,
            "address": self.service.address(),
            "healthy": true,
            "why": format!("found at {}", self.service.address()),
        }))
    }

    async fn described(&self) -> Vec<Value> {
        let described = tokio::time::timeout(DESCRIBE_TIME_MAX, self.service.describe()).await;
        let (description, why) = match described {
            Ok(Ok(description)) => (description, None),
            Ok(Err(why)) => (None, Some(why)),
            Err(_) => (None, Some(format!("no answer within {} s", DESCRIBE_TIME_MAX.as_secs()))),
        };
        let mut capabilities: Vec<Capability> =
            self.agent.capabilities.iter().map(|name| Capability { name: name.clone(), about: self.agent.about.clone() }).collect();
        let described = description.map(|description| description.capabilities).unwrap_or_default();
        for capability in &mut capabilities {
            if capability.about.is_empty()
                && let Some(same) = described.iter().find(|other| other.name == capability.name)
            {
                capability.about.clone_from(&same.about);
            }
        }
        if capabilities.is_empty() {
            capabilities = described;
        }
        if capabilities.is_empty() {
            // Neither its description nor the configuration names a capability: its name is used.
            let name = self.role.as_ref().map_or(&self.name, |role| &role.capability).clone();
            capabilities.push(Capability { name, about: self.agent.about.clone() });
        }
        let member = |capability: Capability| {
            json!({
                "capability": capability.name,
                "name": self.name,
                "agent": format!("{}{}", self.service.prefix(), self.name),
                "about": capability.about,
                "address": self.service.address(),
                "healthy": why.is_none(),
                "why": why.as_deref().unwrap_or("it answers"),
            })
        };
        capabilities.into_iter().map(member).collect()
    }
}

/// Whether calling it twice may do harm. Runs on LangGraph servers and tasks of A2A agents are found again instead.
fn is_once(known: &KnownAgent, called: &str) -> bool {
    let is_repeated = matches!(known.agent.protocol, Protocol::LangServe | Protocol::OpenAi);
    (known.agent.once && is_repeated) || called.starts_with(ONCE_PREFIX)
}

#[async_trait]
impl EffectHandler for Agents {
    fn repeatability(&self, job: &Job) -> Repeatability {
        let name = job.effect.name();
        match self.find(name) {
            Some(known) if is_once(known, name) => Repeatability::Once,
            _ => Repeatability::Repeatable,
        }
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        match &*job.effect {
            Effect::CallTool(call) if call.tool == LIST => serde_json::to_value(self.list().await)
                .map_or_else(|error| Reply::failed(Failure::new(FailureKind::Internal, error.to_string())), Reply::ok),
            Effect::CallAgent(call) => match self.find(&call.agent) {
                Some(known) => {
                    let reply = match &known.service {
                        Remote::LangServe(service) => service.invoke(&known.name, &call.input, job).await,
                        Remote::OpenAi(agent) => agent.call(&known.name, &call.input, job, progress).await,
                        // Its run is found by the key, so a second call does no harm.
                        Remote::LangGraph(graph) => return graph.call(&known.name, &call.input, job, progress).await,
                        Remote::A2a(agent) => return agent.call(&known.name, &call.input, job, progress).await,
                    };
                    // It is unknown whether the call was started; if a second call does harm, it must not be retried automatically.
                    match reply {
                        Reply { result: Err(failure), .. } if is_once(known, &call.agent) && failure.kind == FailureKind::Network => {
                            Reply::failed(Failure::new(FailureKind::InDoubt, format!("{}; it may have started", failure.message)))
                        }
                        reply => reply,
                    }
                }
                None => {
                    let message = format!("there is no agent {:?}; there are {}", call.agent, self.names().join(", "));
                    Reply::failed(Failure::new(FailureKind::Refused, message))
                }
            },
            other => Reply::failed(Failure::new(FailureKind::Refused, format!("no handler for {} {:?}", other.kind(), other.name()))),
        }
    }

    async fn abandon(&self, job: &Job) {
        let Effect::CallAgent(call) = &*job.effect else { return };
        let Some(known) = self.find(&call.agent) else { return };
        let stopped = match &known.service {
            // LangServe and chat completions have no way to stop a call; the connection was closed.
            Remote::LangServe(_) | Remote::OpenAi(_) => return,
            Remote::LangGraph(graph) => graph.cancel(&known.name, &call.input, job).await,
            Remote::A2a(agent) => agent.cancel(&known.name, &call.input, job).await,
        };
        if let Err(failure) = stopped {
            tracing::warn!(agent = known.name, "its work for a run that has ended could not be stopped: {}", failure.message);
        }
    }
}

//! Agents that are other people's processes, or ours: found, described, and called over the protocol they speak. Today that is [`langserve`].
//!
//! Flows call one as `langserve/NAME`, which no local flow is called. Two things are answered here:
//!
//! - the tool `registry.agents`: who there is and what each can do, as far as the configuration, the agents themselves and their health say. It is an
//!   effect like any other, so that a plan can be replayed with the team it was made for;
//! - `CallAgent` for those names.
//!
//! Where an agent is, is the user's to say, in the configuration or the environment; nothing that a model or a tool said becomes an address.

pub mod langserve;

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
use wire::langserve::Capability;

use crate::{Nature, Progress, World};
use langserve::Service;

/// The tool that lists agents.
pub const LIST: &str = "registry.agents";
/// What names of agents behind LangServe begin with.
pub const PREFIX: &str = "langserve/";

/// An agent, as the configuration names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Where it listens: `http://localhost:8001`. Empty: the flow of that name here does the work.
    pub url: String,
    /// The path its graph is served at.
    pub path: Option<String>,
    /// What it can do; by default what it says itself, or what it is called.
    pub capabilities: Vec<String>,
    /// A line for whoever plans.
    pub about: String,
    /// The variable of the environment that holds its bearer token.
    pub token_env: Option<String>,
    /// Calling it twice does harm, and it does not know the idempotency key that Baton sends along. After a crash a person is asked then.
    pub once: bool,
}

/// The room of the world that agents are in. Cheap to clone.
#[derive(Clone)]
pub struct Agents(Arc<Vec<Known>>);

struct Known {
    name: String,
    agent: Agent,
    service: Service,
}

/// How long somebody may take to say who they are.
const LOOK: Duration = Duration::from_secs(3);

impl Agents {
    /// Those of the configuration, at the addresses that the environment says (`RESEARCHER_SERVICE_URL`). `usual` are names that need not be configured.
    pub fn new(configured: &BTreeMap<String, Agent>, usual: &[&str], env: &dyn Fn(&str) -> Option<String>) -> Result<Agents, String> {
        let mut all = configured.clone();
        for name in usual {
            all.entry((*name).to_owned()).or_default();
        }
        let mut known = Vec::new();
        for (name, mut agent) in all {
            let variable = format!("{}_SERVICE_URL", name.to_uppercase().replace('-', "_"));
            if let Some(url) = env(&variable).filter(|url| !url.trim().is_empty()) {
                agent.url = url.trim().to_owned();
            }
            if agent.url.is_empty() {
                continue;
            }
            let token = match &agent.token_env {
                Some(variable) => Some(env(variable).ok_or_else(|| format!("the agent {name} wants its token from {variable}, which is not set"))?),
                None => None,
            };
            let service =
                Service::new(&agent.url, agent.path.as_deref().unwrap_or("graph"), token).map_err(|why| format!("the agent {name}: {why}"))?;
            known.push(Known { name, agent, service });
        }
        Ok(Agents(Arc::new(known)))
    }

    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|known| known.name.as_str()).collect()
    }

    fn find(&self, called: &str) -> Option<&Known> {
        let name = called.strip_prefix(PREFIX)?;
        self.0.iter().find(|known| known.name == name)
    }

    async fn list(&self) -> Found {
        let each = join_all(self.0.iter().map(Known::members)).await;
        let agents: Vec<Value> = each.into_iter().flatten().collect();
        let text = |agent: &Value, name: &str| agent[name].as_str().unwrap_or_default().to_owned();
        let lines: Vec<String> =
            agents.iter().map(|agent| format!("{}: {} ({})", text(agent, "name"), text(agent, "capability"), text(agent, "why"))).collect();
        Found { text: lines.join("\n"), data: json!({ "agents": agents }), spans: Vec::new() }
    }
}

impl Known {
    /// One line for each thing it can do.
    async fn members(&self) -> Vec<Value> {
        let looked = tokio::time::timeout(LOOK, self.service.describe()).await;
        let (description, why) = match looked {
            Ok(Ok(description)) => (description, None),
            Ok(Err(why)) => (None, Some(why)),
            Err(_) => (None, Some(format!("no word within {} s", LOOK.as_secs()))),
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
            // It does not say, and nobody else does: it can do what it is called.
            let name = usual_capability(&self.name).to_owned();
            capabilities.push(Capability { name, about: self.agent.about.clone() });
        }
        let member = |capability: Capability| {
            json!({
                "capability": capability.name,
                "name": self.name,
                "agent": format!("{PREFIX}{}", self.name),
                "about": capability.about,
                "healthy": why.is_none(),
                "why": why.as_deref().unwrap_or("it answers"),
            })
        };
        capabilities.into_iter().map(member).collect()
    }
}

/// What the agents of the team are for, where one of them is down and cannot say so itself.
fn usual_capability(name: &str) -> &str {
    match name {
        "researcher" => "research",
        "writer" => "create_document",
        "mailer" => "send_mail",
        other => other,
    }
}

#[async_trait]
impl World for Agents {
    fn nature(&self, job: &Job) -> Nature {
        match self.find(job.effect.name()) {
            Some(known) if known.agent.once => Nature::Once,
            _ => Nature::Repeatable,
        }
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        match &*job.effect {
            Effect::CallTool(call) if call.tool == LIST => serde_json::to_value(self.list().await)
                .map_or_else(|error| Reply::failed(Failure::new(FailureKind::Internal, error.to_string())), Reply::ok),
            Effect::CallAgent(call) => match self.find(&call.agent) {
                Some(known) => {
                    let reply = known.service.invoke(&known.name, &call.input, job).await;
                    // Whether it began, nobody can tell; where that matters the machine must not try again.
                    match reply {
                        Reply { result: Err(failure), .. } if known.agent.once && failure.kind == FailureKind::Network => {
                            Reply::failed(Failure::new(FailureKind::InDoubt, format!("{}; it may have begun", failure.message)))
                        }
                        reply => reply,
                    }
                }
                None => {
                    let words = format!("there is no agent {:?}; there are {}", call.agent, self.names().join(", "));
                    Reply::failed(Failure::new(FailureKind::Refused, words))
                }
            },
            other => Reply::failed(Failure::new(FailureKind::Refused, format!("nobody here answers {} {:?}", other.kind(), other.name()))),
        }
    }
}

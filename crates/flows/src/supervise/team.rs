//! The available agents: local flows and agents known to the host.
//!
//! Listing agents is an effect, as it is for tools, so that a plan is replayed with the team it was made for. A configured agent replaces
//! the local flow for the same capability, even while it does not respond: it may respond later, and otherwise its failure must be reported and
//! not hidden.

use graph::{Failure, FailureKind, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::registry::Registry;

/// The tool that lists agents.
pub const REGISTRY: &str = "registry.agents";
const DEADLINE_MS: u64 = 15_000;
const MEMBERS_MAX: usize = 32;
const ABOUT_CHARS_MAX: usize = 200;
const NAME_CHARS_MAX: usize = 64;
const ADDRESS_CHARS_MAX: usize = 100;

pub(super) fn ask() -> Request {
    Request::from(graph::tool(REGISTRY, json!({}))).label("listing the agents").attempts(2).deadline_ms(DEADLINE_MS)
}

/// An agent and one of its capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name in a plan.
    pub capability: String,
    /// The value of `next`.
    pub name: String,
    /// The agent to call.
    pub agent: String,
    /// Its description.
    #[serde(default)]
    pub about: String,
    /// Where it listens, as `host:port`; empty for a flow of this process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// It responded at the last check.
    #[serde(default = "yes")]
    pub healthy: bool,
}

impl Member {
    /// Its name, with where it listens if that is elsewhere: `researcher at 127.0.0.1:8001`.
    pub(super) fn name_and_address(&self) -> String {
        if self.address.is_empty() { self.name.clone() } else { format!("{} at {}", self.name, self.address) }
    }
}

fn yes() -> bool {
    true
}

/// The local flows that serve as agents.
pub(super) fn local(registry: &Registry) -> Vec<Member> {
    let member = |capability: &str, agent: &str, about: &str| Member {
        capability: capability.to_owned(),
        name: agent.to_owned(),
        agent: agent.to_owned(),
        about: about.to_owned(),
        address: String::new(),
        healthy: true,
    };
    registry.specialists().iter().map(|one| member(one.capability, one.flow, one.about)).collect()
}

/// The local flows, replaced or extended by the agents that the host lists.
pub(super) fn read(replies: &Replies<'_>, index: usize, registry: &Registry) -> (Vec<Member>, Option<Failure>) {
    let mut team = local(registry);
    let listed = replies.parse::<evidence::Found>(index).and_then(|found| {
        let agents = found.data.get("agents").cloned().unwrap_or(Value::Null);
        let wrong = |error: serde_json::Error| Failure::new(FailureKind::Invalid, format!("{REGISTRY} gave no list of agents: {error}"));
        serde_json::from_value::<Vec<Member>>(agents).map_err(wrong)
    });
    let (known, failure) = match listed {
        Ok(known) => (known, None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    for mut member in known {
        let is_name =
            |name: &str| !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(|c| c.is_control() || c.is_whitespace());
        if !is_name(&member.capability) || !is_name(&member.name) || member.name == super::FINISH || team.len() >= MEMBERS_MAX {
            continue;
        }
        // An agent with a specialist's capability replaces the specialist, whatever name it uses.
        member.capability = registry.canonical_capability(&member.capability).to_owned();
        member.address = evidence::visible(&member.address).chars().filter(|c| !c.is_whitespace()).take(ADDRESS_CHARS_MAX).collect();
        let line = evidence::defused(&member.about).split_whitespace().collect::<Vec<_>>().join(" ");
        member.about = line.chars().take(ABOUT_CHARS_MAX).collect();
        match team.iter_mut().find(|other| other.capability == member.capability) {
            // Of two configured agents, the first healthy one.
            Some(other) if other.agent == other.name || (!other.healthy && member.healthy) => *other = member,
            Some(_) => {}
            None => team.push(member),
        }
    }
    (team, failure)
}

//! The list of flows of a program.

use std::fmt;
use std::sync::{Arc, OnceLock};

use graph::{Graph, GraphError};

use crate::descriptor::{Calls, Descriptor, Visibility};
use crate::settings::Setting;

/// The flows of a program, in display order. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<[Entry]>);

struct Entry {
    flow: Descriptor,
    /// The settings it declares; their schemas are generated once.
    settings: OnceLock<Vec<Setting>>,
}

/// A flow that is an agent of the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Specialist {
    /// The flow's name.
    pub flow: &'static str,
    /// Its name in plans.
    pub capability: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// One line for people.
    pub about: &'static str,
    /// Default port.
    pub port: u16,
}

/// Why a descriptor does not fit its flow.
#[derive(Debug)]
pub enum RegistryError {
    /// Its graph is not valid.
    Graph(GraphError),
    /// Two flows have the same name, or the graph has a different one.
    Name {
        /// The name of the flow.
        flow: &'static str,
    },
    /// It names a node that its graph does not have.
    NoNode {
        /// The name of the flow.
        flow: &'static str,
        /// The name of the node.
        node: &'static str,
    },
}

impl std::error::Error for RegistryError {}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Graph(error) => write!(f, "{error}"),
            RegistryError::Name { flow } => write!(f, "the name of the flow {flow} is taken, or is not the name of its graph"),
            RegistryError::NoNode { flow, node } => write!(f, "the flow {flow} has no node {node} that asks for an approval"),
        }
    }
}

/// The built-in flows.
impl Default for Registry {
    fn default() -> Self {
        Registry::new(crate::BUILT_IN.iter().copied())
    }
}

impl Registry {
    /// A registry of these flows.
    pub fn new(flows: impl IntoIterator<Item = Descriptor>) -> Registry {
        Registry(flows.into_iter().map(|flow| Entry { flow, settings: OnceLock::new() }).collect())
    }

    /// The same list with one flow appended.
    #[must_use]
    pub fn with(&self, flow: Descriptor) -> Registry {
        Registry::new(self.iter().copied().chain([flow]))
    }

    /// All flows, in display order.
    pub fn iter(&self) -> impl Iterator<Item = &Descriptor> {
        self.0.iter().map(|entry| &entry.flow)
    }

    /// The flow of this name.
    pub fn get(&self, name: &str) -> Option<&Descriptor> {
        self.iter().find(|flow| flow.name == name)
    }

    /// The names of all flows, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.iter().map(|flow| flow.name).collect();
        names.sort_unstable();
        names
    }

    /// The graphs of all flows, checked against their descriptors.
    pub fn graphs(&self) -> Result<Vec<Graph>, RegistryError> {
        let mut graphs: Vec<Graph> = Vec::new();
        for flow in self.iter() {
            let graph = (flow.graph)(self).map_err(RegistryError::Graph)?;
            if graph.name() != flow.name || graphs.iter().any(|other| other.name() == flow.name) {
                return Err(RegistryError::Name { flow: flow.name });
            }
            let drawing = graph.json();
            let has_node = |node: &str| drawing["nodes"].as_array().into_iter().flatten().any(|known| known["name"] == node);
            if let Some(&node) = flow.approvals.iter().find(|node| !has_node(node)) {
                return Err(RegistryError::NoNode { flow: flow.name, node });
            }
            graphs.push(graph);
        }
        Ok(graphs)
    }

    /// The flow that picks another for each question.
    pub fn router(&self) -> Option<&Descriptor> {
        self.iter().find(|flow| flow.calls == Calls::Routed)
    }

    /// The flows that the router may pick.
    pub fn routed(&self) -> impl Iterator<Item = &Descriptor> {
        self.iter().filter(|flow| flow.routing.is_some())
    }

    /// The flows that the router picks only where a request asks for them by a phrase.
    pub fn explicit(&self) -> impl Iterator<Item = &Descriptor> {
        self.iter().filter(|flow| flow.routing.is_none() && !flow.phrases.is_empty())
    }

    /// The flow used if none is named: the router, or else the first listed one.
    pub fn default_flow(&self) -> Option<&Descriptor> {
        self.router().or_else(|| self.iter().find(|flow| flow.visibility == Visibility::Listed))
    }

    /// The same where a script replaces models and tools.
    pub fn default_sample(&self) -> Option<&Descriptor> {
        self.iter().find(|flow| flow.visibility == Visibility::Sample)
    }

    /// Whether a flow can ask a person to approve its plan. The router passes the request on to the flow it picks.
    pub fn can_approve(&self, flow: &Descriptor) -> bool {
        !flow.approvals.is_empty() || (flow.calls == Calls::Routed && self.routed().chain(self.explicit()).any(|routed| !routed.approvals.is_empty()))
    }

    /// The agents of the team.
    pub fn specialists(&self) -> Vec<Specialist> {
        let specialist = |flow: &Descriptor| {
            let agent = flow.agent?;
            let (capability, aliases, port) = (agent.capability, agent.aliases, agent.port);
            Some(Specialist { flow: flow.name, capability, aliases, about: flow.description, port })
        };
        self.iter().filter_map(specialist).collect()
    }

    /// The agent with this name or capability, in any spelling: `DocumentCreator`, `document_creator`, `create_document`.
    pub fn specialist(&self, name: &str) -> Option<Specialist> {
        self.specialists().into_iter().find(|one| one.is_named(name))
    }

    /// The name of a capability as plans use it.
    pub fn canonical_capability<'a>(&self, name: &'a str) -> &'a str {
        self.specialist(name).map_or(name, |one| one.capability)
    }

    /// The flows that a flow calls and whose settings it passes on.
    pub(crate) fn members(&self, flow: &str) -> Vec<&'static str> {
        match self.get(flow).map(|flow| flow.calls) {
            Some(Calls::Routed) => self.routed().chain(self.explicit()).map(|flow| flow.name).collect(),
            Some(Calls::Named(flows)) => flows.to_vec(),
            Some(Calls::Agents) => self.iter().filter(|flow| flow.agent.is_some()).map(|flow| flow.name).collect(),
            Some(Calls::Nothing | Calls::Given) | None => Vec::new(),
        }
    }

    /// The settings that a flow declares itself; `None` if it takes none.
    pub(crate) fn declared(&self, flow: &str) -> Option<&[Setting]> {
        let entry = self.0.iter().find(|entry| entry.flow.name == flow)?;
        let declared = entry.flow.settings?;
        Some(entry.settings.get_or_init(|| declared.list()))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|flow| flow.name)).finish()
    }
}

impl Specialist {
    /// Whether this is one of its names, in any spelling.
    pub fn is_named(&self, name: &str) -> bool {
        let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
        let wanted = plain(name);
        [self.flow, self.capability].iter().chain(self.aliases).any(|known| plain(known) == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::is_plan_list;

    #[test]
    fn every_descriptor_fits_its_flow() {
        let registry = Registry::default();
        assert_eq!(registry.graphs().unwrap().len(), crate::BUILT_IN.len());
        for flow in registry.iter() {
            assert!(!flow.title.is_empty(), "{}", flow.name);
            let is_shown = flow.visibility == Visibility::Listed || flow.routing.is_some() || flow.agent.is_some();
            assert!(!is_shown || !flow.description.is_empty(), "{} has no description", flow.name);
            assert!(flow.plan.is_none_or(|plan| plan.lists.iter().all(|list| is_plan_list(list))), "{}", flow.name);
            assert!(flow.answer.is_none_or(|call| call == crate::ANSWER_CALL), "{}", flow.name);
            let substitutes = flow.routing.iter().flat_map(|routing| routing.substitutes);
            assert!(substitutes.copied().all(|other| registry.get(other).is_some_and(|other| other.routing.is_some())), "{}", flow.name);
        }
        for graph in registry.graphs().unwrap() {
            let passes_on = registry.get(graph.name()).is_some_and(|flow| matches!(flow.calls, Calls::Routed | Calls::Given));
            assert_eq!(graph.delegates(), passes_on, "{}", graph.name());
        }
        // The classifier was trained on these; another order or name needs new weights.
        assert_eq!(registry.routed().map(|flow| flow.name).collect::<Vec<_>>(), crate::auto::classify::FLOWS);
    }

    #[test]
    fn a_wrong_descriptor_is_an_error_that_names_the_flow() {
        let renamed = Descriptor { name: "renamed", ..crate::direct::FLOW };
        let unknown_node = Descriptor { approvals: &["no_such_node"], ..crate::direct::FLOW };
        for (list, words) in [
            (vec![crate::direct::FLOW, crate::direct::FLOW], "the name of the flow direct"),
            (vec![renamed], "the name of the flow renamed"),
            (vec![unknown_node], "the flow direct has no node no_such_node"),
        ] {
            let Err(error) = Registry::new(list).graphs() else { panic!("the list is wrong: {words}") };
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn the_agents_of_the_team_are_known_by_all_their_names() {
        let registry = Registry::default();
        for name in ["DocumentCreator", "document_creator", "create_document", "Writer"] {
            assert_eq!(registry.specialist(name).map(|one| one.flow), Some("writer"), "{name}");
        }
        assert_eq!(registry.canonical_capability("send_email"), "send_mail");
        assert_eq!(registry.canonical_capability("something_else"), "something_else");
    }
}

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Ask, Budget, Context, Digest, Go, Limits, Name, Node, Note, Replies};

/// The name of the end of every graph.
pub const END: &str = "end";

/// A flow: nodes, the edges between them, limits. Cheap to clone; its state type is erased, so that one driver can drive every flow.
#[derive(Clone)]
pub struct Graph(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) name: Name,
    pub(crate) nodes: Vec<NodeEntry>,
    pub(crate) start: usize,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    pub(crate) phases: Vec<Phase>,
    pub(crate) end: Name,
    /// The label of effects that have none, so that they share one.
    pub(crate) blank: Name,
    pub(crate) shape: Digest,
    pub(crate) behaviour: Box<dyn Behaviour>,
    /// Adds context from earlier runs to an input; `None` if the flow uses none.
    recall: Option<Recall>,
    delegates: bool,
    /// By node, the flows that it may start.
    calls: BTreeMap<String, Vec<String>>,
}

type Recall = Box<dyn Fn(&mut Value, &Context) -> bool + Send + Sync>;

pub(crate) struct NodeEntry {
    pub(crate) name: Name,
    /// Indices of nodes; `nodes.len()` is the end.
    pub(crate) edges: Vec<usize>,
}

/// Nodes that share one clock, which restarts each time `start` is entered or the phase was left.
pub(crate) struct Phase {
    pub(crate) name: Name,
    pub(crate) limit_us: u64,
    pub(crate) start: usize,
    pub(crate) nodes: BTreeSet<usize>,
}

impl Graph {
    /// Begins a graph over the state `S`. A run's input is read into `S` by serde, unless `input` defines how.
    pub fn of<S>(name: &str) -> Builder<S>
    where
        S: Serialize + DeserializeOwned + Send + 'static,
    {
        Builder {
            name: name.to_owned(),
            nodes: Vec::new(),
            start: None,
            limits: Limits::default(),
            budget: Budget::default(),
            phases: Vec::new(),
            input: Box::new(|value| serde_json::from_value(value).map_err(|e| e.to_string())),
            output: Box::new(|state| serde_json::to_value(state).unwrap_or(Value::Null)),
            recall: None,
            delegates: false,
            calls: BTreeMap::new(),
            keep: Box::new(|_| Vec::new()),
            phase_limit_ms: Box::new(|_, _| None),
            state: PhantomData,
        }
    }

    /// The name of the flow.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The limits of its runs.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// A digest of names and edges; two graphs that draw alike have the same.
    pub fn shape(&self) -> Digest {
        self.0.shape
    }

    /// Whether a run of it uses context from earlier runs.
    pub fn remembers(&self) -> bool {
        self.0.recall.is_some()
    }

    /// Adds context from earlier runs to an input, except where the caller has set it. Returns whether the added text may be other than the user's own words.
    pub fn recall(&self, input: &mut Value, context: &Context) -> bool {
        self.0.recall.as_ref().is_some_and(|recall| recall(input, context))
    }

    /// The names of its nodes, in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0.nodes.iter().map(|node| &*node.name)
    }

    /// The flows that a node may start as child runs, as far as they are known beforehand.
    pub fn calls(&self, node: &str) -> &[String] {
        self.0.calls.get(node).map_or(&[], Vec::as_slice)
    }

    /// The message for the name of a node that it does not have.
    pub fn no_node(&self, name: &str) -> String {
        let shown: String = name.chars().take(100).collect();
        format!("there is no node {shown:?}; there are: {}", self.nodes().collect::<Vec<_>>().join(", "))
    }

    /// Whether it passes on the answer of the flow it calls as its own.
    pub fn delegates(&self) -> bool {
        self.0.delegates
    }

    pub(crate) fn node_name(&self, index: usize) -> &Name {
        self.0.nodes.get(index).map_or(&self.0.end, |place| &place.name)
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({}, {} nodes)", self.0.name, self.0.nodes.len())
    }
}

type Input<S> = Box<dyn Fn(Value) -> Result<S, String> + Send + Sync>;
type Output<S> = Box<dyn Fn(&S) -> Value + Send + Sync>;
type Keep<S> = Box<dyn Fn(&S) -> Vec<Note> + Send + Sync>;
type PhaseLimit<S> = Box<dyn Fn(&S, &str) -> Option<u64> + Send + Sync>;
type NamedNode<S> = (String, Box<dyn Node<S>>, Vec<String>);

/// Builds a [`Graph`]: nodes, edges, and what applies to all of them.
#[must_use]
pub struct Builder<S> {
    name: String,
    nodes: Vec<NamedNode<S>>,
    start: Option<String>,
    limits: Limits,
    budget: Budget,
    phases: Vec<(String, u64, Vec<String>)>,
    input: Input<S>,
    output: Output<S>,
    recall: Option<Recall>,
    delegates: bool,
    calls: BTreeMap<String, Vec<String>>,
    keep: Keep<S>,
    phase_limit_ms: PhaseLimit<S>,
    state: PhantomData<fn() -> S>,
}

impl<S> Builder<S>
where
    S: Serialize + DeserializeOwned + Send + 'static,
{
    /// Adds a node and every place it may go to. The first node added is where runs start, unless `start` names another.
    pub fn node(mut self, name: &str, node: impl Node<S>, edges: &[&str]) -> Self {
        self.nodes.push((name.to_owned(), Box::new(node), edges.iter().map(|&edge| edge.to_owned()).collect()));
        self
    }

    /// Names the first node; without this it is the one that was added first.
    pub fn start(mut self, name: &str) -> Self {
        self.start = Some(name.to_owned());
        self
    }

    /// Sets the limits of its runs.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The budget of a run that is started without one.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Gives the nodes one clock of `limit_ms`. It restarts each time the first of them is entered. Effects that have no time
    /// left fail as `Limit`, which the node's `fold` can answer with something simpler.
    pub fn phase(mut self, name: &str, limit_ms: u64, nodes: &[&str]) -> Self {
        self.phases.push((name.to_owned(), limit_ms, nodes.iter().map(|&node| node.to_owned()).collect()));
        self
    }

    /// A run's own limit of a phase in milliseconds, by the phase's name; `None` keeps the graph's. It is read on entering a node, so that settings of a
    /// run can shorten or extend its phases.
    pub fn phase_limit_ms(mut self, limit_ms: impl Fn(&S, &str) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.phase_limit_ms = Box::new(limit_ms);
        self
    }

    /// How a run's input becomes its first state, for flows whose callers should not set every field of it.
    pub fn input<I: DeserializeOwned>(mut self, input: impl Fn(I) -> S + Send + Sync + 'static) -> Self {
        self.input = Box::new(move |value| serde_json::from_value(value).map(&input).map_err(|e| e.to_string()));
        self
    }

    /// The output of a finished run; by default the whole state.
    pub fn output(mut self, output: impl Fn(&S) -> Value + Send + Sync + 'static) -> Self {
        self.output = Box::new(output);
        self
    }

    /// How context from earlier runs is added to the input ([`Graph::recall`]), before the input is read.
    pub fn recall(mut self, recall: impl Fn(&mut Value, &Context) -> bool + Send + Sync + 'static) -> Self {
        self.recall = Some(Box::new(recall));
        self
    }

    /// Declares that the flow passes on the answer of the flow it calls as its own, so that watchers show that one's answer while it is generated.
    pub fn delegates(mut self) -> Self {
        self.delegates = true;
        self
    }

    /// Declares which flows a node may start as child runs, for those who draw the graph with theirs in it. It does not limit what the node asks for.
    pub fn calls<F: Into<String>>(mut self, node: &str, flows: impl IntoIterator<Item = F>) -> Self {
        self.calls.entry(node.to_owned()).or_default().extend(flows.into_iter().map(Into::into));
        self
    }

    /// The notes that a finished run leaves for later runs of the same flow.
    pub fn keep(mut self, keep: impl Fn(&S) -> Vec<Note> + Send + Sync + 'static) -> Self {
        self.keep = Box::new(keep);
        self
    }

    /// Checks the graph. An error names the node.
    pub fn build(self) -> Result<Graph, GraphError> {
        let graph = self.name.clone();
        let mut index = BTreeMap::new();
        for (at, (name, _, _)) in self.nodes.iter().enumerate() {
            if name == END || name.is_empty() {
                return Err(GraphError::Reserved { graph, node: name.clone() });
            }
            if index.insert(name.clone(), at).is_some() {
                return Err(GraphError::Twice { graph, node: name.clone() });
            }
        }
        let find = |name: &str| index.get(name).copied();

        let first = self.nodes.first().ok_or_else(|| GraphError::Empty { graph: graph.clone() })?.0.clone();
        let start_name = self.start.unwrap_or(first);
        let start = find(&start_name).ok_or_else(|| GraphError::NoStart { graph: graph.clone(), node: start_name })?;

        let end = self.nodes.len();
        let mut places = Vec::with_capacity(end);
        let mut behaviour = Vec::with_capacity(end);
        for (name, node, targets) in self.nodes {
            let mut edges = Vec::with_capacity(targets.len());
            for target in targets {
                let to = if target == END { Some(end) } else { find(&target) };
                edges.push(to.ok_or_else(|| GraphError::UnknownTarget { graph: graph.clone(), node: name.clone(), target })?);
            }
            places.push(NodeEntry { name: name.into(), edges });
            behaviour.push(node);
        }

        let reached = reach(end, &[start], |at| places.get(at).map_or(&[][..], |place| &place.edges));
        if let Some(lost) = (0..end).find(|at| !reached.contains(at)) {
            return Err(GraphError::Unreachable { graph, node: places[lost].name.to_string() });
        }
        let mut back: Vec<Vec<usize>> = vec![Vec::new(); end + 1];
        for (from, place) in places.iter().enumerate() {
            place.edges.iter().for_each(|&to| back[to].push(from));
        }
        let ending = reach(end, &[end], |at| &back[at]);
        if let Some(trapped) = (0..end).find(|at| !ending.contains(at)) {
            return Err(GraphError::NoWayOut { graph, node: places[trapped].name.to_string() });
        }

        if let Some(node) = self.calls.keys().find(|node| find(node).is_none()) {
            return Err(GraphError::UnknownCaller { graph, node: node.clone() });
        }

        let mut phases = Vec::new();
        for (name, limit_ms, members) in self.phases {
            let nodes = members
                .iter()
                .map(|member| {
                    find(member).ok_or_else(|| GraphError::UnknownPhaseNode { graph: graph.clone(), phase: name.clone(), node: member.clone() })
                })
                .collect::<Result<Vec<_>, _>>()?;
            let start = *nodes.first().ok_or_else(|| GraphError::EmptyPhase { graph: graph.clone(), phase: name.clone() })?;
            phases.push(Phase { name: name.into(), limit_us: limit_ms.saturating_mul(1_000), start, nodes: nodes.into_iter().collect() });
        }

        let mut inner = Inner {
            name: graph.into(),
            nodes: places,
            start,
            limits: self.limits,
            budget: self.budget,
            phases,
            end: END.into(),
            blank: "".into(),
            shape: Digest::of_text(""),
            behaviour: Box::new(TypedGraph {
                nodes: behaviour,
                input: self.input,
                output: self.output,
                keep: self.keep,
                phase_limit_ms: self.phase_limit_ms,
            }),
            recall: self.recall,
            delegates: self.delegates,
            calls: self.calls,
        };
        inner.shape = Digest::of_text(&crate::draw::mermaid(&inner));
        Ok(Graph(Arc::new(inner)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
/// Why a graph cannot be built.
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum GraphError {
    #[error("graph {graph} has no nodes")]
    Empty { graph: String },
    #[error("graph {graph}: a node may not be called {node:?}")]
    Reserved { graph: String, node: String },
    #[error("graph {graph}: there are two nodes called {node}")]
    Twice { graph: String, node: String },
    #[error("graph {graph} starts at {node}, which is not one of its nodes")]
    NoStart { graph: String, node: String },
    #[error("graph {graph}: node {node} has an edge to {target}, which is not one of its nodes")]
    UnknownTarget { graph: String, node: String, target: String },
    #[error("graph {graph}: node {node} cannot be reached from the start")]
    Unreachable { graph: String, node: String },
    #[error("graph {graph}: no way leads from node {node} to the end")]
    NoWayOut { graph: String, node: String },
    #[error("graph {graph}: phase {phase} names {node}, which is not one of its nodes")]
    UnknownPhaseNode { graph: String, phase: String, node: String },
    #[error("graph {graph}: flows are declared for {node}, which is not one of its nodes")]
    UnknownCaller { graph: String, node: String },
    #[error("graph {graph}: phase {phase} has no nodes")]
    EmptyPhase { graph: String, phase: String },
}

/// A state with erased type.
pub(crate) type State = Box<dyn Any + Send>;

/// The code of a flow behind the erased state type.
pub(crate) trait Behaviour: Send + Sync {
    fn begin(&self, input: Value) -> Result<State, String>;
    fn load(&self, value: Value) -> Result<State, String>;
    fn save(&self, state: &State) -> Result<Value, String>;
    fn ask(&self, node: usize, state: &State) -> Ask;
    fn fold(&self, node: usize, state: &mut State, replies: &Replies<'_>) -> Go;
    fn output(&self, state: &State) -> Value;
    fn keep(&self, state: &State) -> Vec<Note>;
    fn phase_limit_ms(&self, state: &State, phase: &str) -> Option<u64>;
}

struct TypedGraph<S> {
    nodes: Vec<Box<dyn Node<S>>>,
    input: Input<S>,
    output: Output<S>,
    keep: Keep<S>,
    phase_limit_ms: PhaseLimit<S>,
}

impl<S> Behaviour for TypedGraph<S>
where
    S: Serialize + DeserializeOwned + Send + 'static,
{
    fn begin(&self, input: Value) -> Result<State, String> {
        (self.input)(input).map(|state| Box::new(state) as State)
    }

    fn load(&self, value: Value) -> Result<State, String> {
        serde_json::from_value::<S>(value).map(|state| Box::new(state) as State).map_err(|e| e.to_string())
    }

    fn save(&self, state: &State) -> Result<Value, String> {
        serde_json::to_value(known::<S>(state)).map_err(|e| e.to_string())
    }

    fn ask(&self, node: usize, state: &State) -> Ask {
        self.nodes[node].ask(known(state))
    }

    fn fold(&self, node: usize, state: &mut State, replies: &Replies<'_>) -> Go {
        self.nodes[node].fold(state.downcast_mut::<S>().expect(ONE_TYPE), replies)
    }

    fn output(&self, state: &State) -> Value {
        (self.output)(known(state))
    }

    fn keep(&self, state: &State) -> Vec<Note> {
        (self.keep)(known(state))
    }

    fn phase_limit_ms(&self, state: &State, phase: &str) -> Option<u64> {
        (self.phase_limit_ms)(known(state), phase)
    }
}

const ONE_TYPE: &str = "a run's state is made by its own graph, which has one type";

fn known<S: 'static>(state: &State) -> &S {
    state.downcast_ref::<S>().expect(ONE_TYPE)
}

fn reach<'a>(count: usize, from: &[usize], edges: impl Fn(usize) -> &'a [usize]) -> BTreeSet<usize> {
    let mut reached: BTreeSet<usize> = from.iter().copied().collect();
    let mut open: Vec<usize> = from.to_vec();
    while let Some(at) = open.pop() {
        debug_assert!(at <= count);
        for &to in edges(at) {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

//! What a flow is, as one value that every interface reads: the command line, the API and its page, LangServe, the configuration and the router.
//!
//! ```text
//! folder of a flow ── FLOW: Descriptor ──┐
//! folder of a flow ── FLOW: Descriptor ──┼─► BUILT_IN ─► Registry ─► engine, commands, API, page data, LangServe, settings, router
//! flow of another program ───────────────┘
//! ```
//!
//! To add a flow, write its folder with a `FLOW` and put that into [`crate::BUILT_IN`]. A program with flows of its own passes them to [`Registry::new`].

use graph::{Graph, GraphError};
use serde_json::Value;

use crate::input::Question;
use crate::registry::Registry;
use crate::settings::SettingsType;

/// Everything about a flow other than its graph.
#[derive(Clone, Copy)]
pub struct Descriptor {
    /// The name in commands and the API. The graph has the same name.
    pub name: &'static str,
    /// Builds the graph. The registry is for flows that call others.
    pub graph: fn(&Registry) -> Result<Graph, GraphError>,
    /// Its title for people.
    pub title: &'static str,
    /// One sentence for users, without a full stop.
    pub description: &'static str,
    /// The name of an icon of the page; unknown names fall back to a general one.
    pub icon: &'static str,
    /// Who sees it.
    pub visibility: Visibility,
    /// When the router picks it; `None` if it does not by itself.
    pub routing: Option<Routing>,
    /// Beginnings of requests in lower case for which the router picks it, and for no others; for flows without [`Routing`].
    pub phrases: &'static [&'static str],
    /// The form of its input.
    pub input: InputKind,
    /// The flows it calls by name and whose settings it passes on.
    pub calls: Calls,
    /// The nodes that ask a person to approve a plan.
    pub approvals: &'static [&'static str],
    /// The note that contains its plan.
    pub plan: Option<PlanNote>,
    /// The purpose of the model call whose text is the answer and may be shown while it is generated.
    pub answer: Option<&'static str>,
    /// The type of its settings.
    pub settings: Option<SettingsType>,
    /// Set if it is also served as an agent of the team.
    pub agent: Option<Agent>,
}

/// Who sees a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Users can choose it.
    Listed,
    /// Shown where a script replaces models and tools.
    Sample,
    /// A part of other flows, which start it as a child run.
    Internal,
}

/// What a flow takes as its input.
#[derive(Clone, Copy)]
pub enum InputKind {
    /// [`crate::input::Input`].
    Question,
    /// The messages of a team ([`crate::turn`]), or a question.
    Messages,
    /// An input type of its own, made from a question by this function.
    Own(fn(&Question<'_>) -> Value),
}

/// The flows that a flow calls by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// None.
    Nothing,
    /// One of those with a [`Routing`], whose answer it passes on. A flow of this kind is the router.
    Routed,
    /// The flow named in its input, whose answer it passes on.
    Given,
    /// Those with an [`Agent`].
    Agents,
    /// These.
    Named(&'static [&'static str]),
}

/// When the router picks a flow.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    /// What it is for, as the routing model reads it.
    pub purpose: &'static str,
    /// Requests for which it is right. A small model follows examples better than descriptions.
    pub examples: &'static [&'static str],
    /// What it requires.
    pub needs: Needs,
    /// Flows that do nearly the same, best first, for when this one is not available.
    pub substitutes: &'static [&'static str],
    /// If it fails without having changed anything, another flow may answer.
    pub may_be_replaced: bool,
}

/// What a flow requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it can always run.
    Nothing,
    /// Earlier messages in the thread.
    Conversation,
    /// At least one tool, or documents.
    Tools,
}

/// A flow as an agent of the team.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    /// Its name in plans.
    pub capability: &'static str,
    /// Other names for it or its capability.
    pub aliases: &'static [&'static str],
    /// Where it listens unless the configuration names another port.
    pub port: u16,
}

/// Where a flow publishes its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanNote {
    /// The name of the note.
    pub note: &'static str,
    /// The fields that are lists of steps; see [`is_plan_list`].
    pub lists: &'static [&'static str],
}

/// Whether a field of a note, or of an answer to a question about a plan, is a list of steps: `tasks`, `steps`, `research_steps`, `sections`.
pub fn is_plan_list(name: &str) -> bool {
    matches!(name.rsplit('_').next(), Some("tasks" | "steps" | "sections"))
}

impl Descriptor {
    /// A listed flow that takes a question, calls no other and has no settings. The other fields are set with `..Descriptor::new(…)`.
    pub const fn new(name: &'static str, graph: fn(&Registry) -> Result<Graph, GraphError>) -> Descriptor {
        Descriptor {
            name,
            graph,
            title: name,
            description: "",
            icon: name,
            visibility: Visibility::Listed,
            routing: None,
            phrases: &[],
            input: InputKind::Question,
            calls: Calls::Nothing,
            approvals: &[],
            plan: None,
            answer: None,
            settings: None,
            agent: None,
        }
    }

    /// The input of a run for a question.
    pub fn input_for(&self, question: &Question<'_>) -> Value {
        match self.input {
            InputKind::Question | InputKind::Messages => question.input(),
            InputKind::Own(input) => input(question),
        }
    }
}

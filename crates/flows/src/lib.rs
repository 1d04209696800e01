//! What Baton can do, as graphs: each flow is plain functions over its own state, and says in effects what it needs.
//!
//! [`auto`] is the front door and picks one of the others; [`direct`] is the shortest way to an answer, [`search`] plans, looks up and writes it with
//! sources, [`report`] does so for the sections of an outline, [`chat`] goes by intent, [`reason`] plans and reflects, [`panel`] has critics, [`supervise`] leads a team of agents, of which the [`specialist`]s are
//! ours; [`completion`] stands before a flow for chat clients with tools or forms of their own. Each is a folder with its prompts as files beside it; what they
//! share is [`descriptor`], [`input`], `approval`, [`settings`], [`turn`], [`context`], [`follow_up`], [`prompt`], [`toolbox`], `claims`, [`no_model`] and [`answer`]. The two [`sample`]s are small but whole: they plan, fan out, loop, ask a person, call one
//! another and live with every failure.
//!
//! Deliberately absent: IO, async, clocks, chance. A flow that wants to know something asks for it and folds the reply; a test
//! looks at `cargo tree` that it stays so.

pub mod answer;
mod approval;
pub mod auto;
pub mod chat;
mod claims;
pub mod completion;
pub mod context;
pub mod descriptor;
pub mod direct;
pub mod follow_up;
pub mod input;
pub mod no_model;
pub mod panel;
pub mod prompt;
pub mod reason;
mod registry;
pub mod report;
pub mod sample;
pub mod search;
pub mod settings;
pub mod specialist;
pub mod supervise;
pub mod toolbox;
pub mod turn;
mod verify;

#[cfg(test)]
mod driven;
#[cfg(test)]
mod played;

pub use claims::NOT_ANSWERED;
pub use descriptor::{Agent, Calls, Descriptor, InputKind, Needs, PlanNote, Routing, Visibility};
pub use registry::{Registry, RegistryError, Specialist};
pub use verify::Verify;

use graph::Graph;

/// Every flow that comes with Baton, in the order in which people are shown them. A new flow is added here.
pub const BUILT_IN: &[Descriptor] = &[
    auto::FLOW,
    direct::FLOW,
    search::FLOW,
    chat::FLOW,
    reason::FLOW,
    panel::FLOW,
    report::FLOW,
    supervise::FLOW,
    specialist::researcher::FLOW,
    specialist::writer::FLOW,
    specialist::mailer::FLOW,
    panel::RESEARCHER_FLOW,
    panel::EXPERT_FLOW,
    chat::IMPORT_FLOW,
    completion::FLOW,
    sample::research::FLOW,
    sample::team::FLOW,
];

/// The purpose of model calls whose text is the answer; see [`Descriptor::answer`].
pub const ANSWER_CALL: &str = "answer";

/// The graphs of every flow that comes with Baton.
pub fn all() -> Result<Vec<Graph>, RegistryError> {
    Registry::default().graphs()
}

/// A script for `world`'s scripted world under which every sample runs from end to end.
pub const SCRIPT: &str = include_str!("sample/sample.script");

//! The built-in flows, as graphs: each flow is plain functions over its own state, and requests effects.
//!
//! [`auto`] is the default and picks one of the others; [`direct`] is the shortest path to an answer, [`search`] plans, looks up and answers with sources,
//! [`report`] does so for the sections of an outline,
//! [`chat`] goes by intent, [`reason`] plans and reflects, [`panel`] has critics, [`supervise`] leads a team of agents, of which the [`specialist`]s are
//! built in; [`completion`] wraps a flow for chat clients with their own tools or schemas. Each is a folder with its prompts as files; shared modules are
//! [`descriptor`], [`input`], `approval`, [`settings`], [`turn`], [`context`], [`follow_up`], [`prompt`], [`toolbox`], `claims`, [`no_model`] and [`answer`]. The two
//! [`sample`]s are small but complete: they plan, fan out, loop, ask a person, call each other and handle every failure.
//!
//! Not here: IO, async, clocks, randomness. A flow that needs information requests an effect and folds its reply; `lab/tests/walls.rs` checks the
//! dependencies.

#![warn(missing_docs)]

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

pub use claims::{NOT_ANSWERED, NOT_SUPPORTED};
pub use descriptor::{Agent, Calls, Descriptor, InputKind, Needs, PlanNote, Routing, Visibility};
pub use registry::{Registry, RegistryError, Specialist};
pub use verify::Verify;

use graph::Graph;

/// Every built-in flow, in display order. A new flow is added here.
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

/// The graphs of all built-in flows.
pub fn all() -> Result<Vec<Graph>, RegistryError> {
    Registry::default().graphs()
}

/// A script for the scripted handler under which every sample runs to completion.
pub const SCRIPT: &str = include_str!("sample/sample.script");

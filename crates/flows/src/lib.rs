//! What Baton can do, as graphs: each flow is plain functions over its own state, and says in effects what it needs.
//!
//! [`auto`] is the front door and picks one of the others; [`direct`] is the shortest way to an answer, [`search`] plans, looks up and writes it with
//! sources, [`chat`] goes by intent, [`reason`] plans and reflects, [`panel`] has critics, [`supervise`] leads a team of agents, of which the [`specialist`]s are
//! ours. Each is a folder with its prompts as files beside it; what they
//! share is [`input`], [`settings`], [`turn`], [`context`], [`follow_up`], [`prompt`], [`toolbox`], `claims` and [`answer`]. The two [`sample`]s are small but whole: they plan, fan out, loop, ask a person, call one
//! another and live with every failure.
//!
//! Deliberately absent: IO, async, clocks, chance. A flow that wants to know something asks for it and folds the reply; a test
//! looks at `cargo tree` that it stays so.

pub mod answer;
pub mod auto;
pub mod chat;
mod claims;
pub mod context;
pub mod direct;
pub mod follow_up;
pub mod input;
pub mod panel;
pub mod prompt;
pub mod reason;
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

use graph::{Graph, GraphError};

/// Every flow there is.
pub fn all() -> Result<Vec<Graph>, GraphError> {
    ALL.iter().map(|flow| flow()).collect()
}

const ALL: &[fn() -> Result<Graph, GraphError>] = &[
    auto::flow,
    chat::flow,
    chat::importer,
    direct::flow,
    panel::flow,
    panel::researcher,
    panel::expert,
    reason::flow,
    search::flow,
    specialist::mailer::flow,
    specialist::researcher::flow,
    specialist::writer::flow,
    supervise::flow,
    sample::research::flow,
    sample::team::flow,
];

/// A script for `world`'s scripted world under which every sample runs from end to end.
pub const SCRIPT: &str = include_str!("sample/sample.script");

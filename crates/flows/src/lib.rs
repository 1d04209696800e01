//! What Baton can do, as graphs: each flow is plain functions over its own state, and says in effects what it needs.
//!
//! [`direct`] is the shortest way to an answer, [`chat`] goes by intent, [`reason`] plans and reflects, [`panel`] has critics. search, supervise and
//! the front door will each be a folder here too, with their prompts as files beside them. Two [`sample`]s, small but whole, are there to try the
//! machine with: they plan, fan out, loop, ask a person, call one another and live with every failure.
//!
//! Deliberately absent: IO, async, clocks, chance. A flow that wants to know something asks for it and folds the reply; a test
//! looks at `cargo tree` that it stays so.

pub mod answer;
pub mod chat;
pub mod direct;
pub mod input;
pub mod panel;
pub mod prompt;
pub mod reason;
pub mod sample;
pub mod toolbox;

#[cfg(test)]
mod played;

use graph::{Graph, GraphError};

/// Every flow there is.
pub fn all() -> Result<Vec<Graph>, GraphError> {
    ALL.iter().map(|flow| flow()).collect()
}

const ALL: &[fn() -> Result<Graph, GraphError>] =
    &[chat::flow, direct::flow, panel::flow, panel::researcher, panel::expert, reason::flow, sample::research::flow, sample::team::flow];

/// A script for `world`'s scripted world under which every sample runs from end to end.
pub const SCRIPT: &str = include_str!("sample/sample.script");

//! The state machine: what a flow is and how a run of it proceeds, as plain values.
//!
//! A flow is a [`Graph`] of nodes. A [`Node`] is two pure functions: `ask(state)` returns the effects it needs,
//! `fold(state, replies)` updates the state and returns the next node. A [`Run`] is a value that holds one execution:
//!
//! ```text
//!            ┌───────────── next() ─────────────┐
//!   start ──►│ Perform(jobs) · Await · Wait(…)  │──► Done(outcome)
//!            └───── feed(task, reply) ◄─────────┘
//! ```
//!
//! There is no clock, no socket, no async and no randomness in here. Everything that ever happened to a run is its list of
//! journal entries ([`Entry`]), so a run can be rebuilt from them at any moment, in any process, to the byte.
//!
//! A whole driver, by hand:
//!
//! ```
//! use baton_graph::{Ask, Go, Graph, Next, Replies, Reply, Run, Start, END};
//! use serde_json::{json, Value};
//!
//! #[derive(Default, serde::Serialize, serde::Deserialize)]
//! #[serde(default)]
//! struct Hello { name: String, answer: String }
//!
//! let greet = (
//!     |s: &Hello| Ask::one(baton_graph::tool("greet", json!({ "name": s.name }))),
//!     |s: &mut Hello, replies: &Replies| {
//!         s.answer = replies.value(0).ok().and_then(Value::as_str).unwrap_or("nobody").to_owned();
//!         Go::end()
//!     },
//! );
//! let graph = Graph::of::<Hello>("hello").node("greet", greet, &[END]).build()?;
//!
//! let mut run = Run::start(&graph, Start::new("hello", "thread-1", "run-1", json!({ "name": "Ada" })))?;
//! let mut journal = Vec::new();
//! let outcome = loop {
//!     match run.next() {
//!         Next::Perform(jobs) => for job in jobs {
//!             let entry = run.feed(job.task, job.attempt, Reply::ok(json!("Hello, Ada")))?;
//!             journal.extend(entry);
//!         },
//!         Next::Await | Next::Wait(_) => unreachable!("every job is answered at once"),
//!         Next::Done(outcome) => break outcome,
//!     }
//! };
//! assert_eq!(outcome.output().unwrap()["answer"], "Hello, Ada");
//! assert_eq!(journal.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod addresses;
mod ask;
mod budget;
mod draw;
mod effect;
mod entry;
mod error;
mod event;
mod fill;
mod graph;
mod key;
mod limits;
mod memory;
mod node;
mod reply;
mod run;

pub use addresses::{Addresses, is_mailbox};
pub use ask::{Ask, AskError, Backoff, Need, Placeholder, Request};
pub use budget::{Budget, Reserve, Usage};
pub use effect::{AgentCall, Effect, Message, ModelCall, Question, ToolCall, ToolSpec, agent, model, person, tool};
pub use entry::{ENTRY_VERSION, Entry, EntryError, Origin, Parent, RunContext, Start};
pub use error::{FeedError, Mismatch, RunError};
pub use event::{Event, NumberedEvent};
pub use graph::{Builder, END, Graph, GraphError};
pub use key::{Digest, Key, RunId, TaskId, ThreadId, UserId, child_run};
pub use limits::Limits;
pub use memory::{Context, Note, NoteScope, WITHOUT_FINDINGS};
pub use node::{Go, Node, Replies};
pub use reply::{Failure, FailureKind, Reply, Retry};
pub use run::{
    ALLOW_ALL, Breakpoint, Consent, DefinitionPart, EVERY_NODE, Fault, HeldCall, Job, Next, Objection, Outcome, Run, Snapshot, SnapshotError,
    StepState, ToolDefinition, Verdict, Waiting,
};

/// A name shared by many events and jobs; cloning it costs a counter.
pub type Name = std::sync::Arc<str>;

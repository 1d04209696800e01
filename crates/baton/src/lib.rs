//! Durable agent flows as a library.
//!
//! A flow is a [`Graph`] of nodes. Each node is two pure functions: one returns which effects it needs (a model call, a tool call, a question to a
//! person, another flow), the other applies the replies to the state and returns which node is next. The [`Engine`] performs the effects through a
//! [`EffectHandler`], writes every reply to the [`Store`] before the flow sees it, and resumes unfinished runs after a crash.
//!
//! ```
//! use baton::{tool, Ask, Go, Graph, Replies, END};
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! #[derive(Default, Serialize, Deserialize)]
//! #[serde(default)]
//! struct State {
//!     city: String,
//!     report: String,
//! }
//!
//! let flow = Graph::of::<State>("weather")
//!     .node(
//!         "look_up",
//!         (
//!             |state: &State| Ask::one(tool("weather.today", json!({ "city": state.city }))),
//!             |state: &mut State, replies: &Replies| match replies.parse(0) {
//!                 Ok(report) => {
//!                     state.report = report;
//!                     Go::end()
//!                 }
//!                 Err(failure) => Go::fail(failure.message),
//!             },
//!         ),
//!         &[END],
//!     )
//!     .build()?;
//! assert_eq!(flow.name(), "weather");
//! # Ok::<(), baton::GraphError>(())
//! ```
//!
//! An engine runs it. Here a script answers the tool call, and the store is in memory; [`SqliteStore`] survives a crash:
//!
//! ```
//! use std::sync::Arc;
//!
//! use baton::{Ask, RunState, END, Engine, Go, Graph, MemoryStore, Order, Replies, Settings, tool};
//! use scripted::ScriptedHandler;
//! use serde_json::{Value, json};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let measure = (
//!     |state: &Value| Ask::one(tool("text.length", json!({ "text": state["name"] }))),
//!     |state: &mut Value, replies: &Replies| {
//!         state["length"] = replies.value(0).cloned().unwrap_or_default();
//!         Go::end()
//!     },
//! );
//! let flow = Graph::of::<Value>("measure").node("measure", measure, &[END]).build()?;
//! let world = ScriptedHandler::parse("when tool text.length reply 12")?;
//! let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(world), [flow], Settings::default());
//!
//! let (_, at) = engine.perform(Order::new("measure", json!({ "name": "Ada Lovelace" }))).await?;
//! let RunState::Over(closing) = at else { return Err("the run has not ended".into()) };
//! assert_eq!(closing.outcome.output().ok_or("it ends well")?["length"], 12);
//! # Ok(())
//! # }
//! ```
//!
//! The examples show the rest, one subject each: `custom_flow`, `custom_tool`, `custom_model`, `axum_service` and `test_a_flow`
//! (`cargo run -p baton --example custom_flow`).

#![warn(missing_docs)]

pub use effects::handlers::EffectHandlers;
pub use effects::{EffectHandler, LookUp, Progress, Repeatability};
pub use engine::{Engine, EngineError, FeedItem, Order, RunResult, RunState, Settings, Watcher};
pub use graph::{
    Ask, Budget, Builder, END, Effect, Event, Failure, FailureKind, Go, Graph, GraphError, Job, Key, Message, ModelCall, Next, Node, Outcome,
    Placeholder, Replies, Reply, Request, Run, RunId, Start, TaskId, ThreadId, ToolCall, Usage, UserId, Waiting, agent, model, person, tool,
};
pub use store::{Durability, MemoryStore, SqliteSettings, SqliteStore, Store, StoreError};

#[cfg(feature = "embedded-model")]
pub use embedded_model;
#[cfg(feature = "mcp")]
pub use mcp_hub;
#[cfg(feature = "models")]
pub use models;
#[cfg(feature = "scripted")]
pub use scripted;

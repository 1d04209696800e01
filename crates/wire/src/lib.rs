//! Other people's JSON, and our own API: data only, no IO.
//!
//! - [`api`]: what `baton serve` receives and sends under `/api`.
//! - [`registry`]: what `baton registry` says over HTTP, and the lists of servers that official registries publish.
//! - [`langserve`]: LangServe's requests, replies and streams, and LangChain's messages.
//! - [`openai`]: chat completions and responses of OpenAI's API.
//! - [`a2a`]: cards, messages and tasks of agents that speak A2A.
//! - [`agui`]: what front ends that speak AG-UI send.
//!
//! - [`langgraph`]: what clients of a LangGraph server send.
//!
//! One file a protocol.

pub mod a2a;
pub mod agui;
pub mod api;
pub mod inspect;
pub mod langgraph;
pub mod langserve;
pub mod openai;
pub mod registry;
pub mod timestamp;

//! Other people's JSON, and our own API: data only, no IO.
//!
//! - [`api`]: what `baton serve` says and hears under `/api`.
//! - [`registry`]: what `baton registry` says over HTTP, and the lists of servers that official registries publish.
//! - [`langserve`]: LangServe's requests, replies and streams, and LangChain's messages.
//!
//! Room is kept for LangGraph, OpenAI and A2A, one file a protocol.

pub mod api;
pub mod langserve;
pub mod registry;

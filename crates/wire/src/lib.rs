//! The JSON of all HTTP protocols, as data types without IO, one module for each protocol.
//!
//! - [`api`]: requests and responses of `baton serve` under `/api`.
//! - [`inspect`]: responses of the API for authors of flows: steps, states and journal of a run.
//! - [`registry`]: the API of `baton registry`, and the lists of servers that official registries publish.
//! - [`langserve`]: LangServe's requests, replies and streams, and LangChain's messages.
//! - [`openai`]: chat completions and responses of OpenAI's API.
//! - [`a2a`]: cards, messages and tasks of the A2A protocol.
//! - [`agui`]: requests of AG-UI front ends.
//! - [`langgraph`]: requests of clients of a LangGraph server.

#![warn(missing_docs)]

#[expect(missing_docs, reason = "fields and variants are those of the A2A specification")]
pub mod a2a;
pub mod agui;
pub mod api;
pub mod inspect;
#[expect(missing_docs, reason = "fields and variants are those of the LangGraph server API")]
pub mod langgraph;
#[expect(missing_docs, reason = "fields and variants are those of LangServe and LangChain")]
pub mod langserve;
#[expect(missing_docs, reason = "fields and variants are those of the OpenAI API")]
pub mod openai;
pub mod registry;
pub mod timestamp;

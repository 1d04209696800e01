//! Other people's JSON, and our own API: data only, no IO.
//!
//! The room is kept for LangServe, LangGraph, OpenAI and A2A, one file a protocol. Nothing is in it yet.

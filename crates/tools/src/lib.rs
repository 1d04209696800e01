//! The tools that come with Baton, each an MCP server of its own.

pub mod docs;

//! Both ends for the official MCP conformance suite, and for tests with real processes.
//!
//! - [`server`]: a server with the tools, prompts and resources that the suite asks for by name. It is mounted by the same pieces
//!   that the registry stands on (`server::mcp`, `server::guard`).
//! - [`client`]: does what a scenario wants done, through the hub that flows use (`mcp_hub`).
//!
//! `lab/peers/mcp` runs the suite against both, and other people's clients and servers too.

pub mod client;
pub mod server;

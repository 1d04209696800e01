//! Both ends for the official MCP conformance suite, and for tests with real processes.
//!
//! - [`server`]: a server with the tools, prompts and resources that the suite expects. It uses the same parts as the registry
//!   (`server::mcp`, `server::guard`).
//! - [`client`]: performs a scenario through the hub that flows use (`mcp_hub`).
//!
//! `lab/peers/mcp` runs the suite against both, and third-party clients and servers too.

pub mod client;
pub mod server;

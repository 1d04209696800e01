//! The whole, tried together. Nothing depends on this crate.
//!
//! - [`sim`]: seeded runs of random graphs and of the sample flows, cut at every point and compared with the uncut run.
//!   `cargo run --release -p lab --bin simulate` is its command.
//! - [`kill`]: what the real-process kill test and its victim (`--bin victim`) share.
//! - [`mcp`]: both ends for the MCP conformance suite (`--bin mcp_server`, `--bin mcp_client`); `peers/mcp` runs it.
//! - `tests/`: the kill test, properties, bad input. `benches/`: what a step costs.

pub mod kill;
pub mod mcp;
pub mod sim;

//! Tests of the whole system. Nothing depends on this crate.
//!
//! - [`sim`]: seeded runs of random graphs and of the sample flows, cut at every point and compared with the uncut run. `cargo run
//!   --release -p baton-lab --bin simulate` is its command.
//! - [`kill`]: shared by the real-process kill tests and their victims (`--bin victim`, `--bin flow_victim`).
//! - [`provider`]: models, mailbox and encyclopedia behind a socket. [`setup`]: effect handlers connected to them. [`person`]: answers the
//!   questions of runs.
//! - [`team`]: the agents and the supervisor as processes of `baton`, for the specification's story.
//! - [`fleet`]: a hundred workers on one store with kills and cut connections, in simulated time: `cargo run -p baton-lab --bin fleet`.
//! - [`soak`]: half an hour of mixed load against the real server: `cargo run --release -p baton-lab --bin soak`.
//! - [`router`]: trains the classifier of the flow `auto`: `cargo run -p baton-lab --bin train_router`.
//! - [`mcp`]: both ends for the MCP conformance suite (`--bin mcp_server`, `--bin mcp_client`); `peers/mcp` runs it.
//! - `tests/`: the kill tests, whole flows, properties, bad input, and which test covers which item of the specification. `benches/`: the
//!   cost of a step.

pub mod fleet;
pub mod kill;
pub mod mcp;
pub mod person;
pub mod provider;
pub mod router;
pub mod setup;
pub mod sim;
pub mod soak;
pub mod team;

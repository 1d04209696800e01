//! The whole, tried together. Nothing depends on this crate.
//!
//! - [`sim`]: seeded runs of random graphs and of the sample flows, cut at every point and compared with the uncut run.
//!   `cargo run --release -p baton-lab --bin simulate` is its command.
//! - [`kill`]: what the real-process kill tests and their victims (`--bin victim`, `--bin flow_victim`) share.
//! - [`provider`]: models, mailbox and encyclopedia on the other side of a socket. [`setup`]: effect handlers that are connected to them.
//!   [`person`]: who answers what a run asks.
//! - [`team`]: the agents and the supervisor as processes of `baton`, for the document's story.
//! - [`fleet`]: a hundred workers on one store with kills and cut connections, in simulated time: `cargo run -p baton-lab --bin fleet`.
//! - [`soak`]: half an hour of everything at once against the real server: `cargo run --release -p baton-lab --bin soak`.
//! - [`hostile`]: hostile users beside others against the real server: `lab/peers/hostile`. What they send: `lab/hostile`.
//! - [`router`]: trains the classifier of the flow `auto`: `cargo run -p baton-lab --bin train_router`.
//! - [`mcp`]: both ends for the MCP conformance suite (`--bin mcp_server`, `--bin mcp_client`); `peers/mcp` runs it.
//! - `tests/`: the kill tests, whole flows, properties, bad input, and which test stands for which item of the specification. `benches/`: what a step costs.

pub mod fleet;
pub mod hostile;
pub mod kill;
pub mod mcp;
pub mod person;
pub mod provider;
pub mod router;
pub mod setup;
pub mod sim;
pub mod soak;
pub mod team;

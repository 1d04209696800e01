//! Runs on a Restate server: it decides which worker drives a run and which performs an effect, and tries again when a worker is gone.
//!
//! ```text
//!   baton serve ──► store: the run's beginning ──► Restate: BatonThread/THREAD/drive ──► a worker: Engine::drive
//!        ▲                                                                                │ one call per effect, by the effect's key
//!        └── store: journal, events, tokens ◄── worker ◄── Restate: BatonEffect/perform ◄─┘
//! ```
//!
//! The journal of a run is in the shared store, as on every other engine, so that the page, the command line and all protocols read it there.
//! Restate's journal has what lies between two commits of that journal: the calls in flight and their replies. An invocation of `drive` that is tried
//! again does not replay its journal. It opens the run from the store and makes its open calls again with the same idempotency keys, and so
//! gets the replies of those that were answered meanwhile and waits for those that go on.
//!
//! - [`client`]: submits runs, registers workers.
//! - [`worker`]: what a worker serves; `drive.rs` and `perform.rs` are its two handlers, `protocol.rs` implements Restate's service protocol.
//! - [`bare`]: a service without Baton, which benchmarks compare a worker with.
//!
//! Deliberately absent: the loop that drives a run (`engine`), SQL, and what effects mean.

#![warn(missing_docs)]

pub mod bare;
pub mod client;
mod crashes;
mod drive;
mod identity;
mod job;
mod listen;
mod manifest;
mod memo;
mod perform;
mod protocol;
mod remote;
pub mod worker;

pub use bare::BareService;
pub use client::{Client, ClientError};
pub use remote::Calls;
pub use worker::{Worker, WorkerSettings};

/// Runs of one thread are driven one after the other: the thread is the key of a virtual object.
const THREAD_SERVICE: &str = "BatonThread";
const DRIVE: &str = "drive";
/// Performs one attempt at one effect.
const EFFECT_SERVICE: &str = "BatonEffect";
const PERFORM: &str = "perform";

//! Simulation: seeded runs under the real engine, cut at every point, with replies shuffled, delayed, failed and duplicated. Each must end
//! like the uncut run.
//!
//! ```text
//!   seed ─► case ─► run uncut ─► count the points ─► for each point: run, cut there, continue ─► compare with uncut
//!            │         ▲                                          ▲
//!            │         └────────────── harness: gate · handler · person · ledger
//!            └ flow, asks: a random family of graphs, or a sample flow
//! ```

pub mod asks;
pub mod case;
pub mod check;
pub mod dice;
pub mod flow;
pub mod gate;
pub mod handler;
pub mod harness;
pub mod home;
pub mod ledger;
pub mod person;
pub mod samples;
pub mod sweep;

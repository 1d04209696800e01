//! The other side of every wire, on loopback: what a run meets outside when no key, no network and no chance may take part.
//!
//! - [`dialect`] and [`server`]: model servers in each vendor's words, behaving well or badly. [`thought`]: what the model behind them says.
//! - [`web`]: an encyclopedia to search. [`mailbox`]: somebody who takes mails.

pub mod dialect;
pub mod mailbox;
pub mod scripted_thought;
pub mod server;
pub mod web;

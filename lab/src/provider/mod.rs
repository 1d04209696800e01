//! External services on loopback, without keys, network and randomness.
//!
//! - [`dialect`] and [`server`]: model servers with each vendor's API, behaving well or badly. [`scripted_thought`]: the replies of the model behind
//!   them.
//! - [`web`]: an encyclopedia to search. [`mailbox`]: an SMTP server.

pub mod dialect;
pub mod mailbox;
pub mod scripted_thought;
pub mod server;
pub mod web;

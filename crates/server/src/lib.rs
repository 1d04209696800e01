//! One file per protocol, each a map to the engine and back; and the page.
//!
//! The room is kept; nothing is in it yet.

//! The whole, tried together.

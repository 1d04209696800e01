//! Models. So far the embedded one.

pub mod embedded;
